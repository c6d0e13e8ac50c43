/* SPDX-License-Identifier: MIT */
/* Records of one partition on their way into one transaction. Decides what a record is: a vote, or
 * a dead record and why. A vote keeps nothing of its record, unless the batch is `whole`; a dead
 * record is kept whole. Pure; one thread at a time. */
#ifndef CONSUMER_INGEST_BATCH_H
#define CONSUMER_INGEST_BATCH_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the parts of a record that is kept whole lie in batch.bytes. */
struct batch_dead {
    int64_t offset;
    int64_t time_ms;
    bool has_key;
    bool has_value;
    size_t key_at;
    size_t value_at;
    size_t headers_at;
    size_t reason_at;
    size_t end;
    const char *reason_class;
};

struct batch {
    size_t rows_max;
    size_t bytes_max;
    struct vote_row *rows;
    size_t row_count;
    size_t row_size;            /* allocated */
    struct batch_dead *records; /* of the rows, in a whole batch */
    size_t record_size;
    struct batch_dead *dead;
    size_t dead_count;
    size_t dead_size;
    struct buf bytes;     /* of the records that are kept whole */
    bool whole;           /* votes keep their records too: some may have to go into dead_record */
    size_t record_bytes;  /* of all records, as they came */
    int64_t from_offset;  /* where its first record was looked for, or OFFSET_BEGINNING */
    int64_t next_offset;  /* behind its last record */
    int32_t leader_epoch; /* of its last record */
    int64_t oldest_ms;    /* time of its first record */
    int64_t begin_day;    /* of the log, as the claim said: votes from before it are dead */
};

/* Appends the headers of a record as JSON. */
typedef void (*batch_headers)(void *ctx, const struct record *record, struct buf *out);

/* Takes no memory yet; it will be bounded by rows_max rows and bytes_max bytes of records, plus one
 * record, and the headers of those that are kept whole. */
void batch_init(struct batch *batch, size_t rows_max, size_t bytes_max);
void batch_done(struct batch *batch);

/* Empties it for records from from_offset on. Keeps its memory, as far as that is in bounds. The
 * log begins with the first day of all until batch.begin_day is set, and it is not whole until
 * batch.whole is. */
void batch_reset(struct batch *batch, int64_t from_offset, int32_t leader_epoch);

/* Records in it, and how many more it takes: 0 when it is full. */
size_t batch_count(const struct batch *batch);
size_t batch_room(const struct batch *batch);

/* Adds the next record, also to a full batch. RC_FATAL: no memory, and the batch is as before. */
enum rc batch_add(struct batch *batch, const struct record *record, batch_headers headers,
                  void *headers_ctx, struct err *err);

/* No record lies between the batch's end and next_offset: it ends there. The leader epoch of what
 * lies there is not known. */
void batch_pass(struct batch *batch, int64_t next_offset);

/* Has it anything to tell the database: records, or offsets that hold none? */
bool batch_moves(const struct batch *batch);

/* Is a vote at next_offset or behind it from before begin_day? */
bool batch_has_older(const struct batch *batch, int64_t begin_day, int64_t next_offset);

/* Fills view with pointers that end with the next batch_add(). */
void batch_dead_view(const struct batch *batch, size_t index, struct dead_row *view);

/* The same for the record of a vote in a whole batch; reason_class and reason are borrowed. */
void batch_vote_view(const struct batch *batch, size_t index, const char *reason_class,
                     const char *reason, struct dead_row *view);

#endif
