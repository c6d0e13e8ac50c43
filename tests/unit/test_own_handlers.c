/* SPDX-License-Identifier: MIT */
#include "outbox/client/own_handlers.h"

#include "common/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct {
    enum tallybox_run_end end;
    const char *reason;
    int64_t delay_ms;
    int goes_on;
    int ended;
    enum tallybox_result start;
} fake;

static enum tallybox_result start_fake(void **state, const struct tallybox_start *start,
                                       struct tallybox_error *error)
{
    assert_int_equal(start->workers, 3);
    *state = &fake;
    strcpy(error->text, "no luck");
    return fake.start;
}

static enum tallybox_result check_fake(const struct tallybox_job *job, struct tallybox_error *error)
{
    strcpy(error->text, "options are bad");
    return strcmp(job->options, "{}") == 0 ? TALLYBOX_OK : TALLYBOX_REJECT;
}

static enum tallybox_run_end run_fake(void *state, size_t worker, const struct tallybox_job *job,
                                      struct tallybox_attempt *attempt)
{
    assert_ptr_equal(state, &fake);
    assert_int_equal(worker, 2);
    assert_string_equal(job->scene, "mail");
    fake.goes_on = tallybox_attempt_goes_on(attempt);
    if (fake.reason)
        tallybox_attempt_explain(attempt, "%s", fake.reason);
    if (fake.delay_ms)
        tallybox_attempt_delay(attempt, fake.delay_ms);
    tallybox_attempt_put_result(attempt, "made", 4);
    return fake.end;
}

static void end_fake(void *state)
{
    assert_ptr_equal(state, &fake);
    fake.ended++;
}

static const struct tallybox_handler whole = {
    .name = "mail", .start = start_fake, .check = check_fake, .run = run_fake, .end = end_fake};
static const struct tallybox_handler bare = {.name = "bare", .about = "b", .run = run_fake};
static const struct tallybox_handler nameless = {.run = run_fake};
static const struct tallybox_handler spaced = {.name = "a b", .run = run_fake};
static const struct tallybox_handler idle = {.name = "idle"};

static const struct retry_handler http = {.name = "http"};

static const struct retry_handler *list[RETRY_HANDLERS_MAX];
static size_t count;
static struct stop stop;
static atomic_llong lease_until_ms;

static enum rc add(const struct tallybox_handler *const *own, size_t own_count, struct err *err)
{
    list[0] = &http;
    count = 1;
    return own_handlers_add(list, &count, own, own_count, err);
}

static void test_handlers_follow_those_of_the_program(void **state)
{
    const struct tallybox_handler *const own[] = {&whole, &bare};
    struct err err;

    (void)state;
    assert_int_equal(add(own, 2, &err), RC_OK);
    assert_int_equal(count, 3);
    assert_string_equal(list[1]->name, "mail");
    assert_string_equal(list[2]->about, "b");
    assert_int_equal(add(NULL, 0, &err), RC_OK);
    assert_int_equal(count, 1);
}

static void test_a_handler_with_a_fault_is_named(void **state)
{
    static const struct tallybox_handler known = {.name = "http", .run = run_fake};
    const struct tallybox_handler *const many[TALLYBOX_HANDLERS_MAX + 1] = {&bare};
    const struct {
        const struct tallybox_handler *own[2];
        const char *text;
    } cases[] = {
        {{&whole, &nameless}, "handler \"\": a name has"},
        {{&whole, &spaced}, "handler \"a b\": a name has"},
        {{&whole, &whole}, "handler \"mail\": there are two"},
        {{&bare, &known}, "handler \"http\": there are two"},
        {{&bare, &idle}, "handler \"idle\" has no run()"},
    };
    struct err err;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(add(cases[i].own, 2, &err), RC_REJECT);
        assert_int_equal(count, 1);
        if (!strstr(err.text, cases[i].text))
            fail_msg("\"%s\" instead of \"%s\"", err.text, cases[i].text);
    }
    assert_int_equal(add(many, COUNT(many), &err), RC_REJECT);
}

/* Opens the handler, runs it once and closes it. */
static void run_once(const struct retry_handler *handler, struct attempt_result *result,
                     struct buf *bytes)
{
    const struct retry_handler_env env = {.self = handler, .stop = &stop, .workers = 3};
    const struct retry_job job = {.scene = "mail", .lease_until_ms = &lease_until_ms};
    struct err err;
    void *opened = NULL;

    buf_reset(bytes);
    *result = (struct attempt_result){.delay_ms = ATTEMPT_NO_DELAY, .result = bytes};
    assert_int_equal(handler->open(&opened, &env, &err), RC_OK);
    handler->run(opened, 2, &job, result);
    handler->close(opened);
}

static void test_each_end_becomes_that_of_the_queue(void **state)
{
    const struct tallybox_handler *const own[] = {&whole};
    const struct {
        enum tallybox_run_end end;
        const char *reason;
        int64_t delay_ms;
        enum attempt_end queue_end;
        enum fault_class fault;
        int64_t queue_delay_ms;
        const char *text;
    } cases[] = {
        {TALLYBOX_RUN_DONE, NULL, 0, ATTEMPT_DONE, 0, ATTEMPT_NO_DELAY, ""},
        {TALLYBOX_RUN_FAILED, "away", 0, ATTEMPT_FAILED, FAULT_CLASS_TRANSIENT, ATTEMPT_NO_DELAY,
         "away"},
        {TALLYBOX_RUN_FAILED, NULL, 700, ATTEMPT_FAILED, FAULT_CLASS_TRANSIENT, 700,
         "the handler gave no reason"},
        {TALLYBOX_RUN_REFUSED, "bad", 0, ATTEMPT_FAILED, FAULT_CLASS_REFUSED, ATTEMPT_NO_DELAY,
         "bad"},
        {TALLYBOX_RUN_OURS, "key", 0, ATTEMPT_FAILED, FAULT_CLASS_OURS, ATTEMPT_NO_DELAY, "key"},
        {TALLYBOX_RUN_REJECTED, "no", 0, ATTEMPT_REJECTED, FAULT_CLASS_REFUSED, ATTEMPT_NO_DELAY,
         "no"},
        {TALLYBOX_RUN_SNOOZED, "later", 0, ATTEMPT_SNOOZED, FAULT_CLASS_TRANSIENT, 60000, "later"},
        {TALLYBOX_RUN_SNOOZED, "later", 5, ATTEMPT_SNOOZED, FAULT_CLASS_TRANSIENT, 5, "later"},
        {TALLYBOX_RUN_CUT, "lazy", 0, ATTEMPT_FAILED, FAULT_CLASS_TRANSIENT, ATTEMPT_NO_DELAY,
         "lazy"},
        {(enum tallybox_run_end)77, "odd", 0, ATTEMPT_FAILED, FAULT_CLASS_TRANSIENT,
         ATTEMPT_NO_DELAY, "odd"},
    };
    struct attempt_result result;
    struct buf bytes = {0};
    struct err err;

    (void)state;
    assert_int_equal(add(own, 1, &err), RC_OK);
    atomic_store(&lease_until_ms, os_now_ms() + 600000);
    for (size_t i = 0; i < COUNT(cases); i++) {
        memset(&fake, 0, sizeof(fake));
        fake.end = cases[i].end;
        fake.reason = cases[i].reason;
        fake.delay_ms = cases[i].delay_ms;
        run_once(list[1], &result, &bytes);
        assert_int_equal(fake.goes_on, 1);
        assert_int_equal(result.end, cases[i].queue_end);
        assert_int_equal(result.delay_ms, cases[i].queue_delay_ms);
        assert_string_equal(result.err.text, cases[i].text);
        assert_string_equal(buf_text(&bytes), "made");
        if (result.end != ATTEMPT_DONE)
            assert_int_equal(result.fault, cases[i].fault);
        assert_int_equal(fake.ended, 1);
    }
    buf_done(&bytes);
}

static void test_an_attempt_without_a_lease_is_cut_before_it_begins(void **state)
{
    const struct tallybox_handler *const own[] = {&whole};
    struct attempt_result result;
    struct buf bytes = {0};
    struct err err;

    (void)state;
    memset(&fake, 0, sizeof(fake));
    assert_int_equal(add(own, 1, &err), RC_OK);
    atomic_store(&lease_until_ms, os_now_ms());
    run_once(list[1], &result, &bytes);
    assert_int_equal(result.end, ATTEMPT_CUT);
    assert_non_null(strstr(result.err.text, "lease"));
    assert_int_equal(bytes.len, 0);
    buf_done(&bytes);
}

static void test_a_stop_cuts_an_attempt(void **state)
{
    const struct tallybox_handler *const own[] = {&whole};
    struct attempt_result result;
    struct buf bytes = {0};
    struct err err;

    (void)state;
    memset(&fake, 0, sizeof(fake));
    assert_int_equal(add(own, 1, &err), RC_OK);
    assert_int_equal(stop_init(&stop, &err), RC_OK);
    stop_request(&stop);
    atomic_store(&lease_until_ms, os_now_ms() + 600000);
    run_once(list[1], &result, &bytes);
    assert_int_equal(result.end, ATTEMPT_CUT);
    assert_string_equal(result.err.text, "the process stops");
    stop_done(&stop);
    memset(&stop, 0, sizeof(stop));
    buf_done(&bytes);
}

static void test_a_start_that_fails_names_the_reason(void **state)
{
    const struct tallybox_handler *const own[] = {&whole};
    struct err err;
    void *opened = NULL;

    (void)state;
    assert_int_equal(add(own, 1, &err), RC_OK);
    memset(&fake, 0, sizeof(fake));
    fake.start = TALLYBOX_RETRY;
    assert_int_equal(
        list[1]->open(&opened,
                      &(struct retry_handler_env){.self = list[1], .stop = &stop, .workers = 3},
                      &err),
        RC_FATAL);
    assert_string_equal(err.text, "no luck");
    assert_null(opened);
}

static void test_a_task_is_checked_by_its_handler(void **state)
{
    const struct tallybox_handler *const own[] = {&whole, &bare};
    struct retry_job job = {.options = "{\"a\":1}"};
    struct err err;

    (void)state;
    assert_int_equal(add(own, 2, &err), RC_OK);
    job.handler = list[1];
    assert_int_equal(list[1]->check(NULL, &job, &err), RC_REJECT);
    assert_string_equal(err.text, "options are bad");
    job.options = "{}";
    assert_int_equal(list[1]->check(NULL, &job, &err), RC_OK);
    job.handler = list[2];
    assert_int_equal(list[2]->check(NULL, &job, &err), RC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handlers_follow_those_of_the_program),
        cmocka_unit_test(test_a_handler_with_a_fault_is_named),
        cmocka_unit_test(test_each_end_becomes_that_of_the_queue),
        cmocka_unit_test(test_an_attempt_without_a_lease_is_cut_before_it_begins),
        cmocka_unit_test(test_a_stop_cuts_an_attempt),
        cmocka_unit_test(test_a_start_that_fails_names_the_reason),
        cmocka_unit_test(test_a_task_is_checked_by_its_handler),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
