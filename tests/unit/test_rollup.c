/* SPDX-License-Identifier: MIT */
#include "consumer/rollup/rollup.h"

#include "common/log.h"
#include "common/loop.h"
#include "tests/unit/rollup_sink.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void the_first_window_covers_everything_from_the_beginning(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    sink.contents[7].changed_ms = 0;
    sink.remarks[8].found = false;
    engine_start(&rollup, &sink, "a", false);
    run_window(&rollup);
    assert_rolled_up(&sink);
    assert_int_equal(rollup.counts.contents, CONTENTS);
    assert_int_equal(rollup.counts.changed, CONTENTS - 1);
    assert_int_equal(rollup.counts.missing, 1);
    assert_int_equal(sink.rows_read, CONTENTS);
    assert_int_equal(sink.state.rolled_until_ms, NOON_MS);
    assert_string_equal(sink.state.owner, "");
    rollup_done(&rollup);
}

static void a_window_is_due_at_the_full_interval_of_the_databases_clock(void **state)
{
    (void)state;
    assert_int_equal(singleton_due_ms(0, NOON_MS, HOUR_MS), HOUR_MS);
    assert_int_equal(singleton_due_ms(NOON_MS, NOON_MS, HOUR_MS), NOON_MS + HOUR_MS);
    assert_int_equal(singleton_due_ms(NOON_MS + 1, NOON_MS + 2, HOUR_MS), NOON_MS + HOUR_MS);
    assert_int_equal(singleton_due_ms(NOON_MS - 1, NOON_MS - 1, HOUR_MS), NOON_MS);
    /* The clock was set back: nobody waits for the old time to come again. */
    assert_int_equal(singleton_due_ms(NOON_MS + HOUR_MS, NOON_MS, HOUR_MS), NOON_MS);
}

static void windows_do_not_drift_with_the_time_they_take(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    sink.state.now_ms = NOON_MS + 1234; /* late, because nobody ran at noon */
    run_window(&rollup);
    assert_in_range(rollup_step(&rollup, 0), 1, 10000); /* clocks may be set meanwhile */
    sink.state.now_ms = NOON_MS + HOUR_MS - 1;
    assert_int_equal(rollup_step(&rollup, 0), 1);
    assert_int_equal(rollup.phase, ROLLUP_LOOK);
    sink.state.now_ms = NOON_MS + HOUR_MS;
    assert_int_equal(rollup_step(&rollup, 0), 0);
    assert_int_equal(rollup.phase, ROLLUP_READ);
    rollup_done(&rollup);
}

static void a_missed_window_is_caught_up_at_once(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    run_window(&rollup);
    rollup_done(&rollup);

    sink.state.now_ms = NOON_MS + 5 * HOUR_MS + 77;
    sink_change(&sink, 3, NOON_MS + 1);
    engine_start(&rollup, &sink, "b", false);
    run_window(&rollup);
    assert_rolled_up(&sink);
    assert_int_equal(sink.state.rolled_until_ms, NOON_MS + 5 * HOUR_MS + 77);
    rollup_done(&rollup);
}

static void a_window_leaves_unchanged_contents_alone(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    run_window(&rollup);
    assert_int_equal(sink.rows_offered, CONTENTS);
    sink.state.now_ms = NOON_MS + HOUR_MS;
    run_window(&rollup);
    assert_int_equal(rollup.counts.changed, 0);
    assert_int_equal(sink.rows_offered, CONTENTS);
    /* All of them lie within the overlap of noon; an hour later none does. */
    assert_int_equal(rollup.counts.contents, CONTENTS);
    sink.state.now_ms = NOON_MS + 2 * HOUR_MS;
    sink_change(&sink, 5, NOON_MS + HOUR_MS + 1);
    run_window(&rollup);
    assert_int_equal(rollup.counts.contents, 1);
    assert_int_equal(rollup.counts.changed, 1);
    rollup_done(&rollup);
}

static void a_commit_that_comes_late_is_found_within_the_overlap(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    run_window(&rollup);
    /* Said it changed before the window, was committed after it. */
    sink_change(&sink, 4, NOON_MS - OVERLAP_MS);
    sink.state.now_ms = NOON_MS + HOUR_MS;
    run_window(&rollup);
    assert_rolled_up(&sink);
    rollup_done(&rollup);
}

static void a_change_during_the_window_waits_for_the_next(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    assert_int_equal(rollup_step(&rollup, 0), 0);
    sink.state.now_ms += 5;
    for (int64_t id = 1; id <= CONTENTS; id++)
        sink_change(&sink, id, sink.state.now_ms);
    run_window(&rollup);
    assert_int_equal(rollup.counts.contents, 0);
    sink.state.now_ms = NOON_MS + HOUR_MS;
    run_window(&rollup);
    assert_rolled_up(&sink);
    rollup_done(&rollup);
}

static void a_clock_that_was_set_back_hides_no_change(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    sink.state.now_ms = NOON_MS + 50 * HOUR_MS;
    run_window(&rollup);
    sink_change(&sink, 1, NOON_MS + 50 * HOUR_MS + 1);
    sink.state.now_ms = NOON_MS + 1;
    sink_change(&sink, 2, NOON_MS + 1);
    run_window(&rollup);
    assert_rolled_up(&sink);
    assert_int_equal(sink.state.rolled_until_ms, NOON_MS + 1);
    rollup_done(&rollup);
}

/* Remarks of contents whose last change no window covers any more; one has no votes yet. */
static void add_late_remarks(struct sink *sink)
{
    sink->state.rolled_until_ms = NOON_MS - HOUR_MS;
    for (int64_t id = 3; id <= 20; id++) {
        sink->contents[id].changed_ms = 5;
        sink->remarks[id].due = true;
    }
    sink->contents[11].exists = false;
}

static void a_remark_inserted_after_its_votes_were_rolled_up_is_caught_up(void **state)
{
    struct sink sink;
    struct rollup rollup;
    int64_t offered;

    (void)state;
    sink_init(&sink);
    add_late_remarks(&sink);
    engine_start(&rollup, &sink, "a", false);
    run_window(&rollup);
    assert_rolled_up(&sink);
    for (int64_t id = 1; id <= CONTENTS; id++)
        assert_false(sink.remarks[id].due);
    assert_int_equal(rollup.counts.changed, CONTENTS - 1);
    assert_int_equal(sink.remarks[11].votes_seq, 0);
    /* It is done once: the next window offers none of them. */
    offered = sink.rows_offered;
    sink.state.now_ms += HOUR_MS;
    run_window(&rollup);
    assert_int_equal(sink.rows_offered, offered);
    rollup_done(&rollup);
}

static void every_call_may_fail_once_while_late_remarks_are_caught_up(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        for (int64_t call = 1;; call++) {
            struct sink sink;
            struct rollup rollup;

            sink_init(&sink);
            add_late_remarks(&sink);
            sink.fail_call = call;
            sink.fail_after = after == 1;
            engine_start(&rollup, &sink, "a", true);
            run_window(&rollup);
            assert_rolled_up(&sink);
            assert_false(sink.remarks[3].due || sink.remarks[11].due || sink.remarks[20].due);
            rollup_done(&rollup);
            if (sink.calls < call) {
                assert_true(call > 8);
                break;
            }
        }
    }
}

/* Every call fails once, before or after its effect: the engine goes on and the end is the same. */
static void every_call_may_fail_once(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        for (int64_t call = 1;; call++) {
            struct sink sink;
            struct rollup rollup;

            sink_init(&sink);
            sink.fail_call = call;
            sink.fail_after = after == 1;
            engine_start(&rollup, &sink, "a", true);
            run_window(&rollup);
            assert_rolled_up(&sink);
            assert_false(rollup.failing);
            assert_string_equal(sink.state.owner, "");
            assert_int_equal(sink.state.rolled_until_ms, NOON_MS);
            rollup_done(&rollup);
            if (sink.calls < call) {
                assert_true(call > 8); /* look, take, three pages read and written, finish */
                break;
            }
        }
    }
}

static void trouble_makes_it_wait(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    sink.fail_call = 1;
    engine_start(&rollup, &sink, "a", false);
    assert_true(rollup_step(&rollup, 0) > 0);
    assert_true(rollup.failing);
    assert_string_equal(rollup.err.text, "call 1 failed");
    rollup_done(&rollup);
}

static void a_refused_remark_is_left_out_alone(void **state)
{
    (void)state;
    for (int64_t id = 1; id <= CONTENTS; id++) {
        struct sink sink;
        struct rollup rollup;

        sink_init(&sink);
        sink.refused_id = id;
        engine_start(&rollup, &sink, "a", false);
        run_window(&rollup);
        assert_int_equal(rollup.counts.refused, 1);
        assert_int_equal(rollup.counts.changed, CONTENTS - 1);
        assert_int_equal(sink.remarks[id].votes_seq, 0);
        assert_true(sink.writes <= 8); /* the row is searched for by halves */
        sink.remarks[id].found = false;
        assert_rolled_up(&sink);
        rollup_done(&rollup);
    }
}

static void what_people_must_mend_stops_the_process(void **state)
{
    (void)state;
    for (int64_t call = 1; call <= 9; call++) {
        struct sink sink;
        struct rollup rollup;
        struct stop stop;

        sink_init(&sink);
        sink.fail_call = call;
        sink.fail_rc = RC_FATAL;
        assert_int_equal(stop_init(&stop, NULL), RC_OK);
        engine_start(&rollup, &sink, "a", false);
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
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    assert_int_equal(rollup.late_since_ms, SINGLETON_ON_TIME);
    rollup_step(&rollup, 1000);
    assert_int_equal(rollup.late_since_ms, 1000);
    rollup_step(&rollup, 2000);
    assert_int_equal(rollup.late_since_ms, 2000);
    sink.fail_call = sink.calls + 1;
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
        cmocka_unit_test(trouble_makes_it_wait),
        cmocka_unit_test(a_refused_remark_is_left_out_alone),
        cmocka_unit_test(what_people_must_mend_stops_the_process),
        cmocka_unit_test(a_due_window_without_progress_is_late),
    };

    log_init(LOG_ERROR); /* warnings are what most of these tests make */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
