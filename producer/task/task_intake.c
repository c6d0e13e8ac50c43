/* SPDX-License-Identifier: MIT */
#include "producer/task/task_intake.h"

#include "common/log.h"
#include "producer/serve_metrics.h"
#include "producer/task/task_check.h"
#include "producer/task/task_json.h"
#include "producer/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOMS 64

/* What a scene and its group said, and when that is to be asked again. */
struct room {
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    int64_t until_ms; /* 0: nothing is known */
    struct retry_room said;
    struct retry_group group_row;
    bool has_group;
    struct buf options;
};

struct task_intake {
    struct task_intake_config config;
    struct worker worker;
    struct task_intake_request *request; /* in hand, or NULL */
    struct room rooms[ROOMS];
    size_t room_next; /* to be taken for another scene */
    const char *names[TASK_HANDLERS_MAX];
    size_t name_count;
    struct retry_new_task tasks[TASK_ITEMS_MAX];
    struct retry_ticket tickets[TASK_ITEMS_MAX];
    bool broken; /* said in the log */
};

static void hand_set(void *ctx, struct queue_entry **entries, size_t count)
{
    ((struct task_intake *)ctx)->request =
        count > 0 ? (struct task_intake_request *)entries[0] : NULL;
}

static const char *group_of(const struct task_item *item)
{
    return item->task.group ? item->task.group : RETRY_GROUP_STANDARD;
}

static struct room *room_known(struct task_intake *intake, const struct task_item *item)
{
    for (size_t i = 0; i < ROOMS; i++) {
        struct room *room = &intake->rooms[i];

        if (room->until_ms != 0 && strcmp(room->scene, item->task.scene) == 0 &&
            strcmp(room->group, group_of(item)) == 0)
            return room;
    }
    return NULL;
}

static enum rc room_find(struct task_intake *intake, const struct task_item *item,
                         struct room **out, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct room *room = room_known(intake, item);
    int64_t now_ms = intake->config.clock_ms();
    enum rc rc;

    if (!room) {
        room = &intake->rooms[intake->room_next];
        intake->room_next = (intake->room_next + 1) % ROOMS;
        snprintf(room->group, sizeof(room->group), "%s", group_of(item));
        snprintf(room->scene, sizeof(room->scene), "%s", item->task.scene);
        room->until_ms = 0;
    }
    *out = room;
    if (room->until_ms > now_ms)
        return RC_OK;
    buf_reset(&room->options);
    rc = store->room(store->ctx, room->group, room->scene, intake->names, intake->name_count,
                     &room->said, &room->options, err);
    if (rc == RC_OK)
        rc = store->group(store->ctx, room->group, &room->group_row, &room->has_group, err);
    room->until_ms = rc == RC_OK ? now_ms + TASK_INTAKE_ROOM_MS : 0;
    return rc;
}

static void item_refuse(struct task_intake_request *request, size_t index,
                        enum request_fault_code code, const char *words)
{
    struct task_item *item = &request->items[index];
    char at[24];

    item->bad = true;
    request_fault_set(&item->fault, code, "%s", words);
    snprintf(at, sizeof(at), "/%zu", index);
    if (request->count > 1)
        request_fault_at(&item->fault, at);
}

/* May this task be taken? RC_OK also when it may not: it is bad then. */
static enum rc item_look(struct task_intake *intake, size_t index, struct room **room,
                         struct err *err)
{
    struct task_intake_request *request = intake->request;
    struct task_item *item = &request->items[index];
    struct err fault = {0};
    char words[200];
    enum rc rc = room_find(intake, item, room, err);

    if (rc != RC_OK)
        return rc;
    rc = task_check(intake->config.handlers, &item->task,
                    (*room)->has_group ? &(*room)->group_row : NULL, buf_text(&(*room)->options),
                    &fault);
    if (rc == RC_REJECT) {
        item_refuse(request, index,
                    fault.code == TASK_NOT_ALLOWED ? REQUEST_FAULT_NO_SCOPE : REQUEST_FAULT_REFUSED,
                    fault.text);
    } else if (rc != RC_OK) {
        *err = fault;
        return rc;
    } else if ((*room)->said.limit > 0 && (*room)->said.pending >= (*room)->said.limit) {
        snprintf(words, sizeof(words),
                 "scene %.64s is full: %" PRId64 " of its tasks wait; send this one again later",
                 item->task.scene, (*room)->said.pending);
        item_refuse(request, index, REQUEST_FAULT_FULL, words);
    } else {
        (*room)->said.pending++;
    }
    return RC_OK;
}

static void tickets_give(struct task_intake *intake)
{
    struct task_intake_request *request = intake->request;
    size_t next = 0;

    for (size_t i = 0; i < request->count; i++) {
        struct room *room;

        if (request->items[i].bad)
            continue;
        request->items[i].ticket = intake->tickets[next++];
        room = room_known(intake, &request->items[i]);
        if (request->items[i].ticket.existed && room && room->said.pending > 0)
            room->said.pending--;
    }
}

static enum rc submit(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    size_t count = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < request->count; i++) {
        struct room *room;

        if (!request->items[i].bad)
            rc = item_look(intake, i, &room, err);
        if (rc == RC_OK && !request->items[i].bad)
            intake->tasks[count++] = request->items[i].task;
    }
    if (rc != RC_OK || count == 0)
        return rc;
    rc = store->append(store->ctx, intake->tasks, count, intake->tickets, err);
    if (rc == RC_OK)
        tickets_give(intake);
    return rc;
}

struct putting {
    struct buf *body;
    size_t rows;
    bool whole;
    bool parked;
};

static enum rc view_put(void *ctx, const struct retry_view *view, struct err *err)
{
    struct putting *putting = ctx;

    (void)err;
    if (putting->whole && !view->outcome && view->state == TASK_PARKED) {
        putting->parked = true; /* the history has all of it */
        return RC_OK;
    }
    if (putting->rows++ > 0)
        buf_char(putting->body, ',');
    task_json_put(putting->body, view, putting->whole);
    if (putting->whole)
        buf_text_put(putting->body, putting->parked ? ",\"parked\":true" : ",\"parked\":false");
    else
        buf_char(putting->body, '}');
    return RC_OK;
}

static enum rc attempt_put(void *ctx, const struct retry_attempt_view *attempt, struct err *err)
{
    struct putting *putting = ctx;

    (void)err;
    if (putting->rows++ > 0)
        buf_char(putting->body, ',');
    task_json_put_attempt(putting->body, attempt);
    return RC_OK;
}

static enum rc list(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    struct putting putting = {.body = &request->body};
    struct retry_page page;
    enum rc rc;

    buf_reset(&request->body);
    buf_text_put(&request->body, "{\"tasks\":[");
    rc = store->find(store->ctx, request->ended, &request->filter, false, request->rows_max,
                     view_put, &putting, &page, err);
    if (rc == RC_OK)
        buf_print(&request->body, "],\"more\":%s,\"after\":%" PRId64 "}",
                  page.more ? "true" : "false", page.after);
    return rc;
}

static enum rc show(struct task_intake *intake, struct err *err)
{
    const struct task_store *store = intake->config.store;
    struct task_intake_request *request = intake->request;
    struct putting putting = {.body = &request->body, .whole = true};
    struct retry_page page;
    enum rc rc;

    buf_reset(&request->body);
    request->filter.ids = &request->id;
    request->filter.id_count = 1;
    rc = store->find(store->ctx, false, &request->filter, true, 1, view_put, &putting, &page, err);
    if (rc == RC_OK && putting.rows == 0)
        rc = store->find(store->ctx, true, &request->filter, true, 1, view_put, &putting, &page,
                         err);
    if (rc != RC_OK)
        return rc;
    if (putting.rows == 0) {
        request->failed = true;
        request_fault_set(&request->fault, REQUEST_FAULT_NOT_FOUND,
                          "there is no task %" PRId64 " in the groups of this token", request->id);
        return RC_OK;
    }
    putting.rows = 0;
    buf_text_put(&request->body, ",\"attempts\":[");
    rc = store->attempts(store->ctx, request->id, attempt_put, &putting, err);
    buf_text_put(&request->body, "]}");
    return rc;
}

/* A right or a table that is missing is no reason to take the votes down with it. */
static void request_break(struct task_intake *intake, const struct err *err)
{
    if (!intake->broken)
        log_error(LOG_ERROR, "task_intake_failed", err,
                  "role=serve text=\"the retry queue cannot be asked\"");
    intake->broken = true;
    intake->request->failed = true;
    request_fault_set(
        &intake->request->fault, REQUEST_FAULT_AWAY,
        "the retry queue cannot be used here, the server's log says why; nothing was done");
}

static void request_reject(struct task_intake *intake, const struct err *err)
{
    intake->request->failed = true;
    request_fault_set(&intake->request->fault, REQUEST_FAULT_REFUSED, "%s; nothing was done",
                      err->code == 0 ? err->text : "the database refuses one of the tasks");
}

static enum rc hand_attempt(void *ctx, bool *finished, struct err *err)
{
    struct task_intake *intake = ctx;
    enum rc rc = RC_OK;

    switch (intake->request->kind) {
    case TASK_INTAKE_SUBMIT:
        rc = submit(intake, err);
        break;
    case TASK_INTAKE_LIST:
        rc = list(intake, err);
        break;
    case TASK_INTAKE_SHOW:
        rc = show(intake, err);
        break;
    }
    *finished = rc != RC_RETRY;
    if (rc == RC_FATAL)
        request_break(intake, err);
    if (rc == RC_REJECT)
        request_reject(intake, err);
    if (rc == RC_OK)
        intake->broken = false;
    return rc == RC_RETRY ? RC_RETRY : RC_OK;
}

static void hand_finished(void *ctx)
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
    .set = hand_set,
    .attempt = hand_attempt,
    .finished = hand_finished,
    .ping = database_ping,
    .collided = database_collided,
};

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
    intake->name_count = task_check_names(config->handlers, intake->names);
    rc = worker_init(&intake->worker, &worker, err);
    if (rc != RC_OK)
        free(intake);
    else
        *out = intake;
    return rc;
}

void task_intake_close(struct task_intake *intake)
{
    if (!intake)
        return;
    worker_done(&intake->worker);
    for (size_t i = 0; i < ROOMS; i++)
        buf_done(&intake->rooms[i].options);
    free(intake);
}

int64_t task_intake_step(void *arg, int64_t now_ms)
{
    return worker_step(&((struct task_intake *)arg)->worker, now_ms);
}
