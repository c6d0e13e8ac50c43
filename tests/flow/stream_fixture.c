/* SPDX-License-Identifier: MIT */
#include "tests/flow/stream_fixture.h"

#include "common/loop.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Calls of steps that are tried in one millisecond. */
#define TICK_STEPS 8

/* Of the server while nothing happens. */
#define HEARTBEAT_MS 2000

/* No test needs so much time: one that waits for something in vain ends here. */
#define RUN_MS_MAX 1000000

static int64_t call_step(struct stream_fixture *fixture, size_t which)
{
    switch (which) {
    case LANE_READER:
        return stream_reader_step(&fixture->reader, fixture->fake.now_ms);
    case LANE_SENDER:
        return sender_step(&fixture->sender, fixture->fake.now_ms);
    case LANE_DELETER:
        return stream_keeper_step(&fixture->keeper, fixture->fake.now_ms);
    default:
        return stream_pump_step(&fixture->pump, fixture->fake.now_ms);
    }
}

/* Whether the pump waits for the server in its step, as the adapter does at the end of the log.
 * Only an event or a new order ends that. */
static bool pump_is_blocked(const struct stream_fixture *fixture)
{
    const struct fake_binlog *log = &fixture->log;

    return fixture->pump.ops.interrupt && fixture->fake.now_ms < fixture->blocked_until_ms &&
           log->count == log->at && !log->interrupted;
}

static void step(struct stream_fixture *fixture, size_t which)
{
    int64_t now_ms = fixture->fake.now_ms;
    bool at_end = fixture->pump.reads && fixture->log.at == fixture->log.count;
    int64_t wait_ms;

    if (which == FIXTURE_PUMP && pump_is_blocked(fixture))
        return;
    if (fixture->running[which] || now_ms < fixture->due_ms[which] ||
        fake_relay_chance(&fixture->fake, fixture->late_steps))
        return;
    /* A wake-up during the step is kept, as the wakeup keeps it. */
    fixture->due_ms[which] = INT64_MAX;
    fixture->running[which] = true;
    wait_ms = call_step(fixture, which);
    fixture->running[which] = false;
    if (which == FIXTURE_PUMP)
        fixture->blocked_until_ms = at_end && wait_ms == 0 ? now_ms + HEARTBEAT_MS : 0;
    assert(wait_ms >= 0 || wait_ms == LOOP_WAKEUP);
    if (fixture->due_ms[which] == INT64_MAX && wait_ms != LOOP_WAKEUP && wait_ms != LANE_REST_MS)
        fixture->due_ms[which] = now_ms + wait_ms;
}

/* Runs a step of another thread, as if this one were interrupted. */
static void switch_thread(void *ctx)
{
    struct stream_fixture *fixture = ctx;

    if (fixture->is_started && fake_relay_chance(&fixture->fake, fixture->switches))
        step(fixture, (size_t)fake_relay_below(&fixture->fake, FIXTURE_STEPS));
}

static void wake(void *ctx, enum lane_step step)
{
    struct stream_fixture *fixture = ctx;

    fixture->due_ms[step] = 0;
    switch_thread(fixture);
}

static void wake_pump(void *ctx, bool reader)
{
    struct stream_fixture *fixture = ctx;

    fixture->due_ms[reader ? (size_t)LANE_READER : (size_t)FIXTURE_PUMP] = 0;
    switch_thread(fixture);
}

static uint64_t make_seed(struct stream_fixture *fixture)
{
    return fake_relay_below(&fixture->fake, 1000);
}

static void engines_start(struct stream_fixture *fixture)
{
    static const struct lane_settings own = {.empty_payload = LANE_EMPTY_VALUE,
                                             .name = "outbox",
                                             .table = "outbox",
                                             .source = LANE_SOURCE_BINLOG,
                                             .keep_ids_max = 100};
    /* The position in Kafka has seqs, but no ids. */
    static const struct lane_settings exact = {.empty_payload = LANE_EMPTY_VALUE,
                                               .name = "outbox",
                                               .table = "outbox",
                                               .source = LANE_SOURCE_BINLOG,
                                               .exactly_once = "yes"};
    struct lane *lane = &fixture->lane;
    const struct broker broker = fake_binlog_broker(&fixture->log);
    const struct diverter_ops diverter = fake_binlog_diverter(&fixture->log);
    const struct position_store positions = fake_binlog_positions(&fixture->log);
    const struct stream_ops stream = fake_binlog_stream(&fixture->log);
    enum rc rc = lane_init(lane, fixture->log.exact ? &exact : &own, &fixture->settings,
                           relay_metrics_of(0, own.name), NULL);

    if (fixture->log.exact) {
        takeover_init(&fixture->takeover);
        lane->takeover = &fixture->takeover;
    }
    lane->wake = wake;
    lane->wake_ctx = fixture;
    if (rc == RC_OK)
        rc = stream_pump_init(&fixture->pump, &stream, lane->batches[0].rows_max,
                              lane->batches[0].arena_size, NULL);
    fixture->pump.wake = wake_pump;
    fixture->pump.wake_ctx = fixture;
    stream_keeper_init(&fixture->keeper, lane, &positions, &diverter, make_seed(fixture));
    if (rc == RC_OK)
        rc = stream_reader_init(&fixture->reader, lane, &fixture->pump, &fixture->keeper,
                                &positions, make_seed(fixture), NULL);
    if (rc == RC_OK)
        rc = sender_init(&fixture->sender, lane, &broker, make_seed(fixture), NULL);
    assert(rc == RC_OK);
    fixture->keeper.diverter.rows_max = 3;
    lane->diverted.moves_max = 8;
    memset(fixture->due_ms, 0, sizeof(fixture->due_ms));
    fixture->is_started = true;
}

static void engines_end(struct stream_fixture *fixture)
{
    fixture->is_started = false;
    stream_reader_done(&fixture->reader);
    stream_keeper_done(&fixture->keeper);
    stream_pump_done(&fixture->pump);
    sender_done(&fixture->sender);
    lane_done(&fixture->lane);
    takeover_done(&fixture->takeover);
}

static void init_fixture(struct stream_fixture *fixture, uint64_t seed, int64_t window_rows_max,
                         bool exact)
{
    struct settings *settings = &fixture->settings;

    memset(fixture, 0, sizeof(*fixture));
    fake_relay_init(&fixture->fake, seed);
    fixture->begin_ms = fixture->fake.now_ms;
    fake_binlog_init(&fixture->log, &fixture->fake);
    fixture->log.pass = switch_thread;
    fixture->log.pass_ctx = fixture;
    fixture->log.exact = exact;
    if (exact)
        fixture->fake.position = &fixture->log.last;
    fixture->log.by_id = !exact && seed % 2 == 0;
    snprintf(settings->relay.topic_prefix, sizeof(settings->relay.topic_prefix), "outbox.");
    settings->relay.read_rows_max = 20;
    settings->relay.read_bytes_max = 65536;
    settings->relay.row_bytes_max = 1024;
    settings->relay.window_rows_max = window_rows_max > 0 ? window_rows_max : 64;
    settings->relay.full_scan_ms = 700;
    settings->relay.send_timeout_ms = 300;
    settings->relay.diverted_keys_max = 4;
    settings->relay.lease_ms = 1000;
    engines_start(fixture);
}

void stream_fixture_init(struct stream_fixture *fixture, uint64_t seed, int64_t window_rows_max)
{
    init_fixture(fixture, seed, window_rows_max, false);
}

void stream_fixture_init_exact(struct stream_fixture *fixture, uint64_t seed,
                               int64_t window_rows_max)
{
    init_fixture(fixture, seed, window_rows_max, true);
}

void stream_fixture_done(struct stream_fixture *fixture)
{
    engines_end(fixture);
    fake_binlog_done(&fixture->log);
}

/* As the leases do after each change. */
static void wake_all(struct stream_fixture *fixture)
{
    fixture->lane.lease.wake(fixture->lane.lease.ctx);
}

void stream_fixture_take_lease(struct stream_fixture *fixture)
{
    struct leased *lease = &fixture->lane.lease;

    atomic_store(&lease->draining, false);
    atomic_store(&lease->idle, false);
    atomic_store(&lease->epoch, fixture->fake.epoch);
    atomic_store(&lease->valid_until_ms, INT64_MAX);
    wake_all(fixture);
}

void stream_fixture_begin_gap(struct stream_fixture *fixture)
{
    atomic_store(&fixture->lane.lease.valid_until_ms, fixture->fake.now_ms);
    for (size_t i = 0; i < FIXTURE_STEPS; i++)
        fixture->due_ms[i] = 0;
}

void stream_fixture_end_gap(struct stream_fixture *fixture)
{
    atomic_store(&fixture->lane.lease.valid_until_ms, INT64_MAX);
}

void stream_fixture_lose_lease(struct stream_fixture *fixture)
{
    atomic_store(&fixture->lane.lease.valid_until_ms, 0);
    atomic_store(&fixture->lane.lease.draining, false);
    fixture->fake.epoch++;
    wake_all(fixture);
}

void stream_fixture_restart(struct stream_fixture *fixture)
{
    engines_end(fixture);
    fixture->log.claimed = BROKER_UNCLAIMED;
    fake_relay_kill(&fixture->fake);
    fixture->fake.epoch++;
    engines_start(fixture);
    stream_fixture_take_lease(fixture);
}

/* The window is bounded, and all rows of the queue have their bytes counted. */
static void check_bounds(struct stream_fixture *fixture)
{
    const struct row_progress *progress = &fixture->reader.progress;
    int64_t rows = progress->high + 1 - progress->low;

    if (rows < 0 || (size_t)rows > progress->rows_max)
        fake_binlog_blame(&fixture->log, "the window has %lld of %zu rows", (long long)rows,
                          progress->rows_max);
    if (fixture->reader.with_others > progress->rows_max)
        fake_binlog_blame(&fixture->log, "%zu rows are passed on", fixture->reader.with_others);
}

void stream_fixture_run(struct stream_fixture *fixture, int64_t ms)
{
    int64_t until_ms = fixture->fake.now_ms + ms;

    assert(until_ms < fixture->begin_ms + RUN_MS_MAX);
    while (fixture->fake.now_ms < until_ms) {
        fake_relay_tick(&fixture->fake);
        fake_binlog_tick(&fixture->log);
        for (int i = 0; i < TICK_STEPS; i++)
            step(fixture, (size_t)fake_relay_below(&fixture->fake, FIXTURE_STEPS));
        check_bounds(fixture);
    }
}

bool stream_fixture_drain_lease(struct stream_fixture *fixture, int64_t ms)
{
    struct leased *lease = &fixture->lane.lease;
    int64_t until_ms = fixture->fake.now_ms + ms;
    bool is_idle;

    atomic_store(&lease->draining, true);
    wake_all(fixture);
    while (!atomic_load(&lease->idle) && fixture->fake.now_ms < until_ms)
        stream_fixture_run(fixture, 1);
    is_idle = atomic_load(&lease->idle);
    stream_fixture_lose_lease(fixture);
    return is_idle;
}

bool stream_fixture_is_drained(const struct stream_fixture *fixture)
{
    const struct row_progress *progress = &fixture->reader.progress;

    return fake_binlog_is_saved(&fixture->log) && fake_relay_tasks(&fixture->fake) == 0 &&
           progress->low == progress->high + 1 && progress->read == progress->high &&
           fixture->reader.with_others == 0 && atomic_load(&fixture->lane.diverted.count) == 0;
}

bool stream_fixture_drain(struct stream_fixture *fixture, int64_t ms)
{
    int64_t until_ms = fixture->fake.now_ms + ms;

    while (!stream_fixture_is_drained(fixture)) {
        if (fixture->fake.now_ms >= until_ms)
            return false;
        stream_fixture_run(fixture, 20);
    }
    return true;
}
