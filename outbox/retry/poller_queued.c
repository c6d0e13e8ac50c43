/* SPDX-License-Identifier: MIT */
#include "outbox/retry/poller_parts.h"

struct recall {
    struct poller *poller;
    bool check_groups;
    int64_t now_ms;
    int64_t oldest_due_ms;
};

static bool scene_is_stopped(const struct slot *slot)
{
    return slot->kind->scene->paused || slot->kind->scene->faulty;
}

/* True: the task must not begin any more, and its slot holds the result of an attempt that did not
 * begin. Runs under the pool's lock, once for each slot at most. */
static bool recall_slot(void *ctx, struct slot *slot)
{
    struct recall *recall = ctx;

    if (scene_is_stopped(slot) || poller_is_expired(slot, recall->now_ms)) {
        slot->outcome.end = ATTEMPT_CUT;
        return true;
    }
    if (recall->check_groups && !poller_slot_check(recall->poller, slot))
        return true;
    if (slot->due_ms < recall->oldest_due_ms)
        recall->oldest_due_ms = slot->due_ms;
    return false;
}

int64_t poller_recall_queued(struct poller *poller, bool check_groups, int64_t now_ms)
{
    struct recall recall = {poller, check_groups, now_ms, now_ms};
    size_t count = pool_each_queued(poller->pool, recall_slot, &recall, poller->taken);

    for (size_t i = 0; i < count; i++)
        poller_judge(poller, poller->taken[i], now_ms);
    return recall.oldest_due_ms;
}

static bool age_of(void *ctx, struct slot *slot)
{
    const int64_t *now_ms = ctx;

    retry_depths_age(slot->kind->scene->metrics, *now_ms - slot->due_ms);
    return false;
}

void poller_age_queued(struct poller *poller, int64_t now_ms)
{
    pool_each_queued(poller->pool, age_of, &now_ms, poller->taken);
}
