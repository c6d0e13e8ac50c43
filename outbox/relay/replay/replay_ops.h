/* SPDX-License-Identifier: MIT */
/* The ops of a replay: rows that a lane has published, from its table (replay_table.h) or from the
 * binary log (replay_log.h). Adapters fill what these two read, tests do so from a model. One
 * thread.
 *
 * RC_RETRY: try again later. RC_FATAL: an operator has to act. */
#ifndef OUTBOX_RELAY_REPLAY_REPLAY_OPS_H
#define OUTBOX_RELAY_REPLAY_REPLAY_OPS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/relay_row.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the rows of a replay come from. It has a place behind which a later replay goes on. */
struct replay_source {
    void *ctx;
    /* Empties the batch and reads the next rows that are selected into it, which may be none at
     * present: *complete tells that there are none left. All rows of the batch are done. After a
     * failure the same rows are read next. */
    enum rc (*read)(void *ctx, struct relay_batch *batch, bool *complete, struct err *err);
    /* The rows before batch->next are done: moves the place behind them or, if these are all rows
     * of the batch, behind all that was read. */
    void (*pass)(void *ctx, const struct relay_batch *batch);
};

/* Rows of a table whose seqs were saved together as published. */
struct replay_entry {
    int64_t number;
    struct buf seqs; /* as seq_ranges.h has them */
};

struct replay_table_ops {
    void *ctx;
    /* Reads the first entry of the lane from one number to another. The memory of entry->seqs is
     * used again. */
    enum rc (*entry)(void *ctx, int64_t from, int64_t to, struct replay_entry *entry, bool *found,
                     struct err *err);
    /* Passes the rows of these seqs that the replay is to publish to on_row, in the order of seq,
     * at most rows_max of them. */
    enum rc (*rows)(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                    source_on_row on_row, void *on_row_ctx, struct err *err);
};

/* A place in the binary log, between two transactions of a file. */
struct replay_log_at {
    char file[BINLOG_FILE_SIZE];
    uint64_t offset; /* below 2^32, as streams are opened there; 4: the begin of a file */
};

/* The rows of the table that are committed before it, and so many behind it, are done. */
struct replay_log_place {
    struct replay_log_at at;
    uint64_t rows;
    char server[POSITION_SERVER_SIZE]; /* its identity: files are those of one server */
};

struct replay_log_ops {
    void *ctx;
    struct stream_log log;
    /* Reads when a file of the log was begun, in ms since 1970. number: from 0, the oldest one. */
    enum rc (*file_begin)(void *ctx, size_t number, int64_t *begin_ms, struct err *err);
    /* Whether the lane had published the transaction at this place before the replay began. */
    bool (*is_published)(void *ctx, const struct stream_place *place);
};

#endif
