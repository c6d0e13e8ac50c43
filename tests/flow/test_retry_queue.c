/* SPDX-License-Identifier: MIT */
/* Which tasks the dispatcher claims and when: filters, turns and bounds, on a fake store. */
#include "tests/flow/retry_fixture.h"

#include "common/condition.h"
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
#include <unistd.h>

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

static void shards_set(size_t host, const char *shards)
{
    snprintf(fixture.hosts[host].settings.retry.shards,
             sizeof(fixture.hosts[host].settings.retry.shards), "%s", shards);
}

static void an_unknown_handler_waits_and_is_counted(void **state)
{
    struct retry_scene_metrics *metrics = retry_metrics_of("default", "strange");
    struct task *task = retry_fixture_task("strange", NULL);

    (void)state;
    snprintf(task->base.class.handler, sizeof(task->base.class.handler), "fax");
    host_start(0);
    retry_fixture_run(12000);
    assert_int_equal(task->claims, 0);
    assert_int_equal(retry_fixture_state(task), TASK_WAITING);
    assert_int_equal(task->base.old.attempts, 0);
    assert_int_equal(metric_value(&metrics->no_handler), 1);
    assert_int_equal(metric_value(&metrics->tasks[TASK_WAITING]), 1);
    assert_true(metric_value(&metrics->oldest_age) >= 9000);
    host_kill(0);
    snprintf(task->base.class.handler, sizeof(task->base.class.handler), "other");
    host_start(0);
    retry_fixture_run(1000);
    assert_int_equal(task->claims, 0);
    host_kill(0);
    fixture.hosts[1].runs_other = true;
    host_start(1);
    assert_true(retry_fixture_drain(1000));
}

/* Returns what the log gets when the process tells what it waits for. */
static const char *remind(void)
{
    static char lines[4096];
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    size_t len;

    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    log_init(LOG_WARN);
    conditions_remind(fixture.now_ms);
    log_init(LOG_ERROR);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    len = fread(lines, 1, sizeof(lines) - 1, file);
    lines[len] = '\0';
    fclose(file);
    return lines;
}

static void assert_names(const char *lines, const char *words)
{
    if (!strstr(lines, words))
        fail_msg("\"%s\" is not in: %s", words, lines);
}

static void assert_lasts(const char *lines, const char *words, int64_t from_ms, int64_t to_ms)
{
    const char *at = strstr(lines, words);

    assert_non_null(at);
    at = strstr(at, "lasts_ms=");
    assert_non_null(at);
    assert_in_range(strtoll(at + strlen("lasts_ms="), NULL, 10), from_ms, to_ms);
}

static void what_tasks_wait_for_is_named_once_a_minute(void **state)
{
    struct task *stranger = retry_fixture_task("strange", NULL);
    struct task *owned = retry_fixture_task("owned", NULL);
    struct task *later = retry_fixture_task("later", NULL);
    struct retry_group *group;
    const char *lines;

    (void)state;
    conditions_list();
    snprintf(stranger->base.class.handler, sizeof(stranger->base.class.handler), "fax");
    snprintf(owned->base.class.group, sizeof(owned->base.class.group), "shop");
    /* It is not due, so it does not wait for its group. */
    snprintf(later->base.class.group, sizeof(later->base.class.group), "other");
    later->base.now.next_ms += 3600000;
    later->base.old.next_ms = later->base.now.next_ms;
    retry_fixture_scene("mail", "{", NULL, false);
    retry_fixture_task("mail", NULL);
    host_start(0);
    retry_fixture_run(30000);
    assert_string_equal(remind(), "");
    retry_fixture_run(45000);
    lines = remind();
    assert_names(lines, "what=handler role=retry reason=unserved");
    assert_names(lines, "no live process runs the handler fax");
    assert_names(lines, "what=group role=retry reason=closed");
    assert_names(lines, "there is no group shop");
    assert_names(lines, "what=scene role=retry reason=invalid");
    assert_names(lines, "scene mail of group default");
    assert_lasts(lines, "what=group", 60000, 75000);
    assert_string_equal(remind(), "");
    group = retry_fixture_group("shop");
    snprintf(stranger->base.class.handler, sizeof(stranger->base.class.handler), "test");
    retry_fixture_scene("mail", NULL, NULL, false);
    retry_fixture_run(12000);
    assert_true(group->enabled);
    assert_int_equal(retry_fixture_count(-1), 3);
    retry_fixture_run(120000);
    assert_string_equal(remind(), "");
}

static void more_kinds_than_fit_are_waited_for_until_there_is_room(void **state)
{
    struct condition *kinds = &fixture.hosts[0].pool.waits[POOL_WAIT_KINDS];
    struct err err;

    (void)state;
    fixture.hosts[0].settings.retry.poll_ms = 2000;
    for (size_t i = 0; i < (size_t)KINDS_MAX + 5; i++) {
        char scene[32];
        struct task *task;

        snprintf(scene, sizeof(scene), "scene%zu", i);
        task = retry_fixture_task(scene, NULL);
        snprintf(task->base.class.handler, sizeof(task->base.class.handler), "fax");
    }
    host_start(0);
    retry_fixture_run(12000);
    assert_true(condition_read(kinds, &err));
    assert_names(err.text, "tasks of 5 classes are left out");
    for (size_t i = 0; i < fixture.count; i++) {
        struct fake_task *task = &fixture.tasks[i].base;

        task->now.found = false;
        task->now.ended = FAKE_TASK_CANCELLED;
        task->old = task->now;
    }
    retry_fixture_run(12000);
    assert_false(condition_read(kinds, NULL));
}

static void a_paused_scene_waits_until_it_is_resumed(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", NULL, NULL, true);
    host_start(0);
    retry_fixture_run(3000);
    assert_int_equal(task->claims, 0);
    retry_fixture_scene("mail", NULL, NULL, false);
    assert_true(retry_fixture_drain(1500));
}

static bool says_too_many_rows(void)
{
    struct err err;

    return condition_read(&fixture.hosts[0].pool.conditions[POOL_SCENES], &err) &&
           strstr(err.text, "more than 1024 rows");
}

/* A row that is not read may pause a scene. */
static void nothing_is_claimed_while_there_are_too_many_rows_of_scenes(void **state)
{
    static char names[RETRY_SCENES_MAX][16];
    struct task *task = retry_fixture_task("zzz", NULL);

    (void)state;
    for (size_t i = 0; i < RETRY_SCENES_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "row%zu", i);
        retry_fixture_scene(names[i], NULL, NULL, false);
    }
    retry_fixture_scene("zzz", NULL, NULL, true);
    host_start(0);
    retry_fixture_run(5000);
    assert_int_equal(task->claims, 0);
    assert_true(says_too_many_rows());
    /* One row is deleted; the others are as they were. */
    fixture.scenes[0] = fixture.scenes[--fixture.scene_count];
    retry_fixture_run(5000);
    assert_false(says_too_many_rows());
    assert_int_equal(task->claims, 0);
    retry_fixture_scene("zzz", NULL, NULL, false);
    assert_true(retry_fixture_drain(1500));
}

static void a_scene_with_an_unreadable_policy_is_paused_and_reported(void **state)
{
    static const char *const rubbish[] = {"{", "[]", "{\"attemps\": 3}", "{\"wait\": \"soon\"}",
                                          "null"};

    (void)state;
    host_start(0);
    for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
        retry_fixture_scene("mail", rubbish[i], NULL, false);
        retry_fixture_run(1500);
        retry_fixture_task("mail", NULL);
        retry_fixture_run(1500);
        assert_int_equal(fixture.tasks[i].claims, 0);
        assert_int_equal(metric_value(&retry_invalid_scenes), 1);
    }
    retry_fixture_scene("mail", NULL, "17", false);
    retry_fixture_run(2000);
    assert_int_equal(fixture.tasks[0].claims, 0);
    retry_fixture_scene("mail", "{}", "{}", false);
    assert_true(retry_fixture_drain(2000));
    assert_int_equal(metric_value(&retry_invalid_scenes), 0);
}

static void a_scene_whose_row_was_deleted_has_the_default_again(void **state)
{
    (void)state;
    retry_fixture_scene("mail", "{", NULL, true);
    host_start(0);
    retry_fixture_run(1500);
    fixture.scene_count = 0;
    retry_fixture_task("mail", NULL);
    assert_true(retry_fixture_drain(2000));
}

/* Each task is appended right after its scene was changed, long before the next reading of the
 * scenes. Without the comparison of versions its first attempt has the options of the change
 * before. */
static void a_task_runs_with_the_options_that_were_in_force_when_it_was_appended(void **state)
{
    static const char *const options[] = {"{\"n\": 1}", "{\"n\": 2}", "{\"n\": 3}"};

    (void)state;
    host_start(0);
    retry_fixture_run(1500);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        struct task *task;
        size_t readings = fixture.calls[FAKE_TASKS_SCENES];

        retry_fixture_scene("mail", "{\"attempts\": 1}", options[i], false);
        task = retry_fixture_task("mail", NULL);
        assert_true(retry_fixture_drain(900));
        assert_int_equal(task->runs, 1);
        assert_string_equal(task->seen_options, options[i]);
        assert_in_range(fixture.calls[FAKE_TASKS_SCENES] - readings, 1, 3);
        retry_fixture_run(1100);
    }
    fixture.scene_count = 0;
    retry_fixture_task("mail", NULL);
    assert_true(retry_fixture_drain(900));
    assert_string_equal(fixture.tasks[3].seen_options, "{}");
}

/* A deadline that was removed before the task was claimed does not end it, whichever claim finds
 * it. */
static void a_deadline_that_was_replaced_ends_no_task(void **state)
{
    struct task *task;

    (void)state;
    retry_fixture_scene("mail", "{\"deadline\": \"1s\"}", NULL, false);
    host_start(0);
    retry_fixture_run(1500);
    task = retry_fixture_task("mail", NULL);
    task->base.now.age_from_ms -= 5000;
    retry_fixture_save(task);
    retry_fixture_scene("mail", "{\"deadline\": \"1h\"}", NULL, false);
    assert_true(retry_fixture_drain(2000));
    assert_int_equal(task->runs, 1);
    assert_string_equal(retry_fixture_outcome(task), "done");
}

static void change_options(struct task *task)
{
    if (task->runs == 1)
        retry_fixture_scene("mail", "{\"attempts\": 1}", "{\"n\": 2}", false);
}

/* The attempt ran with options that are not in force any more, so it says nothing about the task
 * as it is: neither a refusal nor the last attempt exhausts it. */
static void a_task_whose_scene_changed_while_it_ran_is_tried_again(void **state)
{
    static const enum fault_class faults[] = {FAULT_CLASS_REFUSED, FAULT_CLASS_TRANSIENT};

    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct retry_scene_metrics *metrics = retry_metrics_of("default", "mail");
        int64_t exhausted = metric_value(&metrics->exhausted);
        struct task *task;

        retry_fixture_reset(1);
        retry_fixture_scene(
            "mail", "{\"attempts\": 1, \"on_exhausted\": {\"scene\": \"x\", \"handler\": \"y\"}}",
            "{\"n\": 1}", false);
        task = retry_fixture_task("mail", "key");
        task->fail_runs = 1;
        task->fault = faults[i];
        task->meanwhile = change_options;
        host_start(0);
        assert_true(retry_fixture_drain(3000));
        assert_string_equal(retry_fixture_outcome(task), "done");
        assert_string_equal(task->seen_options, "{\"n\": 2}");
        assert_string_equal(task->reason_class, "");
        assert_string_equal(task->callback, "");
        assert_int_equal(task->runs, 2);
        assert_int_equal(task->seen_attempt, 2);
        assert_int_equal(metric_value(&metrics->exhausted), exhausted);
    }
}

/* The next failure, under the scene as it is, exhausts it. */
static void a_task_that_fails_under_the_new_scene_too_is_exhausted(void **state)
{
    struct task *task = retry_fixture_task("mail", "key");

    (void)state;
    task->fail_runs = 2;
    task->meanwhile = change_options;
    retry_fixture_scene("mail", "{\"attempts\": 1}", "{\"n\": 1}", false);
    host_start(0);
    retry_fixture_run(3000);
    assert_int_equal(retry_fixture_state(task), TASK_BLOCKED);
    assert_int_equal(task->runs, 2);
    assert_int_equal(task->base.old.attempts, 2);
}

static void a_deadline_that_is_replaced_after_the_claim_ends_no_task(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    task->base.now.age_from_ms -= 5000;
    task->base.now.next_ms += 60000;
    retry_fixture_save(task);
    retry_fixture_scene("mail", "{\"deadline\": \"1s\"}", NULL, false);
    retry_fixture_fail_next(FAKE_TASKS_FINISH, 1);
    host_start(0);
    while (task->claims == 0)
        retry_fixture_run(1);
    assert_int_equal(retry_fixture_state(task), TASK_RUNNING);
    /* Before the update is written. */
    retry_fixture_scene("mail", "{\"deadline\": \"1h\"}", NULL, false);
    retry_fixture_run(5000);
    assert_int_equal(retry_fixture_state(task), TASK_WAITING);
    assert_int_equal(task->base.old.attempts, 0);
    assert_true(task->base.old.next_ms > fixture.now_ms);
    assert_true(retry_fixture_drain(60000));
    assert_int_equal(task->runs, 1);
    assert_string_equal(retry_fixture_outcome(task), "done");
}

static void a_changed_scene_is_not_claimed_while_the_scenes_cannot_be_read(void **state)
{
    struct task *task;
    size_t claims;

    (void)state;
    host_start(0);
    retry_fixture_run(1500);
    retry_fixture_fail_next(FAKE_TASKS_SCENES, 6);
    retry_fixture_scene("mail", NULL, "{\"n\": 1}", false);
    task = retry_fixture_task("mail", NULL);
    while (fixture.calls[FAKE_TASKS_SCENES] < fixture.fail_from)
        retry_fixture_run(1);
    claims = task->claims;
    while (fixture.calls[FAKE_TASKS_SCENES] < fixture.fail_from + 5)
        retry_fixture_run(1);
    assert_in_range(claims, 0, 1);
    assert_int_equal(task->claims, claims);
    assert_int_equal(task->runs, 0);
    assert_true(retry_fixture_drain(20000));
    assert_string_equal(task->seen_options, "{\"n\": 1}");
}

static void nothing_is_claimed_before_the_scenes_are_known(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", NULL, NULL, true);
    retry_fixture_fail_next(FAKE_TASKS_SCENES, 5);
    host_start(0);
    retry_fixture_run(5000);
    assert_true(fixture.calls[FAKE_TASKS_SCENES] > 5);
    assert_int_equal(task->claims, 0);
}

/* Failures of the reads of scenes alone, while every other call works: a pause that could not be
 * read holds all the same. */
static void nothing_is_claimed_while_the_scenes_cannot_be_read_again(void **state)
{
    struct task *task;

    (void)state;
    retry_fixture_scene("mail", NULL, NULL, false);
    host_start(0);
    retry_fixture_run(2000);
    retry_fixture_fail_next(FAKE_TASKS_SCENES, 8);
    while (fixture.calls[FAKE_TASKS_SCENES] < fixture.fail_from)
        retry_fixture_run(1);
    retry_fixture_scene("mail", NULL, NULL, true);
    task = retry_fixture_task("mail", NULL);
    retry_fixture_run(30000);
    assert_true(fixture.calls[FAKE_TASKS_SCENES] > fixture.fail_from + 8);
    assert_int_equal(task->claims, 0);
    retry_fixture_scene("mail", NULL, NULL, false);
    assert_true(retry_fixture_drain(1500));
}

static void a_change_of_a_scene_is_recorded_once_it_is_in_force(void **state)
{
    (void)state;
    retry_fixture_scene("mail", NULL, NULL, false);
    host_start(0);
    host_start(1);
    retry_fixture_run(1100);
    assert_int_equal(fixture.recorded[0], 1);
    assert_int_equal(fixture.recorded[1], 1);
    fixture.calls[FAKE_TASKS_RECORD] = 0;
    retry_fixture_run(3000);
    assert_int_equal(fixture.calls[FAKE_TASKS_RECORD], 0);
    retry_fixture_scene("mail", NULL, NULL, true);
    while (fixture.recorded[0] < 2)
        retry_fixture_run(1);
    retry_fixture_task("mail", NULL);
    fixture.hosts[1].dispatcher_due_ms = INT64_MAX; /* only the first one may run it */
    retry_fixture_run(2000);
    assert_int_equal(fixture.tasks[0].claims, 0);
}

/* Also when the next look at the tasks is due much later. */
static void tasks_that_wait_for_a_thread_go_back_before_a_pause_is_recorded(void **state)
{
    struct host *host = &fixture.hosts[0];
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    retry_fixture_scene("mail", NULL, NULL, false);
    host->settings.retry.poll_ms = 600000;
    host->slow = true;
    host_start(0);
    retry_fixture_run(1500);
    assert_int_equal(retry_fixture_state(task), TASK_RUNNING);
    retry_fixture_scene("mail", NULL, NULL, true);
    while (fixture.recorded[0] < 2)
        retry_fixture_run(1);
    host->slow = false;
    retry_fixture_run(5000);
    assert_int_equal(task->runs, 0);
    assert_int_equal(retry_fixture_state(task), TASK_WAITING);
}

static void scenes_are_read_every_second_while_they_cannot_be_recorded(void **state)
{
    struct task *task;

    (void)state;
    retry_fixture_scene("mail", NULL, NULL, false);
    retry_fixture_fail_next(FAKE_TASKS_RECORD, 1000);
    host_start(0);
    retry_fixture_run(20000);
    assert_true(fixture.calls[FAKE_TASKS_SCENES] >= 20);
    retry_fixture_scene("mail", NULL, NULL, true);
    retry_fixture_run(1100);
    task = retry_fixture_task("mail", NULL);
    retry_fixture_run(10000);
    assert_int_equal(task->claims, 0);
}

static void a_record_that_fails_or_is_lost_is_made_again(void **state)
{
    (void)state;
    retry_fixture_scene("mail", NULL, NULL, false);
    retry_fixture_fail_next(FAKE_TASKS_RECORD, 2);
    fixture.fail_rc = RC_RETRY;
    host_start(0);
    while (fixture.calls[FAKE_TASKS_RECORD] < 2)
        retry_fixture_run(1);
    assert_int_equal(fixture.recorded[0], 0);
    retry_fixture_task("mail", NULL);
    assert_true(retry_fixture_drain(2000));
    retry_fixture_run(8000);
    assert_int_equal(fixture.recorded[0], 1);
    /* The row of its heartbeat was removed. */
    fixture.recorded[0] = 0;
    retry_fixture_run(1500);
    assert_int_equal(fixture.recorded[0], 1);
}

static void a_rate_is_kept_by_all_processes_together(void **state)
{
    size_t done;

    (void)state;
    many("mail", 400);
    retry_fixture_scene("mail", "{\"rate\": \"20/s burst 16\"}", NULL, false);
    shards_set(0, "0-3");
    shards_set(1, "4-15");
    host_start(0);
    host_start(1);
    retry_fixture_run(1000);
    done = retry_fixture_count(-1);
    assert_in_range(done, 20, 45);
    retry_fixture_run(5000);
    assert_in_range(retry_fixture_count(-1) - done, 80, 110);
}

/* Each of them alone would get all of it. */
static void a_rate_is_kept_by_processes_with_different_handlers(void **state)
{
    size_t done;

    (void)state;
    many("mail", 400);
    for (size_t i = 0; i < 400; i += 2)
        snprintf(fixture.tasks[i].base.class.handler, sizeof(fixture.tasks[i].base.class.handler),
                 "other");
    retry_fixture_scene("mail", "{\"rate\": \"20/s burst 16\"}", NULL, false);
    fixture.hosts[0].runs_other = fixture.hosts[0].lacks_test = true;
    host_start(0);
    host_start(1);
    retry_fixture_run(1000);
    done = retry_fixture_count(-1);
    assert_in_range(done, 20, 45);
    retry_fixture_run(5000);
    assert_in_range(retry_fixture_count(-1) - done, 80, 110);
    /* One that no process runs any more takes no part of it. */
    host_kill(0);
    retry_fixture_run(1000);
    done = retry_fixture_count(-1);
    retry_fixture_run(5000);
    assert_in_range(retry_fixture_count(-1) - done, 80, 110);
}

static size_t pass_to_open(void)
{
    for (size_t i = 0; i < 30; i++) {
        struct task *task = retry_fixture_task("mail", NULL);

        task->fail_runs = 1000;
        task->delay_ms = 5000;
    }
    retry_fixture_run(500);
    return fixture.count;
}

static size_t runs_of_all(void)
{
    size_t runs = 0;

    for (size_t i = 0; i < fixture.count; i++)
        runs += fixture.tasks[i].runs;
    return runs;
}

static void a_failing_destination_is_only_probed(void **state)
{
    struct task *other;

    (void)state;
    host_start(0);
    pass_to_open();
    /* Those that were claimed with the ones that failed are not tried, and it costs them
     * nothing. */
    assert_in_range(runs_of_all(), 10, 13);
    assert_int_equal(metric_value(&retry_breakers_open), 1);
    other = retry_fixture_task("other", NULL);
    retry_fixture_run(4000);
    assert_int_equal(other->runs, 1);
    assert_in_range(runs_of_all(), 11, 22);
    for (size_t i = 0; i < fixture.count; i++)
        fixture.tasks[i].fail_runs = 0;
    assert_true(retry_fixture_drain(90000));
    assert_int_equal(metric_value(&retry_breakers_open), 0);
    for (size_t i = 0; i < 30; i++)
        assert_in_range(fixture.tasks[i].base.old.attempts, 0, 3);
}

static void one_failing_task_does_not_open_the_breaker(void **state)
{
    (void)state;
    retry_fixture_scene("mail", "{\"wait\": \"fixed 20ms\", \"attempts\": 0}", NULL, false);
    host_start(0);
    retry_fixture_task("mail", NULL)->fail_runs = 9;
    many("mail", 20);
    assert_true(retry_fixture_drain(3000));
    for (size_t i = 0; i < 12; i++)
        retry_fixture_task("mail", NULL)->fault = FAULT_CLASS_REFUSED;
    for (size_t i = 21; i < 33; i++)
        fixture.tasks[i].fail_runs = 1;
    many("mail", 3);
    assert_true(retry_fixture_drain(2000));
    assert_string_equal(retry_fixture_outcome(&fixture.tasks[33]), "done");
}

static void the_oldest_class_comes_first_and_each_has_its_turn(void **state)
{
    (void)state;
    shards_set(0, "0-15");
    for (size_t i = 0; i < 60; i++) {
        retry_fixture_task("young", "a")->base.key = 0;
        retry_fixture_task("old", "a")->base.key = 0;
        retry_fixture_task("new", "a")->base.key = 0;
    }
    for (size_t i = 0; i < fixture.count; i++) {
        struct task *task = &fixture.tasks[i];
        char first = task->base.class.scene[0];

        task->base.now.next_ms -= first == 'o' ? 900 : first == 'y' ? 500 : 100;
        retry_fixture_save(task);
    }
    host_start(0);
    assert_true(retry_fixture_drain(5000));
    assert_int_equal(strncmp(fixture.last_claims, "old young new ", 14), 0);
    assert_true(fixture.claim_rows_max <= 10);
    /* Until all of old is done, the others had as many turns. */
    assert_true(strstr(fixture.last_claims, "old old old") == NULL);
}

static void full_batches_are_followed_without_a_rest(void **state)
{
    (void)state;
    fixture.hosts[0].settings.retry.poll_ms = 60000;
    for (size_t i = 0; i < 300; i++)
        retry_fixture_task("mail", "a")->base.key = 0;
    host_start(0);
    assert_true(retry_fixture_drain(2000));
    assert_true(fixture.calls[FAKE_TASKS_LOOK] <= 2);
}

static void a_slow_scene_leaves_slots_for_others(void **state)
{
    (void)state;
    many("slow", 100);
    fixture.hosts[0].slow = true;
    host_start(0);
    retry_fixture_run(300);
    /* Half of retry.in_flight_max, also while no other one waits: it may come at any time. */
    assert_int_equal(running(), 32);
    many("quick", 20);
    retry_fixture_run(300);
    assert_int_equal(running(), 32 + 16);
    many("third", 20);
    retry_fixture_run(300);
    assert_int_equal(running(), 32 + 16 + 8);
}

static void no_more_tasks_are_in_flight_than_the_setting_allows(void **state)
{
    (void)state;
    fixture.hosts[0].settings.retry.in_flight_max = 7;
    many("mail", 200);
    host_start(0);
    while (retry_fixture_count(-1) < 200) {
        retry_fixture_run(1);
        assert_true(running() <= 7);
        assert_true(fixture.now_ms < 1060000);
    }
}

static void without_threads_the_dispatcher_runs_them(void **state)
{
    (void)state;
    fixture.hosts[0].settings.retry.threads = 0;
    many("mail", 100);
    host_start(0);
    assert_true(retry_fixture_drain(2000));
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(fixture.tasks[i].runs, 1);
}

static void a_shard_that_is_not_held_is_left_alone(void **state)
{
    (void)state;
    many("mail", 160);
    shards_set(0, "0-3, 7");
    host_start(0);
    retry_fixture_run(3000);
    for (size_t i = 0; i < 160; i++)
        assert_int_equal(fixture.tasks[i].runs, fixture.tasks[i].base.class.shard < 4 ||
                                                        fixture.tasks[i].base.class.shard == 7
                                                    ? 1
                                                    : 0);
}

static void a_fixed_rate_counts_from_the_beginning(void **state)
{
    struct settings *settings = &fixture.hosts[0].settings;

    (void)state;
    snprintf(settings->retry.poll_pace, sizeof(settings->retry.poll_pace), "rate");
    settings->retry.poll_ms = 250;
    host_start(0);
    retry_fixture_run(10000);
    assert_in_range(fixture.calls[FAKE_TASKS_LOOK], 38, 41);
    settings->retry.poll_jitter_percent = 100;
    fixture.calls[FAKE_TASKS_LOOK] = 0;
    retry_fixture_run(10000);
    assert_in_range(fixture.calls[FAKE_TASKS_LOOK], 20, 36);
}

static void a_task_that_is_due_soon_is_not_slept_past(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    fixture.hosts[0].settings.retry.poll_ms = 10000;
    task->base.now.next_ms += 300;
    retry_fixture_save(task);
    host_start(0);
    retry_fixture_run(290);
    assert_int_equal(task->runs, 0);
    retry_fixture_run(30);
    assert_int_equal(task->runs, 1);
}

static void nothing_is_claimed_before_the_first_poll(void **state)
{
    struct task *task = retry_fixture_task("mail", NULL);

    (void)state;
    fixture.hosts[0].settings.retry.first_poll_ms = 5000;
    host_start(0);
    retry_fixture_run(4990);
    assert_int_equal(task->claims, 0);
    retry_fixture_run(200);
    assert_int_equal(task->runs, 1);
    /* Once: a restart waits again, a poll does not. */
    task = retry_fixture_task("mail", "next");
    retry_fixture_run(1000);
    assert_int_equal(task->runs, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unknown_handler_waits_and_is_counted),
        TEST(what_tasks_wait_for_is_named_once_a_minute),
        TEST(more_kinds_than_fit_are_waited_for_until_there_is_room),
        TEST(a_paused_scene_waits_until_it_is_resumed),
        TEST(nothing_is_claimed_while_there_are_too_many_rows_of_scenes),
        TEST(a_scene_with_an_unreadable_policy_is_paused_and_reported),
        TEST(a_scene_whose_row_was_deleted_has_the_default_again),
        TEST(a_task_runs_with_the_options_that_were_in_force_when_it_was_appended),
        TEST(a_deadline_that_was_replaced_ends_no_task),
        TEST(a_task_whose_scene_changed_while_it_ran_is_tried_again),
        TEST(a_task_that_fails_under_the_new_scene_too_is_exhausted),
        TEST(a_deadline_that_is_replaced_after_the_claim_ends_no_task),
        TEST(a_changed_scene_is_not_claimed_while_the_scenes_cannot_be_read),
        TEST(nothing_is_claimed_before_the_scenes_are_known),
        TEST(nothing_is_claimed_while_the_scenes_cannot_be_read_again),
        TEST(a_change_of_a_scene_is_recorded_once_it_is_in_force),
        TEST(tasks_that_wait_for_a_thread_go_back_before_a_pause_is_recorded),
        TEST(scenes_are_read_every_second_while_they_cannot_be_recorded),
        TEST(a_record_that_fails_or_is_lost_is_made_again),
        TEST(a_rate_is_kept_by_all_processes_together),
        TEST(a_rate_is_kept_by_processes_with_different_handlers),
        TEST(a_failing_destination_is_only_probed),
        TEST(one_failing_task_does_not_open_the_breaker),
        TEST(the_oldest_class_comes_first_and_each_has_its_turn),
        TEST(full_batches_are_followed_without_a_rest),
        TEST(a_slow_scene_leaves_slots_for_others),
        TEST(no_more_tasks_are_in_flight_than_the_setting_allows),
        TEST(without_threads_the_dispatcher_runs_them),
        TEST(a_shard_that_is_not_held_is_left_alone),
        TEST(a_fixed_rate_counts_from_the_beginning),
        TEST(a_task_that_is_due_soon_is_not_slept_past),
        TEST(nothing_is_claimed_before_the_first_poll),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
