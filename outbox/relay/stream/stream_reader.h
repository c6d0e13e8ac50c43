/* SPDX-License-Identifier: MIT */
/* The reader of a stream lane, its first step instead of reader.h. It takes batches of committed
 * rows from the pump, numbers the rows and passes them to the sender, and takes the rows that the
 * other steps return. It never waits for a server.
 *
 * The number of a row (relay_row.seq) is its place in the stream since the lease began. After a
 * failure the stream is read again from a position before the lowest row that was returned, and
 * rows that are done or in the hands of another step are skipped (row_progress.h).
 *
 * A row that is `left` (diverted_keys.h) is read again when a full scan begins, which is soon: the
 * position cannot pass the row. A full scan reads from the lowest row that is not done.
 *
 * When the server has purged the log at the position, the reader waits until all rows have
 * returned and what is done of them is saved, and lets the fallback publish the others from the
 * table (fallback_ops.h). Then it gives the lease up, and the next holder begins anew.
 *
 * Invariant R12: the position that the keeper saves is never behind a row that is not acknowledged
 * or moved into the retry queue, and the position at which a lane begins is saved before its first
 * row is sent (test_stream_lane). The reader's thread. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_READER_H
#define OUTBOX_RELAY_STREAM_STREAM_READER_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/fallback/fallback_ops.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/stream/position_store.h"
#include "outbox/relay/stream/row_progress.h"
#include "outbox/relay/stream/stream_keeper.h"
#include "outbox/relay/stream/stream_pump.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the lane goes on from its table, because the server has purged the log. */
enum reader_place {
    READER_IN_LOG,
    READER_LEAVES_LOG, /* its rows return, and what is done is saved */
    READER_IN_TABLE,   /* the fallback was asked */
};

/* How far a lane that publishes exactly once has come with its position (exact/takeover.h). */
enum reader_takeover { READER_ASKS, READER_READS, READER_WRITES, READER_HAS_POSITION };

struct stream_reader {
    struct lane *lane;
    struct stream_pump *pump;
    struct stream_keeper *keeper;
    struct position_store positions;
    struct fallback_ops fallback; /* begin is NULL: the lane does not go on from its table */
    struct row_progress progress;
    enum published_kind
        kind;      /* which of these are saved, as long as the lease; the other is none */
    int64_t *seqs; /* relay_row.table_seq of each row above added; NULL: nothing is saved */
    struct published_id *ids;                /* relay_row.id; NULL: they are not saved */
    bool told;                               /* it was logged that an id is too long */
    int64_t added;                           /* the rows up to this one were added to the keeper */
    struct pump_batch batches[LANE_BATCHES]; /* of lane->batches, in their order */
    int64_t emptied_row; /* the last row before the table was emptied last; -1: it was not */
    bool tell_emptied;   /* the keeper has to be told, with the first position behind that */
    size_t with_sender;  /* batches that the sender has */
    size_t with_others;  /* rows that were passed on and did not return */

    int64_t epoch;       /* of the lease under which it reads; 0: it does not read */
    int64_t begun_epoch; /* of the lease whose first position was offered to the keeper */
    enum reader_takeover takeover;
    int64_t takeover_epoch;        /* of the lease for which it was asked */
    struct position_record record; /* that it begins with */
    bool log_went_back;            /* the server lacked transactions before the record */
    bool reads;                    /* the pump was told to read */
    enum reader_place place;
    int64_t place_epoch; /* of the lease under which the log was left */
    bool has_read;       /* a batch came since the lease began */
    bool hurried;        /* the keeper was asked to save at once */
    int64_t reread_from; /* lowest row to read again at once, or INT64_MAX */
    bool has_left;       /* rows were left in this full scan */
    int64_t left_ms;     /* when a row was left first */
    uint64_t scan;       /* number of the full scan */

    struct stream_position passed; /* behind the last batch that was passed on */
    bool has_passed;               /* it is not marked yet */
    int64_t mark_row;              /* last row and time at the last mark */
    int64_t mark_ms;
    struct backoff backoff;
    int64_t retry_ms; /* after a failure: nothing is read before this time */
    uint64_t rng;

    int64_t current_ms; /* all rows that were committed before this time are done; 0: unknown */
    int64_t end_row;    /* when the stream was at its end last: the last row read */
    int64_t end_ms;     /* and the time; 0: it waits for no such row */
    bool at_end;        /* and nothing was read since */
};

/* Initialises the reader and gives all batches of the lane to the pump. Borrows all parameters
 * until stream_reader_done(), but copies positions; seed is 64 random bits. RC_FATAL: no memory,
 * and nothing is owned. */
enum rc stream_reader_init(struct stream_reader *reader, struct lane *lane,
                           struct stream_pump *pump, struct stream_keeper *keeper,
                           const struct position_store *positions, uint64_t seed, struct err *err);

/* The lane goes on from its table when the server has purged the log at the position. Before the
 * first step; the ops are copied. */
void stream_reader_use_fallback(struct stream_reader *reader, const struct fallback_ops *fallback);

/* Accepts a zeroed reader. */
void stream_reader_done(struct stream_reader *reader);

/* Runs one step: passes the batches on that the pump has filled. Returns in how many ms the next
 * step is due. It has the type of a loop_step. */
int64_t stream_reader_step(void *reader, int64_t now_ms);

#endif
