/* SPDX-License-Identifier: MIT */
/* What operators write into retry_scene and retry_group: policies, and lists of shards. p or s |
 * the text */
#include "outbox/retry/policy/policy.h"

#include "outbox/retry/retry.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW_MS INT64_C(1790000000000)
#define ATTEMPTS 12

static void check_times(const struct policy *policy)
{
    static const uint64_t bits[] = {0, 1, UINT64_C(0x9e3779b97f4a7c15), UINT64_MAX};

    fuzz_must(policy->first_wait_low_ms >= 0 &&
                  policy->first_wait_low_ms <= policy->first_wait_high_ms &&
                  policy->first_wait_high_ms <= SPAN_MS_MAX,
              "a first wait is a range of times");
    fuzz_must(policy->age_ms_max >= 0 && policy->age_ms_max <= SPAN_MS_MAX &&
                  policy->dedup_ms >= 0 && policy->dedup_ms <= SPAN_MS_MAX &&
                  policy->lease_ms >= 1000 && policy->lease_ms <= SPAN_MS_MAX,
              "times are bounded");
    fuzz_must(policy->keep_done_ms == POLICY_KEEP ||
                  (policy->keep_done_ms >= 0 && policy->keep_done_ms <= SPAN_MS_MAX),
              "a done task is kept for a time, or for ever");
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
        int64_t wait_ms = policy_first_wait_ms(policy, bits[i]);

        fuzz_must(wait_ms >= policy->first_wait_low_ms && wait_ms <= policy->first_wait_high_ms,
                  "a first wait is in its range");
        fuzz_must(policy->age_ms_max == 0 || wait_ms < policy->age_ms_max,
                  "a first wait ends before the deadline");
    }
}

static void check_rate(const struct policy *policy)
{
    struct bucket bucket;

    fuzz_must(policy->rate_per_s >= 0 && policy->rate_per_s <= BUCKET_RATE_MAX,
              "a rate is bounded");
    fuzz_must(policy->rate_per_s > 0 || !policy->rate_per_client, "a client's rate is a rate");
    if (policy->rate_per_s == 0)
        return;
    bucket_init(&bucket, policy->rate_per_s, policy->rate_burst, NOW_MS);
    fuzz_must(bucket_count(&bucket, NOW_MS) == policy->rate_burst, "a bucket begins full");
    bucket_spend(&bucket, INT64_MAX);
    fuzz_must(bucket_take(&bucket, NOW_MS) > 0, "an empty bucket gives nothing");
    fuzz_must(bucket_count(&bucket, INT64_MAX) == policy->rate_burst, "a bucket fills up");
}

/* Attempts that all fail. */
static void check_decisions(const struct policy *policy)
{
    struct policy_task task = {.made_ms = NOW_MS};
    int64_t now_ms = NOW_MS;
    int64_t foreseen_ms = policy_foresee_ms(policy, &task, now_ms);

    fuzz_must(foreseen_ms >= now_ms, "the end is in the future");
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        const struct policy_attempt attempt = {.end = ATTEMPT_FAILED,
                                               .fault = (enum fault_class)(i % 3),
                                               .delay_ms = ATTEMPT_NO_DELAY};
        struct decision decision =
            policy_decide(policy, &task, &attempt, now_ms, UINT64_C(0x9e3779b97f4a7c15) * i);

        fuzz_must(decision.attempts == task.attempts + 1, "a failure counts once");
        if (decision.kind == DECISION_EXHAUSTED) {
            fuzz_must(decision.why && *decision.why, "an end has its reason");
            return;
        }
        fuzz_must(decision.kind == DECISION_AGAIN && decision.next_ms >= now_ms,
                  "a wait ends in the future");
        fuzz_must(policy->age_ms_max == 0 || decision.next_ms - NOW_MS <= policy->age_ms_max,
                  "no wait ends behind the deadline");
        fuzz_must(policy->attempts_max == 0 || decision.attempts < policy->attempts_max,
                  "no attempt is above the limit");
        task.attempts = decision.attempts;
        now_ms = decision.next_ms;
    }
}

static void check_policy(const char *text)
{
    static struct policy policy;
    struct err err = {0};
    enum rc rc = policy_parse(&policy, text, strlen(text), &err);

    fuzz_must(rc == RC_OK || rc == RC_REJECT, "a policy is good or bad");
    if (rc != RC_OK) {
        fuzz_must_be_sentence(err.text);
        return;
    }
    fuzz_must(policy.rule_count <= POLICY_RULES_MAX, "rules are bounded");
    for (size_t i = 0; i < policy.rule_count; i++)
        fuzz_must(policy.rules[i].from <= policy.rules[i].to, "a rule is a range");
    check_times(&policy);
    check_rate(&policy);
    check_decisions(&policy);
    policy_done(&policy);
}

/* The list that has exactly these shards. */
static void check_shards(const char *text)
{
    char again[RETRY_SHARDS * 4] = "";
    size_t len = 0;
    unsigned bits;
    unsigned same;

    if (!retry_shards_read(&bits, text))
        return;
    fuzz_must(bits > 0 && bits < 1U << RETRY_SHARDS, "a list has one of the shards at least");
    fuzz_must(strspn(text, "0123456789-, ") == strlen(text), "a list has numbers");
    for (unsigned i = 0; i < RETRY_SHARDS; i++)
        if ((bits >> i & 1) != 0)
            len += (size_t)snprintf(again + len, sizeof(again) - len, "%s%u", len ? "," : "", i);
    fuzz_must(retry_shards_read(&same, again) && same == bits, "the same list has the same shards");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t kind = fuzz_byte(&input);
    char *text = fuzz_text(&input, '\0');

    if (kind == 'p')
        check_policy(text);
    else if (kind == 's')
        check_shards(text);
    free(text);
    return 0;
}
