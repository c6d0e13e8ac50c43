/* SPDX-License-Identifier: MIT */
/* A lane whose lease ends, whose clock leaps, whose database is another one. */
#include "common/log.h"
#include "tests/flow/relay_rig.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct rig rig;

static int set_up(void **state)
{
    (void)state;
    rig_init(&rig, 7);
    rig_take_lease(&rig);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static void assert_all_is_well(void)
{
    assert_int_equal(world_lost(&rig.world), 0);
    assert_int_equal(world_overtaken(&rig.world), 0);
    assert_int_equal(rig.world.wrong_deletes, 0);
    assert_int_equal(rig.reader.window.count, 0);
}

static size_t published(int64_t seq)
{
    return rig.world.rows[seq].published;
}

static void append_some(int count)
{
    for (int i = 0; i < count; i++)
        world_append(&rig.world, i % WORLD_KEYS);
}

static void nothing_is_sent_or_deleted_without_the_lease(void **state)
{
    size_t left;
    size_t log_count;

    (void)state;
    append_some(300);
    rig_run(&rig, 20);
    rig_lose_lease(&rig);
    rig_run(&rig, 200);
    left = world_left(&rig.world);
    log_count = rig.world.log_count;
    assert_true(left > 0);
    rig_run(&rig, 2000);
    assert_int_equal(rig.world.log_count, log_count);
    assert_int_equal(world_left(&rig.world), left);
    assert_true(atomic_load(&rig.lane.lease.idle));
    assert_int_equal(rig.reader.window.count, 0);
    rig_take_lease(&rig);
    assert_true(rig_drain(&rig, 20000));
    assert_all_is_well();
}

static struct broker world_of_slow_sends;

static enum rc slow_send(void *ctx, const char *topic, size_t topic_index,
                         const struct relay_row *row, uint64_t ticket, struct err *err)
{
    assert_true(lane_epoch(&rig.lane, rig.world.now_ms) != 0);
    rig.world.now_ms += 10;
    return world_of_slow_sends.send(ctx, topic, topic_index, row, ticket, err);
}

static int64_t world_time_ms(void *ctx)
{
    return ((struct world *)ctx)->now_ms;
}

/* As when the process is stopped by a signal between two rows of one step. */
static void a_lease_that_ends_in_the_middle_of_a_step_ends_the_sending(void **state)
{
    (void)state;
    rig.lane.time_ms = world_time_ms;
    rig.lane.time_ctx = &rig.world;
    world_of_slow_sends = rig.sender.broker;
    rig.sender.broker.send = slow_send;
    append_some(20);
    atomic_store(&rig.lane.lease.valid_until_ms, rig.world.now_ms + 55);
    rig_run(&rig, 2000);
    assert_true(rig.world.log_count < 10);
    assert_true(atomic_load(&rig.lane.lease.idle));
    assert_int_equal(rig.reader.window.count, 0);
    rig_take_lease(&rig);
    assert_true(rig_drain(&rig, 20000));
    assert_all_is_well();
}

/* As after a suspended machine wakes up: the lease is over, and so is every time-out. */
static void a_clock_that_leaps_by_an_hour_loses_nothing(void **state)
{
    size_t log_count;

    (void)state;
    append_some(300);
    atomic_store(&rig.lane.lease.valid_until_ms, rig.world.now_ms + 1000);
    rig_run(&rig, 20);
    rig.world.now_ms += 3600000;
    log_count = rig.world.log_count;
    rig_run(&rig, 3000);
    /* What the producer had taken over may arrive, and no more. */
    assert_true(rig.world.log_count <= log_count + WORLD_MESSAGES_MAX);
    assert_true(atomic_load(&rig.lane.lease.idle));
    rig.world.epoch++;
    rig_take_lease(&rig);
    assert_true(rig_drain(&rig, 20000));
    assert_all_is_well();
}

static void rows_of_an_earlier_lease_are_given_back_and_read_again(void **state)
{
    (void)state;
    append_some(300);
    rig_run(&rig, 20);
    assert_true(rig.reader.window.count > 0);
    rig.world.epoch++;
    rig_take_lease(&rig);
    metric_set(&rig.lane.metrics->resets, 0);
    assert_true(rig_drain(&rig, 20000));
    assert_true(metric_value(&rig.lane.metrics->resets) > 0);
    assert_all_is_well();
}

/* Rows 11 to 20 are published and about to be deleted when the database loses them. Without the
 * warning the rows that get their seqs would be deleted unseen. */
static void rows_that_get_the_seqs_of_lost_ones_are_published(void **state)
{
    const struct err why = {.text = "the database is another one"};

    (void)state;
    rig.settings.relay.delete_wait_ms = 60000;
    append_some(20);
    while (rig.world.log_count < 20 || rig.world.message_count > 0)
        rig_run(&rig, 1);
    rig_run(&rig, 100);
    assert_int_equal(world_left(&rig.world), 20);
    world_lose_rows(&rig.world, 11);
    append_some(15);
    lane_origin_lost(&rig.lane, &why);
    assert_int_equal(lane_epoch(&rig.lane, rig.world.now_ms), 0);
    rig_run(&rig, 500);
    assert_int_equal(world_left(&rig.world), 25);
    assert_true(atomic_load(&rig.lane.lease.idle));
    rig.world.epoch++;
    atomic_store(&rig.lane.lease.strange, false);
    rig.settings.relay.delete_wait_ms = 20;
    rig_take_lease(&rig);
    assert_true(rig_drain(&rig, 20000));
    assert_all_is_well();
}

static void a_fenced_delete_leaves_the_rows(void **state)
{
    (void)state;
    append_some(10);
    rig.world.epoch++;
    rig_run(&rig, 500);
    assert_int_equal(world_left(&rig.world), 10);
    assert_int_equal(rig.reader.window.count, 0);
}

static void a_lane_that_leaves_deletes_what_was_acknowledged_and_is_idle_then(void **state)
{
    size_t log_count;

    (void)state;
    append_some(300);
    rig_run(&rig, 30);
    atomic_store(&rig.lane.lease.leaving, true);
    rig_run(&rig, 400);
    assert_true(atomic_load(&rig.lane.lease.idle));
    log_count = rig.world.log_count;
    assert_true(log_count > 0 && log_count < 300);
    /* All that was sent was also deleted: whoever comes next publishes nothing twice. */
    assert_int_equal(world_left(&rig.world), 300 - log_count);
    for (int64_t seq = 1; seq < rig.world.outbox.seq_next; seq++)
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
        TEST(a_lane_that_leaves_deletes_what_was_acknowledged_and_is_idle_then),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
