/* SPDX-License-Identifier: MIT */
#include "outbox/retry/poller_parts.h"

struct looking {
    struct poller *poller;
    int64_t now_ms;
    int64_t oldest_ms;
};

static bool is_stopped(const struct slot *slot)
{
    return slot->kind->scene->paused || slot->kind->scene->faulty;
}

static bool look_at(void *ctx, struct slot *slot)
{
    struct looking *looking = ctx;

    if (is_stopped(slot) || poller_is_expired(slot, looking->now_ms)) {
        slot->outcome.end = ATTEMPT_CUT;
        return true;
    }
    if (slot->due_ms < looking->oldest_ms)
        looking->oldest_ms = slot->due_ms;
    return false;
}

static void judge_taken(struct poller *poller, size_t count, int64_t now_ms)
{
    for (size_t i = 0; i < count; i++)
        poller_judge(poller, poller->taken[i], now_ms);
}

int64_t poller_look_queued(struct poller *poller, int64_t now_ms)
{
    struct looking looking = {poller, now_ms, now_ms};

    judge_taken(poller, pool_each_queued(poller->pool, look_at, &looking, poller->taken), now_ms);
    return looking.oldest_ms;
}

/* Under the pool's lock: bounded by the slots, and only after a change of the groups. */
static bool check_group(void *ctx, struct slot *slot)
{
    struct looking *looking = ctx;

    return look_at(ctx, slot) || !poller_slot_check(looking->poller, slot);
}

void poller_recall_queued(struct poller *poller, bool groups_changed, int64_t now_ms)
{
    struct looking looking = {poller, now_ms, now_ms};

    judge_taken(poller,
                pool_each_queued(poller->pool, groups_changed ? check_group : look_at, &looking,
                                 poller->taken),
                now_ms);
}

static bool age_of(void *ctx, struct slot *slot)
{
    const struct looking *looking = ctx;

    retry_depths_age(slot->kind->scene->metrics, looking->now_ms - slot->due_ms);
    return false;
}

void poller_age_queued(struct poller *poller, int64_t now_ms)
{
    struct looking looking = {.now_ms = now_ms};

    pool_each_queued(poller->pool, age_of, &looking, poller->taken);
}
