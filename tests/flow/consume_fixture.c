/* SPDX-License-Identifier: MIT */
#include "tests/flow/consume_fixture.h"

#include "common/loop.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define FAR_MS 1000000

static uint64_t rng_state = 1;

static uint64_t fake_rng(void)
{
    rng_state = rng_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return rng_state >> 16;
}

static int64_t no_time(void)
{
    return 0;
}

static int64_t step_ms; /* when the step that runs was called */

static int64_t wall_ms(void)
{
    return step_ms;
}

/* A wakeup makes its step due at once. */
static void ring(void *due_ms)
{
    *(int64_t *)due_ms = 0;
}

void consume_fixture_open(struct consume_fixture *fixture, struct topic *topic,
                          struct sink_db *sink, int member, const char *owner,
                          const struct fixture_limits *limits)
{
    struct fetch_config fetch = {
        .stream = &fixture->stream.ops,
        .links = fixture->links,
        .link_count = FIXTURE_APPLIERS,
        .batch_rows_max = limits->rows_max,
        .batch_bytes_max = 100000,
        .batches_max = limits->batches_max,
        .batch_wait_ms = limits->wait_ms,
        .rng = fake_rng,
        .wall_ms = wall_ms,
    };

    memset(fixture, 0, sizeof(*fixture));
    fixture->alive = true;
    snprintf(fixture->owner, sizeof(fixture->owner), "%s", owner);
    topic_member_init(&fixture->stream, topic, member);
    for (int i = 0; i < FIXTURE_APPLIERS; i++) {
        struct applier_config config = {
            .sink = &fixture->sinks[i].ops,
            .owner = fixture->owner,
            .batch_rows_max = limits->rows_max,
            .jobs_max = 4, /* small, so that rings are full now and then */
            .rng = fake_rng,
            .clock_us = no_time,
            .wake_fetch = ring,
            .wake_ctx = &fixture->fetch_ms,
        };

        sink_connection_init(&fixture->sinks[i], sink);
        assert_int_equal(applier_init(&fixture->appliers[i], &config, NULL), RC_OK);
        fixture->links[i] = (struct fetch_link){.given = &fixture->appliers[i].given,
                                                .done = &fixture->appliers[i].done,
                                                .wake = ring,
                                                .wake_ctx = &fixture->apply_ms[i],
                                                .reconnects = &fixture->appliers[i].reconnects};
    }
    assert_int_equal(fetch_init(&fixture->fetch, &fetch, NULL), RC_OK);
}

void consume_fixture_kill(struct consume_fixture *fixture)
{
    if (!fixture->alive)
        return;
    fixture->alive = false;
    topic_member_leave(&fixture->stream);
    for (int i = 0; i < FIXTURE_APPLIERS; i++)
        applier_done(&fixture->appliers[i]);
    fetch_done(&fixture->fetch);
}

void consume_fixture_step(struct consume_fixture *fixture, int which, int64_t now_ms)
{
    int64_t *due_ms = which == 0 ? &fixture->fetch_ms : &fixture->apply_ms[which - 1];
    int64_t wait_ms;

    if (!fixture->alive || fixture->ended || now_ms < *due_ms)
        return;
    step_ms = now_ms;
    *due_ms = now_ms + FAR_MS; /* a wakeup meanwhile makes it earlier */
    wait_ms = which == 0 ? fetch_step(&fixture->fetch, now_ms)
                         : applier_step(&fixture->appliers[which - 1], now_ms);
    fixture->ended = wait_ms == LOOP_END;
    if (wait_ms >= 0 && *due_ms > now_ms)
        *due_ms = now_ms + wait_ms;
}

static int64_t earliest(const struct consume_fixture *fixture)
{
    int64_t due_ms = fixture->fetch_ms;

    for (int i = 0; i < FIXTURE_APPLIERS; i++)
        if (fixture->apply_ms[i] < due_ms)
            due_ms = fixture->apply_ms[i];
    return due_ms;
}

void consume_fixture_run(struct consume_fixture *fixture, int64_t *now_ms, int64_t until_ms)
{
    while (!fixture->ended && *now_ms < until_ms) {
        for (int which = 0; which <= FIXTURE_APPLIERS; which++)
            consume_fixture_step(fixture, which, *now_ms);
        if (earliest(fixture) > *now_ms)
            *now_ms = earliest(fixture);
    }
    *now_ms = until_ms;
}
