/* SPDX-License-Identifier: MIT */
#include "producer/task/try_intake.h"

#include "common/log.h"
#include "producer/serve_metrics.h"
#include "producer/task/task_check.h"
#include "producer/worker.h"

#include <stdlib.h>
#include <string.h>

struct try_intake {
    struct try_intake_config config;
    struct worker worker;
    struct task_check *check;
    struct task_intake_request *request; /* NULL: none */
    struct task_intake_request **kept;   /* whose tries have begun */
    size_t kept_count;
    bool broken; /* the retry queue failed, which has been logged */
};

static void set_request(void *ctx, struct queue_entry **entries, size_t count)
{
    ((struct try_intake *)ctx)->request =
        count > 0 ? (struct task_intake_request *)entries[0] : NULL;
}

static enum rc make_task(struct try_intake *intake, struct err *err)
{
    const struct first_try_ops *tries = intake->config.tries;
    struct task_intake_request *request = intake->request;
    enum rc rc;

    task_check_begin(intake->check);
    rc = request->sent ? RC_OK : task_check_item(intake->check, request->items, 0, 1, err);
    if (rc != RC_OK || request->items[0].bad)
        return rc;
    rc = tries->make(tries->ctx, &request->items[0].task, request, request->first_try,
                     intake->config.clock_ms(), err);
    if (rc != RC_OK) {
        request->sent = request->sent || rc == RC_RETRY;
        if (!request->sent)
            task_check_gone(intake->check, &request->items[0]);
        return rc;
    }
    request->items[0].ticket = request->first_try->ticket;
    if (request->items[0].ticket.existed)
        task_check_gone(intake->check, &request->items[0]);
    return RC_OK;
}

static void fail_request(struct try_intake *intake, enum rc rc, const struct err *err)
{
    if (rc == RC_FATAL && !intake->broken)
        log_error(LOG_ERROR, "task_intake_failed", err,
                  "role=serve text=\"no task can be tried first\" hint=\"tallybox migrate grants "
                  "--role first_try\"");
    if (rc == RC_FATAL)
        intake->broken = true;
    task_intake_fail(intake->request, rc, err);
}

static enum rc try_request(void *ctx, bool *finished, struct err *err)
{
    struct try_intake *intake = ctx;
    enum rc rc = make_task(intake, err);

    *finished = rc != RC_RETRY;
    if (rc == RC_FATAL || rc == RC_REJECT)
        fail_request(intake, rc, err);
    if (rc == RC_OK)
        intake->broken = false;
    return rc == RC_RETRY ? RC_RETRY : RC_OK;
}

static void count_outcome(void *ctx)
{
    const struct task_intake_request *request = ((struct try_intake *)ctx)->request;

    if (request->failed || request->items[0].bad) {
        metric_add(&serve_tasks_refused, 1);
        return;
    }
    metric_add(request->items[0].ticket.existed ? &serve_tasks_existed : &serve_tasks_made, 1);
    if (!request->first_try->begun)
        metric_add(&serve_tries_not_begun, 1);
}

static bool keep_request(void *ctx, struct queue_entry *entry)
{
    struct try_intake *intake = ctx;
    struct task_intake_request *request = (struct task_intake_request *)entry;

    if (request->failed || request->items[0].bad || !request->first_try->begun)
        return false;
    intake->kept[intake->kept_count++] = request;
    return true;
}

static enum rc database_ping(void *ctx, struct err *err)
{
    const struct task_store *store = ((struct try_intake *)ctx)->config.store;

    return store->ping(store->ctx, err);
}

static bool database_collided(void *ctx, const struct err *err)
{
    const struct task_store *store = ((struct try_intake *)ctx)->config.store;

    return store->collided(store->ctx, err);
}

static const struct worker_ops ops = {
    .set = set_request,
    .attempt = try_request,
    .finished = count_outcome,
    .keep = keep_request,
    .ping = database_ping,
    .collided = database_collided,
};

enum rc try_intake_open(struct try_intake **out, const struct try_intake_config *config,
                        struct err *err)
{
    struct try_intake *intake = calloc(1, sizeof(*intake));
    struct worker_config worker = {
        .name = "try",
        .queue = config->queue,
        .entries_max = 1,
        .weight_max = 1,
        .ops = &ops,
        .ctx = intake,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    *out = NULL;
    if (!intake)
        return err_fail(err, RC_FATAL, 0, "no memory to try tasks first");
    intake->config = *config;
    intake->kept = calloc(config->tries_max, sizeof(struct task_intake_request *));
    rc = intake->kept ? worker_init(&intake->worker, &worker, err)
                      : err_fail(err, RC_FATAL, 0, "no memory for %zu tries", config->tries_max);
    if (rc == RC_OK)
        rc =
            task_check_open(&intake->check, config->store, config->handlers, config->clock_ms, err);
    if (rc != RC_OK)
        try_intake_close(intake);
    else
        *out = intake;
    return rc;
}

void try_intake_close(struct try_intake *intake)
{
    if (!intake)
        return;
    worker_done(&intake->worker);
    while (intake->kept_count > 0)
        queue_finish(intake->config.queue, 0, &intake->kept[--intake->kept_count]->entry,
                     QUEUE_UNKNOWN);
    task_check_close(intake->check);
    free(intake->kept);
    free(intake);
}

int64_t try_intake_step(void *arg, int64_t now_ms)
{
    struct try_intake *intake = arg;
    const struct first_try_ops *tries = intake->config.tries;
    int64_t worker_ms = worker_step(&intake->worker, now_ms);
    int64_t tries_ms = tries->step(tries->ctx, intake->config.clock_ms());

    if (worker_ms == LOOP_END)
        return LOOP_END;
    return worker_ms < tries_ms ? worker_ms : tries_ms;
}

static void count_try(const struct first_try_result *result)
{
    if (strcmp(result->outcome, "done") == 0)
        metric_add(&serve_tries_done, 1);
    else if (!result->tried)
        metric_add(&serve_tries_not_begun, 1);
    else if (result->outcome[0] || (result->state_known && result->state == TASK_BLOCKED))
        metric_add(&serve_tries_exhausted, 1);
    else if (result->state_known)
        metric_add(&serve_tries_waiting, 1);
    else
        metric_add(&serve_tries_unknown, 1);
}

/* The request is freed by queue_finish(), and result->answer is valid until then. */
void try_intake_on_end(void *ctx, void *owner, const struct first_try_result *result)
{
    struct try_intake *intake = ctx;
    struct task_intake_request *request = owner;
    struct retry_ticket ticket = request->items[0].ticket;
    size_t at = 0;

    while (intake->kept[at] != request)
        at++;
    intake->kept[at] = intake->kept[--intake->kept_count];
    *request->first_try = *result;
    request->first_try->ticket = ticket;
    count_try(result);
    if (result->outcome[0])
        task_check_gone(intake->check, &request->items[0]);
    queue_finish(intake->config.queue, 0, &request->entry, QUEUE_DONE);
}
