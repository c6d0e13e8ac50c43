/* SPDX-License-Identifier: MIT */
/* Rows that are refused, and their keys: into the retry queue, through it, and back to the fast
 * path. */
#include "common/log.h"
#include "tests/flow/relay_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct relay_fixture fixture;
static bool is_stream;

static int set_up(void **state)
{
    (void)state;
    relay_fixture_init(&fixture, 7);
    if (is_stream)
        relay_fixture_set_stream(&fixture);
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
    assert_int_equal(fixture.fake.wrong_copies, 0);
    assert_int_equal(fixture.fake.copies, is_stream ? fixture.fake.task_count : 0);
    assert_int_equal(fixture.lane.diverted.row_bytes, 0);
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

static void a_refused_row_goes_into_the_retry_queue_with_all_of_its_key(void **state)
{
    int64_t bad;
    int64_t behind;

    (void)state;
    fixture.fake.task_chance = 0;
    append_some(60);
    bad = fake_relay_append(&fixture.fake, 4);
    fixture.fake.rows[bad].sync_bad = true;
    append_some(60);
    behind = fake_relay_append(&fixture.fake, 4);
    relay_fixture_run(&fixture, 3000);
    assert_int_equal(published(bad), 0);
    assert_int_equal(published(behind), 0);
    /* The refused row, five of its key after it, and the last. */
    assert_int_equal(fake_relay_left(&fixture.fake), 0);
    assert_int_equal(fake_relay_key_tasks(&fixture.fake, 4), 7);
    assert_int_equal(fake_relay_tasks(&fixture.fake), 7);
    assert_int_equal(fixture.fake.tasks[0], bad);
    assert_int_equal(fixture.fake.tasks[6], behind);
    assert_int_equal(atomic_load(&fixture.lane.diverted.count), 1);
    assert_true(fixture.lane.key_delivery.failing);
    fixture.fake.task_chance = 50;
    assert_true(relay_fixture_drain(&fixture, 60000));
    assert_false(fixture.lane.key_delivery.failing);
    assert_all_is_well();
}

static void a_key_goes_back_to_the_fast_path_when_its_last_task_is_gone(void **state)
{
    int64_t bad;
    int64_t after;

    (void)state;
    fixture.fake.task_chance = 0;
    bad = fake_relay_append(&fixture.fake, 4);
    fixture.fake.rows[bad].oversize = true;
    fake_relay_append(&fixture.fake, 4);
    relay_fixture_run(&fixture, 500);
    fake_relay_run_task(&fixture.fake, 4);
    relay_fixture_run(&fixture, 1000);
    assert_int_equal(atomic_load(&fixture.lane.diverted.count), 1);
    fake_relay_run_task(&fixture.fake, 4);
    relay_fixture_run(&fixture, 1000);
    assert_int_equal(atomic_load(&fixture.lane.diverted.count), 0);
    after = fake_relay_append(&fixture.fake, 4);
    relay_fixture_run(&fixture, 100);
    assert_int_equal(published(after), 1);
    assert_int_equal(fixture.fake.task_count, 2);
    assert_all_is_well();
}

/* As between a question to the database and its answer. */
static void a_row_that_is_handed_over_after_the_question_keeps_its_key_stopped(void **state)
{
    struct lane_key keys[4];
    size_t cursor = 0;
    uint64_t moved_at_query;
    int64_t bad;

    (void)state;
    fixture.fake.task_chance = 0;
    bad = fake_relay_append(&fixture.fake, 4);
    fixture.fake.rows[bad].oversize = true;
    relay_fixture_run(&fixture, 500);
    fake_relay_run_task(&fixture.fake, 4);
    assert_int_equal(
        diverted_keys_list_moved(&fixture.lane.diverted, &cursor, keys, 4, &moved_at_query), 1);
    fake_relay_append(&fixture.fake, 4);
    while (fixture.lane.diverted.next == moved_at_query) {
        fake_relay_tick(&fixture.fake);
        reader_step(&fixture.reader, fixture.fake.now_ms);
        sender_step(&fixture.sender, fixture.fake.now_ms);
    }
    assert_false(diverted_keys_release_key(&fixture.lane.diverted, keys[0].key, moved_at_query));
    assert_int_equal(atomic_load(&fixture.lane.diverted.count), 1);
    fixture.fake.task_chance = 50;
    assert_true(relay_fixture_drain(&fixture, 60000));
    assert_all_is_well();
}

static void good_neighbours_of_a_row_that_the_broker_refuses_are_not_blamed(void **state)
{
    int64_t bad;

    (void)state;
    fixture.fake.task_chance = 0;
    append_some(60);
    bad = fake_relay_append(&fixture.fake, 4);
    fixture.fake.rows[bad].bad = true;
    append_some(60);
    relay_fixture_run(&fixture, 3000);
    assert_int_equal(published(bad), 0);
    assert_int_equal(fake_relay_left(&fixture.fake), 0);
    assert_int_equal(fake_relay_tasks(&fixture.fake), 6);
    assert_int_equal(fixture.fake.tasks[0], bad);
    for (int64_t seq = 1; seq < fixture.fake.outbox.seq_next; seq++) {
        assert_true(published(seq) <= 1);
        assert_true(fixture.fake.rows[seq].refused <= 1 || seq == bad);
    }
    fixture.fake.task_chance = 50;
    assert_true(relay_fixture_drain(&fixture, 60000));
    assert_all_is_well();
}

static void several_refused_keys_stop_and_all_others_continue(void **state)
{
    (void)state;
    fixture.fake.task_chance = 0;
    append_some(36);
    for (int key = 0; key < 4; key++)
        fixture.fake.rows[fake_relay_append(&fixture.fake, key)].bad = true;
    append_some(36);
    relay_fixture_run(&fixture, 5000);
    assert_int_equal(atomic_load(&fixture.lane.diverted.count), 4);
    assert_int_equal(fake_relay_left(&fixture.fake), 0);
    assert_int_equal(fake_relay_tasks(&fixture.fake), 4 + 4 * 3);
    fixture.fake.task_chance = 50;
    assert_true(relay_fixture_drain(&fixture, 60000));
    assert_all_is_well();
}

/* Records of the key that were sent before may still fail, and are sent again then: they must not
 * come later. */
static void a_refused_row_waits_for_the_answers_to_those_before_it(void **state)
{
    int64_t before = fake_relay_append(&fixture.fake, 4);
    int64_t bad = fake_relay_append(&fixture.fake, 4);

    (void)state;
    fixture.fake.rows[bad].sync_bad = true;
    fixture.fake.silent_until_ms = fixture.fake.now_ms + 200;
    fixture.fake.down_until_ms = fixture.fake.now_ms + 200;
    relay_fixture_run(&fixture, 150);
    assert_int_equal(flight_count(&fixture.sender.flight), 1);
    assert_int_equal(fixture.lane.diverted.next, 0);
    assert_true(relay_fixture_drain(&fixture, 20000));
    assert_int_equal(fixture.fake.log[0], before);
    assert_int_equal(fixture.fake.log[fixture.fake.log_count - 1], bad);
    assert_all_is_well();
}

/* The retry queue accepts nothing: the key's rows stay in the table, and other keys continue. */
static void a_retry_queue_that_takes_nothing_delays_its_keys_only(void **state)
{
    int64_t bad;

    (void)state;
    fixture.fake.faults.move = 1000;
    bad = fake_relay_append(&fixture.fake, 4);
    fixture.fake.rows[bad].sync_bad = true;
    append_some(600);
    relay_fixture_run(&fixture, 5000);
    assert_true(fixture.lane.diverting.failing);
    assert_int_equal(fixture.fake.task_count, 0);
    assert_int_equal(fake_relay_left(&fixture.fake), 1 + 50);
    assert_int_equal(published(600), 1);
    fixture.fake.faults.move = 0;
    assert_true(relay_fixture_drain(&fixture, 60000));
    assert_false(fixture.lane.diverting.failing);
    assert_all_is_well();
}

/* More rows than may follow it: the rest stays in the table, and is sent in order when the tasks
 * have ended. */
static void all_of_many_rows_of_a_key_reach_the_retry_queue(void **state)
{
    int64_t bad = fake_relay_append(&fixture.fake, 4);

    (void)state;
    fixture.fake.task_chance = 0;
    fixture.fake.rows[bad].sync_bad = true;
    for (int i = 0; i < 40; i++)
        fake_relay_append(&fixture.fake, 4);
    relay_fixture_run(&fixture, 3000);
    assert_int_equal(fake_relay_tasks(&fixture.fake), 12);
    assert_int_equal(fake_relay_left(&fixture.fake), 29);
    for (int i = 0; i < 12; i++)
        fake_relay_run_task(&fixture.fake, 4);
    assert_true(relay_fixture_drain(&fixture, 3000));
    assert_int_equal(fixture.fake.task_count, 12);
    assert_all_is_well();
}

/* Rows on their way into the retry queue are given up with the lease: nothing may pass them. */
static void a_gap_in_the_lease_that_only_the_diverter_sees_begins_anew(void **state)
{
    int64_t bad = fake_relay_append(&fixture.fake, 4);

    (void)state;
    fixture.fake.rows[bad].sync_bad = true;
    fixture.fake.faults.move = 1000;
    relay_fixture_run(&fixture, 200);
    assert_true(fixture.lane.diverting.failing);
    atomic_store(&fixture.lane.lease.valid_until_ms, 0);
    deleter_step(&fixture.deleter, fixture.fake.now_ms);
    atomic_store(&fixture.lane.lease.valid_until_ms, INT64_MAX);
    fixture.fake.faults.move = 0;
    fake_relay_append(&fixture.fake, 4);
    append_some(30);
    assert_true(relay_fixture_drain(&fixture, 30000));
    assert_all_is_well();
}

static void the_keys_are_known_to_the_next_holder_of_the_lane(void **state)
{
    int64_t bad = fake_relay_append(&fixture.fake, 4);
    int64_t behind;

    (void)state;
    fixture.fake.task_chance = 0;
    fixture.fake.rows[bad].sync_bad = true;
    relay_fixture_run(&fixture, 200);
    relay_fixture_restart(&fixture);
    behind = fake_relay_append(&fixture.fake, 4);
    relay_fixture_run(&fixture, 500);
    assert_int_equal(published(behind), 0);
    assert_int_equal(fake_relay_key_tasks(&fixture.fake, 4), 2);
    assert_int_equal(atomic_load(&fixture.lane.diverted.count), 1);
    assert_true(fixture.lane.key_delivery.failing);
    fixture.fake.task_chance = 50;
    assert_true(relay_fixture_drain(&fixture, 30000));
    assert_all_is_well();
}

static void nothing_is_sent_while_more_keys_are_in_the_retry_queue_than_may_be(void **state)
{
    (void)state;
    fixture.fake.task_chance = 0;
    for (int key = 0; key < 4; key++)
        fixture.fake.rows[fake_relay_append(&fixture.fake, key)].sync_bad = true;
    relay_fixture_run(&fixture, 500);
    fixture.lane.diverted.count_max = 3;
    assert_int_equal(fake_relay_tasks(&fixture.fake), 4);
    relay_fixture_lose_lease(&fixture);
    relay_fixture_run(&fixture, 300);
    relay_fixture_take_lease(&fixture);
    append_some(12);
    relay_fixture_run(&fixture, 3000);
    assert_true(fixture.lane.lane_delivery.failing);
    assert_int_equal(fake_relay_left(&fixture.fake), 12);
    fake_relay_run_task(&fixture.fake, 2);
    relay_fixture_run(&fixture, 3000);
    assert_false(fixture.lane.lane_delivery.failing);
    assert_int_equal(fake_relay_left(&fixture.fake), 0);
    fixture.fake.task_chance = 50;
    assert_true(relay_fixture_drain(&fixture, 30000));
    assert_all_is_well();
}

static void a_row_read_after_another_relay_took_the_lane_is_not_sent(void **state)
{
    int64_t seq;

    (void)state;
    append_some(10);
    assert_true(relay_fixture_drain(&fixture, 3000));
    fixture.fake.epoch++;
    seq = fake_relay_append(&fixture.fake, 4);
    relay_fixture_run(&fixture, 500);
    assert_true(fixture.lane.reading.failing);
    assert_int_equal(published(seq), 0);
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 10000));
    assert_false(fixture.lane.reading.failing);
    assert_all_is_well();
}

static void too_many_diverted_keys_pause_the_lane_and_say_so(void **state)
{
    (void)state;
    for (int key = 0; key < 6; key++)
        fixture.fake.rows[fake_relay_append(&fixture.fake, key)].oversize = true;
    append_some(60);
    relay_fixture_run(&fixture, 500);
    assert_true(fixture.lane.lane_delivery.failing);
    fixture.fake.healed = true;
    assert_true(relay_fixture_drain(&fixture, 10000));
    assert_false(fixture.lane.lane_delivery.failing);
    assert_all_is_well();
}

/* The full scan skips the row while it is in flight, and the sender learns of the refusal before it
 * learns of the scan. */
static void a_row_that_is_refused_after_the_next_full_scan_began_stops_its_key(void **state)
{
    int64_t refused = fake_relay_append(&fixture.fake, 1);
    uint64_t scan;
    int64_t next;

    (void)state;
    fixture.fake.rows[refused].bad = true;
    while (fixture.fake.rows[refused].refused == 0)
        relay_fixture_run(&fixture, 1);
    fixture.fake.down_until_ms = fixture.fake.now_ms + 50;
    relay_fixture_run(&fixture, 50);
    assert_true(fixture.sender.single);
    scan = fixture.reader.scan;
    fixture.reader.full_scan_at_ms = fixture.fake.now_ms;
    reader_step(&fixture.reader, fixture.fake.now_ms);
    assert_int_equal(fixture.reader.scan, scan + 1);
    while (fixture.fake.rows[refused].refused == 1)
        fake_relay_tick(&fixture.fake);
    while (atomic_load(&fixture.lane.diverted.count) == 0)
        sender_step(&fixture.sender, fixture.fake.now_ms);
    next = fake_relay_append(&fixture.fake, 1);
    relay_fixture_run(&fixture, 200);
    assert_int_equal(published(next), 0);
    fixture.fake.healed = true;
    assert_true(relay_fixture_drain(&fixture, 30000));
    assert_all_is_well();
}

/* The reader continues where it was: behind the rows of the diverted key. */
static void a_gap_in_the_lease_that_the_reader_does_not_see_sets_no_key_free(void **state)
{
    int64_t refused = fake_relay_append(&fixture.fake, 1);
    int64_t next;

    (void)state;
    fixture.fake.rows[refused].sync_bad = true;
    relay_fixture_run(&fixture, 100);
    assert_int_equal(atomic_load(&fixture.lane.diverted.count), 1);
    atomic_store(&fixture.lane.lease.valid_until_ms, 0);
    sender_step(&fixture.sender, fixture.fake.now_ms);
    atomic_store(&fixture.lane.lease.valid_until_ms, INT64_MAX);
    next = fake_relay_append(&fixture.fake, 1);
    relay_fixture_run(&fixture, 100);
    assert_int_equal(published(next), 0);
    fixture.fake.healed = true;
    assert_true(relay_fixture_drain(&fixture, 30000));
    assert_all_is_well();
}

static void assert_returned(enum seqs_kind kind, int64_t seq)
{
    struct seqs *block = ring_take(&fixture.lane.dropped_blocks);

    assert_non_null(block);
    assert_int_equal(block->kind, kind);
    assert_int_equal(block->count, 1);
    assert_int_equal(block->list[0], seq);
    ring_give(&fixture.lane.dropped_blocks, block);
}

static void step_sender_with_reader(void)
{
    reader_step(&fixture.reader, fixture.fake.now_ms);
    sender_step(&fixture.sender, fixture.fake.now_ms);
}

/* The first drain returns a row that was moved while it ran, the second one an unsent row. */
static void a_drain_tells_moved_rows_from_rows_to_read_again(void **state)
{
    int64_t bad = fake_relay_append(&fixture.fake, 4);
    int64_t unsent;

    (void)state;
    fixture.fake.task_chance = 0;
    fixture.fake.rows[bad].sync_bad = true;
    while (fixture.lane.diverted.next == 0) {
        fake_relay_tick(&fixture.fake);
        deleter_step(&fixture.deleter, fixture.fake.now_ms);
        step_sender_with_reader();
    }
    fixture.sender.producer_failed = true;
    sender_step(&fixture.sender, fixture.fake.now_ms);
    assert_true(fixture.sender.draining);
    deleter_step(&fixture.deleter, fixture.fake.now_ms);
    assert_int_equal(fixture.lane.diverted.moved, 1);
    step_sender_with_reader();
    assert_false(fixture.sender.draining);
    assert_returned(SEQS_DONE, bad);
    unsent = fake_relay_append(&fixture.fake, 5);
    reader_step(&fixture.reader, fixture.fake.now_ms);
    reader_step(&fixture.reader, fixture.fake.now_ms + 1000);
    assert_int_equal(ring_count(&fixture.lane.filled_batches), 1);
    fixture.sender.producer_failed = true;
    sender_step(&fixture.sender, fixture.fake.now_ms);
    step_sender_with_reader();
    assert_returned(SEQS_REREAD, unsent);
    fixture.fake.task_chance = 50;
    assert_true(relay_fixture_drain(&fixture, 30000));
    assert_all_is_well();
}

/* A copy that is not needed any more is freed in each case: acknowledged, failed, refused, and
 * still in flight at the end. */
static void each_row_that_is_sent_as_a_single_record_has_a_copy(void **state)
{
    (void)state;
    append_some(60);
    fixture.fake.rows[30].bad = true;
    fixture.fake.down_until_ms = fixture.fake.now_ms + 300;
    relay_fixture_run(&fixture, 900);
    assert_true(fake_relay_left(&fixture.fake) < 60);
    assert_true(relay_fixture_drain(&fixture, 60000));
    assert_all_is_well();
    fixture.fake.silent_until_ms = fixture.fake.down_until_ms = fixture.fake.now_ms + 200;
    append_some(1);
    suspects_add(&fixture.sender.suspects, fixture.fake.outbox.seq_next - 1);
    relay_fixture_run(&fixture, 100);
    assert_true(fixture.sender.single);
    assert_int_equal(fixture.sender.single_move.row != NULL, is_stream);
}

static void rows_above_the_bound_of_bytes_are_left_and_moved_in_order(void **state)
{
    int64_t bad;

    (void)state;
    fixture.fake.task_chance = 0;
    fixture.lane.diverted.row_bytes_max = 1;
    bad = fake_relay_append(&fixture.fake, 4);
    fixture.fake.rows[bad].sync_bad = true;
    for (int i = 0; i < 5; i++)
        fake_relay_append(&fixture.fake, 4);
    relay_fixture_run(&fixture, 200);
    assert_int_equal(fake_relay_tasks(&fixture.fake), is_stream ? 1 : 6);
    relay_fixture_run(&fixture, 10000);
    assert_int_equal(fake_relay_tasks(&fixture.fake), 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(fixture.fake.tasks[i], bad + (int64_t)i);
    fixture.fake.task_chance = 50;
    assert_true(relay_fixture_drain(&fixture, 60000));
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
        cmocka_unit_test_setup_teardown(several_refused_keys_stop_and_all_others_continue, set_up,
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
        cmocka_unit_test_setup_teardown(each_row_that_is_sent_as_a_single_record_has_a_copy, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rows_above_the_bound_of_bytes_are_left_and_moved_in_order,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_drain_tells_moved_rows_from_rows_to_read_again, set_up,
                                        tear_down),
    };

    int failed;

    log_init(LOG_ERROR);
    failed = cmocka_run_group_tests_name("table lane", tests, NULL, NULL);
    is_stream = true;
    return failed + cmocka_run_group_tests_name("stream lane", tests, NULL, NULL);
}
