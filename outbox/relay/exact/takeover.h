/* SPDX-License-Identifier: MIT */
/* How the reader of a lane that publishes exactly once gets its position, and what the sender needs
 * to know of the other steps. The producer belongs to the sender, so the reader asks:
 *
 * 1. READ: the sender makes a new producer, which fences all older ones, and reads the last
 *    position record that was committed.
 * 2. The reader decides between that record and relay_position.
 * 3. WRITE: the sender commits a record of this epoch with that position. From then on a producer
 *    of an earlier holder finds a record that is not its own, and gives the lane up.
 *
 * Invariant R18: a lane reads only from a position that its sender has committed with WRITE under
 * the lane's present lease (test_exactly_once). Each function may be called by any thread: the
 * lock is held for memory accesses only. */
#ifndef OUTBOX_RELAY_EXACT_TAKEOVER_H
#define OUTBOX_RELAY_EXACT_TAKEOVER_H

#include "common/err.h"
#include "outbox/relay/exact/position_record.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum takeover_order { TAKEOVER_NOTHING, TAKEOVER_READ, TAKEOVER_WRITE };

struct takeover {
    bool is_open;
    pthread_mutex_t lock; /* guards the fields up to saved_row */
    uint64_t asked;       /* number of the last request */
    uint64_t answered;    /* of the last answer; below asked: the sender has to act */
    enum takeover_order order;
    struct position_record record; /* to be written; or that was read */
    int64_t row;                   /* WRITE: the last row of the stream before the position */
    bool found;                    /* READ: there is a record */
    enum rc rc;
    struct err err;
    struct stream_position saved; /* the last one that the keeper has saved */
    int64_t saved_row;            /* and the last row before it; -1: none */
    uint64_t saved_reach;         /* how far it is, see position_record.saved */
    bool saved_by_gtid;

    atomic_bool reload; /* by the sender and the diverter: the reader begins again with READ */
    uint64_t maker;     /* of this process; set before its threads start */
};

/* What the reader knows under its lease. */
struct takeover_facts {
    const char *lane;
    int64_t epoch;  /* of the lease */
    uint64_t maker; /* of this process */
    bool found;     /* a record in Kafka */
    bool saved_found;
    const struct stream_position *saved; /* in relay_position; else only the server is set */
    const char *obstacle;                /* of lost_log_obstacle(), or NULL */
};

enum takeover_choice {
    TAKEOVER_USE_RECORD,
    TAKEOVER_USE_SAVED, /* relay_position */
    TAKEOVER_BEGIN,     /* the lane has no position yet */
};

/* Zeroes it. */
void takeover_init(struct takeover *takeover);

/* Accepts a zeroed one that was not initialised. */
void takeover_done(struct takeover *takeover);

/* For the reader. The record of a WRITE is copied; RC_FATAL: no memory. */
void takeover_ask_read(struct takeover *takeover);
enum rc takeover_ask_write(struct takeover *takeover, const struct position_record *record,
                           int64_t row, struct err *err);

/* For the reader. Returns whether the last request was answered, with *rc and err. After a READ
 * that returned RC_OK: *found, and the record, which is copied. */
bool takeover_take_answer(struct takeover *takeover, struct position_record *record, bool *found,
                          enum rc *rc, struct err *err);

/* For the reader. Decides from which position the lane begins, and makes the record to be written
 * of it; with TAKEOVER_BEGIN the caller adds the position.
 *
 * The saved one counts if it was saved under a later lease than that of the record: by a lane that
 * publishes at least once, or by a command. Otherwise it is a copy of the record's, and the record
 * tells how far the copy had come: one that is less far is in a database that went back, and the
 * rows that the record counts as published are others there. RC_FATAL: the record cannot be of this
 * lane, or of its database: err says what to do. That does not pass without a command, because
 * nothing but that moves the saved position. */
enum rc takeover_choose(struct position_record *record, const struct takeover_facts *facts,
                        enum takeover_choice *choice, struct err *err);

/* For the sender. Returns the request that waits for an answer, copies its record and row, and sets
 * its number. */
enum takeover_order takeover_peek(struct takeover *takeover, struct position_record *record,
                                  int64_t *row, uint64_t *number);

/* For the sender. Answers the request with this number; ignored if there is a later one. */
void takeover_answer(struct takeover *takeover, uint64_t number,
                     const struct position_record *record, bool found, enum rc rc,
                     const struct err *err);

/* For the keeper: this position is saved, and row is the last row before it. */
void takeover_note_saved(struct takeover *takeover, const struct stream_position *position,
                         int64_t row);

/* For the sender: the last row before the position that was saved last; -1: none. */
int64_t takeover_saved_row(struct takeover *takeover);

/* For the sender: the record was written, and its position is saved before a row is sent. */
void takeover_begin_saved(struct position_record *record);

/* For the sender: writes into the record how far the position is that was saved last, if rows above
 * this one are before it: one of an earlier begin has none of them. */
void takeover_put_saved(struct takeover *takeover, struct position_record *record, int64_t row);

/* For the sender. Copies the position that was saved last. Returns false when memory is exhausted
 * or there is none. */
bool takeover_copy_saved(struct takeover *takeover, struct stream_position *position, int64_t *row);

#endif
