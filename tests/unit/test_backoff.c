/* SPDX-License-Identifier: MIT */
#include "common/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BASE_MS 100
#define CAP_MS 1000
#define BITS_MAX UINT64_C(4000) /* every remainder up to the cap */

/* The longest wait that random bits can give next, and the try counts. */
static int64_t longest_ms(struct backoff *backoff)
{
    struct backoff copy = *backoff;
    int64_t longest = 0;

    for (uint64_t random_bits = 0; random_bits < BITS_MAX; random_bits++) {
        struct backoff thrown = copy;
        int64_t wait_ms = backoff_next_ms(&thrown, random_bits);

        assert_true(wait_ms >= 1);
        if (wait_ms > longest)
            longest = wait_ms;
    }
    backoff_next_ms(backoff, 0);
    return longest;
}

static void waits_double_up_to_the_cap(void **state)
{
    struct backoff backoff = {.base_ms = BASE_MS, .cap_ms = CAP_MS};
    static const int64_t longest[] = {100, 200, 400, 800, 1000, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof(longest) / sizeof(longest[0]); i++)
        assert_int_equal(longest_ms(&backoff), longest[i]);
}

static void wait_never_passes_the_cap(void **state)
{
    struct backoff backoff = {.base_ms = BASE_MS, .cap_ms = CAP_MS};

    (void)state;
    for (int i = 0; i < 200; i++) {
        int64_t wait_ms = backoff_next_ms(&backoff, UINT64_MAX - (uint64_t)i);

        assert_true(wait_ms >= 1 && wait_ms <= CAP_MS);
    }
}

static void a_base_at_the_cap_stays_there(void **state)
{
    struct backoff backoff = {.base_ms = CAP_MS, .cap_ms = CAP_MS};

    (void)state;
    assert_int_equal(longest_ms(&backoff), CAP_MS);
    assert_int_equal(longest_ms(&backoff), CAP_MS);
}

static void reset_starts_at_the_base_again(void **state)
{
    struct backoff backoff = {.base_ms = BASE_MS, .cap_ms = CAP_MS};

    (void)state;
    for (int i = 0; i < 5; i++)
        backoff_next_ms(&backoff, 0);
    backoff_reset(&backoff);
    assert_int_equal(longest_ms(&backoff), BASE_MS);
}

static struct breaker closed_breaker(void)
{
    return (struct breaker){.backoff = {.base_ms = BASE_MS, .cap_ms = CAP_MS}};
}

#define WAIT(ms) ((uint64_t)(ms)-1) /* random bits that give this wait */

static void a_closed_breaker_lets_everything_pass(void **state)
{
    struct breaker breaker = closed_breaker();

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(breaker_allows(&breaker, 5));
    assert_int_equal(breaker_wait_ms(&breaker, 5), 0);
    assert_false(breaker_worked(&breaker));
}

static void a_failure_opens_until_a_time(void **state)
{
    struct breaker breaker = closed_breaker();

    (void)state;
    assert_true(breaker_failed(&breaker, 1000, WAIT(70)));
    assert_false(breaker_allows(&breaker, 1000));
    assert_int_equal(breaker_wait_ms(&breaker, 1000), 70);
    assert_false(breaker_allows(&breaker, 1069));
    assert_int_equal(breaker_wait_ms(&breaker, 1069), 1);
    assert_int_equal(breaker_wait_ms(&breaker, 1070), 0);
}

static void a_half_open_breaker_lets_one_probe_pass(void **state)
{
    struct breaker breaker = closed_breaker();

    (void)state;
    breaker_failed(&breaker, 1000, WAIT(70));
    assert_true(breaker_allows(&breaker, 1070));
    assert_false(breaker_allows(&breaker, 1070));
    assert_false(breaker_allows(&breaker, 9999));
}

/* Otherwise a loop that sleeps for the returned time would spin until the probe is answered. */
static void while_a_probe_runs_every_caller_has_to_wait(void **state)
{
    struct breaker breaker = closed_breaker();

    (void)state;
    breaker_failed(&breaker, 1000, WAIT(70));
    assert_true(breaker_allows(&breaker, 1070));
    assert_true(breaker_wait_ms(&breaker, 1070) > 0);
    assert_true(breaker_wait_ms(&breaker, 5000) > 0);
    breaker_worked(&breaker);
    assert_int_equal(breaker_wait_ms(&breaker, 5000), 0);
}

static void a_probe_that_worked_closes(void **state)
{
    struct breaker breaker = closed_breaker();

    (void)state;
    breaker_failed(&breaker, 1000, WAIT(70));
    breaker_allows(&breaker, 1070);
    assert_true(breaker_worked(&breaker));
    assert_false(breaker_worked(&breaker));
    assert_true(breaker_allows(&breaker, 1071));
    assert_true(breaker_allows(&breaker, 1071));
    assert_true(breaker_failed(&breaker, 2000, WAIT(BASE_MS)));
    assert_int_equal(breaker_wait_ms(&breaker, 2000), BASE_MS);
}

static void a_probe_that_failed_opens_for_longer(void **state)
{
    struct breaker breaker = closed_breaker();

    (void)state;
    breaker_failed(&breaker, 1000, WAIT(100));
    assert_true(breaker_allows(&breaker, 1100));
    assert_false(breaker_failed(&breaker, 1100, WAIT(200)));
    assert_int_equal(breaker_wait_ms(&breaker, 1100), 200);
    assert_false(breaker_allows(&breaker, 1299));
    assert_true(breaker_allows(&breaker, 1300));
}

/* A hundred calls were under way when the first one failed: they count as one failure. */
static void late_failures_do_not_lengthen_the_wait(void **state)
{
    struct breaker breaker = closed_breaker();

    (void)state;
    assert_true(breaker_failed(&breaker, 1000, WAIT(70)));
    for (int i = 0; i < 100; i++)
        assert_false(breaker_failed(&breaker, 1010, WAIT(100)));
    assert_int_equal(breaker_wait_ms(&breaker, 1010), 60);
    assert_true(breaker_allows(&breaker, 1070));
    assert_false(breaker_failed(&breaker, 1070, WAIT(200)));
    assert_int_equal(breaker_wait_ms(&breaker, 1070), 200);
}

static void a_failure_after_the_wait_counts_even_without_a_probe(void **state)
{
    struct breaker breaker = closed_breaker();

    (void)state;
    breaker_failed(&breaker, 1000, WAIT(70));
    assert_false(breaker_failed(&breaker, 1070, WAIT(150)));
    assert_int_equal(breaker_wait_ms(&breaker, 1070), 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_double_up_to_the_cap),
        cmocka_unit_test(wait_never_passes_the_cap),
        cmocka_unit_test(a_base_at_the_cap_stays_there),
        cmocka_unit_test(reset_starts_at_the_base_again),
        cmocka_unit_test(a_closed_breaker_lets_everything_pass),
        cmocka_unit_test(a_failure_opens_until_a_time),
        cmocka_unit_test(a_half_open_breaker_lets_one_probe_pass),
        cmocka_unit_test(while_a_probe_runs_every_caller_has_to_wait),
        cmocka_unit_test(a_probe_that_worked_closes),
        cmocka_unit_test(a_probe_that_failed_opens_for_longer),
        cmocka_unit_test(late_failures_do_not_lengthen_the_wait),
        cmocka_unit_test(a_failure_after_the_wait_counts_even_without_a_probe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
