/* SPDX-License-Identifier: MIT */
#include "consumer/held/vote_task.h"

#include "common/hash.h"
#include "common/loop.h"
#include "consumer/dead/dead.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool take_text(const json_t *json, char *text, size_t size)
{
    size_t len = json_string_length(json);

    if (!json_is_string(json) || len == 0 || len >= size || strlen(json_string_value(json)) != len)
        return false;
    memcpy(text, json_string_value(json), len + 1);
    return true;
}

static enum rc take_ids(struct vote_options *options, const json_t *ids, struct err *err)
{
    size_t count = json_array_size(ids);

    if (!json_is_array(ids) || count == 0 || count > VOTE_OPTIONS_IDS_MAX)
        return err_fail(err, RC_REJECT, 0, "dead.ids takes 1 to %d ids of dead records",
                        VOTE_OPTIONS_IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        options->ids[i] = json_integer_value(json_array_get(ids, i));
        if (options->ids[i] <= 0)
            return err_fail(err, RC_REJECT, 0, "dead.ids[%zu] is not the id of a dead record", i);
    }
    options->id_count = count;
    return RC_OK;
}

static enum rc take_key(struct vote_options *options, const json_t *dead, struct err *err)
{
    const json_t *partition = json_object_get(dead, "partition");
    json_int_t number = json_integer_value(partition);

    if (!take_text(json_object_get(dead, "topic"), options->topic, sizeof(options->topic)))
        return err_fail(err, RC_REJECT, 0, "dead.topic must be the name of a topic");
    if (!json_is_integer(partition) || number < 0 || number > INT32_MAX)
        return err_fail(err, RC_REJECT, 0, "dead.partition must be a number from 0");
    if (!take_text(json_object_get(dead, "key"), options->key, sizeof(options->key)))
        return err_fail(err, RC_REJECT, 0, "dead.key must be the key of a vote, its contentId");
    options->partition = (int32_t)number;
    return RC_OK;
}

static enum rc take_dead(struct vote_options *options, const json_t *dead, struct err *err)
{
    const json_t *ids = json_object_get(dead, "ids");

    if (!json_is_object(dead))
        return err_fail(err, RC_REJECT, 0, "dead must be an object");
    options->has_dead = true;
    if (!take_text(json_object_get(dead, "group"), options->group, sizeof(options->group)))
        return err_fail(err, RC_REJECT, 0, "dead.group must be the name of a consumer group");
    if (json_object_size(dead) != (ids ? 2 : 4))
        return err_fail(err, RC_REJECT, 0,
                        "dead takes group and ids, or group, topic, partition and key");
    return ids ? take_ids(options, ids, err) : take_key(options, dead, err);
}

enum rc vote_options_read(struct vote_options *options, const char *text, struct err *err)
{
    json_error_t at;
    json_t *json;
    const json_t *dead;
    enum rc rc = RC_OK;

    memset(options, 0, sizeof(*options));
    if (!text || text[0] == '\0')
        return RC_OK;
    json = json_loads(text, JSON_REJECT_DUPLICATES, &at);
    if (!json)
        return err_fail(err, RC_REJECT, 0, "the options are not JSON: %s", at.text);
    dead = json_object_get(json, "dead");
    if (!json_is_object(json) || json_object_size(json) != (dead ? 1 : 0))
        rc = err_fail(err, RC_REJECT, 0, "the options of a vote may have the member \"dead\" only");
    else if (dead)
        rc = take_dead(options, dead, err);
    json_decref(json);
    return rc;
}

static void put_json(struct buf *out, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    if (text)
        buf_text_put(out, text);
    else
        out->failed = true;
    free(text);
    json_decref(json);
}

void vote_options_put(struct buf *out, const struct vote_options *options)
{
    json_t *ids;

    if (options->id_count == 0) {
        put_json(out, json_pack("{s:{s:s, s:s, s:i, s:s}}", "dead", "group", options->group,
                                "topic", options->topic, "partition", (int)options->partition,
                                "key", options->key));
        return;
    }
    ids = json_array();
    for (size_t i = 0; i < options->id_count; i++)
        json_array_append_new(ids, json_integer((json_int_t)options->ids[i]));
    put_json(out, json_pack("{s:{s:s, s:o}}", "dead", "group", options->group, "ids", ids));
}

struct dead_filter vote_options_filter(const struct vote_options *options)
{
    struct dead_filter filter = {
        .partition = DEAD_NUMBER_ANY, .since_ms = DEAD_NUMBER_ANY, .until_ms = DEAD_NUMBER_ANY};

    if (options->id_count > 0) {
        filter.ids = options->ids;
        filter.id_count = options->id_count;
        return filter;
    }
    filter.topic = options->topic;
    filter.partition = options->partition;
    filter.key = options->key;
    filter.held = true;
    return filter;
}

/* The part of a long name that remains in front of its hash. */
#define NAME_KEPT 47

static bool is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_.:-", c));
}

/* Makes a valid group name of the retry queue. The name of a consumer group may be longer and may
 * have any characters. */
static void fit_group_name(char out[RETRY_NAME_BYTES_MAX + 1], const char *group)
{
    size_t len = strlen(group);
    bool whole = len <= RETRY_NAME_BYTES_MAX;

    for (size_t i = 0; i < len && i < RETRY_NAME_BYTES_MAX; i++) {
        out[i] = is_name_char(group[i]) ? group[i] : '_';
        whole = whole && out[i] == group[i];
    }
    out[len < RETRY_NAME_BYTES_MAX ? len : RETRY_NAME_BYTES_MAX] = '\0';
    if (!whole)
        snprintf(out + (len < NAME_KEPT ? len : NAME_KEPT), RETRY_NAME_BYTES_MAX - NAME_KEPT + 1,
                 "-%016" PRIx64, hash_fnv1a(HASH_START, group, len));
}

static bool is_number(const char *key, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (key[i] < '0' || key[i] > '9')
            return false;
    return len > 0 && len < VOTE_KEY_SIZE;
}

enum rc vote_task_make(struct vote_task *task, const struct vote_options *options,
                       const struct vote_task_place *place, struct err *err)
{
    char *order = task->ordering_key;

    fit_group_name(task->group, options->group);
    task->biz_no[0] = '\0';
    order[0] = '\0';
    if (place->key && is_number(place->key, place->key_len)) {
        snprintf(task->biz_no, sizeof(task->biz_no), "%.*s", (int)place->key_len,
                 (const char *)place->key);
        snprintf(order, VOTE_TASK_ORDER_SIZE, "%s/%" PRId32 "/%s", place->topic, place->partition,
                 task->biz_no);
    } else if (place->key) {
        snprintf(order, VOTE_TASK_ORDER_SIZE, "%s/%" PRId32 "/#%016" PRIx64, place->topic,
                 place->partition, hash_fnv1a(HASH_START, place->key, place->key_len));
    }
    buf_reset(&task->options);
    vote_options_put(&task->options, options);
    if (task->options.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a task");
    return RC_OK;
}

void vote_task_done(struct vote_task *task)
{
    buf_done(&task->options);
}

/* A task without an idempotency key is identified by its options. */
struct retry_new_task vote_task_view(struct vote_task *task)
{
    return (struct retry_new_task){
        .group = task->group,
        .scene = VOTE_TASK_SCENE,
        .handler = "vote",
        .ordering_key = task->ordering_key[0] != '\0' ? task->ordering_key : NULL,
        .biz_no = task->biz_no[0] != '\0' ? task->biz_no : NULL,
        .options = buf_text(&task->options),
    };
}

static void fail_attempt(struct attempt_result *attempt, enum rc rc, const struct err *err)
{
    attempt->end = ATTEMPT_FAILED;
    attempt->source = err->code != 0 ? FAULT_SOURCE_MYSQL : FAULT_SOURCE_PLAIN;
    attempt->code = err->code;
    attempt->fault = rc == RC_FATAL ? FAULT_CLASS_OURS : FAULT_CLASS_TRANSIENT;
    attempt->err = *err;
}

/* The outcomes of the records of a replay. */
struct replay {
    uint64_t done;    /* applied now or before, or dropped */
    uint64_t refused; /* refused by the database, possibly for a time */
    uint64_t wait;    /* behind an older record that stays dead */
    uint64_t lost;    /* can never be applied */
    int64_t id;       /* the first record that stays dead */
    char reason_class[33];
    char reason[400];
};

static void on_result(void *ctx, const struct dead_result *result)
{
    struct replay *replay = ctx;

    switch (result->outcome) {
    case DEAD_OUTCOME_APPLIED:
    case DEAD_OUTCOME_DUPLICATE:
    case DEAD_OUTCOME_STALE:
    case DEAD_OUTCOME_DROPPED:
        replay->done++;
        return;
    case DEAD_OUTCOME_WAITS:
        replay->wait++;
        if (replay->id == 0)
            replay->id = result->behind;
        return;
    case DEAD_OUTCOME_STAYS:
        break;
    }
    if (strcmp(result->reason_class, REASON_REFUSED) == 0)
        replay->refused++;
    else
        replay->lost++;
    if (replay->reason[0] != '\0')
        return;
    replay->id = result->id;
    snprintf(replay->reason_class, sizeof(replay->reason_class), "%s", result->reason_class);
    snprintf(replay->reason, sizeof(replay->reason), "%s", result->reason);
}

/* Decides the attempt's result. A record of a held key that can never be applied stays dead and is
 * passed, as in the consumer. For records selected by id it is the result of the task. */
static void decide_result(const struct replay *replay, bool named, int code,
                          struct attempt_result *attempt)
{
    struct err *err = &attempt->err;

    if (replay->refused > 0) {
        attempt->end = ATTEMPT_FAILED;
        attempt->source = code != 0 ? FAULT_SOURCE_MYSQL : FAULT_SOURCE_PLAIN;
        attempt->code = code;
        attempt->fault = FAULT_CLASS_TRANSIENT;
        err_set(err, "dead record %" PRId64 ": %s", replay->id, replay->reason);
    } else if (replay->wait > 0) {
        attempt->end = ATTEMPT_FAILED;
        attempt->source = FAULT_SOURCE_PLAIN;
        attempt->fault = FAULT_CLASS_TRANSIENT;
        err_set(err, "dead record %" PRId64 " is older, has the same key and stays dead",
                replay->id);
    } else if (replay->lost > 0 && named) {
        attempt->end = ATTEMPT_REJECTED;
        err_set(err, "dead record %" PRId64 " can never be applied unchanged: %s: %s", replay->id,
                replay->reason_class, replay->reason);
    }
}

static bool must_end(const struct vote_work *work, struct attempt_result *attempt)
{
    int64_t now_ms = work->now_ms();

    loop_goes_on(now_ms);
    if ((work->stop && stop_requested(work->stop)) || now_ms >= atomic_load(work->lease_until_ms))
        attempt->end = ATTEMPT_CUT;
    else if (now_ms >= work->until_ms)
        attempt->end = ATTEMPT_SNOOZED;
    else
        return false;
    err_set(&attempt->err, "the remaining records wait for the next attempt");
    return true;
}

static void run_replay(const struct vote_work *work, struct dead *dead, const struct replay *replay,
                       bool named, struct attempt_result *attempt)
{
    struct err err = {0};
    bool more = true;

    /* A refused record holds all later records of its key. */
    while (more && (named || replay->refused == 0)) {
        enum rc rc;

        if (must_end(work, attempt))
            return;
        rc = dead_step(dead, &more, &err);
        if (rc != RC_OK) {
            fail_attempt(attempt, rc, &err);
            return;
        }
    }
    decide_result(replay, named, dead->refused.code, attempt);
}

void vote_work_replay(const struct vote_work *work, const struct vote_options *options,
                      struct attempt_result *attempt)
{
    struct dead_filter filter = vote_options_filter(options);
    struct replay replay = {0};
    const struct dead_config config = {
        .sink = work->sink,
        .store = work->store,
        .filter = &filter,
        .rule = RECORD_KEY,
        .keep_lasts = work->keep_lasts,
        .on_result = on_result,
        .ctx = &replay,
    };
    struct err err = {0};
    struct dead dead;
    enum rc rc = dead_init(&dead, &config, &err);

    if (rc != RC_OK) {
        fail_attempt(attempt, rc, &err);
        return;
    }
    run_replay(work, &dead, &replay, options->id_count > 0, attempt);
    dead_done(&dead);
}

static enum rc write_vote(struct apply *apply, const struct record *record, bool *never,
                          struct err *err)
{
    const struct sink *sink = apply->sink;
    const char *reason_class = NULL;
    struct apply_result result;
    struct vote_row row = {0};
    int64_t begin_day = 0;
    enum rc rc = sink->lock_log_begin(sink->ctx, &begin_day, err);

    if (rc != RC_OK)
        return rc;
    rc = record_decide(record, RECORD_ANY_KEY, begin_day, &row.event, &reason_class, err);
    *never = rc == RC_REJECT;
    if (rc == RC_OK)
        rc = apply_votes(apply, &row, 1, &result, err);
    return rc == RC_OK ? sink->commit(sink->ctx, err) : rc;
}

static enum rc try_vote(const struct vote_work *work, const struct record *record, bool *never,
                        struct err *err)
{
    const struct sink *sink = work->sink;
    struct apply apply;
    enum rc rc = apply_init(&apply, sink, "", 1, err);

    if (rc != RC_OK)
        return rc;
    if (work->keep_lasts)
        rc = apply_keep_lasts(&apply, 1, err);
    if (rc == RC_OK)
        rc = sink->begin(sink->ctx, err);
    if (rc == RC_OK) {
        rc = write_vote(&apply, record, never, err);
        sink->rollback(sink->ctx); /* has no effect after a COMMIT */
    }
    apply_done(&apply);
    return rc;
}

void vote_work_apply(const struct vote_work *work, const void *bytes, size_t len,
                     struct attempt_result *attempt)
{
    const struct record record = {.value = bytes, .value_len = len};
    struct err err = {0};
    bool never = false;
    enum rc rc = try_vote(work, &record, &never, &err);

    if (rc == RC_OK)
        return;
    fail_attempt(attempt, rc, &err);
    if (!never)
        return;
    attempt->end = ATTEMPT_REJECTED;
    attempt->source = FAULT_SOURCE_PLAIN;
    attempt->code = 0;
}
