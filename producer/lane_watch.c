/* SPDX-License-Identifier: MIT */
#include "producer/lane_watch.h"

#include "common/log.h"
#include "common/text.h"

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
    condition_init(&watch->number, CONDITION_WORK,
                   "what=votes role=serve reason=lane_count lane_count=%lld",
                   (long long)lane_count);
    condition_init(&watch->unserved, CONDITION_CHECK,
                   "check=lanes_served role=serve lane_count=%lld", (long long)lane_count);
}

void lane_watch_done(struct lane_watch *watch)
{
    condition_done(&watch->number);
    condition_done(&watch->unserved);
}

static void check_number(struct lane_watch *watch, const struct lanes *lanes, int64_t now_ms)
{
    struct err err = {0};

    if (lanes_check(lanes, watch->lane_count, &err) == RC_OK)
        condition_ok(&watch->number, now_ms);
    else
        condition_fail(&watch->number, now_ms, &err);
}

static void check_relays(struct lane_watch *watch, const bool *served, int64_t now_ms)
{
    char lanes[280] = "";
    struct err err;

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
        text_list_add(lanes, sizeof(lanes), name);
    }
    if (!lanes[0]) {
        condition_ok(&watch->unserved, now_ms);
        return;
    }
    err_set(&err,
            "no live relay serves %s: votes written there wait; start a relay, or add to "
            "relay.lanes",
            lanes);
    condition_fail(&watch->unserved, now_ms, &err);
}

int64_t lane_watch_step(void *arg, int64_t now_ms)
{
    struct lane_watch *watch = arg;
    bool served[LANES_MAX] = {false};
    struct lanes lanes = {0};

    /* The workers report a database that does not answer. */
    if (watch->ops.look(watch->ops.ctx, &lanes, served, NULL) != RC_OK)
        return LOOK_MS;
    check_number(watch, &lanes, now_ms);
    check_relays(watch, served, now_ms);
    return LOOK_MS;
}
