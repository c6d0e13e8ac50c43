/* SPDX-License-Identifier: MIT */
/* Fills the batches of a lane with the committed rows of a stream, in the order of commits.
 *
 * A row is passed on only when its transaction is known to be committed. Rows that do not fit into
 * a batch with those before them wait in a batch of this module, so its memory is that of one
 * batch. A transaction that is larger than a batch is read twice: the first time to find its end
 * and what it undoes, the second time to pass its rows on as they are read. Nothing before its end
 * tells that it stays: a server that crashes while it writes one cuts it off.
 *
 * Invariant R10: the rows passed on are those that are committed, each once, in the order of the
 * log, whatever the sizes of transactions and wherever reading begins again
 * (test_stream_batches). The reader's thread. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_BATCHES_H
#define OUTBOX_RELAY_STREAM_STREAM_BATCHES_H

#include "common/err.h"
#include "outbox/relay/relay_row.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of a large transaction that stay, counted as they come in the log; both ends belong to it.
 */
struct stream_run {
    uint64_t from;
    uint64_t to;
};

enum stream_state {
    STREAM_COLLECTS, /* rows wait for their commit */
    STREAM_SCANS,    /* a large transaction is read the first time */
    STREAM_PASSES,   /* the rows of a large transaction are passed on as they come */
};

struct stream_batches {
    struct stream_ops ops;
    struct relay_batch held;     /* rows of a transaction whose commit was not read yet */
    struct stream_change change; /* the last one */
    bool has_row;                /* it is a row that did not fit into the last batch */
    bool emptied;                /* the last batch ended where the table was emptied */
    enum stream_state state;
    uint64_t skip;           /* rows of the present transaction that were done when it was opened */
    uint64_t last_number;    /* STREAM_PASSES: of the last row in a batch, within the transaction */
    uint64_t seen;           /* rows of the present transaction that were read */
    struct stream_run *runs; /* those of them that stay */
    size_t run_count;
    size_t runs_size;
    size_t run; /* STREAM_PASSES: index of the first run that was not passed yet */
    struct stream_position start; /* of the large transaction */
};

/* rows_max and bytes: those of the lane's batches. RC_FATAL: no memory, and nothing is owned. */
enum rc stream_batches_init(struct stream_batches *batches, const struct stream_ops *ops,
                            size_t rows_max, size_t bytes, struct err *err);

/* Accepts a zeroed one. */
void stream_batches_done(struct stream_batches *batches);

/* Begins to read at a position and forgets all rows that were read and not passed on. */
enum rc stream_batches_open(struct stream_batches *batches, const struct stream_position *from,
                            struct err *err);

/* Empties the batch and fills it with committed rows, until it is full, or has rows_enough rows at
 * a commit, or the table was emptied, or the stream has nothing more at present, or 10,000 changes
 * were read; *more tells whether the stream may have more. The caller sets seq. If position is not
 * NULL, writes there the position right behind the last row of the batch. After RC_RETRY or
 * RC_FATAL the batch is empty, and only stream_batches_open() and stream_batches_done() may be
 * called. */
enum rc stream_batches_fill(struct stream_batches *batches, struct relay_batch *batch,
                            size_t rows_enough, struct stream_position *position, bool *more,
                            struct err *err);

#endif
