/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep.h"

#include "common/log.h"
#include "common/loop.h"
#include "consumer/apply/date.h"
#include "tests/flow/housekeep_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define HOUR_MS INT64_C(3600000)
#define STEPS_MAX 2000

static struct housekeep_fixture fixture;
static struct housekeep one;
static struct housekeep two;

static uint64_t no_rng(void)
{
    return 0;
}

/* Months are made up to 2027-02, and kept from 2026-09 on. */
static const struct housekeep_rules rules = {
    .months_ahead = 3,
    .keep_months = 2,
    .keep_days = {7, 30, 30},
    .move_rows_max = 10,
    .batch_rows_max = 4,
    .pause_ms = 20,
};

static void engine_start(struct housekeep *housekeep, const char *owner, bool once)
{
    const struct housekeep_config config = {
        .store = &fixture.store,
        .owner = owner,
        .rules = rules,
        .interval_ms = HOUR_MS,
        .lease_ms = HOUSEKEEP_LEASE_MS,
        .once = once,
        .rng = no_rng,
    };

    assert_int_equal(housekeep_init(housekeep, &config, NULL), RC_OK);
}

/* Calls one step, moves the time as it asks, and checks the data. An engine that has lost the lease
 * notices it before its next change. */
static int64_t step(struct housekeep *housekeep)
{
    bool stale = housekeep->phase == HOUSEKEEP_PLAN &&
                 housekeep->lease.epoch != fixture.tables.old.state.epoch;
    int64_t wait_ms = housekeep_step(housekeep, fixture.now_ms);

    housekeep_fixture_check(&fixture);
    if (stale && housekeep->rc == RC_OK)
        assert_int_equal(housekeep->phase, HOUSEKEEP_IDLE);
    if (wait_ms > 0)
        fixture.now_ms += wait_ms;
    return wait_ms;
}

static void run_round(struct housekeep *housekeep)
{
    int64_t rounds = housekeep->rounds;

    for (int i = 0; i < STEPS_MAX && housekeep->rounds == rounds; i++)
        if (step(housekeep) == LOOP_END)
            break;
    assert_int_equal(housekeep->rounds, rounds + 1);
}

static void assert_kept(void)
{
    assert_false(housekeep_fixture_has(&fixture, "p_before"));
    assert_false(housekeep_fixture_has(&fixture, "p202608"));
    assert_true(housekeep_fixture_has(&fixture, "p202609"));
    assert_true(housekeep_fixture_has(&fixture, "p202702"));
    assert_false(housekeep_fixture_has(&fixture, "p202703"));
    assert_true(housekeep_fixture_has(&fixture, "p_after"));
    for (size_t i = 0; i < HOUSEKEEP_KINDS; i++)
        assert_int_equal(fixture.tables.made_count[i], 0);
    housekeep_fixture_check(&fixture);
    assert_true(fixture.tables.old.bases[FIXTURE_CONTENT].row_count > 0);
}

/* Removals that clients ask for must not wait behind all old ones. */
static void a_round_marks_one_batch_of_each_kind(void **state)
{
    size_t batch = rules.batch_rows_max;
    size_t *remarks = &fixture.tables.made_count[HOUSEKEEP_EXPIRED_REMARKS];
    size_t *contents = &fixture.tables.made_count[HOUSEKEEP_EXPIRED_CONTENTS];

    (void)state;
    housekeep_fixture_init(&fixture);
    *remarks = batch + 3;
    *contents = 2;
    engine_start(&one, "a", true);
    run_round(&one);
    assert_int_equal(*remarks, batch + 3); /* by default they stay */
    housekeep_done(&one);

    engine_start(&one, "a", true);
    one.config.rules.keep_days[HOUSEKEEP_EXPIRED_REMARKS] = 30;
    one.config.rules.keep_days[HOUSEKEEP_EXPIRED_CONTENTS] = 30;
    run_round(&one);
    assert_int_equal(*remarks, 3);
    assert_int_equal(*contents, 0);
    assert_int_equal(one.counts.deleted[HOUSEKEEP_EXPIRED_REMARKS], batch);
    assert_int_equal(one.counts.deleted[HOUSEKEEP_EXPIRED_CONTENTS], 2);
    one.phase = HOUSEKEEP_IDLE;
    run_round(&one);
    assert_int_equal(*remarks, 0);
    housekeep_done(&one);
}

static void a_round_makes_drops_and_deletes(void **state)
{
    (void)state;
    housekeep_fixture_init(&fixture);
    engine_start(&one, "a", true);
    run_round(&one);
    assert_kept();
    assert_int_equal(one.counts.made, 2);
    assert_int_equal(one.counts.dropped, 3);
    assert_int_equal(one.counts.folded, fixture.tables.old.bases[FIXTURE_CONTENT].row_count);
    assert_int_equal(one.counts.deleted[HOUSEKEEP_DEAD], 7);
    assert_int_equal(one.counts.postponed, 0);
    assert_string_equal(fixture.tables.old.state.owner, "");
    housekeep_done(&one);

    /* Done once more it changes nothing. */
    fixture.changes = 0;
    engine_start(&one, "b", true);
    run_round(&one);
    assert_kept();
    assert_int_equal(fixture.changes, 0);
    housekeep_done(&one);
}

static void without_settings_nothing_is_dropped_or_deleted(void **state)
{
    (void)state;
    housekeep_fixture_init(&fixture);
    engine_start(&one, "a", true);
    one.config.rules.keep_months = 0;
    memset(one.config.rules.keep_days, 0, sizeof(one.config.rules.keep_days));
    run_round(&one);
    assert_true(housekeep_fixture_has(&fixture, "p_before"));
    assert_int_equal(fixture.tables.old.state.begin_day, 0);
    assert_int_equal(fixture.tables.old.bases[FIXTURE_CONTENT].row_count, 0);
    assert_int_equal(fixture.tables.made_count[HOUSEKEEP_DEAD], 7);
    assert_int_equal(one.counts.made, 2);
    housekeep_done(&one);
}

static void a_missed_round_is_caught_up_at_once_and_later_ones_do_not_drift(void **state)
{
    int64_t noon_ms;

    (void)state;
    housekeep_fixture_init(&fixture);
    noon_ms = fixture.now_ms;
    engine_start(&one, "a", false);
    run_round(&one);
    housekeep_done(&one);
    fixture.now_ms = noon_ms + 30 * HOUR_MS + 77;
    engine_start(&one, "b", false);
    assert_int_equal(housekeep_step(&one, fixture.now_ms), 0);
    assert_int_equal(one.phase, HOUSEKEEP_PLAN);
    run_round(&one);
    assert_true(step(&one) > 0);
    fixture.now_ms = noon_ms + 31 * HOUR_MS - 1;
    assert_int_equal(housekeep_step(&one, fixture.now_ms), 1);
    fixture.now_ms++;
    assert_int_equal(housekeep_step(&one, fixture.now_ms), 0);
    assert_int_equal(one.phase, HOUSEKEEP_PLAN);
    housekeep_done(&one);
}

/* Every call fails once, before or after its effect: the engine continues and the result is the
 * same. */
static void every_call_may_fail_once(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        for (int call = 1;; call++) {
            housekeep_fixture_init(&fixture);
            fixture.fail_call = call;
            fixture.fail_after = after == 1;
            engine_start(&one, "a", true);
            run_round(&one);
            assert_kept();
            assert_false(condition_read(&one.database, NULL));
            assert_string_equal(fixture.tables.old.state.owner, "");
            housekeep_done(&one);
            if (fixture.calls < call)
                break;
        }
    }
}

/* The process ends before any call, or behind one whose answer it never gets, and the next process
 * does the rest. */
static void killed_anywhere_the_next_one_does_the_rest(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        for (int call = 1;; call++) {
            housekeep_fixture_init(&fixture);
            fixture.fail_call = call;
            fixture.fail_after = after == 1;
            engine_start(&one, "a", true);
            for (int i = 0; i < STEPS_MAX && fixture.calls < call; i++)
                if (step(&one) == LOOP_END)
                    break;
            housekeep_done(&one);
            if (fixture.calls < call)
                break;
            fixture.fail_call = 0;
            engine_start(&two, "b", true);
            run_round(&two);
            assert_kept();
            housekeep_done(&two);
        }
    }
}

/* The first one is frozen after any number of steps, the other one takes over when its lease is
 * over and is through before the first wakes. */
static void a_stale_owner_changes_nothing(void **state)
{
    (void)state;
    for (int steps = 1;; steps++) {
        bool through = false;
        int changes;
        int64_t rows;

        housekeep_fixture_init(&fixture);
        engine_start(&one, "a", true);
        engine_start(&two, "b", false);
        for (int i = 0; i < steps; i++)
            through = step(&one) == LOOP_END;
        if (!through) {
            run_round(&two);
            assert_kept();
            changes = fixture.changes;
            rows = fixture.tables.old.bases[FIXTURE_CONTENT].row_count;
            for (int i = 0; i < 5; i++)
                housekeep_step(&one, fixture.now_ms);
            assert_int_equal(fixture.changes, changes);
            assert_int_equal(fixture.tables.old.bases[FIXTURE_CONTENT].row_count, rows);
            assert_kept();
        }
        housekeep_done(&one);
        housekeep_done(&two);
        if (through)
            break;
    }
}

/* The database fails over to a replica that is behind: at any step the engine meets the data of any
 * earlier step of its round, dropped months and its own lease among them. */
static void a_database_that_goes_back_is_taken_as_it_is(void **state)
{
    static struct housekeep_fixture copy;
    bool through = false;

    (void)state;
    for (int copied = 1; !through; copied++) {
        for (int lost = 1;; lost++) {
            housekeep_fixture_init(&fixture);
            engine_start(&one, "a", true);
            for (int i = 0; i < copied; i++)
                through = step(&one) == LOOP_END;
            copy = fixture;
            for (int i = 0; i < lost && one.phase != HOUSEKEEP_ENDED; i++)
                step(&one);
            if (one.phase == HOUSEKEEP_ENDED) {
                housekeep_done(&one);
                break;
            }
            housekeep_fixture_restore(&fixture, &copy);
            for (int i = 0; i < STEPS_MAX && one.phase != HOUSEKEEP_ENDED; i++)
                step(&one);
            assert_int_equal(one.phase, HOUSEKEEP_ENDED);
            housekeep_done(&one);
            engine_start(&two, "b", true);
            run_round(&two);
            assert_kept();
            housekeep_done(&two);
        }
    }
}

/* Both run in any order, freeze and wake again. */
static void two_in_any_order_do_the_work_of_one(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 300; seed++) {
        unsigned rng = seed * 2654435761U;
        struct housekeep *engines[] = {&one, &two};

        housekeep_fixture_init(&fixture);
        engine_start(&one, "a", false);
        engine_start(&two, "b", false);
        for (int i = 0; i < STEPS_MAX && one.rounds + two.rounds == 0; i++) {
            rng = rng * 1103515245 + 12345;
            if ((rng >> 16) % 16 == 0)
                fixture.now_ms += HOUSEKEEP_LEASE_MS + 1;
            step(engines[(rng >> 20) % 2]);
        }
        assert_int_equal(one.rounds + two.rounds, 1);
        assert_kept();
        housekeep_done(&one);
        housekeep_done(&two);
    }
}

static void a_change_that_must_wait_is_tried_a_few_times_and_put_off(void **state)
{
    (void)state;
    housekeep_fixture_init(&fixture);
    fixture.fail_kind = FAKE_DROP_PART;
    engine_start(&one, "a", true);
    run_round(&one);
    assert_int_equal(one.counts.postponed, 1);
    assert_int_equal(one.counts.made, 2);
    assert_int_equal(one.counts.dropped, 0);
    assert_int_equal(fixture.tables.made_count[HOUSEKEEP_DEAD], 0);
    assert_true(housekeep_fixture_has(&fixture, "p_before"));
    housekeep_done(&one);

    /* The next round begins where this one ended: folded rows stay folded. */
    fixture.fail_kind = 0;
    engine_start(&one, "a", true);
    run_round(&one);
    assert_kept();
    housekeep_done(&one);
}

static void a_refused_part_is_postponed_and_the_rest_is_done(void **state)
{
    static const enum fake_housekeep_op kinds[] = {FAKE_READ_PARTS, FAKE_COUNT_ROWS, FAKE_MAKE_PART,
                                                   FAKE_MOVE_BEGIN, FAKE_FOLD,       FAKE_DROP_PART,
                                                   FAKE_DELETE_OLD};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        housekeep_fixture_init(&fixture);
        fixture.fail_kind = kinds[i];
        fixture.fail_rc = RC_REJECT;
        engine_start(&one, "a", true);
        run_round(&one);
        assert_true(one.counts.postponed > 0);
        housekeep_done(&one);
        fixture.fail_kind = 0;
        engine_start(&one, "a", true);
        run_round(&one);
        assert_kept();
        housekeep_done(&one);
    }
}

static void a_fatal_error_ends_the_round(void **state)
{
    (void)state;
    housekeep_fixture_init(&fixture);
    fixture.fail_kind = FAKE_READ_STATE;
    fixture.fail_rc = RC_FATAL;
    engine_start(&one, "a", false);
    assert_int_equal(step(&one), LOOP_END);
    assert_true(condition_read(&one.database, NULL));
    assert_int_equal(one.phase, HOUSEKEEP_ENDED);
    housekeep_done(&one);
}

/* The end of the last month that has a partition. */
static int64_t last_limit_day(void)
{
    return fixture.tables.parts_old.parts[fixture.tables.parts_old.count - 2].limit_day;
}

static void rows_behind_the_last_month_are_not_moved_unasked(void **state)
{
    (void)state;
    housekeep_fixture_init(&fixture);
    housekeep_fixture_add(&fixture, last_limit_day() + 40, 11);
    engine_start(&one, "a", true);
    run_round(&one);
    assert_int_equal(one.counts.made, 0);
    assert_int_equal(one.counts.postponed, 1);
    housekeep_done(&one);
    engine_start(&one, "a", true);
    one.config.rules.move_rows_max = 11;
    run_round(&one);
    assert_int_equal(one.counts.made, 2);
    housekeep_done(&one);
}

/* The name of the partition of all later days does not tell its first month. */
static void the_last_month_stays_while_none_can_be_made_behind_it(void **state)
{
    int64_t newest_day;

    (void)state;
    housekeep_fixture_init(&fixture);
    newest_day = last_limit_day() + 130;
    housekeep_fixture_add(&fixture, newest_day, 11);
    fixture.now_ms = newest_day * MS_PER_DAY;
    engine_start(&one, "a", true);
    run_round(&one);
    assert_int_equal(one.counts.made, 0);
    assert_int_equal(one.counts.dropped, 6);
    housekeep_done(&one);
    engine_start(&one, "a", true);
    one.config.rules.move_rows_max = 11;
    run_round(&one);
    assert_int_equal(one.counts.made, 8);
    assert_int_equal(one.counts.dropped, 3);
    housekeep_done(&one);
}

static void leaving_gives_the_lease_back(void **state)
{
    (void)state;
    housekeep_fixture_init(&fixture);
    engine_start(&one, "a", false);
    engine_start(&two, "b", false);
    for (int i = 0; i < 12; i++)
        step(&one);
    assert_true(step(&two) > 0);
    assert_string_equal(two.other, "a");
    housekeep_leave(&one);
    assert_string_equal(fixture.tables.old.state.owner, "");
    run_round(&two);
    assert_kept();
    housekeep_done(&one);
    housekeep_done(&two);
}

static void a_due_round_without_progress_is_late(void **state)
{
    int64_t began_ms;

    (void)state;
    housekeep_fixture_init(&fixture);
    engine_start(&one, "a", false);
    step(&one);
    fixture.fail_kind = FAKE_RENEW;
    began_ms = fixture.now_ms;
    for (int i = 0; i < 10; i++)
        step(&one);
    assert_true(fixture.now_ms > began_ms);
    assert_in_range(one.late_since_ms, 1, began_ms);
    fixture.fail_kind = 0;
    run_round(&one);
    assert_int_equal(one.late_since_ms, SINGLETON_ON_TIME);
    housekeep_done(&one);
}

struct heard {
    int deeds[3];
    uint64_t rows;
};

static void on_would(void *ctx, const struct housekeep_would *would)
{
    struct heard *heard = ctx;

    heard->deeds[would->deed]++;
    heard->rows += would->deed == HOUSEKEEP_WOULD_DROP ? would->rows : 0;
}

static void a_dry_run_reports_the_changes_of_a_round_and_makes_none(void **state)
{
    struct heard heard = {{0}, 0};

    (void)state;
    housekeep_fixture_init(&fixture);
    assert_int_equal(housekeep_dry(&fixture.store, &rules, on_would, &heard, NULL), RC_OK);
    assert_int_equal(fixture.changes, 0);
    assert_int_equal(fixture.tables.old.state.epoch, 0);
    assert_int_equal(fixture.tables.made_count[HOUSEKEEP_DEAD], 7);
    engine_start(&one, "a", true);
    run_round(&one);
    assert_int_equal(heard.deeds[HOUSEKEEP_WOULD_MAKE], one.counts.made);
    assert_int_equal(heard.deeds[HOUSEKEEP_WOULD_DROP], one.counts.dropped);
    assert_int_equal(heard.deeds[HOUSEKEEP_WOULD_DELETE], 3);
    assert_int_equal(heard.rows, one.counts.folded);
    housekeep_done(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_makes_drops_and_deletes),
        cmocka_unit_test(a_round_marks_one_batch_of_each_kind),
        cmocka_unit_test(without_settings_nothing_is_dropped_or_deleted),
        cmocka_unit_test(a_missed_round_is_caught_up_at_once_and_later_ones_do_not_drift),
        cmocka_unit_test(every_call_may_fail_once),
        cmocka_unit_test(killed_anywhere_the_next_one_does_the_rest),
        cmocka_unit_test(a_stale_owner_changes_nothing),
        cmocka_unit_test(a_database_that_goes_back_is_taken_as_it_is),
        cmocka_unit_test(two_in_any_order_do_the_work_of_one),
        cmocka_unit_test(a_change_that_must_wait_is_tried_a_few_times_and_put_off),
        cmocka_unit_test(a_refused_part_is_postponed_and_the_rest_is_done),
        cmocka_unit_test(a_fatal_error_ends_the_round),
        cmocka_unit_test(rows_behind_the_last_month_are_not_moved_unasked),
        cmocka_unit_test(the_last_month_stays_while_none_can_be_made_behind_it),
        cmocka_unit_test(leaving_gives_the_lease_back),
        cmocka_unit_test(a_due_round_without_progress_is_late),
        cmocka_unit_test(a_dry_run_reports_the_changes_of_a_round_and_makes_none),
    };

    log_init(LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
