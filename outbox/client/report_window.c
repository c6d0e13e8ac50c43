/* SPDX-License-Identifier: MIT */
#include "outbox/client/report_window.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void report_window_init(struct report_window *window, const struct report_limits *limits)
{
    memset(window, 0, sizeof(*window));
    window->limits = *limits;
    window->batch = limits->batch_max;
    window->wait_ms = limits->retry_ms;
}

bool report_window_fits(const struct report_window *window, size_t len)
{
    return window->count == 0 ||
           (window->count < window->limits.tasks_max && len <= window->limits.bytes_max &&
            window->bytes <= window->limits.bytes_max - len);
}

void report_window_take(struct report_window *window, struct report_task *task, int64_t now_ms)
{
    assert(report_window_fits(window, task->len));
    task->next = NULL;
    task->since_ms = now_ms;
    if (window->last)
        window->last->next = task;
    else
        window->first = task;
    window->last = task;
    window->count++;
    window->bytes += task->len;
    window->queued++;
}

int64_t report_window_due(const struct report_window *window, int64_t now_ms, bool closing)
{
    int64_t pause_ms = window->pause_ms;
    int64_t due_ms = now_ms;

    if (window->count == 0)
        return REPORT_IDLE;
    if (window->count < window->batch && !closing)
        due_ms = window->first->since_ms + window->limits.flush_ms;
    if (closing && pause_ms > window->limits.retry_ms)
        pause_ms = window->limits.retry_ms;
    if (pause_ms > 0 && window->paused_ms + pause_ms > due_ms)
        due_ms = window->paused_ms + pause_ms;
    return due_ms > now_ms ? due_ms - now_ms : 0;
}

size_t report_window_batch(const struct report_window *window)
{
    return window->count < window->batch ? window->count : window->batch;
}

/* The task behind *link. */
static struct report_task *unlink_task(struct report_window *window, struct report_task **link)
{
    struct report_task *task = *link;

    *link = task->next;
    window->count--;
    window->bytes -= task->len;
    task->next = NULL;
    return task;
}

static void find_last(struct report_window *window)
{
    window->last = window->first;
    while (window->last && window->last->next)
        window->last = window->last->next;
}

/* Between a half and one and a half of the wait. */
static void pause_window(struct report_window *window, int64_t asked_ms, int64_t now_ms,
                         uint64_t random)
{
    int64_t wait_ms = window->wait_ms;

    window->failed++;
    wait_ms = wait_ms / 2 + (int64_t)(random % (uint64_t)(wait_ms + 1));
    window->pause_ms = asked_ms > wait_ms ? asked_ms : wait_ms;
    window->paused_ms = now_ms;
    window->wait_ms = window->wait_ms > window->limits.retry_ms_max / 2
                          ? window->limits.retry_ms_max
                          : window->wait_ms * 2;
}

static struct report_task *apply_states(struct report_window *window, size_t count,
                                        const enum report_state *states, size_t *at, bool *kept)
{
    struct report_task *refused = NULL;
    struct report_task **last = &refused;
    struct report_task **link = &window->first;

    for (size_t i = 0; i < count; i++) {
        struct report_task *task;

        if (states[i] == REPORT_KEPT) {
            *kept = true;
            link = &(*link)->next;
            continue;
        }
        task = unlink_task(window, link);
        if (states[i] == REPORT_TAKEN) {
            window->reported++;
            free(task);
            continue;
        }
        window->refused++;
        *at++ = i;
        *last = task;
        last = &task->next;
    }
    find_last(window);
    return refused;
}

struct report_task *report_window_apply(struct report_window *window, size_t count,
                                        const struct report_reply *reply,
                                        const enum report_state *states, int64_t now_ms,
                                        uint64_t random, size_t *at)
{
    static const enum report_state bad = REPORT_BAD;
    struct report_task *refused;
    bool kept = false;

    assert(count > 0 && count <= window->count);
    if (reply->end == REPORT_UNAVAILABLE) {
        pause_window(window, reply->wait_ms, now_ms, random);
        return NULL;
    }
    /* The batch is halved until the bad task is alone. */
    if (reply->end == REPORT_REFUSED && count > 1) {
        window->batch = count / 2;
        return NULL;
    }
    refused = apply_states(window, count, reply->end == REPORT_REFUSED ? &bad : states, at, &kept);
    if (kept) {
        pause_window(window, reply->wait_ms, now_ms, random);
        return refused;
    }
    window->pause_ms = 0;
    window->wait_ms = window->limits.retry_ms;
    if (reply->end == REPORT_ANSWERED)
        window->batch = window->batch > window->limits.batch_max / 2 ? window->limits.batch_max
                                                                     : window->batch * 2;
    return refused;
}

void report_window_lose(struct report_window *window)
{
    while (window->first) {
        free(unlink_task(window, &window->first));
        window->lost++;
    }
    window->last = NULL;
}
