/* SPDX-License-Identifier: MIT */
/* Failures of the retry queue, on a fake store: leases that run out, kills, stops, and every call
 * made to fail before and after it was done. */
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

static int set_up(void **state)
{
    (void)state;
    retry_fixture_reset(1);
    return 0;
}

static void many(const char *scene, size_t count)
{
    for (size_t i = 0; i < count; i++)
        retry_fixture_task(scene, NULL);
}

static size_t running(void)
{
    return retry_fixture_count(TASK_RUNNING);
}

static void leases_of_tasks_in_flight_are_kept(void **state)
{
    (void)state;
    retry_fixture_scene("mail", "{\"lease\": \"2s\"}", NULL, false);
    many("mail", 5);
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(300);
    host_start(1);
    retry_fixture_run(20000);
    assert_int_equal(running(), 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(fixture.tasks[i].claims, 1);
    fixture.hosts[0].slow = false;
    assert_true(retry_fixture_drain(500));
}

static void a_task_whose_lease_has_lapsed_is_not_begun_and_comes_back(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", "{\"lease\": \"2s\"}", NULL, false);
    fixture.hosts[0].slow = true;
    fixture.hosts[0].frozen = true;
    host_start(0);
    retry_fixture_run(1900);
    assert_int_equal(retry_fixture_state(task), TASK_RUNNING);
    fixture.hosts[0].slow = false;
    /* Given back by its own process, or rescued: it is run under another claim. */
    assert_true(retry_fixture_drain(3000));
    assert_int_equal(task->claims, 2);
    assert_int_equal(task->runs, 1);
    assert_int_equal(task->base.old.attempts, 0);
}

static void a_killed_process_leaves_its_tasks_for_a_lease_and_a_rescue(void **state)
{
    (void)state;
    retry_fixture_scene("mail", "{\"lease\": \"2s\"}", NULL, false);
    many("mail", 25);
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(300);
    assert_int_equal(running(), 25);
    host_kill(0);
    many("mail", 40);
    host_start(1);
    retry_fixture_run(500);
    /* Others are not held up meanwhile. */
    assert_int_equal(retry_fixture_count(-1), 40);
    assert_true(retry_fixture_drain(2000 + 1000 + 200));
    for (size_t i = 0; i < 25; i++) {
        assert_int_equal(fixture.tasks[i].runs, 1);
        assert_int_equal(fixture.tasks[i].base.old.attempts, 0);
    }
}

static void taken_by_somebody_else(struct task *task)
{
    task->base.now.epoch++;
    retry_fixture_save(task);
    task->meanwhile = NULL;
}

static void the_result_of_a_lost_task_is_not_written(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);
    int64_t lost = metric_value(&retry_lost);

    (void)state;
    task->meanwhile = taken_by_somebody_else;
    host_start(0);
    retry_fixture_run(500);
    assert_int_equal(retry_fixture_state(task), TASK_RUNNING);
    assert_int_equal(task->finishes, 0);
    assert_int_equal(metric_value(&retry_lost), lost + 1);
    assert_true(dispatcher_left(&fixture.hosts[0].dispatcher));
    task->base.now.lease_until_ms = 0;
    retry_fixture_save(task);
    assert_true(retry_fixture_drain(3000));
    assert_int_equal(task->runs, 2);
}

/* Time passes while the handler works; the lease renewer is another thread. */
static void pass_time(int64_t ms)
{
    struct host *host = &fixture.hosts[0];

    for (int64_t until_ms = fixture.now_ms + ms; fixture.now_ms < until_ms; fixture.now_ms++)
        if (fixture.now_ms >= host->lease_renewer_due_ms)
            host->lease_renewer_due_ms =
                fixture.now_ms + lease_renewer_step(&host->renewer, fixture.now_ms);
}

static void work_for_ten_leases(struct task *task)
{
    for (int i = 0; i < 100; i++) {
        pass_time(100);
        assert_true(atomic_load(task->lease_until_ms) > fixture.now_ms);
    }
}

static void an_attempt_sees_its_lease_renewed_while_it_runs(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", "{\"lease\": \"1s\"}", NULL, false);
    task->meanwhile = work_for_ten_leases;
    host_start(0);
    assert_true(retry_fixture_drain(1000));
    assert_int_equal(task->claims, 1);
    assert_int_equal(task->runs, 1);
}

static void is_lost_meanwhile(struct task *task)
{
    pass_time(100);
    assert_true(atomic_load(task->lease_until_ms) > fixture.now_ms);
    taken_by_somebody_else(task);
    pass_time(400);
    assert_int_equal(atomic_load(task->lease_until_ms), 0);
}

static void an_attempt_sees_that_its_lease_is_lost(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", "{\"lease\": \"1s\"}", NULL, false);
    task->meanwhile = is_lost_meanwhile;
    host_start(0);
    retry_fixture_run(200);
    assert_int_equal(task->runs, 1);
    assert_int_equal(task->finishes, 0);
}

/* No renewal comes through: the time is not moved on. */
static void runs_out_meanwhile(struct task *task)
{
    int64_t until_ms = atomic_load(task->lease_until_ms);

    fixture.hosts[0].frozen = true;
    pass_time(3000);
    assert_true(atomic_load(task->lease_until_ms) <= until_ms);
    assert_true(until_ms <= fixture.now_ms);
    fixture.hosts[0].frozen = false;
    task->meanwhile = NULL;
}

static void an_attempt_sees_that_its_lease_is_not_renewed(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", "{\"lease\": \"1s\"}", NULL, false);
    task->meanwhile = runs_out_meanwhile;
    host_start(0);
    retry_fixture_run(100);
    assert_true(task->runs > 0);
}

static void a_task_in_flight_is_recognised_when_it_is_claimed_again(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", "{\"lease\": \"1s\"}", NULL, false);
    host_start(0);
    fixture.hosts[0].slow = true;
    fixture.hosts[0].frozen = true;
    retry_fixture_run(4000);
    /* Rescued by its own process, and claimed again. */
    assert_true(task->claims >= 2);
    fixture.hosts[0].frozen = false;
    fixture.hosts[0].slow = false;
    assert_true(retry_fixture_drain(2500));
    assert_int_equal(task->runs, 1);
    assert_true(dispatcher_left(&fixture.hosts[0].dispatcher));
}

/* An operator edited the task after its lease had ended: the process must not run the version of
 * its first claim. */
static void an_edited_task_in_flight_is_read_again(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", "{\"lease\": \"1s\"}", NULL, false);
    snprintf(task->options, sizeof(task->options), "{\"n\":1}");
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(300);
    assert_int_equal(retry_fixture_state(task), TASK_RUNNING);
    fixture.hosts[0].cut_off = true;
    retry_fixture_run(4000);
    /* Given back by another process, and edited. */
    task->base.now.state = TASK_WAITING;
    task->base.now.epoch++;
    retry_fixture_save(task);
    snprintf(task->options, sizeof(task->options), "{\"n\":2}");
    fixture.hosts[0].cut_off = false;
    retry_fixture_run(3000);
    fixture.hosts[0].slow = false;
    assert_true(retry_fixture_drain(20000));
    assert_non_null(strstr(task->seen_options, "2"));
    assert_int_equal(task->done, 1);
}

static void a_clean_stop_gives_back_and_costs_no_attempt(void **state)
{
    (void)state;
    many("mail", 30);
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(300);
    assert_int_equal(running(), 30);
    assert_true(host_stop(0, 50));
    assert_int_equal(retry_fixture_count(TASK_WAITING), 30);
    host_start(1);
    assert_true(retry_fixture_drain(500));
    for (size_t i = 0; i < 30; i++) {
        assert_int_equal(fixture.tasks[i].runs, 1);
        assert_int_equal(fixture.tasks[i].base.old.attempts, 0);
    }
}

static struct host *stopping;

static void stop_meanwhile(struct task *task)
{
    (void)task;
    dispatcher_leave(&stopping->dispatcher);
}

static void a_failure_during_a_stop_costs_no_attempt(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);
    struct task *refused = retry_fixture_task("mail", NULL);

    (void)state;
    stopping = &fixture.hosts[0];
    task->meanwhile = stop_meanwhile;
    task->fail_runs = 9;
    refused->fail_runs = 9;
    refused->fault = FAULT_CLASS_REFUSED;
    refused->meanwhile = stop_meanwhile;
    host_start(0);
    while (task->runs + refused->runs == 0)
        retry_fixture_run(1);
    assert_true(host_stop(0, 100));
    assert_int_equal(task->base.old.attempts, 0);
    assert_int_equal(retry_fixture_state(task), TASK_WAITING);
    /* A refusal is about the task. */
    assert_int_equal(refused->base.old.attempts, refused->runs);
}

static void a_stop_without_the_database_ends_in_its_time(void **state)
{
    (void)state;
    many("mail", 5);
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(300);
    fixture.hosts[0].cut_off = true;
    assert_false(host_stop(0, 300));
    host_start(1);
    assert_true(retry_fixture_drain(35000));
}

static void a_refused_result_delays_no_other(void **state)
{
    struct task *task;

    (void)state;
    many("mail", 20);
    task = &fixture.tasks[7];
    fixture.refuse_id = task->base.id;
    retry_fixture_scene("mail", "{\"lease\": \"2s\"}", NULL, false);
    host_start(0);
    retry_fixture_run(1000);
    assert_int_equal(retry_fixture_count(-1), 19);
    assert_int_equal(retry_fixture_state(task), TASK_WAITING);
    assert_int_equal(task->base.old.attempts, 1);
    assert_string_equal(task->reason, "the database refuses its update: too long");
    assert_in_range(task->base.old.next_ms - fixture.now_ms, 50000, 60000);
    fixture.refuse_always = true;
    task->base.now.next_ms = fixture.now_ms;
    retry_fixture_save(task);
    retry_fixture_run(1000);
    assert_int_equal(retry_fixture_state(task), TASK_RUNNING);
    assert_true(dispatcher_left(&fixture.hosts[0].dispatcher));
    fixture.refuse_id = 0;
    assert_true(retry_fixture_drain(4000));
}

/* Every task ends, each effect is there, and none is lost into the history. */
static void work_through_trouble(void)
{
    retry_fixture_scene("mail", "{\"lease\": \"2s\", \"wait\": \"fixed 50ms\", \"attempts\": 9}",
                        NULL, false);
    for (size_t i = 0; i < 24; i++)
        retry_fixture_task("mail", i % 3 == 0   ? "a"
                                   : i % 3 == 1 ? "b"
                                                : NULL)
            ->fail_runs = i % 5 == 0;
    host_start(0);
    host_start(1);
    if (!retry_fixture_drain(60000))
        fail_msg("call %zu: %zu tasks are left", fixture.fail_from,
                 fixture.count - retry_fixture_count(-1));
    for (size_t i = 0; i < fixture.count; i++) {
        assert_string_equal(retry_fixture_outcome(&fixture.tasks[i]), "done");
        assert_true(fixture.tasks[i].done >= 1);
    }
    for (size_t i = 0; i < 2; i++) {
        retry_fixture_run(100);
        assert_true(dispatcher_left(&fixture.hosts[i].dispatcher));
    }
}

static void each_call_may_fail_in_turn(void **state)
{
    (void)state;
    for (size_t call = 1; call <= 120; call++) {
        retry_fixture_reset(call);
        fixture.fail_from = call;
        fixture.fail_count = 1 + call % 3;
        work_through_trouble();
    }
}

static void each_answer_may_be_lost_in_turn(void **state)
{
    (void)state;
    for (size_t call = 1; call <= 120; call++) {
        retry_fixture_reset(call);
        fixture.answers_lost = true;
        fixture.fail_from = call;
        fixture.fail_count = 1 + call % 3;
        work_through_trouble();
    }
}

static void a_fatal_error_is_retried_until_it_ends(void **state)
{
    (void)state;
    for (int call = FAKE_TASKS_LOOK; call < FAKE_TASKS_OPS; call++) {
        retry_fixture_reset((uint64_t)call);
        fixture.fail_kind = (enum fake_task_op)call;
        fixture.fail_rc = RC_FATAL;
        fixture.fail_from = 1;
        fixture.fail_count = 2;
        work_through_trouble();
    }
}

static void a_write_back_without_an_answer_is_done_again_without_harm(void **state)
{
    int64_t lost = metric_value(&retry_lost);

    (void)state;
    many("mail", 10);
    fixture.answers_lost = true;
    retry_fixture_fail_next(FAKE_TASKS_FINISH, 3);
    host_start(0);
    assert_true(retry_fixture_drain(1000));
    retry_fixture_run(1000);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(fixture.tasks[i].finishes, 1);
        assert_int_equal(fixture.tasks[i].runs, 1);
    }
    assert_int_equal(metric_value(&retry_lost), lost);
    assert_true(dispatcher_left(&fixture.hosts[0].dispatcher));
}

static void kills_at_any_moment_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        retry_fixture_reset(seed);
        retry_fixture_scene("mail",
                            "{\"lease\": \"1s\", \"wait\": \"random 10ms 90ms\", \"attempts\": 0}",
                            NULL, false);
        for (size_t i = 0; i < 60; i++)
            retry_fixture_task("mail", i % 2 ? NULL : i % 4 ? "a" : "b")->fail_runs = i % 7 == 0;
        for (size_t i = 0; i < FIXTURE_HOSTS; i++)
            host_start(i);
        for (size_t i = 0; i < 6; i++) {
            retry_fixture_run((int64_t)(seed * 7 + i * 13) % 50);
            host_kill((size_t)(seed + i) % FIXTURE_HOSTS);
            host_start((size_t)(seed + i) % FIXTURE_HOSTS);
        }
        assert_true(retry_fixture_drain(60000));
        for (size_t i = 0; i < 60; i++)
            assert_true(fixture.tasks[i].done >= 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(leases_of_tasks_in_flight_are_kept),
        TEST(a_task_whose_lease_has_lapsed_is_not_begun_and_comes_back),
        TEST(a_killed_process_leaves_its_tasks_for_a_lease_and_a_rescue),
        TEST(the_result_of_a_lost_task_is_not_written),
        TEST(an_attempt_sees_its_lease_renewed_while_it_runs),
        TEST(an_attempt_sees_that_its_lease_is_lost),
        TEST(an_attempt_sees_that_its_lease_is_not_renewed),
        TEST(a_task_in_flight_is_recognised_when_it_is_claimed_again),
        TEST(an_edited_task_in_flight_is_read_again),
        TEST(a_clean_stop_gives_back_and_costs_no_attempt),
        TEST(a_failure_during_a_stop_costs_no_attempt),
        TEST(a_stop_without_the_database_ends_in_its_time),
        TEST(a_refused_result_delays_no_other),
        TEST(each_call_may_fail_in_turn),
        TEST(each_answer_may_be_lost_in_turn),
        TEST(a_fatal_error_is_retried_until_it_ends),
        TEST(a_write_back_without_an_answer_is_done_again_without_harm),
        TEST(kills_at_any_moment_lose_nothing),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
