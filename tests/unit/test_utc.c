/* SPDX-License-Identifier: MIT */
#include "common/utc.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static int64_t parse(const char *text)
{
    return utc_parse_ms(text, text ? strlen(text) : 0);
}

static void times_of_the_database_become_milliseconds(void **state)
{
    (void)state;
    assert_int_equal(parse("1970-01-01 00:00:00"), 0);
    assert_int_equal(parse("1970-01-01 00:00:00.001"), 1);
    assert_int_equal(parse("2026-03-04 05:06:07.089"), 1772600767089);
    assert_int_equal(parse("2026-03-04 05:06:07.089999"), 1772600767089);
    assert_int_equal(parse("2024-02-29 23:59:59"), 1709251199000);
    assert_int_equal(parse("2000-03-01 00:00:00.5"), 951868800500);
    assert_int_equal(parse("1969-12-31 23:59:59.999"), -1);
    assert_int_equal(parse("9999-12-31 23:59:59.999"), 253402300799999);
    assert_int_equal(parse("0000-02-29 00:00:00"), -62162121600000);
}

static void a_text_that_is_no_time_is_unknown(void **state)
{
    static const char *const texts[] = {
        "",
        "0000-00-00 00:00:00",
        "2026-13-01 00:00:00",
        "2026-01-32 00:00:00",
        "2026-01-01 24:00:00",
        "9999-12-31 23:59:60", /* would be written as the year 0000 */
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00,5",
        "2026-01-01 00:00:00.1234567",
        "2026-01-01 00:00:00.x",
        "2026-01-01 00:00:0",
        "1772600767089123456",
        "20x6-01-01 00:00:00",
    };

    (void)state;
    assert_true(parse(NULL) == UTC_UNKNOWN_MS);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_true(parse(texts[i]) == UTC_UNKNOWN_MS);
}

static void assert_text(int64_t ms, const char *expected)
{
    char text[UTC_TEXT_SIZE];

    assert_int_equal(utc_format(ms, text), strlen(expected));
    assert_string_equal(text, expected);
}

static void milliseconds_become_rfc_3339(void **state)
{
    (void)state;
    assert_text(0, "1970-01-01T00:00:00.000Z");
    assert_text(1772600767089, "2026-03-04T05:06:07.089Z");
    assert_text(-1, "1969-12-31T23:59:59.999Z");
    assert_text(253402300799999, "9999-12-31T23:59:59.999Z");
}

/* Every day of four hundred years, there and back. */
static void every_day_comes_back_as_it_was(void **state)
{
    char text[UTC_TEXT_SIZE];

    (void)state;
    for (int64_t day = -80000; day < 70000; day++) {
        int64_t ms = day * 86400000 + 45296789;

        utc_format(ms, text);
        text[10] = ' ';
        text[23] = '\0';
        assert_int_equal(parse(text), ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_the_database_become_milliseconds),
        cmocka_unit_test(a_text_that_is_no_time_is_unknown),
        cmocka_unit_test(milliseconds_become_rfc_3339),
        cmocka_unit_test(every_day_comes_back_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
