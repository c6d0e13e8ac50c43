/* SPDX-License-Identifier: MIT */
#include "producer/task/task_intake.h"

#include "common/log.h"
#include "common/text.h"
#include "outbox/retry/handler.h"
#include "producer/serve_metrics.h"
#include "producer/task/beat_json.h"
#include "producer/task/change_intake.h"
#include "producer/task/task_check.h"
#include "producer/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct task_intake {
    struct task_intake_config config;
    struct worker worker;
    struct task_intake_request *request; /* NULL: none */
    struct task_check *check;
    struct retry_new_task tasks[TASK_ITEMS_MAX];
    struct retry_ticket tickets[TASK_ITEMS_MAX];
    bool broken; /* the retry queue failed, which has been logged */
};

static void set_request(void *ctx, struct queue_entry **entries, size_t count)
{
    ((struct task_intake *)ctx)->request =
        count > 0 ? (struct task_intake_request *)entries[0] : NULL;
}

static void set_tickets(struct task_intake *intake)
{
    struct task_intake_request *request = intake->request;
    size_t next = 0;

    for (size_t i = 0; i < request->count; i++) {
        if (request->items[i].bad)
            continue;
        request->items[i].ticket = intake->tickets[next++];
        if (request->items[i].ticket.existed)
            task_check_gone(intake->check, &request->items[i]);
    }
}

static enum rc submit_tasks(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    size_t count = 0;
    enum rc rc = RC_OK;

    task_check_begin(intake->check);
    for (size_t i = 0; rc == RC_OK && i < request->count; i++) {
        if (!request->items[i].bad && !request->sent)
            rc = task_check_item(intake->check, request->items, i, request->count, err);
        if (rc == RC_OK && !request->items[i].bad)
            intake->tasks[count++] = request->items[i].task;
    }
    if (rc != RC_OK || count == 0)
        return rc;
    rc = store->append(store->ctx, intake->tasks, count, intake->tickets, err);
    if (rc == RC_OK)
        set_tickets(intake);
    else if (rc == RC_RETRY)
        request->sent = true;
    return rc;
}

struct output {
    struct buf *body;
    size_t rows;
    bool whole;
    bool parked;
    /* Of a whole task. */
    bool waits;
    bool waits_for_client;
    enum retry_owner origin;
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    char handler[RETRY_HANDLER_BYTES_MAX + 1];
};

static void note_whole(struct output *output, const struct retry_view *view)
{
    output->waits = !view->outcome && view->state == TASK_WAITING;
    output->waits_for_client =
        strncmp(view->reason, RETRY_CLIENT_NONE, strlen(RETRY_CLIENT_NONE)) == 0;
    if (!retry_owner_read(view->origin, strlen(view->origin), &output->origin))
        output->origin = OWNER_UNKNOWN;
    snprintf(output->group, sizeof(output->group), "%s", view->group);
    snprintf(output->scene, sizeof(output->scene), "%s", view->scene);
    snprintf(output->handler, sizeof(output->handler), "%s", view->handler);
}

static enum rc put_view(void *ctx, const struct retry_view *view, struct err *err)
{
    struct output *output = ctx;

    (void)err;
    if (output->whole && !view->outcome && view->state == TASK_PARKED) {
        output->parked = true; /* the history has the whole task */
        return RC_OK;
    }
    if (output->rows++ > 0)
        buf_char(output->body, ',');
    task_json_put(output->body, view, output->whole);
    if (output->whole)
        note_whole(output, view);
    if (output->whole)
        buf_text_put(output->body, output->parked ? ",\"parked\":true" : ",\"parked\":false");
    else
        buf_char(output->body, '}');
    return RC_OK;
}

static enum rc put_attempt(void *ctx, const struct retry_attempt_view *attempt, struct err *err)
{
    struct output *output = ctx;

    (void)err;
    if (output->rows++ > 0)
        buf_char(output->body, ',');
    task_json_put_attempt(output->body, attempt);
    return RC_OK;
}

/* Finds why a waiting task does not begin although it may be due: there is no such handler, its
 * group, or a paused scene. */
static void explain_wait(const struct task_intake *intake, const struct output *output,
                         const struct retry_group *group, const struct retry_room *room,
                         struct err *why)
{
    const struct retry_scene_name scene = {output->scene, room->configured};

    if (!retry_handler_exists(intake->config.handlers, output->handler, why))
        return;
    if (retry_group_decide(group, output->group, output->origin, &scene, output->handler, why) !=
        GROUP_OPEN)
        return;
    if (room->paused)
        err_set(why, "scene %s is paused", output->scene);
    else if (output->waits_for_client)
        err_set(why, "group %s had no live client when the task was due", output->group);
}

static enum rc put_waits_for(struct task_intake *intake, const struct output *output,
                             struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct retry_group group;
    struct retry_room room;
    struct buf options = {0};
    struct err why = {0};
    bool found = false;
    enum rc rc = RC_OK;

    if (output->waits)
        rc = store->room(store->ctx, output->group, output->scene, NULL, 0, &room, &options, err);
    buf_done(&options);
    if (output->waits && rc == RC_OK)
        rc = store->group(store->ctx, output->group, &group, &found, err);
    if (rc != RC_OK)
        return rc;
    if (output->waits)
        explain_wait(intake, output, found ? &group : NULL, &room, &why);
    buf_text_put(output->body, ",\"waitsFor\":");
    if (why.text[0])
        json_text_put(output->body, why.text);
    else
        buf_text_put(output->body, "null");
    return RC_OK;
}

static enum rc list_tasks(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    struct output output = {.body = &request->body};
    struct retry_page page;
    enum rc rc;

    buf_reset(&request->body);
    buf_text_put(&request->body, "{\"tasks\":[");
    rc = store->find(store->ctx, request->ended, &request->filter, false, request->rows_max,
                     put_view, &output, &page, err);
    if (rc == RC_OK)
        task_json_put_page_end(&request->body, page.more, page.after);
    return rc;
}

static enum rc show_task(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    struct output output = {.body = &request->body, .whole = true};
    struct retry_page page;
    enum rc rc;

    buf_reset(&request->body);
    request->filter.ids = &request->id;
    request->filter.id_count = 1;
    rc = store->find(store->ctx, false, &request->filter, true, 1, put_view, &output, &page, err);
    if (rc == RC_OK && output.rows == 0)
        rc =
            store->find(store->ctx, true, &request->filter, true, 1, put_view, &output, &page, err);
    if (rc != RC_OK)
        return rc;
    if (output.rows == 0) {
        request->failed = true;
        request_fault_set(&request->fault, REQUEST_FAULT_NOT_FOUND,
                          "there is no task %" PRId64 " in the groups of this token", request->id);
        return RC_OK;
    }
    rc = put_waits_for(intake, &output, err);
    if (rc != RC_OK)
        return rc;
    output.rows = 0;
    buf_text_put(&request->body, ",\"attempts\":[");
    rc = store->attempts(store->ctx, request->id, put_attempt, &output, err);
    buf_text_put(&request->body, "]}");
    return rc;
}

static void answer_operated(struct task_intake_request *request,
                            const struct retry_operated_task *result)
{
    const struct retry_operation *operation = request->operation;
    const char *name = retry_operation_name(operation->kind);

    switch (result->end) {
    case OPERATED_DONE:
    case OPERATED_WAS_SO:
        buf_reset(&request->body);
        buf_print(&request->body, "{\"id\":%" PRId64 ",\"action\":\"%s\",\"changed\":%s",
                  operation->id, name, result->end == OPERATED_DONE ? "true" : "false");
        if (result->other != 0)
            buf_print(&request->body, ",\"task\":%" PRId64, result->other);
        buf_char(&request->body, '}');
        return;
    case OPERATED_LEFT:
        request->failed = true;
        request_fault_set(&request->fault, REQUEST_FAULT_CONFLICT,
                          "task %" PRId64 " was left as it is: %s", operation->id, result->reason);
        return;
    case OPERATED_UNKNOWN:
        request->failed = true;
        request_fault_set(&request->fault, REQUEST_FAULT_NOT_FOUND,
                          "there is no task %" PRId64 "%s", operation->id,
                          operation->kind == OPERATION_REQUEUE ? " in the history" : "");
        return;
    }
}

static enum rc operate(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct retry_operated_task result = {.end = OPERATED_UNKNOWN};
    enum rc rc = store->operate(store->ctx, intake->config.handlers, intake->request->operation,
                                &result, err);

    if (rc == RC_OK)
        answer_operated(intake->request, &result);
    return rc;
}

static enum rc put_action(void *ctx, const struct retry_action_view *view, struct err *err)
{
    struct output *output = ctx;

    (void)err;
    if (output->rows++ > 0)
        buf_char(output->body, ',');
    task_json_put_action(output->body, view);
    return RC_OK;
}

static enum rc list_actions(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    struct output output = {.body = &request->body};
    bool more = false;
    int64_t after = 0;
    enum rc rc;

    buf_reset(&request->body);
    buf_text_put(&request->body, "{\"actions\":[");
    rc = store->actions(store->ctx, &request->actions, request->rows_max, put_action, &output,
                        &more, &after, err);
    task_json_put_page_end(&request->body, more, after);
    return rc;
}

static enum rc register_client(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    enum rc rc = store->beat(store->ctx, request->beat, request->config_version, err);

    if (rc != RC_OK)
        return rc;
    metric_add(&serve_failed_reports, request->beat->failed_reports);
    buf_reset(&request->body);
    beat_json_put_answer(&request->body, request->config_version);
    return RC_OK;
}

struct client_page {
    struct task_intake_request *request;
    size_t rows;
    bool more;
    char last[RETRY_CLIENT_ADDRESS_SIZE];
};

static enum rc put_client(void *ctx, const struct retry_client_view *view, struct err *err)
{
    struct client_page *page = ctx;
    struct buf *body = &page->request->body;

    (void)err;
    page->more = page->rows == page->request->rows_max;
    if (page->more)
        return RC_OK;
    if (page->rows++ > 0)
        buf_char(body, ',');
    beat_json_put_client(body, view);
    snprintf(page->last, sizeof(page->last), "%s", view->address);
    return RC_OK;
}

static enum rc list_clients(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    struct client_page page = {.request = request};
    enum rc rc;

    buf_reset(&request->body);
    buf_text_put(&request->body, "{\"clients\":[");
    rc = store->clients(store->ctx, request->group, request->after_address, request->rows_max + 1,
                        put_client, &page, err);
    buf_print(&request->body, "],\"more\":%s,\"after\":", page.more ? "true" : "false");
    if (page.rows > 0)
        json_text_put(&request->body, page.last);
    else
        buf_text_put(&request->body, "null");
    buf_char(&request->body, '}');
    return rc;
}

static enum rc put_scene(void *ctx, const char *scene, bool paused, const char *policy,
                         struct err *err)
{
    struct output *output = ctx;

    (void)err;
    beat_json_put_scene(output->body, scene, paused, policy, output->rows++ == 0);
    return RC_OK;
}

/* Whether the header If-None-Match names the version. */
static bool names_version(const char *known, const char *version)
{
    size_t len = strlen(version);

    if (strcmp(known, "*") == 0)
        return true;
    for (const char *at = strstr(known, version); at; at = strstr(at + 1, version))
        if (at > known && at[-1] == '"' && at[len] == '"')
            return true;
    return false;
}

/* The version is read before the rest: a client that gets newer values with it fetches them once
 * more. */
static enum rc show_config(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    struct output output = {.body = &request->body};
    struct retry_group group;
    bool found = false;
    enum rc rc =
        store->config_version(store->ctx, request->group, request->config_version, &found, err);

    buf_reset(&request->body);
    if (rc == RC_OK && found)
        rc = store->group(store->ctx, request->group, &group, &found, err);
    if (rc != RC_OK)
        return rc;
    if (!found || group.owner != OWNER_CLIENT) {
        request->failed = true;
        request_fault_set(&request->fault, REQUEST_FAULT_NOT_FOUND,
                          "there is no group %.64s of clients", request->group);
        return RC_OK;
    }
    request->is_known = names_version(request->known, request->config_version);
    if (request->is_known)
        return RC_OK;
    beat_json_put_group(&request->body, &group, request->config_version);
    rc = store->scenes(store->ctx, request->group, put_scene, &output, err);
    beat_json_put_end(&request->body);
    return rc;
}

/* Fails the request but not the role: votes work even if a privilege on the retry queue or one of
 * its tables is missing. */
static void fail_request(struct task_intake *intake, enum rc rc, const struct err *err)
{
    if (rc == RC_FATAL && !intake->broken)
        log_error(LOG_ERROR, "task_intake_failed", err,
                  "role=serve text=\"the retry queue cannot be asked\"");
    if (rc == RC_FATAL)
        intake->broken = true;
    task_intake_fail(intake->request, rc, err);
}

static enum rc try_request(void *ctx, bool *finished, struct err *err)
{
    struct task_intake *intake = ctx;
    enum rc rc = RC_OK;

    switch (intake->request->kind) {
    case TASK_INTAKE_SUBMIT:
        rc = submit_tasks(intake, err);
        break;
    case TASK_INTAKE_LIST:
        rc = list_tasks(intake, err);
        break;
    case TASK_INTAKE_SHOW:
        rc = show_task(intake, err);
        break;
    case TASK_INTAKE_OPERATE:
        rc = operate(intake, err);
        break;
    case TASK_INTAKE_AUDIT:
        rc = list_actions(intake, err);
        break;
    case TASK_INTAKE_BEAT:
        rc = register_client(intake, err);
        break;
    case TASK_INTAKE_CONFIG:
        rc = show_config(intake, err);
        break;
    case TASK_INTAKE_CLIENTS:
        rc = list_clients(intake, err);
        break;
    case TASK_INTAKE_CHANGE:
        rc = change_intake_make(intake->config.store, intake->request, err);
        break;
    case TASK_INTAKE_SCENES:
        rc = change_intake_scenes(intake->config.store, intake->request, err);
        break;
    case TASK_INTAKE_GROUPS:
        rc = change_intake_groups(intake->config.store, intake->request, err);
        break;
    }
    *finished = rc != RC_RETRY;
    if (rc == RC_FATAL || rc == RC_REJECT)
        fail_request(intake, rc, err);
    if (rc == RC_OK)
        intake->broken = false;
    return rc == RC_RETRY ? RC_RETRY : RC_OK;
}

static void count_outcomes(void *ctx)
{
    const struct task_intake_request *request = ((struct task_intake *)ctx)->request;
    int64_t made = 0;
    int64_t existed = 0;

    if (request->kind != TASK_INTAKE_SUBMIT)
        return;
    for (size_t i = 0; i < request->count && !request->failed; i++) {
        made += !request->items[i].bad && !request->items[i].ticket.existed;
        existed += !request->items[i].bad && request->items[i].ticket.existed;
    }
    metric_add(&serve_tasks_made, made);
    metric_add(&serve_tasks_existed, existed);
    metric_add(&serve_tasks_refused, (int64_t)request->count - made - existed);
}

static enum rc database_ping(void *ctx, struct err *err)
{
    const struct task_store *store = ((struct task_intake *)ctx)->config.store;

    return store->ping(store->ctx, err);
}

static bool database_collided(void *ctx, const struct err *err)
{
    const struct task_store *store = ((struct task_intake *)ctx)->config.store;

    return store->collided(store->ctx, err);
}

static const struct worker_ops ops = {
    .set = set_request,
    .attempt = try_request,
    .finished = count_outcomes,
    .ping = database_ping,
    .collided = database_collided,
};

void task_intake_fail(struct task_intake_request *request, enum rc rc, const struct err *err)
{
    request->failed = true;
    if (rc == RC_FATAL && request->sent)
        request_fault_set(&request->fault, REQUEST_FAULT_TIMEOUT,
                          "the retry queue cannot be used any more, the log of the server has the "
                          "reason; the tasks may have been taken: send the same again");
    else if (rc == RC_FATAL)
        request_fault_set(&request->fault, REQUEST_FAULT_UNAVAILABLE,
                          "the retry queue cannot be used, the log of the server has the reason; "
                          "nothing was done");
    else
        request_fault_set(&request->fault, REQUEST_FAULT_REFUSED, "%s; nothing was done",
                          err->code == 0 ? err->text : "the database refuses one of the tasks");
}

bool task_intake_knows_handler(const struct retry_handlers *handlers, const char *name)
{
    return !handlers || retry_find_handler(handlers, name) != NULL;
}

void task_intake_close(struct task_intake *intake)
{
    if (!intake)
        return;
    worker_done(&intake->worker);
    task_check_close(intake->check);
    free(intake);
}

enum rc task_intake_open(struct task_intake **out, const struct task_intake_config *config,
                         struct err *err)
{
    struct task_intake *intake = calloc(1, sizeof(*intake));
    struct worker_config worker = {
        .name = "intake",
        .queue = config->queue,
        .shard = config->shard,
        .entries_max = 1,
        .weight_max = TASK_ITEMS_MAX,
        .ops = &ops,
        .ctx = intake,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    *out = NULL;
    if (!intake)
        return err_fail(err, RC_FATAL, 0, "no memory for a task intake");
    intake->config = *config;
    rc = task_check_open(&intake->check, config->store, config->handlers, config->clock_ms, err);
    if (rc == RC_OK)
        rc = worker_init(&intake->worker, &worker, err);
    if (rc != RC_OK)
        task_intake_close(intake);
    else
        *out = intake;
    return rc;
}

int64_t task_intake_step(void *arg, int64_t now_ms)
{
    return worker_step(&((struct task_intake *)arg)->worker, now_ms);
}
