/* SPDX-License-Identifier: MIT */
#include "producer/dead/dead_worker.h"

#include "common/log.h"
#include "producer/dead/dead_json.h"
#include "producer/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAY_ROWS_MAX 100 /* records that stay dead, in an answer */
/* A page ends after the row with which it is so long: keys may be long. */
#define PAGE_BYTES_MAX ((size_t)1 << 20)

struct dead_worker {
    struct dead_worker_config config;
    struct worker base;
    struct dead_worker_request *request; /* NULL: none */
    bool broken;                         /* the last request failed, which has been logged */
    /* Of the action that is being done. */
    bool counted;
    uint64_t matched;
    uint64_t counts[DEAD_OUTCOMES];
    struct buf stay;
    size_t stay_count;
    char why[160]; /* the one record stays dead */
    int64_t behind;
};

static void set_request(void *ctx, struct queue_entry **entries, size_t count)
{
    struct dead_worker *worker = ctx;

    if (worker->request)
        worker->config.ops->leave(worker->config.ops->ctx);
    worker->request = count > 0 ? (struct dead_worker_request *)entries[0] : NULL;
    worker->counted = false;
    worker->matched = 0;
    memset(worker->counts, 0, sizeof(worker->counts));
    buf_reset(&worker->stay);
    worker->stay_count = 0;
    worker->why[0] = '\0';
    worker->behind = 0;
}

static void fail_request(struct dead_worker_request *request, enum request_fault_code code,
                         const char *words)
{
    request->failed = true;
    request_fault_set(&request->fault, code, "%s", words);
}

static void fail_unknown(struct dead_worker_request *request)
{
    char words[80];

    snprintf(words, sizeof(words), "there is no dead record %" PRId64, request->id);
    fail_request(request, REQUEST_FAULT_NOT_FOUND, words);
}

struct output {
    struct dead_worker_request *request;
    size_t rows;
    bool more;
    int64_t last_id;
};

static enum rc put_row(void *ctx, const struct dead_view *view, struct err *err)
{
    struct output *output = ctx;
    struct dead_worker_request *request = output->request;

    (void)err;
    if (output->more || output->rows == request->rows_max ||
        (output->rows > 0 && request->body.len > PAGE_BYTES_MAX)) {
        output->more = true;
        return RC_OK;
    }
    if (output->rows++ > 0)
        buf_char(&request->body, ',');
    dead_json_put(&request->body, view, false);
    output->last_id = view->id;
    return RC_OK;
}

static enum rc list_records(struct dead_worker *worker, struct err *err)
{
    const struct dead_admin_ops *ops = worker->config.ops;
    struct dead_worker_request *request = worker->request;
    struct output output = {.request = request, .last_id = request->after};
    enum rc rc;

    buf_reset(&request->body);
    buf_text_put(&request->body, "{\"records\":[");
    rc = ops->list(ops->ctx, &request->filter, request->decided, request->after,
                   request->rows_max + 1, put_row, &output, err);
    buf_text_put(&request->body, "],\"more\":");
    if (output.more)
        buf_print(&request->body, "true,\"after\":%" PRId64 "}", output.last_id);
    else
        buf_text_put(&request->body, "false,\"after\":null}");
    return rc;
}

static enum rc put_whole(void *ctx, const struct dead_view *view, struct err *err)
{
    struct output *output = ctx;

    (void)err;
    output->rows++;
    dead_json_put(&output->request->body, view, true);
    return RC_OK;
}

static enum rc show_record(struct dead_worker *worker, struct err *err)
{
    const struct dead_admin_ops *ops = worker->config.ops;
    struct output output = {.request = worker->request};
    enum rc rc;

    buf_reset(&worker->request->body);
    rc = ops->show(ops->ctx, worker->request->id, put_whole, &output, err);
    if (rc == RC_OK && output.rows == 0)
        fail_unknown(worker->request);
    return rc;
}

static void on_result(void *ctx, const struct dead_result *result)
{
    struct dead_worker *worker = ctx;

    worker->counts[result->outcome]++;
    if (dead_json_outcome(result->outcome))
        return;
    worker->behind = result->behind;
    if (result->outcome == DEAD_OUTCOME_STAYS)
        snprintf(worker->why, sizeof(worker->why), "%s: %s", result->reason_class, result->reason);
    if (worker->stay_count == STAY_ROWS_MAX)
        return;
    if (worker->stay_count++ > 0)
        buf_char(&worker->stay, ',');
    dead_json_put_result(&worker->stay, result);
}

static enum rc step_operation(struct dead_worker *worker, bool *more, struct err *err)
{
    const struct dead_admin_ops *ops = worker->config.ops;
    struct dead_operation *operation = worker->request->operation;

    operation->on_result = on_result;
    operation->ctx = worker;
    return ops->step(ops->ctx, operation, more, err);
}

static const char *action_name(const struct dead_worker_request *request)
{
    return request->operation->drop ? "drop" : "replay";
}

static void answer_one(struct dead_worker_request *request, bool changed, const char *outcome)
{
    buf_reset(&request->body);
    buf_print(&request->body,
              "{\"id\":%" PRId64 ",\"action\":\"%s\",\"changed\":%s,\"outcome\":\"%s\"}",
              request->id, action_name(request), changed ? "true" : "false", outcome);
}

struct decided {
    char decision[32]; /* "": none */
};

static enum rc keep_decision(void *ctx, const struct dead_view *view, struct err *err)
{
    struct decided *decided = ctx;

    (void)err;
    snprintf(decided->decision, sizeof(decided->decision), "%s",
             view->decision ? view->decision : "");
    return RC_OK;
}

/* The record is not dead: it was replayed or dropped before, or does not exist. */
static enum rc answer_decided(struct dead_worker *worker, struct err *err)
{
    const struct dead_admin_ops *ops = worker->config.ops;
    struct dead_worker_request *request = worker->request;
    struct decided decided = {.decision = ""};
    enum rc rc =
        ops->list(ops->ctx, &request->operation->filter, true, 0, 1, keep_decision, &decided, err);

    if (rc == RC_OK && decided.decision[0])
        answer_one(request, false, decided.decision);
    else if (rc == RC_OK)
        fail_unknown(request);
    return rc;
}

static void answer_stays(struct dead_worker *worker)
{
    struct dead_worker_request *request = worker->request;
    char words[200];

    if (worker->behind != 0) {
        snprintf(words, sizeof(words),
                 "the record waits: record %" PRId64
                 " is older, has the same key and stays dead; replay or drop it first",
                 worker->behind);
        fail_request(request, REQUEST_FAULT_CONFLICT, words);
    } else {
        snprintf(words, sizeof(words), "the record stays dead: %s", worker->why);
        fail_request(request, REQUEST_FAULT_REFUSED, words);
    }
}

static enum rc finish_one(struct dead_worker *worker, struct err *err)
{
    for (enum dead_outcome outcome = 0; outcome < DEAD_OUTCOMES; outcome++) {
        if (worker->counts[outcome] == 0)
            continue;
        if (dead_json_outcome(outcome))
            answer_one(worker->request, true, dead_json_outcome(outcome));
        else
            answer_stays(worker);
        return RC_OK;
    }
    return answer_decided(worker, err);
}

/* counted: the action itself has ended. A repeated attempt only reads how the record ended. */
static enum rc do_one(struct dead_worker *worker, bool *finished, struct err *err)
{
    struct dead_worker_request *request = worker->request;
    bool more = false;
    enum rc rc = RC_OK;

    request->operation->filter.ids = &request->id;
    request->operation->filter.id_count = 1;
    if (!worker->counted)
        rc = step_operation(worker, &more, err);
    if (rc != RC_OK || more)
        return rc;
    worker->counted = true;
    rc = finish_one(worker, err);
    *finished = rc == RC_OK;
    return rc;
}

/* Excludes records that die after this. */
static enum rc count_matches(struct dead_worker *worker, struct err *err)
{
    const struct dead_admin_ops *ops = worker->config.ops;
    struct dead_filter *filter = &worker->request->operation->filter;
    int64_t id_max = 0;
    enum rc rc;

    if (worker->counted)
        return RC_OK;
    filter->id_max = 0;
    rc = ops->count(ops->ctx, filter, &worker->matched, &id_max, err);
    /* Nothing matches: 0 would be any id. The lowest id excludes all that die from now on. */
    filter->id_max = id_max > 0 ? id_max : 1;
    worker->counted = rc == RC_OK;
    return rc;
}

static void answer_many(struct dead_worker *worker)
{
    struct dead_worker_request *request = worker->request;
    struct buf *body = &request->body;
    const uint64_t *counts = worker->counts;
    uint64_t stay = counts[DEAD_OUTCOME_STAYS] + counts[DEAD_OUTCOME_WAITS];
    uint64_t handled = 0;

    for (enum dead_outcome outcome = 0; outcome < DEAD_OUTCOMES; outcome++)
        handled += counts[outcome];
    buf_reset(body);
    buf_print(body, "{\"action\":\"%s\",\"dryRun\":%s,\"matched\":%" PRIu64, action_name(request),
              request->dry_run ? "true" : "false", worker->matched);
    buf_print(body, ",\"applied\":%" PRIu64 ",\"duplicates\":%" PRIu64 ",\"stale\":%" PRIu64,
              counts[DEAD_OUTCOME_APPLIED], counts[DEAD_OUTCOME_DUPLICATE],
              counts[DEAD_OUTCOME_STALE]);
    buf_print(body, ",\"dropped\":%" PRIu64 ",\"stillDead\":%" PRIu64 ",\"more\":%s,\"stay\":[",
              counts[DEAD_OUTCOME_DROPPED], stay, worker->matched > handled ? "true" : "false");
    buf_put(body, buf_text(&worker->stay), worker->stay.len);
    buf_text_put(body, "]}");
    body->failed |= worker->stay.failed;
}

/* One page. */
static enum rc do_many(struct dead_worker *worker, bool *finished, struct err *err)
{
    bool more = false;
    enum rc rc = count_matches(worker, err);

    if (rc == RC_OK && !worker->request->dry_run)
        rc = step_operation(worker, &more, err);
    if (rc != RC_OK || more)
        return rc;
    answer_many(worker);
    *finished = true;
    return RC_OK;
}

/* Fails the request but not the role: votes work even if a privilege on a table is missing. */
static void fail_fatal(struct dead_worker *worker, const struct err *err)
{
    if (!worker->broken)
        log_error(LOG_ERROR, "dead_admin_failed", err,
                  "role=serve text=\"dead records cannot be shown or changed\"");
    worker->broken = true;
    fail_request(worker->request, REQUEST_FAULT_UNAVAILABLE,
                 "dead records cannot be used, the log of the server has the reason; a part of an "
                 "action may have been done, and sending it again is harmless");
}

static enum rc try_request(void *ctx, bool *finished, struct err *err)
{
    struct dead_worker *worker = ctx;
    enum rc rc = RC_OK;

    *finished = false;
    switch (worker->request->kind) {
    case DEAD_WORKER_LIST:
        rc = list_records(worker, err);
        *finished = rc == RC_OK;
        break;
    case DEAD_WORKER_SHOW:
        rc = show_record(worker, err);
        *finished = rc == RC_OK;
        break;
    case DEAD_WORKER_ONE:
        rc = do_one(worker, finished, err);
        break;
    case DEAD_WORKER_MANY:
        rc = do_many(worker, finished, err);
        break;
    }
    if (rc == RC_RETRY)
        return rc;
    if (rc == RC_FATAL)
        fail_fatal(worker, err);
    else
        worker->broken = false;
    if (rc == RC_REJECT)
        fail_request(worker->request, REQUEST_FAULT_REFUSED,
                     "the database refuses to store the outcome; what was done before stays done");
    *finished |= rc != RC_OK;
    return RC_OK;
}

/* The role serves votes without the sink: it waits for the operator. */
static enum rc ping_database(void *ctx, struct err *err)
{
    const struct dead_admin_ops *ops = ((struct dead_worker *)ctx)->config.ops;
    enum rc rc = ops->ping(ops->ctx, err);

    return rc == RC_OK ? RC_OK : RC_RETRY;
}

static bool collided(void *ctx, const struct err *err)
{
    const struct dead_admin_ops *ops = ((struct dead_worker *)ctx)->config.ops;

    return ops->collided(ops->ctx, err);
}

static bool audit_failed(void *ctx)
{
    const struct dead_admin_ops *ops = ((struct dead_worker *)ctx)->config.ops;

    return ops->audit_failed(ops->ctx);
}

static const struct worker_ops base_ops = {
    .set = set_request,
    .attempt = try_request,
    .ping = ping_database,
    .collided = collided,
    .more_failed = audit_failed,
};

enum rc dead_worker_open(struct dead_worker **out, const struct dead_worker_config *config,
                         struct err *err)
{
    struct dead_worker *worker = calloc(1, sizeof(*worker));
    const struct worker_config base = {
        .name = "dead records",
        .queue = config->queue,
        .shard = 0,
        .entries_max = 1,
        .weight_max = 1,
        .ops = &base_ops,
        .ctx = worker,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    *out = NULL;
    if (!worker)
        return err_fail(err, RC_FATAL, 0, "no memory for a worker of dead records");
    worker->config = *config;
    rc = worker_init(&worker->base, &base, err);
    if (rc != RC_OK)
        free(worker);
    else
        *out = worker;
    return rc;
}

void dead_worker_close(struct dead_worker *worker)
{
    if (!worker)
        return;
    worker_done(&worker->base);
    buf_done(&worker->stay);
    free(worker);
}

int64_t dead_worker_step(void *arg, int64_t now_ms)
{
    return worker_step(&((struct dead_worker *)arg)->base, now_ms);
}
