/* SPDX-License-Identifier: MIT */
#include "common/log.h"
#include "outbox/retry/poller_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEPTHS_EVERY_MS 10000

struct counting {
    struct poller *poller;
    struct pool_unserved unserved;
};

static void note_unserved(struct counting *counting, const struct task_depth *depth)
{
    struct pool_unserved *unserved = &counting->unserved;

    if (depth->state != TASK_WAITING || depth->oldest_ms <= unserved->age_ms)
        return;
    unserved->age_ms = depth->oldest_ms;
    snprintf(unserved->handler, sizeof(unserved->handler), "%s", depth->class->handler);
    snprintf(unserved->scene, sizeof(unserved->scene), "%s", depth->class->scene);
}

static void on_depth(void *ctx, const struct task_depth *depth)
{
    struct counting *counting = ctx;
    struct poller *poller = counting->poller;
    const struct scene *scene =
        scenes_find(&poller->scenes, depth->class->group, depth->class->scene);
    struct retry_scene_metrics *metrics =
        scene ? scene->metrics : retry_metrics_of(depth->class->group, depth->class->scene);
    bool served = scenes_serve(&poller->scenes, depth->class->handler);

    retry_depths_add(metrics, depth->state, depth->count, depth->oldest_ms,
                     scene ? scene->policy.pending_max : 0, served,
                     groups_are_closed(&poller->groups, depth->class));
    if (!served)
        note_unserved(counting, depth);
}

/* Logged once, and again for another handler or scene. */
static void tell_unserved(struct pool *pool, const struct pool_unserved *unserved)
{
    bool is_told = strcmp(pool->unserved.handler, unserved->handler) == 0 &&
                   strcmp(pool->unserved.scene, unserved->scene) == 0;

    if (unserved->age_ms > 0 && !is_told)
        log_event(LOG_WARN, "handler_unserved",
                  "handler=%s scene=%s age_ms=%" PRId64
                  " text=\"no live process runs it: its tasks wait\" hint=retry.handlers",
                  unserved->handler, unserved->scene, unserved->age_ms);
    pthread_mutex_lock(&pool->lock);
    pool->unserved = *unserved;
    pthread_mutex_unlock(&pool->lock);
}

void poller_depths(struct poller *poller, int64_t now_ms)
{
    struct counting counting = {.poller = poller};
    struct err err = {0};
    enum rc rc;

    if (now_ms < poller->at_ms[POOL_DEPTHS])
        return;
    retry_depths_begin();
    rc = poller->store.depths(poller->store.ctx, on_depth, &counting, &err);
    if (rc != RC_OK) {
        poller_failed(poller, POOL_DEPTHS, rc, &err, now_ms);
        return;
    }
    poller_age_queued(poller, now_ms);
    metric_set(&retry_breakers_open_age, destinations_open_ms(&poller->destinations, now_ms));
    retry_depths_end();
    tell_unserved(poller->pool, &counting.unserved);
    poller_worked(poller, POOL_DEPTHS, now_ms);
    poller->at_ms[POOL_DEPTHS] = now_ms + DEPTHS_EVERY_MS;
}
