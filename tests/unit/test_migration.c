/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(text) (const unsigned char *)(text), sizeof(text) - 1
#define TABLE(name) "CREATE TABLE " name " (x INT NULL, KEY ix (x)) ENGINE = InnoDB;"
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void ours_can_be_followed_and_resumed(void **state)
{
    struct err err = {0};

    (void)state;
    if (migration_check(&migration_set_ours, &err) != RC_OK)
        fail_msg("%s", err.text);
    assert_true(migration_set_ours.count >= 2);
}

static void ours_are_named_and_numbered_after_their_files(void **state)
{
    int last = 0;

    (void)state;
    for (size_t i = 0; i < migration_set_ours.count; i++) {
        const struct migration *migration = &migration_set_ours.list[i];
        char start[16];
        size_t statements = 0;

        assert_true(migration->version > last);
        last = migration->version;
        snprintf(start, sizeof(start), "%04d_", migration->version);
        assert_int_equal(strncmp(migration->name, start, strlen(start)), 0);
        assert_int_equal(strlen(migration->sha256), 64);
        assert_int_equal(migration_count_statements(migration, &statements, NULL), RC_OK);
        assert_true(statements > 0);
    }
}

static void ours_are_the_bytes_of_their_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < migration_set_ours.count; i++) {
        const struct migration *migration = &migration_set_ours.list[i];
        char path[128];
        static char bytes[1 << 16];
        FILE *file;

        snprintf(path, sizeof(path), "schema/migrate/%s.sql", migration->name);
        file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fread(bytes, 1, sizeof(bytes), file), migration->len);
        fclose(file);
        assert_memory_equal(bytes, migration->sql, migration->len);
    }
}

/* Both promises are in the design: the columns' names, and the cut by the event's date. */
static void the_log_of_votes_has_the_columns_it_was_promised(void **state)
{
    static const char *const columns[] = {"id",         "gmt_create",  "voter_id",
                                          "content_id", "voting",      "votes",
                                          "event_id",   "content_seq", "create_date"};
    struct shape shape = {0};

    (void)state;
    for (size_t i = 0; i < migration_set_ours.count; i++)
        assert_int_equal(
            migration_add_to_shape(&migration_set_ours.list[i], SIZE_MAX, &shape, NULL), RC_OK);
    for (size_t i = 0; i < COUNT(columns); i++)
        assert_non_null(shape_find(&shape, SHAPE_COLUMN, "vote_document", columns[i]));
    assert_string_equal(shape_find(&shape, SHAPE_TABLE, "vote_document", NULL)->text,
                        "engine innodb, partitioned by range columns(create_date)");
    shape_done(&shape);
}

static void the_history_is_one_readable_statement(void **state)
{
    struct sql_statement statement;

    (void)state;
    assert_int_equal(migration_history_statement(&migration_set_ours, &statement, NULL), RC_OK);
    assert_int_equal(strncmp(statement.sql, "CREATE TABLE schema_history (", 29), 0);
    assert_int_not_equal(statement.sql[statement.len - 1], ';');
}

static void statements_are_numbered_from_one(void **state)
{
    static const struct migration migration = {1, "0001_x", MIGRATION_OUTBOX, "aa",
                                               BYTES("-- words; \none; two;\n\nthree")};
    struct sql_statement statement;
    size_t count = 0;

    (void)state;
    assert_int_equal(migration_count_statements(&migration, &count, NULL), RC_OK);
    assert_int_equal(count, 3);
    assert_int_equal(migration_statement(&migration, 1, &statement, NULL), RC_OK);
    assert_memory_equal(statement.sql, "one", statement.len);
    assert_int_equal(migration_statement(&migration, 3, &statement, NULL), RC_OK);
    assert_memory_equal(statement.sql, "three", statement.len);
    assert_int_equal(migration_statement(&migration, 4, &statement, NULL), RC_OK);
    assert_int_equal(statement.len, 0);
    assert_int_equal(migration_statement(&migration, 9, &statement, NULL), RC_OK);
    assert_int_equal(statement.len, 0);
}

static void a_part_of_a_migration_can_be_applied(void **state)
{
    static const struct migration migration = {1, "0001_x", MIGRATION_OUTBOX, "aa",
                                               BYTES(TABLE("a") TABLE("b"))};
    struct shape shape = {0};

    (void)state;
    assert_int_equal(migration_add_to_shape(&migration, 0, &shape, NULL), RC_OK);
    assert_int_equal(shape.count, 0);
    assert_int_equal(migration_add_to_shape(&migration, 1, &shape, NULL), RC_OK);
    assert_non_null(shape_find(&shape, SHAPE_TABLE, "a", NULL));
    assert_null(shape_find(&shape, SHAPE_TABLE, "b", NULL));
    shape_done(&shape);
}

static void refused(const struct migration *list, size_t count, const char *sentence)
{
    const struct migration_set set = {.list = list, .count = count};
    struct err err = {0};

    assert_int_equal(migration_check(&set, &err), RC_FATAL);
    if (!strstr(err.text, sentence))
        fail_msg("said     %s\nexpected %s", err.text, sentence);
}

static void versions_out_of_order_are_refused(void **state)
{
    static const struct migration list[] = {
        {2, "0002_x", MIGRATION_OUTBOX, "aa", BYTES(TABLE("a"))},
        {2, "0002_y", MIGRATION_SINK, "bb", BYTES(TABLE("b"))},
    };

    (void)state;
    refused(list, COUNT(list), "migration 0002_y stands behind version 2");
}

static void a_bad_statement_is_found_with_its_place(void **state)
{
    static const struct migration unreadable[] = {
        {1, "0001_x", MIGRATION_OUTBOX, "aa", BYTES(TABLE("a") "GRANT ALL ON *.* TO x")}};
    static const struct migration unended[] = {
        {1, "0001_x", MIGRATION_OUTBOX, "aa", BYTES(TABLE("a") "INSERT INTO a VALUES ('")}};
    static const struct migration empty[] = {
        {1, "0001_x", MIGRATION_OUTBOX, "aa", BYTES("-- side: outbox\n")}};

    (void)state;
    refused(unreadable, 1, "migration 0001_x, statement 2: expected CREATE, DROP");
    refused(unended, 1, "migration 0001_x: a quote does not end");
    refused(empty, 1, "migration 0001_x has no statement");
}

static void sides_do_not_see_each_other(void **state)
{
    static const struct migration list[] = {
        {1, "0001_x", MIGRATION_OUTBOX, "aa", BYTES(TABLE("a"))},
        {2, "0002_y", MIGRATION_SINK, "bb", BYTES("ALTER TABLE a ADD COLUMN y INT NULL")},
    };

    (void)state;
    refused(list, COUNT(list), "migration 0002_y, statement 1: there is no table a");
}

static void a_statement_without_a_trace_is_refused(void **state)
{
    static const struct migration list[] = {
        {1, "0001_x", MIGRATION_OUTBOX, "aa",
         BYTES(TABLE("a") "ALTER TABLE a DROP KEY ix, ADD UNIQUE KEY ix (x)")}};

    (void)state;
    refused(list, 1,
            "statement 2: a restart could not see whether it was done, because it drops and "
            "creates a.ix");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_can_be_followed_and_resumed),
        cmocka_unit_test(ours_are_named_and_numbered_after_their_files),
        cmocka_unit_test(ours_are_the_bytes_of_their_files),
        cmocka_unit_test(the_log_of_votes_has_the_columns_it_was_promised),
        cmocka_unit_test(the_history_is_one_readable_statement),
        cmocka_unit_test(statements_are_numbered_from_one),
        cmocka_unit_test(a_part_of_a_migration_can_be_applied),
        cmocka_unit_test(versions_out_of_order_are_refused),
        cmocka_unit_test(a_bad_statement_is_found_with_its_place),
        cmocka_unit_test(sides_do_not_see_each_other),
        cmocka_unit_test(a_statement_without_a_trace_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
