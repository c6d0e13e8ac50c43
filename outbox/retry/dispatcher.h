/* SPDX-License-Identifier: MIT */
/* Decides which due tasks the process claims, and when. The dispatcher finds the classes of tasks
 * that are due, claims from them, queues the tasks for the workers of the pool and takes them
 * back, and ends waiting tasks that are too old. Its writeback decides what becomes of them.
 *
 * Filters apply before a claim: the scene is paused, its group is disabled, its rate is spent,
 * this process does not run the handler, another process holds the shard. The destination of a
 * task is known only after the claim; a task whose destination has an open circuit breaker is put
 * off, see destinations.h. Classes take turns, the class with the oldest due task first, each with
 * a bounded number of tasks, and a scene takes no more room than it leaves free. While claims
 * return as many rows as they may and there is room, the dispatcher does not rest. It never waits
 * for a task: the lease renewer renews the leases of tasks in flight. One thread. */
#ifndef OUTBOX_RETRY_DISPATCHER_H
#define OUTBOX_RETRY_DISPATCHER_H

#include "common/err.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/scenes.h"
#include "outbox/retry/task_slots.h"
#include "outbox/retry/writeback.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A class that has waiting tasks. */
struct dispatcher_class {
    struct task_class class;
    struct kind *kind;
    int64_t due_ms; /* of its first task; INT64_MAX: nothing more before the next look */
};

/* The struct must not move after dispatcher_init(): its parts point to each other. */
struct dispatcher {
    struct pool *pool;
    struct retry_store store;
    struct scenes scenes;
    struct groups groups;
    struct pool_worker inline_worker; /* with no threads */
    uint64_t rng;
    struct pool_calls calls;
    struct task_slots slots;
    struct writeback writeback;

    struct dispatcher_class *classes;
    size_t class_count;
    size_t class_at; /* of the round */
    uint64_t looks;
    size_t expire_chain; /* scene chain at which the next step expires tasks */
    struct slot **taken; /* scratch */

    bool scenes_read;       /* the last reading of scenes and groups succeeded */
    bool groups_changed;    /* and the queued tasks have not been compared with them yet */
    bool round_full;        /* a class may have more that is due */
    bool round_short;       /* a class was not claimed from for want of room */
    int64_t claims_from_ms; /* the end of retry.first_poll_ms; 0: no step was made yet */
    int64_t looked_ms;
    int64_t look_at_ms;
};

/* RC_FATAL: no memory. pool and store are borrowed. seed: 64 random bits. */
enum rc dispatcher_init(struct dispatcher *dispatcher, struct pool *pool,
                        const struct retry_store *store, uint64_t seed, struct err *err);
void dispatcher_done(struct dispatcher *dispatcher);

/* A loop_step. */
int64_t dispatcher_step(void *dispatcher, int64_t now_ms);

/* A clean stop calls dispatcher_leave() once. After that the steps claim nothing, return tasks
 * that no worker has begun, and write the updates of finished tasks, until dispatcher_left(). */
void dispatcher_leave(struct dispatcher *dispatcher);
bool dispatcher_left(const struct dispatcher *dispatcher);

#endif
