/* SPDX-License-Identifier: MIT */
#include "common/loop.h"

#include "common/os.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SOON_MS 1
#define LONG_MS 60000 /* no thread sleeps that long here: a wakeup ends the wait */

struct fixture {
    struct stop stop;
    struct wakeup wakeup;
};

static int open_both(void **state)
{
    static struct fixture fixture;
    struct err err;

    *state = &fixture;
    return stop_init(&fixture.stop, &err) == RC_OK && wakeup_init(&fixture.wakeup, &err) == RC_OK
               ? 0
               : -1;
}

static int close_both(void **state)
{
    struct fixture *fixture = *state;

    wakeup_done(&fixture->wakeup);
    stop_done(&fixture->stop);
    return 0;
}

static void no_stop_is_requested_at_first(void **state)
{
    struct fixture *fixture = *state;

    assert_false(stop_requested(&fixture->stop));
    assert_false(stop_wait(&fixture->stop, 0));
    assert_false(stop_wait(&fixture->stop, SOON_MS));
    assert_false(wakeup_wait(&fixture->wakeup, &fixture->stop, 0));
    assert_false(wakeup_wait(&fixture->wakeup, &fixture->stop, SOON_MS));
}

static void a_stop_wakes_now_and_from_now_on(void **state)
{
    struct fixture *fixture = *state;

    stop_request(&fixture->stop);
    stop_request(&fixture->stop);
    for (int i = 0; i < 3; i++) {
        assert_true(stop_wait(&fixture->stop, LONG_MS));
        assert_true(stop_wait(&fixture->stop, -1));
        assert_true(wakeup_wait(&fixture->wakeup, &fixture->stop, -1));
    }
    assert_false(atomic_load(&fixture->stop.failed));
}

static void a_failed_stop_is_a_stop(void **state)
{
    struct fixture *fixture = *state;

    stop_fail(&fixture->stop);
    assert_true(stop_requested(&fixture->stop));
    assert_true(atomic_load(&fixture->stop.failed));
}

static void time_runs_from_the_first_request(void **state)
{
    struct fixture *fixture = *state;
    int64_t before_ms = os_now_ms();
    int64_t until_ms = stop_until_ms(&fixture->stop, 100);

    assert_true(until_ms >= before_ms + 100 && until_ms <= os_now_ms() + 100);
    stop_request(&fixture->stop);
    until_ms = stop_until_ms(&fixture->stop, 100);
    while (os_now_ms() <= until_ms - 90) {
    }
    stop_request(&fixture->stop);
    assert_int_equal(stop_until_ms(&fixture->stop, 100), until_ms);
}

static void the_stop_can_be_polled(void **state)
{
    struct fixture *fixture = *state;
    struct pollfd fds = {.fd = fixture->stop.fd, .events = POLLIN};

    assert_int_equal(poll(&fds, 1, 0), 0);
    stop_request(&fixture->stop);
    assert_int_equal(poll(&fds, 1, 0), 1);
}

static void an_unread_wakeup_is_kept_once(void **state)
{
    struct fixture *fixture = *state;
    int64_t from_ms = os_now_ms();

    wakeup_signal(&fixture->wakeup);
    wakeup_signal(&fixture->wakeup);
    assert_false(wakeup_wait(&fixture->wakeup, &fixture->stop, LONG_MS));
    assert_true(os_now_ms() - from_ms < LONG_MS);
    assert_false(wakeup_wait(&fixture->wakeup, &fixture->stop, SOON_MS));
    wakeup_signal(&fixture->wakeup);
    assert_false(wakeup_wait(&fixture->wakeup, &fixture->stop, 0));
    from_ms = os_now_ms();
    assert_false(wakeup_wait(&fixture->wakeup, &fixture->stop, 20));
    assert_true(os_now_ms() - from_ms >= 19);
}

static void *wait_for_wakeup(void *arg)
{
    struct fixture *fixture = arg;
    bool stopped = wakeup_wait(&fixture->wakeup, &fixture->stop, LONG_MS);

    return stopped ? fixture : NULL;
}

static void a_wakeup_and_the_stop_end_a_wait(void **state)
{
    struct fixture *fixture = *state;
    pthread_t thread;
    void *stopped;

    assert_int_equal(pthread_create(&thread, NULL, wait_for_wakeup, fixture), 0);
    wakeup_signal(&fixture->wakeup);
    pthread_join(thread, &stopped);
    assert_null(stopped);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_wakeup, fixture), 0);
    stop_request(&fixture->stop);
    pthread_join(thread, &stopped);
    assert_ptr_equal(stopped, fixture);
}

static void a_zeroed_stop_can_be_released(void **state)
{
    struct stop stop = {0};
    struct wakeup wakeup = {0};

    (void)state;
    stop_done(&stop);
    wakeup_done(&wakeup);
    assert_int_equal(stop.fd, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_stop_is_requested_at_first, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_stop_wakes_now_and_from_now_on, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_failed_stop_is_a_stop, open_both, close_both),
        cmocka_unit_test_setup_teardown(time_runs_from_the_first_request, open_both, close_both),
        cmocka_unit_test_setup_teardown(the_stop_can_be_polled, open_both, close_both),
        cmocka_unit_test_setup_teardown(an_unread_wakeup_is_kept_once, open_both, close_both),
        cmocka_unit_test_setup_teardown(a_wakeup_and_the_stop_end_a_wait, open_both, close_both),
        cmocka_unit_test(a_zeroed_stop_can_be_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
