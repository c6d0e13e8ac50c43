/* SPDX-License-Identifier: MIT */
#include "common/options.h"
#include "tests/flow/daemon_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_term_stops_cleanly_and_in_order(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, NULL);
    child_says(&child, "event=starting role=pair version=");
    child_says_next(&child, TEXTS("open one", "open two", "event=admin_listening", "start one",
                                  "start two", "event=working"));
    kill(child.pid, SIGTERM);
    child_says_next(&child, TEXTS("event=stopping signal=SIGTERM stop_timeout_ms=10000", "join one",
                                  "join two", "close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void an_interrupt_stops_cleanly_and_a_hangup_does_nothing(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    kill(child.pid, SIGHUP);
    child_says(&child, "event=signal_ignored signal=SIGHUP");
    assert_int_equal(child_ask(&child, "GET", "/healthz"), 200);
    kill(child.pid, SIGINT);
    child_says(&child, "event=stopping signal=SIGINT");
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void a_second_signal_ends_at_once(void **state)
{
    struct child child;

    (void)state;
    behaviour.join_hangs = true;
    child_works(&child, NULL);
    kill(child.pid, SIGTERM);
    child_says(&child, "join one");
    kill(child.pid, SIGINT);
    child_says(&child, "event=stop_forced signal=SIGINT");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void an_echo_of_the_signal_is_no_second_one(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->join_waits, true);
    child_works(&child, NULL);
    kill(child.pid, SIGTERM);
    child_says(&child, "join one");
    kill(child.pid, SIGTERM);
    atomic_store(&shared->join_waits, false);
    child_says(&child, "event=stopped");
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void a_stop_that_takes_too_long_is_cut(void **state)
{
    struct child child;

    (void)state;
    behaviour.join_hangs = true;
    child_works(&child, TEXTS("--set", "admin.stop_timeout_ms=100"));
    kill(child.pid, SIGTERM);
    child_says(&child, "event=stop_timed_out stop_timeout_ms=100");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_role_that_fails_stops_the_process(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    atomic_store(&shared->fail, true);
    child_says(&child, "join one");
    child_says(&child, "event=stopped");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_failed_role_does_not_outlive_the_stop_timeout_either(void **state)
{
    struct child child;

    (void)state;
    behaviour.join_hangs = true;
    child_works(&child, TEXTS("--set=admin.stop_timeout_ms=100"));
    atomic_store(&shared->fail, true);
    child_says(&child, "event=stop_timed_out");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_process_that_waits_at_the_gate_can_be_stopped(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->gate, RC_RETRY);
    child_start(&child, NULL);
    child_says(&child, "event=start_waits");
    kill(child.pid, SIGTERM);
    child_says_next(&child, TEXTS("event=stopping", "close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_DONE);
    assert_false(atomic_load(&shared->migrate));
}

static void a_gate_that_says_never_ends_the_process(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->gate, RC_FATAL);
    child_start(&child, NULL);
    child_says(&child, "event=start_failed role=pair rc=fatal err=\"the schema is version 1");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_role_that_cannot_open_closes_the_others(void **state)
{
    struct child child;

    (void)state;
    behaviour.open = RC_FATAL;
    child_start(&child, NULL);
    child_says(&child, "event=starting");
    child_says_next(&child, TEXTS("open one",
                                  "event=start_failed role=pair rc=fatal err=\"two: cannot open\"",
                                  "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_role_that_cannot_start_ends_the_others(void **state)
{
    struct child child;

    (void)state;
    behaviour.start = RC_RETRY;
    child_start(&child, NULL);
    child_says(&child, "start one");
    child_says_next(&child, TEXTS("event=start_failed role=pair rc=retry err=\"two: cannot start\"",
                                  "join one", "close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_UNAVAILABLE);
}

static void a_wrong_command_line_starts_nothing(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, TEXTS("--migrat"));
    child_says_next(&child, TEXTS("tallybox pair: unknown option --migrat; did you mean --migrate?",
                                  "Try `tallybox pair --help`."));
    assert_int_equal(child_end(&child), EXIT_USAGE);
    child_start(&child, TEXTS("--set=relay.lease_ms=1"));
    child_says_next(&child, TEXTS("tallybox: --set relay.lease_ms: 1 is out of range"));
    assert_int_equal(child_end(&child), EXIT_USAGE);
    child_start(&child, TEXTS("--set=kafka.no.such.property=1"));
    child_says(&child, "no.such.property");
    assert_int_equal(child_end(&child), EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_term_stops_cleanly_and_in_order, daemon_setup),
        cmocka_unit_test_setup(an_interrupt_stops_cleanly_and_a_hangup_does_nothing, daemon_setup),
        cmocka_unit_test_setup(a_second_signal_ends_at_once, daemon_setup),
        cmocka_unit_test_setup(an_echo_of_the_signal_is_no_second_one, daemon_setup),
        cmocka_unit_test_setup(a_stop_that_takes_too_long_is_cut, daemon_setup),
        cmocka_unit_test_setup(a_role_that_fails_stops_the_process, daemon_setup),
        cmocka_unit_test_setup(a_failed_role_does_not_outlive_the_stop_timeout_either,
                               daemon_setup),
        cmocka_unit_test_setup(a_process_that_waits_at_the_gate_can_be_stopped, daemon_setup),
        cmocka_unit_test_setup(a_gate_that_says_never_ends_the_process, daemon_setup),
        cmocka_unit_test_setup(a_role_that_cannot_open_closes_the_others, daemon_setup),
        cmocka_unit_test_setup(a_role_that_cannot_start_ends_the_others, daemon_setup),
        cmocka_unit_test_setup(a_wrong_command_line_starts_nothing, daemon_setup),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, NULL);
}
