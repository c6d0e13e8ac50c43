/* SPDX-License-Identifier: MIT */
#include "common/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void failing_keeps_code_and_sentence(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(err_fail(&err, RC_REJECT, 1062, "row %d", 7), RC_REJECT);
    assert_int_equal(err.code, 1062);
    assert_string_equal(err.text, "row 7");
}

static void setting_forgets_the_code(void **state)
{
    struct err err = {.code = 5};

    (void)state;
    err_set(&err, "%s", "lost");
    assert_int_equal(err.code, 0);
    assert_string_equal(err.text, "lost");
}

static void wrapping_puts_words_in_front_and_keeps_the_code(void **state)
{
    struct err err = {0};

    (void)state;
    err_fail(&err, RC_RETRY, 2006, "gone");
    err_wrap(&err, "lane %s", "outbox");
    assert_int_equal(err.code, 2006);
    assert_string_equal(err.text, "lane outbox: gone");
}

static void an_err_may_be_part_of_its_own_new_sentence(void **state)
{
    struct err err = {0};

    (void)state;
    err_set(&err, "gone");
    err_fail(&err, RC_RETRY, 1, "cannot read: %s", err.text);
    assert_string_equal(err.text, "cannot read: gone");
    err_set(&err, "twice %s", err.text);
    assert_string_equal(err.text, "twice cannot read: gone");
    err_wrap(&err, "of %s", err.text);
    assert_string_equal(err.text, "of twice cannot read: gone: twice cannot read: gone");
}

static void an_error_is_one_line_of_text_for_any_quoted_bytes(void **state)
{
    struct err err = {0};

    (void)state;
    err_fail(&err, RC_REJECT, 1, "near <%s>", "a\x1b[31m\r\n\xff");
    assert_string_equal(err.text, "near <a?[31m  ?>");
    err_wrap(&err, "%s", "\x01 \xc3\xa9");
    assert_string_equal(err.text, "? \xc3\xa9: near <a?[31m  ?>");
}

static void no_character_is_cut_in_half(void **state)
{
    char text[sizeof(((struct err *)NULL)->text)];
    struct err err = {0};

    (void)state;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    err_set(&err, "%.*s%s", (int)sizeof(text) - 3, text, "\xe2\x82\xac");
    assert_int_equal(strlen(err.text), sizeof(text) - 1);
    assert_string_equal(err.text + sizeof(text) - 4, "a??");
    err_set(&err, "%s", "\xe2\x82\xac");
    err_wrap(&err, "%.*s", (int)sizeof(text) - 4, text);
    assert_string_equal(err.text + sizeof(text) - 4, ": ?");
}

static void long_sentences_are_cut(void **state)
{
    char long_text[2 * sizeof(((struct err *)NULL)->text)];
    struct err err = {0};

    (void)state;
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    err_set(&err, "%s", long_text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    err_wrap(&err, "front");
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_int_equal(strncmp(err.text, "front: xxx", 10), 0);
    err_wrap(&err, "%s", long_text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void an_error_struct_is_optional(void **state)
{
    (void)state;
    err_set(NULL, "x");
    err_wrap(NULL, "x");
    assert_int_equal(err_fail(NULL, RC_FATAL, 1, "x"), RC_FATAL);
}

static void every_rc_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(rc_name(RC_OK), "ok");
    assert_string_equal(rc_name(RC_RETRY), "retry");
    assert_string_equal(rc_name(RC_REJECT), "reject");
    assert_string_equal(rc_name(RC_FATAL), "fatal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_keeps_code_and_sentence),
        cmocka_unit_test(setting_forgets_the_code),
        cmocka_unit_test(wrapping_puts_words_in_front_and_keeps_the_code),
        cmocka_unit_test(an_err_may_be_part_of_its_own_new_sentence),
        cmocka_unit_test(an_error_is_one_line_of_text_for_any_quoted_bytes),
        cmocka_unit_test(no_character_is_cut_in_half),
        cmocka_unit_test(long_sentences_are_cut),
        cmocka_unit_test(an_error_struct_is_optional),
        cmocka_unit_test(every_rc_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
