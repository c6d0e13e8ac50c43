/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/policy.h"

#include "common/nearest.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN 1000

void bucket_init(struct bucket *bucket, int64_t per_s, int64_t burst, int64_t now_ms)
{
    assert(per_s >= 0 && per_s <= BUCKET_RATE_MAX && burst >= 1 && burst <= BUCKET_RATE_MAX);
    *bucket = (struct bucket){
        .per_s = per_s, .burst = burst, .thousandths = burst * TOKEN, .at_ms = now_ms};
}

/* A thousandth of a token per ms and token a second. */
static void fill_bucket(struct bucket *bucket, int64_t now_ms)
{
    int64_t room = bucket->burst * TOKEN - bucket->thousandths;
    int64_t passed_ms = now_ms - bucket->at_ms;

    if (passed_ms <= 0)
        return;
    bucket->at_ms = now_ms;
    if (passed_ms >= room / bucket->per_s + 1)
        bucket->thousandths += room;
    else
        bucket->thousandths += passed_ms * bucket->per_s;
}

int64_t bucket_take(struct bucket *bucket, int64_t now_ms)
{
    if (bucket->per_s == 0)
        return 0;
    fill_bucket(bucket, now_ms);
    if (bucket->thousandths < TOKEN)
        return (TOKEN - bucket->thousandths + bucket->per_s - 1) / bucket->per_s;
    bucket->thousandths -= TOKEN;
    return 0;
}

int64_t bucket_count(struct bucket *bucket, int64_t now_ms)
{
    if (bucket->per_s == 0)
        return INT64_MAX;
    fill_bucket(bucket, now_ms);
    return bucket->thousandths / TOKEN;
}

void bucket_return(struct bucket *bucket)
{
    if (bucket->per_s > 0 && bucket->thousandths + TOKEN <= bucket->burst * TOKEN)
        bucket->thousandths += TOKEN;
}

void bucket_spend(struct bucket *bucket, int64_t count)
{
    int64_t whole = bucket->thousandths / TOKEN;

    if (bucket->per_s > 0)
        bucket->thousandths -= (count < whole ? count : whole) * TOKEN;
}

#define NUMBER_MAX INT64_C(1000000000)
#define LEASE_MS_MIN 1000

/* A handler that snoozes for no time at all would spin. */
#define SNOOZE_MS_MIN 100

static const char *const class_names[] = {[FAULT_CLASS_TRANSIENT] = "transient",
                                          [FAULT_CLASS_REFUSED] = "refused",
                                          [FAULT_CLASS_OURS] = "ours"};

#define CLASSES (sizeof(class_names) / sizeof(class_names[0]))

static const char *const source_names[] = {[FAULT_SOURCE_MYSQL] = "mysql",
                                           [FAULT_SOURCE_KAFKA] = "kafka",
                                           [FAULT_SOURCE_HTTP] = "http",
                                           [FAULT_SOURCE_SIGNAL] = "signal",
                                           [FAULT_SOURCE_EXIT] = "exit"};

#define SOURCES (sizeof(source_names) / sizeof(source_names[0]))

const char *fault_class_name(enum fault_class fault)
{
    return class_names[fault];
}

/* The index of text among names, or count. */
static size_t find_name(const char *const *names, size_t count, const char *text, size_t len)
{
    size_t i = 0;

    while (i < count && (strlen(names[i]) != len || memcmp(names[i], text, len) != 0))
        i++;
    return i;
}

static enum rc get_text(const json_t *value, const char **text, struct err *err)
{
    *text = json_string_value(value);
    return *text ? RC_OK : err_fail(err, RC_REJECT, 0, "a text is expected");
}

static enum rc wait_field(struct policy *policy, const json_t *value, struct err *err)
{
    const char *text;
    enum rc rc = get_text(value, &text, err);

    wait_done(&policy->wait);
    return rc == RC_OK ? wait_parse(&policy->wait, text, err) : rc;
}

/* "30s", "random 60s" or "random 10s 60s". */
static bool parse_first_wait(const char *text, int64_t *low_ms, int64_t *high_ms)
{
    static const char word[] = "random ";
    bool is_random = strncmp(text, word, sizeof(word) - 1) == 0;
    const char *low = is_random ? text + sizeof(word) - 1 : text;
    const char *blank = strchr(low, ' ');

    if (!is_random || !blank) {
        if (!span_parse(low, strlen(low), high_ms))
            return false;
        *low_ms = is_random ? 0 : *high_ms;
        return true;
    }
    return span_parse(low, (size_t)(blank - low), low_ms) &&
           span_parse(blank + 1, strlen(blank + 1), high_ms) && *low_ms <= *high_ms;
}

static enum rc first_wait_field(struct policy *policy, const json_t *value, struct err *err)
{
    const char *text = json_string_value(value);
    int64_t low_ms;
    int64_t high_ms;

    if (text && !*text)
        return RC_OK;
    if (!text || !parse_first_wait(text, &low_ms, &high_ms))
        return err_fail(err, RC_REJECT, 0,
                        "\"30s\", \"random 60s\" or \"random 10s 60s\" is expected");
    policy->first_wait_low_ms = low_ms;
    policy->first_wait_high_ms = high_ms;
    return RC_OK;
}

static enum rc read_number(const json_t *value, int64_t *number, struct err *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > NUMBER_MAX)
        return err_fail(err, RC_REJECT, 0, "a whole number of 0..%lld is expected",
                        (long long)NUMBER_MAX);
    *number = json_integer_value(value);
    return RC_OK;
}

static enum rc attempts_field(struct policy *policy, const json_t *value, struct err *err)
{
    return read_number(value, &policy->attempts_max, err);
}

static enum rc pending_field(struct policy *policy, const json_t *value, struct err *err)
{
    return read_number(value, &policy->pending_max, err);
}

static enum rc threads_field(struct policy *policy, const json_t *value, struct err *err)
{
    return read_number(value, &policy->threads_max, err);
}

static enum rc read_span(const json_t *value, int64_t *ms, struct err *err)
{
    const char *text = json_string_value(value);

    if (!text || !span_parse(text, strlen(text), ms))
        return err_fail(err, RC_REJECT, 0,
                        "a time like \"30s\", \"5m\", \"2h\" or \"7d\" is "
                        "expected");
    return RC_OK;
}

static enum rc deadline_field(struct policy *policy, const json_t *value, struct err *err)
{
    if (json_is_string(value) && json_string_length(value) == 0)
        return RC_OK;
    return read_span(value, &policy->age_ms_max, err);
}

static enum rc lease_field(struct policy *policy, const json_t *value, struct err *err)
{
    enum rc rc = read_span(value, &policy->lease_ms, err);

    if (rc == RC_OK && policy->lease_ms < LEASE_MS_MIN)
        return err_fail(err, RC_REJECT, 0, "it must be at least 1s");
    return rc;
}

static enum rc exhausted_field(struct policy *policy, const json_t *value, struct err *err)
{
    static const char *const names[] = {
        [POLICY_BLOCK] = "block", [POLICY_PARK] = "park", [POLICY_SKIP] = "skip"};
    const char *text = json_string_value(value);
    size_t at = text ? find_name(names, 3, text, strlen(text)) : 3;

    if (at == 3)
        return err_fail(err, RC_REJECT, 0, "\"block\", \"park\" or \"skip\" is expected");
    policy->exhausted = (enum policy_exhausted)at;
    return RC_OK;
}

static enum rc read_class(const char *text, enum fault_class *fault, struct err *err)
{
    size_t at = text ? find_name(class_names, CLASSES, text, strlen(text)) : CLASSES;

    if (at == CLASSES)
        return err_fail(err, RC_REJECT, 0, "\"transient\", \"refused\" or \"ours\" is expected");
    *fault = (enum fault_class)at;
    return RC_OK;
}

static enum rc stop_field(struct policy *policy, const json_t *value, struct err *err)
{
    size_t i;
    json_t *one;

    if (!json_is_array(value))
        return err_fail(err, RC_REJECT, 0, "a list of classes is expected");
    memset(policy->stops, 0, sizeof(policy->stops));
    json_array_foreach(value, i, one) {
        enum fault_class fault = FAULT_CLASS_TRANSIENT;
        enum rc rc = read_class(json_string_value(one), &fault, err);

        if (rc != RC_OK)
            return rc;
        policy->stops[fault] = true;
    }
    return RC_OK;
}

static enum rc dedup_field(struct policy *policy, const json_t *value, struct err *err)
{
    if (json_is_string(value) && json_string_length(value) == 0)
        return RC_OK;
    return read_span(value, &policy->dedup_ms, err);
}

static enum rc keep_done_field(struct policy *policy, const json_t *value, struct err *err)
{
    if (json_is_boolean(value)) {
        policy->keep_done_ms = json_is_true(value) ? POLICY_KEEP : 0;
        return RC_OK;
    }
    return read_span(value, &policy->keep_done_ms, err);
}

/* "10/s" or "10/s burst 20", and " per client" behind it. */
static bool parse_rate(const char *text, long long *per_s, long long *burst, bool *per_client)
{
    char *end;

    *per_s = strtoll(text, &end, 10);
    *burst = *per_s;
    if (strncmp(end, "/s", 2) != 0)
        return false;
    end += 2;
    if (strncmp(end, " burst ", 7) == 0)
        *burst = strtoll(end + 7, &end, 10);
    *per_client = strcmp(end, " per client") == 0;
    return (*end == '\0' || *per_client) && *per_s >= 1 && *per_s <= BUCKET_RATE_MAX &&
           *burst >= 1 && *burst <= BUCKET_RATE_MAX;
}

static enum rc rate_field(struct policy *policy, const json_t *value, struct err *err)
{
    const char *text = json_string_value(value);
    long long per_s;
    long long burst;
    bool per_client;

    if (text && !*text)
        return RC_OK;
    if (!text || !parse_rate(text, &per_s, &burst, &per_client))
        return err_fail(
            err, RC_REJECT, 0,
            "\"10/s\" or \"10/s burst 20\", with or without \" per client\", is expected, with "
            "numbers of 1..%d",
            BUCKET_RATE_MAX);
    policy->rate_per_s = per_s;
    policy->rate_burst = burst;
    policy->rate_per_client = per_client;
    return RC_OK;
}

static enum rc no_retry_field(struct policy *policy, const json_t *value, struct err *err)
{
    if (!json_is_boolean(value))
        return err_fail(err, RC_REJECT, 0, "true or false is expected");
    policy->receiver_retries = json_is_false(value);
    return RC_OK;
}

static enum rc on_done_field(struct policy *policy, const json_t *value, struct err *err)
{
    return callback_target_read(value, &policy->on_done, err);
}

static enum rc on_exhausted_field(struct policy *policy, const json_t *value, struct err *err)
{
    return callback_target_read(value, &policy->on_exhausted, err);
}

static enum rc on_cancelled_field(struct policy *policy, const json_t *value, struct err *err)
{
    return callback_target_read(value, &policy->on_cancelled, err);
}

/* "http 409", "mysql 1040-1045". */
static bool parse_rule_name(const char *name, struct fault_rule *rule)
{
    const char *blank = strchr(name, ' ');
    size_t source =
        blank ? find_name(source_names, SOURCES, name, (size_t)(blank - name)) : SOURCES;
    char *end;
    long from;
    long to;

    if (source == SOURCES)
        return false;
    from = strtol(blank + 1, &end, 10);
    to = from;
    if (end > blank + 1 && *end == '-')
        to = strtol(end + 1, &end, 10);
    if (*end || end == blank + 1 || from < -1000 || to < from || to > 100000)
        return false;
    *rule =
        (struct fault_rule){.source = (enum fault_source)source, .from = (int)from, .to = (int)to};
    return true;
}

static enum rc rules_field(struct policy *policy, const json_t *value, struct err *err)
{
    const char *name;
    json_t *one;

    if (!json_is_object(value))
        return err_fail(err, RC_REJECT, 0,
                        "an object like {\"http 409\": \"transient\"} is "
                        "expected");
    if (json_object_size(value) > POLICY_RULES_MAX)
        return err_fail(err, RC_REJECT, 0, "%d rules at most are expected", POLICY_RULES_MAX);
    policy->rule_count = 0;
    json_object_foreach((json_t *)(uintptr_t)value, name, one) {
        struct fault_rule *rule = &policy->rules[policy->rule_count];
        enum rc rc;

        if (!parse_rule_name(name, rule))
            return err_fail(err, RC_REJECT, 0,
                            "\"%.40s\" is not a source (mysql, kafka, http, signal, exit) and a "
                            "code or a range of codes, as in \"http 500-599\"",
                            name);
        rc = read_class(json_string_value(one), &rule->fault, err);
        if (rc != RC_OK) {
            err_wrap(err, "\"%.40s\"", name);
            return rc;
        }
        policy->rule_count++;
    }
    return RC_OK;
}

typedef enum rc (*field_parse)(struct policy *policy, const json_t *value, struct err *err);

const struct policy_field policy_fields[] = {
    {"wait", "\"" WAIT_DEFAULT "\"", "When a failed task is tried again."},
    {"first_wait", "\"\"",
     "How old a task must be before its first attempt: \"30s\", \"random 60s\" (up to) or \"random "
     "10s "
     "60s\"; empty: no wait."},
    {"attempts", "6", "Attempts before the task is exhausted; 0: no limit."},
    {"deadline", "\"\"",
     "Age at which the task is exhausted, regardless of its attempts and its state; empty: none."},
    {"stop", "[\"refused\"]",
     "Classes of failure (transient, refused, ours) that exhaust a task at once."},
    {"exhausted", "\"block\"",
     "What an exhausted task means for its key: block (it waits for an operator), park (the later "
     "ones are parked) or skip (they run)."},
    {"dedup", "\"\"",
     "How long the idempotency key of a client's task is refused after the task is done or "
     "exhausted; empty: it is free again at once. The history keeps the task for as long."},
    {"keep_done", "\"1h\"",
     "How long done tasks of clients stay in the history, where the API finds them; false: not at "
     "all; true: every done task, until housekeeping deletes it."},
    {"rate", "\"\"",
     "Attempts per second, all processes together, as \"10/s burst 20\"; of each client of the "
     "group, as \"10/s per client\"; empty: no limit."},
    {"max_pending", "0", "Tasks that may wait; beyond that the API refuses new ones; 0: no limit."},
    {"threads", "0",
     "Threads of each process that run tasks of the scene at the same time, at most; 0: all but "
     "one."},
    {"lease", "\"30s\"", "How long a process keeps its tasks after it stopped responding."},
    {"no_retry", "true",
     "Calls and records carry tallybox-no-retry, so that the receiver does not retry them itself."},
    {"on_done", "null", "Task to create when one is done: {\"scene\": ..., \"handler\": ...}."},
    {"on_exhausted", "null", "Task to create when one is exhausted."},
    {"on_cancelled", "null", "Task to create when an operator cancels one."},
    {"rules", "{}",
     "Classes of codes: {\"http 409\": \"transient\", ...}; the first match counts."},
};
const size_t policy_fields_count = sizeof(policy_fields) / sizeof(policy_fields[0]);

/* In the order of policy_fields. */
static const field_parse parsers[] = {
    wait_field,         first_wait_field, attempts_field,  deadline_field, stop_field,
    exhausted_field,    dedup_field,      keep_done_field, rate_field,     pending_field,
    threads_field,      lease_field,      no_retry_field,  on_done_field,  on_exhausted_field,
    on_cancelled_field, rules_field,
};

_Static_assert(sizeof(parsers) / sizeof(parsers[0]) ==
                   sizeof(policy_fields) / sizeof(policy_fields[0]),
               "each field has its parser");

static enum rc take_field(struct policy *policy, size_t index, const json_t *value, struct err *err)
{
    enum rc rc = parsers[index](policy, value, err);

    if (rc != RC_OK)
        err_wrap(err, "policy field \"%s\"", policy_fields[index].name);
    return rc;
}

static enum rc take_defaults(struct policy *policy, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < policy_fields_count; i++) {
        json_t *value = json_loads(policy_fields[i].default_json, JSON_DECODE_ANY, NULL);

        rc = value ? take_field(policy, i, value, err)
                   : err_fail(err, RC_FATAL, 0, "no memory for a policy");
        json_decref(value);
    }
    return rc;
}

static enum rc fail_unknown_field(const char *name, struct err *err)
{
    struct nearest nearest = {.typed = name};

    for (size_t i = 0; i < policy_fields_count; i++)
        nearest_offer(&nearest, policy_fields[i].name);
    if (nearest.word)
        return err_fail(err, RC_REJECT, 0, "a policy has no field \"%.40s\"; did you mean \"%s\"?",
                        name, nearest.word);
    return err_fail(err, RC_REJECT, 0, "a policy has no field \"%.40s\"", name);
}

static enum rc take_fields(struct policy *policy, json_t *object, struct err *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) {
        size_t i = 0;
        enum rc rc;

        while (i < policy_fields_count && strcmp(policy_fields[i].name, name) != 0)
            i++;
        if (i == policy_fields_count)
            return fail_unknown_field(name, err);
        rc = take_field(policy, i, value, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc take_object(struct policy *policy, const char *json, size_t len, struct err *err)
{
    json_error_t fault;
    json_t *object;
    enum rc rc;

    if (!json || len == 0)
        return RC_OK;
    if (len > POLICY_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "a policy has %d bytes at most", POLICY_BYTES_MAX);
    object = json_loadb(json, len, JSON_REJECT_DUPLICATES, &fault);
    if (!object)
        return err_fail(err, RC_REJECT, 0, "a policy is a JSON object: %s (line %d, column %d)",
                        fault.text, fault.line, fault.column);
    rc = json_is_object(object) ? take_fields(policy, object, err)
                                : err_fail(err, RC_REJECT, 0, "a policy is a JSON object");
    json_decref(object);
    return rc;
}

/* Fields that contradict each other. */
static enum rc check_fields(const struct policy *policy, struct err *err)
{
    if (policy->age_ms_max > 0 && policy->first_wait_high_ms >= policy->age_ms_max)
        return err_fail(err, RC_REJECT, 0,
                        "policy field \"first_wait\": it must be shorter than the deadline, or no "
                        "task is tried");
    return RC_OK;
}

enum rc policy_parse(struct policy *policy, const char *json, size_t len, struct err *err)
{
    enum rc rc;

    memset(policy, 0, sizeof(*policy));
    rc = take_defaults(policy, err);
    if (rc == RC_OK)
        rc = take_object(policy, json, len, err);
    if (rc == RC_OK)
        rc = check_fields(policy, err);
    if (rc != RC_OK)
        policy_done(policy);
    return rc;
}

void policy_done(struct policy *policy)
{
    wait_done(&policy->wait);
}

/* The classes of codes for which a policy has no rule. The callers classify codes of MySQL and
 * Kafka; these are the exceptions that matter to a task. */
static const struct fault_rule default_rules[] = {
    {FAULT_SOURCE_HTTP, 401, 401, FAULT_CLASS_OURS},
    {FAULT_SOURCE_HTTP, 403, 403, FAULT_CLASS_OURS},
    {FAULT_SOURCE_HTTP, 408, 408, FAULT_CLASS_TRANSIENT},
    {FAULT_SOURCE_HTTP, 409, 409, FAULT_CLASS_TRANSIENT},
    {FAULT_SOURCE_HTTP, 423, 425, FAULT_CLASS_TRANSIENT},
    {FAULT_SOURCE_HTTP, 429, 429, FAULT_CLASS_TRANSIENT},
    {FAULT_SOURCE_HTTP, 300, 499, FAULT_CLASS_REFUSED},
    {FAULT_SOURCE_HTTP, 501, 501, FAULT_CLASS_REFUSED},
    {FAULT_SOURCE_HTTP, 505, 505, FAULT_CLASS_REFUSED},
    /* sysexits.h: bad data and bad use are faults of the task, a missing file or right is a local
     * fault. */
    {FAULT_SOURCE_EXIT, 64, 65, FAULT_CLASS_REFUSED},
    {FAULT_SOURCE_EXIT, 77, 78, FAULT_CLASS_OURS},
    {FAULT_SOURCE_EXIT, 126, 127, FAULT_CLASS_OURS},
};

static bool rule_fits(const struct fault_rule *rule, enum fault_source source, int code)
{
    return rule->source == source && rule->from <= code && code <= rule->to;
}

enum fault_class policy_classify(const struct policy *policy, enum fault_source source, int code,
                                 enum fault_class otherwise)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if (rule_fits(&policy->rules[i], source, code))
            return policy->rules[i].fault;
    for (size_t i = 0; i < sizeof(default_rules) / sizeof(default_rules[0]); i++)
        if (rule_fits(&default_rules[i], source, code))
            return default_rules[i].fault;
    return otherwise;
}

int64_t policy_first_wait_ms(const struct policy *policy, uint64_t random_bits)
{
    uint64_t width = (uint64_t)(policy->first_wait_high_ms - policy->first_wait_low_ms) + 1;

    return policy->first_wait_low_ms + (int64_t)(random_bits % width);
}

static struct decision decide_exhausted(int64_t attempts, const char *why)
{
    return (struct decision){.kind = DECISION_EXHAUSTED, .attempts = attempts, .why = why};
}

static struct decision decide_again(int64_t attempts, int64_t next_ms)
{
    return (struct decision){.kind = DECISION_AGAIN, .attempts = attempts, .next_ms = next_ms};
}

static struct decision decide_failed(const struct policy *policy, const struct policy_task *task,
                                     const struct policy_attempt *attempt, int64_t now_ms,
                                     uint64_t random_bits)
{
    int64_t attempts = task->attempts + 1;
    int64_t next_ms;

    if (policy->stops[attempt->fault])
        return decide_exhausted(attempts, fault_class_name(attempt->fault));
    if (policy->attempts_max > 0 && attempts >= policy->attempts_max)
        return decide_exhausted(attempts, "attempts");
    next_ms = attempt->delay_ms == ATTEMPT_NO_DELAY
                  ? wait_next_ms(&policy->wait, (unsigned)attempts, now_ms, random_bits)
                  : now_ms + attempt->delay_ms;
    if (next_ms == WAIT_NEVER)
        return decide_exhausted(attempts, "wait");
    /* An attempt after the deadline would not be made, so the task does not wait for it. */
    if (policy->age_ms_max > 0 && next_ms - task->made_ms > policy->age_ms_max)
        return decide_exhausted(attempts, "deadline");
    return decide_again(attempts, next_ms);
}

static struct decision decide_snoozed(const struct policy *policy, const struct policy_task *task,
                                      const struct policy_attempt *attempt, int64_t now_ms)
{
    int64_t delay_ms = attempt->delay_ms > SNOOZE_MS_MIN ? attempt->delay_ms : SNOOZE_MS_MIN;

    if (policy->age_ms_max > 0 && now_ms + delay_ms - task->made_ms > policy->age_ms_max)
        return decide_exhausted(task->attempts, "deadline");
    return decide_again(task->attempts, now_ms + delay_ms);
}

struct decision policy_decide(const struct policy *policy, const struct policy_task *task,
                              const struct policy_attempt *attempt, int64_t now_ms,
                              uint64_t random_bits)
{
    switch (attempt->end) {
    case ATTEMPT_DONE:
        return (struct decision){.kind = DECISION_DONE, .attempts = task->attempts};
    case ATTEMPT_FAILED:
        return decide_failed(policy, task, attempt, now_ms, random_bits);
    case ATTEMPT_SNOOZED:
        return decide_snoozed(policy, task, attempt, now_ms);
    case ATTEMPT_REJECTED:
        return decide_exhausted(task->attempts + 1, "rejected");
    case ATTEMPT_CUT:
        return decide_again(task->attempts, now_ms);
    }
    return decide_again(task->attempts, now_ms);
}

/* Waits that are computed one by one. All later ones are taken as equal to the last: by then a list
 * has come to its end and an exponential wait to its cap. */
#define FORESEEN_WAITS_MAX 100

/* Attempt number `attempts` is made at next_ms, and the following ones every wait_ms. */
static int64_t foresee_equal_waits_ms(const struct policy *policy, const struct policy_task *task,
                                      int64_t attempts, int64_t next_ms, int64_t wait_ms)
{
    int64_t further = INT64_MAX;

    if (wait_ms < 1)
        wait_ms = 1;
    if (policy->attempts_max > 0)
        further = policy->attempts_max - attempts;
    if (policy->age_ms_max > 0 &&
        (task->made_ms + policy->age_ms_max - next_ms) / wait_ms < further)
        further = (task->made_ms + policy->age_ms_max - next_ms) / wait_ms;
    if (further > (INT64_MAX - next_ms) / wait_ms)
        return POLICY_NOT_FORESEEN;
    return next_ms + further * wait_ms;
}

int64_t policy_foresee_ms(const struct policy *policy, const struct policy_task *task,
                          int64_t next_ms)
{
    int64_t attempts = task->attempts + 1;
    int64_t at_ms = next_ms;

    for (int waits = 0; waits < FORESEEN_WAITS_MAX; waits++, attempts++) {
        at_ms = next_ms;
        if (policy->attempts_max > 0 && attempts >= policy->attempts_max)
            return at_ms;
        next_ms = wait_mean_ms(&policy->wait, (unsigned)attempts, at_ms);
        if (next_ms == WAIT_NEVER)
            return at_ms;
        if (policy->age_ms_max > 0 && next_ms - task->made_ms > policy->age_ms_max)
            return at_ms;
    }
    return foresee_equal_waits_ms(policy, task, attempts, next_ms, next_ms - at_ms);
}

/* rocketmq: the broker tries a message again at the delay levels 3 to 18 of messageDelayLevel, 16
 * attempts by default (apache/rocketmq@031ceb5e, MessageStoreConfig; DefaultMQPushConsumer,
 * maxReconsumeTimes). The first attempt here is the delivery that failed there.
 * easyretry: the scene that the server makes by itself has the delay levels of DelayLevelEnum and
 * DelayLevelEnum._21.getLevel() attempts, each after the wait of its level
 * (aizuda/snail-job@9c133fd2, formerly EasyRetry, AbstractGenerator.initScene()). */
const struct policy_preset policy_presets[] = {
    {"easyretry", "{\"wait\": \"preset easyretry\", \"attempts\": 21}",
     "The delay levels of EasyRetry (SnailJob), 21 attempts within 23 hours, then the key is "
     "blocked."},
    {"rocketmq",
     "{\"wait\": \"list 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h\", \"attempts\": "
     "17}",
     "An attempt and the 16 retries of a consumer of Apache RocketMQ, within five hours."},
    {"publish", POLICY_PUBLISH,
     "The default of the scene publish: six attempts within two hours, then the key is blocked."},
    {"publish-alert",
     "{\"wait\": \"list 10s 30s 1m 3m\", \"attempts\": 5, \"stop\": [], \"exhausted\": \"block\"}",
     "Five attempts within five minutes, then the key is blocked: for operators who are called."},
    {"publish-week",
     "{\"wait\": \"list 1m 5m 10m 30m 60m\", \"attempts\": 0, \"deadline\": \"7d\", \"stop\": [], "
     "\"exhausted\": \"block\"}",
     "An attempt an hour for a week, then the key is blocked."},
    {"publish-endless",
     "{\"wait\": \"list 1m 5m 10m 30m 60m\", \"attempts\": 0, \"stop\": [], \"exhausted\": "
     "\"block\"}",
     "An attempt an hour until it succeeds; the key is never blocked, but its rows wait."},
    {"publish-skip", "{\"stop\": [], \"exhausted\": \"skip\"}",
     "Six attempts within two hours, then the event is given up into the history and its key "
     "continues without it."},
};
const size_t policy_presets_count = sizeof(policy_presets) / sizeof(policy_presets[0]);

const struct policy_preset *policy_find_preset(const char *name)
{
    for (size_t i = 0; i < policy_presets_count; i++)
        if (strcmp(policy_presets[i].name, name) == 0)
            return &policy_presets[i];
    return NULL;
}
