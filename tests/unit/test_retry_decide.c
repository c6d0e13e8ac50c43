/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/policy.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define NOW_MS INT64_C(1795283910000)

static const struct policy_attempt done = {.end = ATTEMPT_DONE};
static const struct policy_attempt failed = {
    .end = ATTEMPT_FAILED, .fault = FAULT_CLASS_TRANSIENT, .delay_ms = ATTEMPT_NO_DELAY};
static const struct policy_attempt refused = {
    .end = ATTEMPT_FAILED, .fault = FAULT_CLASS_REFUSED, .delay_ms = ATTEMPT_NO_DELAY};
static const struct policy_attempt rejected = {.end = ATTEMPT_REJECTED};
static const struct policy_attempt cut = {.end = ATTEMPT_CUT};

static struct decision decision_of(const char *json, int64_t attempts, int64_t age_ms,
                                   const struct policy_attempt *attempt)
{
    const struct policy_task task = {.attempts = attempts, .made_ms = NOW_MS - age_ms};
    struct policy policy;
    struct decision decision;

    assert_int_equal(policy_parse(&policy, json, strlen(json), NULL), RC_OK);
    decision = policy_decide(&policy, &task, attempt, NOW_MS, 0);
    policy_done(&policy);
    return decision;
}

static void assert_again(const struct decision *decision, int64_t attempts, int64_t after_ms)
{
    assert_int_equal(decision->kind, DECISION_AGAIN);
    assert_int_equal(decision->attempts, attempts);
    assert_int_equal(decision->next_ms - NOW_MS, after_ms);
}

static void assert_over(const struct decision *decision, int64_t attempts, const char *why)
{
    assert_int_equal(decision->kind, DECISION_EXHAUSTED);
    assert_int_equal(decision->attempts, attempts);
    assert_string_equal(decision->why, why);
}

static void a_task_that_is_done_is_done(void **state)
{
    struct decision decision = decision_of("", 5, INT64_C(1) << 40, &done);

    (void)state;
    assert_int_equal(decision.kind, DECISION_DONE);
    assert_int_equal(decision.attempts, 5);
}

static void a_failure_waits_by_the_rule_until_attempts_run_out(void **state)
{
    static const int64_t minutes[] = {1, 5, 10, 30, 60};
    struct decision decision;

    (void)state;
    for (int i = 0; i < 5; i++) {
        decision = decision_of("", i, 0, &failed);
        assert_again(&decision, i + 1, minutes[i] * 60000);
    }
    decision = decision_of("", 5, 0, &failed);
    assert_over(&decision, 6, "attempts");
    decision = decision_of("{\"attempts\": 0}", 1000000, 0, &failed);
    assert_again(&decision, 1000001, 3600000);
}

static void a_class_that_stops_is_the_last_failure(void **state)
{
    struct decision decision = decision_of("", 0, 0, &refused);

    (void)state;
    assert_over(&decision, 1, "refused");
    decision = decision_of("{\"stop\": []}", 0, 0, &refused);
    assert_again(&decision, 1, 60000);
    decision = decision_of("{\"stop\": [\"transient\", \"refused\", \"ours\"]}", 0, 0, &failed);
    assert_over(&decision, 1, "transient");
}

static void the_handlers_own_delay_counts(void **state)
{
    struct policy_attempt mine = failed;
    struct decision decision;

    (void)state;
    mine.delay_ms = 1234;
    decision = decision_of("", 1, 0, &mine);
    assert_again(&decision, 2, 1234);
    mine.delay_ms = 0;
    decision = decision_of("", 1, 0, &mine);
    assert_again(&decision, 2, 0);
}

static void an_attempt_behind_the_deadline_is_not_waited_for(void **state)
{
    struct decision decision = decision_of("{\"deadline\": \"2m\"}", 0, 60000, &failed);

    (void)state;
    assert_again(&decision, 1, 60000);
    decision = decision_of("{\"deadline\": \"2m\"}", 0, 60001, &failed);
    assert_over(&decision, 1, "deadline");
}

static void a_rule_without_a_further_time_ends_the_task(void **state)
{
    struct decision decision =
        decision_of("{\"wait\": \"at 2026-01-01T00:00:00Z\"}", 0, 0, &failed);

    (void)state;
    assert_over(&decision, 1, "wait");
}

static void a_snooze_costs_no_attempt_and_cannot_spin(void **state)
{
    struct policy_attempt snooze = {.end = ATTEMPT_SNOOZED, .delay_ms = 5000};
    struct decision decision = decision_of("", 5, 0, &snooze);

    (void)state;
    assert_again(&decision, 5, 5000);
    snooze.delay_ms = 0;
    decision = decision_of("", 5, 0, &snooze);
    assert_again(&decision, 5, 100);
    snooze.delay_ms = 60000;
    decision = decision_of("{\"deadline\": \"1m\"}", 2, 1, &snooze);
    assert_over(&decision, 2, "deadline");
}

static void a_rejected_task_is_over(void **state)
{
    struct decision decision = decision_of("{\"attempts\": 0}", 0, 0, &rejected);

    (void)state;
    assert_over(&decision, 1, "rejected");
}

static void an_attempt_cut_short_costs_nothing(void **state)
{
    struct decision decision = decision_of("", 5, INT64_C(1) << 40, &cut);

    (void)state;
    assert_again(&decision, 5, 0);
}

static int64_t foresee(const char *json, int64_t attempts, int64_t made_ms, int64_t next_ms)
{
    struct policy policy;
    struct policy_task task = {attempts, made_ms};
    struct err err;
    int64_t at_ms;

    if (policy_parse(&policy, json, strlen(json), &err) != RC_OK)
        fail_msg("%s", err.text);
    at_ms = policy_foresee_ms(&policy, &task, next_ms);
    policy_done(&policy);
    return at_ms;
}

#define MINUTE INT64_C(60000)

static void the_end_of_a_task_that_always_fails_is_foreseen(void **state)
{
    (void)state;
    /* Attempts 2 to 6, after 1, 5, 10, 30 and 60 minutes; the first of these is at 1 min. */
    assert_int_equal(foresee("", 1, 0, MINUTE), 106 * MINUTE);
    assert_int_equal(foresee("", 5, 0, 106 * MINUTE), 106 * MINUTE);
    assert_int_equal(foresee(POLICY_PUBLISH, 1, 0, MINUTE), 106 * MINUTE);
    assert_int_equal(foresee("{\"wait\": \"random 1m 3m\", \"attempts\": 3}", 1, 0, MINUTE),
                     3 * MINUTE);
    assert_int_equal(foresee("{\"wait\": \"exponential 2m 8m\", \"attempts\": 5}", 1, 0, MINUTE),
                     (1 + 2 + 4 + 4) * MINUTE);
    assert_int_equal(
        foresee("{\"wait\": \"fixed 1m\", \"attempts\": 0, \"deadline\": \"5m\"}", 1, 0, MINUTE),
        5 * MINUTE);
    assert_int_equal(foresee("{\"wait\": \"at 1970-01-01T00:02:00Z\"}", 1, 0, MINUTE), 2 * MINUTE);
    assert_true(foresee("{\"attempts\": 0}", 1, 0, MINUTE) == POLICY_NOT_FORESEEN);
}

static int64_t foresee_preset(const char *name, int64_t attempts, int64_t next_ms)
{
    return foresee(policy_find_preset(name)->json, attempts, 0, next_ms);
}

static void the_end_after_hundreds_of_attempts_is_foreseen(void **state)
{
    (void)state;
    /* Attempt 6 after 106 minutes, as above, and one an hour from then on. */
    assert_int_equal(foresee("{\"attempts\": 1000}", 1, 0, MINUTE), (106 + 994 * 60) * MINUTE);
    assert_int_equal(foresee_preset("publish-week", 1, MINUTE), (106 + 166 * 60) * MINUTE);
    assert_int_equal(foresee_preset("publish-week", 171, (106 + 166 * 60) * MINUTE),
                     (106 + 166 * 60) * MINUTE);
    assert_true(foresee_preset("publish-endless", 1, MINUTE) == POLICY_NOT_FORESEEN);
    /* Whichever comes first. */
    assert_int_equal(
        foresee("{\"wait\": \"fixed 1m\", \"attempts\": 300, \"deadline\": \"4h\"}", 1, 0, MINUTE),
        240 * MINUTE);
    assert_int_equal(
        foresee("{\"wait\": \"fixed 1m\", \"attempts\": 200, \"deadline\": \"4h\"}", 1, 0, MINUTE),
        199 * MINUTE);
    assert_int_equal(foresee("{\"wait\": \"fixed 1m\", \"attempts\": 102}", 1, 0, MINUTE),
                     101 * MINUTE);
    assert_int_equal(foresee("{\"wait\": \"fixed 1m\", \"attempts\": 101}", 1, 0, MINUTE),
                     100 * MINUTE);
}

static void every_preset_is_a_policy(void **state)
{
    (void)state;
    for (size_t i = 0; i < policy_presets_count; i++) {
        assert_ptr_equal(policy_find_preset(policy_presets[i].name), &policy_presets[i]);
        /* An operator is told when the key of a refused row will be blocked, unless it never is. */
        assert_int_equal(foresee(policy_presets[i].json, 1, 0, MINUTE) != POLICY_NOT_FORESEEN,
                         strcmp(policy_presets[i].name, "publish-endless") != 0);
    }
    assert_null(policy_find_preset("publish-never"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_that_is_done_is_done),
        cmocka_unit_test(a_failure_waits_by_the_rule_until_attempts_run_out),
        cmocka_unit_test(a_class_that_stops_is_the_last_failure),
        cmocka_unit_test(the_handlers_own_delay_counts),
        cmocka_unit_test(an_attempt_behind_the_deadline_is_not_waited_for),
        cmocka_unit_test(a_rule_without_a_further_time_ends_the_task),
        cmocka_unit_test(a_snooze_costs_no_attempt_and_cannot_spin),
        cmocka_unit_test(a_rejected_task_is_over),
        cmocka_unit_test(an_attempt_cut_short_costs_nothing),
        cmocka_unit_test(the_end_of_a_task_that_always_fails_is_foreseen),
        cmocka_unit_test(the_end_after_hundreds_of_attempts_is_foreseen),
        cmocka_unit_test(every_preset_is_a_policy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
