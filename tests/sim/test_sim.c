/* SPDX-License-Identifier: MIT */
/* Tests the simulation itself: a seed always gives the same run, correct code passes, and broken
 * fakes fail. */
#include "common/log.h"
#include "tests/sim/run.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define SEEDS 40

static struct run *run;

static int set_up(void **state)
{
    (void)state;
    run = run_open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    run_close(run);
    return 0;
}

static void correct_code_keeps_the_promises(void **state)
{
    struct run_result result;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(run, seed, FAULT_NONE, &result);
        if (result.failed)
            fail_msg("seed %d: %s", (int)seed, result.failure);
        assert_true(result.events > 0);
    }
}

/* Also behind other seeds, and in memory that others have used. */
static void a_seed_is_always_the_same_story(void **state)
{
    uint64_t hashes[SEEDS];
    struct run_result result;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        run_seed(run, seed + 1, FAULT_NONE, &result);
        hashes[seed] = result.hash;
    }
    run_close(run);
    run = run_open();
    for (uint64_t seed = SEEDS; seed-- > 0;) {
        run_seed(run, seed + 1, FAULT_NONE, &result);
        assert_true(result.hash == hashes[seed]);
        assert_true(seed == 0 || hashes[seed] != hashes[seed - 1]);
    }
}

static void a_told_run_has_the_same_story(void **state)
{
    const struct story_focus all = {.key = STORY_ALL};
    struct run_result result;
    uint64_t hash;

    (void)state;
    run_seed(run, 3, FAULT_NONE, &result);
    hash = run_hear(run, 3, FAULT_NONE, &all);
    assert_true(hash == result.hash);
}

static void a_log_that_takes_an_event_twice_is_seen(void **state)
{
    struct run_result result = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS && !result.failed; seed++)
        run_seed(run, seed, FAULT_NO_UNIQUE_KEY, &result);
    assert_true(result.failed);
    assert_memory_equal(result.failure, "twice: ", strlen("twice: "));
}

static void a_key_that_is_never_woken_is_caught(void **state)
{
    struct run_result result = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS && !result.failed; seed++)
        run_seed(run, seed, FAULT_TASK_NO_WAKE, &result);
    assert_true(result.failed);
    assert_memory_equal(result.failure, "stuck: ", strlen("stuck: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_code_keeps_the_promises),
        cmocka_unit_test(a_seed_is_always_the_same_story),
        cmocka_unit_test(a_told_run_has_the_same_story),
        cmocka_unit_test(a_log_that_takes_an_event_twice_is_seen),
        cmocka_unit_test(a_key_that_is_never_woken_is_caught),
    };

    log_init(LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
