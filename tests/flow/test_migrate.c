/* SPDX-License-Identifier: MIT */
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

static enum rc up(struct fake *fake, struct err *err)
{
    const struct migrate migrate = fake_migrate(fake, FAKE_BOTH);

    return migrate_up(&migrate, MIGRATION_NEWEST, err);
}

static void up_works(struct fake *fake)
{
    struct err err = {0};

    if (up(fake, &err) != RC_OK)
        fail_msg("%s", err.text);
    assert_false(fake->locked);
}

/* Everything was done, and once. */
static void assert_complete(struct fake *fake)
{
    struct shape expected = {0};

    for (size_t i = 0; i < fake_set.count; i++) {
        const struct history_row *row = fake_row(fake, fake_set.list[i].version);

        assert_non_null(row);
        assert_int_equal(row->state, HISTORY_APPLIED);
        assert_int_equal(row->statement, row->statements);
        assert_string_equal(row->sha256, fake_set.list[i].sha256);
        assert_int_equal(migration_add_to_shape(&fake_set.list[i], SIZE_MAX, &expected, NULL),
                         RC_OK);
    }
    assert_int_equal(shape_compare(&expected, &fake->shape, NULL, NULL), 0);
    assert_null(shape_find(&fake->shape, SHAPE_TABLE, "c", NULL));
    assert_int_equal(fake->changes, FAKE_CHANGES);
    assert_int_equal(fake->row_count, fake_set.count);
    shape_done(&expected);
}

static void up_makes_everything(void **state)
{
    struct fake fake;

    (void)state;
    fake_init(&fake);
    up_works(&fake);
    assert_complete(&fake);
    assert_string_equal(fake_row(&fake, 2)->side, "sink");
    assert_int_equal(fake_row(&fake, 1)->statements, 5);
    fake_done(&fake);
}

static void up_again_takes_no_lock_and_runs_nothing(void **state)
{
    struct fake fake;

    (void)state;
    fake_init(&fake);
    up_works(&fake);
    fake_restart(&fake, TROUBLE_NONE, 0);
    fake.locked_by_other = true;
    up_works(&fake);
    assert_int_equal(fake.runs, 0);
    assert_complete(&fake);
    fake_done(&fake);
}

/* A fault at call `at`, then a run without one; true when `at` was beyond the last call. */
static bool survives(enum fake_trouble trouble, int at)
{
    struct fake fake;
    struct err err = {0};
    enum rc rc;

    fake_init(&fake);
    fake_restart(&fake, trouble, at);
    rc = up(&fake, &err);
    if (fake.calls < at) {
        assert_int_equal(rc, RC_OK);
        assert_complete(&fake);
        fake_done(&fake);
        return true;
    }
    assert_int_not_equal(rc, RC_OK);
    assert_true(err.text[0] != '\0');
    assert_false(fake.locked);
    fake_restart(&fake, TROUBLE_NONE, 0);
    up_works(&fake);
    assert_complete(&fake);
    fake_done(&fake);
    return false;
}

static void survives_each(enum fake_trouble trouble)
{
    int at = 1;

    while (!survives(trouble, at))
        at++;
    /* Far fewer calls would mean that the fake was not called. */
    assert_in_range(at, 30, 100);
}

static void a_kill_before_any_call_is_resumed(void **state)
{
    (void)state;
    survives_each(TROUBLE_DIES_BEFORE);
}

static void a_kill_after_any_call_is_resumed(void **state)
{
    (void)state;
    survives_each(TROUBLE_DIES_AFTER);
}

static void any_call_may_have_to_be_tried_again(void **state)
{
    (void)state;
    survives_each(TROUBLE_RETRY);
}

static void any_call_may_be_refused_and_allowed_later(void **state)
{
    (void)state;
    survives_each(TROUBLE_FATAL);
}

static void a_run_that_resumes_may_be_killed_too(void **state)
{
    (void)state;
    for (int first = 1; first < 60; first++) {
        for (int second = 1; second < 60; second++) {
            enum fake_trouble trouble = second % 2 ? TROUBLE_DIES_BEFORE : TROUBLE_DIES_AFTER;
            struct fake fake;

            fake_init(&fake);
            fake_restart(&fake, first % 2 ? TROUBLE_DIES_AFTER : TROUBLE_DIES_BEFORE, first);
            up(&fake, NULL);
            fake_restart(&fake, trouble, second);
            up(&fake, NULL);
            fake_restart(&fake, TROUBLE_NONE, 0);
            up_works(&fake);
            assert_complete(&fake);
            fake_done(&fake);
        }
    }
}

static void another_migration_at_work_is_waited_for(void **state)
{
    struct fake fake;
    struct err err = {0};

    (void)state;
    fake_init(&fake);
    fake.locked_by_other = true;
    assert_int_equal(up(&fake, &err), RC_RETRY);
    assert_says(&err, "somebody else migrates");
    assert_int_equal(fake.runs, 0);
    fake_done(&fake);
}

#define CUT                                                                                        \
    "CREATE TABLE p (d DATE NULL COMMENT 'no PARTITION x') ENGINE = InnoDB PARTITION BY RANGE "    \
    "COLUMNS (d) (PARTITION p_old VALUES LESS THAN ('2026-01-01'), PARTITION `p_new` VALUES LESS " \
    "THAN (MAXVALUE))"

static void pieces_that_a_crashed_server_left_are_swept(void **state)
{
    static const struct migration cut_list[] = {
        {1, "0001_cut", MIGRATION_OUTBOX, "aaaa", FAKE_BYTES(CUT)}};
    static const struct migration_set cut = {
        cut_list, 1, FAKE_BYTES("CREATE TABLE schema_history (version INT NOT NULL)" FAKE_OPTIONS)};
    struct fake fake;
    struct migrate migrate;
    int at = 1;

    (void)state;
    for (;; at++) {
        fake_init(&fake);
        fake_restart(&fake, TROUBLE_DIES_AFTER, at);
        migrate = fake_migrate(&fake, MIGRATION_OUTBOX);
        migrate.set = &cut;
        migrate_up(&migrate, MIGRATION_NEWEST, NULL);
        assert_int_equal(fake.row_deletes, 0);
        if (fake_row(&fake, 1) && fake_row(&fake, 1)->state == HISTORY_TRYING)
            break;
        fake_done(&fake);
    }
    fake.left_over = "p_new";
    fake.left_over_by = "CREATE TABLE p ";
    fake_restart(&fake, TROUBLE_NONE, 0);
    assert_int_equal(migrate_up(&migrate, MIGRATION_NEWEST, NULL), RC_OK);
    assert_int_equal(fake.row_deletes, 2);
    assert_int_equal(fake_row(&fake, 1)->state, HISTORY_APPLIED);
    fake_done(&fake);
}

static void a_conflicting_object_is_named_and_left_alone(void **state)
{
    struct fake fake;
    struct err err = {0};

    (void)state;
    fake_init(&fake);
    fake_make(&fake, "CREATE TABLE b (other INT NULL) ENGINE = InnoDB");
    assert_int_equal(up(&fake, &err), RC_FATAL);
    assert_says(&err, "database d at h:1 already has tables that tallybox makes: b; nothing was "
                      "changed: rename them, leave the votes out (`tallybox migrate up --only "
                      "outbox`), or give tallybox another database");
    /* Not even what comes before it was made. */
    assert_int_equal(fake.runs, 0);
    assert_null(shape_find(&fake.shape, SHAPE_TABLE, "schema_history", NULL));
    assert_non_null(shape_find(&fake.shape, SHAPE_COLUMN, "b", "other"));
    fake_done(&fake);
}

static void a_conflicting_column_is_named_and_left_alone(void **state)
{
    struct fake fake;
    struct err err = {0};
    struct migrate migrate;

    (void)state;
    fake_init(&fake);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    assert_int_equal(migrate_up(&migrate, 2, &err), RC_OK);
    fake_make(&fake, "ALTER TABLE a ADD COLUMN y DATE NULL");
    assert_int_equal(up(&fake, &err), RC_FATAL);
    assert_says(&err, "migration 0003_third, statement 1 of 5: a.y exists already in database d at "
                      "h:1, and no migration did that");
    fake_done(&fake);
}

static void an_object_that_is_missing_already_is_named(void **state)
{
    struct fake fake;
    struct err err = {0};
    struct migrate migrate;

    (void)state;
    fake_init(&fake);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    assert_int_equal(migrate_up(&migrate, 2, &err), RC_OK);
    shape_remove(&fake.shape, SHAPE_INDEX, "a", "old");
    assert_int_equal(up(&fake, &err), RC_FATAL);
    assert_says(&err, "0003_third, statement 2 of 5: a.old is gone already");
    fake_done(&fake);
}

/* Refuses the first CREATE TABLE: 3 calls before the lock, 3 to make the history, then announce. */
static void a_refused_statement_is_not_in_doubt(void **state)
{
    struct fake fake;
    struct err err = {0};
    int at = 1;

    (void)state;
    for (;; at++) {
        fake_init(&fake);
        fake_restart(&fake, TROUBLE_FATAL, at);
        up(&fake, &err);
        if (fake_row(&fake, 1) && fake.runs == 1)
            break;
        fake_done(&fake);
    }
    assert_says(&err, "migration 0001_first, statement 1 of 5: no right");
    assert_int_equal(fake_row(&fake, 1)->state, HISTORY_RUNNING);
    assert_int_equal(fake_row(&fake, 1)->statement, 0);
    /* So an object that another user makes meanwhile is not taken for ours. */
    fake_make(&fake, "CREATE TABLE a (other INT NULL) ENGINE = InnoDB");
    fake_restart(&fake, TROUBLE_NONE, 0);
    assert_int_equal(up(&fake, &err), RC_FATAL);
    assert_says(&err,
                "already has tables that tallybox makes: a; nothing was changed: rename them, "
                "or give");
    fake_done(&fake);
}

static void up_goes_no_further_than_asked(void **state)
{
    struct fake fake;
    struct migrate migrate;

    (void)state;
    fake_init(&fake);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    assert_int_equal(migrate_up(&migrate, 1, NULL), RC_OK);
    assert_int_equal(fake.row_count, 1);
    assert_int_equal(migrate_up(&migrate, 1, NULL), RC_OK);
    assert_int_equal(fake.row_count, 1);
    up_works(&fake);
    assert_complete(&fake);
    fake_done(&fake);
}

static void each_side_gets_its_own_migrations(void **state)
{
    struct fake fake;
    struct migrate outbox;
    struct migrate sink;
    struct migrate_state reached = {0};

    (void)state;
    fake_init(&fake);
    outbox = fake_migrate(&fake, MIGRATION_OUTBOX);
    sink = fake_migrate(&fake, MIGRATION_SINK);
    assert_int_equal(migrate_up(&sink, MIGRATION_NEWEST, NULL), RC_OK);
    assert_int_equal(fake.row_count, 1);
    assert_int_equal(migrate_state_read(&sink, &reached, NULL), RC_OK);
    assert_int_equal(reached.version, 2);
    assert_int_equal(reached.needs, 2);
    assert_int_equal(reached.newer, 0);
    migrate_state_done(&reached);
    /* The same database in other words: the two leave each other alone. */
    assert_int_equal(migrate_up(&outbox, MIGRATION_NEWEST, NULL), RC_OK);
    assert_int_equal(migrate_state_read(&sink, &reached, NULL), RC_OK);
    assert_int_equal(reached.newer, 0);
    migrate_state_done(&reached);
    assert_complete(&fake);
    fake_done(&fake);
}

static void a_bad_migration_stops_everything_before_it_begins(void **state)
{
    static const struct migration bad_list[] = {
        {1, "0001_first", MIGRATION_OUTBOX, "aaaa",
         FAKE_BYTES("CREATE TABLE a (x INT NULL) ENGINE = InnoDB")},
        {2, "0002_bad", MIGRATION_SINK, "bbbb", FAKE_BYTES("CREATE VIEW v AS SELECT 1")},
    };
    static const struct migration_set bad = {bad_list, 2, FAKE_BYTES("")};
    struct fake fake;
    struct migrate migrate;
    struct err err = {0};

    (void)state;
    fake_init(&fake);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    migrate.set = &bad;
    assert_int_equal(migrate_up(&migrate, MIGRATION_NEWEST, &err), RC_FATAL);
    assert_says(&err, "migration 0002_bad, statement 1: expected TABLE or INDEX");
    assert_int_equal(fake.calls, 0);
    fake_done(&fake);
}

struct events {
    char text[512];
};

static void on_event(void *ctx, enum migrate_event event, const struct migration *migration,
                     size_t done, size_t statements)
{
    struct events *events = ctx;
    size_t len = strlen(events->text);

    snprintf(events->text + len, sizeof(events->text) - len, "%d %s %zu/%zu\n", (int)event,
             migration ? migration->name : "-", done, statements);
}

static void each_step_is_reported(void **state)
{
    struct fake fake;
    struct migrate migrate;
    struct events events = {{0}};
    char expected[256];

    (void)state;
    fake_init(&fake);
    migrate = fake_migrate(&fake, FAKE_BOTH);
    migrate.on_event = on_event;
    migrate.event_ctx = &events;
    migrate_up(&migrate, 1, NULL);
    fake_row(&fake, 1)->state = HISTORY_RUNNING;
    fake_row(&fake, 1)->statement = 4;
    migrate_up(&migrate, 1, NULL);
    snprintf(expected, sizeof(expected),
             "%d - 0/0\n%d 0001_first 0/5\n%d 0001_first 5/5\n"
             "%d 0001_first 4/5\n%d 0001_first 5/5\n",
             MIGRATE_DATABASE_CREATED, MIGRATE_STARTED, MIGRATE_APPLIED, MIGRATE_RESUMED,
             MIGRATE_APPLIED);
    assert_string_equal(events.text, expected);
    fake_done(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_makes_everything),
        cmocka_unit_test(up_again_takes_no_lock_and_runs_nothing),
        cmocka_unit_test(a_kill_before_any_call_is_resumed),
        cmocka_unit_test(a_kill_after_any_call_is_resumed),
        cmocka_unit_test(any_call_may_have_to_be_tried_again),
        cmocka_unit_test(any_call_may_be_refused_and_allowed_later),
        cmocka_unit_test(a_run_that_resumes_may_be_killed_too),
        cmocka_unit_test(another_migration_at_work_is_waited_for),
        cmocka_unit_test(pieces_that_a_crashed_server_left_are_swept),
        cmocka_unit_test(a_conflicting_object_is_named_and_left_alone),
        cmocka_unit_test(a_conflicting_column_is_named_and_left_alone),
        cmocka_unit_test(an_object_that_is_missing_already_is_named),
        cmocka_unit_test(a_refused_statement_is_not_in_doubt),
        cmocka_unit_test(up_goes_no_further_than_asked),
        cmocka_unit_test(each_side_gets_its_own_migrations),
        cmocka_unit_test(a_bad_migration_stops_everything_before_it_begins),
        cmocka_unit_test(each_step_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
