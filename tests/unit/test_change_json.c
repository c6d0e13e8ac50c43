/* SPDX-License-Identifier: MIT */
/* The bodies of changes of scenes and groups. */
#include "producer/task/change_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static enum rc parse(struct change_json *json, enum retry_change_kind kind, const char *body,
                     struct request_fault *fault)
{
    return change_json_parse(json, kind, "0a1b2c3d", body, strlen(body), fault);
}

static void assert_refused(enum retry_change_kind kind, const char *body,
                           enum request_fault_code code, const char *at)
{
    struct change_json json;
    struct request_fault fault = {.code = REQUEST_FAULT_CODES};

    assert_int_equal(parse(&json, kind, body, &fault), RC_REJECT);
    assert_int_equal(fault.code, code);
    assert_int_equal(fault.has_at, at != NULL);
    if (at)
        assert_string_equal(fault.at, at);
    change_json_done(&json);
}

static void a_policy_is_kept_as_it_was_sent(void **state)
{
    struct change_json json;
    struct request_fault fault;

    (void)state;
    assert_int_equal(parse(&json, CHANGE_SCENE_SET,
                           "{\"version\":3,\"policy\":{\"rate\":1.50},\"options\":null,"
                           "\"by\":\"ann\",\"reason\":\"slow\"}",
                           &fault),
                     RC_OK);
    assert_true(json.change.has_version);
    assert_int_equal(json.change.version, 3);
    assert_string_equal(json.change.policy, "{\"rate\":1.50}");
    assert_string_equal(json.change.options, "");
    assert_string_equal(json.change.by, "ann (token:0a1b2c3d)");
    assert_string_equal(json.change.why, "slow");
    assert_string_equal(json.change.via, "http");
    change_json_done(&json);
}

static void what_is_not_given_stays_as_it_is(void **state)
{
    struct change_json json;
    struct request_fault fault;

    (void)state;
    assert_int_equal(
        parse(&json, CHANGE_GROUP_SET, "{\"version\":0,\"initScene\":{\"attempts\":3}}", &fault),
        RC_OK);
    assert_string_equal(json.change.values.init_scene, "{\"attempts\":3}");
    assert_null(json.change.values.handlers);
    assert_null(json.change.values.description);
    assert_string_equal(json.change.by, "token:0a1b2c3d");
    change_json_done(&json);
    assert_int_equal(parse(&json, CHANGE_SCENE_PAUSE, "{}", &fault), RC_OK);
    assert_false(json.change.has_version);
    change_json_done(&json);
}

static void a_bad_body_is_named_with_its_place(void **state)
{
    (void)state;
    assert_refused(CHANGE_SCENE_SET, "", REQUEST_FAULT_NOT_JSON, NULL);
    assert_refused(CHANGE_SCENE_SET, "[]", REQUEST_FAULT_WRONG_TYPE, NULL);
    assert_refused(CHANGE_SCENE_SET, "{\"policy\":null}", REQUEST_FAULT_MISSING, "/version");
    assert_refused(CHANGE_SCENE_SET, "{\"version\":1}", REQUEST_FAULT_MISSING, NULL);
    assert_refused(CHANGE_SCENE_SET, "{\"version\":1.5,\"policy\":null}", REQUEST_FAULT_WRONG_TYPE,
                   "/version");
    assert_refused(CHANGE_SCENE_SET, "{\"version\":1,\"policy\":\"x\"}", REQUEST_FAULT_WRONG_TYPE,
                   "/policy");
    assert_refused(CHANGE_SCENE_PAUSE, "{\"version\":1}", REQUEST_FAULT_UNKNOWN, "/version");
    assert_refused(CHANGE_GROUP_SET, "{\"version\":1,\"policy\":null}", REQUEST_FAULT_UNKNOWN,
                   "/policy");
    assert_refused(CHANGE_GROUP_SET, "{\"version\":1,\"topics\":null}", REQUEST_FAULT_WRONG_TYPE,
                   "/topics");
}

static void a_policy_that_is_no_json_is_shown_as_a_text(void **state)
{
    const struct retry_scene_view view = {.group = "g",
                                          .scene = "s",
                                          .policy = "{",
                                          .options = "{\"n\":1.0}",
                                          .version = 2,
                                          .fault = "not JSON"};
    struct buf out = {0};

    (void)state;
    change_json_put_scene(&out, &view, NULL);
    assert_string_equal(buf_text(&out),
                        "{\"group\":\"g\",\"scene\":\"s\",\"version\":2,\"paused\":false,"
                        "\"policy\":\"{\",\"options\":{\"n\":1.0},\"fault\":\"not JSON\"}");
    buf_done(&out);
}

static void a_zero_byte_is_not_json(void **state)
{
    static const char body[] = "{\"version\":1,\"options\":{\"n\":1\0}}";
    struct change_json json;
    struct request_fault fault;

    (void)state;
    assert_int_equal(
        change_json_parse(&json, CHANGE_SCENE_SET, "t", body, sizeof(body) - 1, &fault), RC_REJECT);
    assert_int_equal(fault.code, REQUEST_FAULT_NOT_JSON);
    change_json_done(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_is_kept_as_it_was_sent),
        cmocka_unit_test(what_is_not_given_stays_as_it_is),
        cmocka_unit_test(a_bad_body_is_named_with_its_place),
        cmocka_unit_test(a_policy_that_is_no_json_is_shown_as_a_text),
        cmocka_unit_test(a_zero_byte_is_not_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
