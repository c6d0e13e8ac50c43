/* SPDX-License-Identifier: MIT */
#include "common/loop.h"

#include "common/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LONG_MS 60000 /* no thread sleeps that long here: a wakeup ends the wait */

/* An engine that returns the times of its script, and signals a wakeup at every step. */
struct engine {
    const int64_t *script; /* NULL: it never sleeps, however many steps that makes */
    atomic_int steps;
    struct wakeup stepped;
};

static int64_t step(void *arg, int64_t now_ms)
{
    struct engine *engine = arg;
    int number = atomic_fetch_add(&engine->steps, 1);
    int64_t wait_ms = engine->script ? engine->script[number] : 0;

    assert_true(now_ms > 0);
    wakeup_signal(&engine->stepped);
    return wait_ms;
}

struct fixture {
    struct stop stop;
    struct engine engine;
    struct loop loop;
};

static int open_loop(void **state)
{
    static struct fixture fixture;
    struct err err;

    fixture = (struct fixture){0};
    *state = &fixture;
    return stop_init(&fixture.stop, &err) == RC_OK &&
                   wakeup_init(&fixture.engine.stepped, &err) == RC_OK &&
                   loop_init(&fixture.loop, "test", step, &fixture.engine, &fixture.stop, &err) ==
                       RC_OK
               ? 0
               : -1;
}

static int close_loop(void **state)
{
    struct fixture *fixture = *state;

    loop_done(&fixture->loop);
    wakeup_done(&fixture->engine.stepped);
    stop_done(&fixture->stop);
    return 0;
}

static void start(struct fixture *fixture, const int64_t *script)
{
    struct err err;

    fixture->engine.script = script;
    assert_int_equal(loop_start(&fixture->loop, &err), RC_OK);
}

static void wait_for_steps(struct fixture *fixture, int steps)
{
    while (atomic_load(&fixture->engine.steps) < steps)
        wakeup_wait(&fixture->engine.stepped, &fixture->stop, LONG_MS);
}

static void a_step_is_called_again_after_the_time_it_returns(void **state)
{
    static const int64_t script[] = {0, 1, 0, LOOP_END};
    struct fixture *fixture = *state;

    start(fixture, script);
    loop_join(&fixture->loop);
    assert_int_equal(atomic_load(&fixture->engine.steps), 4);
    assert_true(atomic_load(&fixture->loop.beat_ms) > 0);
}

static void a_wakeup_ends_the_sleep_of_a_loop(void **state)
{
    static const int64_t script[] = {LOOP_WAKEUP, LONG_MS, LOOP_END};
    struct fixture *fixture = *state;

    start(fixture, script);
    wait_for_steps(fixture, 1);
    loop_wake(&fixture->loop);
    wait_for_steps(fixture, 2);
    loop_wake(&fixture->loop);
    loop_join(&fixture->loop);
    assert_int_equal(atomic_load(&fixture->engine.steps), 3);
}

static void a_stop_ends_a_sleeping_loop(void **state)
{
    static const int64_t script[] = {LONG_MS};
    struct fixture *fixture = *state;

    start(fixture, script);
    wait_for_steps(fixture, 1);
    stop_request(&fixture->stop);
    loop_join(&fixture->loop);
    assert_int_equal(atomic_load(&fixture->engine.steps), 1);
}

static void a_loop_that_never_sleeps_hears_the_stop(void **state)
{
    struct fixture *fixture = *state;

    start(fixture, NULL);
    wait_for_steps(fixture, 3);
    stop_request(&fixture->stop);
    loop_join(&fixture->loop);
    assert_true(atomic_load(&fixture->engine.steps) >= 3);
}

static void a_loop_started_after_the_stop_does_nothing(void **state)
{
    static const int64_t script[] = {LOOP_END};
    struct fixture *fixture = *state;

    stop_request(&fixture->stop);
    start(fixture, script);
    loop_join(&fixture->loop);
    assert_int_equal(atomic_load(&fixture->engine.steps), 0);
}

static int64_t long_step(void *arg, int64_t now_ms)
{
    struct fixture *fixture = arg;
    char name[LOOP_NAME_SIZE];

    loop_goes_on(now_ms - 1000);
    assert_true(loops_stuck(now_ms, 500, name));
    assert_string_equal(name, "test");
    loop_goes_on(now_ms);
    assert_false(loops_stuck(now_ms + 500, 500, name));
    atomic_store(&fixture->engine.steps, 1);
    return LOOP_END;
}

static void a_long_step_that_reports_progress_is_not_stuck(void **state)
{
    struct fixture *fixture = *state;

    fixture->loop.step = long_step;
    fixture->loop.engine = fixture;
    start(fixture, NULL);
    loop_join(&fixture->loop);
    assert_int_equal(atomic_load(&fixture->engine.steps), 1);
    /* This thread runs no loop. */
    loop_goes_on(1);
}

static void a_loop_that_never_started_can_be_joined(void **state)
{
    struct fixture *fixture = *state;
    struct loop zeroed = {0};

    loop_join(&fixture->loop);
    loop_join(&fixture->loop);
    loop_join(&zeroed);
    loop_done(&zeroed);
    assert_false(fixture->loop.started);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_is_called_again_after_the_time_it_returns, open_loop,
                                        close_loop),
        cmocka_unit_test_setup_teardown(a_wakeup_ends_the_sleep_of_a_loop, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_stop_ends_a_sleeping_loop, open_loop, close_loop),
        cmocka_unit_test_setup_teardown(a_loop_that_never_sleeps_hears_the_stop, open_loop,
                                        close_loop),
        cmocka_unit_test_setup_teardown(a_loop_started_after_the_stop_does_nothing, open_loop,
                                        close_loop),
        cmocka_unit_test_setup_teardown(a_long_step_that_reports_progress_is_not_stuck, open_loop,
                                        close_loop),
        cmocka_unit_test_setup_teardown(a_loop_that_never_started_can_be_joined, open_loop,
                                        close_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
