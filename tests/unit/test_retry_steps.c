/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/steps_handler.h"

#include "outbox/retry/handlers/exec_handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A handler that records its arguments and returns a given result. */
struct echo {
    char seen[256];
    enum attempt_end end;
};

static enum rc echo_check(const struct retry_handlers *all, const struct retry_job *job,
                          struct err *err)
{
    (void)all;
    if (job->params_len > 100)
        return err_fail(err, RC_REJECT, 0, "too many bytes");
    return strstr(job->options, "bad") ? err_fail(err, RC_REJECT, 0, "bad options") : RC_OK;
}

static void echo_run(void *handler, size_t worker, const struct retry_job *job,
                     struct attempt_result *attempt)
{
    struct echo *echo = handler;

    snprintf(echo->seen, sizeof(echo->seen), "%zu %s %s %.*s %s", worker, job->options,
             job->idempotency_key, (int)job->params_len,
             job->params ? (const char *)job->params : "", job->params_type);
    attempt->end = echo->end;
    if (echo->end == ATTEMPT_DONE)
        buf_text_put(attempt->result, "made");
    else
        err_set(&attempt->err, "no luck");
}

static void echo_destination(const struct retry_handlers *all, const struct retry_job *job,
                             struct buf *name)
{
    (void)all;
    buf_print(name, "echo:%s", job->options);
}

static const struct retry_handler echo_handler = {
    .name = "echo", .check = echo_check, .destination = echo_destination, .run = echo_run};
static const struct retry_handler absent_handler = {.name = "absent", .run = echo_run};

static const struct retry_handler *const list[] = {&retry_steps_handler, &echo_handler,
                                                   &absent_handler, &retry_exec_handler};

struct fixture {
    struct echo echo;
    void *opened[4];
    struct retry_handlers all;
    struct retry_job job;
    struct buf result;
    struct attempt_result attempt;
};

static int setup(void **state)
{
    static struct fixture fixture;
    struct retry_handler_env env;
    struct err err = {0};

    memset(&fixture, 0, sizeof(fixture));
    fixture.all = (struct retry_handlers){.list = list, .count = 4, .opened = fixture.opened};
    env = (struct retry_handler_env){.all = &fixture.all};
    assert_int_equal(retry_steps_handler.open(&fixture.opened[0], &env, &err), RC_OK);
    fixture.opened[1] = &fixture.echo;
    fixture.job = (struct retry_job){.idempotency_key = "k",
                                     .params = "mine",
                                     .params_len = 4,
                                     .params_type = "text/plain",
                                     .attempt = 1};
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    retry_steps_handler.close(fixture->opened[0]);
    buf_done(&fixture->result);
    return 0;
}

static const struct attempt_result *run(struct fixture *fixture, const char *options, int64_t step)
{
    buf_reset(&fixture->result);
    fixture->attempt =
        (struct attempt_result){.delay_ms = ATTEMPT_NO_DELAY, .result = &fixture->result};
    fixture->job.options = options;
    fixture->job.step = step;
    retry_steps_handler.run(fixture->opened[0], 3, &fixture->job, &fixture->attempt);
    return &fixture->attempt;
}

static const char two[] = "{\"steps\": [{\"handler\": \"echo\", \"options\": {\"a\": 0.1}},"
                          " {\"handler\": \"echo\", \"params\": \"result\", \"type\": \"x/y\"}]}";

static void each_step_is_run_by_its_handler(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt = run(fixture, two, 0);

    assert_int_equal(attempt->end, ATTEMPT_DONE);
    assert_true(attempt->more_steps);
    assert_string_equal(fixture->echo.seen, "3 {\"a\":0.1} k/0 mine text/plain");
    assert_string_equal(buf_text(&fixture->result), "made");
    fixture->job.step_result = "made";
    fixture->job.step_result_len = 4;
    attempt = run(fixture, two, 1);
    assert_int_equal(attempt->end, ATTEMPT_DONE);
    assert_false(attempt->more_steps);
    assert_string_equal(fixture->echo.seen, "3 {} k/1 made x/y");
}

static void a_failure_is_the_steps_own(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt;

    fixture->echo.end = ATTEMPT_FAILED;
    attempt = run(fixture, two, 1);
    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_false(attempt->more_steps);
    assert_string_equal(attempt->err.text, "step 1: no luck");
    fixture->echo.end = ATTEMPT_REJECTED;
    assert_int_equal(run(fixture, two, 1)->end, ATTEMPT_REJECTED);
    fixture->echo.end = ATTEMPT_CUT;
    assert_int_equal(run(fixture, two, 0)->end, ATTEMPT_CUT);
}

static void a_step_of_a_handler_that_is_not_here_waits(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt =
        run(fixture, "{\"steps\": [{\"handler\": \"absent\"}]}", 0);

    assert_int_equal(attempt->end, ATTEMPT_SNOOZED);
    assert_true(attempt->delay_ms > 0);
    assert_int_equal(run(fixture, "{\"steps\": [{\"handler\": \"other\"}]}", 0)->end,
                     ATTEMPT_SNOOZED);
}

static void a_step_that_is_not_there_is_refused(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt = run(fixture, two, 2);

    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->fault, FAULT_CLASS_REFUSED);
    attempt = run(fixture, "{\"steps\": [{\"handler\": \"steps\"}]}", 0);
    assert_int_equal(attempt->fault, FAULT_CLASS_REFUSED);
}

static const struct {
    const char *text;
    const char *words;
} wrong[] = {
    {"{}", "\"steps\" is missing"},
    {"{\"steps\": []}", "1..100 steps"},
    {"{\"steps\": [1]}", "step 0"},
    {"{\"steps\": [{}]}", "\"handler\""},
    {"{\"steps\": [{\"handler\": \"echo\", \"option\": {}}]}", "a step has no field \"option\""},
    {"{\"steps\": [{\"handler\": \"echo\", \"options\": []}]}", "\"options\""},
    {"{\"steps\": [{\"handler\": \"echo\", \"params\": \"result\"}]}", "no previous result"},
    {"{\"steps\": [{\"handler\": \"echo\", \"params\": 1}]}", "\"params\""},
    {"{\"steps\": [{\"handler\": \"echo\", \"type\": 1}]}", "\"type\""},
    {"{\"steps\": [{\"handler\": \"echo\"}, {\"handler\": \"steps\"}]}",
     "step 1: a step cannot be of"},
    {"{\"steps\": [{\"handler\": \"other\"}]}", "there is no handler \"other\""},
    {"{\"steps\": [{\"handler\": \"echo\", \"options\": {\"bad\": 1}}]}", "step 0: bad options"},
};

static void a_check_looks_into_every_step(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};

    fixture->job.options = two;
    assert_int_equal(retry_steps_handler.check(&fixture->all, &fixture->job, &err), RC_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fixture->job.options = wrong[i].text;
        assert_int_equal(retry_steps_handler.check(&fixture->all, &fixture->job, &err), RC_REJECT);
        if (!strstr(err.text, wrong[i].words))
            fail_msg("%s: %s", wrong[i].text, err.text);
    }
}

/* The result of a step is not known before it ran. */
static void a_check_judges_the_parameters_only_of_steps_that_get_them(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};

    fixture->job.params_len = 101;
    fixture->job.options = "{\"steps\": [{\"handler\": \"absent\"}, {\"handler\": \"echo\"}]}";
    assert_int_equal(retry_steps_handler.check(&fixture->all, &fixture->job, &err), RC_REJECT);
    assert_string_equal(err.text, "step 1: too many bytes");
    fixture->job.options = "{\"steps\": [{\"handler\": \"absent\"}, "
                           "{\"handler\": \"echo\", \"params\": \"result\"}]}";
    assert_int_equal(retry_steps_handler.check(&fixture->all, &fixture->job, &err), RC_OK);
}

static void its_destination_is_that_of_the_next_step(void **state)
{
    struct fixture *fixture = *state;
    struct buf name = {0};

    fixture->job.options = "{\"steps\": [{\"handler\": \"echo\", \"options\": {\"a\": 1}}, "
                           "{\"handler\": \"exec\", \"options\": {\"program\": \"/bin/a\"}}, "
                           "{\"handler\": \"absent\"}, {\"handler\": \"steps\"}]}";
    retry_steps_handler.destination(&fixture->all, &fixture->job, &name);
    assert_string_equal(buf_text(&name), "echo:{\"a\":1}");
    for (fixture->job.step = 1; fixture->job.step < 6; fixture->job.step++) {
        buf_reset(&name);
        retry_steps_handler.destination(&fixture->all, &fixture->job, &name);
        assert_string_equal(buf_text(&name), fixture->job.step == 1 ? "exec:/bin/a" : "");
    }
    fixture->job.options = "{\"steps\": ";
    retry_steps_handler.destination(&fixture->all, &fixture->job, &name);
    assert_int_equal(name.len, 0);
    buf_done(&name);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_step_is_run_by_its_handler),
        TEST(a_failure_is_the_steps_own),
        TEST(a_step_of_a_handler_that_is_not_here_waits),
        TEST(a_step_that_is_not_there_is_refused),
        TEST(its_destination_is_that_of_the_next_step),
        TEST(a_check_looks_into_every_step),
        TEST(a_check_judges_the_parameters_only_of_steps_that_get_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
