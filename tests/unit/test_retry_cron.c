/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/wait.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

/* 2026-11-21 17:58:30 UTC, a Saturday. */
#define NOW_S INT64_C(1795283910)

static struct zone *utc;

static int open_utc(void **state)
{
    (void)state;
    return zone_open(&utc, ZONE_FOLDER, "UTC", NULL) == RC_OK ? 0 : -1;
}

static int close_utc(void **state)
{
    (void)state;
    zone_close(utc);
    return 0;
}

static struct cron cron_of(const char *text)
{
    struct cron cron;
    struct err err = {0};

    if (cron_parse(&cron, text, &err) != RC_OK)
        fail_msg("\"%s\": %s", text, err.text);
    return cron;
}

static void assert_next(const char *text, int64_t expected_s)
{
    struct cron cron = cron_of(text);

    assert_int_equal(cron_next_ms(&cron, utc, NOW_S * 1000 + 1), expected_s * 1000);
}

static void the_next_time_lies_behind_now(void **state)
{
    (void)state;
    assert_next("* * * * *", 1795283940);                  /* 17:59 */
    assert_next("*/5 * * * *", 1795284000);                /* 18:00 */
    assert_next("58 17 * * *", 1795370280);                /* tomorrow 17:58 */
    assert_next("0 0 1 1 *", 1798761600);                  /* 2027-01-01 */
    assert_next("30 4 * * mon", 1795408200);               /* 2026-11-23 04:30 */
    assert_next("0 12 29 2 *", 1835438400);                /* 2028-02-29 12:00 */
    assert_next("0 0 13 * 5", 1795737600);                 /* a 13th or a Friday: 2026-11-27 */
    assert_next("0 0 1-26/2 * 5", 1795392000);             /* an odd day or a Friday: 2026-11-23 */
    assert_next("0 0 */3 * 5", 1796342400);                /* of 1, 4, 7 ... a Friday: 2026-12-04 */
    assert_next("15,45 9-17/4 * jan-mar 1-5", 1798794900); /* 2027-01-01 09:15, a Friday */
}

static void words_like_daily_are_schedules(void **state)
{
    (void)state;
    assert_next("@hourly", 1795284000);
    assert_next("@daily", 1795305600);
    assert_next("@weekly", 1795305600); /* Sunday 2026-11-22 */
    assert_next("@monthly", 1796083200);
    assert_next("@yearly", 1798761600);
}

static void day_seven_is_sunday(void **state)
{
    struct cron zero = cron_of("0 0 * * 0");
    struct cron seven = cron_of("0 0 * * 7");
    struct cron all = cron_of("0 0 * * 1-7");

    (void)state;
    assert_int_equal(zero.weekdays, seven.weekdays);
    assert_int_equal(all.weekdays, 0x7f);
    assert_int_equal(cron_of("0 0 * * */2").weekdays, 0x55);
}

static void a_day_that_never_comes_has_no_next_time(void **state)
{
    struct cron cron = cron_of("0 0 30 feb *");

    (void)state;
    assert_int_equal(cron_next_ms(&cron, utc, NOW_S * 1000), -1);
}

static void a_full_minute_is_followed_by_the_next(void **state)
{
    struct cron cron = cron_of("* * * * *");

    (void)state;
    assert_int_equal(cron_next_ms(&cron, utc, INT64_C(1795283940000)), INT64_C(1795284000000));
    assert_int_equal(cron_next_ms(&cron, utc, INT64_C(1795283939999)), INT64_C(1795283940000));
}

static void each_bad_field_is_named(void **state)
{
    static const struct {
        const char *text;
        const char *sentence;
    } bad[] = {
        {"60 * * * *", "minute"},   {"* 24 * * *", "hour"},         {"* * 0 * *", "day of month"},
        {"* * * 13 *", "month"},    {"* * * * 8", "day of week"},   {"*/0 * * * *", "minute"},
        {"5-3 * * * *", "minute"},  {"1,,2 * * * *", "minute"},     {"a * * * *", "minute"},
        {"* * * foo *", "month"},   {"*5 * * * *", "minute"},       {"1- * * * *", "minute"},
        {"* * * *", "five fields"}, {"* * * * * *", "five fields"}, {"", "five fields"},
        {"@reboot", "@hourly"},     {", * * * *", "minute"},        {"1/ * * * *", "minute"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct cron cron;
        struct err err = {0};

        assert_int_equal(cron_parse(&cron, bad[i].text, &err), RC_REJECT);
        if (!strstr(err.text, bad[i].sentence))
            fail_msg("\"%s\": %s", bad[i].text, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_time_lies_behind_now),
        cmocka_unit_test(words_like_daily_are_schedules),
        cmocka_unit_test(day_seven_is_sunday),
        cmocka_unit_test(a_day_that_never_comes_has_no_next_time),
        cmocka_unit_test(a_full_minute_is_followed_by_the_next),
        cmocka_unit_test(each_bad_field_is_named),
    };

    return cmocka_run_group_tests(tests, open_utc, close_utc);
}
