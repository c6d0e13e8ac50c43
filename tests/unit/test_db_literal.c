/* SPDX-License-Identifier: MIT */
#include "common/db/db.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A db that was never connected, as adapters have at their first statement. */
static int setup(void **state)
{
    static struct mysql_settings settings;
    struct err err;
    struct db *db;

    snprintf(settings.host, sizeof(settings.host), "nowhere.invalid");
    settings.port = 3306;
    assert_int_equal(db_open(&db, &settings, &err), RC_OK);
    *state = db;
    return 0;
}

static int teardown(void **state)
{
    db_close(*state);
    return 0;
}

static void text_is_quoted(void **state)
{
    static const char text[] = "it's \\ \"x\"\n\r\x1a\0z";
    struct buf sql = {0};

    db_put_text(*state, &sql, text, sizeof(text) - 1);
    assert_string_equal(buf_text(&sql), "'it\\'s \\\\ \\\"x\\\"\\n\\r\\Z\\0z'");
    buf_done(&sql);
}

static void characters_beyond_ascii_stand_for_themselves(void **state)
{
    struct buf sql = {0};

    db_put_text(*state, &sql, "\xF0\x9F\x98\x80 \xE4\xB8\xAD", 8);
    assert_string_equal(buf_text(&sql), "'\xF0\x9F\x98\x80 \xE4\xB8\xAD'");
    buf_done(&sql);
}

static void empty_and_null_are_not_the_same(void **state)
{
    struct buf sql = {0};

    db_put_text(*state, &sql, "", 0);
    buf_char(&sql, ' ');
    db_put_text(*state, &sql, NULL, 0);
    buf_char(&sql, ' ');
    db_put_bytes(*state, &sql, "", 0);
    buf_char(&sql, ' ');
    db_put_bytes(*state, &sql, NULL, 0);
    assert_string_equal(buf_text(&sql), "'' NULL _binary'' NULL");
    buf_done(&sql);
}

static void bytes_say_that_they_are_bytes(void **state)
{
    struct buf sql = {0};

    db_put_bytes(*state, &sql, "\xFF'\0", 3);
    assert_memory_equal(buf_text(&sql), "_binary'\xFF\\'\\0'", 15);
    buf_done(&sql);
}

static void hex_is_right_in_any_session(void **state)
{
    struct buf sql = {0};

    (void)state;
    db_literal_hex(&sql, "_utf8mb4 ", "a'\\", 3);
    db_literal_hex(&sql, "", "", 0);
    assert_string_equal(buf_text(&sql), "_utf8mb4 X'61275c'X''");
    buf_done(&sql);
}

/* The ceiling is the server's packet: a text that fits must not fail because it might have been
 * longer. */
static void a_literal_that_fits_its_buf_is_taken(void **state)
{
    struct buf sql;
    char text[100];

    memset(text, 'x', sizeof(text));
    text[50] = '\'';
    buf_init(&sql, 103);
    db_put_text(*state, &sql, text, sizeof(text));
    assert_false(sql.failed);
    assert_int_equal(sql.len, 103);
    buf_reset(&sql);
    text[51] = '\'';
    db_put_text(*state, &sql, text, sizeof(text));
    assert_true(sql.failed);
    buf_done(&sql);
}

static void names_are_checked(void **state)
{
    static const char *const bad[] = {
        "",
        "a b",
        "a`b",
        "a.b",
        "a-b",
        "\xC3\xA9",
        "a2345678901234567890123456789012345678901234567890123456789012345"};
    struct buf sql = {0};

    (void)state;
    db_put_name(&sql, "outbox_1");
    assert_string_equal(buf_text(&sql), "`outbox_1`");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        buf_reset(&sql);
        db_put_name(&sql, bad[i]);
        assert_true(sql.failed);
    }
    buf_done(&sql);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_quoted),
        cmocka_unit_test(characters_beyond_ascii_stand_for_themselves),
        cmocka_unit_test(empty_and_null_are_not_the_same),
        cmocka_unit_test(bytes_say_that_they_are_bytes),
        cmocka_unit_test(hex_is_right_in_any_session),
        cmocka_unit_test(a_literal_that_fits_its_buf_is_taken),
        cmocka_unit_test(names_are_checked),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
