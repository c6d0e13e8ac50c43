/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/wait.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* 2026-11-21 17:58:30 UTC. */
#define NOW_MS INT64_C(1795283910000)
#define MINUTE_MS 60000

static struct wait wait_of(const char *text)
{
    struct wait wait;
    struct err err = {0};

    if (wait_parse(&wait, text, &err) != RC_OK)
        fail_msg("\"%s\": %s", text, err.text);
    return wait;
}

static int64_t next_of(const char *text, unsigned failures, uint64_t random_bits)
{
    struct wait wait = wait_of(text);
    int64_t next_ms = wait_next_ms(&wait, failures, NOW_MS, random_bits);

    wait_done(&wait);
    return next_ms == WAIT_NEVER ? -1 : next_ms - NOW_MS;
}

static void a_list_is_gone_through_and_its_end_repeats(void **state)
{
    static const int minutes[] = {1, 5, 10, 30, 60, 60, 60};

    (void)state;
    for (unsigned i = 0; i < sizeof(minutes) / sizeof(minutes[0]); i++)
        assert_int_equal(next_of(WAIT_DEFAULT, i + 1, 99), minutes[i] * MINUTE_MS);
    assert_int_equal(next_of("list 0s", 4000000000u, 99), 0);
}

static void presets_are_lists_with_a_name(void **state)
{
    (void)state;
    assert_int_equal(wait_of("preset default").count, 5);
    assert_int_equal(wait_of("preset rocketmq").count, 18);
    assert_int_equal(wait_of("preset easyretry").count, 26);
    assert_int_equal(next_of("preset rocketmq", 18, 0), 120 * MINUTE_MS);
    assert_int_equal(next_of("preset easyretry", 1, 0), 10000);
    assert_int_equal(next_of("preset easyretry", 26, 0), 12 * 60 * MINUTE_MS);
}

static void a_fixed_wait_never_changes(void **state)
{
    (void)state;
    assert_int_equal(next_of("fixed 30s", 1, 1), 30000);
    assert_int_equal(next_of("fixed 30s", 100, 2), 30000);
}

static void a_random_wait_lies_between_its_ends(void **state)
{
    int64_t low = INT64_MAX;
    int64_t high = 0;

    (void)state;
    for (uint64_t random_bits = 0; random_bits < 100; random_bits++) {
        int64_t wait_ms = next_of("random 5ms 9ms", 3, random_bits * 7919);

        low = wait_ms < low ? wait_ms : low;
        high = wait_ms > high ? wait_ms : high;
    }
    assert_int_equal(low, 5);
    assert_int_equal(high, 9);
    assert_int_equal(next_of("random 1s 1s", 1, UINT64_MAX), 1000);
}

static void an_exponential_wait_grows_below_its_cap(void **state)
{
    (void)state;
    for (unsigned failures = 1; failures <= 40; failures++) {
        int64_t limit_ms = failures < 5 ? 1000 << (failures - 1) : 10000;

        assert_int_equal(next_of("exponential 1s 10s", failures, (uint64_t)limit_ms - 1), limit_ms);
        assert_int_equal(next_of("exponential 1s 10s", failures, 0), 1);
    }
}

static void cron_comes_in_its_zone(void **state)
{
    (void)state;
    assert_int_equal(next_of("cron */5 * * * *", 1, 0), 90000);
    assert_int_equal(next_of("cron @hourly", 1, 0), 90000);
    /* 19:00 in Berlin is 18:00 UTC in November. */
    assert_int_equal(next_of("cron 0 19 * * * Europe/Berlin", 1, 0), 90000);
    assert_int_equal(next_of("cron @daily UTC", 1, 0), 21690000);
    assert_int_equal(next_of("cron 0 0 31 2 *", 1, 0), -1);
}

static void a_point_in_time_comes_once(void **state)
{
    (void)state;
    assert_int_equal(next_of("at 2026-11-21T18:00:00Z", 1, 0), 90000);
    assert_int_equal(next_of("at 2026-11-21T17:58:30.250Z", 7, 0), 250);
    assert_int_equal(next_of("at 2026-11-21T17:58:30Z", 1, 0), -1);
}

static void blanks_do_not_matter(void **state)
{
    (void)state;
    assert_int_equal(next_of("  list\t1m   2m ", 2, 0), 2 * MINUTE_MS);
}

static void a_wrong_value_is_named(void **state)
{
    static const struct {
        const char *text;
        const char *sentence;
    } bad[] = {
        {"", "not a way to wait"},
        {"soon", "\"soon\" is not a way to wait"},
        {"list", "wait \"list\": the next wait is missing"},
        {"list 1m x", "\"x\" is not the next wait"},
        {"preset", "there is no preset"},
        {"preset mine", "one of default, rocketmq, easyretry"},
        {"preset default 1m", "unexpected text after the rule"},
        {"fixed", "the wait is missing"},
        {"fixed 1s 2s", "unexpected text after the rule: \"2s\""},
        {"random 5s", "the longest wait is missing"},
        {"random 5s 4s", "the longest wait is below the shortest wait"},
        {"exponential 0s 1m", "the base must be above 0"},
        {"exponential 2m 1m", "the cap is below the base"},
        {"cron * * *", "five fields"},
        {"cron 61 * * * *", "the minute \"61\""},
        {"cron @daily Mars/Olympus", "there is no time zone Mars/Olympus"},
        {"cron @daily UTC now", "unexpected text after the rule"},
        {"at tomorrow", "is not a time in UTC"},
        {"at 2026-11-21 18:00:00", "is not a time in UTC"},
        {"at 2026-13-21T18:00:00Z", "is not a time in UTC"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct wait wait;
        struct err err = {0};

        assert_int_equal(wait_parse(&wait, bad[i].text, &err), RC_REJECT);
        if (!strstr(err.text, bad[i].sentence))
            fail_msg("\"%s\": %s", bad[i].text, err.text);
    }
}

static void a_list_and_a_text_have_an_end(void **state)
{
    char text[WAIT_TEXT_BYTES_MAX + 2] = "list";
    size_t len = strlen(text);
    struct wait wait;
    struct err err = {0};

    (void)state;
    for (int i = 0; i < WAIT_LIST_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, " 1s");
    assert_int_equal(wait_of(text).count, WAIT_LIST_MAX);
    snprintf(text + len, sizeof(text) - len, " 1s");
    assert_int_equal(wait_parse(&wait, text, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "64 times at most"));
    memset(text, ' ', sizeof(text) - 1);
    assert_int_equal(wait_parse(&wait, text, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "1024 characters at most"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_gone_through_and_its_end_repeats),
        cmocka_unit_test(presets_are_lists_with_a_name),
        cmocka_unit_test(a_fixed_wait_never_changes),
        cmocka_unit_test(a_random_wait_lies_between_its_ends),
        cmocka_unit_test(an_exponential_wait_grows_below_its_cap),
        cmocka_unit_test(cron_comes_in_its_zone),
        cmocka_unit_test(a_point_in_time_comes_once),
        cmocka_unit_test(blanks_do_not_matter),
        cmocka_unit_test(a_wrong_value_is_named),
        cmocka_unit_test(a_list_and_a_text_have_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
