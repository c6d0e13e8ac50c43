/* SPDX-License-Identifier: MIT */
/* Checks the lanes that this process writes: the number of lanes in the database must be its own,
 * and a live relay must serve each lane. A lane without a relay is reported after the lease time of
 * the relays, so that a take-over, or roles that start in any order, cause no alarm. The step
 * belongs to one thread; any thread may read the conditions. */
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
    /* Reads the number of lanes, and which of them a live relay serves. */
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
