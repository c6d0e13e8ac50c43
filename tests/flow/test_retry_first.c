/* SPDX-License-Identifier: MIT */
/* What becomes of a task at its first claim: the wait before its first attempt, and the end of a
 * duplicate, on a fake store. */
#include "tests/flow/retry_fixture.h"

#include "common/log.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static int set_up(void **state)
{
    (void)state;
    retry_fixture_reset(1);
    return 0;
}

/* The wait is no attempt, and it holds up the later tasks of its key. */
static void a_first_attempt_waits_until_the_task_is_old_enough(void **state)
{
    struct task *task;
    struct task *next;

    (void)state;
    retry_fixture_scene("mail", "{\"first_wait\": \"5s\"}", NULL, false);
    task = retry_fixture_task("mail", "key");
    next = retry_fixture_task("mail", "key");
    task->fail_runs = 1;
    host_start(0);
    retry_fixture_run(4000);
    assert_int_equal(task->runs, 0);
    assert_int_equal(task->claims, 1);
    assert_true(task->base.old.waited);
    assert_int_equal(task->base.old.attempts, 0);
    assert_int_equal(retry_fixture_state(next), TASK_QUEUED);
    retry_fixture_run(3000);
    assert_int_equal(task->runs, 1);
    assert_int_equal(task->seen_attempt, 1);
    assert_int_equal(task->base.old.attempts, 1);
    assert_int_equal(next->runs, 0);
    /* The next task is old enough already, and so is the second attempt. */
    assert_true(retry_fixture_drain(61000 + 2000));
    assert_int_equal(task->runs, 2);
    assert_int_equal(next->runs, 1);
}

/* Neither a kill nor a lost answer skips the wait or makes it longer. */
static void a_first_wait_is_neither_skipped_nor_repeated_after_a_kill(void **state)
{
    struct task *task;

    (void)state;
    retry_fixture_scene("mail", "{\"first_wait\": \"40s\", \"lease\": \"5s\"}", NULL, false);
    task = retry_fixture_task("mail", NULL);
    host_start(0);
    retry_fixture_fail_next(FAKE_TASKS_FINISH, SIZE_MAX / 2);
    retry_fixture_run(2000);
    assert_int_equal(task->claims, 1);
    assert_false(task->base.old.waited);
    host_kill(0);
    fixture.fail_count = 0;
    host_start(1);
    retry_fixture_run(20000);
    assert_true(task->base.old.waited);
    assert_int_equal(task->runs, 0);
    retry_fixture_run(16000);
    assert_int_equal(task->runs, 0);
    assert_true(retry_fixture_drain(5000));
    assert_int_equal(task->base.old.first_waits, 1);
    assert_int_equal(task->runs, 1);
}

/* Put off for its first wait, a task uses no rate. */
static void a_first_wait_uses_no_rate(void **state)
{
    (void)state;
    retry_fixture_scene("mail", "{\"first_wait\": \"random 2s 3s\", \"rate\": \"1/s burst 40\"}",
                        NULL, false);
    for (size_t i = 0; i < 40; i++)
        retry_fixture_task("mail", NULL);
    host_start(0);
    retry_fixture_run(1900);
    assert_int_equal(retry_fixture_count(-1), 0);
    assert_true(retry_fixture_drain(3000));
}

/* An application made it by a plain INSERT while the key of an ended task is still refused. */
static void a_duplicate_of_an_ended_task_does_not_run(void **state)
{
    struct task *task;
    struct task *next;

    (void)state;
    retry_fixture_scene(
        "mail", "{\"dedup\": \"2h\", \"keep_done\": \"1h\", \"first_wait\": \"1m\"}", NULL, false);
    task = retry_fixture_task("mail", "key");
    task->duplicate_of = 17;
    next = retry_fixture_task("mail", "key");
    host_start(0);
    retry_fixture_run(2000);
    assert_int_equal(task->runs, 0);
    assert_string_equal(retry_fixture_outcome(task), "duplicate");
    assert_int_equal(task->base.old.attempts, 0);
    assert_string_equal(task->reason_class, "refused");
    assert_non_null(strstr(task->reason, "duplicate: task 17 had the same idempotency key"));
    assert_int_equal(task->base.old.dedup_until_ms, 0);
    /* Its key continues, and the history keeps a task for as long as its key is refused. */
    assert_true(retry_fixture_drain(70000));
    assert_string_equal(retry_fixture_outcome(next), "done");
    assert_true(next->base.old.dedup_until_ms >= fixture.now_ms + 7190000);
    assert_int_equal(next->base.old.keep_until_ms, next->base.old.dedup_until_ms);
}

static void an_exhausted_task_refuses_its_key_and_a_blocked_one_does_not_end(void **state)
{
    struct task *task;

    (void)state;
    retry_fixture_scene("mail", "{\"dedup\": \"2h\", \"attempts\": 1, \"exhausted\": \"skip\"}",
                        NULL, false);
    retry_fixture_scene("note", "{\"dedup\": \"2h\", \"attempts\": 1}", NULL, false);
    task = retry_fixture_task("mail", "key");
    task->fail_runs = 1;
    retry_fixture_task("note", "other")->fail_runs = 1;
    host_start(0);
    retry_fixture_run(2000);
    assert_string_equal(retry_fixture_outcome(task), "exhausted");
    assert_true(task->base.old.dedup_until_ms > 0);
    assert_int_equal(retry_fixture_count(TASK_BLOCKED), 1);
    assert_int_equal(retry_fixture_find(task->base.id + 1)->base.old.dedup_until_ms, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_first_attempt_waits_until_the_task_is_old_enough),
        TEST(a_first_wait_is_neither_skipped_nor_repeated_after_a_kill),
        TEST(a_first_wait_uses_no_rate),
        TEST(a_duplicate_of_an_ended_task_does_not_run),
        TEST(an_exhausted_task_refuses_its_key_and_a_blocked_one_does_not_end),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
