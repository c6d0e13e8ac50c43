/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/endpoints.h"

#include "common/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NAMES 3
#define ROUNDS 3000

static const char *const names[NAMES] = {"http://a:80", "http://b:80", "http://c:80"};

static struct endpoints endpoints;
static uint64_t rng;

static int setup(void **state)
{
    (void)state;
    memset(&endpoints, 0, sizeof(endpoints));
    rng = 1;
    return 0;
}

static size_t pick(int64_t now_ms)
{
    return endpoints_pick(&endpoints, names, NAMES, now_ms, rng_next(&rng));
}

static bool end(size_t index, bool failed, int64_t now_ms)
{
    return endpoints_end(&endpoints, names[index], failed, now_ms, rng_next(&rng));
}

static void fail_out(size_t index, int64_t now_ms)
{
    for (int i = 0; i < ENDPOINT_FAILURES_OUT; i++) {
        assert_int_equal(endpoints_pick(&endpoints, &names[index], 1, now_ms, rng_next(&rng)), 0);
        assert_int_equal(end(index, true, now_ms), i + 1 == ENDPOINT_FAILURES_OUT);
    }
}

static void all_that_work_get_their_share(void **state)
{
    int counts[NAMES] = {0};

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        size_t index = pick(i);

        counts[index]++;
        end(index, false, i);
    }
    for (size_t i = 0; i < NAMES; i++)
        assert_in_range(counts[i], ROUNDS / NAMES / 2, ROUNDS / NAMES * 2);
}

/* Of two the one with less under way: with three the busiest is never taken. */
static void the_busiest_is_not_taken(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        endpoints_pick(&endpoints, &names[1], 1, 0, rng_next(&rng));
    for (int i = 0; i < ROUNDS; i++) {
        size_t index = pick(0);

        assert_int_not_equal(index, 1);
        end(index, false, 0);
    }
}

static void an_endpoint_that_fails_is_left_out_and_comes_back(void **state)
{
    int64_t now_ms = 1000;
    size_t index;
    int tries = 0;

    (void)state;
    fail_out(0, now_ms);
    for (int i = 0; i < ROUNDS; i++) {
        index = pick(now_ms);
        assert_int_not_equal(index, 0);
        end(index, false, now_ms);
    }
    /* Its time is over: one call tries it, and while this is under way no other. */
    now_ms += ENDPOINT_OUT_MS_BASE + 1;
    for (int i = 0; i < ROUNDS; i++)
        tries += endpoints_pick(&endpoints, names, 2, now_ms, rng_next(&rng)) == 0;
    assert_int_equal(tries, 1);
    assert_false(end(0, false, now_ms));
    tries = 0;
    for (int i = 0; i < ROUNDS && tries == 0; i++)
        tries += endpoints_pick(&endpoints, names, 2, now_ms, rng_next(&rng)) == 0;
    assert_int_equal(tries, 1);
}

static void a_probe_that_fails_leaves_it_out_for_longer(void **state)
{
    int64_t now_ms = 1000;

    (void)state;
    fail_out(0, now_ms);
    for (int i = 0; i < 20; i++) {
        now_ms = endpoints.list[0].out_until_ms;
        assert_int_equal(endpoints_pick(&endpoints, names, 1, now_ms, rng_next(&rng)), 0);
        assert_true(end(0, true, now_ms));
        assert_true(endpoints.list[0].out_until_ms > now_ms);
        assert_true(endpoints.list[0].out_until_ms <= now_ms + ENDPOINT_OUT_MS_CAP);
    }
    assert_true(endpoints.list[0].out_until_ms >= now_ms + ENDPOINT_OUT_MS_CAP / 2);
}

static void when_all_are_out_the_next_to_come_back_is_called(void **state)
{
    (void)state;
    fail_out(0, 9000);
    fail_out(1, 0);
    fail_out(2, 9000);
    assert_int_equal(pick(1), 1);
}

static void more_than_can_be_remembered_do_no_harm(void **state)
{
    char text[ENDPOINT_NAME_SIZE];
    const char *name = text;

    (void)state;
    for (int i = 0; i < 2 * ENDPOINTS_MAX; i++) {
        snprintf(text, sizeof(text), "http://h%d:80", i);
        endpoints_pick(&endpoints, &name, 1, i, rng_next(&rng));
        if (i % 2 == 0)
            endpoints_end(&endpoints, name, false, i, rng_next(&rng));
    }
    assert_int_equal(endpoints.count, ENDPOINTS_MAX);
    /* One that found no place comes to an end as well. */
    assert_false(endpoints_end(&endpoints, "http://nobody:80", true, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_that_work_get_their_share, setup),
        cmocka_unit_test_setup(the_busiest_is_not_taken, setup),
        cmocka_unit_test_setup(an_endpoint_that_fails_is_left_out_and_comes_back, setup),
        cmocka_unit_test_setup(a_probe_that_fails_leaves_it_out_for_longer, setup),
        cmocka_unit_test_setup(when_all_are_out_the_next_to_come_back_is_called, setup),
        cmocka_unit_test_setup(more_than_can_be_remembered_do_no_harm, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
