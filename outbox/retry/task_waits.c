/* SPDX-License-Identifier: MIT */
#include "outbox/retry/task_waits.h"

#include "common/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Returns the place for the reason if this is the oldest task that waits for it, or NULL. */
static struct err *note_wait(struct task_waits *waits, enum pool_wait wait,
                             const struct task_depth *depth)
{
    if (depth->oldest_ms <= waits->list[wait].age_ms)
        return NULL;
    waits->list[wait].age_ms = depth->oldest_ms;
    return &waits->list[wait].err;
}

static void note_unserved(struct task_waits *waits, const struct task_depth *depth)
{
    struct err *err = note_wait(waits, POOL_WAIT_HANDLER, depth);
    struct pool_unserved *unserved = &waits->unserved;

    if (!err)
        return;
    err_set(err, "no live process runs the handler %s of tasks of the scene %s: see retry.handlers",
            depth->class->handler, depth->class->scene);
    unserved->age_ms = depth->oldest_ms;
    snprintf(unserved->handler, sizeof(unserved->handler), "%s", depth->class->handler);
    snprintf(unserved->scene, sizeof(unserved->scene), "%s", depth->class->scene);
}

void task_waits_add(struct task_waits *waits, const struct task_depth *depth,
                    const struct scene *scene, bool served, const struct err *closed)
{
    struct err *err;

    if (depth->state != TASK_WAITING)
        return;
    if (!served)
        note_unserved(waits, depth);
    err = closed ? note_wait(waits, POOL_WAIT_GROUP, depth) : NULL;
    if (err)
        *err = *closed;
    err = scene && scene->faulty ? note_wait(waits, POOL_WAIT_SCENE, depth) : NULL;
    if (err)
        err_set(err, "the policy or the options of the scene %s of group %s cannot be read",
                scene->name, scene->group);
}

/* Logged once, and again for another handler or scene. */
static void log_unserved(struct pool *pool, const struct pool_unserved *unserved)
{
    const struct pool_unserved *before = &pool->unserved;
    bool is_same = strcmp(before->handler, unserved->handler) == 0 &&
                   strcmp(before->scene, unserved->scene) == 0;
    struct err err = {0};

    if (before->age_ms > 0 && unserved->age_ms == 0)
        log_event(LOG_INFO, "handler_served",
                  "handler=%s scene=%s text=\"no task waits for a handler that no process runs\"",
                  before->handler, before->scene);
    if (unserved->age_ms == 0 || is_same)
        return;
    if (!retry_handler_exists(pool->handlers, unserved->handler, &err))
        log_error(LOG_WARN, "handler_unserved", &err, "handler=%s scene=%s age_ms=%" PRId64,
                  unserved->handler, unserved->scene, unserved->age_ms);
    else
        log_event(LOG_WARN, "handler_unserved",
                  "handler=%s scene=%s age_ms=%" PRId64
                  " text=\"no live process runs it: its tasks wait\" hint=retry.handlers",
                  unserved->handler, unserved->scene, unserved->age_ms);
}

void task_waits_report(struct task_waits *waits, struct pool *pool, size_t left_out, int64_t now_ms)
{
    log_unserved(pool, &waits->unserved);
    pthread_mutex_lock(&pool->lock);
    pool->unserved = waits->unserved;
    pthread_mutex_unlock(&pool->lock);
    if (left_out > 0) {
        waits->list[POOL_WAIT_KINDS].age_ms = 1;
        err_set(&waits->list[POOL_WAIT_KINDS].err,
                "this process can hold no more kinds of tasks: tasks of %zu classes are left out",
                left_out);
    }
    for (size_t i = 0; i < POOL_WAITS; i++) {
        if (waits->list[i].age_ms > 0)
            condition_fail(&pool->waits[i], now_ms, &waits->list[i].err);
        else
            condition_ok(&pool->waits[i], now_ms);
    }
}
