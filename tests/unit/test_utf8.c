/* SPDX-License-Identifier: MIT */
#include "common/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void sequences_of_every_length_are_known(void **state)
{
    (void)state;
    assert_int_equal(utf8_len("a"), 1);
    assert_int_equal(utf8_len("\xc2\x80"), 2);
    assert_int_equal(utf8_len("\xdf\xbf"), 2);
    assert_int_equal(utf8_len("\xe0\xa0\x80"), 3);
    assert_int_equal(utf8_len("\xed\x9f\xbf"), 3);
    assert_int_equal(utf8_len("\xef\xbf\xbf"), 3);
    assert_int_equal(utf8_len("\xf0\x90\x80\x80"), 4);
    assert_int_equal(utf8_len("\xf4\x8f\xbf\xbf"), 4);
}

static void bytes_that_are_no_utf8_have_no_length(void **state)
{
    static const char *const bad[] = {
        "",                 /* the end */
        "\x80",             /* the inside of one */
        "\xc1\xbf",         /* longer than need be */
        "\xe0\x9f\xbf",     /* the same */
        "\xf0\x8f\xbf\xbf", /* the same */
        "\xed\xa0\x80",     /* half of a pair */
        "\xf4\x90\x80\x80", /* past the last character */
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3",         /* cut */
        "\xe2\x82",     /* cut */
        "\xf0\x9f\x98", /* cut */
        "\xe2\x82z",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(utf8_len(bad[i]), 0);
}

static void cleaning_keeps_text_and_its_length(void **state)
{
    char text[] = "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x91\x8d";
    char same[sizeof(text)];

    (void)state;
    memcpy(same, text, sizeof(text));
    utf8_clean(text);
    assert_string_equal(text, same);
}

static void cleaning_takes_out_everything_else(void **state)
{
    char text[] = "a\n\t\x1b[2J\x7f\xff|\xc2\x9b|\xe2\x82|\xc3";

    (void)state;
    utf8_clean(text);
    assert_string_equal(text, "a  ?[2J??|??|??|?");
}

static void only_utf8_without_control_characters_is_text(void **state)
{
    (void)state;
    assert_true(utf8_prints("", 0));
    assert_true(utf8_prints("a\n\tb", 4));
    assert_true(utf8_prints("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9));
    assert_false(utf8_prints("\x1b[2J", 4));
    assert_false(utf8_prints("a\0b", 3));
    assert_false(utf8_prints("\x7f", 1));
    assert_false(utf8_prints("\xc2\x9b", 2));     /* a terminal's other escape */
    assert_false(utf8_prints("\xc0\xaf", 2));     /* longer than need be */
    assert_false(utf8_prints("\xe0\x80\xaf", 3)); /* the same */
    assert_false(utf8_prints("\xed\xa0\x80", 3)); /* half a pair */
    assert_false(utf8_prints("\xf4\x90\x80\x80", 4));
    assert_false(utf8_prints("\xe2\x82", 2)); /* cut */
    assert_false(utf8_prints("\xff", 1));
}

static void a_text_is_a_json_string_of_its_own_bytes(void **state)
{
    struct buf out = {0};

    (void)state;
    json_text_put(&out, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x91\x8d, plain");
    assert_string_equal(buf_text(&out), "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x91\x8d, plain\"");
    buf_reset(&out);
    json_text_put(&out, "a\"b\\c\n\x1b\x7f\xff\xe2\x82z");
    assert_string_equal(buf_text(&out), "\"a\\\"b\\\\c\\u000a\\u001b\\u007f???z\"");
    buf_reset(&out);
    json_text_put(&out, "");
    assert_string_equal(buf_text(&out), "\"\"");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_of_every_length_are_known),
        cmocka_unit_test(bytes_that_are_no_utf8_have_no_length),
        cmocka_unit_test(cleaning_keeps_text_and_its_length),
        cmocka_unit_test(cleaning_takes_out_everything_else),
        cmocka_unit_test(only_utf8_without_control_characters_is_text),
        cmocka_unit_test(a_text_is_a_json_string_of_its_own_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
