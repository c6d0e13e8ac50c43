/* SPDX-License-Identifier: MIT */
#include "producer/lane_watch.h"

#include "common/log.h"
#include "outbox/outbox.h"

#include <stdio.h>
#include <string.h>

#define LOOK_MS 1000

void lane_watch_init(struct lane_watch *watch, const struct lane_watch_ops *ops, int64_t lane_count,
                     int64_t grace_ms)
{
    memset(watch, 0, sizeof(*watch));
    watch->ops = *ops;
    watch->lane_count = lane_count;
    watch->grace_ms = grace_ms;
    pthread_mutex_init(&watch->lock, NULL);
}

void lane_watch_done(struct lane_watch *watch)
{
    if (watch->lane_count > 0)
        pthread_mutex_destroy(&watch->lock);
    watch->lane_count = 0;
}

/* Writes text when it is another one; logs what begins and what is over. */
static void tell(struct lane_watch *watch, char *told, const char *text, const char *begins,
                 const char *ends)
{
    struct err err;
    bool same = strcmp(told, text) == 0;

    pthread_mutex_lock(&watch->lock);
    snprintf(told, sizeof(watch->number), "%s", text);
    pthread_mutex_unlock(&watch->lock);
    if (same)
        return;
    err_set(&err, "%s", text);
    if (text[0])
        log_error(LOG_ERROR, begins, &err, "lane_count=%lld", (long long)watch->lane_count);
    else
        log_event(LOG_INFO, ends, "lane_count=%lld", (long long)watch->lane_count);
}

static void look_at_number(struct lane_watch *watch, const struct lanes *lanes)
{
    struct err err = {0};
    enum rc rc = lanes_check(lanes, watch->lane_count, &err);

    tell(watch, watch->number, rc == RC_OK ? "" : err.text, "votes_not_taken", "votes_taken");
}

static void look_at_relays(struct lane_watch *watch, const bool *served, int64_t now_ms)
{
    char text[sizeof(watch->unserved)] = "";
    size_t len = 0;

    for (int64_t i = 0; i < watch->lane_count && i < LANES_MAX; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];

        if (served[i]) {
            watch->since_ms[i] = 0;
            continue;
        }
        if (watch->since_ms[i] == 0)
            watch->since_ms[i] = now_ms > 0 ? now_ms : 1;
        if (now_ms - watch->since_ms[i] < watch->grace_ms)
            continue;
        outbox_lane_name(name, (size_t)i);
        if (len < sizeof(text) - 100)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
                                    len > 0 ? ", " : "no live relay serves ", name);
    }
    if (len > 0)
        snprintf(text + len, sizeof(text) - len,
                 ": votes written there wait; start a relay, or add to relay.lanes");
    tell(watch, watch->unserved, text, "lanes_unserved", "lanes_served");
}

int64_t lane_watch_step(void *arg, int64_t now_ms)
{
    struct lane_watch *watch = arg;
    bool served[LANES_MAX] = {false};
    struct lanes lanes = {0};

    /* A database that is away is told of by those who write there. */
    if (watch->ops.look(watch->ops.ctx, &lanes, served, NULL) != RC_OK)
        return LOOK_MS;
    look_at_number(watch, &lanes);
    look_at_relays(watch, served, now_ms);
    return LOOK_MS;
}

void lane_watch_read(struct lane_watch *watch, char *number, char *unserved)
{
    pthread_mutex_lock(&watch->lock);
    snprintf(number, sizeof(watch->number), "%s", watch->number);
    snprintf(unserved, sizeof(watch->unserved), "%s", watch->unserved);
    pthread_mutex_unlock(&watch->lock);
}
