/* SPDX-License-Identifier: MIT */
#include "producer/task/task_json.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define GOOD "{\"scene\":\"mail\",\"handler\":\"http\"}"

static struct task_json tasks;
static struct request_fault fault;
static struct buf out;

static int teardown(void **state)
{
    (void)state;
    task_json_done(&tasks);
    buf_done(&out);
    out = (struct buf){0};
    return 0;
}

static enum rc parse(const char *body)
{
    task_json_done(&tasks);
    fault = (struct request_fault){0};
    return task_json_parse(&tasks, body, strlen(body), &fault);
}

static void assert_fault(const struct request_fault *is, enum request_fault_code code,
                         const char *at)
{
    assert_int_equal(is->code, code);
    assert_int_equal(is->has_at, at != NULL);
    if (at)
        assert_string_equal(is->at, at);
}

static void a_task_has_all_given_fields(void **state)
{
    const struct retry_new_task *task;

    (void)state;
    assert_int_equal(
        parse("{\"group\":\"g\",\"scene\":\"mail\",\"handler\":\"http\",\"orderingKey\":\"k\","
              "\"idempotencyKey\":\"i\",\"bizNo\":\"b\",\"options\": {\"a\" : 1.10} ,"
              "\"params\" :\t[0.1, \"]}\\\"\"] , \"paramsType\":\"text/x\",\"delayMs\":7}"),
        RC_OK);
    assert_int_equal(task_json_good(&tasks), 1);
    task = &tasks.items[0].task;
    assert_string_equal(task->group, "g");
    assert_string_equal(task->scene, "mail");
    assert_string_equal(task->handler, "http");
    assert_string_equal(task->ordering_key, "k");
    assert_string_equal(task->idempotency_key, "i");
    assert_string_equal(task->biz_no, "b");
    assert_string_equal(task->options, "{\"a\" : 1.10}");
    assert_int_equal(task->params_len, strlen("[0.1, \"]}\\\"\"]"));
    assert_memory_equal(task->params, "[0.1, \"]}\\\"\"]", task->params_len);
    assert_string_equal(task->params_type, "text/x");
    assert_int_equal(task->delay_ms, 7);
}

static void a_field_that_is_not_given_is_unset(void **state)
{
    const struct retry_new_task *task;

    (void)state;
    assert_int_equal(parse(GOOD), RC_OK);
    task = &tasks.items[0].task;
    assert_null(task->group);
    assert_null(task->params);
    assert_null(task->options);
    assert_null(task->params_type);
    assert_int_equal(parse("{\"scene\":\"a\",\"handler\":\"b\",\"bizNo\":null}"), RC_OK);
    assert_null(tasks.items[0].task.biz_no);
}

static void binary_params_have_a_type_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"scene\":\"a\",\"handler\":\"b\",\"paramsBase64\":\"AP8=\"}"), RC_OK);
    assert_int_equal(tasks.items[0].task.params_len, 2);
    assert_memory_equal(tasks.items[0].task.params, "\0\xff", 2);
    assert_string_equal(tasks.items[0].task.params_type, "application/octet-stream");
    assert_int_equal(
        parse("{\"scene\":\"a\",\"handler\":\"b\",\"paramsBase64\":\"\",\"params\":1}"), RC_REJECT);
    assert_fault(&fault, REQUEST_FAULT_DUPLICATE, "/paramsBase64");
}

static void a_bad_task_alone_is_a_bad_request(void **state)
{
    static const struct {
        const char *body;
        enum request_fault_code code;
        const char *at;
    } cases[] = {
        {"", REQUEST_FAULT_NOT_JSON, NULL},
        {"{", REQUEST_FAULT_NOT_JSON, NULL},
        {GOOD "x", REQUEST_FAULT_NOT_JSON, NULL},
        {"[" GOOD, REQUEST_FAULT_NOT_JSON, NULL},
        {"[" GOOD "}", REQUEST_FAULT_NOT_JSON, NULL},
        {"[]", REQUEST_FAULT_OUT_OF_RANGE, ""},
        {"1", REQUEST_FAULT_WRONG_TYPE, ""},
        {"{}", REQUEST_FAULT_MISSING, "/scene"},
        {"{\"scene\":\"a\"}", REQUEST_FAULT_MISSING, "/handler"},
        {"{\"scene\":\"a b\",\"handler\":\"x\"}", REQUEST_FAULT_OUT_OF_RANGE, "/scene"},
        {"{\"scene\":null,\"handler\":\"x\"}", REQUEST_FAULT_WRONG_TYPE, "/scene"},
        {"{\"scene\":\"a\",\"handler\":\"x\",\"a/~\":1}", REQUEST_FAULT_UNKNOWN, "/a~1~0"},
        {"{\"scene\":\"a\",\"handler\":\"x\",\"delayMs\":1e3}", REQUEST_FAULT_WRONG_TYPE,
         "/delayMs"},
        {"{\"scene\":\"a\",\"handler\":\"x\",\"delayMs\":99999999999999999999}",
         REQUEST_FAULT_OUT_OF_RANGE, ""},
        {"{\"scene\":\"a\",\"handler\":\"x\",\"bizNo\":\"\"}", REQUEST_FAULT_OUT_OF_RANGE,
         "/bizNo"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i].body), RC_REJECT);
        assert_fault(&fault, cases[i].code, cases[i].at);
    }
}

static void in_an_array_it_fails_alone(void **state)
{
    (void)state;
    assert_int_equal(parse(" [" GOOD ", {\"scene\":7,\"handler\":\"x\"} ,\n" GOOD "] "), RC_OK);
    assert_int_equal(tasks.count, 3);
    assert_int_equal(task_json_good(&tasks), 2);
    assert_fault(&tasks.items[1].fault, REQUEST_FAULT_WRONG_TYPE, "/1/scene");
    tasks.items[0].ticket = (struct retry_ticket){.id = 5};
    tasks.items[2].ticket = (struct retry_ticket){.id = 5, .existed = true};
    assert_true(task_json_answer(&tasks, &out, &fault));
    assert_string_equal(buf_text(&out),
                        "[{\"id\":5,\"existed\":false},{\"error\":{\"code\":\"wrong_type\","
                        "\"message\":\"scene must be a text\",\"at\":\"/1/scene\"}},"
                        "{\"id\":5,\"existed\":true}]");
}

static void a_found_task_shows_its_params_as_they_are(void **state)
{
    struct retry_view view = {
        .id = 3,
        .group = "g",
        .scene = "s",
        .handler = "h",
        .params_type = "application/json",
        .reason_class = "",
        .reason = "",
        .owner = "",
        .params = "{\"a\":0.10}",
        .params_len = 10,
    };

    (void)state;
    task_json_put(&out, &view, true);
    assert_non_null(strstr(buf_text(&out), ",\"params\":{\"a\":0.10}"));
    assert_non_null(strstr(buf_text(&out), "\"state\":\"waiting\""));
    buf_reset(&out);
    view.params = "[1\0]"; /* jansson skips a zero byte behind a number */
    view.params_len = 4;
    task_json_put(&out, &view, true);
    assert_non_null(strstr(buf_text(&out), ",\"paramsBase64\":\"WzEAXQ==\""));
    buf_reset(&out);
    view.params = "{broken";
    view.params_len = 7;
    view.outcome = "exhausted";
    task_json_put(&out, &view, true);
    assert_non_null(strstr(buf_text(&out), ",\"paramsBase64\":\"e2Jyb2tlbg==\""));
    assert_non_null(strstr(buf_text(&out), "\"state\":\"exhausted\""));
}

static void expect_try(const struct first_try_result *result, const char *json)
{
    buf_reset(&out);
    task_json_put_try(&out, result);
    assert_string_equal(buf_text(&out), json);
}

static void options_that_say_what_is_called_are_found(void **state)
{
    (void)state;
    assert_false(task_json_names_call(NULL));
    assert_false(task_json_names_call("{}"));
    assert_false(task_json_names_call("{\"timeout\": \"1s\", \"ok\": \"200\"}"));
    assert_true(task_json_names_call("{\"url\": \"http://a/\"}"));
    assert_true(task_json_names_call("{\"urls\": [\"http://a/\"]}"));
    assert_true(task_json_names_call("{\"timeout\": \"1s\", \"method\": \"GET\"}"));
    assert_true(task_json_names_call("{\"headers\": {}}"));
    assert_true(task_json_names_call("{\"path\": \"/\"}"));
}

static void a_first_try_shows_what_became_of_the_task(void **state)
{
    static const char answer[] = "{\"n\":0.10}";
    struct first_try_result result = {.ticket = {.id = 7},
                                      .tried = true,
                                      .outcome = "done",
                                      .reason_class = "",
                                      .answer = answer,
                                      .answer_len = sizeof(answer) - 1};

    (void)state;
    expect_try(&result, "{\"id\":7,\"existed\":false,\"outcome\":\"done\",\"tried\":true,"
                        "\"state\":\"done\",\"failures\":0,\"reasonClass\":null,"
                        "\"reason\":null,\"nextAt\":null,\"result\":{\"n\":0.10}}");
    result.answer_len = 1;
    task_json_put_try(&out, &result);
    assert_non_null(strstr(buf_text(&out), ",\"resultBase64\":\"ew==\"}"));
    buf_reset(&out);
    result.answer_len = TASK_JSON_ANSWER_BYTES_MAX + 1; /* it is not read */
    task_json_put_try(&out, &result);
    assert_non_null(strstr(buf_text(&out), ",\"result\":null}"));
    result = (struct first_try_result){.ticket = {.id = 7},
                                       .tried = true,
                                       .state_known = true,
                                       .state = TASK_WAITING,
                                       .attempts = 2,
                                       .next_ms = 5,
                                       .reason_class = "ours",
                                       .reason = "\"no\""};
    expect_try(&result, "{\"id\":7,\"existed\":false,\"tried\":true,\"state\":\"waiting\","
                        "\"failures\":2,\"reasonClass\":\"ours\",\"reason\":\"\\\"no\\\"\","
                        "\"nextAt\":5}");
    result = (struct first_try_result){.ticket = {.id = 7, .existed = true, .outcome = "done"},
                                       .reason_class = ""};
    expect_try(&result, "{\"id\":7,\"existed\":true,\"outcome\":\"done\",\"tried\":false,"
                        "\"state\":\"done\",\"failures\":0,\"reasonClass\":null,"
                        "\"reason\":null,\"nextAt\":null}");
}

static void a_zero_byte_is_not_json(void **state)
{
    static const char body[] = "{\"scene\":\"mail\",\"handler\":\"http\",\"options\":{\"n\":1\0}}";

    (void)state;
    assert_int_equal(task_json_parse(&tasks, body, sizeof(body) - 1, &fault), RC_REJECT);
    assert_int_equal(fault.code, REQUEST_FAULT_NOT_JSON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_task_has_all_given_fields, teardown),
        cmocka_unit_test_teardown(a_field_that_is_not_given_is_unset, teardown),
        cmocka_unit_test_teardown(binary_params_have_a_type_of_their_own, teardown),
        cmocka_unit_test_teardown(a_bad_task_alone_is_a_bad_request, teardown),
        cmocka_unit_test_teardown(in_an_array_it_fails_alone, teardown),
        cmocka_unit_test_teardown(a_found_task_shows_its_params_as_they_are, teardown),
        cmocka_unit_test_teardown(options_that_say_what_is_called_are_found, teardown),
        cmocka_unit_test_teardown(a_first_try_shows_what_became_of_the_task, teardown),
        cmocka_unit_test_teardown(a_zero_byte_is_not_json, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
