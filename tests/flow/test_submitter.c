/* SPDX-License-Identifier: MIT */
#include "consumer/held/submitter.h"

#include "common/log.h"
#include "consumer/held/vote_task.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 2000
#define TASKS_MAX 500

static struct {
    struct submitter submitter;
    struct held_store store;
    struct held_key rows[ROWS_MAX];
    size_t row_count;
    char tasks[TASKS_MAX][512]; /* the options of those that are active */
    char orders[TASKS_MAX][VOTE_TASK_ORDER_SIZE];
    size_t task_count;
    int submits;
    int calls;
    int fail_at;
    bool lost; /* the failing one takes effect */
    bool away;
    int64_t now_ms;
} fixture;

static enum rc called(struct err *err)
{
    if (++fixture.calls == fixture.fail_at || fixture.away)
        return err_fail(err, RC_RETRY, 0, "call %d fails", fixture.calls);
    return RC_OK;
}

static enum rc fake_read_keys(void *ctx, int64_t after, size_t rows_max,
                              void (*on_key)(void *key_ctx, const struct held_key *key),
                              void *key_ctx, struct err *err)
{
    enum rc rc = called(err);

    (void)ctx;
    for (size_t i = 0; rc == RC_OK && i < fixture.row_count && rows_max > 0; i++) {
        if (fixture.rows[i].id <= after)
            continue;
        on_key(key_ctx, &fixture.rows[i]);
        rows_max--;
    }
    return rc;
}

static void task_take(const struct retry_new_task *task, size_t *made)
{
    assert_string_equal(task->scene, "dead");
    assert_string_equal(task->handler, "vote");
    assert_string_equal(task->group, "readers");
    assert_null(task->idempotency_key);
    for (size_t i = 0; i < fixture.task_count; i++)
        if (strcmp(fixture.tasks[i], task->options) == 0)
            return;
    assert_true(fixture.task_count < TASKS_MAX);
    snprintf(fixture.orders[fixture.task_count], sizeof(fixture.orders[0]), "%s",
             task->ordering_key);
    snprintf(fixture.tasks[fixture.task_count++], sizeof(fixture.tasks[0]), "%s", task->options);
    ++*made;
}

static enum rc fake_submit(void *ctx, const struct retry_new_task *tasks, size_t count,
                           size_t *made, struct err *err)
{
    bool lost = fixture.calls + 1 == fixture.fail_at && fixture.lost;
    enum rc rc = called(err);

    (void)ctx;
    assert_in_range(count, 1, HELD_SUBMIT_MAX);
    fixture.submits++;
    *made = 0;
    for (size_t i = 0; (rc == RC_OK || lost) && i < count; i++)
        task_take(&tasks[i], made);
    return rc;
}

static uint64_t no_rng(void)
{
    return 0;
}

static void fixture_open(void)
{
    memset(&fixture, 0, sizeof(fixture));
    fixture.store = (struct held_store){.read_keys = fake_read_keys, .submit = fake_submit};
    assert_int_equal(submitter_init(&fixture.submitter, &fixture.store, "readers", no_rng, NULL),
                     RC_OK);
    fixture.now_ms = 100000;
}

static void put(int partition, int key)
{
    struct held_key *row = &fixture.rows[fixture.row_count++];

    *row = (struct held_key){.id = (int64_t)fixture.row_count, .partition = partition};
    snprintf(row->topic, sizeof(row->topic), "votes");
    snprintf(row->key, sizeof(row->key), "%d", key);
}

/* Calls the step until it would wait for longer than max_ms, and moves the time as it asks. */
static void run(int64_t max_ms)
{
    for (int i = 0; i < 10000; i++) {
        int64_t wait_ms = submitter_step(&fixture.submitter, fixture.now_ms);

        if (wait_ms > max_ms)
            return;
        fixture.now_ms += wait_ms;
    }
    fail();
}

static void every_key_that_is_held_gets_one_task(void **state)
{
    (void)state;
    fixture_open();
    for (int i = 0; i < 1700; i++)
        put(i % 3, i % 231);
    run(5000);
    assert_int_equal(fixture.task_count, 231);
    assert_string_equal(fixture.orders[1], "votes/1/1");
    assert_string_equal(fixture.tasks[1],
                        "{\"dead\":{\"group\":\"readers\",\"topic\":\"votes\",\"partition\":1,"
                        "\"key\":\"1\"}}");
    /* A minute later the same ones still have one. */
    fixture.now_ms += SUBMITTER_SEARCH_MS;
    run(5000);
    assert_int_equal(fixture.task_count, 231);
    submitter_done(&fixture.submitter);
}

static void held_keys_are_read_soon_but_not_all_the_time(void **state)
{
    int submits;

    (void)state;
    fixture_open();
    run(5000);
    put(0, 1);
    submitter_request(&fixture.submitter);
    assert_in_range(submitter_step(&fixture.submitter, fixture.now_ms), 1, SUBMITTER_GAP_MS);
    fixture.now_ms += SUBMITTER_GAP_MS;
    run(0);
    assert_int_equal(fixture.task_count, 1);
    submits = fixture.submits;
    for (int i = 0; i < 100; i++) {
        submitter_request(&fixture.submitter);
        submitter_step(&fixture.submitter, fixture.now_ms++);
    }
    assert_int_equal(fixture.submits, submits);
    submitter_done(&fixture.submitter);
}

static void failures_only_delay_tasks_and_no_failed_call_loses_one(void **state)
{
    (void)state;
    for (int call = 1; call <= 12; call++) {
        for (int lost = 0; lost <= 1; lost++) {
            fixture_open();
            for (int i = 0; i < 1200; i++)
                put(0, 1 + i % 230);
            fixture.fail_at = call;
            fixture.lost = lost;
            run(10000);
            assert_int_equal(fixture.task_count, 230);
            submitter_done(&fixture.submitter);
        }
    }
    fixture_open();
    put(0, 1);
    fixture.away = true;
    for (int i = 0; i < 50; i++) {
        int64_t wait_ms = submitter_step(&fixture.submitter, fixture.now_ms);

        submitter_request(&fixture.submitter);
        assert_in_range(wait_ms, 0, 60000);
        fixture.now_ms += wait_ms;
    }
    assert_in_range(fixture.calls, 10, 50);
    fixture.away = false;
    run(40000);
    assert_int_equal(fixture.task_count, 1);
    submitter_done(&fixture.submitter);
}

static void names_that_do_not_fit_are_made_to(void **state)
{
    static const char *const groups[] = {
        "my group", "my_group",
        "a-name-that-is-longer-than-the-sixty-four-characters-that-fit-in-1",
        "a-name-that-is-longer-than-the-sixty-four-characters-that-fit-in-2"};
    const struct vote_task_place odd = {"t", 0, "\xff\x01", 2};
    const struct vote_task_place none = {"t", 0, NULL, 0};
    struct vote_task tasks[4] = {0};
    struct retry_new_task view;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct vote_options options = {.has_dead = true, .ids = {7}, .id_count = 1};

        snprintf(options.group, sizeof(options.group), "%s", groups[i]);
        assert_int_equal(vote_task_make(&tasks[i], &options, i == 0 ? &odd : &none, NULL), RC_OK);
        assert_in_range(strlen(tasks[i].group), 1, RETRY_NAME_BYTES_MAX);
        assert_null(strchr(tasks[i].group, ' '));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(tasks[i].group, tasks[j].group);
    }
    view = vote_task_view(&tasks[0]);
    assert_non_null(strstr(view.ordering_key, "t/0/#"));
    assert_null(view.biz_no);
    view = vote_task_view(&tasks[1]);
    assert_null(view.ordering_key);
    for (size_t i = 0; i < 4; i++)
        vote_task_done(&tasks[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_that_is_held_gets_one_task),
        cmocka_unit_test(held_keys_are_read_soon_but_not_all_the_time),
        cmocka_unit_test(failures_only_delay_tasks_and_no_failed_call_loses_one),
        cmocka_unit_test(names_that_do_not_fit_are_made_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
