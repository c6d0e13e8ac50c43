/* SPDX-License-Identifier: MIT */
#include "outbox/relay/deleter.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void sorting_drops_repeats(void **state)
{
    int64_t list[] = {5, 3, 5, 1, 3};

    (void)state;
    assert_int_equal(deleter_sort_seqs(list, 5), 3);
    assert_int_equal(list[0], 1);
    assert_int_equal(list[1], 3);
    assert_int_equal(list[2], 5);
}

static void repeats_in_a_sorted_list_are_dropped_too(void **state)
{
    int64_t list[] = {1, 1, 2};

    (void)state;
    assert_int_equal(deleter_sort_seqs(list, 3), 2);
    assert_int_equal(list[1], 2);
}

static void a_run_never_spans_a_seq_that_is_not_there(void **state)
{
    const int64_t list[] = {1, 2, 3, 5, 7, 8};
    struct seq_range ranges[8];
    size_t used;

    (void)state;
    assert_int_equal(deleter_make_ranges(list, 6, ranges, 8, &used), 3);
    assert_int_equal(used, 6);
    assert_int_equal(ranges[0].from, 1);
    assert_int_equal(ranges[0].to, 3);
    assert_int_equal(ranges[1].from, 5);
    assert_int_equal(ranges[1].to, 5);
    assert_int_equal(ranges[2].from, 7);
    assert_int_equal(ranges[2].to, 8);
}

static void runs_that_do_not_fit_are_left_for_the_next_call(void **state)
{
    const int64_t list[] = {1, 3, 4, 6};
    struct seq_range ranges[2];
    size_t used;

    (void)state;
    assert_int_equal(deleter_make_ranges(list, 4, ranges, 2, &used), 2);
    assert_int_equal(used, 3);
    assert_int_equal(ranges[1].to, 4);
    assert_int_equal(deleter_make_ranges(list + used, 4 - used, ranges, 2, &used), 1);
    assert_int_equal(used, 1);
    assert_int_equal(ranges[0].from, 6);
}

static void an_empty_list_has_no_runs(void **state)
{
    struct seq_range ranges[1];
    size_t used = 9;

    (void)state;
    assert_int_equal(deleter_make_ranges(NULL, 0, ranges, 1, &used), 0);
    assert_int_equal(used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorting_drops_repeats),
        cmocka_unit_test(repeats_in_a_sorted_list_are_dropped_too),
        cmocka_unit_test(a_run_never_spans_a_seq_that_is_not_there),
        cmocka_unit_test(runs_that_do_not_fit_are_left_for_the_next_call),
        cmocka_unit_test(an_empty_list_has_no_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
