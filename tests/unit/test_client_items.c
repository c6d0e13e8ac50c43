/* SPDX-License-Identifier: MIT */
/* What an application gives to the library, before a server sees it. */
#include "outbox/client/task_body.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tallybox/outbox.h>
#include <tallybox/task.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LONG_64 "0123456789012345678901234567890123456789012345678901234567890123"

static const struct tallybox_event good_event = {.aggregate_type = "order",
                                                 .aggregate_id = "7",
                                                 .type = "OrderPlaced",
                                                 .payload = "{}",
                                                 .payload_len = 2};
static const struct tallybox_task good_task = {.scene = "mail", .handler = "http"};

static void test_each_fault_of_an_event_is_named(void **state)
{
    struct tallybox_event events[] = {good_event, good_event};
    struct tallybox_event *bad = &events[1];
    struct tallybox_error error;
    const struct {
        struct tallybox_event event;
        const char *text;
    } cases[] = {
        {{.aggregate_id = "7", .type = "t"}, "aggregate_type is empty"},
        {{.aggregate_type = "a", .aggregate_id = "", .type = "t"}, "aggregate_id is empty"},
        {{.aggregate_type = "a", .aggregate_id = LONG_64 "x", .type = "t"},
         "aggregate_id is longer than 64 bytes"},
        {{.aggregate_type = "a", .aggregate_id = "7", .type = "\xff"}, "type is not UTF-8"},
        {{.aggregate_type = "a", .aggregate_id = "7", .type = "t", .headers = "[]"},
         "headers are not a JSON object"},
        {{.aggregate_type = "a", .aggregate_id = "7", .type = "t", .headers = "{\"id\":\"1\"}"},
         "\"id\" is reserved"},
        {{.aggregate_type = "a", .aggregate_id = "7", .type = "t", .headers = "{\"a\":1}"},
         "header \"a\" is not a string"},
        {{.id = "7", .aggregate_type = "a", .aggregate_id = "7", .type = "t"}, "id is not a UUID"},
        {{.aggregate_type = "a", .aggregate_id = "7", .type = "t", .payload_len = 1},
         "payload is NULL"},
    };

    (void)state;
    assert_int_equal(tallybox_outbox_check(events, 2, &error), TALLYBOX_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        *bad = cases[i].event;
        assert_int_equal(tallybox_outbox_check(events, 2, &error), TALLYBOX_REJECT);
        assert_non_null(strstr(error.text, "outbox event 1: "));
        if (!strstr(error.text, cases[i].text))
            fail_msg("\"%s\" instead of \"%s\"", error.text, cases[i].text);
        assert_int_equal(tallybox_outbox_check(events, 2, NULL), TALLYBOX_REJECT);
    }
    *bad = good_event;
    bad->aggregate_id = LONG_64;
    bad->payload = NULL;
    bad->payload_len = 0;
    bad->id = "0190163D-8694-739B-AEA5-966C26F8AD91";
    assert_int_equal(tallybox_outbox_check(events, 2, &error), TALLYBOX_OK);
    assert_int_equal(tallybox_outbox_check(NULL, 0, &error), TALLYBOX_OK);
}

static void test_each_fault_of_a_task_is_named(void **state)
{
    struct tallybox_task tasks[] = {good_task, good_task};
    struct tallybox_error error;
    const struct {
        struct tallybox_task task;
        const char *text;
    } cases[] = {
        {{.handler = "http"}, "scene is missing"},
        {{.scene = "a b", .handler = "http"}, "scene has a character"},
        {{.scene = "a"}, "handler is missing"},
        {{.scene = "a", .handler = "http", .ordering_key = "\xc0"}, "ordering_key is not UTF-8"},
        {{.scene = "a", .handler = "http", .options = "7"}, "options are not a JSON object"},
        {{.scene = "a", .handler = "http", .delay_ms = -1}, "delay_ms"},
        {{.scene = "a", .handler = "http", .traceparent = "x"}, "traceparent"},
        {{.scene = "a", .handler = "http", .params_len = 3}, "params is NULL"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tasks[1] = cases[i].task;
        assert_int_equal(tallybox_task_check(tasks, 2, &error), TALLYBOX_REJECT);
        assert_non_null(strstr(error.text, "task 1: "));
        if (!strstr(error.text, cases[i].text))
            fail_msg("\"%s\" instead of \"%s\"", error.text, cases[i].text);
    }
    tasks[1] = good_task;
    assert_int_equal(tallybox_task_check(tasks, 2, &error), TALLYBOX_OK);
}

static void test_without_a_connection_nothing_is_appended(void **state)
{
    struct tallybox_error error;

    (void)state;
    assert_int_equal(tallybox_outbox_append(NULL, "outbox", &good_event, 1, &error),
                     TALLYBOX_FATAL);
    assert_non_null(strstr(error.text, "mysql is NULL"));
    assert_int_equal(tallybox_task_append(NULL, NULL, &good_task, 1, NULL, &error), TALLYBOX_FATAL);
}

static void test_ids_are_uuids_and_differ(void **state)
{
    char one[TALLYBOX_ID_SIZE], other[TALLYBOX_ID_SIZE];

    (void)state;
    tallybox_id_make(one);
    tallybox_id_make(other);
    assert_int_equal(strlen(one), TALLYBOX_ID_SIZE - 1);
    assert_string_not_equal(one, other);
}

static void test_the_body_has_every_field_of_a_task(void **state)
{
    struct tallybox_task task = {.group = "g",
                                 .scene = "s",
                                 .handler = "h",
                                 .ordering_key = "k\"\xc3\xa9",
                                 .biz_no = "b",
                                 .options = "{\"a\": 0.1}",
                                 .params = "\0\xff",
                                 .params_len = 2,
                                 .delay_ms = 5};
    struct buf out = {0};
    json_t *object;
    const char *text;

    (void)state;
    task_body_put(&out, &task, "key");
    text = buf_text(&out);
    object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    assert_int_equal(json_object_size(object), 10);
    assert_string_equal(json_string_value(json_object_get(object, "orderingKey")), "k\"\xc3\xa9");
    assert_string_equal(json_string_value(json_object_get(object, "paramsBase64")), "AP8=");
    assert_string_equal(json_string_value(json_object_get(object, "paramsType")),
                        "application/json");
    assert_string_equal(json_string_value(json_object_get(object, "idempotencyKey")), "key");
    json_decref(object);
    buf_reset(&out);
    task_body_put(&out, &good_task, NULL);
    assert_string_equal(buf_text(&out), "{\"scene\":\"mail\",\"handler\":\"http\"}");
    buf_done(&out);
}

static enum rc read_answers(const char *body, size_t count, struct tallybox_answer *answers)
{
    struct err err = {0};

    return task_answers_read(body, strlen(body), count, answers, &err);
}

static void test_answers_are_read_one_by_one(void **state)
{
    struct tallybox_answer answers[4];

    (void)state;
    assert_int_equal(
        read_answers("[{\"id\":17,\"existed\":false},{\"id\":3,\"existed\":true},"
                     "{\"error\":{\"code\":\"invalid\",\"message\":\"why\"}},"
                     "{\"error\":{\"code\":\"too_many_requests\",\"message\":\"full\"}}]",
                     4, answers),
        RC_OK);
    assert_int_equal(answers[0].result, TALLYBOX_OK);
    assert_int_equal(answers[0].ticket.id, 17);
    assert_int_equal(answers[0].ticket.existed, 0);
    assert_int_equal(answers[1].ticket.existed, 1);
    assert_int_equal(answers[2].result, TALLYBOX_REJECT);
    assert_string_equal(answers[2].code, "invalid");
    assert_string_equal(answers[2].message, "why");
    assert_int_equal(answers[3].result, TALLYBOX_RETRY);
}

static void test_what_is_no_answer_means_nothing(void **state)
{
    static const char *const bodies[] = {"",
                                         "{}",
                                         "[]",
                                         "[1]",
                                         "[{}]",
                                         "[{\"id\":\"1\"}]",
                                         "[{\"id\":1},{\"id\":2}]",
                                         "[{\"error\":{}}]",
                                         "["};
    struct tallybox_answer answers[2];

    (void)state;
    for (size_t i = 0; i < COUNT(bodies); i++)
        assert_int_equal(read_answers(bodies[i], 1, answers), RC_RETRY);
}

static void test_a_server_without_an_address_or_a_token_is_refused(void **state)
{
    const struct {
        struct tallybox_server server;
        const char *text;
    } cases[] = {
        {{.token = "t"}, "url does not begin with http"},
        {{.url = "ftp://x", .token = "t"}, "url does not begin with http"},
        {{.url = "http://a@x", .token = "t"}, "url has a blank, an account or a query"},
        {{.url = "http://x"}, "token or token_file"},
        {{.url = "http://x", .token = "t", .token_file = "f"}, "token or token_file"},
        {{.url = "http://x", .token = "a b"}, "token is empty or has a blank"},
        {{.url = "http://x", .token = "t", .timeout_ms = -1}, "timeout_ms"},
        {{.url = "http://x", .token = "t", .ca_file = "/nowhere"}, "ca_file"},
    };
    struct tallybox_client *client = NULL;
    struct tallybox_error error;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(tallybox_client_open(&client, &cases[i].server, &error), TALLYBOX_REJECT);
        if (!strstr(error.text, cases[i].text))
            fail_msg("\"%s\" instead of \"%s\"", error.text, cases[i].text);
        assert_null(client);
    }
    assert_int_equal(
        tallybox_client_open(&client,
                             &(struct tallybox_server){.url = "http://x", .token_file = "/nowhere"},
                             &error),
        TALLYBOX_FATAL);
    assert_non_null(strstr(error.text, "/nowhere"));
    tallybox_client_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_fault_of_an_event_is_named),
        cmocka_unit_test(test_each_fault_of_a_task_is_named),
        cmocka_unit_test(test_without_a_connection_nothing_is_appended),
        cmocka_unit_test(test_ids_are_uuids_and_differ),
        cmocka_unit_test(test_the_body_has_every_field_of_a_task),
        cmocka_unit_test(test_answers_are_read_one_by_one),
        cmocka_unit_test(test_what_is_no_answer_means_nothing),
        cmocka_unit_test(test_a_server_without_an_address_or_a_token_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
