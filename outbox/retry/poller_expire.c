/* SPDX-License-Identifier: MIT */
#include "outbox/retry/poller_parts.h"

#include <stdio.h>
#include <string.h>

#define EXPIRE_EVERY_MS 1000
/* Scenes with a deadline that are looked at in one step. */
#define SCENES_AT_ONCE 32

bool poller_is_expired(const struct slot *slot, int64_t now_ms)
{
    int64_t age_ms_max = slot->kind->scene->policy.age_ms_max;

    return age_ms_max > 0 && now_ms + slot->database_ahead_ms - slot->made_ms >= age_ms_max;
}

struct expiring {
    struct poller *poller;
    struct scene *scene;
    int64_t now_ms;
};

/* Its kind may be one that this process does not run, or one of another process' shards. */
static void on_expired(void *ctx, const struct task_row *row)
{
    struct expiring *expiring = ctx;
    struct poller *poller = expiring->poller;
    struct poller_class class = {.class.shard = row->shard};

    if (strlen(row->handler) >= sizeof(class.class.handler))
        return;
    snprintf(class.class.handler, sizeof(class.class.handler), "%s", row->handler);
    snprintf(class.class.group, sizeof(class.class.group), "%s", expiring->scene->group);
    snprintf(class.class.scene, sizeof(class.class.scene), "%s", expiring->scene->name);
    class.kind = scenes_kind(&poller->scenes, &class.class, poller->looks, expiring->now_ms);
    /* With too many kinds it comes back by its lease. */
    if (class.kind)
        poller_claim_take(poller, &class, row, expiring->now_ms);
}

/* Those that are in flight here go on: they end when they were to be begun. */
static void judge_claimed(struct poller *poller, int64_t now_ms)
{
    for (size_t i = 0; i < poller->claimed_count; i++) {
        struct slot *slot = poller->claimed[i].slot;

        if (poller->claimed[i].known)
            continue;
        memset(&slot->outcome, 0, sizeof(slot->outcome));
        slot->outcome.end = ATTEMPT_CUT;
        poller_judge(poller, slot, now_ms);
    }
    metric_add(&retry_claimed, (int64_t)poller->claimed_count);
    poller->claimed_count = 0;
}

/* False after trouble, or when there is no room. *full: there may be more. */
static bool expire_scene(struct poller *poller, struct scene *scene, bool *full, int64_t now_ms)
{
    int64_t sent_ms = pool_now(poller->pool, now_ms);
    struct expiring expiring = {poller, scene, sent_ms};
    const struct task_age age = {scene->group, scene->name, scene->policy.age_ms_max};
    size_t rows = (size_t)poller->pool->settings->retry.batch_rows_max;
    struct err err = {0};
    bool more = false;
    enum rc rc;

    if (rows > poller->free_count)
        rows = poller->free_count;
    if (rows == 0)
        return false;
    poller->claimed_count = 0;
    rc = poller->store.claim_expired(poller->store.ctx, &age, rows, scene->policy.lease_ms,
                                     on_expired, &expiring, &more, &err);
    if (rc != RC_OK) {
        poller_claim_drop(poller);
        poller_failed(poller, POOL_EXPIRE, rc, &err, now_ms);
        return false;
    }
    poller_worked(poller, POOL_EXPIRE, now_ms);
    /* Behind one that ended there may be another one of its key. */
    *full = *full || more || poller->claimed_count > 0;
    poller_claim_lease(poller, sent_ms, scene->policy.lease_ms);
    judge_claimed(poller, sent_ms);
    return true;
}

void poller_expire(struct poller *poller, int64_t now_ms)
{
    size_t scenes = 0;
    bool full = false;

    if (now_ms < poller->at_ms[POOL_EXPIRE])
        return;
    poller->at_ms[POOL_EXPIRE] = now_ms + EXPIRE_EVERY_MS;
    for (size_t i = 0; i < SCENES_CHAINS && scenes < SCENES_AT_ONCE; i++) {
        size_t chain = poller->expire_at;

        for (struct scene *scene = poller->scenes.chains[chain]; scene; scene = scene->next) {
            if (scene->faulty || scene->policy.age_ms_max == 0)
                continue;
            scenes++;
            if (!expire_scene(poller, scene, &full, now_ms))
                return;
        }
        poller->expire_at = (chain + 1) % SCENES_CHAINS;
    }
    if (full)
        poller->at_ms[POOL_EXPIRE] = now_ms + 1;
}
