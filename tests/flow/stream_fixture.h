/* SPDX-License-Identifier: MIT */
/* The engines of one lane that reads the binary log, on the fake servers, run by one thread in
 * virtual time. A step is called when it is due or was woken, in an order that the seed decides.
 * One that rests (LANE_REST_MS) is only called when it was woken: the end of a rest must not
 * matter. */
#ifndef TESTS_FLOW_STREAM_FIXTURE_H
#define TESTS_FLOW_STREAM_FIXTURE_H

#include "common/config/settings.h"
#include "outbox/relay/exact/takeover.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/sender.h"
#include "outbox/relay/stream/stream_keeper.h"
#include "outbox/relay/stream/stream_pump.h"
#include "outbox/relay/stream/stream_reader.h"
#include "tests/fakes/fake_binlog.h"
#include "tests/fakes/fake_relay.h"

#include <stdbool.h>
#include <stdint.h>

/* The steps of the lane, and the pump. */
#define FIXTURE_PUMP LANE_STEPS
#define FIXTURE_STEPS (LANE_STEPS + 1)

struct stream_fixture {
    struct settings settings;
    struct fake_relay fake;
    struct fake_binlog log;
    struct lane lane;
    struct takeover takeover; /* of a lane that publishes exactly once */
    struct stream_pump pump;
    struct stream_reader reader;
    struct stream_keeper keeper;
    struct sender sender;
    int64_t begin_ms;
    int64_t due_ms[FIXTURE_STEPS];
    unsigned late_steps; /* as in relay_fixture.h */
    unsigned switches;   /* chance that another thread runs during a call of ops or of wake() */
    int64_t blocked_until_ms; /* the step of the pump waits for an event until the heartbeat */
    bool running[FIXTURE_STEPS];
    bool is_started; /* all engines are initialised */
};

/* Small limits, so that every one of them is met. window_rows_max 0: the default of the fixture. */
void stream_fixture_init(struct stream_fixture *fixture, uint64_t seed, int64_t window_rows_max);
/* The same, of a lane that publishes exactly once. */
void stream_fixture_init_exact(struct stream_fixture *fixture, uint64_t seed,
                               int64_t window_rows_max);
void stream_fixture_done(struct stream_fixture *fixture);

/* The lane's lease is taken, with the present epoch of the database, and held until it is lost. */
void stream_fixture_take_lease(struct stream_fixture *fixture);
void stream_fixture_lose_lease(struct stream_fixture *fixture);

/* The lease ends by the clock, which the steps find out by themselves, because its heartbeat is
 * late; then it goes on, with the same epoch, and nothing wakes the steps. */
void stream_fixture_begin_gap(struct stream_fixture *fixture);
void stream_fixture_end_gap(struct stream_fixture *fixture);

/* Kills the process: the engines lose their state, and new ones start under the next epoch. */
void stream_fixture_restart(struct stream_fixture *fixture);

/* Ends the lease as a process that is stopped does: drains for at most ms, and releases the lease.
 * Returns whether the lane is idle. */
bool stream_fixture_drain_lease(struct stream_fixture *fixture, int64_t ms);

/* Lets ms milliseconds pass. */
void stream_fixture_run(struct stream_fixture *fixture, int64_t ms);

/* Whether all rows are done, nothing is diverted, and the end of the log is saved. */
bool stream_fixture_is_drained(const struct stream_fixture *fixture);

/* Until that is so, or ms have passed: false. */
bool stream_fixture_drain(struct stream_fixture *fixture, int64_t ms);

#endif
