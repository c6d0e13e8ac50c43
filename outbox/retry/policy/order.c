/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/order.h"

static bool is_ahead(const struct order_task *row, int64_t id)
{
    if (row->id == 0 || row->id == id)
        return false;
    if (row->state == TASK_WAITING || row->state == TASK_QUEUED)
        return row->id < id;
    return true;
}

static enum order_decision decide_keyed(int64_t id, const struct order_ahead *ahead)
{
    const struct order_task *rows[] = {&ahead->busy, &ahead->waiting, &ahead->queued};
    bool any = false;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!is_ahead(rows[i], id))
            continue;
        if (rows[i]->held)
            return ORDER_QUEUE;
        /* Its lock is held by a transaction that may be ending it and has looked already for what
         * is queued. Behind a waiting row alone the task would be forgotten when that is cancelled
         * before the COMMIT of the other: the cancelling transaction still sees the busy row. */
        if (rows[i] == &ahead->busy)
            return ORDER_LEAVE;
        any = true;
    }
    /* A candidate that was not read as the first of its key has changed since. */
    return any || ahead->waiting.id != id ? ORDER_LEAVE : ORDER_RUN;
}

void order_decide(struct order_candidate *candidates, size_t count, const struct order_ahead *ahead,
                  size_t run_max)
{
    size_t running = 0;

    for (size_t i = 0; i < count; i++) {
        struct order_candidate *candidate = &candidates[i];

        candidate->decision = candidate->key == ORDER_NO_KEY
                                  ? ORDER_RUN
                                  : decide_keyed(candidate->id, &ahead[candidate->key]);
        if (candidate->decision == ORDER_RUN && running++ >= run_max)
            candidate->decision = ORDER_LEAVE;
    }
}

struct order_task order_head(const struct order_ahead *ahead)
{
    if (ahead->waiting.id == 0)
        return ahead->queued;
    if (ahead->queued.id == 0 || ahead->waiting.id < ahead->queued.id)
        return ahead->waiting;
    return ahead->queued;
}
