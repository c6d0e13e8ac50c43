/* SPDX-License-Identifier: MIT */
/* The bodies of operators' actions. */
#include "producer/task/operation_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_refused(enum retry_operation_kind kind, const char *body,
                           enum request_fault_code code, const char *at)
{
    struct operation_json json;
    struct request_fault fault = {.code = REQUEST_FAULT_CODES};

    assert_int_equal(operation_json_parse(&json, kind, "0a1b2c3d", body, strlen(body), &fault),
                     RC_REJECT);
    assert_int_equal(fault.code, code);
    assert_int_equal(fault.has_at, at != NULL);
    if (at)
        assert_string_equal(fault.at, at);
    operation_json_done(&json);
}

static void an_empty_object_is_the_action_of_the_token(void **state)
{
    struct operation_json json;
    struct request_fault fault;

    (void)state;
    assert_int_equal(operation_json_parse(&json, OPERATION_CANCEL, "0a1b2c3d", "{}", 2, &fault),
                     RC_OK);
    assert_string_equal(json.operation.by, "token:0a1b2c3d");
    assert_string_equal(json.operation.via, "http");
    assert_null(json.operation.why);
    assert_false(json.operation.force);
    operation_json_done(&json);
}

static void the_name_of_an_operator_does_not_hide_the_token(void **state)
{
    static const char body[] = "{\"by\":\"ann\",\"reason\":\"left\",\"force\":true}";
    struct operation_json json;
    struct request_fault fault;

    (void)state;
    assert_int_equal(
        operation_json_parse(&json, OPERATION_CANCEL, "0a1b2c3d", body, strlen(body), &fault),
        RC_OK);
    assert_string_equal(json.operation.by, "ann (token:0a1b2c3d)");
    assert_string_equal(json.operation.why, "left");
    assert_true(json.operation.force);
    operation_json_done(&json);
}

static void content_is_kept_as_it_was_sent(void **state)
{
    static const char body[] =
        "{\"options\":{\"n\":1.10},\"params\":[0.10],\"headers\":{\"a\":\"b\"}}";
    static const char coded[] = "{\"paramsBase64\":\"AAE=\"}";
    struct operation_json json;
    struct request_fault fault;

    (void)state;
    assert_int_equal(
        operation_json_parse(&json, OPERATION_REQUEUE, "t", body, strlen(body), &fault), RC_OK);
    assert_string_equal(json.operation.options, "{\"n\":1.10}");
    assert_string_equal(json.operation.headers, "{\"a\":\"b\"}");
    assert_int_equal(json.operation.params_len, 6);
    assert_memory_equal(json.operation.params, "[0.10]", 6);
    operation_json_done(&json);
    assert_int_equal(operation_json_parse(&json, OPERATION_EDIT, "t", coded, strlen(coded), &fault),
                     RC_OK);
    assert_int_equal(json.operation.params_len, 2);
    assert_memory_equal(json.operation.params, "\0\1", 2);
    operation_json_done(&json);
}

static void what_an_action_does_not_take_is_named(void **state)
{
    char longer[600];

    (void)state;
    assert_refused(OPERATION_RUN_NOW, "", REQUEST_FAULT_NOT_JSON, NULL);
    assert_refused(OPERATION_RUN_NOW, "[]", REQUEST_FAULT_WRONG_TYPE, NULL);
    assert_refused(OPERATION_RUN_NOW, "{\"force\":true}", REQUEST_FAULT_UNKNOWN, "/force");
    assert_refused(OPERATION_CANCEL, "{\"skip\":true}", REQUEST_FAULT_UNKNOWN, "/skip");
    assert_refused(OPERATION_UNPARK, "{\"params\":1}", REQUEST_FAULT_UNKNOWN, "/params");
    assert_refused(OPERATION_CANCEL, "{\"force\":1}", REQUEST_FAULT_WRONG_TYPE, "/force");
    assert_refused(OPERATION_CANCEL, "{\"reason\":\"\"}", REQUEST_FAULT_OUT_OF_RANGE, "/reason");
    assert_refused(OPERATION_CANCEL, "{\"by\":7}", REQUEST_FAULT_WRONG_TYPE, "/by");
    assert_refused(OPERATION_EDIT, "{\"options\":[]}", REQUEST_FAULT_WRONG_TYPE, "/options");
    assert_refused(OPERATION_EDIT, "{\"headers\":1}", REQUEST_FAULT_WRONG_TYPE, "/headers");
    assert_refused(OPERATION_EDIT, "{\"paramsBase64\":\"*\"}", REQUEST_FAULT_OUT_OF_RANGE,
                   "/paramsBase64");
    assert_refused(OPERATION_EDIT, "{\"params\":1,\"paramsBase64\":\"AA==\"}",
                   REQUEST_FAULT_DUPLICATE, "/paramsBase64");
    assert_refused(OPERATION_EDIT, "{\"params\":1,\"noParams\":true}", REQUEST_FAULT_DUPLICATE,
                   "/noParams");
    assert_refused(OPERATION_EDIT, "{\"reason\":\"x\"}", REQUEST_FAULT_MISSING, NULL);
    memset(longer, 'x', sizeof(longer));
    memcpy(longer, "{\"reason\":\"", 11);
    memcpy(longer + sizeof(longer) - 3, "\"}", 3);
    assert_refused(OPERATION_CANCEL, longer, REQUEST_FAULT_OUT_OF_RANGE, "/reason");
}

/* jansson skips a zero byte behind a number; the text that is kept would end there. */
static void a_zero_byte_is_not_json(void **state)
{
    static const char body[] = "{\"options\":{\"n\":1\0}}";
    struct operation_json json;
    struct request_fault fault;

    (void)state;
    assert_int_equal(
        operation_json_parse(&json, OPERATION_EDIT, "t", body, sizeof(body) - 1, &fault),
        RC_REJECT);
    assert_int_equal(fault.code, REQUEST_FAULT_NOT_JSON);
    assert_string_equal(fault.message, "not JSON at byte 17: there is a zero byte");
    operation_json_done(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_object_is_the_action_of_the_token),
        cmocka_unit_test(the_name_of_an_operator_does_not_hide_the_token),
        cmocka_unit_test(content_is_kept_as_it_was_sent),
        cmocka_unit_test(what_an_action_does_not_take_is_named),
        cmocka_unit_test(a_zero_byte_is_not_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
