/* SPDX-License-Identifier: MIT */
#include "common/log.h"
#include "outbox/retry/poller_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A task whose result the database refuses is tried again after this, without what was refused. */
#define REFUSED_DELAY_MS 60000

void poller_take_done(struct poller *poller, int64_t now_ms)
{
    size_t count = pool_take_done(poller->pool, poller->taken, poller->pool->slot_count);

    for (size_t i = 0; i < count; i++)
        poller_judge(poller, poller->taken[i], now_ms);
}

/* Those that are lost meanwhile are nobody's business here any more. */
static size_t drop_lost(struct poller *poller)
{
    size_t kept = 0;

    for (size_t i = 0; i < poller->judged_count; i++) {
        struct slot *slot = poller->judged[i];
        bool lost;

        pthread_mutex_lock(&poller->pool->lock);
        lost = slot->lost;
        pthread_mutex_unlock(&poller->pool->lock);
        if (lost)
            poller_slot_free(poller, slot);
        else
            poller->judged[kept++] = slot;
    }
    poller->judged_count = kept;
    return kept;
}

static void gather(struct poller *poller, size_t count)
{
    pthread_mutex_lock(&poller->pool->lock);
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = poller->judged[i];

        slot->writing = true;
        slot->verdict.epoch = slot->epoch;
        poller->results[i] = slot->verdict;
        /* The policy may have changed since it was judged. */
        if (slot->verdict.callback_scene && !*slot->verdict.callback_scene)
            poller->results[i].callback_scene = NULL;
    }
    pthread_mutex_unlock(&poller->pool->lock);
    memset(poller->lost, 0, count * sizeof(*poller->lost));
}

static void remove_first(struct poller *poller, size_t count)
{
    poller->judged_count -= count;
    memmove(poller->judged, poller->judged + count, poller->judged_count * sizeof(struct slot *));
}

/* Its next step, or the next one of its key, need not wait for the next look. */
static bool makes_due(const struct task_result *result)
{
    switch (result->end) {
    case TASK_END_STEP:
        return true;
    case TASK_END_DONE:
    case TASK_END_SKIP:
        return result->ordered;
    case TASK_END_AGAIN:
    case TASK_END_BACK:
    case TASK_END_BLOCK:
    case TASK_END_PARK:
        return false;
    }
    return false;
}

/* What was written once without an answer is gone the second time: that is no loss. */
static void written(struct poller *poller, size_t count, int64_t now_ms)
{
    int64_t lost = 0;

    for (size_t i = 0; i < count; i++) {
        struct slot *slot = poller->judged[i];

        lost += poller->lost[i] && !slot->unsure;
        poller->more_due |= makes_due(&slot->verdict);
        poller_slot_free(poller, slot);
    }
    remove_first(poller, count);
    if (lost == 0)
        return;
    metric_add(&retry_lost, lost);
    if (said_now(&poller->said, "lost", now_ms, (int64_t)POOL_WAIT_MS * 600))
        log_event(LOG_WARN, "tasks_lost",
                  "count=%" PRId64 " text=\"their leases ran out: others try them again\"", lost);
}

/* One result that the database does not take: something smaller is written in its place, and when
 * that is refused too the task comes back by its lease. */
static void refused(struct poller *poller, const struct err *err, int64_t now_ms)
{
    struct slot *slot = poller->judged[0];
    struct task_result *verdict = &slot->verdict;

    log_error(LOG_ERROR, "result_refused", err, "id=%" PRId64 " group=%s scene=%s", slot->id,
              slot->kind->scene->group, slot->kind->scene->name);
    if (++slot->refusals > 1) {
        poller_slot_free(poller, slot);
        remove_first(poller, 1);
        return;
    }
    snprintf(slot->reason, sizeof(slot->reason), "the database refuses its result: %.384s",
             err->text);
    verdict->end = TASK_END_AGAIN;
    verdict->delay_ms = REFUSED_DELAY_MS;
    verdict->reason_class = fault_class_name(FAULT_OURS);
    verdict->reason = slot->reason;
    verdict->outcome = attempt_end_name(ATTEMPT_FAILED);
    verdict->attempts = slot->attempts + 1;
    verdict->step_result = NULL;
    verdict->step_result_len = 0;
    verdict->callback_scene = NULL;
    poller_worked(poller, POOL_FINISH, now_ms);
}

static size_t write_count(const struct poller *poller)
{
    if (poller->write_alone > 0)
        return 1;
    return poller->judged_count < RETRY_RESULTS_MAX ? poller->judged_count : RETRY_RESULTS_MAX;
}

static void unsure(struct poller *poller, size_t count)
{
    pthread_mutex_lock(&poller->pool->lock);
    for (size_t i = 0; i < count; i++) {
        poller->judged[i]->unsure = true;
        poller->judged[i]->writing = false;
    }
    pthread_mutex_unlock(&poller->pool->lock);
}

/* False: not now. */
static bool write_some(struct poller *poller, int64_t now_ms)
{
    size_t count = write_count(poller);
    struct err err = {0};
    enum rc rc;

    gather(poller, count);
    rc = poller->store.finish(poller->store.ctx, poller->results, count, poller->lost, &err);
    switch (rc) {
    case RC_OK:
        written(poller, count, now_ms);
        if (poller->write_alone > 0)
            poller->write_alone--;
        poller_worked(poller, POOL_FINISH, now_ms);
        return true;
    case RC_REJECT:
        if (count > 1)
            poller->write_alone = count;
        else
            refused(poller, &err, now_ms);
        return true;
    case RC_RETRY:
    case RC_FATAL:
        break;
    }
    unsure(poller, count);
    poller_failed(poller, POOL_FINISH, rc, &err, now_ms);
    return false;
}

bool poller_finish(struct poller *poller, int64_t now_ms)
{
    if (drop_lost(poller) == 0)
        return true;
    if (now_ms < poller->at_ms[POOL_FINISH])
        return false;
    while (poller->judged_count > 0)
        if (!write_some(poller, now_ms))
            return false;
    return true;
}
