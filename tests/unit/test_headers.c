/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/record.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void assert_one(const char *name, const void *value, size_t len, const char *json)
{
    struct buf out = {0};

    record_headers_begin(&out);
    record_headers_add(&out, 0, name, value, len);
    record_headers_end(&out);
    assert_string_equal(buf_text(&out), json);
    buf_done(&out);
}

static void no_headers_are_an_empty_array(void **state)
{
    struct buf out = {0};

    (void)state;
    record_headers_begin(&out);
    record_headers_end(&out);
    assert_string_equal(buf_text(&out), "[]");
    buf_done(&out);
}

static void they_keep_their_order_and_repeats(void **state)
{
    struct buf out = {0};

    (void)state;
    record_headers_begin(&out);
    record_headers_add(&out, 0, "a", "1", 1);
    record_headers_add(&out, 1, "b", NULL, 0);
    record_headers_add(&out, 2, "a", "2", 1);
    record_headers_end(&out);
    assert_string_equal(buf_text(&out), "[[\"a\",\"MQ==\"],[\"b\",null],[\"a\",\"Mg==\"]]");
    buf_done(&out);
}

static void values_are_base64_of_any_length(void **state)
{
    (void)state;
    assert_one("h", "", 0, "[[\"h\",\"\"]]");
    assert_one("h", "f", 1, "[[\"h\",\"Zg==\"]]");
    assert_one("h", "fo", 2, "[[\"h\",\"Zm8=\"]]");
    assert_one("h", "foo", 3, "[[\"h\",\"Zm9v\"]]");
    assert_one("h", "foob", 4, "[[\"h\",\"Zm9vYg==\"]]");
    assert_one("h", "\0\xff\xfe", 3, "[[\"h\",\"AP/+\"]]");
}

static void names_of_any_bytes_are_plain_ascii(void **state)
{
    (void)state;
    assert_one("a\"b\\c", NULL, 0, "[[\"a\\\"b\\\\c\",null]]");
    assert_one("\x01\x7f", NULL, 0, "[[\"\\u0001\\u007f\",null]]");
    assert_one("\xc3\xbc", NULL, 0, "[[\"\\u00c3\\u00bc\",null]]");
    assert_one("", NULL, 0, "[[\"\",null]]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_headers_are_an_empty_array),
        cmocka_unit_test(they_keep_their_order_and_repeats),
        cmocka_unit_test(values_are_base64_of_any_length),
        cmocka_unit_test(names_of_any_bytes_are_plain_ascii),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
