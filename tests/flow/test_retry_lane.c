/* SPDX-License-Identifier: MIT */
/* Who claims what and when in the retry lane: filters, turns, bounds, leases, kills, stops, and every
 * call made to fail, on a fake store. */
#include "tests/flow/retry_world.h"

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
    world_reset(1);
    return 0;
}

static void many(const char *scene, size_t count)
{
    for (size_t i = 0; i < count; i++)
        world_task(scene, NULL);
}

static size_t running(void)
{
    return world_count(TASK_RUNNING);
}

static void shards_set(size_t host, const char *shards)
{
    snprintf(world.hosts[host].settings.retry.shards,
             sizeof(world.hosts[host].settings.retry.shards), "%s", shards);
}

static void an_unknown_handler_waits_and_is_counted(void **state)
{
    struct retry_scene_metrics *metrics = retry_metrics_of("default", "strange");
    struct task *task = world_task("strange", NULL);

    (void)state;
    snprintf(task->handler, sizeof(task->handler), "fax");
    host_start(0);
    world_run(12000);
    assert_int_equal(task->claims, 0);
    assert_int_equal(task->state, TASK_WAITING);
    assert_int_equal(task->attempts, 0);
    assert_int_equal(metric_value(&metrics->no_handler), 1);
    assert_int_equal(metric_value(&metrics->tasks[TASK_WAITING]), 1);
    assert_true(metric_value(&metrics->oldest_age) >= 9000);
    host_kill(0);
    snprintf(task->handler, sizeof(task->handler), "other");
    host_start(0);
    world_run(1000);
    assert_int_equal(task->claims, 0);
    host_kill(0);
    world.hosts[1].opened[1] = &world;
    host_start(1);
    assert_true(world_drain(1000));
}

static void a_paused_scene_waits_until_it_is_resumed(void **state)
{
    struct task *task = world_task("mail", NULL);

    (void)state;
    world_scene("mail", NULL, NULL, true);
    host_start(0);
    world_run(3000);
    assert_int_equal(task->claims, 0);
    world_scene("mail", NULL, NULL, false);
    assert_true(world_drain(1500));
}

static void a_scene_that_cannot_be_understood_is_paused_and_told(void **state)
{
    static const char *const rubbish[] = {"{", "[]", "{\"attemps\": 3}", "{\"wait\": \"soon\"}",
                                          "null"};

    (void)state;
    host_start(0);
    for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
        world_scene("mail", rubbish[i], NULL, false);
        world_run(1500);
        world_task("mail", NULL);
        world_run(1500);
        assert_int_equal(world.tasks[i].claims, 0);
        assert_int_equal(metric_value(&retry_invalid_scenes), 1);
    }
    world_scene("mail", NULL, "17", false);
    world_run(2000);
    assert_int_equal(world.tasks[0].claims, 0);
    world_scene("mail", "{}", "{}", false);
    assert_true(world_drain(2000));
    assert_int_equal(metric_value(&retry_invalid_scenes), 0);
}

static void a_scene_whose_row_is_gone_has_the_standard_again(void **state)
{
    (void)state;
    world_scene("mail", "{", NULL, true);
    host_start(0);
    world_run(1500);
    world.scene_count = 0;
    world_task("mail", NULL);
    assert_true(world_drain(2000));
}

static void nothing_is_claimed_before_the_scenes_are_known(void **state)
{
    struct task *task = world_task("mail", NULL);

    (void)state;
    world_scene("mail", NULL, NULL, true);
    world.fail_kind = CALL_SCENES;
    world.fail_from = 1;
    world.fail_count = 5;
    host_start(0);
    world_run(5000);
    assert_true(world.calls[CALL_SCENES] > 5);
    assert_int_equal(task->claims, 0);
}

static void a_rate_is_kept_by_all_processes_together(void **state)
{
    size_t done;

    (void)state;
    many("mail", 400);
    world_scene("mail", "{\"rate\": \"20/s burst 16\"}", NULL, false);
    shards_set(0, "0-3");
    shards_set(1, "4-15");
    host_start(0);
    host_start(1);
    world_run(1000);
    done = world_count(-1);
    assert_in_range(done, 20, 45);
    world_run(5000);
    assert_in_range(world_count(-1) - done, 80, 110);
}

static size_t pass_to_open(void)
{
    for (size_t i = 0; i < 30; i++) {
        struct task *task = world_task("mail", NULL);

        task->fail_runs = 1000;
        task->delay_ms = 5000;
    }
    world_run(500);
    return world.count;
}

static size_t runs_of_all(void)
{
    size_t runs = 0;

    for (size_t i = 0; i < world.count; i++)
        runs += world.tasks[i].runs;
    return runs;
}

static void a_failing_destination_is_only_probed(void **state)
{
    struct retry_scene_metrics *metrics = retry_metrics_of("default", "mail");
    struct task *other;

    (void)state;
    host_start(0);
    pass_to_open();
    /* Those that were claimed with the ones that failed are not tried, and it costs them nothing. */
    assert_in_range(runs_of_all(), 10, 13);
    assert_int_equal(metric_value(&metrics->breakers_open), 1);
    other = world_task("other", NULL);
    world_run(4000);
    assert_int_equal(other->runs, 1);
    assert_in_range(runs_of_all(), 11, 22);
    for (size_t i = 0; i < world.count; i++)
        world.tasks[i].fail_runs = 0;
    assert_true(world_drain(90000));
    assert_int_equal(metric_value(&metrics->breakers_open), 0);
    for (size_t i = 0; i < 30; i++)
        assert_in_range(world.tasks[i].attempts, 0, 3);
}

static void one_failing_task_does_not_open_the_breaker(void **state)
{
    (void)state;
    world_scene("mail", "{\"wait\": \"fixed 20ms\", \"attempts\": 0}", NULL, false);
    host_start(0);
    world_task("mail", NULL)->fail_runs = 9;
    many("mail", 20);
    assert_true(world_drain(3000));
    for (size_t i = 0; i < 12; i++)
        world_task("mail", NULL)->fault = FAULT_REFUSED;
    for (size_t i = 21; i < 33; i++)
        world.tasks[i].fail_runs = 1;
    many("mail", 3);
    assert_true(world_drain(2000));
    assert_string_equal(world.tasks[33].outcome, "deleted");
}

static void the_oldest_class_comes_first_and_each_has_its_turn(void **state)
{
    (void)state;
    shards_set(0, "0-15");
    for (size_t i = 0; i < 60; i++) {
        world_task("young", "a")->key[0] = '\0';
        world_task("old", "a")->key[0] = '\0';
        world_task("new", "a")->key[0] = '\0';
    }
    for (size_t i = 0; i < world.count; i++)
        world.tasks[i].next_ms -= world.tasks[i].scene[0] == 'o'   ? 900
                                  : world.tasks[i].scene[0] == 'y' ? 500
                                                                   : 100;
    host_start(0);
    assert_true(world_drain(5000));
    assert_int_equal(strncmp(world.last_claims, "old young new ", 14), 0);
    assert_true(world.claim_rows_max <= 10);
    /* Until all of old is done, the others had as many turns. */
    assert_true(strstr(world.last_claims, "old old old") == NULL);
}

static void full_batches_are_followed_without_a_rest(void **state)
{
    (void)state;
    world.hosts[0].settings.retry.poll_ms = 60000;
    for (size_t i = 0; i < 300; i++)
        world_task("mail", "a")->key[0] = '\0';
    host_start(0);
    assert_true(world_drain(2000));
    assert_true(world.calls[CALL_LOOK] <= 2);
}

static void a_slow_kind_leaves_room_for_another(void **state)
{
    (void)state;
    many("slow", 100);
    world.hosts[0].slow = true;
    host_start(0);
    world_run(300);
    assert_int_equal(running(), 32);
    host_kill(0);
    world_reset(1);
    many("slow", 100);
    many("quick", 20);
    world.hosts[0].slow = true;
    host_start(0);
    world_run(300);
    assert_int_equal(running(), 32);
    {
        size_t quick = 0;

        for (size_t i = 100; i < 120; i++)
            quick += world.tasks[i].state == TASK_RUNNING;
        assert_true(quick >= 10);
    }
}

static void no_more_are_in_flight_than_the_setting_says(void **state)
{
    (void)state;
    world.hosts[0].settings.retry.in_flight_max = 7;
    many("mail", 200);
    host_start(0);
    while (world_count(-1) < 200) {
        world_run(1);
        assert_true(running() <= 7);
        assert_true(world.now_ms < 1060000);
    }
}

static void without_threads_the_poller_runs_them(void **state)
{
    (void)state;
    world.hosts[0].settings.retry.threads = 0;
    many("mail", 100);
    host_start(0);
    assert_true(world_drain(2000));
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(world.tasks[i].runs, 1);
}

static void a_shard_that_is_not_held_is_left_alone(void **state)
{
    (void)state;
    many("mail", 160);
    shards_set(0, "0-3, 7");
    host_start(0);
    world_run(3000);
    for (size_t i = 0; i < 160; i++)
        assert_int_equal(world.tasks[i].runs,
                         world.tasks[i].shard < 4 || world.tasks[i].shard == 7 ? 1 : 0);
}

static void a_fixed_rate_counts_from_the_beginning(void **state)
{
    struct settings *settings = &world.hosts[0].settings;

    (void)state;
    snprintf(settings->retry.poll_pace, sizeof(settings->retry.poll_pace), "rate");
    settings->retry.poll_ms = 250;
    host_start(0);
    world_run(10000);
    assert_in_range(world.calls[CALL_LOOK], 38, 41);
    settings->retry.poll_jitter_percent = 100;
    world.calls[CALL_LOOK] = 0;
    world_run(10000);
    assert_in_range(world.calls[CALL_LOOK], 20, 36);
}

static void a_task_that_is_due_soon_is_not_slept_past(void **state)
{
    struct task *task = world_task("mail", NULL);

    (void)state;
    world.hosts[0].settings.retry.poll_ms = 10000;
    task->next_ms += 300;
    host_start(0);
    world_run(290);
    assert_int_equal(task->runs, 0);
    world_run(30);
    assert_int_equal(task->runs, 1);
}

static void leases_of_tasks_in_flight_are_kept(void **state)
{
    (void)state;
    world_scene("mail", "{\"lease\": \"2s\"}", NULL, false);
    many("mail", 5);
    world.hosts[0].slow = true;
    host_start(0);
    world_run(300);
    host_start(1);
    world_run(20000);
    assert_int_equal(running(), 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(world.tasks[i].claims, 1);
    world.hosts[0].slow = false;
    assert_true(world_drain(500));
}

static void what_has_lapsed_is_not_begun_and_comes_back(void **state)
{
    struct task *task = world_task("mail", NULL);

    (void)state;
    world_scene("mail", "{\"lease\": \"2s\"}", NULL, false);
    world.hosts[0].slow = true;
    world.hosts[0].frozen = true;
    host_start(0);
    world_run(1900);
    assert_int_equal(task->state, TASK_RUNNING);
    world.hosts[0].slow = false;
    /* Given back by its own process, or rescued: it is run under another claim. */
    assert_true(world_drain(3000));
    assert_int_equal(task->claims, 2);
    assert_int_equal(task->runs, 1);
    assert_int_equal(task->attempts, 0);
}

static void a_killed_process_leaves_its_tasks_for_a_lease_and_a_sweep(void **state)
{
    (void)state;
    world_scene("mail", "{\"lease\": \"2s\"}", NULL, false);
    many("mail", 25);
    world.hosts[0].slow = true;
    host_start(0);
    world_run(300);
    assert_int_equal(running(), 25);
    host_kill(0);
    many("mail", 40);
    host_start(1);
    world_run(500);
    /* Others are not held up meanwhile. */
    assert_int_equal(world_count(-1), 40);
    assert_true(world_drain(2000 + 1000 + 200));
    for (size_t i = 0; i < 25; i++) {
        assert_int_equal(world.tasks[i].runs, 1);
        assert_int_equal(world.tasks[i].attempts, 0);
    }
}

static void taken_by_somebody_else(struct task *task)
{
    task->epoch++;
    task->meanwhile = NULL;
}

static void the_result_of_a_lost_task_is_not_written(void **state)
{
    struct task *task = world_task("mail", NULL);
    int64_t lost = metric_value(&retry_lost);

    (void)state;
    task->meanwhile = taken_by_somebody_else;
    host_start(0);
    world_run(500);
    assert_int_equal(task->state, TASK_RUNNING);
    assert_int_equal(task->finishes, 0);
    assert_int_equal(metric_value(&retry_lost), lost + 1);
    assert_true(poller_left(&world.hosts[0].poller));
    task->until_ms = 0;
    assert_true(world_drain(3000));
    assert_int_equal(task->runs, 2);
}

static void what_is_in_flight_here_is_recognised_when_it_is_claimed_again(void **state)
{
    struct task *task = world_task("mail", NULL);

    (void)state;
    world_scene("mail", "{\"lease\": \"1s\"}", NULL, false);
    host_start(0);
    world.hosts[0].slow = true;
    world.hosts[0].frozen = true;
    world_run(4000);
    /* Rescued by its own process, and claimed again. */
    assert_true(task->claims >= 2);
    world.hosts[0].frozen = false;
    world.hosts[0].slow = false;
    assert_true(world_drain(2500));
    assert_int_equal(task->runs, 1);
    assert_true(poller_left(&world.hosts[0].poller));
}

static void a_clean_stop_gives_back_and_costs_no_attempt(void **state)
{
    (void)state;
    many("mail", 30);
    world.hosts[0].slow = true;
    host_start(0);
    world_run(300);
    assert_int_equal(running(), 30);
    assert_true(host_stop(0, 50));
    assert_int_equal(world_count(TASK_WAITING), 30);
    host_start(1);
    assert_true(world_drain(500));
    for (size_t i = 0; i < 30; i++) {
        assert_int_equal(world.tasks[i].runs, 1);
        assert_int_equal(world.tasks[i].attempts, 0);
    }
}

static struct host *stopping;

static void stop_meanwhile(struct task *task)
{
    (void)task;
    poller_leave(&stopping->poller);
}

static void what_fails_in_a_stop_costs_no_attempt(void **state)
{
    struct task *task = world_task("mail", NULL);
    struct task *refused = world_task("mail", NULL);

    (void)state;
    stopping = &world.hosts[0];
    task->meanwhile = stop_meanwhile;
    task->fail_runs = 9;
    refused->fail_runs = 9;
    refused->fault = FAULT_REFUSED;
    refused->meanwhile = stop_meanwhile;
    host_start(0);
    while (task->runs + refused->runs == 0)
        world_run(1);
    assert_true(host_stop(0, 100));
    assert_int_equal(task->attempts, 0);
    assert_int_equal(task->state, TASK_WAITING);
    /* A refusal is about the task. */
    assert_int_equal(refused->attempts, refused->runs);
}

static void a_stop_while_the_database_is_away_ends_in_its_time(void **state)
{
    (void)state;
    many("mail", 5);
    world.hosts[0].slow = true;
    host_start(0);
    world_run(300);
    world.hosts[0].cut_off = true;
    assert_false(host_stop(0, 300));
    host_start(1);
    assert_true(world_drain(35000));
}

static void a_result_that_is_refused_holds_nobody_up(void **state)
{
    struct task *task;

    (void)state;
    many("mail", 20);
    task = &world.tasks[7];
    world.refuse_id = task->id;
    world_scene("mail", "{\"lease\": \"2s\"}", NULL, false);
    host_start(0);
    world_run(1000);
    assert_int_equal(world_count(-1), 19);
    assert_int_equal(task->state, TASK_WAITING);
    assert_int_equal(task->attempts, 1);
    assert_string_equal(task->reason, "the database refuses its result: too long");
    assert_in_range(task->next_ms - world.now_ms, 50000, 60000);
    world.refuse_always = true;
    task->next_ms = world.now_ms;
    world_run(1000);
    assert_int_equal(task->state, TASK_RUNNING);
    assert_true(poller_left(&world.hosts[0].poller));
    world.refuse_id = 0;
    assert_true(world_drain(4000));
}

/* Every task ends, each effect is there, and none is lost into the history. */
static void work_through_trouble(void)
{
    world_scene("mail", "{\"lease\": \"2s\", \"wait\": \"fixed 50ms\", \"attempts\": 9}", NULL,
                false);
    for (size_t i = 0; i < 24; i++)
        world_task("mail", i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : NULL)->fail_runs = i % 5 == 0;
    host_start(0);
    host_start(1);
    if (!world_drain(60000))
        fail_msg("call %zu: %zu tasks are left", world.fail_from, world.count - world_count(-1));
    for (size_t i = 0; i < world.count; i++) {
        assert_string_equal(world.tasks[i].outcome, "deleted");
        assert_true(world.tasks[i].done >= 1);
    }
    for (size_t i = 0; i < 2; i++) {
        world_run(100);
        assert_true(poller_left(&world.hosts[i].poller));
    }
}

static void each_call_may_fail_in_turn(void **state)
{
    (void)state;
    for (size_t call = 1; call <= 120; call++) {
        world_reset(call);
        world.fail_from = call;
        world.fail_count = 1 + call % 3;
        work_through_trouble();
    }
}

static void each_answer_may_be_lost_in_turn(void **state)
{
    (void)state;
    for (size_t call = 1; call <= 120; call++) {
        world_reset(call);
        world.answers_lost = true;
        world.fail_from = call;
        world.fail_count = 1 + call % 3;
        work_through_trouble();
    }
}

static void what_people_must_end_is_waited_out(void **state)
{
    (void)state;
    for (int call = CALL_LOOK; call < CALLS; call++) {
        world_reset((uint64_t)call);
        world.fail_kind = (enum call)call;
        world.fail_rc = RC_FATAL;
        world.fail_from = 1;
        world.fail_count = 2;
        work_through_trouble();
    }
}

static void a_write_back_without_an_answer_is_done_again_without_harm(void **state)
{
    int64_t lost = metric_value(&retry_lost);

    (void)state;
    many("mail", 10);
    world.answers_lost = true;
    world.fail_kind = CALL_FINISH;
    world.fail_from = 1;
    world.fail_count = 3;
    host_start(0);
    assert_true(world_drain(1000));
    world_run(1000);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(world.tasks[i].finishes, 1);
        assert_int_equal(world.tasks[i].runs, 1);
    }
    assert_int_equal(metric_value(&retry_lost), lost);
    assert_true(poller_left(&world.hosts[0].poller));
}

static void kills_at_any_moment_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world_reset(seed);
        world_scene("mail", "{\"lease\": \"1s\", \"wait\": \"random 10ms 90ms\", \"attempts\": 0}",
                    NULL, false);
        for (size_t i = 0; i < 60; i++)
            world_task("mail", i % 2 ? NULL : i % 4 ? "a" : "b")->fail_runs = i % 7 == 0;
        for (size_t i = 0; i < WORLD_HOSTS; i++)
            host_start(i);
        for (size_t i = 0; i < 6; i++) {
            world_run((int64_t)(seed * 7 + i * 13) % 50);
            host_kill((size_t)(seed + i) % WORLD_HOSTS);
            host_start((size_t)(seed + i) % WORLD_HOSTS);
        }
        assert_true(world_drain(60000));
        for (size_t i = 0; i < 60; i++)
            assert_true(world.tasks[i].done >= 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unknown_handler_waits_and_is_counted),
        TEST(a_paused_scene_waits_until_it_is_resumed),
        TEST(a_scene_that_cannot_be_understood_is_paused_and_told),
        TEST(a_scene_whose_row_is_gone_has_the_standard_again),
        TEST(nothing_is_claimed_before_the_scenes_are_known),
        TEST(a_rate_is_kept_by_all_processes_together),
        TEST(a_failing_destination_is_only_probed),
        TEST(one_failing_task_does_not_open_the_breaker),
        TEST(the_oldest_class_comes_first_and_each_has_its_turn),
        TEST(full_batches_are_followed_without_a_rest),
        TEST(a_slow_kind_leaves_room_for_another),
        TEST(no_more_are_in_flight_than_the_setting_says),
        TEST(without_threads_the_poller_runs_them),
        TEST(a_shard_that_is_not_held_is_left_alone),
        TEST(a_fixed_rate_counts_from_the_beginning),
        TEST(a_task_that_is_due_soon_is_not_slept_past),
        TEST(leases_of_tasks_in_flight_are_kept),
        TEST(what_has_lapsed_is_not_begun_and_comes_back),
        TEST(a_killed_process_leaves_its_tasks_for_a_lease_and_a_sweep),
        TEST(the_result_of_a_lost_task_is_not_written),
        TEST(what_is_in_flight_here_is_recognised_when_it_is_claimed_again),
        TEST(a_clean_stop_gives_back_and_costs_no_attempt),
        TEST(what_fails_in_a_stop_costs_no_attempt),
        TEST(a_stop_while_the_database_is_away_ends_in_its_time),
        TEST(a_result_that_is_refused_holds_nobody_up),
        TEST(each_call_may_fail_in_turn),
        TEST(each_answer_may_be_lost_in_turn),
        TEST(what_people_must_end_is_waited_out),
        TEST(a_write_back_without_an_answer_is_done_again_without_harm),
        TEST(kills_at_any_moment_lose_nothing),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
