/* SPDX-License-Identifier: MIT */
/* The retry lane's first and last step: finds classes of tasks that are due, decides which of them to
 * claim and how many, hands what it got to the runners, and writes back what became of it.
 *
 * What filters classes is decided before a claim: the scene is paused, its group is disabled, its rate is
 * spent, nobody here has the handler, the shard is another process'. Where a task goes is known once it is claimed; one
 * whose destination's circuit breaker is open is put off, see destinations.h. Classes
 * take turns, the oldest due first, each with a bounded number of tasks, and a scene takes no more
 * room than it leaves free. While claims come back full and there is room it does not rest. It never
 * waits for a task: the lease of every task in flight is the keeper's business. */
#ifndef OUTBOX_RETRY_POLLER_H
#define OUTBOX_RETRY_POLLER_H

#include "common/backoff.h"
#include "common/err.h"
#include "common/said.h"
#include "outbox/retry/destinations.h"
#include "outbox/retry/groups.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_seam.h"
#include "outbox/retry/scenes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A class that has waiting tasks. */
struct poller_class {
    struct task_class class;
    struct kind *kind;
    int64_t due_ms; /* of its first task; INT64_MAX: nothing more before the next look */
};

/* A task that a claim brought. */
struct poller_claimed {
    struct slot *slot;
    int64_t epoch;
    bool known; /* it is in flight since an earlier claim */
};

struct poller {
    struct pool *pool;
    struct retry_store store;
    struct scenes scenes;
    struct groups groups;
    struct pool_worker inline_worker; /* with no threads */
    uint64_t dice;

    struct poller_class *classes;
    size_t class_count;
    size_t class_at; /* of the round */
    uint64_t looks;

    struct slot *free;
    size_t free_count;
    struct slot **index; /* of tasks in flight by id, chains */
    size_t index_mask;
    int64_t bytes; /* of all tasks in flight */

    struct poller_claimed *claimed;
    size_t claimed_count;
    struct slot **judged; /* to be written back */
    size_t judged_count;
    size_t write_alone; /* so many are written one by one: one of them is refused */
    struct task_result *results;
    bool *lost;
    struct slot **taken; /* scratch */
    struct buf scratch;
    struct destinations destinations;
    struct buf destination_name; /* scratch, too */

    bool scenes_read; /* the last reading of scenes and groups succeeded */
    size_t expire_at; /* chain of scenes from which the next look for expired tasks goes on */
    bool round_full;  /* a class may have more that is due */
    bool round_short; /* a class was not claimed from for want of room */
    int64_t looked_ms;
    int64_t look_at_ms;
    bool more_due;             /* a write-back made another task due */
    int64_t at_ms[POOL_CALLS]; /* not before, after trouble or by its own time */
    struct backoff backoffs[POOL_CALLS];
    struct said said;
};

/* RC_FATAL: no memory. pool and store are borrowed. dice: 64 random bits. */
enum rc poller_init(struct poller *poller, struct pool *pool, const struct retry_store *store,
                    uint64_t dice, struct err *err);
void poller_done(struct poller *poller);

/* A loop_step. */
int64_t poller_step(void *poller, int64_t now_ms);

/* For a clean stop: poller_leave() once; the steps then claim nothing more, give back what no runner
 * has begun and write what the runners are through with, until poller_left(). */
void poller_leave(struct poller *poller);
bool poller_left(const struct poller *poller);

#endif
