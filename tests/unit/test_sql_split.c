/* SPDX-License-Identifier: MIT */
#include "schema/migrate/sql_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Splits text and compares with a NULL-ended list. */
static void splits(const char *text, const char *const *expected)
{
    const char *at = text;
    const char *end = text + strlen(text);
    struct sql_statement statement;

    for (; *expected; expected++) {
        struct err err = {0};

        if (sql_statement_next(&at, end, &statement, &err) != RC_OK)
            fail_msg("%s: %s", text, err.text);
        assert_int_equal(statement.len, strlen(*expected));
        assert_memory_equal(statement.sql, *expected, statement.len);
    }
    assert_int_equal(sql_statement_next(&at, end, &statement, NULL), RC_OK);
    assert_int_equal(statement.len, 0);
    assert_int_equal(sql_statement_next(&at, end, &statement, NULL), RC_OK);
    assert_int_equal(statement.len, 0);
}

#define SPLITS(text, ...) splits(text, (const char *const[]){__VA_ARGS__, NULL})

static void refuses(const char *text, const char *sentence)
{
    const char *at = text;
    struct sql_statement statement = {0};
    struct err err = {0};
    enum rc rc = RC_OK;

    do {
        rc = sql_statement_next(&at, text + strlen(text), &statement, &err);
    } while (rc == RC_OK && statement.len > 0);
    assert_int_equal(rc, RC_FATAL);
    if (!strstr(err.text, sentence))
        fail_msg("%s\n  said     %s\n  expected %s", text, err.text, sentence);
}

static void semicolons_end_statements(void **state)
{
    (void)state;
    SPLITS("a b; c;", "a b", "c");
    SPLITS("a;b", "a", "b");
    SPLITS("  a  \n ;\n\n b ", "a", "b");
    SPLITS(";;a;;;b;", "a", "b");
}

static void nothing_gives_no_statement(void **state)
{
    const char *const none[] = {NULL};

    (void)state;
    splits("", none);
    splits(" \n\t", none);
    splits(";;", none);
    splits("-- only words\n/* and these */ # here", none);
}

static void quotes_hide_semicolons(void **state)
{
    (void)state;
    SPLITS("a 'x;y'; b", "a 'x;y'", "b");
    SPLITS("a \"x;y\"; b", "a \"x;y\"", "b");
    SPLITS("a `x;y`; b", "a `x;y`", "b");
    SPLITS("a 'it''s;'; b", "a 'it''s;'", "b");
    SPLITS("a 'it\\';s'; b", "a 'it\\';s'", "b");
    SPLITS("a 'ends in \\\\'; b", "a 'ends in \\\\'", "b");
    SPLITS("a `no \\`; b", "a `no \\`", "b");
    SPLITS("a '-- x'; b '/*'; c '#'", "a '-- x'", "b '/*'", "c '#'");
}

static void comments_hide_semicolons(void **state)
{
    (void)state;
    SPLITS("a -- x; y\n; b", "a", "b");
    SPLITS("a # x; y\n c; b", "a # x; y\n c", "b");
    SPLITS("a /* x; y */ c; b", "a /* x; y */ c", "b");
    SPLITS("a /* it's */; b", "a", "b");
    SPLITS("-- first;\n\n/* second; */ a", "a");
    SPLITS("a --", "a");
}

static void two_dashes_without_a_blank_are_no_comment(void **state)
{
    (void)state;
    SPLITS("a 5--3; b", "a 5--3", "b");
    SPLITS("a 6/2; b", "a 6/2", "b");
}

static void a_statement_without_an_end_is_refused(void **state)
{
    (void)state;
    refuses("a 'x; b", "a quote does not end: 'x; b");
    refuses("a 'x\\", "a quote does not end");
    refuses("a `x", "a quote does not end");
    refuses("a; b /* x; c", "a comment does not end: /* x; c");
    refuses("a /*", "a comment does not end");
    refuses("a /*/", "a comment does not end");
}

static void syntax_that_servers_read_differently_is_refused(void **state)
{
    (void)state;
    refuses("/*!40101 SET NAMES utf8 */;", "servers execute is not supported");
    refuses("a /*M! b */;", "servers execute is not supported");
    SPLITS("a /*M b */", "a");
    refuses("DELIMITER //\nCREATE TRIGGER x //", "DELIMITER is a word of the mysql client");
    refuses("a; delimiter $$", "DELIMITER is a word of the mysql client");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(semicolons_end_statements),
        cmocka_unit_test(nothing_gives_no_statement),
        cmocka_unit_test(quotes_hide_semicolons),
        cmocka_unit_test(comments_hide_semicolons),
        cmocka_unit_test(two_dashes_without_a_blank_are_no_comment),
        cmocka_unit_test(a_statement_without_an_end_is_refused),
        cmocka_unit_test(syntax_that_servers_read_differently_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
