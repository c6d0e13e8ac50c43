/* SPDX-License-Identifier: MIT */
#include "outbox/retry/poller_parts.h"

struct looking {
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

    if (is_stopped(slot) || poller_is_expired(slot, looking->now_ms))
        return true;
    if (slot->due_ms < looking->oldest_ms)
        looking->oldest_ms = slot->due_ms;
    return false;
}

int64_t poller_look_queued(struct poller *poller, int64_t now_ms)
{
    struct looking looking = {now_ms, now_ms};
    size_t count = pool_each_queued(poller->pool, look_at, &looking, poller->taken);

    for (size_t i = 0; i < count; i++) {
        poller->taken[i]->outcome.end = ATTEMPT_CUT;
        poller_judge(poller, poller->taken[i], now_ms);
    }
    return looking.oldest_ms;
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
