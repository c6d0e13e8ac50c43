/* SPDX-License-Identifier: MIT */
#include "common/id.h"
#include "producer/http/api_answer.h"
#include "producer/http/api_routes.h"
#include "producer/task/operation_json.h"
#include "producer/task/task_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct operate_call {
    struct api_pending pending; /* first */
    struct operation_json json;
};

static void answer_operation(struct api_pending *pending)
{
    const struct task_intake_request *request = &pending->request.tasks;

    if (request->failed)
        api_answer_fault(pending->http, &request->fault, 0);
    else
        api_answer(pending->http, 200, &pending->request.tasks.body);
}

static void free_operation(struct api_pending *pending)
{
    operation_json_done(&((struct operate_call *)pending)->json);
    buf_done(&pending->request.tasks.body);
}

static const struct api_pending_kind operate_kind = {
    .answer = answer_operation,
    .done = free_operation,
    .unknown = "the action may have been done, and sending it again is harmless",
};

static void operate(const struct api_config *config, const struct api_call *api_call,
                    enum retry_operation_kind kind)
{
    struct http_request *http = api_call->http;
    struct operate_call *call;
    struct request_fault fault;
    const char *body;
    size_t len;
    int64_t id;
    enum rc rc;

    if (!id_parse_number(api_call->id, strlen(api_call->id), &id)) {
        api_answer_bad(http, REQUEST_FAULT_OUT_OF_RANGE, NULL,
                       "the id of a task in the path must be a number");
        return;
    }
    call = api_pending_make(http, &operate_kind, sizeof(*call));
    if (!call)
        return;
    body = http_body(http, &len);
    rc = operation_json_parse(&call->json, kind, http_scopes(http)->token, body, len, &fault);
    if (rc == RC_OK) {
        struct task_intake_request *request = &call->pending.request.tasks;

        call->json.operation.id = id;
        request->kind = TASK_INTAKE_OPERATE;
        request->operation = &call->json.operation;
        request->entry.weight = 1;
        api_pending_put(&call->pending, config->tasks, queue_shard_least(config->tasks));
        return;
    }
    if (rc == RC_REJECT)
        api_answer_fault(http, &fault, 0);
    else
        api_answer_no_memory(http);
    api_pending_free(&call->pending);
}

#define LIST_ROWS 50
#define LIST_ROWS_MAX 200
#define BY_CHARS_MAX 128

struct audit_call {
    struct api_pending pending; /* first */
    char by[4 * BY_CHARS_MAX + 1];
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
};

static void free_audit(struct api_pending *pending)
{
    buf_done(&pending->request.tasks.body);
}

static const struct api_pending_kind audit_kind = {.answer = answer_operation, .done = free_audit};

static bool read_number(const char *text, int64_t max, int64_t *number)
{
    return !text ||
           (strcmp(text, "0") == 0 ? (*number = 0, true)
                                   : id_parse_number(text, strlen(text), number) && *number <= max);
}

static bool keep_text(char *place, size_t size, const char *text, bool good, const char **out)
{
    if (!text)
        return true;
    if (!good || strlen(text) >= size)
        return false;
    snprintf(place, size, "%s", text);
    *out = place;
    return true;
}

static bool keep_name(char *place, const char *text, const char **out)
{
    return keep_text(place, RETRY_NAME_BYTES_MAX + 1, text,
                     text && task_json_is_name(text, RETRY_NAME_BYTES_MAX), out);
}

/* The name of the query parameter that is bad, or NULL. */
static const char *read_audit_query(struct audit_call *call, const char *const *parameters)
{
    struct task_intake_request *request = &call->pending.request.tasks;
    struct retry_action_filter *filter = &request->actions;
    const char *by = parameters[API_BY];
    int64_t limit = LIST_ROWS;

    filter->until_ms = INT64_MAX;
    if (!keep_text(call->by, sizeof(call->by), by, by && task_json_is_text(by, BY_CHARS_MAX),
                   &filter->by))
        return "by";
    if (!keep_name(call->group, parameters[API_GROUP], &filter->group))
        return "group";
    if (!keep_name(call->scene, parameters[API_SCENE], &filter->scene))
        return "scene";
    if (!read_number(parameters[API_SINCE], API_TIME_MS_MAX, &filter->since_ms))
        return "since";
    if (!read_number(parameters[API_UNTIL], API_TIME_MS_MAX, &filter->until_ms))
        return "until";
    if (!read_number(parameters[API_LIMIT], LIST_ROWS_MAX, &limit) || limit == 0)
        return "limit";
    if (!read_number(parameters[API_AFTER], INT64_MAX, &filter->after))
        return "after";
    request->rows_max = (size_t)limit;
    return NULL;
}

void api_get_audit(const struct api_config *config, const struct api_call *api_call)
{
    struct audit_call *call = api_pending_make(api_call->http, &audit_kind, sizeof(*call));
    const char *bad;

    if (!call)
        return;
    bad = read_audit_query(call, api_call->parameters);
    if (bad) {
        api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, bad,
                       "group and scene are names, by has 1 to 128 characters, since and until are "
                       "ms since 1970, limit is 1 to 200, after an id");
        api_pending_free(&call->pending);
        return;
    }
    call->pending.request.tasks.kind = TASK_INTAKE_AUDIT;
    call->pending.request.tasks.entry.weight = 1;
    api_pending_put(&call->pending, config->tasks, queue_shard_least(config->tasks));
}

void api_run_task(const struct api_config *config, const struct api_call *call)
{
    operate(config, call, OPERATION_RUN_NOW);
}

void api_cancel_task(const struct api_config *config, const struct api_call *call)
{
    operate(config, call, OPERATION_CANCEL);
}

void api_unpark_task(const struct api_config *config, const struct api_call *call)
{
    operate(config, call, OPERATION_UNPARK);
}

void api_requeue_task(const struct api_config *config, const struct api_call *call)
{
    operate(config, call, OPERATION_REQUEUE);
}

void api_edit_task(const struct api_config *config, const struct api_call *call)
{
    operate(config, call, OPERATION_EDIT);
}
