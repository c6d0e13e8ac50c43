/* SPDX-License-Identifier: MIT */
/* Who works, and what a successor does with what was begun. */
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

/* The process ends before any call, or behind one whose effect it never hears of; another engine
 * takes over once the lease is over. */
static void killed_anywhere_the_next_engine_does_the_rest(void **state)
{
    (void)state;
    for (int steps = 0; steps < 10; steps++) {
        for (int after = 0; after < 2; after++) {
            struct sink sink;
            struct rollup rollup;

            sink_init(&sink);
            engine_start(&rollup, &sink, "dies", false);
            for (int i = 0; i < steps; i++)
                rollup_step(&rollup, 0);
            if (after == 1) {
                sink.fail_call = sink.calls + 1;
                sink.fail_after = true;
                rollup_step(&rollup, 0);
                sink.fail_call = 0;
            }
            rollup_done(&rollup);

            sink_change(&sink, 2, sink.state.now_ms);
            sink.state.now_ms += LEASE_MS + HOUR_MS;
            engine_start(&rollup, &sink, "lives", false);
            run_window(&rollup);
            assert_rolled_up(&sink);
            assert_int_equal(sink.state.rolled_until_ms, sink.state.now_ms);
            rollup_done(&rollup);
        }
    }
}

static void a_successor_starts_where_the_dead_one_was(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    for (int64_t id = 1; id <= CONTENTS; id++)
        sink.contents[id].changed_ms = NOON_MS - HOUR_MS * (CONTENTS + 1 - id);
    engine_start(&rollup, &sink, "dies", false);
    for (int i = 0; i < 6; i++) /* look, no new remarks, and two pages */
        rollup_step(&rollup, 0);
    rollup_done(&rollup);
    assert_int_equal(sink.state.rolled_until_ms, sink.contents[(size_t)2 * BATCH_ROWS].changed_ms);

    sink.state.now_ms += LEASE_MS;
    engine_start(&rollup, &sink, "lives", false);
    run_window(&rollup);
    assert_rolled_up(&sink);
    assert_int_equal(rollup.counts.contents, CONTENTS - 2 * BATCH_ROWS + 1);
    rollup_done(&rollup);
}

/* It began in the middle of an interval, because nobody ran before, and got beyond the interval's
 * beginning: what is left must not wait for the next one. */
static void a_late_window_that_was_cut_off_is_due_at_once(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct sink sink;
        struct rollup rollup;

        sink_init(&sink);
        sink.state.now_ms = NOON_MS + HOUR_MS / 2;
        for (int64_t id = 1; id <= CONTENTS; id++)
            sink.contents[id].changed_ms = NOON_MS + id;
        engine_start(&rollup, &sink, "a", false);
        for (int i = 0; i < 4; i++)
            assert_int_equal(rollup_step(&rollup, 0), 0);
        assert_true(sink.state.rolled_until_ms > NOON_MS);
        if (!killed)
            rollup_leave(&rollup);
        rollup_done(&rollup);

        sink.state.now_ms += LEASE_MS + 1;
        engine_start(&rollup, &sink, "b", false);
        run_window(&rollup);
        assert_rolled_up(&sink);
        /* And then the next one is due as ever. */
        assert_true(rollup_step(&rollup, 0) > 0);
        assert_int_equal(rollup.phase, ROLLUP_LOOK);
        rollup_done(&rollup);
    }
}

/* Another one may take over at any step: what the state says is done must be done. */
static void progress_never_goes_back_nor_past_the_start_of_the_window(void **state)
{
    struct sink sink;
    struct rollup rollup;
    int64_t rolled_ms;
    int64_t writes;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    run_window(&rollup);
    sink.state.now_ms = NOON_MS + HOUR_MS;
    rolled_ms = sink.state.rolled_until_ms;
    for (int64_t id = 20; id <= CONTENTS; id++)
        sink_change(&sink, id, NOON_MS + 2 * HOUR_MS);
    while (rollup.windows < 2) {
        rollup_step(&rollup, 0);
        assert_true(sink.state.rolled_until_ms >= rolled_ms);
        rolled_ms = sink.state.rolled_until_ms;
    }

    /* Set back by half an hour: contents from the time to come are in the window. */
    sink.state.now_ms = NOON_MS + HOUR_MS / 2;
    writes = sink.writes;
    while (rollup.windows < 3) {
        rollup_step(&rollup, 0);
        assert_true(sink.writes == writes || sink.state.rolled_until_ms <= sink.state.now_ms);
    }
    assert_true(sink.writes > writes);
    assert_rolled_up(&sink);
    rollup_done(&rollup);
}

static void half_a_page_is_no_progress(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    for (int64_t id = 1; id <= CONTENTS; id++)
        sink.contents[id].changed_ms = NOON_MS - HOUR_MS * (CONTENTS + 1 - id);
    sink.refused_id = BATCH_ROWS; /* makes the engine write the page in parts */
    engine_start(&rollup, &sink, "dies", false);
    while (sink.writes == 0)
        rollup_step(&rollup, 0);
    assert_int_equal(sink.rows_offered, BATCH_ROWS / 2);
    assert_int_equal(sink.state.rolled_until_ms, 0);
    rollup_done(&rollup);

    sink.refused_id = 0;
    sink.state.now_ms += LEASE_MS;
    engine_start(&rollup, &sink, "lives", false);
    run_window(&rollup);
    assert_rolled_up(&sink);
    rollup_done(&rollup);
}

static void who_lost_the_lease_writes_no_more(void **state)
{
    struct sink sink;
    struct rollup frozen;
    struct rollup other;
    int64_t writes;

    (void)state;
    sink_init(&sink);
    engine_start(&frozen, &sink, "frozen", false);
    for (int i = 0; i < 5; i++) /* look, no new remarks, read, write, read */
        rollup_step(&frozen, 0);
    assert_int_equal(frozen.phase, ROLLUP_WRITE);
    sink.state.now_ms += LEASE_MS;
    engine_start(&other, &sink, "other", false);
    run_window(&other);
    writes = sink.writes;

    assert_int_equal(rollup_step(&frozen, 0), 0);
    assert_int_equal(frozen.phase, ROLLUP_LOOK);
    assert_int_equal(sink.writes, writes);
    assert_true(rollup_step(&frozen, 0) > 0);
    assert_int_equal(sink.writes, writes);
    assert_rolled_up(&sink);
    rollup_done(&frozen);
    rollup_done(&other);
}

static void who_lost_the_lease_does_not_end_the_window(void **state)
{
    struct sink sink;
    struct rollup rollup;

    (void)state;
    sink_init(&sink);
    engine_start(&rollup, &sink, "a", false);
    while (rollup.phase != ROLLUP_FINISH)
        rollup_step(&rollup, 0);
    sink.state.epoch++;
    snprintf(sink.state.owner, sizeof(sink.state.owner), "other");
    rollup_step(&rollup, 0);
    assert_int_equal(rollup.phase, ROLLUP_LOOK);
    assert_int_equal(sink.state.finished_ms, 0);
    assert_int_equal(rollup.windows, 0);
    rollup_done(&rollup);
}

static void one_works_while_the_other_waits(void **state)
{
    struct sink sink;
    struct rollup a;
    struct rollup b;

    (void)state;
    sink_init(&sink);
    engine_start(&a, &sink, "a", false);
    engine_start(&b, &sink, "b", false);
    assert_int_equal(rollup_step(&a, 0), 0);
    for (int i = 0; i < 3; i++) {
        assert_true(rollup_step(&b, 0) > 0);
        assert_string_equal(b.other, "a");
        assert_int_equal(b.phase, ROLLUP_LOOK);
    }
    run_window(&a);
    /* The hour is done, by whomever. */
    assert_true(rollup_step(&b, 0) > 0);
    assert_string_equal(b.other, "");
    assert_int_equal(sink.state.epoch, 1);

    sink.state.now_ms = NOON_MS + HOUR_MS;
    sink_change(&sink, 1, NOON_MS + 1);
    run_window(&b);
    assert_true(rollup_step(&a, 0) > 0);
    assert_int_equal(a.windows, 1);
    assert_int_equal(b.windows, 1);
    assert_rolled_up(&sink);
    rollup_done(&a);
    rollup_done(&b);
}

static void once_works_beside_a_waiting_daemon_and_ends(void **state)
{
    struct sink sink;
    struct rollup daemon;
    struct rollup once;

    (void)state;
    sink_init(&sink);
    engine_start(&daemon, &sink, "daemon", false);
    run_window(&daemon);
    sink_change(&sink, 9, NOON_MS);
    engine_start(&once, &sink, "once", true);
    run_window(&once);
    assert_int_equal(once.counts.changed, 1);
    assert_rolled_up(&sink);
    assert_int_equal(rollup_step(&once, 0), LOOP_END);
    rollup_done(&daemon);
    rollup_done(&once);
}

static void leaving_in_mid_window_gives_the_lease_back(void **state)
{
    struct sink sink;
    struct rollup a;
    struct rollup b;

    (void)state;
    sink_init(&sink);
    engine_start(&a, &sink, "a", false);
    for (int i = 0; i < 3; i++)
        rollup_step(&a, 0);
    rollup_leave(&a);
    assert_int_equal(rollup_step(&a, 0), LOOP_END);
    engine_start(&b, &sink, "b", false);
    run_window(&b);
    assert_rolled_up(&sink);
    rollup_done(&a);
    rollup_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_anywhere_the_next_engine_does_the_rest),
        cmocka_unit_test(a_successor_starts_where_the_dead_one_was),
        cmocka_unit_test(a_late_window_that_was_cut_off_is_due_at_once),
        cmocka_unit_test(progress_never_goes_back_nor_past_the_start_of_the_window),
        cmocka_unit_test(half_a_page_is_no_progress),
        cmocka_unit_test(who_lost_the_lease_writes_no_more),
        cmocka_unit_test(who_lost_the_lease_does_not_end_the_window),
        cmocka_unit_test(one_works_while_the_other_waits),
        cmocka_unit_test(once_works_beside_a_waiting_daemon_and_ends),
        cmocka_unit_test(leaving_in_mid_window_gives_the_lease_back),
    };

    log_init(LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
