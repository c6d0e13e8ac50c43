/* SPDX-License-Identifier: MIT */
/* The reporter with a fake of the server: client_post() of this file. */
#include "outbox/client/client_http.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tallybox/task.h>
#include <time.h>

#include <cmocka.h>

enum answer { TAKES_ALL, IS_AWAY, REFUSES_REQUEST, REFUSES_FIRST };

static struct {
    pthread_mutex_t lock; /* guards the rest */
    enum answer answer;
    int requests;
    size_t tasks; /* of all requests */
    int refused;
    char reason[TALLYBOX_ERROR_SIZE];
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t count_tasks(const struct buf *body)
{
    static const char word[] = "\"scene\"";
    size_t count = 0;

    for (size_t i = 0; i + sizeof(word) <= body->len; i++)
        count += memcmp(body->data + i, word, sizeof(word) - 1) == 0;
    return count;
}

enum rc client_post(struct tallybox_client *client, const struct buf *body,
                    const atomic_llong *until_ms, struct client_reply *reply, struct err *err)
{
    size_t count = count_tasks(body);
    enum answer answer;

    (void)client;
    (void)until_ms;
    pthread_mutex_lock(&fake.lock);
    fake.requests++;
    fake.tasks += count;
    answer = fake.answer;
    pthread_mutex_unlock(&fake.lock);
    if (answer == IS_AWAY)
        return err_fail(err, RC_RETRY, 503, "away");
    if (answer == REFUSES_REQUEST)
        return err_fail(err, RC_REJECT, 413, "too large");
    for (size_t i = 0; i < count; i++) {
        buf_char(&reply->body, i > 0 ? ',' : '[');
        buf_text_put(&reply->body, answer == REFUSES_FIRST && i == 0
                                       ? "{\"error\":{\"code\":\"bad\",\"message\":\"why\"}}"
                                       : "{\"id\":1,\"existed\":false}");
    }
    buf_char(&reply->body, ']');
    return RC_OK;
}

static void on_refused(void *ctx, const char *task, const char *key, const char *reason)
{
    assert_ptr_equal(ctx, &fake);
    assert_non_null(strstr(task, key));
    pthread_mutex_lock(&fake.lock);
    fake.refused++;
    strncpy(fake.reason, reason, sizeof(fake.reason) - 1);
    pthread_mutex_unlock(&fake.lock);
}

static struct tallybox_reporter *open_reporter(enum answer answer, size_t window)
{
    const struct tallybox_reporter_config config = {.window_tasks = window,
                                                    .batch_tasks = 4,
                                                    .flush_ms = 600000,
                                                    .retry_ms = 1,
                                                    .retry_ms_max = 2,
                                                    .on_refused = on_refused,
                                                    .ctx = &fake};
    struct tallybox_reporter *reporter = NULL;
    struct tallybox_error error;

    fake.answer = answer;
    fake.requests = fake.refused = 0;
    fake.tasks = 0;
    memset(fake.reason, 0, sizeof(fake.reason));
    assert_int_equal(tallybox_reporter_open(&reporter, NULL, &config, &error), TALLYBOX_OK);
    return reporter;
}

static enum tallybox_outcome report(struct tallybox_reporter *reporter, tallybox_work work,
                                    void *ctx, struct tallybox_error *error)
{
    const struct tallybox_policy policy = {.attempts = 3, .wait_ms = 1, .wait_ms_max = 1};

    return tallybox_reporter_try(reporter, &policy, work, ctx,
                                 &(struct tallybox_task){.scene = "s", .handler = "http"}, error);
}

static void put(struct tallybox_reporter *reporter, int count)
{
    struct tallybox_error error;

    for (int i = 0; i < count; i++)
        assert_int_equal(report(reporter, NULL, NULL, &error), TALLYBOX_QUEUED_LOCALLY);
}

/* Until the server was asked so often: then all requests before the last one have their answers. */
static void wait_requests(int count)
{
    int requests = 0;

    while (requests < count) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        pthread_mutex_lock(&fake.lock);
        requests = fake.requests;
        pthread_mutex_unlock(&fake.lock);
    }
}

static enum tallybox_result fail_until(void *ctx, int attempt)
{
    int *successful = ctx;

    return attempt < *successful ? TALLYBOX_RETRY : TALLYBOX_OK;
}

static enum tallybox_result refuse(void *ctx, int attempt)
{
    (void)ctx;
    (void)attempt;
    return TALLYBOX_REJECT;
}

static void test_work_is_tried_as_often_as_the_policy_says(void **state)
{
    struct tallybox_reporter *reporter = open_reporter(TAKES_ALL, 8);
    struct tallybox_counts counts;
    struct tallybox_error error;
    int third = 3, fourth = 4;

    (void)state;
    assert_int_equal(report(reporter, fail_until, &third, &error), TALLYBOX_DONE);
    assert_int_equal(report(reporter, fail_until, &fourth, &error), TALLYBOX_QUEUED_LOCALLY);
    assert_int_equal(report(reporter, refuse, NULL, &error), TALLYBOX_REFUSED);
    assert_string_equal(error.text, "the work refused");
    tallybox_reporter_counts(reporter, &counts);
    assert_int_equal(counts.done, 1);
    assert_int_equal(counts.waiting, 1);
    assert_int_equal(tallybox_reporter_close(reporter, 60000, &counts, &error), TALLYBOX_OK);
    assert_int_equal(counts.reported, 1);
    assert_int_equal(counts.lost, 0);
}

static void test_a_task_with_a_fault_is_refused_before_the_work(void **state)
{
    struct tallybox_reporter *reporter = open_reporter(TAKES_ALL, 8);
    struct tallybox_error error;

    (void)state;
    /* work that must not be called */
    assert_int_equal(tallybox_reporter_try(reporter, NULL, (tallybox_work)NULL, NULL,
                                           &(struct tallybox_task){.scene = "a b"}, &error),
                     TALLYBOX_REFUSED);
    assert_non_null(strstr(error.text, "scene has a character"));
    assert_int_equal(tallybox_reporter_close(reporter, 0, NULL, NULL), TALLYBOX_OK);
    assert_int_equal(fake.requests, 0);
}

static void test_a_full_window_drops_when_the_wait_is_over_and_close_counts_the_lost(void **state)
{
    struct tallybox_reporter *reporter = open_reporter(IS_AWAY, 6);
    struct tallybox_counts counts;
    struct tallybox_error error;

    (void)state;
    put(reporter, 6);
    assert_int_equal(report(reporter, NULL, NULL, &error), TALLYBOX_DROPPED);
    assert_non_null(strstr(error.text, "no room: 6 tasks"));
    wait_requests(2);
    assert_int_equal(tallybox_reporter_close(reporter, 20, &counts, &error), TALLYBOX_RETRY);
    assert_string_equal(error.text, "6 tasks were not reported in time: away");
    assert_int_equal(counts.queued, 6);
    assert_int_equal(counts.dropped, 1);
    assert_int_equal(counts.lost, 6);
    assert_int_equal(counts.waiting, 0);
    assert_true(counts.failed > 0);
}

static void test_a_full_batch_is_sent_without_a_close(void **state)
{
    struct tallybox_reporter *reporter = open_reporter(TAKES_ALL, 8);
    struct tallybox_counts counts;

    (void)state;
    put(reporter, 4);
    do
        tallybox_reporter_counts(reporter, &counts);
    while (counts.waiting > 0);
    assert_int_equal(counts.reported, 4);
    assert_int_equal(fake.requests, 1);
    assert_int_equal(tallybox_reporter_close(reporter, 0, &counts, NULL), TALLYBOX_OK);
}

static void test_refused_tasks_are_told_one_by_one(void **state)
{
    struct tallybox_reporter *reporter = open_reporter(REFUSES_FIRST, 8);
    struct tallybox_counts counts;

    (void)state;
    put(reporter, 3);
    assert_int_equal(tallybox_reporter_close(reporter, 60000, &counts, NULL), TALLYBOX_OK);
    assert_int_equal(counts.refused, 1);
    assert_int_equal(counts.reported, 2);
    assert_int_equal(fake.refused, 1);
    assert_string_equal(fake.reason, "bad: why");

    reporter = open_reporter(REFUSES_REQUEST, 8);
    put(reporter, 3);
    assert_int_equal(tallybox_reporter_close(reporter, 60000, &counts, NULL), TALLYBOX_OK);
    assert_int_equal(counts.refused, 3);
    assert_int_equal(fake.refused, 3);
    assert_string_equal(fake.reason, "too large");
}

static void test_values_that_are_wrong_are_named(void **state)
{
    const struct tallybox_reporter_config configs[] = {
        {.flush_ms = -1}, {.exit_ms = -2}, {.batch_tasks = 1001, .window_tasks = 2000}};
    struct tallybox_reporter *reporter = NULL;
    struct tallybox_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++)
        assert_int_equal(tallybox_reporter_open(&reporter, NULL, &configs[i], &error),
                         TALLYBOX_REJECT);
    assert_null(reporter);
    assert_int_equal(tallybox_reporter_close(NULL, 0, NULL, NULL), TALLYBOX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_is_tried_as_often_as_the_policy_says),
        cmocka_unit_test(test_a_task_with_a_fault_is_refused_before_the_work),
        cmocka_unit_test(test_a_full_window_drops_when_the_wait_is_over_and_close_counts_the_lost),
        cmocka_unit_test(test_a_full_batch_is_sent_without_a_close),
        cmocka_unit_test(test_refused_tasks_are_told_one_by_one),
        cmocka_unit_test(test_values_that_are_wrong_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
