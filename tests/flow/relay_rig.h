/* SPDX-License-Identifier: MIT */
/* One lane's three engines in a small world, run by one thread in virtual time: steps are called
 * when they asked to be, or when another one woke them, in an order that the seed decides. */
#ifndef TESTS_FLOW_RELAY_RIG_H
#define TESTS_FLOW_RELAY_RIG_H

#include "common/config/settings.h"
#include "outbox/relay/deleter.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/reader.h"
#include "outbox/relay/sender.h"
#include "tests/flow/relay_world.h"

#include <stdbool.h>
#include <stdint.h>

struct rig {
    struct settings settings;
    struct world world;
    struct lane lane;
    struct reader reader;
    struct sender sender;
    struct deleter deleter;
    int64_t due_ms[LANE_STEPS];
    size_t late_steps; /* this many calls may be put off by a busy machine, in thousandths */
};

/* Small limits, so that every one of them is met. */
void rig_init(struct rig *rig, uint64_t seed);
void rig_done(struct rig *rig);

/* The lease is held with the world's epoch until it is lost. */
void rig_take_lease(struct rig *rig);
void rig_lose_lease(struct rig *rig);

/* A kill: the engines are gone with all they know, and new ones start. */
void rig_restart(struct rig *rig);

/* Lets ms milliseconds pass. */
void rig_run(struct rig *rig, int64_t ms);

/* Until the table and the retry queue are empty and no key is diverted, or ms have passed:
 * false. */
bool rig_drain(struct rig *rig, int64_t ms);

#endif
