/* SPDX-License-Identifier: MIT */
/* Looks after the lanes that this process writes: is the number in the database its own, and does a
 * live relay serve each of them? A lane that nobody serves is told of only after a grace of the
 * relays' lease time, so that a take-over, and roles that start in any order, are no alarm. The
 * step belongs to one thread; any thread may read what it found. */
#ifndef PRODUCER_LANE_WATCH_H
#define PRODUCER_LANE_WATCH_H

#include "common/condition.h"
#include "common/err.h"
#include "outbox/lanes.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lane_watch_ops {
    void *ctx;
    /* lanes, and which of them are served. */
    enum rc (*look)(void *ctx, struct lanes *lanes, bool served[LANES_MAX], struct err *err);
};

struct lane_watch {
    struct lane_watch_ops ops;
    int64_t lane_count;
    int64_t grace_ms;
    int64_t since_ms[LANES_MAX]; /* unserved since; 0: served */
    struct condition number;     /* fails while votes wait for the number of lanes */
    struct condition unserved;   /* fails while no live relay serves a lane */
};

void lane_watch_init(struct lane_watch *watch, const struct lane_watch_ops *ops, int64_t lane_count,
                     int64_t grace_ms);
void lane_watch_done(struct lane_watch *watch);

/* A loop_step. */
int64_t lane_watch_step(void *watch, int64_t now_ms);

#endif
