/* SPDX-License-Identifier: MIT */
#include "consumer/held/vote_task.h"

#include "common/loop.h"
#include "consumer/dead/dead.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void fail_attempt(struct attempt_result *attempt, enum rc rc, const struct err *err)
{
    attempt->end = ATTEMPT_FAILED;
    attempt->source = err->code != 0 ? FAULT_MYSQL : FAULT_PLAIN;
    attempt->code = err->code;
    attempt->fault = rc == RC_FATAL ? FAULT_OURS : FAULT_TRANSIENT;
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
    case DEAD_IS_APPLIED:
    case DEAD_IS_DUPLICATE:
    case DEAD_IS_STALE:
    case DEAD_IS_DROPPED:
        replay->done++;
        return;
    case DEAD_WAITS:
        replay->wait++;
        if (replay->id == 0)
            replay->id = result->behind;
        return;
    case DEAD_STAYS:
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
        attempt->source = code != 0 ? FAULT_MYSQL : FAULT_PLAIN;
        attempt->code = code;
        attempt->fault = FAULT_TRANSIENT;
        err_set(err, "dead record %" PRId64 ": %s", replay->id, replay->reason);
    } else if (replay->wait > 0) {
        attempt->end = ATTEMPT_FAILED;
        attempt->source = FAULT_PLAIN;
        attempt->fault = FAULT_TRANSIENT;
        err_set(err, "dead record %" PRId64 " is older, has the same key and stays dead",
                replay->id);
    } else if (replay->lost > 0 && named) {
        attempt->end = ATTEMPT_REJECTED;
        err_set(err, "dead record %" PRId64 " can never be applied unchanged: %s: %s", replay->id,
                replay->reason_class, replay->reason);
    }
}

static bool must_end(const struct vote_task *task, struct attempt_result *attempt)
{
    int64_t now_ms = task->now_ms();

    loop_goes_on(now_ms);
    if ((task->stop && stop_requested(task->stop)) || now_ms >= atomic_load(task->lease_until_ms))
        attempt->end = ATTEMPT_CUT;
    else if (now_ms >= task->until_ms)
        attempt->end = ATTEMPT_SNOOZED;
    else
        return false;
    err_set(&attempt->err, "the remaining records wait for the next attempt");
    return true;
}

static void run_replay(const struct vote_task *task, struct dead *dead, const struct replay *replay,
                       bool named, struct attempt_result *attempt)
{
    struct err err = {0};
    bool more = true;

    /* A refused record holds all later records of its key. */
    while (more && (named || replay->refused == 0)) {
        enum rc rc;

        if (must_end(task, attempt))
            return;
        rc = dead_step(dead, &more, &err);
        if (rc != RC_OK) {
            fail_attempt(attempt, rc, &err);
            return;
        }
    }
    decide_result(replay, named, dead->refused.code, attempt);
}

void vote_task_replay(const struct vote_task *task, const struct vote_options *options,
                      struct attempt_result *attempt)
{
    struct dead_filter filter = vote_options_filter(options);
    struct replay replay = {0};
    const struct dead_config config = {
        .sink = task->sink,
        .store = task->store,
        .filter = &filter,
        .rule = RECORD_KEY,
        .keep_lasts = task->keep_lasts,
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
    run_replay(task, &dead, &replay, options->id_count > 0, attempt);
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
    enum rc rc = sink->lock_begin(sink->ctx, &begin_day, err);

    if (rc != RC_OK)
        return rc;
    rc = record_decide(record, RECORD_ANY_KEY, begin_day, &row.event, &reason_class, err);
    *never = rc == RC_REJECT;
    if (rc == RC_OK)
        rc = apply_votes(apply, &row, 1, &result, err);
    return rc == RC_OK ? sink->commit(sink->ctx, err) : rc;
}

static enum rc try_vote(const struct vote_task *task, const struct record *record, bool *never,
                        struct err *err)
{
    const struct sink *sink = task->sink;
    struct apply apply;
    enum rc rc = apply_init(&apply, sink, "", 1, err);

    if (rc != RC_OK)
        return rc;
    if (task->keep_lasts)
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

void vote_task_apply(const struct vote_task *task, const void *bytes, size_t len,
                     struct attempt_result *attempt)
{
    const struct record record = {.value = bytes, .value_len = len};
    struct err err = {0};
    bool never = false;
    enum rc rc = try_vote(task, &record, &never, &err);

    if (rc == RC_OK)
        return;
    fail_attempt(attempt, rc, &err);
    if (!never)
        return;
    attempt->end = ATTEMPT_REJECTED;
    attempt->source = FAULT_PLAIN;
    attempt->code = 0;
}
