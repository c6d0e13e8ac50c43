/* SPDX-License-Identifier: MIT */
#include "common/utc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NOW_MS INT64_C(1790000000000)

static void times_of_every_form_are_read(void **state)
{
    int64_t ms = 0;

    (void)state;
    assert_true(when_read("30s", NOW_MS, &ms));
    assert_int_equal(ms, NOW_MS - 30000);
    assert_true(when_read("2h", NOW_MS, &ms));
    assert_int_equal(ms, NOW_MS - 7200000);
    assert_true(when_read("7d", NOW_MS, &ms));
    assert_int_equal(ms, NOW_MS - INT64_C(604800000));
    assert_true(when_read("1970-01-02", NOW_MS, &ms));
    assert_int_equal(ms, 86400000);
    assert_true(when_read("2026-11-21T17:05:59Z", NOW_MS, &ms));
    assert_int_equal(ms, INT64_C(1795280759000));
    assert_true(when_read("2026-11-21T17:05:59.089Z", NOW_MS, &ms));
    assert_int_equal(ms, INT64_C(1795280759089));
    assert_true(when_read("2026-11-21 17:05:59.5", NOW_MS, &ms));
    assert_int_equal(ms, INT64_C(1795280759500));
    assert_true(when_read("2026-11-21 17:05", NOW_MS, &ms));
    assert_int_equal(ms, INT64_C(1795280700000));
}

static void a_text_that_is_no_time_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "soon",
                                        "5",
                                        "-5s",
                                        "5 s",
                                        "5w",
                                        "99999999999999999999s",
                                        "12x",
                                        "h",
                                        "2026-13-01",
                                        "1960-01-01",
                                        "2026-11-21T17:05:59.Z",
                                        "2026-11-21T17:05:59.1x",
                                        "2026-11-21T17:05.1Z",
                                        "2026-11-21.5",
                                        "2026-11-21T17:05:59+01:00"};
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(when_read(texts[i], NOW_MS, &ms));
}

static void ages_are_printed_in_one_unit(void **state)
{
    static const struct {
        int64_t age_ms;
        const char *text;
    } cases[] = {
        {-5, "0 ms"},        {0, "0 ms"},      {999, "999 ms"},     {1000, "1.0 s"},
        {1299, "1.2 s"},     {10000, "10 s"},  {59999, "59 s"},     {60000, "1 min"},
        {3599999, "59 min"}, {3600000, "1 h"}, {172799999, "47 h"}, {172800000, "2 days"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[WHEN_AGE_SIZE];

        when_age(text, cases[i].age_ms);
        assert_string_equal(text, cases[i].text);
    }
}

static void times_are_written_in_utc(void **state)
{
    char text[WHEN_TEXT_SIZE];

    (void)state;
    when_text(text, INT64_C(1795280759007));
    assert_string_equal(text, "2026-11-21 17:05:59.007 UTC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_every_form_are_read),
        cmocka_unit_test(a_text_that_is_no_time_is_refused),
        cmocka_unit_test(times_are_written_in_utc),
        cmocka_unit_test(ages_are_printed_in_one_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
