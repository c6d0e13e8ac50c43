/* SPDX-License-Identifier: MIT */
/* The slots of a retry process: which slot holds which task in flight, and what a claimed task
 * takes from its row (job, destination, age). Decides whether a claimed row is a new task or a
 * task that is already in flight here and continues under its new epoch. Only the dispatcher's
 * thread calls these functions. */
#ifndef OUTBOX_RETRY_TASK_SLOTS_H
#define OUTBOX_RETRY_TASK_SLOTS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/destinations.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/scenes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A task that a claim brought. */
struct claimed_task {
    struct slot *slot;
    int64_t epoch;
    bool known; /* it is in flight since an earlier claim */
};

struct task_slots {
    struct pool *pool;
    const struct groups *groups;
    struct destinations destinations;
    struct slot *free;
    size_t free_count;
    struct slot **index; /* of tasks in flight by id, chains */
    size_t index_mask;
    int64_t bytes;                /* of all tasks in flight */
    bool stale_scene;             /* a claim found one; the dispatcher clears it */
    struct claimed_task *claimed; /* by the claim under way */
    size_t claimed_count;
    struct buf scratch;
    struct buf destination_name; /* scratch, too */
};

/* Takes the slots of the pool, which must be empty. RC_FATAL: no memory. pool and groups are
 * borrowed. */
enum rc task_slots_init(struct task_slots *slots, struct pool *pool, const struct groups *groups,
                        struct err *err);
/* A zeroed struct may be passed, too. */
void task_slots_done(struct task_slots *slots);

/* The task in the slot is too old to be begun. */
bool task_slot_is_expired(const struct slot *slot, int64_t now_ms);

/* The task in the slot is no longer in flight; its slot is free. */
void task_slots_free(struct task_slots *slots, struct slot *slot);

/* Do the groups, as last read, allow the task in the slot? False: the slot holds the result of an
 * attempt that did not begin. */
bool task_slots_check(struct task_slots *slots, struct slot *slot);

/* A claim: task_slots_begin() before the statement, task_slots_claim() for each row of it, which is
 * of this kind, then task_slots_lease() when the tasks were claimed, or task_slots_drop() when they
 * were not, or the answer was lost. sent_ms is from before the statement that made the leases last
 * lease_ms. */
void task_slots_begin(struct task_slots *slots);
void task_slots_claim(struct task_slots *slots, struct kind *kind, const struct task_row *row,
                      int64_t now_ms);
void task_slots_drop(struct task_slots *slots);
void task_slots_lease(struct task_slots *slots, int64_t sent_ms, int64_t lease_ms);

#endif
