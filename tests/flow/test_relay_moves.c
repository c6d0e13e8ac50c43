/* SPDX-License-Identifier: MIT */
/* Rows that are refused, and their keys: into the retry queue, through it, and back to the fast
 * path. */
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

static void a_refused_row_goes_into_the_retry_queue_with_all_of_its_key(void **state)
{
    int64_t bad;
    int64_t behind;

    (void)state;
    rig.world.task_chance = 0;
    append_some(60);
    bad = world_append(&rig.world, 4);
    rig.world.rows[bad].sync_bad = true;
    append_some(60);
    behind = world_append(&rig.world, 4);
    rig_run(&rig, 3000);
    assert_int_equal(published(bad), 0);
    assert_int_equal(published(behind), 0);
    /* The refused row, five of its key after it, and the last. */
    assert_int_equal(world_left(&rig.world), 0);
    assert_int_equal(world_key_tasks(&rig.world, 4), 7);
    assert_int_equal(world_tasks(&rig.world), 7);
    assert_int_equal(rig.world.tasks[0], bad);
    assert_int_equal(rig.world.tasks[6], behind);
    assert_int_equal(atomic_load(&rig.lane.diverted.count), 1);
    assert_true(rig.lane.stopping.on);
    rig.world.task_chance = 50;
    assert_true(rig_drain(&rig, 60000));
    assert_false(rig.lane.stopping.on);
    assert_all_is_well();
}

static void a_key_goes_back_to_the_fast_path_when_its_last_task_is_gone(void **state)
{
    int64_t bad;
    int64_t after;

    (void)state;
    rig.world.task_chance = 0;
    bad = world_append(&rig.world, 4);
    rig.world.rows[bad].oversize = true;
    world_append(&rig.world, 4);
    rig_run(&rig, 500);
    world_run_task(&rig.world, 4);
    rig_run(&rig, 1000);
    assert_int_equal(atomic_load(&rig.lane.diverted.count), 1);
    world_run_task(&rig.world, 4);
    rig_run(&rig, 1000);
    assert_int_equal(atomic_load(&rig.lane.diverted.count), 0);
    after = world_append(&rig.world, 4);
    rig_run(&rig, 100);
    assert_int_equal(published(after), 1);
    assert_int_equal(rig.world.task_count, 2);
    assert_all_is_well();
}

/* As between a question to the database and its answer. */
static void a_row_that_is_handed_over_after_the_question_keeps_its_key_stopped(void **state)
{
    struct lane_key keys[4];
    size_t cursor = 0;
    uint64_t asked;
    int64_t bad;

    (void)state;
    rig.world.task_chance = 0;
    bad = world_append(&rig.world, 4);
    rig.world.rows[bad].oversize = true;
    rig_run(&rig, 500);
    world_run_task(&rig.world, 4);
    assert_int_equal(diverted_keys_question(&rig.lane.diverted, &cursor, keys, 4, &asked), 1);
    world_append(&rig.world, 4);
    while (rig.lane.diverted.next == asked) {
        world_tick(&rig.world);
        reader_step(&rig.reader, rig.world.now_ms);
        sender_step(&rig.sender, rig.world.now_ms);
    }
    assert_false(diverted_keys_answer(&rig.lane.diverted, keys[0].key, asked));
    assert_int_equal(atomic_load(&rig.lane.diverted.count), 1);
    rig.world.task_chance = 50;
    assert_true(rig_drain(&rig, 60000));
    assert_all_is_well();
}

static void good_neighbours_of_a_row_that_the_broker_refuses_are_not_blamed(void **state)
{
    int64_t bad;

    (void)state;
    rig.world.task_chance = 0;
    append_some(60);
    bad = world_append(&rig.world, 4);
    rig.world.rows[bad].bad = true;
    append_some(60);
    rig_run(&rig, 3000);
    assert_int_equal(published(bad), 0);
    assert_int_equal(world_left(&rig.world), 0);
    assert_int_equal(world_tasks(&rig.world), 6);
    assert_int_equal(rig.world.tasks[0], bad);
    for (int64_t seq = 1; seq < rig.world.outbox.seq_next; seq++) {
        assert_true(published(seq) <= 1);
        assert_true(rig.world.rows[seq].refused <= 1 || seq == bad);
    }
    rig.world.task_chance = 50;
    assert_true(rig_drain(&rig, 60000));
    assert_all_is_well();
}

static void several_refused_keys_stop_and_the_rest_goes_on(void **state)
{
    (void)state;
    rig.world.task_chance = 0;
    append_some(36);
    for (int key = 0; key < 4; key++)
        rig.world.rows[world_append(&rig.world, key)].bad = true;
    append_some(36);
    rig_run(&rig, 5000);
    assert_int_equal(atomic_load(&rig.lane.diverted.count), 4);
    assert_int_equal(world_left(&rig.world), 0);
    assert_int_equal(world_tasks(&rig.world), 4 + 4 * 3);
    rig.world.task_chance = 50;
    assert_true(rig_drain(&rig, 60000));
    assert_all_is_well();
}

/* What was sent of the key before may still fail, and is sent again then: it must not come
 * after. */
static void a_refused_row_waits_for_the_answers_to_those_before_it(void **state)
{
    int64_t before = world_append(&rig.world, 4);
    int64_t bad = world_append(&rig.world, 4);

    (void)state;
    rig.world.rows[bad].sync_bad = true;
    rig.world.silent_until_ms = rig.world.now_ms + 200;
    rig.world.down_until_ms = rig.world.now_ms + 200;
    rig_run(&rig, 150);
    assert_int_equal(flight_count(&rig.sender.flight), 1);
    assert_int_equal(rig.lane.diverted.next, 0);
    assert_true(rig_drain(&rig, 20000));
    assert_int_equal(rig.world.log[0], before);
    assert_int_equal(rig.world.log[rig.world.log_count - 1], bad);
    assert_all_is_well();
}

/* The retry queue takes nothing: the key's rows stay in the table, and everything else goes on. */
static void a_retry_queue_that_takes_nothing_delays_its_keys_only(void **state)
{
    int64_t bad;

    (void)state;
    rig.world.faults.move = 1000;
    bad = world_append(&rig.world, 4);
    rig.world.rows[bad].sync_bad = true;
    append_some(600);
    rig_run(&rig, 5000);
    assert_true(rig.lane.moving.on);
    assert_int_equal(rig.world.task_count, 0);
    assert_int_equal(world_left(&rig.world), 1 + 50);
    assert_int_equal(published(600), 1);
    rig.world.faults.move = 0;
    assert_true(rig_drain(&rig, 60000));
    assert_false(rig.lane.moving.on);
    assert_all_is_well();
}

/* More than may follow it: the rest stays in the table, and is sent in order when the tasks are
 * gone. */
static void all_of_many_rows_of_a_key_reach_the_retry_queue(void **state)
{
    int64_t bad = world_append(&rig.world, 4);

    (void)state;
    rig.world.task_chance = 0;
    rig.world.rows[bad].sync_bad = true;
    for (int i = 0; i < 40; i++)
        world_append(&rig.world, 4);
    rig_run(&rig, 3000);
    assert_int_equal(world_tasks(&rig.world), 12);
    assert_int_equal(world_left(&rig.world), 29);
    for (int i = 0; i < 12; i++)
        world_run_task(&rig.world, 4);
    assert_true(rig_drain(&rig, 3000));
    assert_int_equal(rig.world.task_count, 12);
    assert_all_is_well();
}

/* Rows on their way into the retry queue are given up with the lease: nothing may pass them. */
static void a_gap_in_the_lease_that_only_the_diverter_sees_begins_anew(void **state)
{
    int64_t bad = world_append(&rig.world, 4);

    (void)state;
    rig.world.rows[bad].sync_bad = true;
    rig.world.faults.move = 1000;
    rig_run(&rig, 200);
    assert_true(rig.lane.moving.on);
    atomic_store(&rig.lane.lease.valid_until_ms, 0);
    deleter_step(&rig.deleter, rig.world.now_ms);
    atomic_store(&rig.lane.lease.valid_until_ms, INT64_MAX);
    rig.world.faults.move = 0;
    world_append(&rig.world, 4);
    append_some(30);
    assert_true(rig_drain(&rig, 30000));
    assert_all_is_well();
}

static void the_keys_are_known_to_the_next_holder_of_the_lane(void **state)
{
    int64_t bad = world_append(&rig.world, 4);
    int64_t behind;

    (void)state;
    rig.world.task_chance = 0;
    rig.world.rows[bad].sync_bad = true;
    rig_run(&rig, 200);
    rig_restart(&rig);
    behind = world_append(&rig.world, 4);
    rig_run(&rig, 500);
    assert_int_equal(published(behind), 0);
    assert_int_equal(world_key_tasks(&rig.world, 4), 2);
    assert_int_equal(atomic_load(&rig.lane.diverted.count), 1);
    assert_true(rig.lane.stopping.on);
    rig.world.task_chance = 50;
    assert_true(rig_drain(&rig, 30000));
    assert_all_is_well();
}

static void nothing_is_sent_while_more_keys_are_in_the_retry_queue_than_may_be(void **state)
{
    (void)state;
    rig.world.task_chance = 0;
    for (int key = 0; key < 4; key++)
        rig.world.rows[world_append(&rig.world, key)].sync_bad = true;
    rig_run(&rig, 500);
    rig.lane.diverted.count_max = 3;
    assert_int_equal(world_tasks(&rig.world), 4);
    rig_lose_lease(&rig);
    rig_run(&rig, 300);
    rig_take_lease(&rig);
    append_some(12);
    rig_run(&rig, 3000);
    assert_true(rig.lane.full.on);
    assert_int_equal(world_left(&rig.world), 12);
    world_run_task(&rig.world, 2);
    rig_run(&rig, 3000);
    assert_false(rig.lane.full.on);
    assert_int_equal(world_left(&rig.world), 0);
    rig.world.task_chance = 50;
    assert_true(rig_drain(&rig, 30000));
    assert_all_is_well();
}

static void a_row_read_after_another_relay_took_the_lane_is_not_sent(void **state)
{
    int64_t seq;

    (void)state;
    append_some(10);
    assert_true(rig_drain(&rig, 3000));
    rig.world.epoch++;
    seq = world_append(&rig.world, 4);
    rig_run(&rig, 500);
    assert_true(rig.lane.reading.on);
    assert_int_equal(published(seq), 0);
    rig_take_lease(&rig);
    assert_true(rig_drain(&rig, 10000));
    assert_false(rig.lane.reading.on);
    assert_all_is_well();
}

static void too_many_diverted_keys_pause_the_lane_and_say_so(void **state)
{
    (void)state;
    for (int key = 0; key < 6; key++)
        rig.world.rows[world_append(&rig.world, key)].oversize = true;
    append_some(60);
    rig_run(&rig, 500);
    assert_true(rig.lane.full.on);
    rig.world.healed = true;
    assert_true(rig_drain(&rig, 10000));
    assert_false(rig.lane.full.on);
    assert_all_is_well();
}

/* The full scan skips the row while it is in flight, and the sender learns of the refusal before it
 * learns of the scan. */
static void a_row_that_is_refused_after_the_next_full_scan_began_stops_its_key(void **state)
{
    int64_t refused = world_append(&rig.world, 1);
    uint64_t scan;
    int64_t next;

    (void)state;
    rig.world.rows[refused].bad = true;
    while (rig.world.rows[refused].refused == 0)
        rig_run(&rig, 1);
    rig.world.down_until_ms = rig.world.now_ms + 50;
    rig_run(&rig, 50);
    assert_true(rig.sender.alone);
    scan = rig.reader.scan;
    rig.reader.full_scan_at_ms = rig.world.now_ms;
    reader_step(&rig.reader, rig.world.now_ms);
    assert_int_equal(rig.reader.scan, scan + 1);
    while (rig.world.rows[refused].refused == 1)
        world_tick(&rig.world);
    while (atomic_load(&rig.lane.diverted.count) == 0)
        sender_step(&rig.sender, rig.world.now_ms);
    next = world_append(&rig.world, 1);
    rig_run(&rig, 200);
    assert_int_equal(published(next), 0);
    rig.world.healed = true;
    assert_true(rig_drain(&rig, 30000));
    assert_all_is_well();
}

/* The reader goes on where it was: behind the rows of the diverted key. */
static void a_gap_in_the_lease_that_the_reader_does_not_see_sets_no_key_free(void **state)
{
    int64_t refused = world_append(&rig.world, 1);
    int64_t next;

    (void)state;
    rig.world.rows[refused].sync_bad = true;
    rig_run(&rig, 100);
    assert_int_equal(atomic_load(&rig.lane.diverted.count), 1);
    atomic_store(&rig.lane.lease.valid_until_ms, 0);
    sender_step(&rig.sender, rig.world.now_ms);
    atomic_store(&rig.lane.lease.valid_until_ms, INT64_MAX);
    next = world_append(&rig.world, 1);
    rig_run(&rig, 100);
    assert_int_equal(published(next), 0);
    rig.world.healed = true;
    assert_true(rig_drain(&rig, 30000));
    assert_all_is_well();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_refused_row_goes_into_the_retry_queue_with_all_of_its_key,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_key_goes_back_to_the_fast_path_when_its_last_task_is_gone,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_row_that_is_handed_over_after_the_question_keeps_its_key_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            good_neighbours_of_a_row_that_the_broker_refuses_are_not_blamed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_refused_keys_stop_and_the_rest_goes_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_refused_row_waits_for_the_answers_to_those_before_it,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_retry_queue_that_takes_nothing_delays_its_keys_only,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_of_many_rows_of_a_key_reach_the_retry_queue, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_gap_in_the_lease_that_only_the_diverter_sees_begins_anew,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_keys_are_known_to_the_next_holder_of_the_lane, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            nothing_is_sent_while_more_keys_are_in_the_retry_queue_than_may_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_read_after_another_relay_took_the_lane_is_not_sent,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_diverted_keys_pause_the_lane_and_say_so, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_row_that_is_refused_after_the_next_full_scan_began_stops_its_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_gap_in_the_lease_that_the_reader_does_not_see_sets_no_key_free, set_up, tear_down),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
