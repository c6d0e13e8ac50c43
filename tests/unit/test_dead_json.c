/* SPDX-License-Identifier: MIT */
#include "producer/dead/dead_json.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct dead_json json;
static struct request_fault fault;

static enum rc parse(enum dead_json_kind kind, const char *body)
{
    dead_json_done(&json);
    return dead_json_parse(&json, kind, "0a1b2c3d", body, strlen(body), &fault);
}

static void assert_refused(enum dead_json_kind kind, const char *body, enum request_fault_code code,
                           const char *at)
{
    assert_int_equal(parse(kind, body), RC_REJECT);
    assert_int_equal(fault.code, code);
    assert_true(fault.has_at == (at != NULL));
    if (at)
        assert_string_equal(fault.at, at);
}

static int done(void **state)
{
    (void)state;
    dead_json_done(&json);
    return 0;
}

static void a_replay_may_have_corrected_bytes(void **state)
{
    (void)state;
    assert_int_equal(parse(DEAD_JSON_REPLAY, "{}"), RC_OK);
    assert_false(json.operation.drop);
    assert_null(json.operation.value);
    assert_string_equal(json.operation.by, "token:0a1b2c3d");
    assert_int_equal(json.operation.records_max, 0);
    assert_int_equal(parse(DEAD_JSON_REPLAY, "{\"value\": {\"a\": 1.10}, \"ignoreKey\": true, "
                                             "\"reason\": \"fixed\", \"by\": \"ann\"}"),
                     RC_OK);
    assert_int_equal(json.operation.value_len, strlen("{\"a\": 1.10}"));
    assert_memory_equal(json.operation.value, "{\"a\": 1.10}", json.operation.value_len);
    assert_true(json.operation.ignore_key);
    assert_string_equal(json.operation.why, "fixed");
    assert_string_equal(json.operation.by, "ann (token:0a1b2c3d)");
    assert_int_equal(parse(DEAD_JSON_REPLAY, "{\"valueBase64\": \"AP8=\"}"), RC_OK);
    assert_int_equal(json.operation.value_len, 2);
    assert_memory_equal(json.operation.value, "\0\xff", 2);
    assert_refused(DEAD_JSON_REPLAY, "{\"value\": 1, \"valueBase64\": \"AP8=\"}",
                   REQUEST_FAULT_DUPLICATE, "/valueBase64");
    assert_refused(DEAD_JSON_REPLAY, "{\"valueBase64\": \"?\"}", REQUEST_FAULT_OUT_OF_RANGE,
                   "/valueBase64");
    assert_refused(DEAD_JSON_REPLAY, "{\"ids\": [1]}", REQUEST_FAULT_UNKNOWN, "/ids");
}

/* An empty value is one: it replaces the payload. */
static void an_empty_value_is_a_value(void **state)
{
    (void)state;
    assert_int_equal(parse(DEAD_JSON_REPLAY, "{\"valueBase64\": \"\"}"), RC_OK);
    assert_non_null(json.operation.value);
    assert_int_equal(json.operation.value_len, 0);
}

static void a_drop_applies_nothing(void **state)
{
    (void)state;
    assert_int_equal(parse(DEAD_JSON_DROP, "{\"reason\": \"a test\"}"), RC_OK);
    assert_true(json.operation.drop);
    assert_refused(DEAD_JSON_DROP, "{\"value\": 1}", REQUEST_FAULT_UNKNOWN, "/value");
    assert_refused(DEAD_JSON_DROP, "{\"ignoreKey\": true}", REQUEST_FAULT_UNKNOWN, "/ignoreKey");
    assert_refused(DEAD_JSON_DROP, "{\"reason\": \"\"}", REQUEST_FAULT_OUT_OF_RANGE, "/reason");
}

static void many_records_are_selected_on_purpose(void **state)
{
    const struct dead_filter *filter = &json.operation.filter;

    (void)state;
    assert_int_equal(
        parse(DEAD_JSON_MANY,
              "{\"action\": \"drop\", \"ids\": [3, 9223372036854775807], \"topic\": \"a.b\", "
              "\"partition\": 0, \"reasonClass\": \"too_old\", \"key\": \"42\", \"since\": 0, "
              "\"until\": 253402300799999, \"limit\": 7, \"dryRun\": true}"),
        RC_OK);
    assert_true(json.operation.drop);
    assert_true(json.dry_run);
    assert_int_equal(filter->id_count, 2);
    assert_true(filter->ids[1] == INT64_MAX);
    assert_string_equal(filter->topic, "a.b");
    assert_int_equal(filter->partition, 0);
    assert_string_equal(filter->reason_class, "too_old");
    assert_string_equal(filter->key, "42");
    assert_int_equal(filter->since_ms, 0);
    assert_int_equal(json.operation.records_max, 7);
    assert_int_equal(parse(DEAD_JSON_MANY, "{\"action\": \"replay\", \"all\": true}"), RC_OK);
    assert_true(json.operation.all);
    assert_int_equal(json.operation.records_max, DEAD_JSON_ROWS);
    assert_int_equal(filter->partition, DEAD_NUMBER_ANY);
    assert_refused(DEAD_JSON_MANY, "{\"all\": true}", REQUEST_FAULT_MISSING, "/action");
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\"}", REQUEST_FAULT_MISSING, NULL);
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"all\": false}", REQUEST_FAULT_MISSING,
                   NULL);
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"all\": true, \"since\": 1}",
                   REQUEST_FAULT_DUPLICATE, "/all");
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"ids\": [0]}",
                   REQUEST_FAULT_OUT_OF_RANGE, "/ids");
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"ids\": 1}", REQUEST_FAULT_WRONG_TYPE,
                   "/ids");
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"topic\": \"a b\"}",
                   REQUEST_FAULT_OUT_OF_RANGE, "/topic");
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"partition\": 2147483648}",
                   REQUEST_FAULT_OUT_OF_RANGE, "/partition");
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"all\": true, \"limit\": 0}",
                   REQUEST_FAULT_OUT_OF_RANGE, "/limit");
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"all\": true, \"ignoreKey\": true}",
                   REQUEST_FAULT_OUT_OF_RANGE, "/ignoreKey");
    assert_refused(DEAD_JSON_MANY, "{\"action\": \"drop\", \"all\": true, \"x\": 1}",
                   REQUEST_FAULT_UNKNOWN, "/x");
}

static void bytes_that_are_no_text_are_base64(void **state)
{
    struct dead_view view = {.id = 7,
                             .topic = "t",
                             .partition = 1,
                             .offset = 2,
                             .key = "k\xff",
                             .key_len = 2,
                             .value = "a\0\"",
                             .value_len = 3,
                             .has_value = true,
                             .headers = "[[\"a\", \"eA==\"], [\"b\", null]]",
                             .time_ms = DEAD_NUMBER_ANY,
                             .reason_class = "decode",
                             .reason = "no JSON",
                             .died_ms = 5};
    struct buf out = {0};

    (void)state;
    dead_json_put(&out, &view, true);
    assert_string_equal(
        buf_text(&out),
        "{\"id\":7,\"topic\":\"t\",\"partition\":1,\"offset\":2,\"key\":null,\"keyBase64\":\"a/"
        "8=\","
        "\"reasonClass\":\"decode\",\"reason\":\"no JSON\",\"diedAt\":5,\"recordTime\":null,"
        "\"payloadBytes\":3,\"decision\":null,\"decidedAt\":null,\"decidedBy\":null,\"headers\":["
        "{\"name\":\"a\",\"value\":\"x\",\"valueBase64\":null},"
        "{\"name\":\"b\",\"value\":null,\"valueBase64\":null}],"
        "\"payload\":\"a\\u0000\\\"\",\"payloadBase64\":null,"
        "\"appliedValue\":null,\"appliedValueBase64\":null}");
    buf_reset(&out);
    view.decision = "dropped";
    view.decided_ms = 6;
    view.decided_by = "ann";
    view.has_value = false;
    dead_json_put(&out, &view, false);
    assert_non_null(strstr(buf_text(&out),
                           "\"payloadBytes\":null,\"decision\":\"dropped\",\"decidedAt\":6,"
                           "\"decidedBy\":\"ann\"}"));
    buf_done(&out);
}

static void a_record_that_stays_dead_says_why(void **state)
{
    struct dead_result result = {.outcome = DEAD_OUTCOME_STAYS,
                                 .id = 7,
                                 .place = {"t", 1, 2},
                                 .reason_class = "decode",
                                 .reason = "no JSON"};
    struct buf out = {0};

    (void)state;
    dead_json_put_result(&out, &result);
    result = (struct dead_result){
        .outcome = DEAD_OUTCOME_WAITS, .id = 8, .place = {"t", 1, 3}, .behind = 7};
    dead_json_put_result(&out, &result);
    assert_string_equal(buf_text(&out),
                        "{\"id\":7,\"topic\":\"t\",\"partition\":1,\"offset\":2,\"reasonClass\":"
                        "\"decode\",\"reason\":\"no JSON\",\"behind\":null}"
                        "{\"id\":8,\"topic\":\"t\",\"partition\":1,\"offset\":3,\"reasonClass\":"
                        "null,\"reason\":null,\"behind\":7}");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_replay_may_have_corrected_bytes, done),
        cmocka_unit_test_teardown(an_empty_value_is_a_value, done),
        cmocka_unit_test_teardown(a_drop_applies_nothing, done),
        cmocka_unit_test_teardown(many_records_are_selected_on_purpose, done),
        cmocka_unit_test(bytes_that_are_no_text_are_base64),
        cmocka_unit_test(a_record_that_stays_dead_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
