/* SPDX-License-Identifier: MIT */
#include "common/id.h"
#include "producer/http/api_answer.h"
#include "producer/http/api_routes.h"
#include "producer/task/beat_json.h"
#include "producer/task/task_json.h"

#include <stdio.h>
#include <string.h>

#define STATUS_NOT_MODIFIED 304
#define LIST_ROWS 50
#define LIST_ROWS_MAX 200
#define TAG_SIZE (RETRY_CONFIG_VERSION_SIZE + 2)

struct client_call {
    struct api_pending pending; /* first */
    struct beat_json json;      /* of a beat */
    /* Of the configuration. */
    char group[RETRY_NAME_BYTES_MAX + 1];
    char known[512];                       /* the header If-None-Match */
    char after[RETRY_CLIENT_ADDRESS_SIZE]; /* of the list */
};

static void free_call(struct api_pending *pending)
{
    beat_json_done(&((struct client_call *)pending)->json);
    buf_done(&pending->request.tasks.body);
}

static void answer_body(struct api_pending *pending)
{
    struct task_intake_request *request = &pending->request.tasks;

    if (request->failed)
        api_answer_fault(pending->http, &request->fault, 0);
    else
        api_answer(pending->http, 200, &request->body);
}

static void answer_config(struct api_pending *pending)
{
    struct task_intake_request *request = &pending->request.tasks;
    char tag[TAG_SIZE];

    if (request->failed) {
        api_answer_fault(pending->http, &request->fault, 0);
        return;
    }
    snprintf(tag, sizeof(tag), "\"%s\"", request->config_version);
    http_answer_header(pending->http, "ETag", tag);
    http_answer_header(pending->http, "Cache-Control", "no-cache");
    api_answer(pending->http, request->is_known ? STATUS_NOT_MODIFIED : 200, &request->body);
}

static const struct api_pending_kind beat_kind = {
    .answer = answer_body,
    .done = free_call,
    .unknown = "the client may have been registered, and sending the beat again is harmless",
};

static const struct api_pending_kind list_kind = {.answer = answer_body, .done = free_call};

static const struct api_pending_kind config_kind = {.answer = answer_config, .done = free_call};

static void put_call(const struct api_config *config, struct client_call *call,
                     enum task_intake_kind kind)
{
    call->pending.request.tasks.kind = kind;
    call->pending.request.tasks.entry.weight = 1;
    api_pending_put(&call->pending, config->tasks, queue_shard_least(config->tasks));
}

/* False: the token lacks the group, which has been answered. at: the place of the group's name. */
static bool check_group(struct http_request *http, const char *group, const char *at)
{
    struct request_fault fault;

    if (http_scopes_have_group(http_scopes(http), group))
        return true;
    request_fault_set(&fault, REQUEST_FAULT_NO_SCOPE, "this token lacks the scope tasks:%.64s",
                      group);
    request_fault_at(&fault, at);
    api_answer_fault(http, &fault, 0);
    return false;
}

void api_post_beat(const struct api_config *config, const struct api_call *api_call)
{
    struct http_request *http = api_call->http;
    struct client_call *call = api_pending_make(http, &beat_kind, sizeof(*call));
    struct request_fault fault;
    const char *body;
    size_t len;
    enum rc rc;

    if (!call)
        return;
    body = http_body(http, &len);
    rc = beat_json_parse(&call->json, config->settings->retry.http_hosts, body, len, &fault);
    if (rc == RC_OK && check_group(http, call->json.beat.group, "/group")) {
        call->json.beat.clients_max = config->settings->retry.clients_max;
        call->pending.request.tasks.beat = &call->json.beat;
        put_call(config, call, TASK_INTAKE_BEAT);
        return;
    }
    if (rc == RC_REJECT)
        api_answer_fault(http, &fault, 0);
    else if (rc != RC_OK)
        api_answer_no_memory(http);
    api_pending_free(&call->pending);
}

void api_get_config(const struct api_config *config, const struct api_call *api_call)
{
    struct http_request *http = api_call->http;
    const char *group = api_call->parameters[API_CONFIG_GROUP];
    const char *known = http_header(http, "If-None-Match");
    struct client_call *call;

    if (!task_json_is_name(group, RETRY_NAME_BYTES_MAX)) {
        api_answer_bad(http, REQUEST_FAULT_OUT_OF_RANGE, "group", "group is the name of a group");
        return;
    }
    if (!check_group(http, group, "group"))
        return;
    call = api_pending_make(http, &config_kind, sizeof(*call));
    if (!call)
        return;
    snprintf(call->group, sizeof(call->group), "%s", group);
    snprintf(call->known, sizeof(call->known), "%s", known ? known : "");
    call->pending.request.tasks.group = call->group;
    call->pending.request.tasks.known = call->known;
    put_call(config, call, TASK_INTAKE_CONFIG);
}

/* An operator sees the clients of any group. */
static bool is_operator(const struct api_config *config, struct http_request *http)
{
    return strcmp(config->settings->api.operate, "on") == 0 &&
           http_scopes_have(http_scopes(http), HTTP_SCOPE_OPERATE);
}

static bool keep_after(struct client_call *call, const char *text)
{
    if (!text)
        return true;
    for (const char *c = text; *c; c++)
        if (*c < '!' || *c > '~')
            return false;
    if (!*text || strlen(text) > RETRY_CLIENT_ADDRESS_BYTES_MAX)
        return false;
    snprintf(call->after, sizeof(call->after), "%s", text);
    call->pending.request.tasks.after_address = call->after;
    return true;
}

static bool keep_limit(struct client_call *call, const char *text)
{
    int64_t limit = LIST_ROWS;

    if (text && (!id_parse_number(text, strlen(text), &limit) || limit > LIST_ROWS_MAX))
        return false;
    call->pending.request.tasks.rows_max = (size_t)limit;
    return true;
}

void api_get_clients(const struct api_config *config, const struct api_call *api_call)
{
    struct http_request *http = api_call->http;
    const char *group = api_call->parameters[API_CONFIG_GROUP];
    struct client_call *call;
    const char *bad = NULL;

    if (task_json_is_name(group, RETRY_NAME_BYTES_MAX) && !is_operator(config, http) &&
        !check_group(http, group, "group"))
        return;
    call = api_pending_make(http, &list_kind, sizeof(*call));
    if (!call)
        return;
    if (!task_json_is_name(group, RETRY_NAME_BYTES_MAX))
        bad = "group";
    else if (!keep_limit(call, api_call->parameters[API_LIMIT]))
        bad = "limit";
    else if (!keep_after(call, api_call->parameters[API_AFTER_ADDRESS]))
        bad = "after";
    if (!bad) {
        snprintf(call->group, sizeof(call->group), "%s", group);
        call->pending.request.tasks.group = call->group;
        put_call(config, call, TASK_INTAKE_CLIENTS);
        return;
    }
    api_answer_bad(http, REQUEST_FAULT_OUT_OF_RANGE, bad,
                   "group is the name of a group, limit is 1 to 200, after is that of the page "
                   "before");
    api_pending_free(&call->pending);
}
