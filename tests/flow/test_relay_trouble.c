/* SPDX-License-Identifier: MIT */
/* Single troubles, one after the other, and what the relay makes of each. */
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

static void append_some(int count)
{
    for (int i = 0; i < count; i++)
        world_append(&rig.world, i % WORLD_KEYS);
}

static void rows_are_published_once_and_deleted(void **state)
{
    (void)state;
    append_some(500);
    assert_true(rig_drain(&rig, 10000));
    assert_all_is_well();
    assert_int_equal(rig.world.log_count, 500);
}

/* Rows before and behind the trouble, an open transaction, a roll-back: most calls there are. */
static void story(size_t fail_call, enum rc fail_rc)
{
    int64_t late;
    int64_t gone;

    rig.world.fail_call = fail_call;
    rig.world.fail_rc = fail_rc;
    append_some(30);
    late = world_reserve(&rig.world, 3);
    append_some(3);
    gone = world_reserve(&rig.world, 5);
    rig.world.key_next[5]--;
    rig_run(&rig, 100);
    world_roll_back(&rig.world, gone);
    world_commit(&rig.world, late);
    append_some(9);
    assert_true(rig_drain(&rig, 20000));
    rig_run(&rig, 4000);
    assert_int_equal(rig.reader.gaps.count, 0);
    assert_all_is_well();
}

static void each_call_may_fail_in_turn(void **state)
{
    static const enum rc codes[] = {RC_RETRY, RC_REJECT, RC_FATAL};
    size_t calls;

    story(0, RC_OK);
    calls = rig.world.calls < 400 ? rig.world.calls : 400;
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
    rig.world.silent_until_ms = rig.world.now_ms + 1000;
    rig_run(&rig, 800);
    assert_true(rig.lane.sending.on);
    assert_int_equal(world_left(&rig.world), 40);
    assert_true(rig_drain(&rig, 20000));
    assert_false(rig.lane.sending.on);
    assert_all_is_well();
}

/* While the broker is away one row knocks, not all of them. */
static void a_broker_that_is_away_is_asked_with_one_row_at_a_time(void **state)
{
    (void)state;
    append_some(300);
    rig.world.down_until_ms = rig.world.now_ms + 5000;
    rig_run(&rig, 1000);
    for (int i = 0; i < 300; i++) {
        rig_run(&rig, 10);
        assert_true(rig.sender.draining || flight_count(&rig.sender.flight) <= 1);
        assert_true(rig.reader.window.count <= rig.reader.window.count_max);
    }
    assert_true(rig_drain(&rig, 20000));
    assert_all_is_well();
    assert_int_equal(rig.world.log_count, 300);
}

static void a_missing_table_is_said_and_comes_back(void **state)
{
    (void)state;
    rig.world.faults.database = 1000;
    append_some(10);
    rig_run(&rig, 200);
    assert_true(rig.lane.reading.on);
    rig.world.faults.database = 0;
    assert_true(rig_drain(&rig, 10000));
    assert_false(rig.lane.reading.on);
    assert_all_is_well();
}

static void a_row_in_a_gap_that_was_closed_is_found_by_the_full_scan(void **state)
{
    int64_t late;

    (void)state;
    late = world_reserve(&rig.world, 3);
    rig.world.rows[late].state = OUTBOX_RESERVED;
    append_some(24);
    rig_run(&rig, 3500);
    assert_int_equal(rig.reader.gaps.count, 0);
    world_commit(&rig.world, late);
    assert_true(rig_drain(&rig, 2000));
    assert_int_equal(world_lost(&rig.world), 0);
}

/* TRUNCATE: what was read before is gone, and its seqs are given out again. */
static void truncate_table(void)
{
    world_lose_rows(&rig.world, 1);
}

static void a_truncated_table_begins_the_lane_anew(void **state)
{
    (void)state;
    rig.settings.relay.full_scan_ms = 60000;
    append_some(20);
    assert_true(rig_drain(&rig, 10000));
    truncate_table();
    append_some(3);
    rig_run(&rig, 1200);
    assert_true(atomic_load(&rig.lane.lease.strange));
    rig_run(&rig, 500);
    assert_true(atomic_load(&rig.lane.lease.idle));
    rig_lose_lease(&rig);
    atomic_store(&rig.lane.lease.strange, false);
    rig_take_lease(&rig);
    assert_true(rig_drain(&rig, 1000));
    assert_int_equal(rig.world.log_count, 3);
    rig_run(&rig, 3000);
    assert_false(atomic_load(&rig.lane.lease.strange));
    assert_all_is_well();
}

/* The rows under way have the seqs of new ones: those must be neither passed over nor deleted. */
static void a_table_truncated_with_rows_under_way_loses_none(void **state)
{
    (void)state;
    rig.settings.relay.full_scan_ms = 60000;
    rig.world.faults.broker = 1000;
    append_some(5);
    rig_run(&rig, 200);
    assert_int_equal(rig.reader.window.count, 5);
    world_kill(&rig.world);
    rig.world.ghost_count = 0;
    truncate_table();
    append_some(3);
    rig_run(&rig, 1200);
    assert_true(atomic_load(&rig.lane.lease.strange));
    rig_run(&rig, 1000);
    rig_lose_lease(&rig);
    rig.world.faults.broker = 0;
    atomic_store(&rig.lane.lease.strange, false);
    rig_take_lease(&rig);
    assert_true(rig_drain(&rig, 5000));
    assert_all_is_well();
}

static void rows_below_the_cursor_start_a_pass_where_the_next_seq_is_not_told(void **state)
{
    (void)state;
    rig.settings.relay.full_scan_ms = 60000;
    rig.world.next_hidden = true;
    append_some(20);
    assert_true(rig_drain(&rig, 10000));
    truncate_table();
    append_some(3);
    assert_true(rig_drain(&rig, 1500));
    assert_int_equal(rig.world.log_count, 3);
    assert_all_is_well();
}

/* A row with a higher seq was deleted before: the highest seq of the table went down. */
static void a_table_that_the_deleter_empties_is_no_truncated_one(void **state)
{
    int64_t late;
    uint64_t scan;

    (void)state;
    rig.settings.relay.full_scan_ms = 60000;
    append_some(10);
    late = world_reserve(&rig.world, WORLD_KEYS - 1);
    append_some(10);
    rig_run(&rig, 1500);
    scan = rig.reader.scan;
    world_commit(&rig.world, late);
    assert_true(rig_drain(&rig, 1000));
    rig_run(&rig, 5000);
    assert_int_equal(rig.reader.scan, scan);
    assert_false(atomic_load(&rig.lane.lease.strange));
    assert_all_is_well();
}

static void the_look_for_the_age_begins_at_the_lowest_row_that_is_not_deleted(void **state)
{
    int64_t late;

    (void)state;
    rig.settings.relay.full_scan_ms = 4000;
    append_some(40);
    assert_true(rig_drain(&rig, 10000));
    rig_run(&rig, 2500);
    assert_int_equal(rig.world.look_from, 41);
    late = world_reserve(&rig.world, 3);
    append_some(40);
    rig_run(&rig, 1500);
    assert_int_equal(rig.world.look_from, late);
    world_commit(&rig.world, late);
    assert_true(rig_drain(&rig, 5000));
    rig_run(&rig, 2500);
    assert_int_equal(rig.world.look_from, 82);
    /* A full scan does not make it begin at the lowest seq again. */
    for (int i = 0; i < 5000; i++) {
        rig_run(&rig, 1);
        assert_true(rig.world.look_from >= 82);
    }
    assert_int_equal(world_lost(&rig.world), 0);
}

static void gaps_stay_open_while_their_writers_are_open(void **state)
{
    int64_t open[10];

    (void)state;
    rig.world.writers_known = false;
    for (int i = 0; i < 10; i++) {
        open[i] = world_reserve(&rig.world, 3);
        append_some(2);
    }
    rig_run(&rig, 2000);
    for (int i = 0; i < 5; i++)
        world_roll_back(&rig.world, open[i]);
    rig_run(&rig, 20000);
    assert_int_equal(rig.reader.gaps.count, 5);
    for (int i = 5; i < 10; i++)
        world_roll_back(&rig.world, open[i]);
    rig_run(&rig, 3000);
    assert_int_equal(rig.reader.gaps.count, 0);
}

static void a_gap_waits_longer_when_writers_cannot_be_seen(void **state)
{
    int64_t gone;

    (void)state;
    rig.world.writers_known = false;
    gone = world_reserve(&rig.world, 3);
    append_some(24);
    world_roll_back(&rig.world, gone);
    rig_run(&rig, 6000);
    assert_int_equal(rig.reader.gaps.count, 1);
    rig_run(&rig, 2000);
    assert_int_equal(rig.reader.gaps.count, 0);
}

static void a_gap_of_another_node_waits_for_its_transaction(void **state)
{
    int64_t remote;

    (void)state;
    rig.world.several_nodes = true;
    rig_run(&rig, 11000);
    remote = world_reserve(&rig.world, 3);
    rig.world.rows[remote].state = OUTBOX_RESERVED;
    append_some(2);
    /* No server but the other node knows of it. */
    rig_run(&rig, 60000);
    assert_int_equal(rig.reader.gaps.count, 1);
    world_commit(&rig.world, remote);
    world_append(&rig.world, 3);
    assert_true(rig_drain(&rig, 5000));
    assert_all_is_well();
}

static void a_gap_that_no_node_fills_is_closed_after_the_longest_wait(void **state)
{
    int64_t gone;

    (void)state;
    rig.world.several_nodes = true;
    rig_run(&rig, 11000);
    gone = world_reserve(&rig.world, 3);
    append_some(24);
    world_roll_back(&rig.world, gone);
    rig_run(&rig, 89000);
    assert_int_equal(rig.reader.gaps.count, 1);
    rig_run(&rig, 3000);
    assert_int_equal(rig.reader.gaps.count, 0);
    /* A cluster that went back to one writer is as quick as any server. */
    rig.world.several_nodes = false;
    rig_run(&rig, 11000);
    gone = world_reserve(&rig.world, 3);
    append_some(24);
    world_roll_back(&rig.world, gone);
    rig_run(&rig, 5000);
    assert_int_equal(rig.reader.gaps.count, 0);
}

static void one_look_that_cannot_see_the_writers_forgets_none(void **state)
{
    int64_t reserved = world_reserve(&rig.world, 3);
    int64_t written;

    (void)state;
    append_some(2);
    written = world_reserve(&rig.world, 4);
    /* Of one INSERT, whose first row is still to come: no lock shows it. */
    rig.world.rows[reserved].state = OUTBOX_RESERVED;
    rig.world.rows[reserved].writer = rig.world.rows[written].writer;
    append_some(2);
    rig_run(&rig, 12000);
    assert_int_equal(rig.reader.gaps.count, 2);
    rig.world.writers_known = false;
    rig_run(&rig, 3000);
    rig.world.writers_known = true;
    rig_run(&rig, 8000);
    assert_int_equal(rig.reader.gaps.count, 2);
    world_commit(&rig.world, reserved);
    world_commit(&rig.world, written);
    assert_true(rig_drain(&rig, 100));
}

static void trouble_with_deleting_ends_with_the_lease(void **state)
{
    char text[sizeof(rig.lane.deleting.text)];

    (void)state;
    append_some(100);
    while (rig.deleter.rows == 0)
        rig_run(&rig, 1);
    rig.world.faults.database = 1000;
    rig_run(&rig, 500);
    assert_true(note_read(&rig.lane.deleting, text, sizeof(text)));
    rig_lose_lease(&rig);
    rig_run(&rig, 500);
    rig.world.faults.database = 0;
    assert_false(note_read(&rig.lane.deleting, text, sizeof(text)));
}

static void more_gaps_than_the_list_holds_lose_nothing(void **state)
{
    int64_t late[40];

    (void)state;
    for (int i = 0; i < 40; i++) {
        late[i] = world_reserve(&rig.world, 3);
        append_some(2);
    }
    rig_run(&rig, 300);
    assert_true(rig.reader.gaps.count <= 16);
    for (int i = 0; i < 40; i++) {
        world_commit(&rig.world, late[i]);
        rig_run(&rig, 7);
    }
    assert_true(rig_drain(&rig, 2000));
    assert_all_is_well();
}

static int64_t oldest_age_ms(void)
{
    return metric_value(&rig.lane.metrics->oldest_age);
}

static void a_row_grows_older_while_kafka_mysql_and_the_lease_are_away(void **state)
{
    (void)state;
    rig.world.down_until_ms = rig.world.now_ms + 20000;
    append_some(1);
    rig_run(&rig, 2500);
    assert_in_range(oldest_age_ms(), 1000, 2500);
    rig.world.faults.database = 1000;
    rig_run(&rig, 5000);
    assert_in_range(oldest_age_ms(), 6000, 7500);
    rig_lose_lease(&rig);
    rig_run(&rig, 5000);
    assert_in_range(oldest_age_ms(), 11000, 12500);
    rig.world.faults.database = 0;
    rig_run(&rig, 6000);
    assert_in_range(oldest_age_ms(), 17000, 18500);
    rig_take_lease(&rig);
    assert_true(rig_drain(&rig, 30000));
    rig_run(&rig, 1100);
    assert_int_equal(oldest_age_ms(), 0);
    assert_all_is_well();
}

static void a_row_of_the_future_is_seen_to_wait(void **state)
{
    int64_t seq = rig.world.outbox.seq_next;

    (void)state;
    rig.world.down_until_ms = rig.world.now_ms + 20000;
    append_some(1);
    rig.world.rows[seq].made_ms += 3600000;
    rig_run(&rig, 9000);
    assert_in_range(oldest_age_ms(), 7000, 9000);
    assert_true(rig_drain(&rig, 30000));
    rig_run(&rig, 1100);
    assert_int_equal(oldest_age_ms(), 0);
}

static void a_row_of_a_lane_that_nobody_holds_is_seen_to_wait(void **state)
{
    (void)state;
    rig_lose_lease(&rig);
    rig_run(&rig, 500);
    append_some(1);
    rig_run(&rig, 9000);
    assert_in_range(oldest_age_ms(), 4000, 9000);
}

static int64_t world_time_ms(void *ctx)
{
    (void)ctx;
    return rig.world.now_ms;
}

/* A relay that does not hold the lane has to hear of the row's end from the table alone. */
static void look_slowly_at_rest(unsigned failures)
{
    int64_t seq = rig.world.outbox.seq_next;

    rig.lane.time_ms = world_time_ms;
    rig_lose_lease(&rig);
    append_some(1);
    rig_run(&rig, 6000);
    assert_in_range(oldest_age_ms(), 1000, 6000);
    rig.world.look_takes_ms = 6000;
    rig.world.faults.database = failures;
    while (rig.world.look_takes_ms > 0)
        rig_run(&rig, 1);
    rig.world.faults.database = 0;
    rig.world.rows[seq].state = OUTBOX_DELETED;
    rig_run(&rig, 36000);
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
        cmocka_unit_test_setup_teardown(a_row_grows_older_while_kafka_mysql_and_the_lease_are_away,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_of_the_future_is_seen_to_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_of_a_lane_that_nobody_holds_is_seen_to_wait, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rows_are_published_once_and_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_call_may_fail_in_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_broker_gets_the_rows_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broker_that_is_away_is_asked_with_one_row_at_a_time,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_table_is_said_and_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_in_a_gap_that_was_closed_is_found_by_the_full_scan,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_truncated_table_begins_the_lane_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_table_truncated_with_rows_under_way_loses_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            rows_below_the_cursor_start_a_pass_where_the_next_seq_is_not_told, set_up, tear_down),
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
        cmocka_unit_test_setup_teardown(trouble_with_deleting_ends_with_the_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_gap_waits_longer_when_writers_cannot_be_seen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(more_gaps_than_the_list_holds_lose_nothing, set_up,
                                        tear_down),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
