/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep.h"

#include "consumer/apply/date.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static int64_t day_at(const char *text)
{
    int64_t day = INT64_MIN;

    assert_true(date_parse(text, &day));
    return day;
}

static void assert_day(int64_t day, const char *expected)
{
    char text[DATE_SIZE];

    date_write(day, text);
    assert_string_equal(text, expected);
}

static struct housekeep_part part_of(const char *name, const char *limit)
{
    struct housekeep_part part = {.limit_day = limit ? day_at(limit) : HOUSEKEEP_NO_LIMIT};

    snprintf(part.name, sizeof(part.name), "%s", name);
    return part;
}

static void the_partitions_reach_over_the_months_ahead(void **state)
{
    (void)state;
    assert_day(housekeep_ahead_day(day_at("2026-11-21"), 12), "2027-12-01");
    assert_day(housekeep_ahead_day(day_at("2026-11-30"), 1), "2027-01-01");
    assert_day(housekeep_ahead_day(day_at("2026-12-01"), 1), "2027-02-01");
    assert_day(housekeep_ahead_day(day_at("2024-01-31"), 1), "2024-03-01");
}

static void the_months_kept_are_full_ones_before_that_of_the_newest_vote(void **state)
{
    int64_t now = day_at("2026-11-21");

    (void)state;
    assert_day(housekeep_keep_day(now, now, 1), "2026-10-01");
    assert_day(housekeep_keep_day(now, now, 12), "2025-11-01");
    assert_day(housekeep_keep_day(now, day_at("2026-10-31"), 1), "2026-09-01");
    assert_true(housekeep_keep_day(now, now, 0) == HOUSEKEEP_KEEP_ALL);
    assert_true(housekeep_keep_day(now, INT64_MIN, 1) == HOUSEKEEP_KEEP_ALL);
}

static void a_clock_that_jumps_ahead_drops_nothing_more(void **state)
{
    int64_t newest = day_at("2026-11-20");

    (void)state;
    assert_day(housekeep_keep_day(day_at("2099-01-01"), newest, 3), "2026-08-01");
    /* And votes from clocks that are ahead do not drop more than our own clock would. */
    assert_day(housekeep_keep_day(day_at("2026-11-21"), day_at("2099-01-01"), 3), "2026-08-01");
}

static void assert_makes(const struct housekeep_part *parts, size_t count, const char *ahead,
                         const char *name, const char *limit)
{
    struct housekeep_next next = housekeep_next_make(parts, count, day_at(ahead));

    assert_int_equal(next.act, name ? HOUSEKEEP_MAKE : HOUSEKEEP_NOTHING);
    if (!name)
        return;
    assert_string_equal(next.part.name, name);
    assert_day(next.part.limit_day, limit);
}

static void one_month_is_made_at_a_time_and_named_after_itself(void **state)
{
    struct housekeep_part parts[] = {
        part_of("p_before", "2028-11-01"),
        part_of("p202811", "2028-12-01"),
        part_of("p_after", NULL),
    };

    (void)state;
    assert_makes(parts, 3, "2029-03-01", "p202812", "2029-01-01");
    assert_makes(parts, 2, "2029-03-01", "p202812", "2029-01-01");
    assert_makes(parts, 3, "2028-12-02", "p202812", "2029-01-01");
    assert_makes(parts, 3, "2028-12-01", NULL, NULL);
    parts[1].limit_day = day_at("2029-01-01");
    assert_makes(parts, 3, "2029-03-01", "p202901", "2029-02-01");
    parts[1].limit_day = day_at("2028-02-01");
    assert_makes(parts, 3, "2029-03-01", "p202802", "2028-03-01");
}

static void a_cut_inside_a_month_is_carried_on_to_its_end(void **state)
{
    struct housekeep_part parts[] = {part_of("ours", "2028-12-15"), part_of("p_after", NULL)};

    (void)state;
    assert_makes(parts, 2, "2029-03-01", "p202812", "2029-01-01");
}

static void a_table_without_months_gets_none(void **state)
{
    struct housekeep_part parts[] = {part_of("everything", NULL)};

    (void)state;
    assert_makes(parts, 1, "2029-03-01", NULL, NULL);
    assert_makes(parts, 0, "2029-03-01", NULL, NULL);
}

static enum housekeep_act drops(const struct housekeep_part *parts, size_t count, const char *begin,
                                int64_t keep_day)
{
    struct housekeep_next next = housekeep_next_drop(parts, count, day_at(begin), keep_day);

    if (next.act != HOUSEKEEP_NOTHING)
        assert_string_equal(next.part.name, parts[0].name);
    return next.act;
}

static void the_oldest_is_dropped_when_all_of_it_may_go(void **state)
{
    struct housekeep_part parts[] = {
        part_of("p_before", "2026-01-01"),
        part_of("p202601", "2026-02-01"),
        part_of("p_after", NULL),
    };

    (void)state;
    assert_int_equal(drops(parts, 3, "1970-01-01", day_at("2025-12-31")), HOUSEKEEP_NOTHING);
    assert_int_equal(drops(parts, 3, "1970-01-01", day_at("2026-01-01")), HOUSEKEEP_BEGIN);
    assert_int_equal(drops(parts, 3, "1970-01-01", HOUSEKEEP_KEEP_ALL), HOUSEKEEP_NOTHING);
    /* Once the log begins behind it, the partition is dropped under any settings. */
    assert_int_equal(drops(parts, 3, "2026-01-01", HOUSEKEEP_KEEP_ALL), HOUSEKEEP_DROP);
    assert_int_equal(drops(parts, 3, "2025-12-01", HOUSEKEEP_KEEP_ALL), HOUSEKEEP_NOTHING);
}

static void a_table_keeps_its_last_partition(void **state)
{
    struct housekeep_part parts[] = {part_of("p_before", "2026-01-01")};
    struct housekeep_part open[] = {part_of("p_after", NULL), part_of("x", NULL)};
    struct housekeep_part two[] = {part_of("p202601", "2026-02-01"), part_of("p_after", NULL)};

    (void)state;
    assert_int_equal(drops(parts, 1, "1970-01-01", day_at("2027-01-01")), HOUSEKEEP_NOTHING);
    assert_int_equal(drops(open, 2, "2027-01-01", day_at("2027-01-01")), HOUSEKEEP_NOTHING);
    assert_int_equal(drops(parts, 0, "1970-01-01", day_at("2027-01-01")), HOUSEKEEP_NOTHING);
    assert_int_equal(drops(two, 2, "1970-01-01", day_at("2027-01-01")), HOUSEKEEP_NOTHING);
    assert_int_equal(drops(two, 2, "2027-01-01", day_at("2027-01-01")), HOUSEKEEP_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_partitions_reach_over_the_months_ahead),
        cmocka_unit_test(the_months_kept_are_full_ones_before_that_of_the_newest_vote),
        cmocka_unit_test(a_clock_that_jumps_ahead_drops_nothing_more),
        cmocka_unit_test(one_month_is_made_at_a_time_and_named_after_itself),
        cmocka_unit_test(a_cut_inside_a_month_is_carried_on_to_its_end),
        cmocka_unit_test(a_table_without_months_gets_none),
        cmocka_unit_test(the_oldest_is_dropped_when_all_of_it_may_go),
        cmocka_unit_test(a_table_keeps_its_last_partition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
