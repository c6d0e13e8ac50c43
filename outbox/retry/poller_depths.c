/* SPDX-License-Identifier: MIT */
#include "outbox/retry/poller_parts.h"

#define DEPTHS_EVERY_MS 10000

struct counting {
    struct poller *poller;
    int64_t now_ms;
};

static void on_depth(void *ctx, const struct task_depth *depth)
{
    const struct counting *counting = ctx;
    struct poller *poller = counting->poller;
    const struct scene *scene =
        scenes_find(&poller->scenes, depth->class->group, depth->class->scene);
    struct retry_scene_metrics *metrics =
        scene ? scene->metrics : retry_metrics_of(depth->class->group, depth->class->scene);

    retry_depths_add(metrics, depth->state, depth->count, depth->oldest_ms,
                     scene ? scene->policy.pending_max : 0,
                     scenes_run(&poller->scenes, depth->class->handler));
}

void poller_depths(struct poller *poller, int64_t now_ms)
{
    struct counting counting = {poller, now_ms};
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
    poller_worked(poller, POOL_DEPTHS, now_ms);
    poller->at_ms[POOL_DEPTHS] = now_ms + DEPTHS_EVERY_MS;
}
