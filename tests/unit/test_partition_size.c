/* SPDX-License-Identifier: MIT */
/* How many seqs the next partition gets. */
#include "outbox/relay/partitions/partition_size.h"

#include "outbox/relay/partitions/seq_set.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>

#define DAY_MS INT64_C(86400000)

static void a_partition_covers_a_part_of_the_time_that_rows_are_kept(void **state)
{
    const struct seq_rate thousand_a_second = {DAY_MS, DAY_MS};
    int64_t span_ms = partition_span_ms(DAY_MS);

    (void)state;
    assert_int_equal(span_ms, DAY_MS / 8);
    assert_int_equal(partition_span_ms(0), PARTITION_SPAN_MS_MIN);
    assert_int_equal(partition_span_ms(INT64_MAX), INT64_MAX / 8);
    assert_int_equal(partition_size_choose(10000000, thousand_a_second, span_ms), DAY_MS / 8);
    assert_int_equal(partition_size_choose(0, thousand_a_second, span_ms), DAY_MS / 8);
}

static void a_size_at_most_doubles_or_halves(void **state)
{
    const struct seq_rate slow = {5000, DAY_MS};
    const struct seq_rate fast = {INT64_MAX, SEQ_RATE_MS_MIN};
    int64_t span_ms = partition_span_ms(DAY_MS);

    (void)state;
    assert_int_equal(partition_size_choose(10000000, slow, span_ms), 5000000);
    assert_int_equal(partition_size_choose(10000000, fast, span_ms), 20000000);
    assert_int_equal(partition_size_choose(200, slow, span_ms), 400);
}

static int64_t settle(int64_t size, int64_t rows_a_second, int64_t span_ms)
{
    const struct seq_rate rate = {rows_a_second * DAY_MS / 1000, DAY_MS};

    for (int i = 0; i < 30; i++)
        size = partition_size_choose(size, rate, span_ms);
    return size;
}

static void sizes_settle_where_a_partition_covers_its_part(void **state)
{
    int64_t span_ms = partition_span_ms(DAY_MS);

    (void)state;
    for (int64_t first = 1; first < INT64_C(1) << 40; first *= 100)
        assert_int_equal(settle(first, 200, span_ms), 200 * span_ms / 1000);
}

/* Fifty thousand rows of one commit are far less than a partition, whatever the rate is. */
static void a_slow_lane_has_room_for_a_burst(void **state)
{
    int64_t span_ms = partition_span_ms(DAY_MS);

    (void)state;
    for (int64_t first = 1; first < INT64_C(1) << 40; first *= 100) {
        assert_int_equal(settle(first, 1, span_ms), PARTITION_SEQS_MIN);
        assert_true(settle(first, 1, span_ms) >= INT64_C(1000000));
    }
}

static void without_a_rate_the_size_stays(void **state)
{
    (void)state;
    assert_int_equal(partition_size_choose(777, (struct seq_rate){0, 0}, DAY_MS), 777);
    assert_int_equal(partition_size_choose(777, (struct seq_rate){0, DAY_MS}, DAY_MS), 777);
    assert_int_equal(partition_size_choose(777, (struct seq_rate){9, SEQ_RATE_MS_MIN - 1}, DAY_MS),
                     777);
    assert_int_equal(partition_size_choose(0, (struct seq_rate){0, 0}, DAY_MS), PARTITION_SEQS_MIN);
}

static void a_size_is_never_more_than_can_be_compared_or_too_small(void **state)
{
    const struct seq_rate slow = {1, DAY_MS};
    const struct seq_rate fast = {INT64_MAX, SEQ_RATE_MS_MIN};

    (void)state;
    assert_int_equal(partition_size_choose(0, fast, DAY_MS), SEQ_SET_SEQS_MAX);
    assert_int_equal(partition_size_choose(SEQ_SET_SEQS_MAX, fast, DAY_MS), SEQ_SET_SEQS_MAX);
    assert_int_equal(partition_size_choose(INT64_MAX, fast, DAY_MS), SEQ_SET_SEQS_MAX);
    assert_int_equal(partition_size_choose(INT64_MAX, (struct seq_rate){0, 0}, DAY_MS),
                     SEQ_SET_SEQS_MAX);
    assert_int_equal(partition_size_choose(PARTITION_SEQS_MIN * 3 / 2, slow, DAY_MS),
                     PARTITION_SEQS_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_covers_a_part_of_the_time_that_rows_are_kept),
        cmocka_unit_test(a_size_at_most_doubles_or_halves),
        cmocka_unit_test(sizes_settle_where_a_partition_covers_its_part),
        cmocka_unit_test(a_slow_lane_has_room_for_a_burst),
        cmocka_unit_test(without_a_rate_the_size_stays),
        cmocka_unit_test(a_size_is_never_more_than_can_be_compared_or_too_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
