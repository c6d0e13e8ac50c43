/* SPDX-License-Identifier: MIT */
/* What a scene (a kind of task) does after failures: one JSON object in retry_scene.policy, in
 * which every field is optional. policy_fields lists all fields with their defaults; an unknown
 * field is an error, because a misspelt one would silently have no effect. A policy does not
 * change after it is parsed; any thread may use it then. */
#ifndef OUTBOX_RETRY_POLICY_POLICY_H
#define OUTBOX_RETRY_POLICY_POLICY_H

#include "common/err.h"
#include "outbox/retry/callback.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/policy/wait.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLICY_BYTES_MAX 65536
#define POLICY_RULES_MAX 64

/* Done tasks stay until housekeeping deletes them. */
#define POLICY_KEEP INT64_MAX

const char *fault_class_name(enum fault_class fault); /* static */

/* Codes from..to of a source mean this class here. */
struct fault_rule {
    enum fault_source source;
    int from;
    int to;
    enum fault_class fault;
};

/* What becomes of the key of a task that is exhausted. */
enum policy_exhausted {
    POLICY_BLOCK, /* the task stays, and its key waits for an operator */
    POLICY_PARK,  /* the task moves into the history, later tasks of its key are parked */
    POLICY_SKIP,  /* the task moves into the history, its key continues */
};

struct policy {
    struct wait wait;
    /* No first attempt before the task is so old: a random time of this range; 0 and 0: at once. */
    int64_t first_wait_low_ms;
    int64_t first_wait_high_ms;
    int64_t attempts_max; /* 0: no end */
    int64_t age_ms_max;   /* since the task was made; 0: no end */
    enum policy_exhausted exhausted;
    bool stops[3]; /* by fault_class: a failure of this class is the last one */
    int64_t
        dedup_ms; /* after its end a task's idempotency key is refused for so long; 0: it is not */
    int64_t keep_done_ms; /* done tasks stay in the history; 0: they are deleted */
    int64_t rate_per_s;
    int64_t rate_burst;
    bool rate_per_client;  /* of the group; else of all */
    int64_t pending_max;   /* 0: no end */
    int64_t threads_max;   /* of one process; 0: no limit */
    bool receiver_retries; /* calls and records do not carry HEADER_NO_RETRY */
    int64_t lease_ms;      /* an attempt may take as long, without a heartbeat */
    struct callback_target on_done;
    struct callback_target on_exhausted;
    struct callback_target on_cancelled;
    struct fault_rule rules[POLICY_RULES_MAX];
    size_t rule_count;
};

struct policy_field {
    const char *name;
    const char *default_json;
    const char *about;
};

extern const struct policy_field policy_fields[];
extern const size_t policy_fields_count;

/* json may be NULL or empty: then all fields have their defaults. RC_REJECT: err names the field
 * and its fault. RC_FATAL: no memory. After a failure policy_done() is not needed. */
enum rc policy_parse(struct policy *policy, const char *json, size_t len, struct err *err);
void policy_done(struct policy *policy);

/* Returns the class of a code: by the policy's rules, else by the common rules, else `otherwise`,
 * the class that the caller proposes. */
enum fault_class policy_classify(const struct policy *policy, enum fault_source source, int code,
                                 enum fault_class otherwise);

/* Draws how old a task must be before its first attempt, in ms; 0 without a first wait. Below the
 * deadline, if there is one. */
int64_t policy_first_wait_ms(const struct policy *policy, uint64_t random_bits);

/* An attempt as the decision after it needs it. */
struct policy_attempt {
    enum attempt_end end;
    enum fault_class fault;
    int64_t delay_ms; /* requested by the handler, or ATTEMPT_NO_DELAY */
};

/* The task before the attempt. */
struct policy_task {
    int64_t attempts; /* that failed so far */
    int64_t made_ms;
};

enum decision_kind {
    DECISION_DONE,
    DECISION_AGAIN,     /* at next_ms */
    DECISION_EXHAUSTED, /* see why; policy->exhausted decides about its key */
};

struct decision {
    enum decision_kind kind;
    int64_t attempts;
    int64_t next_ms; /* of DECISION_AGAIN, since 1970 */
    const char *why; /* of DECISION_EXHAUSTED: a word for its history; static */
};

/* Decides what becomes of the task after the attempt. now_ms and made_ms are times of the
 * database's clock; random_bits spread the wait. Pure. Invariant Q4: only an attempt that returned
 * a result is counted. */
struct decision policy_decide(const struct policy *policy, const struct policy_task *task,
                              const struct policy_attempt *attempt, int64_t now_ms,
                              uint64_t random_bits);

#define POLICY_NOT_FORESEEN INT64_MAX

/* Foresees when the task will be exhausted if every further attempt fails and is made in time, the
 * next one at next_ms; in ms since 1970. After a hundred further waits it takes all as equal.
 * POLICY_NOT_FORESEEN: never. */
int64_t policy_foresee_ms(const struct policy *policy, const struct policy_task *task,
                          int64_t next_ms);

/* Whole policies by name, for `tallybox retry scene set --policy preset:NAME`. */
struct policy_preset {
    const char *name;
    const char *json;
    const char *about;
};

extern const struct policy_preset policy_presets[];
extern const size_t policy_presets_count;

/* NULL: there is no preset of this name. */
const struct policy_preset *policy_find_preset(const char *name);

/* The policy of the scene publish, the relay's refused rows, while it has no policy of its own. */
#define POLICY_PUBLISH "{\"stop\": [], \"exhausted\": \"block\"}"

/* The rate of a scene as a token bucket: `burst` at once, then `per_s` a second. It counts in
 * thousandths of a token, so that slow rates lose nothing. Pure; one thread at a time per bucket.
 */
#define BUCKET_RATE_MAX 1000000

struct bucket {
    int64_t per_s; /* 0: no limit */
    int64_t burst; /* >= 1 */
    int64_t thousandths;
    int64_t at_ms; /* when they were counted */
};

/* Full. */
void bucket_init(struct bucket *bucket, int64_t per_s, int64_t burst, int64_t now_ms);

/* Takes a token and returns 0, or returns the ms until there is one. */
int64_t bucket_take(struct bucket *bucket, int64_t now_ms);

/* Whole tokens that there are; INT64_MAX without a limit. */
int64_t bucket_count(struct bucket *bucket, int64_t now_ms);

/* Takes up to count of them; never below zero. */
void bucket_spend(struct bucket *bucket, int64_t count);

/* One that was taken is not needed after all; never above the burst. */
void bucket_return(struct bucket *bucket);

#endif
