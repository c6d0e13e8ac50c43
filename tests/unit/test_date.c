/* SPDX-License-Identifier: MIT */
#include "consumer/apply/date.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static int64_t day_at(const char *text)
{
    int64_t day = INT64_MIN;

    assert_true(date_parse(text, &day));
    return day;
}

static void assert_month(const char *text, int64_t months, const char *expected)
{
    char found[DATE_SIZE];

    date_write(date_month_begin(day_at(text), months), found);
    assert_string_equal(found, expected);
}

static void days_count_from_1970(void **state)
{
    (void)state;
    assert_int_equal(day_at("1970-01-01"), 0);
    assert_int_equal(day_at("1969-12-31"), -1);
    assert_int_equal(day_at("2000-01-01"), 10957);
    assert_int_equal(day_at("2100-01-01"), 47482);
    assert_int_equal(day_at("9999-12-31"), DATE_DAY_MAX);
}

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Compared with the rules of the Gregorian calendar. */
static void every_day_of_five_hundred_years_follows_the_one_before(void **state)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    struct date date = {1901, 1, 1};

    (void)state;
    for (int64_t day = day_at("1901-01-01"); day <= day_at("2400-12-31"); day++) {
        struct date found = date_of(day);
        char text[DATE_SIZE];

        assert_int_equal(found.year, date.year);
        assert_int_equal(found.month, date.month);
        assert_int_equal(found.day, date.day);
        date_write(day, text);
        assert_int_equal(day_at(text), day);
        if (++date.day > lengths[date.month - 1] + (date.month == 2 && is_leap(date.year))) {
            date.day = 1;
            date.month++;
        }
        if (date.month > 12) {
            date.month = 1;
            date.year++;
        }
    }
}

static void a_month_begins_on_its_first_day(void **state)
{
    (void)state;
    assert_month("2026-11-21", 0, "2026-11-01");
    assert_month("2026-11-01", 0, "2026-11-01");
    assert_month("2024-02-29", 0, "2024-02-01");
    assert_month("2026-12-31", 0, "2026-12-01");
}

static void months_are_added_over_the_ends_of_months_and_years(void **state)
{
    (void)state;
    assert_month("2026-01-31", 1, "2026-02-01");
    assert_month("2026-12-31", 1, "2027-01-01");
    assert_month("2026-11-30", 14, "2028-01-01");
    assert_month("2024-02-29", 12, "2025-02-01");
    assert_month("2027-01-01", -1, "2026-12-01");
    assert_month("2027-03-31", -1, "2027-02-01");
    assert_month("2026-11-21", -23, "2024-12-01");
    assert_month("2026-11-21", -24, "2024-11-01");
}

static void a_text_that_is_no_date_is_not_read(void **state)
{
    static const char *const texts[] = {
        "",           "2026-2-01",   "2026-02-30", "2025-02-29", "1900-02-29",  "2026-13-01",
        "2026-00-01", "2026-01-00",  "2026-01-32", "2026/01/01", "'2026-01-01", "MAXVALUE",
        "2026-01-0x", "2026-01-01 ", "0000-00-00", "-026-01-01",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int64_t day = 4711;

        assert_false(date_parse(texts[i], &day));
        assert_int_equal(day, 4711);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_count_from_1970),
        cmocka_unit_test(every_day_of_five_hundred_years_follows_the_one_before),
        cmocka_unit_test(a_month_begins_on_its_first_day),
        cmocka_unit_test(months_are_added_over_the_ends_of_months_and_years),
        cmocka_unit_test(a_text_that_is_no_date_is_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
