/* SPDX-License-Identifier: MIT */
/* A backfill publishes the rows of a lane's table that are not saved as published, in the order of
 * seq, and saves them as published. It is run by a command; the lane does not read these rows: they
 * are not in the log, or are before its position.
 *
 * Rows are published in batches, and each batch is saved as published after all of it was
 * acknowledged. So a kill repeats the rows of one batch at most, and loses none. If the broker
 * fails, the rows of the batch that were not acknowledged are sent again, in order.
 *
 * A refused row, and each later row of its key, is moved into the retry queue, as by the lane, or
 * stays in the table without being saved as published (backfill_ops.move).
 *
 * Invariant R16: a row is saved as published only after it was acknowledged or moved, and no row of
 * a key is sent behind one that is neither (test_backfill). One thread. */
#ifndef OUTBOX_RELAY_STREAM_BACKFILL_H
#define OUTBOX_RELAY_STREAM_BACKFILL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/relay_row.h"
#include "outbox/relay/stream/backfill_ops.h"
#include "outbox/relay/topics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Seqs that are listed at once. */
#define BACKFILL_LIST_MAX 10000

/* Rows of one batch. */
#define BACKFILL_ROWS_MAX 1000

/* Seqs of which it is known at once whether they are published: a bit for each. */
#define BACKFILL_WINDOW_SEQS (INT64_C(1) << 24)

struct backfill_result {
    int64_t found; /* rows that were not saved as published */
    int64_t first_seq;
    int64_t last_seq;
    int64_t published;
    int64_t moved; /* into the retry queue */
    int64_t left;  /* refused, or behind a refused row of their key */
};

struct backfill {
    struct backfill_ops ops;
    struct broker broker;
    const struct settings *settings;
    int64_t give_up_ms; /* it ends when nothing was acknowledged for so long */
    struct topics topics;
    struct backfill_result result;

    int64_t *listed;
    int64_t *again;   /* listed a second time */
    uint64_t *window; /* bits of the seqs that are saved as published */
    int64_t window_from;
    bool window_known;

    uint64_t *keys; /* hashes of the keys that are not sent any more; open addressing, 0: free */
    size_t key_slots;
    size_t key_count;

    struct relay_batch batch;
    uint8_t *states; /* of its rows */
    bool full;       /* a row did not fit into it */
    bool single;     /* its rows are sent one by one: one of them was refused */
    size_t in_flight;
    bool ending;  /* a signal came: nothing more is sent */
    bool failed;  /* a row of this round was not acknowledged */
    bool refused; /* and one was refused */
    struct err why;
    int64_t worked_ms; /* when a row was acknowledged last */
};

/* Borrows lane and settings, copies ops and broker. RC_FATAL: no memory, or a topic rule of the
 * lane that cannot be used; and nothing is owned. */
enum rc backfill_init(struct backfill *backfill, const struct backfill_ops *ops,
                      const struct broker *broker, const struct lane_settings *lane,
                      const struct settings *settings, int64_t give_up_ms, struct err *err);

/* Accepts a zeroed one. */
void backfill_done(struct backfill *backfill);

/* Finds the rows up to this seq, and publishes them with may_publish. result counts them, also
 * after a failure; it may then be run again. RC_OK also when rows were refused. RC_RETRY also after
 * a signal: what was in flight was waited for, and is saved as published. */
enum rc backfill_run(struct backfill *backfill, int64_t upto, bool may_publish, struct err *err);

#endif
