/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/policy.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct policy policy_of(const char *json)
{
    struct policy policy;
    struct err err = {0};

    if (policy_parse(&policy, json, strlen(json), &err) != RC_OK)
        fail_msg("%s: %s", json, err.text);
    return policy;
}

static void an_empty_policy_is_the_default(void **state)
{
    struct policy policy = policy_of("");

    (void)state;
    assert_int_equal(policy.wait.kind, WAIT_LIST);
    assert_int_equal(policy.wait.count, 5);
    assert_int_equal(policy.attempts_max, 6);
    assert_int_equal(policy.age_ms_max, 0);
    assert_int_equal(policy.exhausted, POLICY_BLOCK);
    assert_true(policy.stops[FAULT_CLASS_REFUSED]);
    assert_false(policy.stops[FAULT_CLASS_TRANSIENT]);
    assert_false(policy.stops[FAULT_CLASS_OURS]);
    assert_int_equal(policy.first_wait_high_ms, 0);
    assert_int_equal(policy.dedup_ms, 0);
    assert_int_equal(policy_first_wait_ms(&policy, 12345), 0);
    assert_int_equal(policy.keep_done_ms, 3600000);
    assert_int_equal(policy.rate_per_s, 0);
    assert_int_equal(policy.pending_max, 0);
    assert_int_equal(policy.threads_max, 0);
    assert_int_equal(policy.lease_ms, 30000);
    assert_false(policy.receiver_retries);
    assert_string_equal(policy.on_done.scene, "");
    assert_int_equal(policy.rule_count, 0);
    assert_int_equal(policy_parse(&policy, NULL, 0, NULL), RC_OK);
}

static void every_field_may_be_set(void **state)
{
    struct policy policy =
        policy_of("{\"wait\": \"exponential 1s 10m\", \"attempts\": 9, \"deadline\": \"7d\","
                  " \"stop\": [\"ours\"], \"exhausted\": \"park\", \"keep_done\": true,"
                  " \"first_wait\": \"random 1m\", \"dedup\": \"1d\", \"rate\": \"10/s burst 20\", "
                  "\"max_pending\": "
                  "1000, \"threads\": 3, "
                  "\"no_retry\": false, \"lease\": \"2m\","
                  " \"on_done\": {\"scene\": \"mail\", \"handler\": \"http\"},"
                  " \"on_exhausted\": {\"scene\": \"alarm\", \"handler\": \"kafka\"},"
                  " \"rules\": {\"http 409\": \"refused\", \"mysql 1040-1045\": \"ours\"}}");

    (void)state;
    assert_int_equal(policy.wait.kind, WAIT_EXPONENTIAL);
    assert_int_equal(policy.attempts_max, 9);
    assert_int_equal(policy.age_ms_max, INT64_C(604800000));
    assert_true(policy.stops[FAULT_CLASS_OURS]);
    assert_false(policy.stops[FAULT_CLASS_REFUSED]);
    assert_int_equal(policy.exhausted, POLICY_PARK);
    assert_true(policy.keep_done_ms == POLICY_KEEP);
    assert_int_equal(policy.first_wait_high_ms, 60000);
    assert_int_equal(policy.dedup_ms, 86400000);
    assert_int_equal(policy.rate_per_s, 10);
    assert_int_equal(policy.rate_burst, 20);
    assert_int_equal(policy.pending_max, 1000);
    assert_int_equal(policy.threads_max, 3);
    assert_int_equal(policy.lease_ms, 120000);
    assert_true(policy.receiver_retries);
    assert_string_equal(policy.on_done.scene, "mail");
    assert_string_equal(policy.on_done.handler, "http");
    assert_string_equal(policy.on_exhausted.handler, "kafka");
    assert_int_equal(policy.rule_count, 2);
    assert_int_equal(policy_of("{\"rate\": \"7/s\"}").rate_burst, 7);
    assert_false(policy_of("{\"rate\": \"7/s\"}").rate_per_client);
    assert_true(policy_of("{\"rate\": \"7/s per client\"}").rate_per_client);
    assert_int_equal(policy_of("{\"rate\": \"7/s burst 9 per client\"}").rate_burst, 9);
    policy_done(&policy);
}

static void a_first_wait_is_a_time_or_a_range(void **state)
{
    static const struct {
        const char *json;
        int64_t low_ms;
        int64_t high_ms;
    } cases[] = {
        {"{\"first_wait\": \"\"}", 0, 0},
        {"{\"first_wait\": \"30s\"}", 30000, 30000},
        {"{\"first_wait\": \"random 60s\"}", 0, 60000},
        {"{\"first_wait\": \"random 10s 1m\", \"deadline\": \"61s\"}", 10000, 60000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct policy policy = policy_of(cases[i].json);
        int64_t width = cases[i].high_ms - cases[i].low_ms;

        assert_int_equal(policy_first_wait_ms(&policy, 0), cases[i].low_ms);
        assert_int_equal(policy_first_wait_ms(&policy, (uint64_t)width), cases[i].high_ms);
        assert_int_equal(policy_first_wait_ms(&policy, (uint64_t)width + 1), cases[i].low_ms);
        policy_done(&policy);
    }
}

static enum fault_class class_of(const struct policy *policy, enum fault_source source, int code)
{
    return policy_classify(policy, source, code, FAULT_CLASS_TRANSIENT);
}

static void a_scenes_rule_comes_before_the_common_one(void **state)
{
    struct policy standard = policy_of("");
    struct policy mine = policy_of("{\"rules\": {\"http 404\": \"transient\","
                                   " \"http 400-499\": \"ours\", \"signal 9\": \"refused\"}}");

    (void)state;
    assert_int_equal(class_of(&standard, FAULT_SOURCE_HTTP, 404), FAULT_CLASS_REFUSED);
    assert_int_equal(class_of(&standard, FAULT_SOURCE_HTTP, 429), FAULT_CLASS_TRANSIENT);
    assert_int_equal(class_of(&standard, FAULT_SOURCE_HTTP, 401), FAULT_CLASS_OURS);
    assert_int_equal(class_of(&standard, FAULT_SOURCE_HTTP, 503), FAULT_CLASS_TRANSIENT);
    assert_int_equal(class_of(&standard, FAULT_SOURCE_SIGNAL, 9), FAULT_CLASS_TRANSIENT);
    assert_int_equal(class_of(&standard, FAULT_SOURCE_EXIT, 65), FAULT_CLASS_REFUSED);
    assert_int_equal(class_of(&mine, FAULT_SOURCE_HTTP, 404), FAULT_CLASS_TRANSIENT);
    assert_int_equal(class_of(&mine, FAULT_SOURCE_HTTP, 429), FAULT_CLASS_OURS);
    assert_int_equal(class_of(&mine, FAULT_SOURCE_HTTP, 503), FAULT_CLASS_TRANSIENT);
    assert_int_equal(class_of(&mine, FAULT_SOURCE_SIGNAL, 9), FAULT_CLASS_REFUSED);
    assert_int_equal(class_of(&mine, FAULT_SOURCE_EXIT, 9), FAULT_CLASS_TRANSIENT);
    /* No rule matches: the handler's own decision counts. */
    assert_int_equal(policy_classify(&mine, FAULT_SOURCE_KAFKA, 10, FAULT_CLASS_REFUSED),
                     FAULT_CLASS_REFUSED);
    assert_int_equal(policy_classify(&mine, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_OURS),
                     FAULT_CLASS_OURS);
    assert_int_equal(policy_classify(&mine, FAULT_SOURCE_HTTP, 404, FAULT_CLASS_OURS),
                     FAULT_CLASS_TRANSIENT);
}

static void a_wrong_value_is_named(void **state)
{
    static const struct {
        const char *json;
        const char *sentence;
    } bad[] = {
        {"{", "a policy is a JSON object"},
        {"[]", "a policy is a JSON object"},
        {"{\"wait\": \"fixed 1s\", \"wait\": \"fixed 2s\"}", "duplicate"},
        {"{\"waits\": \"fixed 1s\"}", "no field \"waits\"; did you mean \"wait\"?"},
        {"{\"wiat\": \"fixed 1s\"}", "no field \"wiat\"; did you mean \"wait\"?"},
        {"{\"colour\": 1}", "no field \"colour\""},
        {"{\"wait\": 5}", "policy field \"wait\": a text is expected"},
        {"{\"wait\": \"fixed x\"}", "policy field \"wait\": wait \"fixed\": \"x\" is not the wait"},
        {"{\"attempts\": -1}", "policy field \"attempts\": a whole number"},
        {"{\"attempts\": \"6\"}", "policy field \"attempts\": a whole number"},
        {"{\"deadline\": \"soon\"}", "policy field \"deadline\": a time like"},
        {"{\"stop\": \"refused\"}", "policy field \"stop\": a list"},
        {"{\"stop\": [\"red\"]}", "policy field \"stop\": \"transient\""},
        {"{\"exhausted\": \"drop\"}", "policy field \"exhausted\": \"block\""},
        {"{\"first_wait\": 5}", "policy field \"first_wait\": \"30s\", \"random 60s\""},
        {"{\"first_wait\": \"random\"}", "policy field \"first_wait\": \"30s\""},
        {"{\"first_wait\": \"random 60s 10s\"}", "policy field \"first_wait\": \"30s\""},
        {"{\"first_wait\": \"10s 60s\"}", "policy field \"first_wait\": \"30s\""},
        {"{\"first_wait\": \"random 60s\", \"deadline\": \"1m\"}",
         "policy field \"first_wait\": it must be shorter than the deadline"},
        {"{\"dedup\": true}", "policy field \"dedup\": a time like"},
        {"{\"keep_done\": 1}", "policy field \"keep_done\": a time like"},
        {"{\"rate\": \"0/s\"}", "policy field \"rate\""},
        {"{\"rate\": \"5/s per\"}", "policy field \"rate\""},
        {"{\"rate\": \"5/s per client burst 3\"}", "policy field \"rate\""},
        {"{\"rate\": \"5\"}", "policy field \"rate\""},
        {"{\"rate\": \"5/s burst\"}", "policy field \"rate\""},
        {"{\"rate\": \"5/s burst 0\"}", "policy field \"rate\""},
        {"{\"no_retry\": 0}", "policy field \"no_retry\": true or false is expected"},
        {"{\"lease\": \"10ms\"}", "policy field \"lease\": it must be at least 1s"},
        {"{\"on_done\": {\"scene\": \"x\"}}", "policy field \"on_done\""},
        {"{\"on_done\": {\"scene\": \"x\", \"handler\": \"a b\"}}", "policy field \"on_done\""},
        {"{\"on_done\": \"x\"}", "policy field \"on_done\""},
        {"{\"rules\": {\"ftp 1\": \"ours\"}}", "policy field \"rules\": \"ftp 1\""},
        {"{\"rules\": {\"http\": \"ours\"}}", "policy field \"rules\": \"http\""},
        {"{\"rules\": {\"http 5-4\": \"ours\"}}", "policy field \"rules\""},
        {"{\"rules\": {\"http 500\": \"bad\"}}", "\"http 500\": \"transient\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct policy policy;
        struct err err = {0};

        if (policy_parse(&policy, bad[i].json, strlen(bad[i].json), &err) != RC_REJECT)
            fail_msg("%s is taken", bad[i].json);
        if (!strstr(err.text, bad[i].sentence))
            fail_msg("%s: %s", bad[i].json, err.text);
    }
}

static void every_field_has_a_line_of_help(void **state)
{
    (void)state;
    for (size_t i = 0; i < policy_fields_count; i++) {
        size_t len = strlen(policy_fields[i].about);

        assert_true(len > 10);
        assert_int_equal(policy_fields[i].about[len - 1], '.');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_policy_is_the_default),
        cmocka_unit_test(every_field_may_be_set),
        cmocka_unit_test(a_first_wait_is_a_time_or_a_range),
        cmocka_unit_test(a_scenes_rule_comes_before_the_common_one),
        cmocka_unit_test(a_wrong_value_is_named),
        cmocka_unit_test(every_field_has_a_line_of_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
