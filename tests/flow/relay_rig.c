/* SPDX-License-Identifier: MIT */
#include "tests/flow/relay_rig.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void wake(void *ctx, enum lane_step step)
{
    struct rig *rig = ctx;

    rig->due_ms[step] = 0;
}

static void engines_start(struct rig *rig)
{
    static const struct lane_settings own = {.name = "outbox", .table = "outbox"};
    const struct source source = world_source(&rig->world);
    const struct broker broker = world_broker(&rig->world);
    const struct deleter_ops deleter = world_deleter(&rig->world);
    enum rc rc = lane_init(&rig->lane, &own, &rig->settings, relay_metrics_of(0, own.name), NULL);

    if (rc == RC_OK)
        rc = reader_init(&rig->reader, &rig->lane, &source, world_below(&rig->world, 1000), NULL);
    if (rc == RC_OK)
        rc = sender_init(&rig->sender, &rig->lane, &broker, world_below(&rig->world, 1000), NULL);
    if (rc == RC_OK)
        rc =
            deleter_init(&rig->deleter, &rig->lane, &deleter, world_below(&rig->world, 1000), NULL);
    assert(rc == RC_OK);
    rig->reader.ranges_max = 3;
    rig->deleter.ranges_max = 2;
    rig->deleter.diverter.rows_max = 3;
    rig->lane.diverted.moves_max = 8;
    rig->lane.diverted.key_rows_max = 12;
    rig->lane.wake = wake;
    rig->lane.wake_ctx = rig;
    memset(rig->due_ms, 0, sizeof(rig->due_ms));
}

static void engines_end(struct rig *rig)
{
    deleter_done(&rig->deleter);
    sender_done(&rig->sender);
    reader_done(&rig->reader);
    lane_done(&rig->lane);
}

void rig_init(struct rig *rig, uint64_t seed)
{
    struct settings *settings = &rig->settings;

    memset(rig, 0, sizeof(*rig));
    world_init(&rig->world, seed);
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
    engines_start(rig);
}

void rig_done(struct rig *rig)
{
    engines_end(rig);
}

void rig_take_lease(struct rig *rig)
{
    atomic_store(&rig->lane.lease.epoch, rig->world.epoch);
    atomic_store(&rig->lane.lease.valid_until_ms, INT64_MAX);
}

void rig_lose_lease(struct rig *rig)
{
    atomic_store(&rig->lane.lease.valid_until_ms, 0);
    rig->world.epoch++;
}

void rig_restart(struct rig *rig)
{
    engines_end(rig);
    world_kill(&rig->world);
    rig->world.epoch++;
    engines_start(rig);
    rig_take_lease(rig);
}

static void step(struct rig *rig, enum lane_step which)
{
    static const struct {
        int64_t (*step)(void *engine, int64_t now_ms);
        size_t offset;
    } steps[LANE_STEPS] = {
        [LANE_READER] = {reader_step, offsetof(struct rig, reader)},
        [LANE_SENDER] = {sender_step, offsetof(struct rig, sender)},
        [LANE_DELETER] = {deleter_step, offsetof(struct rig, deleter)},
    };
    struct world *world = &rig->world;
    int64_t wait_ms;

    if (world->now_ms < rig->due_ms[which] || world_chance(world, (unsigned)rig->late_steps))
        return;
    /* A wake-up during the step is kept, as the wakeup keeps it. */
    rig->due_ms[which] = INT64_MAX;
    wait_ms = steps[which].step((char *)rig + steps[which].offset, world->now_ms);
    assert(wait_ms >= 0);
    if (rig->due_ms[which] == INT64_MAX)
        rig->due_ms[which] = world->now_ms + wait_ms;
}

void rig_run(struct rig *rig, int64_t ms)
{
    int64_t until_ms = rig->world.now_ms + ms;

    while (rig->world.now_ms < until_ms) {
        world_tick(&rig->world);
        for (int i = 0; i < 6; i++)
            step(rig, (enum lane_step)world_below(&rig->world, LANE_STEPS));
    }
}

bool rig_drain(struct rig *rig, int64_t ms)
{
    int64_t until_ms = rig->world.now_ms + ms;

    while (world_left(&rig->world) > 0 || world_tasks(&rig->world) > 0 ||
           rig->reader.window.count > 0 || atomic_load(&rig->lane.diverted.count) > 0) {
        if (rig->world.now_ms >= until_ms)
            return false;
        rig_run(rig, 20);
    }
    return true;
}
