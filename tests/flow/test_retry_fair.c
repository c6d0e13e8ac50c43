/* SPDX-License-Identifier: MIT */
/* The tasks of one scene, or to one destination, do not delay the others. In virtual time, with
 * tasks that occupy their threads. */
#include "tests/flow/retry_fixture.h"

#include "common/log.h"
#include "outbox/retry/retry_metrics.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_MS 5000

static int set_up(void **state)
{
    (void)state;
    retry_fixture_reset(1);
    fixture.hosts[0].timed = true;
    fixture.hosts[0].settings.retry.threads = 4;
    fixture.hosts[0].settings.retry.in_flight_max = 500;
    fixture.hosts[0].settings.retry.batch_rows_max = 100;
    fixture.hosts[0].settings.retry.poll_ms = 200;
    return 0;
}

static void many(const char *scene, size_t count, int64_t takes_ms)
{
    for (size_t i = 0; i < count; i++)
        retry_fixture_task(scene, NULL)->takes_ms = takes_ms;
}

static int by_number(const void *one, const void *other)
{
    const int64_t *a = one;
    const int64_t *b = other;

    return (*a > *b) - (*a < *b);
}

/* Adds a quick task of the scene each second; the p99 of how long one waited for its thread. */
static int64_t wait_p99(const char *scene, size_t seconds)
{
    static int64_t waits_ms[FIXTURE_TASKS_MAX];
    size_t first = fixture.count;

    for (size_t i = 0; i < seconds; i++) {
        many(scene, 1, 10);
        retry_fixture_run(1000);
    }
    retry_fixture_run(1000);
    for (size_t i = 0; i < seconds; i++) {
        const struct task *task = &fixture.tasks[first + i];

        waits_ms[i] =
            (task->runs > 0 ? task->began_ms : fixture.now_ms) - task->base.old.age_from_ms;
    }
    qsort(waits_ms, seconds, sizeof(waits_ms[0]), by_number);
    return waits_ms[seconds * 99 / 100];
}

static void a_slow_scene_does_not_keep_another_one_waiting(void **state)
{
    int64_t free_ms;
    int64_t shared_ms;

    (void)state;
    host_start(0);
    free_ms = wait_p99("quick", 100);
    many("slow", 10000, SLOW_MS);
    retry_fixture_run(2000);
    shared_ms = wait_p99("quick", 100);
    assert_true(shared_ms < free_ms + 1000);
    /* The slow one has all the other threads meanwhile. */
    {
        size_t runs = 0;

        for (size_t i = 100; i < 10100; i++)
            runs += fixture.tasks[i].runs;
        assert_in_range(runs, 3 * 100 / 5, 3 * 104 / 5 + 3);
    }
}

static void two_slow_scenes_leave_a_thread_for_a_third(void **state)
{
    int64_t free_ms;

    (void)state;
    host_start(0);
    free_ms = wait_p99("quick", 60);
    many("slow", 1000, SLOW_MS);
    retry_fixture_run(3000);
    many("sluggish", 1000, SLOW_MS);
    retry_fixture_run(12000);
    assert_true(wait_p99("quick", 60) < free_ms + 1000);
}

static void more_slow_scenes_than_threads_take_turns(void **state)
{
    static const char *const slow[] = {"one", "two", "three", "four", "five", "six"};
    size_t runs[6] = {0};

    (void)state;
    for (size_t i = 0; i < 6; i++)
        many(slow[i], 100, SLOW_MS);
    host_start(0);
    retry_fixture_run(60000);
    for (size_t i = 0; i < 600; i++)
        runs[i / 100] += fixture.tasks[i].runs;
    for (size_t i = 0; i < 6; i++)
        assert_in_range(runs[i], 6, 10);
}

static void a_scene_has_at_most_its_threads(void **state)
{
    size_t most = 0;

    (void)state;
    retry_fixture_scene("slow", "{\"threads\": 2}", NULL, false);
    many("slow", 100, 500);
    host_start(0);
    for (size_t i = 0; i < 3000; i++) {
        size_t now = 0;

        retry_fixture_run(1);
        for (size_t j = 0; j < FIXTURE_WORKERS_MAX; j++)
            now += fixture.hosts[0].occupied[j] != NULL;
        most = now > most ? now : most;
    }
    assert_int_equal(most, 2);
    retry_fixture_scene("slow", "{\"threads\": 1}", NULL, false);
    retry_fixture_run(2000);
    {
        size_t now = 0;

        for (size_t j = 0; j < FIXTURE_WORKERS_MAX; j++)
            now += fixture.hosts[0].occupied[j] != NULL;
        assert_int_equal(now, 1);
    }
}

static void a_task_that_waits_for_a_thread_ages(void **state)
{
    struct retry_scene_metrics *metrics = retry_metrics_of("default", "aging");

    (void)state;
    many("aging", 100, 60000);
    host_start(0);
    retry_fixture_run(2000);
    /* All of them are claimed. */
    assert_int_equal(retry_fixture_count(TASK_WAITING), 0);
    retry_fixture_run(28000);
    assert_in_range(atomic_load(&fixture.hosts[0].pool.oldest_age), 29000, 30000);
    assert_in_range(metric_value(&metrics->oldest_age), 19000, 30000);
}

static void a_pause_gives_back_tasks_that_wait_for_a_thread(void **state)
{
    (void)state;
    many("slow", 100, SLOW_MS);
    host_start(0);
    retry_fixture_run(2000);
    assert_int_equal(retry_fixture_count(TASK_RUNNING), 100);
    retry_fixture_scene("slow", NULL, NULL, true);
    retry_fixture_run(2000);
    assert_int_equal(retry_fixture_count(TASK_RUNNING), 3);
    retry_fixture_run(20000);
    assert_int_equal(retry_fixture_count(TASK_RUNNING), 0);
    assert_int_equal(retry_fixture_count(TASK_WAITING), 97);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(fixture.tasks[i].base.old.attempts, 0);
}

static void send(const char *scene, const char *destination, size_t count, int64_t takes_ms)
{
    for (size_t i = 0; i < count; i++) {
        struct task *task = retry_fixture_task(scene, NULL);

        snprintf(task->options, sizeof(task->options), "{\"to\":\"%s\"}", destination);
        task->takes_ms = takes_ms;
        if (strcmp(destination, "dead") == 0)
            task->fail_runs = 1000000;
    }
}

static size_t sum_of_runs(size_t from, size_t to)
{
    size_t runs = 0;

    for (size_t i = from; i < to; i++)
        runs += fixture.tasks[i].runs;
    return runs;
}

#define TIMEOUT_MS 10000

static void a_dead_destination_does_not_keep_a_living_one_waiting(void **state)
{
    (void)state;
    retry_fixture_scene("mail", "{\"attempts\": 0}", NULL, false);
    send("mail", "dead", 60, TIMEOUT_MS);
    host_start(0);
    retry_fixture_run(1000);
    /* The dead one has three threads by now, each until its time is up. */
    send("mail", "living", 20, 10);
    retry_fixture_run(TIMEOUT_MS + 1000);
    assert_int_equal(sum_of_runs(60, 80), 20);
    /* Nor later on, when its breaker is open. */
    retry_fixture_run(60000);
    assert_int_equal(metric_value(&retry_breakers_open), 1);
    for (size_t i = 0; i < 30; i++) {
        size_t at = fixture.count;

        send("mail", "living", 1, 10);
        retry_fixture_run(1000);
        assert_int_equal(fixture.tasks[at].done, 1);
    }
}

static void tasks_behind_an_open_breaker_cost_no_attempt_and_little_work(void **state)
{
    struct condition *destinations = &fixture.hosts[0].pool.destinations;
    struct err err = {0};
    size_t claims = 0;

    (void)state;
    retry_fixture_scene("mail", "{\"attempts\": 0, \"wait\": \"fixed 1s\"}", NULL, false);
    send("mail", "dead", 3000, 1);
    host_start(0);
    retry_fixture_run(30000);
    assert_true(condition_read(destinations, &err));
    assert_non_null(strstr(err.text, "dead"));
    for (size_t i = 0; i < 3000; i++)
        fixture.tasks[i].claims = 0;
    retry_fixture_run(100000);
    for (size_t i = 0; i < 3000; i++) {
        claims += fixture.tasks[i].claims;
        assert_true((size_t)fixture.tasks[i].base.old.attempts == fixture.tasks[i].runs);
    }
    assert_in_range(claims, 100, 100 * 1000 / DESTINATION_RETURN_MS * 12 / 10);
    /* Ten that opened it, those on threads then, and its probes. */
    assert_in_range(sum_of_runs(0, 3000), 10, 60);
    for (size_t i = 0; i < 3000; i++)
        fixture.tasks[i].fail_runs = 0;
    assert_true(retry_fixture_drain(DESTINATION_PUT_OFF_MS_MAX));
    assert_int_equal(metric_value(&retry_breakers_open), 0);
    retry_fixture_run(11000);
    assert_false(condition_read(destinations, NULL));
}

static void a_postponed_task_takes_nothing_of_the_rate(void **state)
{
    (void)state;
    retry_fixture_scene("mail", "{\"attempts\": 0, \"rate\": \"10/s burst 10\"}", NULL, false);
    send("mail", "dead", 10, 1);
    host_start(0);
    retry_fixture_run(3000);
    assert_int_equal(metric_value(&retry_breakers_open), 1);
    send("mail", "dead", 1000, 1);
    send("mail", "living", 20, 1);
    retry_fixture_run(8000);
    assert_int_equal(sum_of_runs(1010, 1030), 20);
}

static void scenes_that_share_a_destination_share_its_breaker(void **state)
{
    (void)state;
    send("mail", "dead", 12, 1);
    host_start(0);
    retry_fixture_run(500);
    assert_int_equal(metric_value(&retry_breakers_open), 1);
    send("letter", "dead", 20, 1);
    send("letter", "living", 20, 1);
    retry_fixture_run(500);
    assert_in_range(sum_of_runs(12, 32), 0, 2);
    assert_int_equal(sum_of_runs(32, 52), 20);
    assert_non_null(strstr(fixture.tasks[31].reason, "the circuit breaker of"));
    assert_non_null(strstr(fixture.tasks[31].reason, "it does not work"));
}

/* They ended by their deadline, and were not run. */
static void assert_expired(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        assert_int_equal(fixture.tasks[i].runs, 0);
        assert_int_equal(fixture.tasks[i].base.old.attempts, 0);
        assert_string_equal(retry_fixture_outcome(&fixture.tasks[i]), "exhausted");
        assert_string_equal(fixture.tasks[i].reason, "deadline: it did not begin within 2000 ms");
    }
}

static void a_deadline_ends_tasks_in_a_paused_scene(void **state)
{
    (void)state;
    retry_fixture_scene("mail",
                        "{\"deadline\": \"2s\", \"on_exhausted\": {\"scene\": \"told\", "
                        "\"handler\": \"test\"}}",
                        NULL, true);
    many("mail", 300, 10);
    host_start(0);
    retry_fixture_run(1900);
    assert_int_equal(retry_fixture_count(TASK_WAITING), 300);
    retry_fixture_run(2600);
    assert_expired(0, 300);
    assert_int_equal(strncmp(fixture.tasks[0].callback, "told test ", 10), 0);
}

static void a_deadline_ends_tasks_without_a_handler(void **state)
{
    (void)state;
    retry_fixture_scene("fax", "{\"deadline\": \"2s\"}", NULL, false);
    many("fax", 20, 10);
    for (size_t i = 0; i < 20; i++)
        snprintf(fixture.tasks[i].base.class.handler, sizeof(fixture.tasks[i].base.class.handler),
                 "fax");
    /* Nor has the process their shards. */
    snprintf(fixture.hosts[0].settings.retry.shards, sizeof(fixture.hosts[0].settings.retry.shards),
             "0");
    host_start(0);
    retry_fixture_run(4000);
    assert_expired(0, 20);
}

static void a_deadline_ends_tasks_behind_an_open_breaker(void **state)
{
    (void)state;
    retry_fixture_scene("mail", "{\"attempts\": 0, \"wait\": \"fixed 1h\"}", NULL, false);
    send("mail", "dead", 10, 1);
    host_start(0);
    retry_fixture_run(1000);
    assert_int_equal(metric_value(&retry_breakers_open), 1);
    retry_fixture_scene("late", "{\"deadline\": \"2s\", \"attempts\": 0}", NULL, false);
    retry_fixture_run(1100);
    send("late", "dead", 20, 1);
    retry_fixture_run(4000);
    for (size_t i = 10; i < 30; i++) {
        assert_in_range(fixture.tasks[i].runs, 0, 2);
        assert_string_equal(retry_fixture_outcome(&fixture.tasks[i]), "exhausted");
        assert_int_equal(strncmp(fixture.tasks[i].reason, "deadline: ", 10), 0);
    }
    assert_in_range(sum_of_runs(10, 30), 0, 6);
}

static void a_deadline_ends_tasks_that_wait_for_a_thread_or_their_rate(void **state)
{
    (void)state;
    retry_fixture_scene("slow", "{\"deadline\": \"2s\"}", NULL, false);
    retry_fixture_scene("rare", "{\"deadline\": \"2s\", \"rate\": \"1/s\"}", NULL, false);
    many("slow", 50, 60000);
    many("rare", 50, 10);
    host_start(0);
    retry_fixture_run(1000);
    assert_true(retry_fixture_count(TASK_RUNNING) >= 50);
    retry_fixture_run(3000);
    assert_int_equal(sum_of_runs(0, 50), 3);
    assert_in_range(sum_of_runs(50, 100), 1, 4);
    for (size_t i = 0; i < 100; i++)
        if (fixture.tasks[i].runs == 0)
            assert_expired(i, i + 1);
    assert_in_range(retry_fixture_count(-1), 97, 100);
}

static void a_key_whose_first_task_expires_continues_as_its_scene_asks(void **state)
{
    (void)state;
    retry_fixture_scene("skip", "{\"deadline\": \"2s\", \"exhausted\": \"skip\"}", NULL, true);
    retry_fixture_scene("block", "{\"deadline\": \"2s\", \"exhausted\": \"block\"}", NULL, true);
    for (size_t i = 0; i < 10; i++)
        retry_fixture_task("skip", "s");
    for (size_t i = 0; i < 10; i++)
        retry_fixture_task("block", "b");
    host_start(0);
    retry_fixture_run(6000);
    assert_expired(0, 10);
    assert_int_equal(retry_fixture_count(TASK_BLOCKED), 1);
    assert_int_equal(retry_fixture_state(&fixture.tasks[10]), TASK_BLOCKED);
    assert_string_equal(fixture.tasks[10].reason, "deadline: it did not begin within 2000 ms");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_slow_scene_does_not_keep_another_one_waiting),
        TEST(two_slow_scenes_leave_a_thread_for_a_third),
        TEST(more_slow_scenes_than_threads_take_turns),
        TEST(a_scene_has_at_most_its_threads),
        TEST(a_task_that_waits_for_a_thread_ages),
        TEST(a_pause_gives_back_tasks_that_wait_for_a_thread),
        TEST(a_dead_destination_does_not_keep_a_living_one_waiting),
        TEST(tasks_behind_an_open_breaker_cost_no_attempt_and_little_work),
        TEST(a_postponed_task_takes_nothing_of_the_rate),
        TEST(scenes_that_share_a_destination_share_its_breaker),
        TEST(a_deadline_ends_tasks_in_a_paused_scene),
        TEST(a_deadline_ends_tasks_without_a_handler),
        TEST(a_deadline_ends_tasks_behind_an_open_breaker),
        TEST(a_deadline_ends_tasks_that_wait_for_a_thread_or_their_rate),
        TEST(a_key_whose_first_task_expires_continues_as_its_scene_asks),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
