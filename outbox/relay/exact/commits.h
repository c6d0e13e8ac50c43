/* SPDX-License-Identifier: MIT */
/* The transactions of a lane that publishes exactly once. The sender sends rows as in any lane; the
 * rows that the broker acknowledged are held here until the transaction is committed together with
 * a position record behind them. Only then are they passed on.
 *
 * A transaction begins with the first row that is handled, and ends at the end of a batch when it
 * is COMMITS_AGE_MS old (COMMITS_BUSY_AGE_MS if it has COMMITS_BUSY_ROWS rows by then) or has
 * COMMITS_ROWS_MAX rows; soon, when the lane is idle; and at any row when the sender needs an empty
 * transaction (commits_end_for_all()).
 *
 * Invariant R19: a commit is attempted only when each row up to the position is committed, in this
 * transaction and acknowledged, or moved into the retry queue (test_exactly_once).
 * Invariant R20: before a row is moved into the retry queue, all earlier rows of its key are
 * committed, because those of an aborted transaction are sent again (test_exactly_once).
 * Such a row is read again until the position has passed it, so the retry role publishes its task
 * after that only (outbox/retry/handlers/exact_publisher_kafka.h).
 * Invariant R21: after a commit whose answer is lost, or any reset of the producer, nothing is sent
 * before a new producer has read the last record. It tells whether the rows are committed; if it
 * belongs to another holder, the lane is given up.
 * The sender's thread. */
#ifndef OUTBOX_RELAY_EXACT_COMMITS_H
#define OUTBOX_RELAY_EXACT_COMMITS_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/exact/takeover.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A transaction costs the broker some records beside those of the rows, and nothing is sent while
 * it is committed, so it should have many rows; but a row waits for its end. The first age is for a
 * median below 60 ms at 1,000 rows/s, the other one for a lane that drains a backlog
 * (`./dev bench relay_exactly_once`). */
#define COMMITS_AGE_MS 40
#define COMMITS_BUSY_ROWS 2000
#define COMMITS_BUSY_AGE_MS 200
#define COMMITS_IDLE_MS 10
#define COMMITS_ROWS_MAX 20000
/* A position that moved without rows of the lane is committed when it is so old. */
#define COMMITS_POSITION_MS 10000

/* A bit for each hash of a key that has a row in the transaction; a key that shares the bit of
 * another one costs a commit more. */
#define COMMITS_KEY_BITS 65536

struct commits {
    struct lane *lane; /* NULL: the lane publishes at least once */
    struct broker broker;
    struct takeover *takeover;
    struct backoff backoff;
    uint64_t rng;
    int64_t retry_ms; /* after a failure: nothing is tried before this time */
    bool failing;     /* lane->sending fails because of it */
    bool replaced;    /* the producer was, since commits_take_replaced() */

    int64_t epoch; /* of the lease under which `committed` was written; 0: none */
    struct position_record committed;  /* the last one */
    struct position_record next;       /* the last attempt; also what a claim reads */
    char server[POSITION_SERVER_SIZE]; /* of the log that the lane reads */
    uint64_t number;                   /* of the last attempt */
    bool unknown;                      /* whether `next` is committed */
    int64_t begin_row;     /* the last row before the position at which the lane began */
    int64_t committed_row; /* all rows up to this one are covered by `committed` */
    int64_t committed_ms;
    struct stream_position after; /* behind the last batch that was handled to its end */
    int64_t after_row;            /* the last row before it */
    int64_t emptied_row; /* the last row before the table was emptied last; -1: it was not */
    int64_t handled;     /* all rows up to this one were sent or queued to be moved */
    size_t sent;         /* rows that were sent in this transaction */
    int64_t begun_ms;    /* when its first row was handled */
    bool wants_end;

    struct seqs **held; /* blocks of rows that are acknowledged, or moved into the retry queue */
    size_t held_count;
    size_t held_moved; /* rows of these, or of the block that is filled, that were moved */
    int64_t *seqs;     /* relay_row.table_seq of each row above the saved position, by number */
    int64_t *sorted;
    size_t seqs_max;     /* a power of two */
    int64_t unsaved_max; /* of these rows there may be so many */
    int64_t seqs_row;    /* the seqs of the rows up to this one are saved */
    uint64_t keys[COMMITS_KEY_BITS / 64];
};

enum commits_result {
    COMMITS_SEND,    /* rows may be sent */
    COMMITS_WAIT,    /* no row may be sent now */
    COMMITS_ABORTED, /* the transaction was aborted: all rows have to be returned */
    COMMITS_FAILED,  /* as lane->sending says, nothing can be sent; it is tried again later */
    COMMITS_FENCED,  /* another process publishes this lane: the lease has to be given up */
};

/* Does nothing for a lane without a takeover. lane is borrowed until commits_done(), broker is
 * copied. RC_FATAL: no memory, and nothing is owned. */
enum rc commits_init(struct commits *commits, struct lane *lane, const struct broker *broker,
                     uint64_t seed, struct err *err);

/* Accepts a zeroed one. */
void commits_done(struct commits *commits);

/* Whether the lane publishes exactly once. All that follows is for such lanes only. */
bool commits_is_on(const struct commits *commits);

/* Whether there is a producer, or lane->sending fails because there is none; whether the producer
 * was fenced. False for any other lane. */
bool commits_has_producer(const struct commits *commits);
bool commits_is_fenced(const struct commits *commits);

/* The lease has ended: lane->sending does not fail because of it any more. */
void commits_end_lease(struct commits *commits);

/* Whether the producer was replaced since the last call: the partitions do not know the new one. */
bool commits_take_replaced(struct commits *commits);

/* Whether rows wait for the end of a transaction. */
bool commits_has_rows(const struct commits *commits);

/* Returns whether rows were sent in this transaction, or one of this key may have been. If so, the
 * transaction ends as soon as the rows in flight are acknowledged. False for any other lane. */
bool commits_end_for_all(struct commits *commits);
bool commits_end_for_key(struct commits *commits, uint64_t key);

/* Whether this row may be handled now. If not, the transaction ends soon. */
bool commits_may_handle(struct commits *commits, int64_t row, int64_t now_ms);

/* A row is queued to be moved: writes the term into the move. Does nothing for any other lane. */
void commits_name_move(struct commits *commits, struct relay_move *move);

/* A row was sent. */
void commits_add_key(struct commits *commits, uint64_t key);

/* A row was handled: it was sent, or queued to be moved. */
void commits_pass_row(struct commits *commits, const struct relay_row *row, int64_t now_ms);

/* The batch was handled to its end. Takes its position over. */
void commits_end_batch(struct commits *commits, struct relay_batch *batch);

/* Takes a block of rows over, acknowledged or moved. */
void commits_hold(struct commits *commits, struct seqs *block);

/* Adds a row that was moved into the retry queue to the block, which has room for it. It is not
 * done before its transaction is committed: until then a position behind it must not be saved,
 * because the next holder reads it again, and its task is void (position_record_cover()). */
void commits_hold_moved(struct commits *commits, struct seqs *block, int64_t row);

/* The producer was reset, and what was sent in the transaction was handled otherwise. */
void commits_forget_sent(struct commits *commits);

/* The transaction is given up: returns the rows that it holds to the reader. The sender returns all
 * others, and resets the producer. */
void commits_give_up(struct commits *commits);

/* Of the sender. */
struct commits_input {
    struct seqs **acks; /* its block of acknowledged rows, or NULL there; a commit takes it over */
    bool has_flight;    /* rows are in flight */
    bool has_batch;     /* it has a batch with rows to be sent */
    bool breaker_open;  /* lane->sending fails because of it */
};

/* Answers the reader's requests, claims the lane, and ends the transaction if that is due. While
 * the lease drains nothing is claimed: the next holder reads the last record in any case. */
enum commits_result commits_step(struct commits *commits, const struct commits_input *input,
                                 int64_t now_ms, struct err *err);

/* In how many ms commits_step() is due, at most wait_ms. */
int64_t commits_wait_ms(const struct commits *commits, int64_t wait_ms, int64_t now_ms);

#endif
