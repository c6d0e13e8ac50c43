/* SPDX-License-Identifier: MIT */
/* First tries on a fake store: which tasks begin, what is answered, and what is left after a kill
 * or a stop at any place. */
#include "common/log.h"
#include "tests/flow/retry_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define MAIL ((struct retry_new_task){.scene = "mail", .handler = "test"})

static int set_up(void **state)
{
    (void)state;
    retry_fixture_reset(1);
    retry_fixture_scene("mail", "{\"wait\": \"fixed 5s\", \"lease\": \"5s\"}", NULL, false);
    return 0;
}

static struct task *last_task(void)
{
    return retry_fixture_find((int64_t)fixture.count);
}

static struct first_try_result try_one(const struct retry_new_task *task)
{
    struct first_try_result result;

    assert_int_equal(retry_fixture_try(0, task, &result), RC_OK);
    return result;
}

/* It is made, waits, and was not claimed. */
static void expect_not_tried(const struct retry_new_task *task, const char *reason)
{
    struct first_try_result result = try_one(task);

    assert_false(result.begun);
    if (!strstr(result.reason, reason))
        fail_msg("the reason is \"%s\", not \"%s\"", result.reason, reason);
    assert_int_equal(result.ticket.id, last_task()->base.id);
    assert_int_equal(retry_fixture_state(last_task()), TASK_WAITING);
    assert_int_equal(last_task()->base.old.epoch, 0);
}

static void a_task_that_works_is_done_and_answered(void **state)
{
    struct host *host = &fixture.hosts[0];
    struct first_try_result result;

    (void)state;
    host_start_trying(0, 2);
    result = try_one(&MAIL);
    assert_true(result.begun);
    /* What a kill now leaves is a running task with a lease. */
    assert_int_equal(retry_fixture_state(last_task()), TASK_RUNNING);
    assert_int_equal(last_task()->base.old.lease_until_ms, fixture.now_ms + 5000);
    assert_ptr_equal(last_task()->base.old.owner, host);
    retry_fixture_run(200);
    assert_int_equal(host->ends, 1);
    assert_true(host->ended.tried);
    assert_string_equal(host->ended.outcome, "done");
    assert_int_equal(host->ended.ticket.id, result.ticket.id);
    assert_string_equal(retry_fixture_outcome(last_task()), "done");
    assert_int_equal(last_task()->runs, 1);
    assert_int_equal(last_task()->seen_attempt, 1);
}

static void a_task_that_fails_waits_for_a_retry_process(void **state)
{
    struct host *host = &fixture.hosts[0];

    (void)state;
    fixture.make_fail_runs = 1;
    host_start_trying(0, 2);
    try_one(&MAIL);
    retry_fixture_run(200);
    assert_true(host->ended.tried);
    assert_string_equal(host->ended.outcome, "");
    assert_true(host->ended.state_known);
    assert_int_equal(host->ended.state, TASK_WAITING);
    assert_int_equal(host->ended.attempts, 1);
    assert_string_equal(host->ended.reason_class, "transient");
    assert_string_equal(host->ended.reason, "it does not work");
    /* The clock of the database is ahead of that of the fixture. */
    assert_int_equal(host->ended.next_ms - INT64_C(1700000000000), last_task()->base.old.next_ms);
    host_start(1);
    assert_true(retry_fixture_drain(20000));
    assert_int_equal(last_task()->runs, 2);
    assert_int_equal(last_task()->done, 1);
}

static void an_exhausted_task_is_answered_so(void **state)
{
    struct host *host = &fixture.hosts[0];
    struct retry_new_task task = MAIL;

    (void)state;
    retry_fixture_scene("mail", "{\"attempts\": 1, \"exhausted\": \"park\"}", NULL, false);
    fixture.make_fail_runs = 9;
    host_start_trying(0, 2);
    try_one(&task);
    retry_fixture_run(200);
    assert_string_equal(host->ended.outcome, "exhausted");
    task.ordering_key = "k";
    try_one(&task);
    retry_fixture_run(200);
    assert_string_equal(host->ended.outcome, "exhausted");
    assert_int_equal(retry_fixture_state(last_task()), TASK_PARKED);
    retry_fixture_scene("mail", "{\"attempts\": 1, \"exhausted\": \"block\"}", NULL, false);
    retry_fixture_run(1100);
    task.ordering_key = "other";
    try_one(&task);
    retry_fixture_run(200);
    assert_string_equal(host->ended.outcome, "");
    assert_int_equal(host->ended.state, TASK_BLOCKED);
    assert_int_equal(retry_fixture_state(last_task()), TASK_BLOCKED);
}

static void tasks_of_a_key_keep_their_order(void **state)
{
    struct retry_new_task task = MAIL;
    struct first_try_result result;

    (void)state;
    task.ordering_key = "k";
    retry_fixture_task("mail", "k");
    host_start_trying(0, 2);
    result = try_one(&task);
    assert_false(result.begun);
    assert_non_null(strstr(result.reason, "ordering key"));
    assert_int_equal(retry_fixture_state(last_task()), TASK_QUEUED);
    task.ordering_key = "other";
    assert_true(try_one(&task).begun);
    /* And while it runs, the next one of its key waits. */
    assert_false(try_one(&task).begun);
    host_start(1);
    assert_true(retry_fixture_drain(20000));
    for (int64_t id = 1; id <= 4; id++)
        assert_int_equal(retry_fixture_find(id)->done, 1);
}

static void what_a_dispatcher_would_not_claim_is_not_tried(void **state)
{
    struct retry_new_task task = MAIL;

    (void)state;
    retry_fixture_scene("still", NULL, NULL, true);
    retry_fixture_scene("rated", "{\"rate\": \"5/s burst 5\"}", NULL, false);
    retry_fixture_scene("slow", "{\"first_wait\": \"5s\"}", NULL, false);
    retry_fixture_scene("bad", "{\"atempts\": 5}", NULL, false);
    host_start_trying(0, 2);
    task.scene = "still";
    expect_not_tried(&task, "paused");
    task.scene = "rated";
    expect_not_tried(&task, "rate");
    task.scene = "slow";
    expect_not_tried(&task, "first_wait");
    task.scene = "bad";
    expect_not_tried(&task, "cannot be read");
    task = MAIL;
    task.delay_ms = 50;
    expect_not_tried(&task, "not due");
    task = MAIL;
    task.handler = "other";
    expect_not_tried(&task, "handler other");
    task.handler = "test";
    task.options = "{\"later\": 1}";
    expect_not_tried(&task, "not now");
    task.options = "[]";
    retry_fixture_scene("mail", NULL, "{\"to\": 5}", false);
    retry_fixture_run(1100);
    expect_not_tried(&task, "JSON object");
    retry_fixture_group(RETRY_GROUP_DEFAULT)->enabled = false;
    retry_fixture_run(1100);
    expect_not_tried(&MAIL, "disabled");
    retry_fixture_group(RETRY_GROUP_DEFAULT)->enabled = true;
    snprintf(retry_fixture_group(RETRY_GROUP_DEFAULT)->scenes, RETRY_GROUP_LIST_SIZE, "note");
    retry_fixture_run(1100);
    expect_not_tried(&MAIL, "does not allow");
    task = MAIL;
    task.idempotency_key = "1";
    assert_string_equal(try_one(&task).reason, "a task with its idempotency key existed already");
    assert_int_equal(fixture.hosts[0].ends, 0);
}

/* The scene is read once a second; the claim finds a change before that. */
static void a_changed_scene_gives_the_task_back(void **state)
{
    struct host *host = &fixture.hosts[0];

    (void)state;
    host_start_trying(0, 2);
    try_one(&MAIL);
    retry_fixture_run(100);
    retry_fixture_scene("mail", NULL, NULL, true);
    assert_true(try_one(&MAIL).begun);
    retry_fixture_run(100);
    assert_int_equal(host->ends, 2);
    assert_false(host->ended.tried);
    assert_non_null(strstr(host->ended.reason, "scene has changed"));
    assert_int_equal(last_task()->runs, 0);
    assert_int_equal(retry_fixture_state(last_task()), TASK_WAITING);
    expect_not_tried(&MAIL, "paused");
}

static void a_duplicate_of_an_ended_task_is_not_run(void **state)
{
    struct host *host = &fixture.hosts[0];

    (void)state;
    fixture.make_duplicate_of = 77;
    host_start_trying(0, 2);
    try_one(&MAIL);
    retry_fixture_run(100);
    assert_string_equal(host->ended.outcome, "cancelled");
    assert_false(host->ended.tried);
    assert_string_equal(retry_fixture_outcome(last_task()), "duplicate");
    assert_int_equal(last_task()->runs, 0);
}

static void an_open_breaker_lets_one_probe_pass_later(void **state)
{
    struct host *host = &fixture.hosts[0];
    struct retry_new_task task = MAIL;

    (void)state;
    task.options = "{\"to\":\"here\"}";
    fixture.make_fail_runs = 1;
    host_start_trying(0, 2);
    for (int i = 0; i < DESTINATION_FAILURES; i++) {
        assert_true(try_one(&task).begun);
        retry_fixture_run(20);
    }
    expect_not_tried(&task, "circuit breaker");
    fixture.make_fail_runs = 0;
    for (int i = 0; i < 100 && !try_one(&task).begun; i++)
        retry_fixture_run(1000);
    retry_fixture_run(100);
    assert_string_equal(host->ended.outcome, "done");
    assert_true(try_one(&task).begun);
}

/* As Invariant Q8 of the fair queue. */
static void the_last_thread_is_for_another_scene(void **state)
{
    struct retry_new_task task = MAIL;

    (void)state;
    fixture.make_takes_ms = 1000;
    fixture.hosts[0].timed = true;
    retry_fixture_scene("one", "{\"threads\": 1}", NULL, false);
    host_start_trying(0, 3);
    assert_true(try_one(&MAIL).begun);
    assert_true(try_one(&MAIL).begun);
    expect_not_tried(&MAIL, "no thread");
    task.scene = "one";
    assert_true(try_one(&task).begun);
    expect_not_tried(&task, "no thread");
    for (int i = 0; i < 50 && fixture.hosts[0].ends < 3; i++)
        retry_fixture_run(100);
    assert_int_equal(fixture.hosts[0].ends, 3);
    assert_true(try_one(&task).begun);
    expect_not_tried(&task, "no thread");
    fixture.hosts[0].timed = false;
}

/* A process is killed with a claimed task, before and after its run. */
static void a_killed_process_leaves_a_task_that_is_rescued(void **state)
{
    (void)state;
    host_start_trying(0, 2);
    try_one(&MAIL);
    host_kill(0);
    host_start(1);
    retry_fixture_run(3000);
    assert_int_equal(retry_fixture_state(last_task()), TASK_RUNNING);
    assert_true(retry_fixture_drain(20000));
    assert_int_equal(last_task()->done, 1);
    assert_int_equal(last_task()->seen_attempt, 1);
    host_kill(1);

    fixture.hosts[0].timed = true;
    fixture.make_takes_ms = 100000;
    host_start_trying(0, 2);
    try_one(&MAIL);
    retry_fixture_run(100);
    assert_int_equal(last_task()->runs, 1);
    host_kill(0);
    fixture.hosts[0].timed = false;
    host_start(1);
    assert_true(retry_fixture_drain(20000));
    assert_int_equal(last_task()->runs, 2);
    assert_int_equal(last_task()->done, 1);
}

static void a_stop_gives_back_what_has_not_begun(void **state)
{
    struct host *host = &fixture.hosts[0];

    (void)state;
    host->slow = true;
    host_start_trying(0, 2);
    try_one(&MAIL);
    assert_true(host_stop(0, 500));
    host->slow = false;
    assert_int_equal(host->ends, 1);
    assert_false(host->ended.tried);
    assert_string_equal(host->ended.reason, "the process stops");
    assert_int_equal(retry_fixture_state(last_task()), TASK_WAITING);
    assert_int_equal(last_task()->base.old.attempts, 0);
}

/* The try has worked, and its result cannot be written for a while, or the answer is lost. */
static void a_result_is_answered_when_it_is_written(void **state)
{
    struct host *host = &fixture.hosts[0];

    (void)state;
    host_start_trying(0, 2);
    retry_fixture_fail_next(FAKE_TASKS_FINISH, 3);
    try_one(&MAIL);
    retry_fixture_run(20);
    assert_int_equal(host->ends, 0);
    assert_int_equal(retry_fixture_state(last_task()), TASK_RUNNING);
    retry_fixture_run(3000);
    assert_int_equal(host->ends, 1);
    assert_string_equal(host->ended.outcome, "done");

    fixture.answers_lost = true;
    retry_fixture_fail_next(FAKE_TASKS_FINISH, 1);
    try_one(&MAIL);
    retry_fixture_run(3000);
    assert_int_equal(host->ends, 2);
    assert_string_equal(host->ended.outcome, "");
    assert_false(host->ended.state_known);
    assert_non_null(strstr(host->ended.reason, "read the task"));
    assert_string_equal(retry_fixture_outcome(last_task()), "done");
}

/* The lease ends while the process cannot renew it, and another one takes the task. */
static void a_try_that_lost_its_lease_writes_nothing(void **state)
{
    struct host *host = &fixture.hosts[0];
    struct task *task;

    (void)state;
    host->timed = true;
    fixture.make_takes_ms = 30000;
    host_start_trying(0, 2);
    try_one(&MAIL);
    task = last_task();
    host->frozen = true;
    host_start(1);
    retry_fixture_run(20000);
    assert_int_equal(task->finishes, 1);
    assert_string_equal(retry_fixture_outcome(task), "done");
    host->frozen = false;
    retry_fixture_run(20000);
    assert_int_equal(host->ends, 1);
    assert_string_equal(host->ended.outcome, "");
    assert_false(host->ended.state_known);
    assert_non_null(strstr(host->ended.reason, "another process"));
    assert_int_equal(task->finishes, 1);
    host->timed = false;
}

/* The database is away at each call in turn, or its answer is lost. A repeated request finds the
 * task or makes it; nothing runs twice at a time. */
static void each_call_may_fail(void **state)
{
    static const enum fake_task_op ops[] = {FAKE_TASKS_SCENES, FAKE_TASKS_GROUPS, FAKE_TASKS_MAKE};

    (void)state;
    for (size_t lost = 0; lost < 2; lost++)
        for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
            struct first_try_result result;
            size_t made;

            set_up(NULL);
            host_start_trying(0, 2);
            fixture.answers_lost = lost == 1;
            retry_fixture_fail_next(ops[i], 1);
            assert_int_equal(retry_fixture_try(0, &MAIL, &result), RC_RETRY);
            made = fixture.count;
            assert_int_equal(made, lost == 1 && ops[i] == FAKE_TASKS_MAKE);
            assert_true(first_tries_left(&fixture.hosts[0].tries));
            assert_true(try_one(&MAIL).begun);
            host_start(1);
            assert_true(retry_fixture_drain(20000));
            for (size_t id = 1; id <= fixture.count; id++)
                assert_int_equal(retry_fixture_find((int64_t)id)->done, 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_task_that_works_is_done_and_answered, set_up, set_up),
        cmocka_unit_test_setup_teardown(a_task_that_fails_waits_for_a_retry_process, set_up,
                                        set_up),
        cmocka_unit_test_setup_teardown(an_exhausted_task_is_answered_so, set_up, set_up),
        cmocka_unit_test_setup_teardown(tasks_of_a_key_keep_their_order, set_up, set_up),
        cmocka_unit_test_setup_teardown(what_a_dispatcher_would_not_claim_is_not_tried, set_up,
                                        set_up),
        cmocka_unit_test_setup_teardown(a_changed_scene_gives_the_task_back, set_up, set_up),
        cmocka_unit_test_setup_teardown(a_duplicate_of_an_ended_task_is_not_run, set_up, set_up),
        cmocka_unit_test_setup_teardown(an_open_breaker_lets_one_probe_pass_later, set_up, set_up),
        cmocka_unit_test_setup_teardown(the_last_thread_is_for_another_scene, set_up, set_up),
        cmocka_unit_test_setup_teardown(a_killed_process_leaves_a_task_that_is_rescued, set_up,
                                        set_up),
        cmocka_unit_test_setup_teardown(a_stop_gives_back_what_has_not_begun, set_up, set_up),
        cmocka_unit_test_setup_teardown(a_result_is_answered_when_it_is_written, set_up, set_up),
        cmocka_unit_test_setup_teardown(a_try_that_lost_its_lease_writes_nothing, set_up, set_up),
        cmocka_unit_test_setup_teardown(each_call_may_fail, set_up, set_up),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
