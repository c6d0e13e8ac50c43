/* SPDX-License-Identifier: MIT */
#include "producer/http/api_answer.h"
#include "producer/http/api_routes.h"
#include "producer/task/beat_json.h"
#include "producer/task/task_json.h"

#include <stdio.h>
#include <string.h>

#define STATUS_NOT_MODIFIED 304
#define TAG_SIZE (RETRY_CONFIG_VERSION_SIZE + 2)

struct client_call {
    struct api_pending pending; /* first */
    struct beat_json json;      /* of a beat */
    /* Of the configuration. */
    char group[RETRY_NAME_BYTES_MAX + 1];
    char known[512]; /* the header If-None-Match */
};

static void free_call(struct api_pending *pending)
{
    beat_json_done(&((struct client_call *)pending)->json);
    buf_done(&pending->request.tasks.body);
}

static void answer_beat(struct api_pending *pending)
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
    .answer = answer_beat,
    .done = free_call,
    .unknown = "the client may have been registered, and sending the beat again is harmless",
};

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
