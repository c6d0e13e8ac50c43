/* SPDX-License-Identifier: MIT */
/* First tries: makes tasks of clients and runs them at once. Decides which tasks begin: those that
 * the dispatcher of a retry process would claim now, if a thread is free for them. Everything else
 * is as for any task: the claim has an owner, a lease and an epoch, so that another process rescues
 * the task after a crash; the pool runs it; the writeback decides by the policy and writes.
 *
 * What this process cannot know is not tried: the rate of a scene is shared among the processes
 * that hold the shards, which this one does not. Its circuit breakers are its own. One thread; the
 * workers and the lease renewer of the pool are other threads. */
#ifndef OUTBOX_RETRY_FIRST_TRIES_H
#define OUTBOX_RETRY_FIRST_TRIES_H

#include "common/err.h"
#include "outbox/retry/first_try.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/scenes.h"
#include "outbox/retry/task_slots.h"
#include "outbox/retry/writeback.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long a reading of scenes and groups is used. A change of a scene is also found by its version
 * when a task is claimed. */
#define FIRST_TRIES_SCENES_MS 1000

struct first_tries_config {
    struct pool *pool;               /* with a slot for each try at the same time */
    const struct retry_store *store; /* scenes, groups, make and finish */
    first_try_on_end on_end;
    void *ctx;
    uint64_t seed; /* 64 random bits */
};

/* The struct must not move after first_tries_init(): its parts point to each other. */
struct first_tries {
    struct pool *pool;
    struct retry_store store;
    first_try_on_end on_end;
    void *ctx;
    struct scenes scenes;
    struct groups groups;
    uint64_t rng;
    struct pool_calls calls;
    struct task_slots slots;
    struct writeback writeback;
    void **owners; /* by slot */
    uint64_t looks;
    int64_t read_ms; /* when scenes and groups were read */
    bool read;
    struct buf options; /* scratch, as the next one */
    struct buf destination;
};

/* RC_FATAL: no memory. pool, and what ops of the store use, are borrowed. */
enum rc first_tries_init(struct first_tries *tries, const struct first_tries_config *config,
                         struct err *err);
/* Calls on_end for no try that is left: its task is rescued when its lease has ended. A zeroed
 * struct may be passed, too. */
void first_tries_done(struct first_tries *tries);

/* As make() and step() of struct first_try_ops. */
enum rc first_tries_make(struct first_tries *tries, const struct retry_new_task *task, void *owner,
                         struct first_try_result *result, int64_t now_ms, struct err *err);
int64_t first_tries_step(void *tries, int64_t now_ms);

/* A clean stop calls first_tries_leave() once. After that the steps return tasks that no worker has
 * begun, and write the updates of the others, until first_tries_left(). */
void first_tries_leave(struct first_tries *tries);
bool first_tries_left(const struct first_tries *tries);

#endif
