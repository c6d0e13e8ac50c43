/* SPDX-License-Identifier: MIT */
/* A database that has only the outbox: made, recorded, found again, and completed later. */
#include "schema/migrate/migrate.h"

#include "tests/fakes/fake_migrate_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define assert_says(err, sentence) assert_true(fake_says(err, sentence))
#define CALLS_MAX 60 /* more than any run here makes */

static enum rc up(struct fake *fake, enum migrate_scope scope, struct err *err)
{
    struct migrate migrate = fake_migrate(fake, FAKE_BOTH);

    migrate.scope = scope;
    return migrate_up(&migrate, MIGRATION_NEWEST, err);
}

static void up_works(struct fake *fake, enum migrate_scope scope)
{
    struct err err = {0};

    fake_restart(fake, TROUBLE_NONE, 0);
    if (up(fake, scope, &err) != RC_OK)
        fail_msg("%s", err.text);
}

static bool has_table(struct fake *fake, const char *name)
{
    return shape_find(&fake->shape, SHAPE_TABLE, name, NULL) != NULL;
}

static void assert_outbox_only(struct fake *fake)
{
    assert_true(has_table(fake, "a"));
    assert_false(has_table(fake, "b"));
    assert_int_equal(fake_row(fake, 1)->state, HISTORY_APPLIED);
    assert_int_equal(fake_row(fake, 2)->state, HISTORY_LEFT_OUT);
    assert_int_equal(fake_row(fake, 3)->state, HISTORY_APPLIED);
}

static void assert_complete(struct fake *fake)
{
    assert_true(has_table(fake, "b"));
    assert_int_equal(fake->row_count, 3);
    for (int version = 1; version <= 3; version++)
        assert_int_equal(fake_row(fake, version)->state, HISTORY_APPLIED);
}

static void only_outbox_is_made_recorded_and_ready(void **state)
{
    struct fake fake;
    struct migrate migrate;
    struct migrate_state reached = {0};
    struct err err = {0};
    size_t drifts = 1;

    (void)state;
    fake_init(&fake);
    up_works(&fake, MIGRATE_OUTBOX);
    assert_outbox_only(&fake);
    fake_restart(&fake, TROUBLE_NONE, 0);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    assert_int_equal(migrate_state_read(&migrate, &reached, &err), RC_OK);
    assert_true(reached.outbox_only);
    assert_int_equal(reached.version, 3);
    assert_int_equal(reached.needs, 3);
    assert_int_equal(reached.entries[1].progress, MIGRATE_LEFT_OUT);
    assert_int_equal(migrate_state_judge(&migrate, &reached, &err), RC_OK);
    assert_int_equal(migrate_verify(&migrate, &reached, NULL, NULL, &drifts, &err), RC_OK);
    assert_int_equal(drifts, 0);
    migrate_state_done(&reached);
    fake_done(&fake);
}

static void only_outbox_again_takes_no_lock(void **state)
{
    struct fake fake;

    (void)state;
    fake_init(&fake);
    up_works(&fake, MIGRATE_OUTBOX);
    fake.locked_by_other = true;
    up_works(&fake, MIGRATE_OUTBOX);
    up_works(&fake, MIGRATE_RECORDED);
    assert_outbox_only(&fake);
    fake_done(&fake);
}

/* A later `up`, or a role with --migrate, must not complete a run of `up --only outbox` with vote
 * tables. */
static void a_killed_run_is_completed_as_it_was_begun(void **state)
{
    (void)state;
    for (int at = 1; at < CALLS_MAX; at++) {
        struct fake fake;

        fake_init(&fake);
        fake_restart(&fake, at % 2 ? TROUBLE_DIES_BEFORE : TROUBLE_DIES_AFTER, at);
        up(&fake, MIGRATE_OUTBOX, NULL);
        if (fake_row(&fake, 1))
            up_works(&fake, MIGRATE_RECORDED);
        up_works(&fake, MIGRATE_OUTBOX);
        assert_outbox_only(&fake);
        fake_done(&fake);
    }
}

static void the_vote_tables_are_added_when_they_are_asked_for(void **state)
{
    (void)state;
    for (int at = 1; at < CALLS_MAX; at++) {
        struct fake fake;

        fake_init(&fake);
        up_works(&fake, MIGRATE_OUTBOX);
        fake_restart(&fake, at % 2 ? TROUBLE_DIES_BEFORE : TROUBLE_DIES_AFTER, at);
        up(&fake, MIGRATE_ALL, NULL);
        up_works(&fake, MIGRATE_ALL);
        assert_complete(&fake);
        up_works(&fake, MIGRATE_RECORDED);
        fake_done(&fake);
    }
}

#define FOURTH "-- side: sink\nCREATE TABLE d (z INT NULL)" FAKE_OPTIONS

/* The migrations of the fake and one more for votes. */
static struct migration more_list[4];
static const struct migration_set more_set = {
    more_list, 4, FAKE_BYTES("CREATE TABLE schema_history (version INT NOT NULL)" FAKE_OPTIONS)};

static enum rc up_more(struct fake *fake, enum migrate_scope scope, struct err *err)
{
    const struct migration fourth = {4, "0004_fourth", MIGRATION_SINK, "dddd", FAKE_BYTES(FOURTH)};
    struct migrate migrate = fake_migrate(fake, FAKE_BOTH);

    memcpy(more_list, fake_set.list, fake_set.count * sizeof(more_list[0]));
    more_list[3] = fourth;
    migrate.set = &more_set;
    migrate.scope = scope;
    return migrate_up(&migrate, MIGRATION_NEWEST, err);
}

/* Once a vote table is begun, a later `up` or a role with --migrate completes them. */
static void a_killed_run_that_adds_them_is_completed_by_any_later_one(void **state)
{
    int killed_between = 0;

    (void)state;
    for (int at = 1; at < CALLS_MAX; at++) {
        struct fake fake;
        bool begun;

        fake_init(&fake);
        assert_int_equal(up_more(&fake, MIGRATE_OUTBOX, NULL), RC_OK);
        assert_outbox_only(&fake);
        fake_restart(&fake, at % 2 ? TROUBLE_DIES_BEFORE : TROUBLE_DIES_AFTER, at);
        up_more(&fake, MIGRATE_ALL, NULL);
        begun = fake_row(&fake, 2)->state != HISTORY_LEFT_OUT;
        killed_between += begun && !has_table(&fake, "d");
        fake_restart(&fake, TROUBLE_NONE, 0);
        assert_int_equal(up_more(&fake, MIGRATE_RECORDED, NULL), RC_OK);
        assert_int_equal(has_table(&fake, "b"), begun);
        assert_int_equal(has_table(&fake, "d"), begun);
        assert_int_equal(fake_row(&fake, 4)->state, begun ? HISTORY_APPLIED : HISTORY_LEFT_OUT);
        fake_done(&fake);
    }
    assert_in_range(killed_between, 3, CALLS_MAX);
}

/* Relay and retry go on while the vote tables are added, and others wait for them. */
static void the_outbox_is_complete_while_vote_tables_are_added(void **state)
{
    struct fake fake;
    struct migrate migrate;
    struct migrate_state reached = {0};

    (void)state;
    fake_init(&fake);
    assert_int_equal(up_more(&fake, MIGRATE_OUTBOX, NULL), RC_OK);
    fake_row(&fake, 2)->state = HISTORY_RUNNING;
    fake_restart(&fake, TROUBLE_NONE, 0);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    migrate.set = &more_set;
    assert_int_equal(migrate_state_read(&migrate, &reached, NULL), RC_OK);
    assert_false(reached.outbox_only);
    assert_true(migrate_state_has_outbox(&reached));
    assert_int_equal(migrate_state_judge(&migrate, &reached, NULL), RC_RETRY);
    fake_row(&fake, 3)->state = HISTORY_RUNNING;
    assert_int_equal(migrate_state_read(&migrate, &reached, NULL), RC_OK);
    assert_false(migrate_state_has_outbox(&reached));
    migrate_state_done(&reached);
    fake_done(&fake);
}

static void votes_that_are_there_are_not_to_be_left_out(void **state)
{
    struct fake fake;
    struct err err = {0};

    (void)state;
    fake_init(&fake);
    up_works(&fake, MIGRATE_RECORDED);
    fake_make(&fake, "CREATE TABLE d (other INT NULL) ENGINE = InnoDB");
    assert_int_equal(up_more(&fake, MIGRATE_RECORDED, &err), RC_FATAL);
    assert_says(&err, "tallybox makes: d; nothing was changed: rename them, or give tallybox");
    fake_done(&fake);
}

/* A history of a time when one database had both sides: the other side does not count. */
static void what_was_left_out_for_another_database_does_not_count(void **state)
{
    struct fake fake;
    struct migrate migrate;
    struct migrate_state reached = {0};

    (void)state;
    fake_init(&fake);
    up_works(&fake, MIGRATE_OUTBOX);
    fake_restart(&fake, TROUBLE_NONE, 0);
    migrate = fake_migrate(&fake, MIGRATION_OUTBOX);
    assert_int_equal(migrate_state_read(&migrate, &reached, NULL), RC_OK);
    assert_false(reached.outbox_only);
    migrate_state_done(&reached);
    fake_done(&fake);
}

static void without_a_record_everything_is_made(void **state)
{
    struct fake fake;

    (void)state;
    fake_init(&fake);
    up_works(&fake, MIGRATE_RECORDED);
    assert_complete(&fake);
    fake_done(&fake);
}

static void vote_tables_that_exist_are_not_left_out(void **state)
{
    struct fake fake;
    struct err err = {0};

    (void)state;
    fake_init(&fake);
    up_works(&fake, MIGRATE_ALL);
    assert_int_equal(up(&fake, MIGRATE_OUTBOX, &err), RC_FATAL);
    assert_says(&err, "database d at h:1 has vote tables already (migration 0002_second): run "
                      "without --only outbox");
    assert_complete(&fake);
    fake_done(&fake);
}

static void a_table_that_would_be_left_out_is_not_in_the_way(void **state)
{
    struct fake fake;

    (void)state;
    fake_init(&fake);
    fake_make(&fake, "CREATE TABLE b (other INT NULL) ENGINE = InnoDB");
    up_works(&fake, MIGRATE_OUTBOX);
    assert_non_null(shape_find(&fake.shape, SHAPE_COLUMN, "b", "other"));
    assert_int_equal(fake_row(&fake, 2)->state, HISTORY_LEFT_OUT);
    assert_int_equal(up(&fake, MIGRATE_ALL, NULL), RC_FATAL);
    assert_int_equal(fake_row(&fake, 2)->state, HISTORY_LEFT_OUT);
    fake_done(&fake);
}

static void ignore_drift(void *ctx, const struct shape_drift *drift)
{
    (void)ctx;
    (void)drift;
}

static enum rc baseline(struct fake *fake, enum migrate_scope scope, size_t *drifts)
{
    struct migrate migrate = fake_migrate(fake, FAKE_BOTH);
    struct err err = {0};

    migrate.scope = scope;
    return migrate_baseline(&migrate, MIGRATION_NEWEST, ignore_drift, NULL, drifts, &err);
}

static void a_baseline_may_have_only_the_outbox(void **state)
{
    struct fake fake;
    size_t drifts = 1;

    (void)state;
    fake_init(&fake);
    fake_make(&fake, "CREATE TABLE a (x BIGINT NOT NULL, KEY ix (x)) ENGINE = InnoDB");
    assert_int_equal(baseline(&fake, MIGRATE_OUTBOX, &drifts), RC_OK);
    assert_int_equal(drifts, 0);
    assert_outbox_only(&fake);
    assert_true(fake_row(&fake, 1)->baseline);
    /* Again: the vote tables, which are not there, are not expected unless they are asked for. */
    assert_int_equal(baseline(&fake, MIGRATE_RECORDED, &drifts), RC_OK);
    assert_int_equal(drifts, 0);
    assert_outbox_only(&fake);
    assert_int_equal(baseline(&fake, MIGRATE_ALL, &drifts), RC_OK);
    assert_int_equal(drifts, 1);
    assert_outbox_only(&fake);
    fake_make(&fake, "CREATE TABLE b (z INT NULL) ENGINE = InnoDB");
    assert_int_equal(baseline(&fake, MIGRATE_ALL, &drifts), RC_OK);
    assert_int_equal(drifts, 0);
    assert_complete(&fake);
    fake_done(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_outbox_is_made_recorded_and_ready),
        cmocka_unit_test(only_outbox_again_takes_no_lock),
        cmocka_unit_test(a_killed_run_is_completed_as_it_was_begun),
        cmocka_unit_test(the_vote_tables_are_added_when_they_are_asked_for),
        cmocka_unit_test(a_killed_run_that_adds_them_is_completed_by_any_later_one),
        cmocka_unit_test(the_outbox_is_complete_while_vote_tables_are_added),
        cmocka_unit_test(votes_that_are_there_are_not_to_be_left_out),
        cmocka_unit_test(what_was_left_out_for_another_database_does_not_count),
        cmocka_unit_test(without_a_record_everything_is_made),
        cmocka_unit_test(vote_tables_that_exist_are_not_left_out),
        cmocka_unit_test(a_table_that_would_be_left_out_is_not_in_the_way),
        cmocka_unit_test(a_baseline_may_have_only_the_outbox),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
