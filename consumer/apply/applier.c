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
/* An idle applier checks the database this often, for readiness. */
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

/* Invariant C4: after a reconnect all claimed partitions are claimed again, because the database
 * may have lost commits. */
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

static void mark_database_good(struct applier *applier, int64_t now_ms)
{
    backoff_reset(&applier->backoff);
    condition_ok(&applier->database, now_ms);
}

static int64_t mark_database_bad(struct applier *applier, const struct err *err, int64_t now_ms)
{
    int64_t wait_ms = backoff_next_ms(&applier->backoff, applier->config.rng());

    condition_fail(&applier->database, now_ms, err);
    applier->retry_ms = now_ms + wait_ms;
    return wait_ms;
}

static enum rc run_claim(struct applier *applier, struct job *job, struct err *err)
{
    enum rc rc = apply_claim(&applier->apply, &job->holding->place, &job->progress, err);

    if (rc == RC_OK)
        job->end = JOB_DONE;
    return rc;
}

static void report_held(struct applier *applier, const struct apply_result *result)
{
    size_t held = result->dead[record_class_index(REASON_REFUSED)] +
                  result->dead[record_class_index(REASON_BEHIND)];

    if (held > 0 && applier->config.on_held)
        applier->config.on_held(applier->config.held_ctx);
}

static enum job_end job_end_of(enum apply_end end)
{
    switch (end) {
    case APPLY_DONE:
        return JOB_DONE;
    case APPLY_AGAIN:
        return JOB_AGAIN;
    case APPLY_APART: /* only groups end like this, and their jobs are applied alone afterwards */
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
    metric_add(&consume_ended_tallies, (int64_t)result->ended);
    for (size_t i = 0; i < RECORD_CLASS_COUNT; i++)
        metric_add(&consume_dead[i], (int64_t)result->dead[i]);
    report_held(applier, result);
}

/* Logs the first dead record of each class that this process meets; the metric counts all. Not an
 * event for each, because a topic with other records has millions. */
static void log_dead(struct applier *applier, const struct place *place,
                     const struct apply_result *result)
{
    for (size_t i = 0; applier->config.dead_logged && i < RECORD_CLASS_COUNT; i++) {
        unsigned bit = 1U << i;

        if (result->dead_ids[i] == 0 ||
            (atomic_fetch_or(applier->config.dead_logged, bit) & bit) != 0)
            continue;
        log_event(LOG_WARN, "record_dead",
                  "role=consume class=%s topic=%s partition=%" PRId32 " id=%" PRId64
                  " hint=\"tallybox dead show %" PRId64 "; further records of this class are only "
                  "counted\"",
                  record_classes[i], place->topic, place->partition, result->dead_ids[i],
                  result->dead_ids[i]);
    }
}

static enum rc run_batch(struct applier *applier, struct job *job, struct err *err)
{
    struct apply_result result = {0};
    int64_t from_us = applier->config.clock_us();
    enum rc rc = apply_batch(&applier->apply, &job->holding->place, job->progress.epoch,
                             &job->batch, &result, err);

    if (rc != RC_OK)
        return rc;
    count_result(applier, &result, from_us);
    log_dead(applier, &job->holding->place, &result);
    job->end = job_end_of(result.end);
    job->clear = result.clear;
    return RC_OK;
}

static bool is_void(const struct job *job)
{
    return atomic_load(&job->holding->generation) != job->generation;
}

/* Checks the database while no job does. */
static int64_t step_idle(struct applier *applier, int64_t now_ms)
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
        mark_database_good(applier, now_ms);
    else
        mark_database_bad(applier, &err, now_ms);
    return PING_MS;
}

static int64_t return_jobs(struct applier *applier)
{
    bool full = false;

    while (applier->finished > 0 && !full) {
        full = !ring_give(&applier->done, applier->jobs[applier->job_at]);
        applier->job_at += !full;
        applier->finished -= !full;
    }
    applier->config.wake_fetch(applier->config.wake_ctx);
    return full ? FULL_WAIT_MS : 0;
}

/* Handles the result of a try. */
static int64_t end_try(struct applier *applier, enum rc rc, const struct err *err, int64_t now_ms)
{
    watch_session(applier);
    applier->ping_ms = now_ms + PING_MS;
    switch (rc) {
    case RC_OK:
        mark_database_good(applier, now_ms);
        return return_jobs(applier);
    case RC_REJECT:
        return return_jobs(applier);
    case RC_RETRY:
        return mark_database_bad(applier, err, now_ms);
    case RC_FATAL:
        break;
    }
    log_error(LOG_ERROR, "role_failed", err, "role=consume");
    condition_fail(&applier->database, now_ms, err);
    applier->failed = true;
    return LOOP_END;
}

/* Tries the first job. */
static int64_t step_job(struct applier *applier, struct job *job, int64_t now_ms)
{
    struct err err = {0};
    enum rc rc;

    if (is_void(job)) {
        job->end = JOB_DROPPED;
        applier->finished = 1;
        return return_jobs(applier);
    }
    /* An early wakeup does not shorten the wait for the database. */
    if (now_ms < applier->retry_ms)
        return applier->retry_ms - now_ms;
    rc = job->kind == JOB_CLAIM ? run_claim(applier, job, &err) : run_batch(applier, job, &err);
    if (rc == RC_REJECT) {
        job->end = JOB_STOPPED;
        job->err = err;
    }
    applier->finished = rc == RC_OK || rc == RC_REJECT;
    return end_try(applier, rc, &err, now_ms);
}

/* Tries all jobs in one transaction, once. */
static int64_t step_group(struct applier *applier, struct apply_group *group, int64_t now_ms)
{
    struct apply_result result = {0};
    struct err err = {0};
    int64_t from_us = applier->config.clock_us();
    enum rc rc = apply_group(&applier->apply, group, &result, &err);

    if (rc == RC_OK && result.end == APPLY_DONE) {
        count_result(applier, &result, from_us);
        for (size_t i = 0; i < applier->job_count; i++) {
            applier->jobs[i]->end = JOB_DONE;
            applier->jobs[i]->clear = false;
        }
        applier->finished = applier->job_count;
    }
    return end_try(applier, rc, &err, now_ms);
}

static bool join_group(const struct applier *applier, struct apply_group *group, struct job *job)
{
    return job->kind == JOB_APPLY && !is_void(job) &&
           apply_group_add(group, applier->config.batch_rows_max, &job->holding->place,
                           job->progress.epoch, &job->batch);
}

/* Takes the next job, and the jobs behind it that can share its transaction. */
static void take_jobs(struct applier *applier, struct apply_group *group)
{
    struct job *job = ring_peek(&applier->given);
    bool more = job && join_group(applier, group, job);

    applier->job_at = 0;
    applier->job_count = 0;
    if (!job)
        return;
    applier->jobs[applier->job_count++] = ring_take(&applier->given);
    job = ring_peek(&applier->given);
    for (; more && job && join_group(applier, group, job); job = ring_peek(&applier->given))
        applier->jobs[applier->job_count++] = ring_take(&applier->given);
}

int64_t applier_step(void *ctx, int64_t now_ms)
{
    struct applier *applier = ctx;

    if (applier->finished > 0)
        return return_jobs(applier);
    if (applier->job_at == applier->job_count) {
        struct apply_group group = {0};

        take_jobs(applier, &group);
        if (applier->job_count == 0)
            return step_idle(applier, now_ms);
        apply_forget(&applier->apply);
        applier->retry_ms = now_ms;
        if (applier->job_count > 1)
            return step_group(applier, &group, now_ms);
    }
    return step_job(applier, applier->jobs[applier->job_at], now_ms);
}
