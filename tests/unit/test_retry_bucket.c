/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/policy.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_burst_passes_and_then_the_rate(void **state)
{
    struct bucket bucket;
    int64_t now_ms = 5000;
    int passed = 0;

    (void)state;
    bucket_init(&bucket, 10, 3, now_ms);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bucket_take(&bucket, now_ms), 0);
    assert_int_equal(bucket_take(&bucket, now_ms), 100);
    for (; now_ms < 15000; now_ms++)
        passed += bucket_take(&bucket, now_ms) == 0;
    assert_in_range(passed, 99, 100);
}

static void a_caller_that_waits_as_long_as_returned_gets_a_token(void **state)
{
    struct bucket bucket;
    int64_t now_ms = 0;
    int64_t wait_ms;

    (void)state;
    bucket_init(&bucket, 7, 1, now_ms);
    for (int i = 0; i < 700; i++) {
        wait_ms = bucket_take(&bucket, now_ms);
        if (wait_ms == 0)
            continue;
        now_ms += wait_ms;
        assert_int_equal(bucket_take(&bucket, now_ms), 0);
    }
    assert_in_range(now_ms, 98000, 101500);
}

static void a_long_pause_fills_no_more_than_the_burst(void **state)
{
    struct bucket bucket;

    (void)state;
    bucket_init(&bucket, BUCKET_RATE_MAX, 2, 0);
    assert_int_equal(bucket_take(&bucket, 0), 0);
    assert_int_equal(bucket_take(&bucket, INT64_MAX / 2), 0);
    assert_int_equal(bucket_take(&bucket, INT64_MAX / 2), 0);
    assert_int_equal(bucket_take(&bucket, INT64_MAX / 2), 1);
}

static void a_clock_that_goes_back_adds_no_tokens(void **state)
{
    struct bucket bucket;

    (void)state;
    bucket_init(&bucket, 10, 1, 1000);
    assert_int_equal(bucket_take(&bucket, 1000), 0);
    assert_int_equal(bucket_take(&bucket, 0), 100);
    assert_int_equal(bucket_take(&bucket, 1100), 0);
}

static void without_a_rate_everything_passes(void **state)
{
    struct bucket bucket;

    (void)state;
    bucket_init(&bucket, 0, 1, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(bucket_take(&bucket, 0), 0);
}

static void several_are_taken_at_once_as_far_as_there_are_any(void **state)
{
    struct bucket bucket;

    (void)state;
    bucket_init(&bucket, 10, 5, 0);
    assert_int_equal(bucket_count(&bucket, 0), 5);
    bucket_spend(&bucket, 3);
    assert_int_equal(bucket_count(&bucket, 0), 2);
    bucket_spend(&bucket, 100);
    assert_int_equal(bucket_count(&bucket, 0), 0);
    assert_int_equal(bucket_count(&bucket, 250), 2);
    /* A fraction of a token is not lost. */
    bucket_spend(&bucket, 2);
    assert_int_equal(bucket_count(&bucket, 300), 1);
    bucket_init(&bucket, 0, 1, 0);
    assert_true(bucket_count(&bucket, 0) == INT64_MAX);
    bucket_spend(&bucket, 100);
    assert_int_equal(bucket_take(&bucket, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_passes_and_then_the_rate),
        cmocka_unit_test(a_caller_that_waits_as_long_as_returned_gets_a_token),
        cmocka_unit_test(a_long_pause_fills_no_more_than_the_burst),
        cmocka_unit_test(a_clock_that_goes_back_adds_no_tokens),
        cmocka_unit_test(without_a_rate_everything_passes),
        cmocka_unit_test(several_are_taken_at_once_as_far_as_there_are_any),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
