/* SPDX-License-Identifier: MIT */
#include "outbox/relay/gaps.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct gaps gaps;

static int set_up(void **state)
{
    (void)state;
    return gaps_init(&gaps, 4, NULL) == RC_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gaps_done(&gaps);
    return 0;
}

static void assert_gap(size_t at, int64_t from, int64_t to)
{
    assert_true(at < gaps.count);
    assert_int_equal(gaps.list[at].range.from, from);
    assert_int_equal(gaps.list[at].range.to, to);
}

static void a_seq_at_an_end_shortens_its_gap(void **state)
{
    (void)state;
    gaps_add(&gaps, 10, 20, 1);
    assert_true(gaps_remove(&gaps, 10));
    assert_true(gaps_remove(&gaps, 20));
    assert_int_equal(gaps.count, 1);
    assert_gap(0, 11, 19);
}

static void a_seq_in_the_middle_splits_its_gap_and_both_keep_their_age(void **state)
{
    (void)state;
    gaps_add(&gaps, 10, 20, 7);
    assert_true(gaps_remove(&gaps, 15));
    assert_int_equal(gaps.count, 2);
    assert_gap(0, 10, 14);
    assert_gap(1, 16, 20);
    assert_int_equal(gaps.list[0].first_ms, 7);
    assert_int_equal(gaps.list[1].first_ms, 7);
}

static void the_only_seq_of_a_gap_takes_the_gap_with_it(void **state)
{
    (void)state;
    gaps_add(&gaps, 10, 10, 1);
    gaps_add(&gaps, 12, 12, 1);
    assert_true(gaps_remove(&gaps, 10));
    assert_int_equal(gaps.count, 1);
    assert_gap(0, 12, 12);
}

static void a_seq_that_is_not_missing_changes_nothing(void **state)
{
    (void)state;
    gaps_add(&gaps, 10, 20, 1);
    gaps_add(&gaps, 30, 40, 1);
    assert_false(gaps_remove(&gaps, 9));
    assert_false(gaps_remove(&gaps, 25));
    assert_false(gaps_remove(&gaps, 41));
    assert_int_equal(gaps.count, 2);
}

static void a_full_list_merges_the_two_closest_and_keeps_the_younger_age(void **state)
{
    (void)state;
    assert_false(gaps_add(&gaps, 10, 10, 1));
    assert_false(gaps_add(&gaps, 30, 30, 2));
    assert_false(gaps_add(&gaps, 33, 33, 3));
    assert_false(gaps_add(&gaps, 50, 50, 4));
    assert_true(gaps_add(&gaps, 90, 95, 5));
    assert_int_equal(gaps.count, 4);
    assert_gap(1, 30, 33);
    assert_int_equal(gaps.list[1].first_ms, 3);
    assert_gap(3, 90, 95);
}

static void merged_gaps_wait_for_the_later_writer_of_both(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 4; i++)
        gaps_add(&gaps, 10 + 2 * i, 10 + 2 * i, i);
    gaps.list[0].writer = 77;
    gaps.list[0].writer_known = gaps.list[1].writer_known = true;
    gaps.list[0].writers_ended = true;
    gaps_add(&gaps, 100, 100, 9);
    assert_gap(0, 10, 12);
    assert_int_equal(gaps.list[0].writer, 77);
    assert_true(gaps.list[0].writer_known);
    assert_false(gaps.list[0].writers_ended);
}

static void a_split_in_a_full_list_keeps_the_seq_in_its_gap(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 4; i++)
        gaps_add(&gaps, 10 + 10 * i, 15 + 10 * i, 1);
    assert_true(gaps_remove(&gaps, 22));
    assert_int_equal(gaps.count, 4);
    assert_gap(1, 20, 25);
}

static void ranges_come_from_the_top_down_and_end_at_the_limit(void **state)
{
    struct seq_range ranges[2];
    size_t from = 99;

    (void)state;
    for (int64_t i = 1; i <= 4; i++)
        gaps_add(&gaps, 10 * i, 10 * i + 5, 1);
    assert_int_equal(gaps_ranges_down(&gaps, gaps.count, 33, ranges, 2, &from), 2);
    assert_int_equal(ranges[0].from, 20);
    assert_int_equal(ranges[0].to, 25);
    assert_int_equal(ranges[1].from, 30);
    assert_int_equal(ranges[1].to, 33);
    assert_int_equal(from, 1);
    assert_int_equal(gaps_ranges_down(&gaps, from, 33, ranges, 2, &from), 1);
    assert_int_equal(ranges[0].from, 10);
    assert_int_equal(from, 0);
    assert_int_equal(gaps_ranges_down(&gaps, gaps.count, 9, ranges, 2, &from), 0);
    assert_int_equal(from, 0);
}

/* The gap closer, with an answer to the query of another lane. */

static struct source_writers told;

static enum rc tell(void *ctx, struct source_writers *answer, struct err *err)
{
    (void)ctx;
    (void)err;
    *answer = told;
    return RC_OK;
}

static enum rc probe_nothing(void *ctx, const struct seq_range *ranges, size_t count, bool *busy,
                             bool *found, struct err *err)
{
    (void)ctx;
    (void)ranges;
    (void)count;
    (void)err;
    *busy = *found = false;
    return RC_OK;
}

static size_t closed_until(struct gap_closer *closer, int64_t from_ms, int64_t to_ms)
{
    const struct source source = {.writers = tell, .probe = probe_nothing};
    size_t sum = 0;

    for (int64_t now_ms = from_ms; now_ms < to_ms; now_ms += 50) {
        size_t closed = 0;

        assert_int_equal(gap_closer_step(closer, &gaps, &source, now_ms, &closed, NULL), RC_OK);
        sum += closed;
    }
    return sum;
}

static void an_answer_from_before_a_gap_was_seen_closes_nothing(void **state)
{
    struct gap_closer closer;

    (void)state;
    gap_closer_init(&closer, 60000, 600000);
    gaps_add(&gaps, 5, 5, 10000);
    /* No transaction was open at the query, long before and just after the gap was first seen. */
    told = (struct source_writers){.known = true, .asked_ms = 9000};
    assert_int_equal(closed_until(&closer, 10000, 15000), 0);
    told.asked_ms = 10500;
    assert_int_equal(closed_until(&closer, 15000, 20000), 0);
    told.asked_ms = 20000;
    assert_int_equal(closed_until(&closer, 20000, 22000), 1);
}

static void an_answer_that_grows_old_is_no_knowledge_in_the_end(void **state)
{
    struct gap_closer closer;

    (void)state;
    gap_closer_init(&closer, 5000, 600000);
    gaps_add(&gaps, 5, 5, 10000);
    /* One transaction was open, and no later query is possible. */
    told = (struct source_writers){.known = true, .asked_ms = 12000, .oldest = 3, .newest = 3};
    assert_int_equal(closed_until(&closer, 12000, 16950), 0);
    assert_int_equal(closed_until(&closer, 16950, 19000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_seq_at_an_end_shortens_its_gap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_seq_in_the_middle_splits_its_gap_and_both_keep_their_age,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_only_seq_of_a_gap_takes_the_gap_with_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_seq_that_is_not_missing_changes_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_full_list_merges_the_two_closest_and_keeps_the_younger_age, set_up, tear_down),
        cmocka_unit_test_setup_teardown(merged_gaps_wait_for_the_later_writer_of_both, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_split_in_a_full_list_keeps_the_seq_in_its_gap, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(ranges_come_from_the_top_down_and_end_at_the_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_answer_from_before_a_gap_was_seen_closes_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_answer_that_grows_old_is_no_knowledge_in_the_end, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
