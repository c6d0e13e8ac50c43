/* SPDX-License-Identifier: MIT */
/* Zones against libc's, which reads the same files. */
#include "outbox/retry/policy/zone.h"

#include "common/buf.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[] = {
    "Europe/Berlin",      "America/New_York", "Asia/Kolkata",      "Australia/Lord_Howe",
    "America/Sao_Paulo",  "Pacific/Apia",     "Africa/Casablanca", "Europe/Dublin",
    "Antarctica/Troll",   "Asia/Tehran",      "America/St_Johns",  "Etc/GMT+12",
    "Pacific/Kiritimati",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct zone *zone_of(const char *name)
{
    struct zone *zone = NULL;
    struct err err = {0};

    if (zone_open(&zone, ZONE_FOLDER, name, &err) != RC_OK)
        fail_msg("%s", err.text);
    return zone;
}

static void assert_as_libc(const struct zone *zone, const char *name, int64_t utc_s)
{
    time_t utc = (time_t)utc_s;
    time_t shifted = (time_t)(utc_s + zone_ahead_s(zone, utc_s));
    struct tm expected;
    struct tm got;

    assert_non_null(localtime_r(&utc, &expected));
    assert_non_null(gmtime_r(&shifted, &got));
    if (expected.tm_mday != got.tm_mday || expected.tm_hour != got.tm_hour ||
        expected.tm_min != got.tm_min || expected.tm_sec != got.tm_sec)
        fail_msg("%s at %lld: %02d:%02d:%02d is expected, not %02d:%02d:%02d", name,
                 (long long)utc_s, expected.tm_hour, expected.tm_min, expected.tm_sec, got.tm_hour,
                 got.tm_min, got.tm_sec);
}

static void local_time_is_that_of_libc(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct zone *zone = zone_of(names[i]);

        setenv("TZ", names[i], 1);
        tzset();
        /* 1970 to 2100, at odd steps of about five hours. */
        for (int64_t utc_s = 0; utc_s < INT64_C(4102444800); utc_s += 18013)
            assert_as_libc(zone, names[i], utc_s);
        zone_close(zone);
    }
    unsetenv("TZ");
    tzset();
}

static void a_local_time_is_found_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct zone *zone = zone_of(names[i]);

        for (int64_t utc_s = 0; utc_s < INT64_C(4102444800); utc_s += 18013) {
            int64_t local_s = utc_s + zone_ahead_s(zone, utc_s);
            int64_t found_s = zone_utc_s(zone, local_s);

            assert_int_equal(found_s + zone_ahead_s(zone, found_s), local_s);
            assert_true(found_s <= utc_s);
        }
        zone_close(zone);
    }
}

static void a_time_left_out_moves_behind_the_change(void **state)
{
    struct zone *zone = zone_of("Europe/Berlin");

    (void)state;
    /* 2026-03-29 02:30 local does not exist; 03:30 summer time is 01:30 UTC. */
    assert_int_equal(zone_utc_s(zone, 1774751400), 1774747800);
    /* 2026-10-25 02:30 local exists twice; the first is 00:30 UTC. */
    assert_int_equal(zone_utc_s(zone, 1792895400), 1792888200);
    zone_close(zone);
}

static void zones_that_are_none_are_named(void **state)
{
    static const char *const bad[] = {"Europe/Atlantis", "../../etc/passwd", "/etc/passwd", "",
                                      "Europe",          "zone.tab",         "Berlin;"};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct zone *zone = NULL;
        struct err err = {0};

        assert_int_equal(zone_open(&zone, ZONE_FOLDER, bad[i], &err), RC_REJECT);
        assert_null(zone);
        if (bad[i][0])
            assert_non_null(strstr(err.text, bad[i]));
    }
}

static void utc_needs_no_file(void **state)
{
    struct zone *zone = NULL;

    (void)state;
    assert_int_equal(zone_open(&zone, "/nowhere", "UTC", NULL), RC_OK);
    assert_int_equal(zone_ahead_s(zone, 1774751400), 0);
    assert_int_equal(zone_utc_s(zone, 1774751400), 1774751400);
    zone_close(zone);
}

/* Every file cut at every byte, and with every byte changed, is taken or refused; nothing else. */
static void a_damaged_file_is_harmless(void **state)
{
    unsigned char bytes[8192];
    FILE *file = fopen(ZONE_FOLDER "/Europe/Berlin", "rb");
    size_t len;

    (void)state;
    assert_non_null(file);
    len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    for (size_t cut = 0; cut < len; cut++) {
        unsigned char *copy = malloc(cut + 1);
        struct zone *zone = NULL;

        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_int_equal(zone_parse(&zone, copy, cut, NULL), RC_REJECT);
        free(copy);
    }
    for (size_t at = 0; at < len; at++) {
        struct zone *zone = NULL;

        bytes[at] ^= 0xff;
        if (zone_parse(&zone, bytes, len, NULL) == RC_OK)
            zone_ahead_s(zone, 1774751400);
        zone_close(zone);
        bytes[at] ^= 0xff;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_time_is_that_of_libc),
        cmocka_unit_test(a_local_time_is_found_again),
        cmocka_unit_test(a_time_left_out_moves_behind_the_change),
        cmocka_unit_test(zones_that_are_none_are_named),
        cmocka_unit_test(utc_needs_no_file),
        cmocka_unit_test(a_damaged_file_is_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
