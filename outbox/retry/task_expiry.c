/* SPDX-License-Identifier: MIT */
#include "outbox/retry/task_expiry.h"

#include <stdio.h>
#include <string.h>

#define EXPIRE_EVERY_MS 1000
/* Scenes with a deadline that are looked at in one step. */
#define SCENES_AT_ONCE 32

struct expiry_claim {
    struct task_expiry *expiry;
    struct scene *scene;
    uint64_t looks;
    int64_t now_ms;
};

/* Its kind may be one that this process does not run, or one of another process' shards. */
static void on_expired(void *ctx, const struct task_row *row)
{
    struct expiry_claim *expiry_claim = ctx;
    struct task_expiry *expiry = expiry_claim->expiry;
    struct task_class class = {.shard = row->shard};
    struct kind *kind;

    if (strlen(row->handler) >= sizeof(class.handler))
        return;
    snprintf(class.handler, sizeof(class.handler), "%s", row->handler);
    snprintf(class.group, sizeof(class.group), "%s", expiry_claim->scene->group);
    snprintf(class.scene, sizeof(class.scene), "%s", expiry_claim->scene->name);
    kind = scenes_kind(expiry->scenes, &class, expiry_claim->looks, expiry_claim->now_ms);
    /* If there are too many kinds, the task becomes free when its lease ends. */
    if (kind)
        task_slots_claim(expiry->slots, kind, row, expiry_claim->now_ms);
}

/* A task that is in flight here continues; it expires when it would begin. */
static void end_claimed(struct task_expiry *expiry, int64_t now_ms)
{
    for (size_t i = 0; i < expiry->slots->claimed_count; i++) {
        struct slot *slot = expiry->slots->claimed[i].slot;

        if (expiry->slots->claimed[i].known)
            continue;
        memset(&slot->attempt, 0, sizeof(slot->attempt));
        slot->attempt.end = ATTEMPT_CUT;
        writeback_add(expiry->writeback, slot, now_ms);
    }
    metric_add(&retry_claimed, (int64_t)expiry->slots->claimed_count);
}

/* False after trouble, or when there is no room. *full: there may be more. */
static bool expire_scene(struct task_expiry *expiry, struct scene *scene, uint64_t looks,
                         bool *full, int64_t now_ms)
{
    int64_t sent_ms = pool_now(expiry->pool, now_ms);
    struct expiry_claim expiry_claim = {expiry, scene, looks, sent_ms};
    const struct task_age age = {scene->group, scene->name, scene->policy.age_ms_max};
    size_t rows = (size_t)expiry->pool->settings->retry.batch_rows_max;
    struct err err = {0};
    bool more = false;
    enum rc rc;

    if (rows > expiry->slots->free_count)
        rows = expiry->slots->free_count;
    if (rows == 0)
        return false;
    task_slots_begin(expiry->slots);
    rc = expiry->store->claim_expired(expiry->store->ctx, &age, rows, scene->policy.lease_ms,
                                      on_expired, &expiry_claim, &more, &err);
    if (rc != RC_OK) {
        task_slots_drop(expiry->slots);
        store_calls_failed(expiry->calls, POOL_EXPIRE, rc, &err, now_ms);
        return false;
    }
    store_calls_worked(expiry->calls, POOL_EXPIRE, now_ms);
    /* The next task of the ended task's key may be due now. */
    *full = *full || more || expiry->slots->claimed_count > 0;
    task_slots_lease(expiry->slots, sent_ms, scene->policy.lease_ms);
    end_claimed(expiry, sent_ms);
    return true;
}

void task_expiry_step(struct task_expiry *expiry, uint64_t looks, int64_t now_ms)
{
    size_t scenes = 0;
    bool full = false;

    if (now_ms < expiry->calls->at_ms[POOL_EXPIRE])
        return;
    expiry->calls->at_ms[POOL_EXPIRE] = now_ms + EXPIRE_EVERY_MS;
    for (size_t i = 0; i < SCENES_CHAINS && scenes < SCENES_AT_ONCE; i++) {
        size_t chain = expiry->chain_at;

        for (struct scene *scene = expiry->scenes->chains[chain]; scene; scene = scene->next) {
            if (scene->faulty || scene->policy.age_ms_max == 0)
                continue;
            scenes++;
            if (!expire_scene(expiry, scene, looks, &full, now_ms))
                return;
        }
        expiry->chain_at = (chain + 1) % SCENES_CHAINS;
    }
    if (full)
        expiry->calls->at_ms[POOL_EXPIRE] = now_ms + 1;
}
