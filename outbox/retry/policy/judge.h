/* SPDX-License-Identifier: MIT */
/* What becomes of a task after an attempt: done, again and when, or over. Pure; any thread. */
#ifndef OUTBOX_RETRY_POLICY_JUDGE_H
#define OUTBOX_RETRY_POLICY_JUDGE_H

#include "outbox/retry/policy/policy.h"

#include <stdbool.h>
#include <stdint.h>

/* What a handler said. */
struct attempt {
    enum attempt_end end;
    enum fault_class fault;
    int64_t delay_ms; /* its own wish, or ATTEMPT_NO_DELAY */
};

/* The task before the attempt. */
struct judged {
    int64_t attempts; /* that failed so far */
    int64_t made_ms;
};

enum verdict_kind {
    VERDICT_DONE,
    VERDICT_AGAIN,     /* at next_ms */
    VERDICT_EXHAUSTED, /* over, by why; policy->exhausted says what its key does */
};

struct verdict {
    enum verdict_kind kind;
    int64_t attempts;
    int64_t next_ms; /* of VERDICT_AGAIN, since 1970 */
    const char *why; /* of VERDICT_EXHAUSTED: a word for its history; static */
};

/* now_ms: by the database's clock, as made_ms. */
struct verdict judge(const struct policy *policy, const struct judged *task,
                     const struct attempt *attempt, int64_t now_ms, uint64_t random_bits);

#endif
