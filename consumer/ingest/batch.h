/* SPDX-License-Identifier: MIT */
/* The records of one partition that one transaction applies, and the job that carries them from the
 * fetching step to an applying step and back. Decides whether each record is a vote, a tombstone
 * or dead, and why. Nothing of a vote's record is stored unless the batch is `whole`; a dead record
 * is stored with all its parts. Pure; one thread at a time: the step that has the job owns all of
 * it. */
#ifndef CONSUMER_INGEST_BATCH_H
#define CONSUMER_INGEST_BATCH_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The positions in batch.bytes of the parts of a stored record. */
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
    struct batch_dead *records; /* of the rows, if the batch is whole */
    size_t record_size;
    struct batch_dead *dead;
    size_t dead_count;
    size_t dead_size;
    struct buf bytes; /* of the stored records */
    /* the batch keeps the bytes of each vote's record, so that it can become a dead record */
    bool whole;
    size_t record_bytes;  /* size of keys and values of all records */
    int64_t from_offset;  /* where reading began, or OFFSET_BEGINNING */
    int64_t next_offset;  /* the offset after its last record */
    int32_t leader_epoch; /* of its last record */
    int64_t oldest_ms;    /* time of its first record */
    /* beginning of the log when the partition was claimed: older votes are dead */
    int64_t begin_day;
};

/* Appends the headers of a record as JSON. */
typedef void (*batch_headers)(void *ctx, const struct record *record, struct buf *out);

/* Allocates nothing yet. The batch is limited to rows_max rows and bytes_max bytes of records, plus
 * one record, and the headers of the stored ones. */
void batch_init(struct batch *batch, size_t rows_max, size_t bytes_max);
void batch_done(struct batch *batch);

/* Empties the batch for records from from_offset on. Keeps its memory within the limits. begin_day
 * becomes 0 and whole false until the caller sets them. */
void batch_reset(struct batch *batch, int64_t from_offset, int32_t leader_epoch);

/* The number of records in the batch, and how many more fit. */
size_t batch_count(const struct batch *batch);
size_t batch_room(const struct batch *batch);

/* Adds the next record, also to a full batch. RC_FATAL: no memory, and the batch is unchanged. */
enum rc batch_add(struct batch *batch, const struct record *record, batch_headers headers,
                  void *headers_ctx, struct err *err);

/* Moves the end of the batch to next_offset, because no record lies between. The leader epoch there
 * is unknown. */
void batch_pass(struct batch *batch, int64_t next_offset);

/* Whether the batch has records or moves the offset. */
bool batch_moves(const struct batch *batch);

/* Whether a vote at next_offset or later is from before begin_day. */
bool batch_has_older(const struct batch *batch, int64_t begin_day, int64_t next_offset);

/* Fills view with pointers that are valid until the next batch_add(). */
void batch_dead_view(const struct batch *batch, size_t index, struct dead_row *view);

/* The same for the record of a vote in a whole batch; reason_class and reason are borrowed. */
void batch_vote_view(const struct batch *batch, size_t index, const char *reason_class,
                     const char *reason, struct dead_row *view);

enum job_kind { JOB_CLAIM, JOB_APPLY };

enum job_end {
    JOB_DONE,
    JOB_FENCED,  /* see APPLY_FENCED: claim the partition again */
    JOB_AGAIN,   /* see APPLY_AGAIN: read the records again, into whole batches */
    JOB_DROPPED, /* the partition was revoked or restarted before the job was done */
    JOB_STOPPED, /* the database refuses it; err tells why */
};

/* The part of a partition that both steps use. */
struct holding {
    struct place place;
    /* changes when earlier jobs become void; written by the fetching step */
    atomic_uint generation;
};

/* Claim a partition, or apply a batch. */
struct job {
    enum job_kind kind;
    struct holding *holding;
    unsigned generation; /* of the holding, when the job was made */
    /* apply: the claimed row; claim: topic_id, and afterwards the claimed row */
    struct progress_row progress;
    struct batch batch; /* apply only */
    size_t small_rows;  /* records of a batch that is not full; otherwise 0 */
    enum job_end end;
    bool clear; /* of JOB_DONE: see struct apply_result */
    struct err err;
    struct job *next; /* in the pool */
};

#endif
