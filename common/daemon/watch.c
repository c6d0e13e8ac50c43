/* SPDX-License-Identifier: MIT */
#include "common/daemon/watch.h"

#include "common/log.h"
#include "common/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS 1000

/* A shorter failure shows in the metrics; the log does not need it. */
#define SAY_MS 3000

/* While we wait at the gate the manager must not take us for a start that hangs. */
#define GATE_EXTEND_US "30000000"

/* The watchdog is fed this many times in its period. */
#define FEEDS 4

void watch_init(struct watch *watch, const char *role, struct readiness *readiness,
                const struct notify *notify, int64_t watchdog_ms)
{
    memset(watch, 0, sizeof(*watch));
    watch->role = role;
    watch->readiness = readiness;
    watch->notify = notify;
    watch->watchdog_ms = watchdog_ms;
}

static void note_good(struct watch *watch, int64_t now_ms)
{
    if (watch->said)
        log_event(LOG_INFO, "ready_again", "role=%s after_ms=%" PRId64, watch->role,
                  now_ms - watch->bad_since_ms);
    watch->bad = false;
    watch->said = false;
}

static void note_bad(struct watch *watch, const char *why, int64_t now_ms)
{
    struct err err = {0};

    if (!watch->bad)
        watch->bad_since_ms = now_ms;
    watch->bad = true;
    if (watch->said || now_ms - watch->bad_since_ms < SAY_MS)
        return;
    watch->said = true;
    err_set(&err, "%s", why);
    log_error(LOG_WARN, "not_ready", &err, "role=%s", watch->role);
}

static void tell_status(struct watch *watch, const struct health *health)
{
    const char *text = health->ready ? "ready" : health->why;

    if (strcmp(watch->status, text) == 0)
        return;
    snprintf(watch->status, sizeof(watch->status), "%s", text);
    notify_status(watch->notify, text);
}

/* A process with a hanging worker cannot work and may hold locks or leases that others need.
 * Without notifications the service manager ends it. A stop has its own limit. */
static void feed_manager(struct watch *watch, int64_t now_ms)
{
    char name[LOOP_NAME_SIZE];

    if (watch->watchdog_ms == 0)
        return;
    if (atomic_load(&watch->readiness->state) != READINESS_STOPPING &&
        loops_stuck(now_ms, watch->watchdog_ms, name)) {
        if (!watch->starving)
            log_event(LOG_ERROR, "watchdog_withheld", "role=%s loop=%s watchdog_ms=%" PRId64,
                      watch->role, name, watch->watchdog_ms);
        watch->starving = true;
        return;
    }
    if (watch->starving)
        log_event(LOG_WARN, "watchdog_resumed", "role=%s", watch->role);
    watch->starving = false;
    notify_send(watch->notify, "WATCHDOG=1");
}

int64_t watch_step(struct watch *watch, int64_t now_ms)
{
    int64_t feed_ms = watch->watchdog_ms / FEEDS;
    struct buf lines = {0};
    struct health health = {.out = &lines, .ready = true};
    enum readiness_state state = atomic_load(&watch->readiness->state);

    readiness_ask(watch->readiness, &health);
    buf_done(&lines);
    if (state == READINESS_WAITING)
        notify_send(watch->notify, "EXTEND_TIMEOUT_USEC=" GATE_EXTEND_US);
    else if (health.ready)
        note_good(watch, now_ms);
    else if (state == READINESS_RUNNING)
        note_bad(watch, health.why, now_ms);
    tell_status(watch, &health);
    feed_manager(watch, now_ms);
    return feed_ms > 0 && feed_ms < LOOK_MS ? feed_ms : LOOK_MS;
}
