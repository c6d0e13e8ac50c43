/* SPDX-License-Identifier: MIT */
#include "consumer/held/vote_handler.h"

#include "common/os.h"
#include "consumer/dead/dead_mysql.h"
#include "consumer/held/vote_task.h"
#include "consumer/installation_mysql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After this time a replay of many pages ends its attempt and lets other tasks use the thread. */
#define RUN_MS_MAX 20000

struct vote_worker {
    struct dead_mysql *mysql; /* NULL: not opened yet */
    char group[VOTE_OPTIONS_GROUP_SIZE];
};

struct vote_handler {
    const struct settings *settings;
    const struct stop *stop;
    char by[192]; /* the name in dead_history.decided_by */
    struct vote_worker *workers;
    size_t count;
};

static enum rc vote_open(void **out, const struct retry_handler_env *env, struct err *err)
{
    struct vote_handler *handler = calloc(1, sizeof(*handler));

    if (handler)
        handler->workers = calloc(env->workers, sizeof(*handler->workers));
    if (!handler || !handler->workers) {
        free(handler);
        return err_fail(err, RC_FATAL, 0, "no memory for the handler vote");
    }
    handler->settings = env->settings;
    handler->stop = env->stop;
    handler->count = env->workers;
    snprintf(handler->by, sizeof(handler->by), "retry@%.120s", env->instance);
    *out = handler;
    return RC_OK;
}

static void vote_close(void *ctx)
{
    struct vote_handler *handler = ctx;

    if (!handler)
        return;
    for (size_t i = 0; i < handler->count; i++)
        dead_mysql_close(handler->workers[i].mysql);
    free(handler->workers);
    free(handler);
}

/* Opens the worker's connection for dead records of the group, unless it is open. */
static enum rc open_worker_store(struct vote_handler *handler, struct vote_worker *worker,
                                 const char *group, struct err *err)
{
    if (worker->mysql && strcmp(worker->group, group) == 0)
        return RC_OK;
    dead_mysql_close(worker->mysql);
    worker->mysql = NULL;
    snprintf(worker->group, sizeof(worker->group), "%s", group);
    return dead_mysql_open(&worker->mysql, handler->settings, worker->group, handler->by, err);
}

static enum rc read_options(const struct retry_job *job, struct vote_options *options,
                            struct err *err)
{
    enum rc rc = vote_options_read(options, job->options, err);

    if (rc != RC_OK)
        return rc;
    if (options->has_dead && job->params_len > 0)
        return err_fail(err, RC_REJECT, 0,
                        "a task has either options.dead or a vote event as parameters, not both");
    if (!options->has_dead && !job->params)
        return err_fail(err, RC_REJECT, 0, "the parameters must be a vote event");
    return RC_OK;
}

static enum rc vote_check(const struct retry_handlers *all, const struct retry_job *job,
                          struct err *err)
{
    struct vote_options options;
    struct vote_event event;
    enum rc rc = read_options(job, &options, err);

    (void)all;
    if (rc == RC_OK && !options.has_dead)
        rc = vote_event_decode(&event, job->params, job->params_len, err);
    return rc;
}

static void vote_destination(const struct retry_handlers *all, const struct retry_job *job,
                             struct buf *name)
{
    (void)all;
    (void)job;
    buf_text_put(name, "sink");
}

static void vote_run(void *ctx, size_t worker, const struct retry_job *job,
                     struct attempt_result *attempt)
{
    struct vote_handler *handler = ctx;
    struct vote_worker *mine = &handler->workers[worker];
    const struct settings *settings = handler->settings;
    struct vote_work work = {
        .keep_lasts = strcmp(settings->consumer.votes_from, "anyone") == 0,
        .now_ms = os_now_ms,
        .stop = handler->stop,
        .until_ms = os_now_ms() + RUN_MS_MAX,
        .lease_until_ms = job->lease_until_ms,
    };
    struct vote_options options;
    enum rc rc = read_options(job, &options, &attempt->err);

    if (rc == RC_OK)
        rc = open_worker_store(handler, mine,
                               options.has_dead ? options.group : installation_group(settings),
                               &attempt->err);
    if (rc != RC_OK) {
        attempt->end = ATTEMPT_FAILED;
        attempt->source = FAULT_SOURCE_PLAIN;
        attempt->fault = rc == RC_REJECT ? FAULT_CLASS_REFUSED : FAULT_CLASS_TRANSIENT;
        return;
    }
    work.sink = dead_mysql_sink(mine->mysql);
    work.store = dead_mysql_store(mine->mysql);
    if (options.has_dead)
        vote_work_replay(&work, &options, attempt);
    else
        vote_work_apply(&work, job->params, job->params_len, attempt);
}

const struct retry_handler vote_handler = {
    .name = "vote",
    .about = "Applies a vote event to the log, or replays dead records of the consumer.",
    .open = vote_open,
    .check = vote_check,
    .destination = vote_destination,
    .run = vote_run,
    .close = vote_close,
};
