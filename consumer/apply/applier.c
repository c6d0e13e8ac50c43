/* SPDX-License-Identifier: MIT */
#include "consumer/apply/applier.h"

#include "common/log.h"
#include "common/loop.h"
#include "consumer/consumer_metrics.h"

#include <inttypes.h>
#include <string.h>

#define RETRY_BASE_MS 20
#define RETRY_CAP_MS 2000
#define FULL_WAIT_MS 5
/* An idle applier looks after the database this often, for readiness. */
#define PING_MS 2000

enum rc applier_init(struct applier *applier, const struct applier_config *config, struct err *err)
{
    enum rc rc;

    memset(applier, 0, sizeof(*applier));
    applier->config = *config;
    applier->backoff = (struct backoff){.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    condition_init(&applier->database, CONDITION_DEPENDENCY,
                   "dep=sink role=consume reason=cannot_apply");
    condition_assume_failing(&applier->database, "the database has not answered yet");
    rc = ring_init(&applier->given, config->jobs_max, err);
    if (rc == RC_OK)
        rc = ring_init(&applier->done, config->jobs_max * 2, err);
    if (rc == RC_OK)
        rc = apply_init(&applier->apply, config->sink, config->owner, config->batch_rows_max, err);
    if (rc == RC_OK && config->keep_lasts)
        rc = apply_keep_lasts(&applier->apply, config->batch_rows_max, err);
    apply_limit_dead(&applier->apply, config->dead_max);
    if (rc != RC_OK)
        applier_done(applier);
    return rc;
}

void applier_done(struct applier *applier)
{
    ring_done(&applier->given);
    ring_done(&applier->done);
    apply_done(&applier->apply);
    condition_done(&applier->database);
}

/* Whatever partition is claimed is claimed again then: the database may have gone back. */
static void watch_session(struct applier *applier)
{
    const struct sink *sink = applier->config.sink;
    uint64_t session = sink->session ? sink->session(sink->ctx) : 0;

    if (session == applier->session)
        return;
    if (applier->session != 0) {
        atomic_fetch_add(&applier->reconnects, 1);
        applier->config.wake_fetch(applier->config.wake_ctx);
    }
    applier->session = session;
}

static void database_good(struct applier *applier, int64_t now_ms)
{
    backoff_reset(&applier->backoff);
    condition_ok(&applier->database, now_ms);
}

static int64_t database_bad(struct applier *applier, const struct err *err, int64_t now_ms)
{
    int64_t wait_ms = backoff_next_ms(&applier->backoff, applier->config.rng());

    condition_fail(&applier->database, now_ms, err);
    applier->retry_ms = now_ms + wait_ms;
    return wait_ms;
}

static enum rc do_claim(struct applier *applier, struct job *job, struct err *err)
{
    enum rc rc = apply_claim(&applier->apply, &job->holding->place, &job->progress, err);

    if (rc == RC_OK)
        job->end = JOB_DONE;
    return rc;
}

static void say_kept(struct applier *applier, const struct apply_result *result)
{
    size_t kept = result->dead[record_class_index(REASON_REFUSED)] +
                  result->dead[record_class_index(REASON_BEHIND)];

    if (kept > 0 && applier->config.on_kept)
        applier->config.on_kept(applier->config.kept_ctx);
}

static enum job_end end_of(enum apply_end end)
{
    switch (end) {
    case APPLY_DONE:
        return JOB_DONE;
    case APPLY_AGAIN:
        return JOB_AGAIN;
    case APPLY_APART: /* of a group only, and that is no end */
    case APPLY_FENCED:
        break;
    }
    return JOB_FENCED;
}

static void count_result(struct applier *applier, const struct apply_result *result,
                         int64_t from_us)
{
    metric_observe_us(&consume_batch_seconds, applier->config.clock_us() - from_us);
    metric_add(&consume_applied, (int64_t)result->applied);
    metric_add(&consume_duplicates, (int64_t)result->duplicates);
    metric_add(&consume_stale_votes, (int64_t)result->stale);
    for (size_t i = 0; i < RECORD_CLASS_COUNT; i++)
        metric_add(&consume_dead[i], (int64_t)result->dead[i]);
    say_kept(applier, result);
}

static enum rc do_apply(struct applier *applier, struct job *job, struct err *err)
{
    struct apply_result result = {0};
    int64_t from_us = applier->config.clock_us();
    enum rc rc = apply_batch(&applier->apply, &job->holding->place, job->progress.epoch,
                             &job->batch, &result, err);

    if (rc != RC_OK)
        return rc;
    count_result(applier, &result, from_us);
    job->end = end_of(result.end);
    job->clear = result.clear;
    return RC_OK;
}

static bool is_void(const struct job *job)
{
    return atomic_load(&job->holding->generation) != job->generation;
}

/* Says whether the database is there while nothing else does. */
static int64_t idle_step(struct applier *applier, int64_t now_ms)
{
    const struct sink *sink = applier->config.sink;
    struct err err = {0};
    enum rc rc;

    if (now_ms < applier->ping_ms)
        return applier->ping_ms - now_ms;
    rc = sink->ping(sink->ctx, &err);
    watch_session(applier);
    applier->ping_ms = now_ms + PING_MS;
    if (rc == RC_OK)
        database_good(applier, now_ms);
    else
        database_bad(applier, &err, now_ms);
    return PING_MS;
}

static int64_t give_back(struct applier *applier)
{
    bool full = false;

    while (applier->finished > 0 && !full) {
        full = !ring_give(&applier->done, applier->hand[applier->hand_at]);
        applier->hand_at += !full;
        applier->finished -= !full;
    }
    applier->config.wake_fetch(applier->config.wake_ctx);
    return full ? FULL_WAIT_MS : 0;
}

/* After a try. */
static int64_t tried(struct applier *applier, enum rc rc, const struct err *err, int64_t now_ms)
{
    watch_session(applier);
    applier->ping_ms = now_ms + PING_MS;
    switch (rc) {
    case RC_OK:
        database_good(applier, now_ms);
        return give_back(applier);
    case RC_REJECT:
        return give_back(applier);
    case RC_RETRY:
        return database_bad(applier, err, now_ms);
    case RC_FATAL:
        break;
    }
    log_error(LOG_ERROR, "role_failed", err, "role=consume");
    condition_fail(&applier->database, now_ms, err);
    applier->failed = true;
    return LOOP_END;
}

/* Tries the first job in hand. */
static int64_t job_step(struct applier *applier, struct job *job, int64_t now_ms)
{
    struct err err = {0};
    enum rc rc;

    if (is_void(job)) {
        job->end = JOB_DROPPED;
        applier->finished = 1;
        return give_back(applier);
    }
    /* A wakeup does not bring the database back any sooner. */
    if (now_ms < applier->retry_ms)
        return applier->retry_ms - now_ms;
    rc = job->kind == JOB_CLAIM ? do_claim(applier, job, &err) : do_apply(applier, job, &err);
    if (rc == RC_REJECT) {
        job->end = JOB_STOPPED;
        job->err = err;
    }
    applier->finished = rc == RC_OK || rc == RC_REJECT;
    return tried(applier, rc, &err, now_ms);
}

/* Tries all in hand, once. */
static int64_t group_step(struct applier *applier, struct apply_group *group, int64_t now_ms)
{
    struct apply_result result = {0};
    struct err err = {0};
    int64_t from_us = applier->config.clock_us();
    enum rc rc = apply_group(&applier->apply, group, &result, &err);

    if (rc == RC_OK && result.end == APPLY_DONE) {
        count_result(applier, &result, from_us);
        for (size_t i = 0; i < applier->hand_end; i++) {
            applier->hand[i]->end = JOB_DONE;
            applier->hand[i]->clear = false;
        }
        applier->finished = applier->hand_end;
    }
    return tried(applier, rc, &err, now_ms);
}

static bool joins(const struct applier *applier, struct apply_group *group, struct job *job)
{
    return job->kind == JOB_APPLY && !is_void(job) &&
           apply_group_add(group, applier->config.batch_rows_max, &job->holding->place,
                           job->progress.epoch, &job->batch);
}

/* Takes the next job, and as many of those behind it as go into a group with it. */
static void take_jobs(struct applier *applier, struct apply_group *group)
{
    struct job *job = ring_peek(&applier->given);
    bool more = job && joins(applier, group, job);

    applier->hand_at = 0;
    applier->hand_end = 0;
    if (!job)
        return;
    applier->hand[applier->hand_end++] = ring_take(&applier->given);
    job = ring_peek(&applier->given);
    for (; more && job && joins(applier, group, job); job = ring_peek(&applier->given))
        applier->hand[applier->hand_end++] = ring_take(&applier->given);
}

int64_t applier_step(void *ctx, int64_t now_ms)
{
    struct applier *applier = ctx;

    if (applier->finished > 0)
        return give_back(applier);
    if (applier->hand_at == applier->hand_end) {
        struct apply_group group = {0};

        take_jobs(applier, &group);
        if (applier->hand_end == 0)
            return idle_step(applier, now_ms);
        apply_forget(&applier->apply);
        applier->retry_ms = now_ms;
        if (applier->hand_end > 1)
            return group_step(applier, &group, now_ms);
    }
    return job_step(applier, applier->hand[applier->hand_at], now_ms);
}
