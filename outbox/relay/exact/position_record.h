/* SPDX-License-Identifier: MIT */
/* The record that holds the position of a lane that publishes exactly once: one record for each
 * commit, in the same Kafka transaction as the records of the rows. Its text has one line for each
 * field, `name=value`; unknown names are ignored. Pure; one thread at a time for each record. */
#ifndef OUTBOX_RELAY_EXACT_POSITION_RECORD_H
#define OUTBOX_RELAY_EXACT_POSITION_RECORD_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/relay/relay_row.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Terms before the present one that a record keeps, while the lane has tasks in the retry queue. */
#define POSITION_TERMS_MAX 128

/* The commits from one take-over of the lane to the next one. */
struct position_term {
    int64_t epoch;
    uint64_t first; /* number of its first record */
    uint64_t last;  /* `row` of its last one that was committed */
};

/* A zeroed one is ready for use. */
struct position_record {
    int64_t epoch;   /* of the lane's lease; with number and maker it names the commit */
    uint64_t number; /* grows with each attempt to commit */
    uint64_t first;  /* of the term; 0: not known */
    uint64_t row;    /* the last one that is passed, as the rows are numbered in this term */
    struct position_term terms[POSITION_TERMS_MAX]; /* before this one, the oldest first */
    size_t term_count;
    uint64_t maker; /* random, of the process; 0: of a process that had none */
    struct stream_position position;
    uint64_t rows;   /* so many rows of the table behind the position are done, too */
    struct buf seqs; /* seq_ranges_put() of rows that relay_published may not have yet */
    bool emptied;    /* relay_published may have rows of before the table was emptied: forget all */
    bool begun;      /* the lane had no position: no row was sent before one was saved */
    uint64_t saved;  /* how far relay_position was known to be (takeover.c); 0: not known */
    bool saved_by_gtid;
};

#define POSITION_KEY_SIZE 512

/* Writes the key of the lane's record, which is its transactional id: lane.NAME.transactional_id,
 * or one made of the names of the database and the table. */
void position_record_key(char key[POSITION_KEY_SIZE], const struct lane_settings *lane,
                         const struct settings *settings);

/* Frees the memory. */
void position_record_done(struct position_record *record);

/* Empties the record and keeps its memory. */
void position_record_reset(struct position_record *record);

/* Copies a record and keeps the memory of `to`. Returns false when memory is exhausted. */
bool position_record_copy(struct position_record *to, const struct position_record *from);

/* Whether both are of the same commit. */
bool position_record_is_same(const struct position_record *a, const struct position_record *b);

/* The record is the last one of its term: adds the term to those before it, in place of the oldest
 * one when there are too many. */
void position_record_end_term(struct position_record *record);

/* Whether the position passed the row with this number, which was moved into the retry queue in the
 * term with this epoch and first record. */
enum position_cover {
    POSITION_BEFORE,  /* not yet: the lane may read the row again */
    POSITION_PASSED,  /* the lane does not read it again */
    POSITION_RETURNS, /* never: the lane has read the row again, or will */
    POSITION_UNKNOWN, /* the record does not tell any more */
};

/* last: the last record of the lane that was committed. */
enum position_cover position_record_cover(const struct position_record *last, int64_t epoch,
                                          uint64_t term, uint64_t row);

/* Appends the text; text->failed when memory is exhausted. */
void position_record_put(struct buf *text, const struct position_record *record);

/* Reads a text into an empty record. RC_FATAL: it is no such text; err says why. */
enum rc position_record_read(struct position_record *record, struct bytes text, struct err *err);

#endif
