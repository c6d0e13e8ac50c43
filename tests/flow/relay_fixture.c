/* SPDX-License-Identifier: MIT */
#include "tests/flow/relay_fixture.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void wake(void *ctx, enum lane_step step)
{
    struct relay_fixture *fixture = ctx;

    fixture->due_ms[step] = 0;
}

static void engines_start(struct relay_fixture *fixture)
{
    static const struct lane_settings own = {.name = "outbox", .table = "outbox"};
    const struct source source = fake_relay_source(&fixture->fake);
    const struct broker broker = fake_relay_broker(&fixture->fake);
    const struct deleter_ops deleter = fake_relay_deleter(&fixture->fake);
    const struct diverter_ops diverter = fake_relay_diverter(&fixture->fake);
    enum rc rc =
        lane_init(&fixture->lane, &own, &fixture->settings, relay_metrics_of(0, own.name), NULL);

    if (rc == RC_OK)
        rc = reader_init(&fixture->reader, &fixture->lane, &source,
                         fake_relay_below(&fixture->fake, 1000), NULL);
    if (rc == RC_OK)
        rc = sender_init(&fixture->sender, &fixture->lane, &broker,
                         fake_relay_below(&fixture->fake, 1000), NULL);
    if (rc == RC_OK)
        rc = deleter_init(&fixture->deleter, &fixture->lane, &deleter, &diverter,
                          fake_relay_below(&fixture->fake, 1000), NULL);
    assert(rc == RC_OK);
    fixture->lane.is_stream = fixture->is_stream;
    fixture->reader.ranges_max = 3;
    fixture->deleter.ranges_max = 2;
    fixture->deleter.diverter.rows_max = 3;
    fixture->lane.diverted.moves_max = 8;
    fixture->lane.diverted.key_rows_max = 12;
    fixture->lane.wake = wake;
    fixture->lane.wake_ctx = fixture;
    memset(fixture->due_ms, 0, sizeof(fixture->due_ms));
}

static void engines_end(struct relay_fixture *fixture)
{
    deleter_done(&fixture->deleter);
    sender_done(&fixture->sender);
    reader_done(&fixture->reader);
    lane_done(&fixture->lane);
}

void relay_fixture_init(struct relay_fixture *fixture, uint64_t seed)
{
    struct settings *settings = &fixture->settings;

    memset(fixture, 0, sizeof(*fixture));
    fake_relay_init(&fixture->fake, seed);
    snprintf(settings->relay.topic_prefix, sizeof(settings->relay.topic_prefix), "outbox.");
    settings->relay.read_rows_max = 20;
    settings->relay.read_bytes_max = 65536;
    settings->relay.row_bytes_max = 1024;
    settings->relay.window_rows_max = 64;
    settings->relay.poll_ms = 1;
    settings->relay.poll_idle_ms = 5;
    settings->relay.delete_rows_max = 30;
    settings->relay.delete_wait_ms = 20;
    settings->relay.gap_wait_ms = 7000;
    settings->relay.gap_wait_multi_ms = 90000;
    settings->relay.gaps_max = 16;
    settings->relay.full_scan_ms = 700;
    settings->relay.send_timeout_ms = 300;
    settings->relay.diverted_keys_max = 4;
    settings->relay.lease_ms = 1000;
    engines_start(fixture);
}

void relay_fixture_set_stream(struct relay_fixture *fixture)
{
    fixture->is_stream = fixture->lane.is_stream = true;
}

void relay_fixture_done(struct relay_fixture *fixture)
{
    engines_end(fixture);
}

/* As the leases do after each change. */
static void wake_all(struct relay_fixture *fixture)
{
    fixture->lane.lease.wake(fixture->lane.lease.ctx);
}

void relay_fixture_take_lease(struct relay_fixture *fixture)
{
    atomic_store(&fixture->lane.lease.epoch, fixture->fake.epoch);
    atomic_store(&fixture->lane.lease.valid_until_ms, INT64_MAX);
    wake_all(fixture);
}

void relay_fixture_lose_lease(struct relay_fixture *fixture)
{
    atomic_store(&fixture->lane.lease.valid_until_ms, 0);
    fixture->fake.epoch++;
    wake_all(fixture);
}

void relay_fixture_restart(struct relay_fixture *fixture)
{
    engines_end(fixture);
    fake_relay_kill(&fixture->fake);
    fixture->fake.epoch++;
    engines_start(fixture);
    relay_fixture_take_lease(fixture);
}

static void step(struct relay_fixture *fixture, enum lane_step which)
{
    static const struct {
        int64_t (*step)(void *engine, int64_t now_ms);
        size_t offset;
    } steps[LANE_STEPS] = {
        [LANE_READER] = {reader_step, offsetof(struct relay_fixture, reader)},
        [LANE_SENDER] = {sender_step, offsetof(struct relay_fixture, sender)},
        [LANE_DELETER] = {deleter_step, offsetof(struct relay_fixture, deleter)},
    };
    struct fake_relay *fake = &fixture->fake;
    int64_t wait_ms;

    if (fake->now_ms < fixture->due_ms[which] ||
        fake_relay_chance(fake, (unsigned)fixture->late_steps))
        return;
    /* A wake-up during the step is kept, as the wakeup keeps it. */
    fixture->due_ms[which] = INT64_MAX;
    wait_ms = steps[which].step((char *)fixture + steps[which].offset, fake->now_ms);
    assert(wait_ms >= 0);
    if (fixture->due_ms[which] == INT64_MAX && wait_ms != LANE_REST_MS)
        fixture->due_ms[which] = fake->now_ms + wait_ms;
}

void relay_fixture_run(struct relay_fixture *fixture, int64_t ms)
{
    int64_t until_ms = fixture->fake.now_ms + ms;

    while (fixture->fake.now_ms < until_ms) {
        fake_relay_tick(&fixture->fake);
        for (int i = 0; i < 6; i++)
            step(fixture, (enum lane_step)fake_relay_below(&fixture->fake, LANE_STEPS));
    }
}

bool relay_fixture_drain(struct relay_fixture *fixture, int64_t ms)
{
    int64_t until_ms = fixture->fake.now_ms + ms;

    while (fake_relay_left(&fixture->fake) > 0 || fake_relay_tasks(&fixture->fake) > 0 ||
           fixture->reader.window.count > 0 || atomic_load(&fixture->lane.diverted.count) > 0) {
        if (fixture->fake.now_ms >= until_ms)
            return false;
        relay_fixture_run(fixture, 20);
    }
    return true;
}
