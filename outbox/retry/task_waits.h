/* SPDX-License-Identifier: MIT */
/* What due tasks wait for although the database answers: a handler that no live process runs, a
 * group that is closed, a scene that cannot be read, room for another kind. Decides from a count of
 * all tasks what is logged and what one line a minute reminds of. Only the dispatcher's thread
 * calls these functions. */
#ifndef OUTBOX_RETRY_TASK_WAITS_H
#define OUTBOX_RETRY_TASK_WAITS_H

#include "common/err.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/scenes.h"

#include <stdbool.h>
#include <stdint.h>

/* Of one count. Zeroed: nothing waits. */
struct task_waits {
    struct {
        int64_t age_ms; /* of the oldest task that waits for it; 0: there is none */
        struct err err;
    } list[POOL_WAITS];
    struct pool_unserved unserved;
};

/* Adds tasks of the count. scene may be NULL. served: a live process runs the handler. closed: why
 * the group is closed, or NULL. */
void task_waits_add(struct task_waits *waits, const struct task_depth *depth,
                    const struct scene *scene, bool served, const struct err *closed);

/* Ends the count: logs what is new and what is over, and sets the conditions of the pool. left_out:
 * of the last search, see struct scenes. */
void task_waits_report(struct task_waits *waits, struct pool *pool, size_t left_out,
                       int64_t now_ms);

#endif
