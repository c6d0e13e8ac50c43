/* SPDX-License-Identifier: MIT */
/* What a callback carries, and which policy asks for one. */
#include "outbox/retry/callback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct callback_task plain = {
    .id = 7,
    .group = "default",
    .scene = "mail",
    .idempotency_key = "k",
    .outcome = "cancelled",
    .attempts = 3,
    .reason_class = "transient",
    .reason = "status \"503\"\n\xff",
    .by = "ann@host",
    .params = "{\"n\": 1.10}",
    .params_len = 11,
    .params_type = "application/json",
    .result = "late",
    .result_len = 4,
};

static void assert_put(const struct callback_task *task, const char *expected)
{
    struct buf out = {0};
    json_t *tree;

    callback_put(&out, task);
    assert_string_equal(buf_text(&out), expected);
    tree = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(tree);
    json_decref(tree);
    buf_done(&out);
}

#define HEAD                                                                                  \
    "{\"taskId\":7,\"group\":\"default\",\"scene\":\"mail\",\"bizNo\":null,"                  \
    "\"orderingKey\":null,\"idempotencyKey\":\"k\",\"outcome\":\"cancelled\",\"attempts\":3," \
    "\"reasonClass\":\"transient\",\"reason\":\"status \\\"503\\\"\\u000a?\","                \
    "\"by\":\"ann@host\",\"paramsType\":"

static void it_carries_the_task_with_its_numbers_unchanged(void **state)
{
    (void)state;
    assert_put(&plain, HEAD "\"application/json\",\"params\":{\"n\": 1.10},"
                            "\"resultBase64\":\"bGF0ZQ==\"}");
}

static void what_is_not_json_is_base64_and_what_is_missing_is_null(void **state)
{
    struct callback_task task = plain;

    (void)state;
    task.params_type = "text/plain";
    task.result = "[1]";
    task.result_len = 3;
    assert_put(&task, HEAD "\"text/plain\",\"paramsBase64\":\"eyJuIjogMS4xMH0=\",\"result\":[1]}");
    task = plain;
    task.params = "[1\0]"; /* jansson skips a zero byte behind a number */
    task.params_len = 4;
    assert_put(&task, HEAD
               "\"application/json\",\"paramsBase64\":\"WzEAXQ==\",\"resultBase64\":\"bGF0ZQ==\"}");
    task = plain;
    task.params = "{\"n\": 1";
    task.params_len = 7;
    task.result_len = 0;
    assert_put(&task, HEAD "\"application/json\",\"paramsBase64\":\"eyJuIjogMQ==\","
                           "\"result\":null}");
    task.params = NULL;
    task.params_len = 0;
    assert_put(&task, HEAD "\"application/json\",\"params\":null,\"result\":null}");
}

static void what_is_too_long_is_told_by_its_size(void **state)
{
    struct callback_task task = plain;
    char *bytes = calloc(1, CALLBACK_BYTES_MAX + 1);
    struct buf out = {0};

    (void)state;
    memset(bytes, '1', CALLBACK_BYTES_MAX + 1);
    task.params = task.result = bytes;
    task.params_len = task.result_len = CALLBACK_BYTES_MAX + 1;
    assert_put(&task, HEAD "\"application/json\",\"params\":null,\"paramsBytes\":1048577,"
                           "\"result\":null,\"resultBytes\":1048577}");
    task.params_len = CALLBACK_BYTES_MAX;
    bytes[0] = bytes[CALLBACK_BYTES_MAX - 1] = '"';
    callback_put(&out, &task);
    assert_in_range(out.len, CALLBACK_BYTES_MAX, CALLBACK_BYTES_MAX + 1000);
    buf_done(&out);
    free(bytes);
}

static void a_policy_names_its_callback(void **state)
{
    struct callback_target target;

    (void)state;
    callback_target_find("{\"on_cancelled\": {\"scene\": \"told\", \"handler\": \"http\"}}",
                         "on_cancelled", &target);
    assert_string_equal(target.scene, "told");
    assert_string_equal(target.handler, "http");
}

static void a_policy_without_a_valid_one_has_none(void **state)
{
    static const char *const policies[] = {
        NULL,
        "",
        "[",
        "[]",
        "{}",
        "{\"on_cancelled\": null}",
        "{\"on_cancelled\": 1}",
        "{\"on_cancelled\": {\"scene\": \"told\"}}",
        "{\"on_cancelled\": {\"scene\": \"to ld\", \"handler\": \"http\"}}",
        "{\"on_done\": {\"scene\": \"told\", \"handler\": \"http\"}}"};
    struct callback_target target;

    (void)state;
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        callback_target_find(policies[i], "on_cancelled", &target);
        assert_string_equal(target.scene, "");
        assert_string_equal(target.handler, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_carries_the_task_with_its_numbers_unchanged),
        cmocka_unit_test(what_is_not_json_is_base64_and_what_is_missing_is_null),
        cmocka_unit_test(what_is_too_long_is_told_by_its_size),
        cmocka_unit_test(a_policy_names_its_callback),
        cmocka_unit_test(a_policy_without_a_valid_one_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
