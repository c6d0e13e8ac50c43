/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/zone.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct posix_tz rule_of(const char *text)
{
    struct posix_tz rule;

    if (!posix_tz_parse(&rule, text, strlen(text)))
        fail_msg("\"%s\" is not taken", text);
    return rule;
}

/* The second before and the second of a change. */
static void assert_change(const char *text, int64_t utc_s, int32_t before_s, int32_t from_s)
{
    struct posix_tz rule = rule_of(text);

    assert_int_equal(posix_tz_ahead_s(&rule, utc_s - 1), before_s);
    assert_int_equal(posix_tz_ahead_s(&rule, utc_s), from_s);
}

static void zones_without_summer_time_stay(void **state)
{
    struct posix_tz rule = rule_of("<+0530>-5:30");

    (void)state;
    assert_int_equal(posix_tz_ahead_s(&rule, 0), 19800);
    assert_int_equal(posix_tz_ahead_s(&rule, 2000000000), 19800);
    rule = rule_of("UTC0");
    assert_int_equal(posix_tz_ahead_s(&rule, 2000000000), 0);
}

/* Moments from zdump(8). */
static void clocks_change_on_the_day_and_hour_of_the_rule(void **state)
{
    (void)state;
    /* Berlin, 2040-03-25 01:00 and 2040-10-28 01:00 UTC. */
    assert_change("CET-1CEST,M3.5.0,M10.5.0/3", 2216250000, 3600, 7200);
    assert_change("CET-1CEST,M3.5.0,M10.5.0/3", 2234998800, 7200, 3600);
    /* New York, 2040-03-11 07:00 and 2040-11-04 06:00 UTC. */
    assert_change("EST5EDT,M3.2.0,M11.1.0", 2215062000, -18000, -14400);
    assert_change("EST5EDT,M3.2.0,M11.1.0", 2235621600, -14400, -18000);
    /* Lord Howe, half an hour, southern: 2040-10-06 15:30 and 2040-03-31 15:00 UTC. */
    assert_change("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 2233150200, 37800, 39600);
    assert_change("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 2216818800, 39600, 37800);
}

static void days_are_counted_with_and_without_the_leap_day(void **state)
{
    (void)state;
    /* J60 is 1 March in every year, 59 only in a common one. 2040 is a leap year. */
    assert_change("AAA-0BBB-1,J60/0,J300/0", 2214172800, 0, 3600);
    assert_change("AAA-0BBB-1,59/0,300/0", 2214086400, 0, 3600);
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "CET",
                                        "C1",
                                        "CET-1CEST",
                                        "CET-1CEST,",
                                        "CET-1CEST,M3.5.0",
                                        "CET-1CEST,M3.5.0,M13.5.0",
                                        "CET-1CEST,M3.6.0,M10.5.0",
                                        "CET-1CEST,M3.5.7,M10.5.0",
                                        "CET-1CEST,J0,J5",
                                        "CET-1CEST,J366,J5",
                                        "CET-168",
                                        "CET-1:60",
                                        "<+1",
                                        "CET-1 "};
    struct posix_tz rule;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (posix_tz_parse(&rule, texts[i], strlen(texts[i])))
            fail_msg("\"%s\" is taken", texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_without_summer_time_stay),
        cmocka_unit_test(clocks_change_on_the_day_and_hour_of_the_rule),
        cmocka_unit_test(days_are_counted_with_and_without_the_leap_day),
        cmocka_unit_test(other_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
