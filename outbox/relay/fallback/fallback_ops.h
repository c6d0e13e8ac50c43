/* SPDX-License-Identifier: MIT */
/* How the reader of a stream lane lets its lane go on from the table, when the server has purged
 * the log at the position. table_fallback.h fills the ops, tests by a model. The reader's thread.
 */
#ifndef OUTBOX_RELAY_FALLBACK_FALLBACK_OPS_H
#define OUTBOX_RELAY_FALLBACK_FALLBACK_OPS_H

#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

struct fallback_ops {
    void *ctx;
    /* Begins to publish the rows of the table that are not saved as published, under the lease with
     * this epoch. No other step of the lane holds a row, and the caller saves no position until it
     * has ended. At most unsaved_max rows are published and not saved as published. NULL: the lane
     * does not go on from its table. */
    void (*begin)(void *ctx, int64_t epoch, int64_t unsaved_max);
    /* Returns whether it has ended, once, with the result. RC_OK: the lane has a position in the
     * log again. RC_RETRY: begin again later, at what is saved then. RC_FATAL: the same, and an
     * operator has to act. The reader is woken when it has ended. */
    bool (*ended)(void *ctx, enum rc *rc, struct err *err);
    /* Makes it end soon. Returns whether it has ended; its result is dropped then. */
    bool (*cancel)(void *ctx);
};

#endif
