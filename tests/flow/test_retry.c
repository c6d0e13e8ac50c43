/* SPDX-License-Identifier: MIT */
/* The life of a task in the retry queue, on a fake store: attempts, waits, ends, callbacks, steps,
 * options. */
#include "tests/flow/retry_fixture.h"

#include "common/log.h"
#include "outbox/retry/retry_metrics.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define SOON "{\"wait\": \"fixed 300ms\", \"attempts\": 3"

static int set_up(void **state)
{
    (void)state;
    retry_fixture_reset(1);
    return 0;
}

static struct task *failing(const char *scene, const char *key, size_t fail_runs)
{
    struct task *task = retry_fixture_task(scene, key);

    task->fail_runs = fail_runs;
    return task;
}

static void a_task_that_works_is_run_once_and_kept_for_a_while(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    host_start(0);
    assert_true(retry_fixture_drain(1000));
    assert_int_equal(task->runs, 1);
    assert_int_equal(task->seen_attempt, 1);
    assert_string_equal(retry_fixture_outcome(task), "done");
    assert_string_equal(task->seen_options, "{}");
    assert_true(dispatcher_left(&fixture.hosts[0].dispatcher));
}

/* A role's tasks are kept only where the policy keeps all: the API does not show them. */
static void done_tasks_are_kept_as_the_policy_says(void **state)
{
    static const struct {
        const char *policy;
        enum retry_owner origin;
        const char *at_once;
        const char *after_an_hour;
    } cases[] = {
        {NULL, OWNER_CLIENT, "done", "deleted"},
        {NULL, OWNER_RELAY, "deleted", "deleted"},
        {"{\"keep_done\": true}", OWNER_CLIENT, "done", "done"},
        {"{\"keep_done\": true}", OWNER_RELAY, "done", "done"},
        {"{\"keep_done\": false}", OWNER_CLIENT, "deleted", "deleted"},
        {"{\"keep_done\": \"2h\"}", OWNER_CLIENT, "done", "done"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct task *task;

        retry_fixture_reset(i + 1);
        retry_fixture_scene("mail", cases[i].policy, NULL, false);
        task = retry_fixture_task("mail", NULL);
        task->base.class.origin = cases[i].origin;
        host_start(0);
        assert_true(retry_fixture_drain(1000));
        assert_string_equal(retry_fixture_outcome(task), cases[i].at_once);
        fixture.now_ms += 3600000 - 2000;
        retry_fixture_run(1);
        assert_string_equal(retry_fixture_outcome(task), cases[i].at_once);
        retry_fixture_fail_next(FAKE_TASKS_FORGET, 3);
        retry_fixture_run(15000);
        assert_string_equal(retry_fixture_outcome(task), cases[i].after_an_hour);
    }
}

static void a_failed_task_is_tried_again_at_the_time_of_its_rule(void **state)
{
    struct task *task = failing("mail", NULL, 2);
    int64_t from_ms = fixture.now_ms;

    (void)state;
    host_start(0);
    retry_fixture_run(500);
    assert_int_equal(task->runs, 1);
    assert_int_equal(task->base.old.attempts, 1);
    assert_string_equal(task->reason, "it does not work");
    assert_string_equal(task->reason_class, "transient");
    assert_in_range(task->base.old.next_ms - from_ms, 60000, 60500);
    fixture.now_ms = task->base.old.next_ms - 50;
    retry_fixture_run(40);
    assert_int_equal(task->runs, 1);
    retry_fixture_run(500);
    assert_int_equal(task->runs, 2);
    assert_int_equal(task->seen_attempt, 2);
    fixture.now_ms += 300000;
    assert_true(retry_fixture_drain(1000));
    assert_int_equal(task->runs, 3);
}

static void an_exhausted_task_without_a_key_goes_into_the_history(void **state)
{
    struct task *task = failing("mail", NULL, 100);

    (void)state;
    retry_fixture_scene("mail", SOON "}", NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(3000));
    assert_string_equal(retry_fixture_outcome(task), "exhausted");
    assert_int_equal(task->runs, 3);
    assert_int_equal(task->base.old.attempts, 3);
    assert_string_equal(task->reason, "attempts: it does not work");
}

static void exhaustion_may_block_a_key_and_no_other(void **state)
{
    struct task *first = failing("mail", "a", 100);
    struct task *second = retry_fixture_task("mail", "a");
    struct task *other = retry_fixture_task("mail", "b");

    (void)state;
    retry_fixture_scene("mail", SOON "}", NULL, false);
    host_start(0);
    retry_fixture_run(3000);
    assert_int_equal(retry_fixture_state(first), TASK_BLOCKED);
    assert_int_equal(first->runs, 3);
    assert_int_equal(second->runs, 0);
    assert_int_equal(other->runs, 1);
}

static void exhaustion_may_park_a_key(void **state)
{
    struct task *first = failing("mail", "a", 100);
    struct task *second = retry_fixture_task("mail", "a");

    (void)state;
    retry_fixture_scene("mail", SOON ", \"exhausted\": \"park\"}", NULL, false);
    host_start(0);
    retry_fixture_run(3000);
    assert_int_equal(retry_fixture_state(first), TASK_PARKED);
    assert_string_equal(retry_fixture_outcome(first), "exhausted");
    assert_int_equal(second->runs, 0);
}

static void exhaustion_may_be_skipped(void **state)
{
    struct task *first = failing("mail", "a", 100);
    struct task *second = retry_fixture_task("mail", "a");

    (void)state;
    retry_fixture_scene("mail", SOON ", \"exhausted\": \"skip\"}", NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(3000));
    assert_string_equal(retry_fixture_outcome(first), "exhausted");
    assert_int_equal(second->runs, 1);
}

static void tasks_of_a_key_run_in_order_also_across_hosts(void **state)
{
    struct task *tasks[30];

    (void)state;
    retry_fixture_scene("mail", "{\"wait\": \"fixed 30ms\", \"attempts\": 9}", NULL, false);
    for (size_t i = 0; i < 30; i++)
        tasks[i] = failing("mail", i % 2 ? "a" : "b", i % 3);
    for (size_t i = 0; i < FIXTURE_HOSTS; i++)
        host_start(i);
    while (retry_fixture_count(-1) < 30) {
        retry_fixture_run(1);
        /* No task ends before its predecessor. */
        for (size_t i = 2; i < 30; i++)
            assert_true(tasks[i]->runs == 0 || retry_fixture_state(tasks[i - 2]) == -1);
        assert_true(fixture.now_ms < 1100000);
    }
}

static void a_refusal_exhausts_at_once_unless_the_scene_retries_it(void **state)
{
    struct task *task = failing("mail", NULL, 1);
    struct task *again = failing("other", NULL, 1);

    (void)state;
    task->fault = FAULT_CLASS_REFUSED;
    again->fault = FAULT_CLASS_REFUSED;
    retry_fixture_scene("other", SOON ", \"stop\": []}", NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(2000));
    assert_string_equal(retry_fixture_outcome(task), "exhausted");
    assert_string_equal(task->reason, "it does not work");
    assert_string_equal(task->reason_class, "refused");
    assert_string_equal(retry_fixture_outcome(again), "done");
}

static void any_failure_may_go_straight_to_the_history(void **state)
{
    struct task *task = failing("mail", NULL, 1);

    (void)state;
    retry_fixture_scene("mail", "{\"stop\": [\"transient\", \"refused\", \"ours\"]}", NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(1000));
    assert_string_equal(retry_fixture_outcome(task), "exhausted");
    assert_int_equal(task->runs, 1);
}

static void a_snooze_costs_no_attempt(void **state)
{
    struct task *task = failing("mail", NULL, 9);

    (void)state;
    task->end = ATTEMPT_SNOOZED;
    task->delay_ms = 150;
    retry_fixture_scene("mail", SOON "}", NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(5000));
    assert_int_equal(task->runs, 10);
    assert_int_equal(task->base.old.attempts, 0);
    assert_string_equal(retry_fixture_outcome(task), "done");
}

static void a_handler_may_say_when_and_that_it_is_over(void **state)
{
    struct task *later = failing("mail", NULL, 1);
    struct task *never = failing("mail", NULL, 9);

    (void)state;
    later->delay_ms = 700;
    never->end = ATTEMPT_REJECTED;
    host_start(0);
    retry_fixture_run(600);
    assert_int_equal(later->runs, 1);
    assert_string_equal(retry_fixture_outcome(never), "exhausted");
    assert_string_equal(never->reason, "rejected: it does not work");
    assert_true(retry_fixture_drain(500));
}

static void a_cut_attempt_costs_nothing_and_is_made_again(void **state)
{
    struct task *task = failing("mail", NULL, 5);

    (void)state;
    task->end = ATTEMPT_CUT;
    retry_fixture_scene("mail", SOON "}", NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(3000));
    assert_int_equal(task->runs, 6);
    assert_int_equal(task->base.old.attempts, 0);
}

static void the_relays_refused_rows_block_and_are_tried_on(void **state)
{
    struct task *task = failing("publish", "topic/a", 100);

    (void)state;
    task->fault = FAULT_CLASS_REFUSED;
    task->delay_ms = 10;
    host_start(0);
    retry_fixture_run(3000);
    assert_int_equal(retry_fixture_state(task), TASK_BLOCKED);
    assert_int_equal(task->runs, 6);
}

static void callbacks_are_made_when_it_is_over(void **state)
{
    struct task *done = retry_fixture_task("mail", NULL);
    struct task *over = failing("mail", NULL, 9);

    (void)state;
    over->end = ATTEMPT_REJECTED;
    retry_fixture_scene("mail",
                        "{\"on_done\": {\"scene\": \"told\", \"handler\": \"http\"}, "
                        "\"on_exhausted\": {\"scene\": \"sorry\", \"handler\": \"exec\"}}",
                        NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(1000));
    assert_string_equal(done->callback,
                        "told http {\"taskId\":1,\"group\":\"default\",\"scene\":\"mail\","
                        "\"bizNo\":null,\"orderingKey\":null,\"idempotencyKey\":\"00ff\","
                        "\"outcome\":\"done\",\"attempts\":0,\"reasonClass\":\"\","
                        "\"reason\":\"\",\"by\":null,\"paramsType\":\"application/json\","
                        "\"params\":{},\"result\":null}");
    assert_string_equal(over->callback,
                        "sorry exec {\"taskId\":2,\"group\":\"default\",\"scene\":\"mail\","
                        "\"bizNo\":null,\"orderingKey\":null,\"idempotencyKey\":\"00ff\","
                        "\"outcome\":\"exhausted\",\"attempts\":1,"
                        "\"reasonClass\":\"refused\",\"reason\":\"rejected: it does not work\","
                        "\"by\":null,\"paramsType\":\"application/json\","
                        "\"params\":{},\"result\":null}");
}

static void fail_once_in_step_two(struct task *task)
{
    if (task->base.old.step == 2 && task->fail_runs == 0)
        task->fail_runs = task->runs;
}

static void steps_continue_where_they_failed_with_the_previous_result(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    task->steps = 3;
    task->meanwhile = fail_once_in_step_two;
    retry_fixture_scene("mail", SOON "}", NULL, false);
    host_start(0);
    retry_fixture_run(200);
    assert_int_equal(task->base.old.step, 2);
    assert_int_equal(task->base.old.attempts, 1);
    assert_true(retry_fixture_drain(2000));
    assert_int_equal(task->runs, 5);
    assert_int_equal(task->base.old.step, 3);
    assert_string_equal(task->seen_result, "step 2");
    assert_int_equal(task->base.old.attempts, 0);
}

static void options_are_the_scenes_with_the_tasks_on_top(void **state)
{
    struct task *plain = retry_fixture_task("mail", NULL);
    struct task *own = retry_fixture_task("mail", NULL);
    struct task *alone = retry_fixture_task("else", NULL);

    (void)state;
    snprintf(own->options, sizeof(own->options), "{\"b\": 3, \"c\": 4}");
    snprintf(alone->options, sizeof(alone->options), "{\"d\": 5}");
    retry_fixture_scene("mail", NULL, "{\"a\": 1, \"b\": 2}", false);
    host_start(0);
    assert_true(retry_fixture_drain(1000));
    assert_string_equal(plain->seen_options, "{\"a\": 1, \"b\": 2}");
    assert_string_equal(own->seen_options, "{\"a\":1,\"b\":3,\"c\":4}");
    assert_string_equal(alone->seen_options, "{\"d\": 5}");
}

static void options_that_are_rubbish_are_refused_and_not_run(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    snprintf(task->options, sizeof(task->options), "{\"a\": ");
    retry_fixture_scene("mail", NULL, "{\"a\": 1}", false);
    host_start(0);
    assert_true(retry_fixture_drain(1000));
    assert_int_equal(task->runs, 0);
    assert_string_equal(retry_fixture_outcome(task), "exhausted");
    assert_true(strstr(task->reason, "options are a JSON object") != NULL);
}

static void a_deadline_ends_a_task_with_any_number_of_attempts(void **state)
{
    struct task *task = failing("mail", NULL, 100);

    (void)state;
    retry_fixture_scene(
        "mail", "{\"wait\": \"fixed 300ms\", \"attempts\": 0, \"deadline\": \"2s\"}", NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(4000));
    assert_in_range(task->runs, 5, 8);
    assert_string_equal(task->reason, "deadline: it does not work");
}

/* No client of its group is there: nothing is called, up to the deadline. */
static void a_wait_for_a_client_keeps_no_attempt_whatever_its_end(void **state)
{
    struct task *task = failing("mail", NULL, 100);

    (void)state;
    task->end = ATTEMPT_SNOOZED;
    task->waits = true;
    task->delay_ms = 300;
    retry_fixture_scene("mail", "{\"deadline\": \"2s\"}", NULL, false);
    host_start(0);
    assert_true(retry_fixture_drain(4000));
    assert_in_range(task->runs, 5, 8);
    assert_string_equal(task->reason, "deadline: it does not work");
    assert_int_equal(task->base.old.attempts, 0);
    assert_int_equal(task->base.old.snoozed_rows, 0);
}

static void attempts_are_counted_by_scene_and_outcome(void **state)
{
    struct retry_scene_metrics *metrics = retry_metrics_of("default", "counted");
    struct task *task = failing("counted", NULL, 2);
    struct task *over = failing("counted", NULL, 100);

    (void)state;
    task->end = ATTEMPT_SNOOZED;
    over->end = ATTEMPT_REJECTED;
    host_start(0);
    assert_true(retry_fixture_drain(2000));
    assert_int_equal(metric_value(&metrics->attempts[ATTEMPT_DONE]), 1);
    assert_int_equal(metric_value(&metrics->attempts[ATTEMPT_SNOOZED]), 2);
    assert_int_equal(metric_value(&metrics->attempts[ATTEMPT_REJECTED]), 1);
    assert_int_equal(metric_value(&metrics->attempts[ATTEMPT_FAILED]), 0);
    assert_int_equal(metric_value(&metrics->exhausted), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_that_works_is_run_once_and_kept_for_a_while),
        TEST(done_tasks_are_kept_as_the_policy_says),
        TEST(a_failed_task_is_tried_again_at_the_time_of_its_rule),
        TEST(an_exhausted_task_without_a_key_goes_into_the_history),
        TEST(exhaustion_may_block_a_key_and_no_other),
        TEST(exhaustion_may_park_a_key),
        TEST(exhaustion_may_be_skipped),
        TEST(tasks_of_a_key_run_in_order_also_across_hosts),
        TEST(a_refusal_exhausts_at_once_unless_the_scene_retries_it),
        TEST(any_failure_may_go_straight_to_the_history),
        TEST(a_snooze_costs_no_attempt),
        TEST(a_handler_may_say_when_and_that_it_is_over),
        TEST(a_cut_attempt_costs_nothing_and_is_made_again),
        TEST(the_relays_refused_rows_block_and_are_tried_on),
        TEST(callbacks_are_made_when_it_is_over),
        TEST(steps_continue_where_they_failed_with_the_previous_result),
        TEST(options_are_the_scenes_with_the_tasks_on_top),
        TEST(options_that_are_rubbish_are_refused_and_not_run),
        TEST(a_deadline_ends_a_task_with_any_number_of_attempts),
        TEST(a_wait_for_a_client_keeps_no_attempt_whatever_its_end),
        TEST(attempts_are_counted_by_scene_and_outcome),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
