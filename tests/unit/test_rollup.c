/* SPDX-License-Identifier: MIT */
#include "consumer/rollup/rollup.h"

#include "common/log.h"
#include "common/loop.h"
#include "tests/unit/rollup_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void the_first_window_covers_everything_from_the_beginning(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    fixture.contents[7].changed_ms = 0;
    fixture.remarks[8].found = false;
    engine_start(&rollup, &fixture, "a", false);
    run_window(&rollup);
    assert_rolled_up(&fixture);
    assert_int_equal(rollup.counts.contents, CONTENTS);
    assert_int_equal(rollup.counts.changed, CONTENTS - 1);
    assert_int_equal(rollup.counts.missing, 1);
    assert_int_equal(fixture.rows_read, CONTENTS);
    assert_int_equal(fixture.state.rolled_until_ms, NOON_MS);
    assert_string_equal(fixture.state.owner, "");
    rollup_done(&rollup);
}

static void a_window_is_due_at_the_full_interval_of_the_databases_clock(void **state)
{
    (void)state;
    assert_int_equal(singleton_due_ms(0, NOON_MS, HOUR_MS), HOUR_MS);
    assert_int_equal(singleton_due_ms(NOON_MS, NOON_MS, HOUR_MS), NOON_MS + HOUR_MS);
    assert_int_equal(singleton_due_ms(NOON_MS + 1, NOON_MS + 2, HOUR_MS), NOON_MS + HOUR_MS);
    assert_int_equal(singleton_due_ms(NOON_MS - 1, NOON_MS - 1, HOUR_MS), NOON_MS);
    /* The clock was set back: the engine does not wait for the old time to come again. */
    assert_int_equal(singleton_due_ms(NOON_MS + HOUR_MS, NOON_MS, HOUR_MS), NOON_MS);
}

static void windows_do_not_drift_with_the_time_they_take(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    fixture.state.now_ms = NOON_MS + 1234; /* late, because no engine ran at noon */
    run_window(&rollup);
    assert_in_range(rollup_step(&rollup, 0), 1, 10000); /* clocks may be set meanwhile */
    fixture.state.now_ms = NOON_MS + HOUR_MS - 1;
    assert_int_equal(rollup_step(&rollup, 0), 1);
    assert_int_equal(rollup.phase, ROLLUP_IDLE);
    fixture.state.now_ms = NOON_MS + HOUR_MS;
    assert_int_equal(rollup_step(&rollup, 0), 0);
    assert_int_equal(rollup.phase, ROLLUP_READ);
    rollup_done(&rollup);
}

static void a_missed_window_is_caught_up_at_once(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    run_window(&rollup);
    rollup_done(&rollup);

    fixture.state.now_ms = NOON_MS + 5 * HOUR_MS + 77;
    rollup_fixture_change(&fixture, 3, NOON_MS + 1);
    engine_start(&rollup, &fixture, "b", false);
    run_window(&rollup);
    assert_rolled_up(&fixture);
    assert_int_equal(fixture.state.rolled_until_ms, NOON_MS + 5 * HOUR_MS + 77);
    rollup_done(&rollup);
}

static void a_window_leaves_unchanged_contents_alone(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    run_window(&rollup);
    assert_int_equal(fixture.rows_offered, CONTENTS);
    fixture.state.now_ms = NOON_MS + HOUR_MS;
    run_window(&rollup);
    assert_int_equal(rollup.counts.changed, 0);
    assert_int_equal(fixture.rows_offered, CONTENTS);
    /* All of them lie within the overlap of noon; an hour later none does. */
    assert_int_equal(rollup.counts.contents, CONTENTS);
    fixture.state.now_ms = NOON_MS + 2 * HOUR_MS;
    rollup_fixture_change(&fixture, 5, NOON_MS + HOUR_MS + 1);
    run_window(&rollup);
    assert_int_equal(rollup.counts.contents, 1);
    assert_int_equal(rollup.counts.changed, 1);
    rollup_done(&rollup);
}

static void a_commit_that_comes_late_is_found_within_the_overlap(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    run_window(&rollup);
    /* Its changed_ms is before the window, and its COMMIT after it. */
    rollup_fixture_change(&fixture, 4, NOON_MS - OVERLAP_MS);
    fixture.state.now_ms = NOON_MS + HOUR_MS;
    run_window(&rollup);
    assert_rolled_up(&fixture);
    rollup_done(&rollup);
}

static void a_change_during_the_window_waits_for_the_next(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    assert_int_equal(rollup_step(&rollup, 0), 0);
    fixture.state.now_ms += 5;
    for (int64_t id = 1; id <= CONTENTS; id++)
        rollup_fixture_change(&fixture, id, fixture.state.now_ms);
    run_window(&rollup);
    assert_int_equal(rollup.counts.contents, 0);
    fixture.state.now_ms = NOON_MS + HOUR_MS;
    run_window(&rollup);
    assert_rolled_up(&fixture);
    rollup_done(&rollup);
}

static void a_clock_that_was_set_back_hides_no_change(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    fixture.state.now_ms = NOON_MS + 50 * HOUR_MS;
    run_window(&rollup);
    rollup_fixture_change(&fixture, 1, NOON_MS + 50 * HOUR_MS + 1);
    fixture.state.now_ms = NOON_MS + 1;
    rollup_fixture_change(&fixture, 2, NOON_MS + 1);
    run_window(&rollup);
    assert_rolled_up(&fixture);
    assert_int_equal(fixture.state.rolled_until_ms, NOON_MS + 1);
    rollup_done(&rollup);
}

/* Remarks of contents whose last change no window covers any more; one has no votes yet. */
static void add_late_remarks(struct rollup_fixture *fixture)
{
    fixture->state.rolled_until_ms = NOON_MS - HOUR_MS;
    for (int64_t id = 3; id <= 20; id++) {
        fixture->contents[id].changed_ms = 5;
        fixture->remarks[id].due = true;
    }
    fixture->contents[11].exists = false;
}

static void a_remark_inserted_after_its_votes_were_rolled_up_is_caught_up(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;
    int64_t offered;

    (void)state;
    rollup_fixture_init(&fixture);
    add_late_remarks(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    run_window(&rollup);
    assert_rolled_up(&fixture);
    for (int64_t id = 1; id <= CONTENTS; id++)
        assert_false(fixture.remarks[id].due);
    assert_int_equal(rollup.counts.changed, CONTENTS - 1);
    assert_int_equal(fixture.remarks[11].votes_seq, 0);
    /* It is done once: the next window offers none of them. */
    offered = fixture.rows_offered;
    fixture.state.now_ms += HOUR_MS;
    run_window(&rollup);
    assert_int_equal(fixture.rows_offered, offered);
    rollup_done(&rollup);
}

static void every_call_may_fail_once_while_late_remarks_are_caught_up(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        for (int64_t call = 1;; call++) {
            struct rollup_fixture fixture;
            struct rollup rollup;

            rollup_fixture_init(&fixture);
            add_late_remarks(&fixture);
            fixture.fail_call = call;
            fixture.fail_after = after == 1;
            engine_start(&rollup, &fixture, "a", true);
            run_window(&rollup);
            assert_rolled_up(&fixture);
            assert_false(fixture.remarks[3].due || fixture.remarks[11].due ||
                         fixture.remarks[20].due);
            rollup_done(&rollup);
            if (fixture.calls < call) {
                assert_true(call > 8);
                break;
            }
        }
    }
}

/* Every call fails once, before or after its effect: the engine continues and the result is the
 * same. */
static void every_call_may_fail_once(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        for (int64_t call = 1;; call++) {
            struct rollup_fixture fixture;
            struct rollup rollup;

            rollup_fixture_init(&fixture);
            fixture.fail_call = call;
            fixture.fail_after = after == 1;
            engine_start(&rollup, &fixture, "a", true);
            run_window(&rollup);
            assert_rolled_up(&fixture);
            assert_false(condition_read(&rollup.database, NULL));
            assert_string_equal(fixture.state.owner, "");
            assert_int_equal(fixture.state.rolled_until_ms, NOON_MS);
            rollup_done(&rollup);
            if (fixture.calls < call) {
                assert_true(call > 8); /* look, take, three pages read and written, finish */
                break;
            }
        }
    }
}

/* The replica has the lease and lacks all writes of the window, and the connection to it is made
 * without an error. */
static void a_replica_that_is_behind_gets_the_whole_window(void **state)
{
    (void)state;
    for (int steps = 1; steps <= 8; steps++) {
        struct rollup_fixture fixture;
        struct rollup_fixture replica;
        struct rollup rollup;

        rollup_fixture_init(&fixture);
        engine_start(&rollup, &fixture, "a", false);
        assert_int_equal(rollup_step(&rollup, 0), 0);
        replica = fixture;
        for (int i = 1; i < steps; i++)
            rollup_step(&rollup, 0);
        memcpy(fixture.remarks, replica.remarks, sizeof(fixture.remarks));
        fixture.state = replica.state;
        fixture.connects++;
        run_window(&rollup);
        assert_rolled_up(&fixture);
        rollup_done(&rollup);
    }
}

static void a_failure_delays_the_next_step(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    fixture.fail_call = 1;
    engine_start(&rollup, &fixture, "a", false);
    assert_true(rollup_step(&rollup, 0) > 0);
    assert_true(condition_read(&rollup.database, NULL));
    assert_string_equal(rollup.err.text, "call 1 failed");
    rollup_done(&rollup);
}

static void a_refused_remark_is_left_out_alone(void **state)
{
    (void)state;
    for (int64_t id = 1; id <= CONTENTS; id++) {
        struct rollup_fixture fixture;
        struct rollup rollup;

        rollup_fixture_init(&fixture);
        fixture.refused_id = id;
        engine_start(&rollup, &fixture, "a", false);
        run_window(&rollup);
        assert_int_equal(rollup.counts.refused, 1);
        assert_int_equal(rollup.counts.changed, CONTENTS - 1);
        assert_int_equal(fixture.remarks[id].votes_seq, 0);
        assert_true(fixture.writes <= 8); /* the row is searched for by halves */
        fixture.remarks[id].found = false;
        assert_rolled_up(&fixture);
        rollup_done(&rollup);
    }
}

static void a_fatal_error_stops_the_process(void **state)
{
    (void)state;
    for (int64_t call = 1; call <= 9; call++) {
        struct rollup_fixture fixture;
        struct rollup rollup;
        struct stop stop;

        rollup_fixture_init(&fixture);
        fixture.fail_call = call;
        fixture.fail_rc = RC_FATAL;
        assert_int_equal(stop_init(&stop, NULL), RC_OK);
        engine_start(&rollup, &fixture, "a", false);
        rollup.config.stop = &stop;
        for (int i = 0; i < 20 && !stop_requested(&stop); i++)
            rollup_step(&rollup, 0);
        assert_true(atomic_load(&stop.failed));
        assert_int_equal(rollup_step(&rollup, 0), LOOP_END);
        rollup_done(&rollup);
        stop_done(&stop);
    }
}

static void a_due_window_without_progress_is_late(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    assert_int_equal(rollup.late_since_ms, SINGLETON_ON_TIME);
    rollup_step(&rollup, 1000);
    assert_int_equal(rollup.late_since_ms, 1000);
    rollup_step(&rollup, 2000);
    assert_int_equal(rollup.late_since_ms, 2000);
    fixture.fail_call = fixture.calls + 1;
    rollup_step(&rollup, 3000);
    assert_int_equal(rollup.late_since_ms, 2000);
    run_window(&rollup);
    assert_int_equal(rollup.late_since_ms, SINGLETON_ON_TIME);
    rollup_done(&rollup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_window_covers_everything_from_the_beginning),
        cmocka_unit_test(a_window_is_due_at_the_full_interval_of_the_databases_clock),
        cmocka_unit_test(windows_do_not_drift_with_the_time_they_take),
        cmocka_unit_test(a_missed_window_is_caught_up_at_once),
        cmocka_unit_test(a_window_leaves_unchanged_contents_alone),
        cmocka_unit_test(a_commit_that_comes_late_is_found_within_the_overlap),
        cmocka_unit_test(a_change_during_the_window_waits_for_the_next),
        cmocka_unit_test(a_clock_that_was_set_back_hides_no_change),
        cmocka_unit_test(a_remark_inserted_after_its_votes_were_rolled_up_is_caught_up),
        cmocka_unit_test(every_call_may_fail_once_while_late_remarks_are_caught_up),
        cmocka_unit_test(every_call_may_fail_once),
        cmocka_unit_test(a_replica_that_is_behind_gets_the_whole_window),
        cmocka_unit_test(a_failure_delays_the_next_step),
        cmocka_unit_test(a_refused_remark_is_left_out_alone),
        cmocka_unit_test(a_fatal_error_stops_the_process),
        cmocka_unit_test(a_due_window_without_progress_is_late),
    };

    log_init(LOG_ERROR); /* warnings are what most of these tests make */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
