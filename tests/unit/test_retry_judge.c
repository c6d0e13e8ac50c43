/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/judge.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define NOW_MS INT64_C(1795283910000)

static const struct attempt done = {.end = ATTEMPT_DONE};
static const struct attempt failed = {
    .end = ATTEMPT_FAILED, .fault = FAULT_TRANSIENT, .delay_ms = ATTEMPT_NO_DELAY};
static const struct attempt refused = {
    .end = ATTEMPT_FAILED, .fault = FAULT_REFUSED, .delay_ms = ATTEMPT_NO_DELAY};
static const struct attempt rejected = {.end = ATTEMPT_REJECTED};
static const struct attempt cut = {.end = ATTEMPT_CUT};

static struct verdict verdict_of(const char *json, int64_t attempts, int64_t age_ms,
                                 const struct attempt *attempt)
{
    const struct judged task = {.attempts = attempts, .made_ms = NOW_MS - age_ms};
    struct policy policy;
    struct verdict verdict;

    assert_int_equal(policy_parse(&policy, json, strlen(json), NULL), RC_OK);
    verdict = judge(&policy, &task, attempt, NOW_MS, 0);
    policy_done(&policy);
    return verdict;
}

static void assert_again(const struct verdict *verdict, int64_t attempts, int64_t after_ms)
{
    assert_int_equal(verdict->kind, VERDICT_AGAIN);
    assert_int_equal(verdict->attempts, attempts);
    assert_int_equal(verdict->next_ms - NOW_MS, after_ms);
}

static void assert_over(const struct verdict *verdict, int64_t attempts, const char *why)
{
    assert_int_equal(verdict->kind, VERDICT_EXHAUSTED);
    assert_int_equal(verdict->attempts, attempts);
    assert_string_equal(verdict->why, why);
}

static void a_task_that_is_done_is_done(void **state)
{
    struct verdict verdict = verdict_of("", 5, INT64_C(1) << 40, &done);

    (void)state;
    assert_int_equal(verdict.kind, VERDICT_DONE);
    assert_int_equal(verdict.attempts, 5);
}

static void a_failure_waits_by_the_rule_until_attempts_run_out(void **state)
{
    static const int64_t minutes[] = {1, 5, 10, 30, 60};
    struct verdict verdict;

    (void)state;
    for (int i = 0; i < 5; i++) {
        verdict = verdict_of("", i, 0, &failed);
        assert_again(&verdict, i + 1, minutes[i] * 60000);
    }
    verdict = verdict_of("", 5, 0, &failed);
    assert_over(&verdict, 6, "attempts");
    verdict = verdict_of("{\"attempts\": 0}", 1000000, 0, &failed);
    assert_again(&verdict, 1000001, 3600000);
}

static void a_class_that_stops_is_the_last_failure(void **state)
{
    struct verdict verdict = verdict_of("", 0, 0, &refused);

    (void)state;
    assert_over(&verdict, 1, "refused");
    verdict = verdict_of("{\"stop\": []}", 0, 0, &refused);
    assert_again(&verdict, 1, 60000);
    verdict = verdict_of("{\"stop\": [\"transient\", \"refused\", \"ours\"]}", 0, 0, &failed);
    assert_over(&verdict, 1, "transient");
}

static void the_handlers_own_delay_counts(void **state)
{
    struct attempt mine = failed;
    struct verdict verdict;

    (void)state;
    mine.delay_ms = 1234;
    verdict = verdict_of("", 1, 0, &mine);
    assert_again(&verdict, 2, 1234);
    mine.delay_ms = 0;
    verdict = verdict_of("", 1, 0, &mine);
    assert_again(&verdict, 2, 0);
}

static void an_attempt_behind_the_deadline_is_not_waited_for(void **state)
{
    struct verdict verdict = verdict_of("{\"deadline\": \"2m\"}", 0, 60000, &failed);

    (void)state;
    assert_again(&verdict, 1, 60000);
    verdict = verdict_of("{\"deadline\": \"2m\"}", 0, 60001, &failed);
    assert_over(&verdict, 1, "deadline");
}

static void a_rule_without_a_further_time_ends_the_task(void **state)
{
    struct verdict verdict = verdict_of("{\"wait\": \"at 2026-01-01T00:00:00Z\"}", 0, 0, &failed);

    (void)state;
    assert_over(&verdict, 1, "wait");
}

static void a_snooze_costs_no_attempt_and_cannot_spin(void **state)
{
    struct attempt snooze = {.end = ATTEMPT_SNOOZED, .delay_ms = 5000};
    struct verdict verdict = verdict_of("", 5, 0, &snooze);

    (void)state;
    assert_again(&verdict, 5, 5000);
    snooze.delay_ms = 0;
    verdict = verdict_of("", 5, 0, &snooze);
    assert_again(&verdict, 5, 100);
    snooze.delay_ms = 60000;
    verdict = verdict_of("{\"deadline\": \"1m\"}", 2, 1, &snooze);
    assert_over(&verdict, 2, "deadline");
}

static void a_rejected_task_is_over(void **state)
{
    struct verdict verdict = verdict_of("{\"attempts\": 0}", 0, 0, &rejected);

    (void)state;
    assert_over(&verdict, 1, "rejected");
}

static void an_attempt_cut_short_costs_nothing(void **state)
{
    struct verdict verdict = verdict_of("", 5, INT64_C(1) << 40, &cut);

    (void)state;
    assert_again(&verdict, 5, 0);
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
