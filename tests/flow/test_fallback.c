/* SPDX-License-Identifier: MIT */
/* How the reader of a stream lane lets the lane go on from its table: on a model of the fallback,
 * which checks invariant R22 from the side of the reader. */
#include "common/log.h"
#include "tests/flow/stream_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define SEEDS 100
#define DRAIN_MS 600000
#define WAIT_MS 60000

static struct stream_fixture fixture;
static struct fake_relay *const fake = &fixture.fake;
static struct fake_binlog *const binlog = &fixture.log;

/* The fallback: it runs until the test sets the result. */
static struct {
    size_t begins;
    size_t cancels;
    size_t saves; /* of positions, before it began */
    size_t opens; /* of the stream, before it began */
    int64_t unsaved_max;
    bool runs;
    bool slow; /* a cancel does not end it at once */
    bool has_result;
    enum rc rc;
} model;

static void begin_model(void *ctx, int64_t epoch, int64_t unsaved_max)
{
    (void)ctx;
    assert_false(model.runs);
    assert_int_equal(epoch, fake->epoch);
    assert_int_equal(fixture.reader.with_others, 0);
    assert_int_equal(fixture.reader.with_sender, 0);
    model.runs = true;
    model.begins++;
    model.saves = binlog->saves;
    model.opens = binlog->opens;
    model.unsaved_max = unsaved_max;
}

static bool end_model(void *ctx, enum rc *rc, struct err *err)
{
    (void)ctx;
    assert_true(model.runs);
    assert_int_equal(binlog->saves, model.saves);
    assert_int_equal(binlog->opens, model.opens);
    if (!model.has_result)
        return false;
    model.has_result = model.runs = false;
    *rc = model.rc;
    if (model.rc != RC_OK)
        err_set(err, "the fallback has failed");
    return true;
}

static bool cancel_model(void *ctx)
{
    (void)ctx;
    model.cancels++;
    if (model.slow)
        return false;
    model.runs = false;
    return true;
}

static void use_model(void)
{
    const struct fallback_ops ops = {NULL, begin_model, end_model, cancel_model};

    stream_reader_use_fallback(&fixture.reader, &ops);
}

static void begin(uint64_t seed)
{
    memset(&model, 0, sizeof(model));
    stream_fixture_init(&fixture, seed, 0);
    use_model();
    stream_fixture_take_lease(&fixture);
    stream_fixture_run(&fixture, 500);
    assert_true(binlog->found);
}

static int set_up(void **state)
{
    (void)state;
    begin(7);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stream_fixture_done(&fixture);
    return 0;
}

static void wait_for_begins(size_t begins)
{
    for (int i = 0; i < WAIT_MS && model.begins < begins; i++)
        stream_fixture_run(&fixture, 1);
    assert_int_equal(model.begins, begins);
}

static void end_with(enum rc rc)
{
    model.rc = rc;
    model.has_result = true;
    for (int i = 0; i < WAIT_MS && model.has_result; i++)
        stream_fixture_run(&fixture, 1);
    assert_false(model.has_result);
}

/* As the leases do with a lane that was given up. */
static void take_again(void)
{
    struct leased *lease = &fixture.lane.lease;

    for (int i = 0; i < WAIT_MS && !atomic_load(&lease->idle); i++)
        stream_fixture_run(&fixture, 1);
    assert_true(atomic_load(&lease->idle));
    atomic_store(&lease->origin_lost, false);
    fake->epoch++;
    stream_fixture_take_lease(&fixture);
}

static void assert_drains(uint64_t seed)
{
    bool drained = stream_fixture_drain(&fixture, DRAIN_MS);

    if (binlog->broken[0])
        fail_msg("seed %llu: %s", (unsigned long long)seed, binlog->broken);
    if (!drained || fake_relay_lost(fake) > 0 || fake_relay_overtaken(fake) > 0)
        fail_msg("seed %llu: drained %d, %zu rows lost, %zu overtaken", (unsigned long long)seed,
                 drained, fake_relay_lost(fake), fake_relay_overtaken(fake));
}

static void a_lane_that_was_current_has_saved_all(void **state)
{
    (void)state;
    fake_binlog_append(binlog, 20);
    assert_drains(7);
    binlog->purged = true;
    wait_for_begins(1);
    assert_int_equal(model.unsaved_max, 0);
    fake_binlog_append(binlog, 5);
    stream_fixture_run(&fixture, 5000);
    assert_int_equal(fake->log_count, 20);
    binlog->purged = false;
    end_with(RC_OK);
    assert_true(atomic_load(&fixture.lane.lease.origin_lost));
    take_again();
    assert_drains(7);
    assert_int_equal(fake->log_count, 25);
    assert_int_equal(model.begins, 1);
}

static void a_lane_that_has_read_nothing_does_not_know_what_is_saved(void **state)
{
    (void)state;
    fake_binlog_append(binlog, 20);
    assert_drains(7);
    binlog->purged = true;
    stream_fixture_restart(&fixture);
    use_model();
    wait_for_begins(1);
    assert_int_equal(model.unsaved_max, 3 * fixture.reader.progress.rows_max);
}

static void a_lane_without_a_fallback_stops(void **state)
{
    const struct fallback_ops none = {0};

    (void)state;
    stream_reader_use_fallback(&fixture.reader, &none);
    binlog->purged = true;
    stream_fixture_run(&fixture, 5000);
    assert_true(fixture.lane.reading.failing);
    assert_int_equal(model.begins, 0);
}

static void a_fallback_that_refuses_is_asked_again_after_a_while(void **state)
{
    (void)state;
    binlog->purged = true;
    wait_for_begins(1);
    end_with(RC_FATAL);
    assert_true(fixture.lane.reading.failing);
    assert_string_equal(fixture.lane.reading.err.text, "the fallback has failed");
    stream_fixture_run(&fixture, 25000);
    assert_int_equal(model.begins, 1);
    wait_for_begins(2);
    end_with(RC_RETRY);
    wait_for_begins(3);
    binlog->purged = false;
    end_with(RC_OK);
    assert_false(fixture.lane.reading.failing);
    take_again();
    fake_binlog_append(binlog, 5);
    assert_drains(7);
}

static void the_lease_is_not_given_back_while_it_runs(void **state)
{
    (void)state;
    binlog->purged = true;
    wait_for_begins(1);
    model.slow = true;
    stream_fixture_lose_lease(&fixture);
    stream_fixture_run(&fixture, 3000);
    assert_true(model.cancels > 0);
    assert_false(atomic_load(&fixture.lane.lease.idle));
    model.slow = binlog->purged = false;
    take_again();
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    assert_int_equal(model.begins, 1);
}

/* What another process has begun. */
static void a_lane_that_has_left_the_log_goes_on_without_reading_it(void **state)
{
    (void)state;
    fake_binlog_append(binlog, 20);
    assert_drains(7);
    binlog->saved.from_table = true;
    model.opens = binlog->opens;
    stream_fixture_restart(&fixture);
    use_model();
    model.saves = binlog->saves;
    for (int i = 0; i < WAIT_MS && model.begins == 0; i++) {
        assert_int_equal(binlog->saves, model.saves);
        assert_int_equal(binlog->opens, model.opens);
        stream_fixture_run(&fixture, 1);
    }
    assert_int_equal(model.begins, 1);
    stream_fixture_run(&fixture, 15000);
    binlog->saved.from_table = false;
    end_with(RC_OK);
    take_again();
    fake_binlog_append(binlog, 5);
    assert_drains(7);
}

static void rows_in_flight_return_first_whatever_happens(void **state)
{
    (void)state;
    tear_down(state);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        for (int round = 1; round <= 3; round++) {
            fake_binlog_append(binlog, 30);
            stream_fixture_run(&fixture, (int64_t)fake_relay_below(fake, 60));
            if (fake_relay_chance(fake, 500))
                fake->silent_until_ms = fake->now_ms + 500;
            binlog->purged = true;
            wait_for_begins((size_t)round);
            binlog->purged = false;
            end_with(RC_OK);
            take_again();
        }
        assert_drains(seed);
        stream_fixture_done(&fixture);
    }
    begin(7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lane_that_was_current_has_saved_all),
        TEST(a_lane_that_has_read_nothing_does_not_know_what_is_saved),
        TEST(a_lane_without_a_fallback_stops),
        TEST(a_fallback_that_refuses_is_asked_again_after_a_while),
        TEST(the_lease_is_not_given_back_while_it_runs),
        TEST(a_lane_that_has_left_the_log_goes_on_without_reading_it),
        TEST(rows_in_flight_return_first_whatever_happens),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
