/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/judge.h"

/* A handler that snoozes for no time at all would spin. */
#define SNOOZE_MS_MIN 100

static struct verdict over(int64_t attempts, const char *why)
{
    return (struct verdict){.kind = VERDICT_EXHAUSTED, .attempts = attempts, .why = why};
}

static struct verdict again(int64_t attempts, int64_t next_ms)
{
    return (struct verdict){.kind = VERDICT_AGAIN, .attempts = attempts, .next_ms = next_ms};
}

static struct verdict judge_failed(const struct policy *policy, const struct judged *task,
                                   const struct attempt *attempt, int64_t now_ms,
                                   uint64_t random_bits)
{
    int64_t attempts = task->attempts + 1;
    int64_t next_ms;

    if (policy->stops[attempt->fault])
        return over(attempts, fault_class_name(attempt->fault));
    if (policy->attempts_max > 0 && attempts >= policy->attempts_max)
        return over(attempts, "attempts");
    next_ms = attempt->delay_ms == ATTEMPT_NO_DELAY
                  ? wait_next_ms(&policy->wait, (unsigned)attempts, now_ms, random_bits)
                  : now_ms + attempt->delay_ms;
    if (next_ms == WAIT_NEVER)
        return over(attempts, "wait");
    /* An attempt behind the deadline would not be made: why wait for it. */
    if (policy->age_ms_max > 0 && next_ms - task->made_ms > policy->age_ms_max)
        return over(attempts, "deadline");
    return again(attempts, next_ms);
}

static struct verdict judge_snoozed(const struct policy *policy, const struct judged *task,
                                    const struct attempt *attempt, int64_t now_ms)
{
    int64_t delay_ms = attempt->delay_ms > SNOOZE_MS_MIN ? attempt->delay_ms : SNOOZE_MS_MIN;

    if (policy->age_ms_max > 0 && now_ms + delay_ms - task->made_ms > policy->age_ms_max)
        return over(task->attempts, "deadline");
    return again(task->attempts, now_ms + delay_ms);
}

struct verdict judge(const struct policy *policy, const struct judged *task,
                     const struct attempt *attempt, int64_t now_ms, uint64_t random_bits)
{
    switch (attempt->end) {
    case ATTEMPT_DONE:
        return (struct verdict){.kind = VERDICT_DONE, .attempts = task->attempts};
    case ATTEMPT_FAILED:
        return judge_failed(policy, task, attempt, now_ms, random_bits);
    case ATTEMPT_SNOOZED:
        return judge_snoozed(policy, task, attempt, now_ms);
    case ATTEMPT_REJECTED:
        return over(task->attempts + 1, "rejected");
    case ATTEMPT_CUT:
        return again(task->attempts, now_ms);
    }
    return again(task->attempts, now_ms);
}
