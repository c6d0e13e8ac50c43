/* SPDX-License-Identifier: MIT */
/* Decides whether a claimed task begins, and what becomes of it after its attempt (done, waiting
 * again, put off, exhausted), reports the attempt to the circuit breaker of its destination, and
 * writes the task updates to the table in batches. policy/policy.h has the rules of the decision.
 * Only the thread that claims the tasks calls these functions. */
#ifndef OUTBOX_RETRY_WRITEBACK_H
#define OUTBOX_RETRY_WRITEBACK_H

#include "common/condition.h"
#include "common/err.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/task_slots.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writeback {
    struct pool *pool;
    struct task_slots *slots;
    const struct retry_store *store; /* only its finish */
    struct pool_calls *calls;
    uint64_t *rng;
    struct slot **decided; /* to be written */
    size_t decided_count;
    size_t write_alone; /* updates still to be written one by one, to find the refused one */
    struct task_update *updates;
    enum task_written *written;
    bool more_due; /* a result made another task due; the dispatcher clears it */
    struct reasons logged;
    /* NULL, or called before the slot of a task becomes free. TASK_LOST: its update is void,
     * because the lease was lost, the database refused it twice, or an earlier COMMIT may have
     * worked. */
    void (*on_written)(void *ctx, struct slot *slot, enum task_written written, int64_t now_ms);
    void *on_written_ctx;
};

/* RC_FATAL: no memory. All pointers are borrowed; rng is the state of rng_next(). */
enum rc writeback_init(struct writeback *writeback, struct task_slots *slots,
                       const struct retry_store *store, struct pool_calls *calls, uint64_t *rng,
                       struct err *err);
/* A zeroed struct may be passed, too. */
void writeback_done(struct writeback *writeback);

/* Begins a claimed task: it waits for a thread from now on. Returns false when it must not begin,
 * because it is too old or too young, repeats an ended task, its group or a changed scene is in the
 * way, or its circuit breaker is open: its update is added to those that writeback_write() will
 * write. */
bool writeback_begin(struct writeback *writeback, struct slot *slot, int64_t now_ms);

/* Decides what becomes of the task in the slot from the result of its attempt, and adds the update
 * to those that writeback_write() will write. */
void writeback_add(struct writeback *writeback, struct slot *slot, int64_t now_ms);

/* Writes the decided updates and frees their slots. Returns false when updates are left; they are
 * not written before calls->at_ms[POOL_FINISH]. */
bool writeback_write(struct writeback *writeback, int64_t now_ms);

#endif
