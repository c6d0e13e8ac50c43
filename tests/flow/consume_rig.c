/* SPDX-License-Identifier: MIT */
#include "tests/flow/consume_rig.h"

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

void consume_rig_open(struct consume_rig *rig, struct topic_world *topic, struct sink_world *sink,
                      int member, const char *owner, const struct rig_limits *limits)
{
    struct fetch_config fetch = {
        .stream = &rig->stream.ops,
        .links = rig->links,
        .link_count = RIG_APPLIERS,
        .batch_rows_max = limits->rows_max,
        .batch_bytes_max = 100000,
        .batches_max = limits->batches_max,
        .batch_wait_ms = limits->wait_ms,
        .rng = fake_rng,
        .wall_ms = wall_ms,
    };

    memset(rig, 0, sizeof(*rig));
    rig->alive = true;
    snprintf(rig->owner, sizeof(rig->owner), "%s", owner);
    stream_model_init(&rig->stream, topic, member);
    for (int i = 0; i < RIG_APPLIERS; i++) {
        struct applier_config config = {
            .sink = &rig->sinks[i].ops,
            .owner = rig->owner,
            .batch_rows_max = limits->rows_max,
            .jobs_max = 4, /* small, so that rings are full now and then */
            .rng = fake_rng,
            .clock_us = no_time,
            .wake_fetch = ring,
            .wake_ctx = &rig->fetch_ms,
        };

        sink_model_init(&rig->sinks[i], sink);
        assert_int_equal(applier_init(&rig->appliers[i], &config, NULL), RC_OK);
        rig->links[i] = (struct fetch_link){.given = &rig->appliers[i].given,
                                            .done = &rig->appliers[i].done,
                                            .wake = ring,
                                            .wake_ctx = &rig->apply_ms[i],
                                            .reconnects = &rig->appliers[i].reconnects};
    }
    assert_int_equal(fetch_init(&rig->fetch, &fetch, NULL), RC_OK);
}

void consume_rig_kill(struct consume_rig *rig)
{
    if (!rig->alive)
        return;
    rig->alive = false;
    stream_model_leave(&rig->stream);
    for (int i = 0; i < RIG_APPLIERS; i++)
        applier_done(&rig->appliers[i]);
    fetch_done(&rig->fetch);
}

void consume_rig_step(struct consume_rig *rig, int which, int64_t now_ms)
{
    int64_t *due_ms = which == 0 ? &rig->fetch_ms : &rig->apply_ms[which - 1];
    int64_t wait_ms;

    if (!rig->alive || rig->ended || now_ms < *due_ms)
        return;
    step_ms = now_ms;
    *due_ms = now_ms + FAR_MS; /* a wakeup meanwhile makes it earlier */
    wait_ms = which == 0 ? fetch_step(&rig->fetch, now_ms)
                         : applier_step(&rig->appliers[which - 1], now_ms);
    rig->ended = wait_ms == LOOP_END;
    if (wait_ms >= 0 && *due_ms > now_ms)
        *due_ms = now_ms + wait_ms;
}

static int64_t earliest(const struct consume_rig *rig)
{
    int64_t due_ms = rig->fetch_ms;

    for (int i = 0; i < RIG_APPLIERS; i++)
        if (rig->apply_ms[i] < due_ms)
            due_ms = rig->apply_ms[i];
    return due_ms;
}

void consume_rig_run(struct consume_rig *rig, int64_t *now_ms, int64_t until_ms)
{
    while (!rig->ended && *now_ms < until_ms) {
        for (int which = 0; which <= RIG_APPLIERS; which++)
            consume_rig_step(rig, which, *now_ms);
        if (earliest(rig) > *now_ms)
            *now_ms = earliest(rig);
    }
    *now_ms = until_ms;
}
