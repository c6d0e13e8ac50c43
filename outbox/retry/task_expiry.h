/* SPDX-License-Identifier: MIT */
/* Ends tasks that wait and are older than the deadline of their scene, whichever process would run
 * them: they are claimed, and decided as exhausted without a run. The dispatcher's thread. */
#ifndef OUTBOX_RETRY_TASK_EXPIRY_H
#define OUTBOX_RETRY_TASK_EXPIRY_H

#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/scenes.h"
#include "outbox/retry/store_calls.h"
#include "outbox/retry/task_slots.h"
#include "outbox/retry/writeback.h"

#include <stddef.h>
#include <stdint.h>

/* The caller sets the pointers, which are borrowed. */
struct task_expiry {
    struct pool *pool;
    const struct retry_store *store; /* only its claim_expired */
    struct scenes *scenes;
    struct task_slots *slots;
    struct writeback *writeback;
    struct store_calls *calls;
    size_t chain_at; /* scene chain at which the next step continues */
};

/* Expires tasks of a bounded number of scenes. looks: as scenes_kind(). */
void task_expiry_step(struct task_expiry *expiry, uint64_t looks, int64_t now_ms);

#endif
