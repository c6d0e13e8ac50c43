/* SPDX-License-Identifier: MIT */
#include "schema/migrate/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#define BYTES(text) (const unsigned char *)(text), sizeof(text) - 1

static const struct migration list[] = {
    {1, "0001_one", MIGRATION_OUTBOX, "aa", BYTES("CREATE TABLE a (x INT);")},
    {2, "0002_two", MIGRATION_SINK, "bb", BYTES("-- words\nUPDATE b SET x = ';'; DROP TABLE b")},
};
static const struct migration_set set = {list, 2,
                                         BYTES("-- why\nCREATE TABLE schema_history (x);")};
static const struct migrate migrate = {.set = &set, .place = "database d at h:1"};

/* The first done, the second half-way. */
static struct migrate_state half_way(struct migrate_entry entries[2])
{
    const struct migrate_state state = {.has_database = true,
                                        .has_history = true,
                                        .entries = entries,
                                        .count = 2,
                                        .version = 1,
                                        .needs = 2};

    memset(entries, 0, 2 * sizeof(*entries));
    entries[0].migration = &list[0];
    entries[0].progress = MIGRATE_DONE;
    entries[0].row.baseline = true;
    snprintf(entries[0].row.finished_at, sizeof(entries[0].row.finished_at), "2026-01-02 03:04:05");
    entries[1].migration = &list[1];
    entries[1].progress = MIGRATE_HALF_WAY;
    entries[1].row.state = HISTORY_TRYING;
    entries[1].row.statement = 1;
    entries[1].row.statements = 2;
    return state;
}

static void assert_text(struct migrate_report *report, const char *expected)
{
    assert_string_equal(buf_text(&report->text), expected);
    migrate_report_done(report);
}

static void the_state_is_one_line_for_each_migration(void **state)
{
    struct migrate_report report;
    struct migrate_entry entries[2];
    struct migrate_state reached = half_way(entries);

    (void)state;
    assert_int_equal(migrate_report_init(&report, false, NULL), RC_OK);
    migrate_report_state(&report, &reached);
    assert_text(&report,
                "  0001_one                 outbox  baseline at 2026-01-02 03:04:05 UTC\n"
                "  0002_two                 sink    half-way, 1 of 2 statements, the next one may "
                "be done\n");
}

static void the_plan_is_sql_that_can_be_run(void **state)
{
    struct migrate_report report;
    struct migrate_entry entries[2];
    struct migrate_state reached = half_way(entries);

    (void)state;
    assert_int_equal(migrate_report_init(&report, false, NULL), RC_OK);
    reached.has_database = false;
    reached.has_history = false;
    entries[0].progress = MIGRATE_PENDING;
    entries[1].progress = MIGRATE_PENDING;
    entries[1].row.statement = 0;
    assert_int_equal(migrate_report_plan(&report, &migrate, &reached, 2, "CREATE DATABASE d", NULL),
                     RC_OK);
    assert_text(&report, "\n-- the database\nCREATE DATABASE d;\n"
                         "\n-- schema_history\nCREATE TABLE schema_history (x);\n"
                         "\n-- 0001_one, statement 1\nCREATE TABLE a (x INT);\n"
                         "\n-- 0002_two, statement 1\nUPDATE b SET x = ';';\n"
                         "\n-- 0002_two, statement 2\nDROP TABLE b;\n");
}

static void the_plan_continues_where_a_run_stopped(void **state)
{
    struct migrate_report report;
    struct migrate_entry entries[2];
    struct migrate_state reached = half_way(entries);

    (void)state;
    assert_int_equal(migrate_report_init(&report, false, NULL), RC_OK);
    assert_int_equal(migrate_report_plan(&report, &migrate, &reached, 1, "", NULL), RC_OK);
    assert_int_equal(report.text.len, 0);
    assert_int_equal(migrate_report_plan(&report, &migrate, &reached, 2, "", NULL), RC_OK);
    assert_text(&report, "\n-- 0002_two, statement 2\nDROP TABLE b;\n");
}

static const struct shape_drift drifts[] = {
    {SHAPE_TABLE, "t", "", "engine innodb", NULL},
    {SHAPE_COLUMN, "t", "x", "int null", "bigint null"},
    {SHAPE_INDEX, "t", "ix", NULL, "key (x)"},
};

static void a_drift_is_one_line(void **state)
{
    struct migrate_report report;

    (void)state;
    assert_int_equal(migrate_report_init(&report, false, NULL), RC_OK);
    for (size_t i = 0; i < 3; i++)
        migrate_report_drift(&report, &drifts[i]);
    assert_text(&report, "  table t is missing: expected engine innodb\n"
                         "  column t.x is bigint null: expected int null\n"
                         "  index t.ix should not be there: it is key (x)\n");
}

static void events_are_lines_as_they_happen(void **state)
{
    struct migrate_report report;

    (void)state;
    assert_int_equal(migrate_report_init(&report, false, NULL), RC_OK);
    migrate_report_event(&report, MIGRATE_DATABASE_CREATED, NULL, 0, 0);
    migrate_report_event(&report, MIGRATE_STARTED, &list[0], 0, 1);
    migrate_report_event(&report, MIGRATE_APPLIED, &list[0], 1, 1);
    migrate_report_event(&report, MIGRATE_RESUMED, &list[1], 1, 2);
    migrate_report_event(&report, MIGRATE_BASELINED, &list[1], 2, 2);
    assert_text(&report, "  database created\n"
                         "  0001_one: applied, 1 statement\n"
                         "  0002_two: goes on behind statement 1 of 2\n"
                         "  0002_two: recorded as applied\n");
}

/* Everything at once, for two databases, read back. */
static void json_is_one_object_for_all_databases(void **state)
{
    struct mysql_settings settings = {.host = "h", .port = 1, .database = "d"};
    const struct migrate_target targets[] = {
        {.settings = &settings, .sides = MIGRATION_OUTBOX | MIGRATION_SINK},
        {.settings = &settings, .sides = MIGRATION_SINK},
    };
    struct migrate_report report;
    struct migrate_entry entries[2];
    struct migrate_state reached = half_way(entries);
    json_t *root;
    json_t *first;

    (void)state;
    assert_int_equal(migrate_report_init(&report, true, NULL), RC_OK);
    migrate_report_target(&report, &targets[0]);
    migrate_report_state(&report, &reached);
    migrate_report_event(&report, MIGRATE_APPLIED, &list[1], 2, 2);
    for (size_t i = 0; i < 3; i++)
        migrate_report_drift(&report, &drifts[i]);
    assert_int_equal(migrate_report_plan(&report, &migrate, &reached, 2, "", NULL), RC_OK);
    migrate_report_outcome(&report, false, 1, "%s", "words");
    migrate_report_target(&report, &targets[1]);
    migrate_report_outcome(&report, true, 2, "fine");
    assert_int_equal(report.text.len, 0);
    migrate_report_end(&report);

    root = json_loadb(report.text.data, report.text.len, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "databases")), 2);
    first = json_array_get(json_object_get(root, "databases"), 0);
    assert_int_equal(json_array_size(json_object_get(first, "sides")), 2);
    assert_int_equal(json_array_size(json_object_get(first, "migrations")), 2);
    assert_int_equal(json_array_size(json_object_get(first, "applied")), 1);
    assert_int_equal(json_array_size(json_object_get(first, "drift")), 3);
    assert_int_equal(json_array_size(json_object_get(first, "statements")), 1);
    assert_false(json_is_true(json_object_get(first, "ok")));
    assert_int_equal(json_integer_value(json_object_get(first, "version")), 1);
    assert_int_equal(json_integer_value(json_object_get(first, "needs")), 2);
    assert_string_equal(json_string_value(json_object_get(first, "message")), "words");
    json_decref(root);
    migrate_report_done(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_is_one_line_for_each_migration),
        cmocka_unit_test(the_plan_is_sql_that_can_be_run),
        cmocka_unit_test(the_plan_continues_where_a_run_stopped),
        cmocka_unit_test(a_drift_is_one_line),
        cmocka_unit_test(events_are_lines_as_they_happen),
        cmocka_unit_test(json_is_one_object_for_all_databases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
