/* SPDX-License-Identifier: MIT */
/* The report on a database, verify and baseline. */
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

static void up_works(struct fake *fake)
{
    const struct migrate migrate = fake_migrate(fake, FAKE_BOTH);

    assert_int_equal(migrate_up(&migrate, MIGRATION_NEWEST, NULL), RC_OK);
}

static enum rc up(struct fake *fake, struct err *err)
{
    const struct migrate migrate = fake_migrate(fake, FAKE_BOTH);

    return migrate_up(&migrate, MIGRATION_NEWEST, err);
}

/* The answer of the gate about the fake's database. */
static void judged(struct fake *fake, enum rc expected, const char *sentence)
{
    struct migrate migrate = fake_migrate(fake, FAKE_BOTH);
    struct migrate_state reached = {0};
    struct err err = {0};

    fake_restart(fake, TROUBLE_NONE, 0);
    assert_int_equal(migrate_state_read(&migrate, &reached, &err), RC_OK);
    assert_int_equal(migrate_state_judge(&migrate, &reached, &err), expected);
    if (sentence)
        assert_says(&err, sentence);
    migrate_state_done(&reached);
}

static void a_database_that_does_not_exist_is_reported_with_the_setting_that_names_it(void **state)
{
    const struct migrate_state none = {0};
    struct err err = {0};
    struct fake fake;
    struct migrate migrate;

    (void)state;
    fake_init(&fake);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    migrate.setting = "mysql.database (t.ini:4)";
    assert_int_equal(migrate_state_judge(&migrate, &none, &err), RC_RETRY);
    assert_says(&err,
                "database d at h:1 does not exist: check mysql.database (t.ini:4); if the name "
                "is right, run `tallybox migrate up` or start with --migrate");
    fake_done(&fake);
}

static void an_older_schema_is_judged_not_ready(void **state)
{
    struct fake fake;
    struct migrate migrate;

    (void)state;
    fake_init(&fake);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    judged(&fake, RC_RETRY, "database d at h:1 does not exist: run `tallybox migrate up`");
    fake.has_database = true;
    judged(&fake, RC_RETRY,
           "database d at h:1 has schema version 0, this program needs 3: run "
           "`tallybox migrate up` or start with --migrate");
    migrate_up(&migrate, 2, NULL);
    judged(&fake, RC_RETRY, "has schema version 2, this program needs 3");
    fake_row(&fake, 2)->state = HISTORY_TRYING;
    fake_row(&fake, 2)->statement = 0;
    judged(&fake, RC_RETRY, "is half-way through migration 0002_second (0 of 1 statements)");
    fake_done(&fake);
}

static void the_right_schema_is_judged_ready(void **state)
{
    struct fake fake;

    (void)state;
    fake_init(&fake);
    up_works(&fake);
    judged(&fake, RC_OK, NULL);
    fake_done(&fake);
}

static void a_newer_schema_is_left_alone(void **state)
{
    struct fake fake;
    struct err err = {0};

    (void)state;
    fake_init(&fake);
    up_works(&fake);
    fake.rows[fake.row_count] = fake.rows[0];
    fake.rows[fake.row_count++].version = 7;
    fake_row(&fake, 3)->state = HISTORY_RUNNING;
    judged(&fake, RC_RETRY,
           "database d at h:1 has schema version 7, this program knows 3 at most: use a newer "
           "tallybox");
    assert_int_equal(up(&fake, &err), RC_FATAL);
    assert_says(&err, "this program knows 3 at most");
    assert_int_equal(fake.runs, 0);
    fake_done(&fake);
}

static void an_edited_migration_is_named(void **state)
{
    struct fake fake;
    struct err err = {0};

    (void)state;
    fake_init(&fake);
    up_works(&fake);
    snprintf(fake_row(&fake, 2)->sha256, HISTORY_TEXT_SIZE, "0123456789abcdef");
    judged(&fake, RC_RETRY, "migration 0002_second is not the one that was applied there");
    assert_int_equal(up(&fake, &err), RC_FATAL);
    assert_says(&err, "SHA-256 0123456789ab; now bbbb");
    fake_done(&fake);
}

struct drifts {
    size_t count;
    char last[256];
};

static void on_drift(void *ctx, const struct shape_drift *drift)
{
    struct drifts *drifts = ctx;

    drifts->count++;
    snprintf(drifts->last, sizeof(drifts->last), "%s.%s", drift->table, drift->name);
}

/* How many differences verify finds. */
static size_t verified(struct fake *fake, struct drifts *drifts)
{
    struct migrate migrate = fake_migrate(fake, FAKE_BOTH);
    struct migrate_state reached = {0};
    size_t count = 99;

    memset(drifts, 0, sizeof(*drifts));
    assert_int_equal(migrate_state_read(&migrate, &reached, NULL), RC_OK);
    assert_int_equal(migrate_verify(&migrate, &reached, on_drift, drifts, &count, NULL), RC_OK);
    assert_int_equal(count, drifts->count);
    migrate_state_done(&reached);
    return count;
}

static void verify_finds_differences(void **state)
{
    struct fake fake;
    struct drifts drifts;

    (void)state;
    fake_init(&fake);
    up_works(&fake);
    assert_int_equal(verified(&fake, &drifts), 0);
    shape_put(&fake.shape, SHAPE_COLUMN, "a", "x", "int null", NULL);
    assert_int_equal(verified(&fake, &drifts), 1);
    assert_string_equal(drifts.last, "a.x");
    fake_done(&fake);
}

static void verify_expects_the_finished_statements_of_a_stopped_migration(void **state)
{
    struct fake fake;
    struct drifts drifts;
    int at = 1;

    (void)state;
    for (;; at++) {
        fake_init(&fake);
        fake_restart(&fake, TROUBLE_DIES_AFTER, at);
        up(&fake, NULL);
        if (fake_row(&fake, 3) && fake_row(&fake, 3)->state == HISTORY_RUNNING &&
            fake_row(&fake, 3)->statement == 3)
            break;
        fake_done(&fake);
    }
    fake_restart(&fake, TROUBLE_NONE, 0);
    assert_int_equal(verified(&fake, &drifts), 0);
    shape_remove(&fake.shape, SHAPE_TABLE, "c", NULL);
    assert_int_equal(verified(&fake, &drifts), 1);
    fake_done(&fake);
}

static enum rc baseline(struct fake *fake, int to, struct drifts *drifts, struct err *err)
{
    struct migrate migrate = fake_migrate(fake, FAKE_BOTH);
    size_t count = 99;
    enum rc rc;

    memset(drifts, 0, sizeof(*drifts));
    fake_restart(fake, TROUBLE_NONE, 0);
    rc = migrate_baseline(&migrate, to, on_drift, drifts, &count, err);
    if (rc == RC_OK)
        assert_int_equal(count, drifts->count);
    assert_false(fake->locked);
    return rc;
}

static void baseline_records_existing_migrations(void **state)
{
    struct fake fake;
    struct drifts drifts;

    (void)state;
    fake_init(&fake);
    fake_make(&fake, "CREATE TABLE a (x BIGINT NOT NULL, KEY old (x), KEY ix (x)) ENGINE = InnoDB");
    fake_make(&fake, "CREATE TABLE b (z INT NULL) ENGINE = InnoDB");
    assert_int_equal(baseline(&fake, 2, &drifts, NULL), RC_OK);
    assert_int_equal(drifts.count, 0);
    assert_int_equal(fake.row_count, 2);
    assert_true(fake_row(&fake, 1)->baseline);
    assert_int_equal(fake_row(&fake, 1)->state, HISTORY_APPLIED);
    /* The rest is run, and recorded migrations are not run again. */
    up_works(&fake);
    assert_int_equal(fake.row_count, 3);
    assert_false(fake_row(&fake, 3)->baseline);
    assert_int_equal(fake.changes, 0);
    fake_done(&fake);
}

static void baseline_records_nothing_where_something_differs(void **state)
{
    struct fake fake;
    struct drifts drifts;

    (void)state;
    fake_init(&fake);
    fake_make(&fake, "CREATE TABLE a (x BIGINT NOT NULL, KEY ix (x)) ENGINE = InnoDB");
    assert_int_equal(baseline(&fake, MIGRATION_NEWEST, &drifts, NULL), RC_OK);
    assert_int_equal(drifts.count, 1);
    assert_string_equal(drifts.last, "b.");
    assert_int_equal(fake.row_count, 0);
    assert_null(shape_find(&fake.shape, SHAPE_TABLE, "schema_history", NULL));
    fake_done(&fake);
}

static void baseline_needs_a_database_and_its_turn(void **state)
{
    struct fake fake;
    struct drifts drifts;
    struct err err = {0};

    (void)state;
    fake_init(&fake);
    assert_int_equal(baseline(&fake, MIGRATION_NEWEST, &drifts, &err), RC_FATAL);
    assert_says(&err, "database d at h:1 does not exist");
    fake.has_database = true;
    fake.locked_by_other = true;
    assert_int_equal(baseline(&fake, MIGRATION_NEWEST, &drifts, &err), RC_RETRY);
    fake_done(&fake);
}

static void baseline_may_be_killed_anywhere(void **state)
{
    (void)state;
    for (int at = 1; at < 20; at++) {
        struct fake fake;
        struct migrate migrate;
        struct drifts drifts = {0};
        size_t count = 0;

        fake_init(&fake);
        fake_make(&fake, "CREATE TABLE a (x BIGINT NOT NULL, KEY ix (x)) ENGINE = InnoDB");
        fake_make(&fake, "CREATE TABLE b (z INT NULL) ENGINE = InnoDB");
        fake_restart(&fake, at % 2 ? TROUBLE_DIES_BEFORE : TROUBLE_DIES_AFTER, at);
        migrate = fake_migrate(&fake, FAKE_BOTH);
        migrate_baseline(&migrate, MIGRATION_NEWEST, on_drift, &drifts, &count, NULL);
        assert_int_equal(baseline(&fake, MIGRATION_NEWEST, &drifts, NULL), RC_OK);
        assert_int_equal(drifts.count, 0);
        assert_int_equal(fake.row_count, 3);
        judged(&fake, RC_OK, NULL);
        fake_done(&fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_database_that_does_not_exist_is_reported_with_the_setting_that_names_it),
        cmocka_unit_test(an_older_schema_is_judged_not_ready),
        cmocka_unit_test(the_right_schema_is_judged_ready),
        cmocka_unit_test(a_newer_schema_is_left_alone),
        cmocka_unit_test(an_edited_migration_is_named),
        cmocka_unit_test(verify_finds_differences),
        cmocka_unit_test(verify_expects_the_finished_statements_of_a_stopped_migration),
        cmocka_unit_test(baseline_records_existing_migrations),
        cmocka_unit_test(baseline_records_nothing_where_something_differs),
        cmocka_unit_test(baseline_needs_a_database_and_its_turn),
        cmocka_unit_test(baseline_may_be_killed_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
