/* SPDX-License-Identifier: MIT */
/* The three engines of one lane on the fake servers, run by one thread in virtual time. A step is
 * called when it is due or was woken, in an order that the seed decides. */
#ifndef TESTS_FLOW_RELAY_FIXTURE_H
#define TESTS_FLOW_RELAY_FIXTURE_H

#include "common/config/settings.h"
#include "outbox/relay/deleter.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/reader.h"
#include "outbox/relay/sender.h"
#include "tests/fakes/fake_relay.h"

#include <stdbool.h>
#include <stdint.h>

struct relay_fixture {
    struct settings settings;
    bool is_stream; /* moves have copies of their rows, as those of a lane that reads a stream */
    struct fake_relay fake;
    struct lane lane;
    struct reader reader;
    struct sender sender;
    struct deleter deleter;
    int64_t due_ms[LANE_STEPS];
    size_t late_steps; /* this many calls may be put off by a busy machine, in thousandths */
};

/* Small limits, so that every one of them is met. */
void relay_fixture_init(struct relay_fixture *fixture, uint64_t seed);
void relay_fixture_set_stream(struct relay_fixture *fixture);
void relay_fixture_done(struct relay_fixture *fixture);

/* The lane's lease is held, with the epoch of the fake table, until it is lost. */
void relay_fixture_take_lease(struct relay_fixture *fixture);
void relay_fixture_lose_lease(struct relay_fixture *fixture);

/* Kills the process: the engines lose their state, and new ones start. */
void relay_fixture_restart(struct relay_fixture *fixture);

/* Lets ms milliseconds pass. */
void relay_fixture_run(struct relay_fixture *fixture, int64_t ms);

/* Until the table and the retry queue are empty and no key is diverted, or ms have passed:
 * false. */
bool relay_fixture_drain(struct relay_fixture *fixture, int64_t ms);

#endif
