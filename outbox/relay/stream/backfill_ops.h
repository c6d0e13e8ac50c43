/* SPDX-License-Identifier: MIT */
/* The ops of a backfill (backfill.h): the table of a lane, and which of its rows are published. An
 * adapter fills them from the table and relay_published, tests from a model. One thread.
 *
 * RC_RETRY: the command ends and can be run again. RC_REJECT and RC_FATAL: an operator has to act.
 */
#ifndef OUTBOX_RELAY_STREAM_BACKFILL_OPS_H
#define OUTBOX_RELAY_STREAM_BACKFILL_OPS_H

#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*backfill_on_range)(void *ctx, const struct seq_range *range);

struct backfill_ops {
    void *ctx;
    /* Writes the lowest seqs of the table that are above `after` and at most upto, ascending. */
    enum rc (*list)(void *ctx, int64_t after, int64_t upto, int64_t *seqs, size_t seqs_max,
                    size_t *count, struct err *err);
    /* Passes the ranges that are saved as published to on_range, in any order; those above upto may
     * be left out. */
    enum rc (*published)(void *ctx, int64_t upto, backfill_on_range on_range, void *on_range_ctx,
                         struct err *err);
    /* Waits until a row that was in the table before the call and is not saved as published after
     * it will not be published by the lane. NULL: that holds without waiting. */
    enum rc (*settle)(void *ctx, struct err *err);
    /* As in struct source. */
    enum rc (*read)(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                    source_on_row on_row, void *on_row_ctx, struct err *err);
    /* Saves these seqs as published: ascending, without repeats. Repeating it is harmless. */
    enum rc (*mark)(void *ctx, const int64_t *seqs, size_t count, struct err *err);
    /* As in struct diverter_ops. Both are NULL if refused rows stay in the table. */
    enum rc (*load_keys)(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err);
    enum rc (*move)(void *ctx, const struct relay_move *move, struct err *err);
    /* A row was refused, or, without a reason, follows a row of its key that was; it was moved, or
     * stays. */
    void (*on_refused)(void *on_refused_ctx, int64_t seq, bool moved, const struct err *why);
    void *on_refused_ctx;
    /* Keeps what protects the lane from a second publisher. RC_REJECT: it is lost. Called often. */
    enum rc (*hold)(void *ctx, struct err *err);
    /* The local clock. */
    int64_t (*time_ms)(void *ctx);
    /* Waits, also after a signal. Returns true when the command is to end. */
    bool (*wait)(void *ctx, int64_t wait_ms);
};

#endif
