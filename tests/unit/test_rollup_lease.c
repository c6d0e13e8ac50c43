/* SPDX-License-Identifier: MIT */
/* The lease of the roll-up, and the continuation of a window by a successor. */
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

/* The process ends before any call, or behind one whose answer it never gets; another engine takes
 * over when the lease has expired. */
static void killed_anywhere_the_next_engine_does_the_rest(void **state)
{
    (void)state;
    for (int steps = 0; steps < 10; steps++) {
        for (int after = 0; after < 2; after++) {
            struct rollup_fixture fixture;
            struct rollup rollup;

            rollup_fixture_init(&fixture);
            engine_start(&rollup, &fixture, "dies", false);
            for (int i = 0; i < steps; i++)
                rollup_step(&rollup, 0);
            if (after == 1) {
                fixture.fail_call = fixture.calls + 1;
                fixture.fail_after = true;
                rollup_step(&rollup, 0);
                fixture.fail_call = 0;
            }
            rollup_done(&rollup);

            rollup_fixture_change(&fixture, 2, fixture.state.now_ms);
            fixture.state.now_ms += LEASE_MS + HOUR_MS;
            engine_start(&rollup, &fixture, "lives", false);
            run_window(&rollup);
            assert_rolled_up(&fixture);
            assert_int_equal(fixture.state.rolled_until_ms, fixture.state.now_ms);
            rollup_done(&rollup);
        }
    }
}

static void assert_listed(const struct rollup_fixture *fixture)
{
    for (int64_t id = 1; id <= CONTENTS; id++) {
        const struct fake_remark *remark = &fixture->remarks[id];

        assert_int_equal(fake_remark_listed_votes(remark, &fixture->state), remark->listed_votes);
    }
}

/* Votes arrive between the two halves, so that the successor writes some remarks again. */
static void lists_show_the_last_finished_window_until_the_next_is_finished(void **state)
{
    (void)state;
    for (int steps = 2; steps < 9; steps++) {
        struct rollup_fixture fixture;
        struct rollup rollup;

        rollup_fixture_init(&fixture);
        engine_start(&rollup, &fixture, "dies", false);
        run_window(&rollup);
        assert_int_equal(fixture.state.finished_window, 1);
        fixture.state.now_ms += HOUR_MS;
        for (int64_t id = 1; id <= CONTENTS; id++)
            rollup_fixture_change(&fixture, id, fixture.state.now_ms - 1);
        for (int i = 0; i < steps; i++) {
            assert_true(rollup_step(&rollup, 0) >= 0);
            assert_listed(&fixture);
        }
        rollup_done(&rollup);
        for (int64_t id = 1; id <= CONTENTS; id += 2)
            rollup_fixture_change(&fixture, id, fixture.state.now_ms);
        fixture.state.now_ms += LEASE_MS + 1;
        engine_start(&rollup, &fixture, "lives", false);
        while (rollup.windows == 0) {
            assert_true(rollup_step(&rollup, 0) >= 0);
            assert_listed(&fixture);
        }
        assert_rolled_up(&fixture);
        assert_in_range(fixture.state.finished_window, 2, 3);
        rollup_done(&rollup);
    }
}

static void a_successor_starts_where_the_dead_one_was(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    for (int64_t id = 1; id <= CONTENTS; id++)
        fixture.contents[id].changed_ms = NOON_MS - HOUR_MS * (CONTENTS + 1 - id);
    engine_start(&rollup, &fixture, "dies", false);
    for (int i = 0; i < 6; i++) /* look, no new remarks, and two pages */
        rollup_step(&rollup, 0);
    rollup_done(&rollup);
    assert_int_equal(fixture.state.rolled_until_ms,
                     fixture.contents[(size_t)2 * BATCH_ROWS].changed_ms);

    fixture.state.now_ms += LEASE_MS;
    engine_start(&rollup, &fixture, "lives", false);
    run_window(&rollup);
    assert_rolled_up(&fixture);
    assert_int_equal(rollup.counts.contents, CONTENTS - 2 * BATCH_ROWS + 1);
    rollup_done(&rollup);
}

/* The window began in the middle of an interval, because no engine ran before, and passed the
 * interval's beginning: the rest must not wait for the next interval. */
static void a_late_window_that_was_cut_off_is_due_at_once(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        struct rollup_fixture fixture;
        struct rollup rollup;

        rollup_fixture_init(&fixture);
        fixture.state.now_ms = NOON_MS + HOUR_MS / 2;
        for (int64_t id = 1; id <= CONTENTS; id++)
            fixture.contents[id].changed_ms = NOON_MS + id;
        engine_start(&rollup, &fixture, "a", false);
        for (int i = 0; i < 4; i++)
            assert_int_equal(rollup_step(&rollup, 0), 0);
        assert_true(fixture.state.rolled_until_ms > NOON_MS);
        if (!killed)
            rollup_leave(&rollup);
        rollup_done(&rollup);

        fixture.state.now_ms += LEASE_MS + 1;
        engine_start(&rollup, &fixture, "b", false);
        run_window(&rollup);
        assert_rolled_up(&fixture);
        /* And then the next one is due as ever. */
        assert_true(rollup_step(&rollup, 0) > 0);
        assert_int_equal(rollup.phase, ROLLUP_IDLE);
        rollup_done(&rollup);
    }
}

/* Another engine may take over at any step: the work before rolled_until must be done. */
static void progress_never_goes_back_nor_past_the_start_of_the_window(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;
    int64_t rolled_ms;
    int64_t writes;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    run_window(&rollup);
    fixture.state.now_ms = NOON_MS + HOUR_MS;
    rolled_ms = fixture.state.rolled_until_ms;
    for (int64_t id = 20; id <= CONTENTS; id++)
        rollup_fixture_change(&fixture, id, NOON_MS + 2 * HOUR_MS);
    while (rollup.windows < 2) {
        rollup_step(&rollup, 0);
        assert_true(fixture.state.rolled_until_ms >= rolled_ms);
        rolled_ms = fixture.state.rolled_until_ms;
    }

    /* Set back by half an hour: contents from the time to come are in the window. */
    fixture.state.now_ms = NOON_MS + HOUR_MS / 2;
    writes = fixture.writes;
    while (rollup.windows < 3) {
        rollup_step(&rollup, 0);
        assert_true(fixture.writes == writes ||
                    fixture.state.rolled_until_ms <= fixture.state.now_ms);
    }
    assert_true(fixture.writes > writes);
    assert_rolled_up(&fixture);
    rollup_done(&rollup);
}

static void half_a_page_is_no_progress(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    for (int64_t id = 1; id <= CONTENTS; id++)
        fixture.contents[id].changed_ms = NOON_MS - HOUR_MS * (CONTENTS + 1 - id);
    fixture.refused_id = BATCH_ROWS; /* makes the engine write the page in parts */
    engine_start(&rollup, &fixture, "dies", false);
    while (fixture.writes == 0)
        rollup_step(&rollup, 0);
    assert_int_equal(fixture.rows_offered, BATCH_ROWS / 2);
    assert_int_equal(fixture.state.rolled_until_ms, 0);
    rollup_done(&rollup);

    fixture.refused_id = 0;
    fixture.state.now_ms += LEASE_MS;
    engine_start(&rollup, &fixture, "lives", false);
    run_window(&rollup);
    assert_rolled_up(&fixture);
    rollup_done(&rollup);
}

static void an_engine_without_the_lease_writes_nothing(void **state)
{
    struct rollup_fixture fixture;
    struct rollup frozen;
    struct rollup other;
    int64_t writes;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&frozen, &fixture, "frozen", false);
    for (int i = 0; i < 5; i++) /* look, no new remarks, read, write, read */
        rollup_step(&frozen, 0);
    assert_int_equal(frozen.phase, ROLLUP_WRITE);
    fixture.state.now_ms += LEASE_MS;
    engine_start(&other, &fixture, "other", false);
    run_window(&other);
    writes = fixture.writes;

    assert_int_equal(rollup_step(&frozen, 0), 0);
    assert_int_equal(frozen.phase, ROLLUP_IDLE);
    assert_int_equal(fixture.writes, writes);
    assert_true(rollup_step(&frozen, 0) > 0);
    assert_int_equal(fixture.writes, writes);
    assert_rolled_up(&fixture);
    rollup_done(&frozen);
    rollup_done(&other);
}

static void an_engine_without_the_lease_does_not_finish_the_window(void **state)
{
    struct rollup_fixture fixture;
    struct rollup rollup;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&rollup, &fixture, "a", false);
    while (rollup.phase != ROLLUP_FINISH)
        rollup_step(&rollup, 0);
    fixture.state.epoch++;
    snprintf(fixture.state.owner, sizeof(fixture.state.owner), "other");
    rollup_step(&rollup, 0);
    assert_int_equal(rollup.phase, ROLLUP_IDLE);
    assert_int_equal(fixture.state.finished_ms, 0);
    assert_int_equal(rollup.windows, 0);
    rollup_done(&rollup);
}

static void one_works_while_the_other_waits(void **state)
{
    struct rollup_fixture fixture;
    struct rollup a;
    struct rollup b;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&a, &fixture, "a", false);
    engine_start(&b, &fixture, "b", false);
    assert_int_equal(rollup_step(&a, 0), 0);
    for (int i = 0; i < 3; i++) {
        assert_true(rollup_step(&b, 0) > 0);
        assert_string_equal(b.other, "a");
        assert_int_equal(b.phase, ROLLUP_IDLE);
    }
    run_window(&a);
    /* The hour is done, by whomever. */
    assert_true(rollup_step(&b, 0) > 0);
    assert_string_equal(b.other, "");
    assert_int_equal(fixture.state.epoch, 1);

    fixture.state.now_ms = NOON_MS + HOUR_MS;
    rollup_fixture_change(&fixture, 1, NOON_MS + 1);
    run_window(&b);
    assert_true(rollup_step(&a, 0) > 0);
    assert_int_equal(a.windows, 1);
    assert_int_equal(b.windows, 1);
    assert_rolled_up(&fixture);
    rollup_done(&a);
    rollup_done(&b);
}

static void once_works_beside_a_waiting_daemon_and_ends(void **state)
{
    struct rollup_fixture fixture;
    struct rollup daemon;
    struct rollup once;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&daemon, &fixture, "daemon", false);
    run_window(&daemon);
    rollup_fixture_change(&fixture, 9, NOON_MS);
    engine_start(&once, &fixture, "once", true);
    run_window(&once);
    assert_int_equal(once.counts.changed, 1);
    assert_rolled_up(&fixture);
    assert_int_equal(rollup_step(&once, 0), LOOP_END);
    rollup_done(&daemon);
    rollup_done(&once);
}

static void leaving_in_mid_window_gives_the_lease_back(void **state)
{
    struct rollup_fixture fixture;
    struct rollup a;
    struct rollup b;

    (void)state;
    rollup_fixture_init(&fixture);
    engine_start(&a, &fixture, "a", false);
    for (int i = 0; i < 3; i++)
        rollup_step(&a, 0);
    rollup_leave(&a);
    assert_int_equal(rollup_step(&a, 0), LOOP_END);
    engine_start(&b, &fixture, "b", false);
    run_window(&b);
    assert_rolled_up(&fixture);
    rollup_done(&a);
    rollup_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_anywhere_the_next_engine_does_the_rest),
        cmocka_unit_test(lists_show_the_last_finished_window_until_the_next_is_finished),
        cmocka_unit_test(a_successor_starts_where_the_dead_one_was),
        cmocka_unit_test(a_late_window_that_was_cut_off_is_due_at_once),
        cmocka_unit_test(progress_never_goes_back_nor_past_the_start_of_the_window),
        cmocka_unit_test(half_a_page_is_no_progress),
        cmocka_unit_test(an_engine_without_the_lease_writes_nothing),
        cmocka_unit_test(an_engine_without_the_lease_does_not_finish_the_window),
        cmocka_unit_test(one_works_while_the_other_waits),
        cmocka_unit_test(once_works_beside_a_waiting_daemon_and_ends),
        cmocka_unit_test(leaving_in_mid_window_gives_the_lease_back),
    };

    log_init(LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
