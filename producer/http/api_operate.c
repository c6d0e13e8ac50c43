/* SPDX-License-Identifier: MIT */
#include "common/id.h"
#include "producer/http/api_answer.h"
#include "producer/http/api_routes.h"
#include "producer/task/operation_json.h"

#include <inttypes.h>
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
