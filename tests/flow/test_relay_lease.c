/* SPDX-License-Identifier: MIT */
/* A lane whose lease ends, whose clock jumps, or whose database is another one. */
#include "common/log.h"
#include "tests/flow/relay_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct relay_fixture fixture;

static int set_up(void **state)
{
    (void)state;
    relay_fixture_init(&fixture, 7);
    relay_fixture_take_lease(&fixture);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    relay_fixture_done(&fixture);
    return 0;
}

static void assert_all_is_well(void)
{
    assert_int_equal(fake_relay_lost(&fixture.fake), 0);
    assert_int_equal(fake_relay_overtaken(&fixture.fake), 0);
    assert_int_equal(fixture.fake.wrong_deletes, 0);
    assert_int_equal(fixture.reader.window.count, 0);
}

static size_t published(int64_t seq)
{
    return fixture.fake.rows[seq].published;
}

static void append_some(int count)
{
    for (int i = 0; i < count; i++)
        fake_relay_append(&fixture.fake, i % FAKE_RELAY_KEYS);
}

static void nothing_is_sent_or_deleted_without_the_lease(void **state)
{
    size_t left;
    size_t log_count;

    (void)state;
    append_some(300);
    relay_fixture_run(&fixture, 20);
    relay_fixture_lose_lease(&fixture);
    relay_fixture_run(&fixture, 200);
    left = fake_relay_left(&fixture.fake);
    log_count = fixture.fake.log_count;
    assert_true(left > 0);
    relay_fixture_run(&fixture, 2000);
    assert_int_equal(fixture.fake.log_count, log_count);
    assert_int_equal(fake_relay_left(&fixture.fake), left);
    assert_true(atomic_load(&fixture.lane.lease.idle));
    assert_int_equal(fixture.reader.window.count, 0);
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 20000));
    assert_all_is_well();
}

static struct broker fake_relay_of_slow_sends;

static enum rc slow_send(void *ctx, const char *topic, size_t topic_index,
                         const struct relay_row *row, uint64_t ticket, struct err *err)
{
    assert_true(lane_epoch(&fixture.lane, fixture.fake.now_ms) != 0);
    fixture.fake.now_ms += 10;
    return fake_relay_of_slow_sends.send(ctx, topic, topic_index, row, ticket, err);
}

static int64_t fake_relay_time_ms(void *ctx)
{
    return ((struct fake_relay *)ctx)->now_ms;
}

/* As when the process is stopped by a signal between two rows of one step. */
static void a_lease_that_ends_in_the_middle_of_a_step_ends_the_sending(void **state)
{
    (void)state;
    fixture.lane.time_ms = fake_relay_time_ms;
    fixture.lane.time_ctx = &fixture.fake;
    fake_relay_of_slow_sends = fixture.sender.broker;
    fixture.sender.broker.send = slow_send;
    append_some(20);
    atomic_store(&fixture.lane.lease.valid_until_ms, fixture.fake.now_ms + 55);
    relay_fixture_run(&fixture, 2000);
    assert_true(fixture.fake.log_count < 10);
    assert_true(atomic_load(&fixture.lane.lease.idle));
    assert_int_equal(fixture.reader.window.count, 0);
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 20000));
    assert_all_is_well();
}

/* As after a suspended machine wakes up: the lease is over, and so is every time-out. */
static void a_clock_that_leaps_by_an_hour_loses_nothing(void **state)
{
    size_t log_count;

    (void)state;
    append_some(300);
    atomic_store(&fixture.lane.lease.valid_until_ms, fixture.fake.now_ms + 1000);
    relay_fixture_run(&fixture, 20);
    fixture.fake.now_ms += 3600000;
    log_count = fixture.fake.log_count;
    relay_fixture_run(&fixture, 3000);
    /* The records that the producer had accepted may arrive, and no others. */
    assert_true(fixture.fake.log_count <= log_count + FAKE_RELAY_MESSAGES_MAX);
    assert_true(atomic_load(&fixture.lane.lease.idle));
    fixture.fake.epoch++;
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 20000));
    assert_all_is_well();
}

static void rows_of_an_earlier_lease_are_given_back_and_read_again(void **state)
{
    (void)state;
    append_some(300);
    relay_fixture_run(&fixture, 20);
    assert_true(fixture.reader.window.count > 0);
    fixture.fake.epoch++;
    relay_fixture_take_lease(&fixture);
    metric_set(&fixture.lane.metrics->resets, 0);
    assert_true(relay_fixture_drain(&fixture, 20000));
    assert_true(metric_value(&fixture.lane.metrics->resets) > 0);
    assert_all_is_well();
}

/* Rows 11 to 20 are published and about to be deleted when the database loses them. Without the
 * warning the rows that get their seqs would be deleted unseen. */
static void rows_that_get_the_seqs_of_lost_ones_are_published(void **state)
{
    const struct err why = {.text = "the database is another one"};

    (void)state;
    fixture.settings.relay.delete_wait_ms = 60000;
    append_some(20);
    while (fixture.fake.log_count < 20 || fixture.fake.message_count > 0)
        relay_fixture_run(&fixture, 1);
    relay_fixture_run(&fixture, 100);
    assert_int_equal(fake_relay_left(&fixture.fake), 20);
    fake_relay_lose_rows(&fixture.fake, 11);
    append_some(15);
    lane_origin_lost(&fixture.lane, &why);
    assert_int_equal(lane_epoch(&fixture.lane, fixture.fake.now_ms), 0);
    relay_fixture_run(&fixture, 500);
    assert_int_equal(fake_relay_left(&fixture.fake), 25);
    assert_true(atomic_load(&fixture.lane.lease.idle));
    fixture.fake.epoch++;
    atomic_store(&fixture.lane.lease.origin_lost, false);
    fixture.settings.relay.delete_wait_ms = 20;
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 20000));
    assert_all_is_well();
}

static void a_fenced_delete_leaves_the_rows(void **state)
{
    (void)state;
    append_some(10);
    fixture.fake.epoch++;
    relay_fixture_run(&fixture, 500);
    assert_int_equal(fake_relay_left(&fixture.fake), 10);
    assert_int_equal(fixture.reader.window.count, 0);
}

static void a_lane_that_leaves_deletes_acknowledged_rows_and_becomes_idle(void **state)
{
    size_t log_count;

    (void)state;
    append_some(300);
    relay_fixture_run(&fixture, 30);
    atomic_store(&fixture.lane.lease.draining, true);
    relay_fixture_run(&fixture, 400);
    assert_true(atomic_load(&fixture.lane.lease.idle));
    log_count = fixture.fake.log_count;
    assert_true(log_count > 0 && log_count < 300);
    /* All sent rows were also deleted: the next relay publishes nothing twice. */
    assert_int_equal(fake_relay_left(&fixture.fake), 300 - log_count);
    for (int64_t seq = 1; seq < fixture.fake.outbox.seq_next; seq++)
        assert_true(published(seq) <= 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_sent_or_deleted_without_the_lease),
        TEST(a_lease_that_ends_in_the_middle_of_a_step_ends_the_sending),
        TEST(a_clock_that_leaps_by_an_hour_loses_nothing),
        TEST(rows_of_an_earlier_lease_are_given_back_and_read_again),
        TEST(rows_that_get_the_seqs_of_lost_ones_are_published),
        TEST(a_fenced_delete_leaves_the_rows),
        TEST(a_lane_that_leaves_deletes_acknowledged_rows_and_becomes_idle),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
