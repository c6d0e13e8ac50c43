/* SPDX-License-Identifier: MIT */
/* Single failures, one in each test, and the reaction of the relay. */
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

static void append_some(int count)
{
    for (int i = 0; i < count; i++)
        fake_relay_append(&fixture.fake, i % FAKE_RELAY_KEYS);
}

static void rows_are_published_once_and_deleted(void **state)
{
    (void)state;
    append_some(500);
    assert_true(relay_fixture_drain(&fixture, 10000));
    assert_all_is_well();
    assert_int_equal(fixture.fake.log_count, 500);
}

/* Rows before and behind the failure, an open transaction, a roll-back: these make most kinds of
 * calls. */
static void story(size_t fail_call, enum rc fail_rc)
{
    int64_t late;
    int64_t gone;

    fixture.fake.fail_call = fail_call;
    fixture.fake.fail_rc = fail_rc;
    append_some(30);
    late = fake_relay_reserve(&fixture.fake, 3);
    append_some(3);
    gone = fake_relay_reserve(&fixture.fake, 5);
    fixture.fake.key_next[5]--;
    relay_fixture_run(&fixture, 100);
    fake_relay_roll_back(&fixture.fake, gone);
    fake_relay_commit(&fixture.fake, late);
    append_some(9);
    assert_true(relay_fixture_drain(&fixture, 20000));
    relay_fixture_run(&fixture, 4000);
    assert_int_equal(fixture.reader.gaps.count, 0);
    assert_all_is_well();
}

static void each_call_may_fail_in_turn(void **state)
{
    static const enum rc codes[] = {RC_RETRY, RC_REJECT, RC_FATAL};
    size_t calls;

    story(0, RC_OK);
    calls = fixture.fake.calls < 400 ? fixture.fake.calls : 400;
    assert_true(calls > 60);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        for (size_t call = 1; call <= calls; call++) {
            tear_down(state);
            set_up(state);
            story(call, codes[i]);
        }
    }
}

static void a_silent_broker_gets_the_rows_again(void **state)
{
    (void)state;
    append_some(40);
    fixture.fake.silent_until_ms = fixture.fake.now_ms + 1000;
    relay_fixture_run(&fixture, 800);
    assert_true(fixture.lane.sending.failing);
    assert_int_equal(fake_relay_left(&fixture.fake), 40);
    assert_true(relay_fixture_drain(&fixture, 20000));
    assert_false(fixture.lane.sending.failing);
    assert_all_is_well();
}

/* While the broker is unavailable, one row probes it, not all of them. */
static void an_unavailable_broker_is_probed_with_one_row_at_a_time(void **state)
{
    (void)state;
    append_some(300);
    fixture.fake.down_until_ms = fixture.fake.now_ms + 5000;
    relay_fixture_run(&fixture, 1000);
    for (int i = 0; i < 300; i++) {
        relay_fixture_run(&fixture, 10);
        assert_true(fixture.sender.draining || flight_count(&fixture.sender.flight) <= 1);
        assert_true(fixture.reader.window.count <= fixture.reader.window.count_max);
    }
    assert_true(relay_fixture_drain(&fixture, 20000));
    assert_all_is_well();
    assert_int_equal(fixture.fake.log_count, 300);
}

static void a_missing_table_is_reported_and_comes_back(void **state)
{
    (void)state;
    fixture.fake.faults.database = 1000;
    append_some(10);
    relay_fixture_run(&fixture, 200);
    assert_true(fixture.lane.reading.failing);
    fixture.fake.faults.database = 0;
    assert_true(relay_fixture_drain(&fixture, 10000));
    assert_false(fixture.lane.reading.failing);
    assert_all_is_well();
}

static void a_row_in_a_gap_that_was_closed_is_found_by_the_full_scan(void **state)
{
    int64_t late;

    (void)state;
    late = fake_relay_reserve(&fixture.fake, 3);
    fixture.fake.rows[late].state = OUTBOX_RESERVED;
    append_some(24);
    relay_fixture_run(&fixture, 3500);
    assert_int_equal(fixture.reader.gaps.count, 0);
    fake_relay_commit(&fixture.fake, late);
    assert_true(relay_fixture_drain(&fixture, 2000));
    assert_int_equal(fake_relay_lost(&fixture.fake), 0);
}

/* TRUNCATE: the rows that were read before are deleted, and their seqs are given out again. */
static void truncate_table(void)
{
    fake_relay_lose_rows(&fixture.fake, 1);
}

static void a_truncated_table_begins_the_lane_anew(void **state)
{
    (void)state;
    fixture.settings.relay.full_scan_ms = 60000;
    append_some(20);
    assert_true(relay_fixture_drain(&fixture, 10000));
    truncate_table();
    append_some(3);
    relay_fixture_run(&fixture, 1200);
    assert_true(atomic_load(&fixture.lane.lease.origin_lost));
    relay_fixture_run(&fixture, 500);
    assert_true(atomic_load(&fixture.lane.lease.idle));
    relay_fixture_lose_lease(&fixture);
    atomic_store(&fixture.lane.lease.origin_lost, false);
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 1000));
    assert_int_equal(fixture.fake.log_count, 3);
    relay_fixture_run(&fixture, 3000);
    assert_false(atomic_load(&fixture.lane.lease.origin_lost));
    assert_all_is_well();
}

/* The rows under way have the seqs of new ones: those must be neither passed over nor deleted. */
static void a_table_truncated_with_rows_under_way_loses_none(void **state)
{
    (void)state;
    fixture.settings.relay.full_scan_ms = 60000;
    fixture.fake.faults.broker = 1000;
    append_some(5);
    relay_fixture_run(&fixture, 200);
    assert_int_equal(fixture.reader.window.count, 5);
    fake_relay_kill(&fixture.fake);
    fixture.fake.ghost_count = 0;
    truncate_table();
    append_some(3);
    relay_fixture_run(&fixture, 1200);
    assert_true(atomic_load(&fixture.lane.lease.origin_lost));
    relay_fixture_run(&fixture, 1000);
    relay_fixture_lose_lease(&fixture);
    fixture.fake.faults.broker = 0;
    atomic_store(&fixture.lane.lease.origin_lost, false);
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 5000));
    assert_all_is_well();
}

static void rows_below_the_cursor_start_a_full_scan_when_the_next_seq_is_hidden(void **state)
{
    (void)state;
    fixture.settings.relay.full_scan_ms = 60000;
    fixture.fake.next_hidden = true;
    append_some(20);
    assert_true(relay_fixture_drain(&fixture, 10000));
    truncate_table();
    append_some(3);
    assert_true(relay_fixture_drain(&fixture, 1500));
    assert_int_equal(fixture.fake.log_count, 3);
    assert_all_is_well();
}

/* A row with a higher seq was deleted before: the highest seq of the table went down. */
static void a_table_that_the_deleter_empties_is_no_truncated_one(void **state)
{
    int64_t late;
    uint64_t scan;

    (void)state;
    fixture.settings.relay.full_scan_ms = 60000;
    append_some(10);
    late = fake_relay_reserve(&fixture.fake, FAKE_RELAY_KEYS - 1);
    append_some(10);
    relay_fixture_run(&fixture, 1500);
    scan = fixture.reader.scan;
    fake_relay_commit(&fixture.fake, late);
    assert_true(relay_fixture_drain(&fixture, 1000));
    relay_fixture_run(&fixture, 5000);
    assert_int_equal(fixture.reader.scan, scan);
    assert_false(atomic_load(&fixture.lane.lease.origin_lost));
    assert_all_is_well();
}

static void the_look_for_the_age_begins_at_the_lowest_row_that_is_not_deleted(void **state)
{
    int64_t late;

    (void)state;
    fixture.settings.relay.full_scan_ms = 4000;
    append_some(40);
    assert_true(relay_fixture_drain(&fixture, 10000));
    relay_fixture_run(&fixture, 2500);
    assert_int_equal(fixture.fake.look_from, 41);
    late = fake_relay_reserve(&fixture.fake, 3);
    append_some(40);
    relay_fixture_run(&fixture, 1500);
    assert_int_equal(fixture.fake.look_from, late);
    fake_relay_commit(&fixture.fake, late);
    assert_true(relay_fixture_drain(&fixture, 5000));
    relay_fixture_run(&fixture, 2500);
    assert_int_equal(fixture.fake.look_from, 82);
    /* A full scan does not make it begin at the lowest seq again. */
    for (int i = 0; i < 5000; i++) {
        relay_fixture_run(&fixture, 1);
        assert_true(fixture.fake.look_from >= 82);
    }
    assert_int_equal(fake_relay_lost(&fixture.fake), 0);
}

static void gaps_stay_open_while_their_writers_are_open(void **state)
{
    int64_t open[10];

    (void)state;
    fixture.fake.writers_known = false;
    for (int i = 0; i < 10; i++) {
        open[i] = fake_relay_reserve(&fixture.fake, 3);
        append_some(2);
    }
    relay_fixture_run(&fixture, 2000);
    for (int i = 0; i < 5; i++)
        fake_relay_roll_back(&fixture.fake, open[i]);
    relay_fixture_run(&fixture, 20000);
    assert_int_equal(fixture.reader.gaps.count, 5);
    for (int i = 5; i < 10; i++)
        fake_relay_roll_back(&fixture.fake, open[i]);
    relay_fixture_run(&fixture, 3000);
    assert_int_equal(fixture.reader.gaps.count, 0);
}

static void a_gap_waits_longer_when_writers_cannot_be_seen(void **state)
{
    int64_t gone;

    (void)state;
    fixture.fake.writers_known = false;
    gone = fake_relay_reserve(&fixture.fake, 3);
    append_some(24);
    fake_relay_roll_back(&fixture.fake, gone);
    relay_fixture_run(&fixture, 6000);
    assert_int_equal(fixture.reader.gaps.count, 1);
    relay_fixture_run(&fixture, 2000);
    assert_int_equal(fixture.reader.gaps.count, 0);
}

static void a_gap_of_another_node_waits_for_its_transaction(void **state)
{
    int64_t remote;

    (void)state;
    fixture.fake.several_nodes = true;
    relay_fixture_run(&fixture, 11000);
    remote = fake_relay_reserve(&fixture.fake, 3);
    fixture.fake.rows[remote].state = OUTBOX_RESERVED;
    append_some(2);
    /* No server but the other node knows of it. */
    relay_fixture_run(&fixture, 60000);
    assert_int_equal(fixture.reader.gaps.count, 1);
    fake_relay_commit(&fixture.fake, remote);
    fake_relay_append(&fixture.fake, 3);
    assert_true(relay_fixture_drain(&fixture, 5000));
    assert_all_is_well();
}

static void a_gap_that_no_node_fills_is_closed_after_the_longest_wait(void **state)
{
    int64_t gone;

    (void)state;
    fixture.fake.several_nodes = true;
    relay_fixture_run(&fixture, 11000);
    gone = fake_relay_reserve(&fixture.fake, 3);
    append_some(24);
    fake_relay_roll_back(&fixture.fake, gone);
    relay_fixture_run(&fixture, 89000);
    assert_int_equal(fixture.reader.gaps.count, 1);
    relay_fixture_run(&fixture, 3000);
    assert_int_equal(fixture.reader.gaps.count, 0);
    /* A cluster that has one writer again is as quick as a single server. */
    fixture.fake.several_nodes = false;
    relay_fixture_run(&fixture, 11000);
    gone = fake_relay_reserve(&fixture.fake, 3);
    append_some(24);
    fake_relay_roll_back(&fixture.fake, gone);
    relay_fixture_run(&fixture, 5000);
    assert_int_equal(fixture.reader.gaps.count, 0);
}

static void one_look_that_cannot_see_the_writers_forgets_none(void **state)
{
    int64_t reserved = fake_relay_reserve(&fixture.fake, 3);
    int64_t written;

    (void)state;
    append_some(2);
    written = fake_relay_reserve(&fixture.fake, 4);
    /* Of one INSERT, whose first row is still to come: no lock shows it. */
    fixture.fake.rows[reserved].state = OUTBOX_RESERVED;
    fixture.fake.rows[reserved].writer = fixture.fake.rows[written].writer;
    append_some(2);
    relay_fixture_run(&fixture, 12000);
    assert_int_equal(fixture.reader.gaps.count, 2);
    fixture.fake.writers_known = false;
    relay_fixture_run(&fixture, 3000);
    fixture.fake.writers_known = true;
    relay_fixture_run(&fixture, 8000);
    assert_int_equal(fixture.reader.gaps.count, 2);
    fake_relay_commit(&fixture.fake, reserved);
    fake_relay_commit(&fixture.fake, written);
    assert_true(relay_fixture_drain(&fixture, 100));
}

static void a_failure_to_delete_ends_with_the_lease(void **state)
{
    (void)state;
    append_some(100);
    while (fixture.deleter.rows == 0)
        relay_fixture_run(&fixture, 1);
    fixture.fake.faults.database = 1000;
    relay_fixture_run(&fixture, 500);
    assert_true(condition_read(&fixture.lane.deleting, NULL));
    relay_fixture_lose_lease(&fixture);
    relay_fixture_run(&fixture, 500);
    fixture.fake.faults.database = 0;
    assert_false(condition_read(&fixture.lane.deleting, NULL));
}

static void more_gaps_than_the_list_holds_lose_nothing(void **state)
{
    int64_t late[40];

    (void)state;
    for (int i = 0; i < 40; i++) {
        late[i] = fake_relay_reserve(&fixture.fake, 3);
        append_some(2);
    }
    relay_fixture_run(&fixture, 300);
    assert_true(fixture.reader.gaps.count <= 16);
    for (int i = 0; i < 40; i++) {
        fake_relay_commit(&fixture.fake, late[i]);
        relay_fixture_run(&fixture, 7);
    }
    assert_true(relay_fixture_drain(&fixture, 2000));
    assert_all_is_well();
}

static int64_t oldest_age_ms(void)
{
    return metric_value(&fixture.lane.metrics->oldest_age);
}

static void a_row_grows_older_without_kafka_mysql_and_the_lease(void **state)
{
    (void)state;
    fixture.fake.down_until_ms = fixture.fake.now_ms + 20000;
    append_some(1);
    relay_fixture_run(&fixture, 2500);
    assert_in_range(oldest_age_ms(), 1000, 2500);
    fixture.fake.faults.database = 1000;
    relay_fixture_run(&fixture, 5000);
    assert_in_range(oldest_age_ms(), 6000, 7500);
    relay_fixture_lose_lease(&fixture);
    relay_fixture_run(&fixture, 5000);
    assert_in_range(oldest_age_ms(), 11000, 12500);
    fixture.fake.faults.database = 0;
    relay_fixture_run(&fixture, 6000);
    assert_in_range(oldest_age_ms(), 17000, 18500);
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 30000));
    relay_fixture_run(&fixture, 1100);
    assert_int_equal(oldest_age_ms(), 0);
    assert_all_is_well();
}

static void a_row_of_the_future_is_seen_to_wait(void **state)
{
    int64_t seq = fixture.fake.outbox.seq_next;

    (void)state;
    fixture.fake.down_until_ms = fixture.fake.now_ms + 20000;
    append_some(1);
    fixture.fake.rows[seq].made_ms += 3600000;
    relay_fixture_run(&fixture, 9000);
    assert_in_range(oldest_age_ms(), 7000, 9000);
    assert_true(relay_fixture_drain(&fixture, 30000));
    relay_fixture_run(&fixture, 1100);
    assert_int_equal(oldest_age_ms(), 0);
}

/* Another relay, which holds the lane, publishes the row soon after this one has looked. */
static void a_row_that_another_relay_publishes_grows_no_older(void **state)
{
    int64_t seen_ms = 0;

    (void)state;
    relay_fixture_lose_lease(&fixture);
    relay_fixture_run(&fixture, 500);
    append_some(1);
    for (int i = 0; i < 600 && oldest_age_ms() == 0; i++)
        relay_fixture_run(&fixture, 10);
    seen_ms = oldest_age_ms();
    assert_in_range(seen_ms, 1, 5600);
    relay_fixture_run(&fixture, 4000);
    assert_int_equal(oldest_age_ms(), seen_ms);
    relay_fixture_run(&fixture, 2000);
    assert_in_range(oldest_age_ms() - seen_ms, 4900, 5200);
    relay_fixture_take_lease(&fixture);
    assert_true(relay_fixture_drain(&fixture, 2000));
    relay_fixture_run(&fixture, 1100);
    assert_int_equal(oldest_age_ms(), 0);
}

static void the_age_of_a_row_shows_while_no_relay_holds_the_lane(void **state)
{
    (void)state;
    relay_fixture_lose_lease(&fixture);
    relay_fixture_run(&fixture, 500);
    append_some(1);
    relay_fixture_run(&fixture, 9000);
    assert_in_range(oldest_age_ms(), 4000, 9000);
}

static int64_t fake_relay_time_ms(void *ctx)
{
    (void)ctx;
    return fixture.fake.now_ms;
}

/* A relay that does not hold the lane learns of the row's end from the table alone. */
static void look_slowly_at_rest(unsigned failures)
{
    int64_t seq = fixture.fake.outbox.seq_next;

    fixture.lane.time_ms = fake_relay_time_ms;
    relay_fixture_lose_lease(&fixture);
    append_some(1);
    relay_fixture_run(&fixture, 6000);
    assert_in_range(oldest_age_ms(), 1000, 6000);
    fixture.fake.look_takes_ms = 6000;
    fixture.fake.faults.database = failures;
    while (fixture.fake.look_takes_ms > 0)
        relay_fixture_run(&fixture, 1);
    fixture.fake.faults.database = 0;
    fixture.fake.rows[seq].state = OUTBOX_DELETED;
    relay_fixture_run(&fixture, 36000);
    assert_int_equal(oldest_age_ms(), 0);
}

static void a_slow_look_at_a_lane_that_another_relay_holds_is_made_again(void **state)
{
    (void)state;
    look_slowly_at_rest(0);
}

static void a_slow_look_that_fails_is_made_again(void **state)
{
    (void)state;
    look_slowly_at_rest(1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_slow_look_at_a_lane_that_another_relay_holds_is_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_look_that_fails_is_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_grows_older_without_kafka_mysql_and_the_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_row_of_the_future_is_seen_to_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_that_another_relay_publishes_grows_no_older, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_age_of_a_row_shows_while_no_relay_holds_the_lane,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_are_published_once_and_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_call_may_fail_in_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_broker_gets_the_rows_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unavailable_broker_is_probed_with_one_row_at_a_time,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_table_is_reported_and_comes_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_row_in_a_gap_that_was_closed_is_found_by_the_full_scan,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_truncated_table_begins_the_lane_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_table_truncated_with_rows_under_way_loses_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            rows_below_the_cursor_start_a_full_scan_when_the_next_seq_is_hidden, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_table_that_the_deleter_empties_is_no_truncated_one,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            the_look_for_the_age_begins_at_the_lowest_row_that_is_not_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gaps_stay_open_while_their_writers_are_open, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_gap_of_another_node_waits_for_its_transaction, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_gap_that_no_node_fills_is_closed_after_the_longest_wait,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_look_that_cannot_see_the_writers_forgets_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failure_to_delete_ends_with_the_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_gap_waits_longer_when_writers_cannot_be_seen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(more_gaps_than_the_list_holds_lose_nothing, set_up,
                                        tear_down),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
