/* SPDX-License-Identifier: MIT */
#include "producer/http/api_routes.h"

#include "common/trace.h"
#include "outbox/retry/first_try.h"
#include "outbox/retry/handler.h"
#include "producer/http/api_answer.h"
#include "producer/serve_metrics.h"
#include "producer/task/retry_traffic.h"
#include "producer/task/task_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_ROWS 50
#define LIST_ROWS_MAX 200
#define FULL_WAIT_MS 5000

struct task_call {
    struct api_pending pending;        /* first */
    struct task_json tasks;            /* of TASK_INTAKE_SUBMIT, as the next ones */
    struct retry_traffic traffic;      /* its texts are valid until the request is queued */
    struct first_try_result first_try; /* of a task that is to be tried first */
    char traceparent[TRACE_SIZE];
    /* Of TASK_INTAKE_LIST: what the filter points to. */
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    char handler[RETRY_HANDLER_BYTES_MAX + 1];
    char biz_no[4 * RETRY_BIZ_NO_CHARS_MAX + 1];
    char biz_no_prefix[4 * RETRY_BIZ_NO_CHARS_MAX + 1];
    struct http_scopes scopes; /* of the token: the groups that it may see */
    const char *groups[HTTP_SCOPE_GROUPS_MAX];
};

/* 202: the task is not done, and a retry process goes on with it. */
static int choose_try_status(const struct first_try_result *result)
{
    bool blocked = result->state_known && result->state == TASK_BLOCKED;

    return result->ticket.existed || result->outcome[0] || blocked ? 200 : 202;
}

static void answer_try(struct task_call *call)
{
    struct first_try_result *result = &call->first_try;
    struct buf body = {0};

    result->ticket = call->tasks.items[0].ticket;
    if (task_json_names_call(call->tasks.items[0].task.options))
        result->answer = NULL;
    task_json_put_try(&body, result);
    api_answer(call->pending.http, choose_try_status(result), &body);
    buf_done(&body);
}

static void answer_tickets(struct task_call *call)
{
    const struct task_json *tasks = &call->tasks;
    struct http_request *http = call->pending.http;
    struct buf body = {0};
    struct request_fault fault;

    if (call->pending.request.tasks.first_try && !tasks->items[0].bad) {
        answer_try(call);
        return;
    }
    if (!task_json_answer(tasks, &body, &fault))
        api_answer_fault(http, &fault, FULL_WAIT_MS);
    else
        api_answer(http, tasks->array || tasks->items[0].ticket.existed ? 200 : 201, &body);
    buf_done(&body);
}

static void answer_tasks(struct api_pending *pending)
{
    struct task_intake_request *request = &pending->request.tasks;

    if (request->failed)
        api_answer_fault(pending->http, &request->fault, FULL_WAIT_MS);
    else if (request->kind == TASK_INTAKE_SUBMIT)
        answer_tickets((struct task_call *)pending);
    else
        api_answer(pending->http, 200, &request->body);
}

static void free_tasks(struct api_pending *pending)
{
    task_json_done(&((struct task_call *)pending)->tasks);
    buf_done(&pending->request.tasks.body);
}

static const struct api_pending_kind submit_kind = {
    .answer = answer_tasks,
    .done = free_tasks,
    .failed = &serve_tasks_refused,
    .unknown = "the tasks may have been taken, and sending them again is harmless",
};

static const struct api_pending_kind try_kind = {
    .answer = answer_tasks,
    .done = free_tasks,
    .failed = &serve_tasks_refused,
    .unknown = "the task may have been taken and run; sending it again finds it by its "
               "idempotencyKey while it is active, and later only if its scene has dedup",
};

static const struct api_pending_kind find_kind = {.answer = answer_tasks, .done = free_tasks};

/* NULL: there was no memory, which has been answered. */
static struct task_call *make_call(struct http_request *http, enum task_intake_kind kind)
{
    struct task_call *call = api_pending_make(
        http, kind == TASK_INTAKE_SUBMIT ? &submit_kind : &find_kind, sizeof(*call));

    if (call) {
        struct task_intake_request *request = &call->pending.request.tasks;

        call->scopes = *http_scopes(http);
        request->kind = kind;
        request->filter.until_ms = INT64_MAX;
        request->entry.weight = 1;
    }
    return call;
}

static void put_call(const struct api_config *config, struct task_call *call)
{
    if (call->pending.request.tasks.first_try && config->tries)
        api_pending_put(&call->pending, config->tries, 0);
    else
        api_pending_put(&call->pending, config->tasks, queue_shard_least(config->tasks));
}

static const char *group_of(const struct task_item *item)
{
    return item->task.group ? item->task.group : RETRY_GROUP_DEFAULT;
}

/* The names of the handlers whose tasks can be tried first. */
static void list_tried(const struct api_config *config, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; config->handlers && i < config->handlers->count; i++)
        if (config->handlers->list[i]->tries_first && len < size)
            len += (size_t)snprintf(text + len, size - len, "%s%s", len > 0 ? ", " : "",
                                    config->handlers->list[i]->name);
}

/* With try=1: the handler of the task is one that this program never tries first. */
static bool refuses_try(const struct api_config *config, const struct task_call *call,
                        struct task_item *item)
{
    const struct retry_handler *handler = retry_find_handler(config->handlers, item->task.handler);
    char names[80];

    if (!call->pending.request.tasks.first_try || !handler || handler->tries_first)
        return false;
    list_tried(config, names, sizeof(names));
    request_fault_set(&item->fault, REQUEST_FAULT_REFUSED,
                      "try=1 is for tasks of the handler %s; send this task without it", names);
    return true;
}

/* Marks the tasks that the token or this program does not allow. */
static void check_items(const struct api_config *config, struct task_call *call)
{
    struct task_json *tasks = &call->tasks;

    for (size_t i = 0; i < tasks->count; i++) {
        struct task_item *item = &tasks->items[i];
        const char *field = NULL;

        if (item->bad)
            continue;
        if (call->traceparent[0])
            item->task.traceparent = call->traceparent;
        if (!http_scopes_have_group(&call->scopes, group_of(item))) {
            request_fault_set(&item->fault, REQUEST_FAULT_NO_SCOPE,
                              "this token lacks the scope tasks:%.64s", group_of(item));
            field = "group";
        } else if (!task_intake_knows_handler(config->handlers, item->task.handler)) {
            request_fault_set(&item->fault, REQUEST_FAULT_OUT_OF_RANGE,
                              "there is no handler of this name");
            field = "handler";
        } else if (refuses_try(config, call, item)) {
            field = "handler";
        } else if (retry_traffic_refuses(&call->traffic, group_of(item), item->task.scene,
                                         &item->fault)) {
            field = "scene";
        }
        item->bad = field != NULL;
        if (item->bad)
            request_fault_place(&item->fault, tasks->array, i, field);
    }
}

/* False: no task is good, which has been answered. */
static bool submit_tasks(const struct api_config *config, struct task_call *call)
{
    struct task_intake_request *request = &call->pending.request.tasks;

    check_items(config, call);
    request->items = call->tasks.items;
    request->count = call->tasks.count;
    request->entry.weight = request->count;
    if (task_json_good(&call->tasks) > 0) {
        put_call(config, call);
        return true;
    }
    metric_add(&serve_tasks_refused, (int64_t)request->count);
    answer_tickets(call);
    return false;
}

/* Reads the query of a request that submits. False: it is bad, which has been answered. */
static bool read_try(const struct api_config *config, const struct api_call *api_call,
                     struct task_call *call)
{
    const char *text = api_call->parameters[API_TRY];

    if (!text)
        return true;
    if (strcmp(text, "1") != 0) {
        api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, "try",
                       "try is 1, or is left out");
        return false;
    }
    if (call->tasks.array) {
        api_answer_bad(api_call->http, REQUEST_FAULT_WRONG_TYPE, NULL,
                       "try=1 takes one task, not an array");
        return false;
    }
    call->pending.request.tasks.first_try = &call->first_try;
    call->pending.kind = &try_kind;
    call->first_try.reason_class = "";
    if (!config->tries)
        snprintf(call->first_try.reason, sizeof(call->first_try.reason),
                 "this server tries no task first: api.try_max is 0");
    return true;
}

void api_post_tasks(const struct api_config *config, const struct api_call *api_call)
{
    struct http_request *http = api_call->http;
    struct task_call *call = make_call(http, TASK_INTAKE_SUBMIT);
    struct request_fault fault;
    const char *body;
    size_t len;
    enum rc rc;

    if (!call)
        return;
    trace_read(http_header(http, TRACE_HEADER), call->traceparent);
    call->traffic.no_retry = http_header(http, HEADER_NO_RETRY) != NULL;
    call->traffic.scene = http_header(http, HEADER_SCENE);
    body = http_body(http, &len);
    rc = task_json_parse(&call->tasks, body, len, &fault);
    if (rc == RC_OK && read_try(config, api_call, call) && submit_tasks(config, call))
        return;
    if (rc == RC_REJECT)
        api_answer_fault(http, &fault, 0);
    else if (rc != RC_OK)
        api_answer_no_memory(http);
    api_pending_free(&call->pending);
}

static bool read_number(const char *text, int64_t max, int64_t *number)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0 && *number <= max;
}

/* Active tasks have a state, ended ones an outcome; "active" and "ended" stand for all of them. */
static bool read_state(struct task_call *call, const char *text)
{
    static const char *const outcomes[] = {"done", "exhausted", "cancelled"};
    struct retry_filter *filter = &call->pending.request.tasks.filter;

    if (strcmp(text, "active") == 0)
        return true;
    call->pending.request.tasks.ended = true;
    if (strcmp(text, "ended") == 0)
        return true;
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        if (strcmp(text, outcomes[i]) == 0) {
            filter->outcome = outcomes[i];
            return true;
        }
    call->pending.request.tasks.ended = false;
    for (unsigned i = 0; i < TASK_STATES; i++)
        if (strcmp(text, task_state_name((enum task_state)i)) == 0) {
            filter->states = 1U << i;
            return true;
        }
    return false;
}

/* Copies a query parameter, which the HTTP request owns, to where *out points afterwards. False: it
 * is no name of at most bytes_max bytes. */
static bool keep_name(char *place, size_t bytes_max, const char *text, const char **out)
{
    if (!text)
        return true;
    if (!task_json_is_name(text, bytes_max))
        return false;
    memcpy(place, text, strlen(text) + 1);
    *out = place;
    return true;
}

static bool keep_biz_no(char *place, const char *text, const char **out)
{
    if (!text)
        return true;
    if (!task_json_is_text(text, RETRY_BIZ_NO_CHARS_MAX))
        return false;
    memcpy(place, text, strlen(text) + 1);
    *out = place;
    return true;
}

static bool keep_class(const char *text, const char **out)
{
    static const char *const classes[] = {"transient", "refused", "ours"};

    for (size_t i = 0; text && i < sizeof(classes) / sizeof(classes[0]); i++)
        if (strcmp(text, classes[i]) == 0)
            *out = classes[i];
    return !text || *out;
}

static bool keep_time(const char *text, int64_t *ms)
{
    return !text || read_number(text, API_TIME_MS_MAX, ms);
}

/* An operator finds the tasks of all groups and origins. */
static bool is_operator(const struct api_config *config, const struct task_call *call)
{
    return strcmp(config->settings->api.operate, "on") == 0 &&
           http_scopes_have(&call->scopes, HTTP_SCOPE_OPERATE);
}

/* Only tasks of clients are found, in the groups of the token: a role may use a group of the same
 * name. */
static void limit_groups(const struct api_config *config, struct task_call *call)
{
    struct retry_filter *filter = &call->pending.request.tasks.filter;

    if (is_operator(config, call))
        return;
    for (size_t i = 0; i < call->scopes.group_count; i++)
        call->groups[i] = call->scopes.groups[i];
    filter->origin = retry_owner_name(OWNER_CLIENT);
    filter->groups = call->groups;
    filter->group_count = call->scopes.group_count;
}

/* What the query parameters may be. */
static const struct {
    const char *name;
    const char *may_be;
} filter_words[] = {
    {"state",
     "active, ended, waiting, running, queued, blocked, parked, done, exhausted or cancelled"},
    {"group", "a name of 1 to 64 letters, digits and _.:-"},
    {"scene", "a name of 1 to 64 letters, digits and _.:-"},
    {"handler", "a name of 1 to 32 letters, digits and _.:-"},
    {"bizNo", "a text of 1 to 64 characters"},
    {"bizNoPrefix", "a text of 1 to 64 characters"},
    {"reasonClass", "transient, refused or ours"},
    {"since", "a time in ms since 1970"},
    {"until", "a time in ms since 1970"},
    {"limit", "a number from 1 to 200"},
    {"after", "the id of a task"},
};

static void answer_bad_filter(struct http_request *http, const char *bad)
{
    struct request_fault fault;
    const char *may_be = "";

    for (size_t i = 0; i < sizeof(filter_words) / sizeof(filter_words[0]); i++)
        if (strcmp(filter_words[i].name, bad) == 0)
            may_be = filter_words[i].may_be;
    request_fault_set(&fault, REQUEST_FAULT_OUT_OF_RANGE, "%s is %s", bad, may_be);
    request_fault_at(&fault, bad);
    api_answer_fault(http, &fault, 0);
}

/* The name of the query parameter that is bad, or NULL. */
static const char *read_filter(struct task_call *call, const char *const *parameters)
{
    struct task_intake_request *request = &call->pending.request.tasks;
    struct retry_filter *filter = &request->filter;
    int64_t limit = LIST_ROWS;

    if (parameters[API_STATE] && !read_state(call, parameters[API_STATE]))
        return "state";
    if (!keep_name(call->group, RETRY_NAME_BYTES_MAX, parameters[API_GROUP], &filter->group))
        return "group";
    if (!keep_name(call->scene, RETRY_NAME_BYTES_MAX, parameters[API_SCENE], &filter->scene))
        return "scene";
    if (!keep_name(call->handler, RETRY_HANDLER_BYTES_MAX, parameters[API_HANDLER],
                   &filter->handler))
        return "handler";
    if (!keep_biz_no(call->biz_no, parameters[API_BIZ_NO], &filter->biz_no))
        return "bizNo";
    if (!keep_biz_no(call->biz_no_prefix, parameters[API_BIZ_NO_PREFIX], &filter->biz_no_prefix))
        return "bizNoPrefix";
    if (!keep_class(parameters[API_REASON_CLASS], &filter->reason_class))
        return "reasonClass";
    if (!keep_time(parameters[API_SINCE], &filter->since_ms))
        return "since";
    if (!keep_time(parameters[API_UNTIL], &filter->until_ms))
        return "until";
    if (parameters[API_LIMIT] &&
        (!read_number(parameters[API_LIMIT], LIST_ROWS_MAX, &limit) || limit == 0))
        return "limit";
    if (parameters[API_AFTER] && !read_number(parameters[API_AFTER], INT64_MAX, &filter->after))
        return "after";
    request->rows_max = (size_t)limit;
    return NULL;
}

void api_get_tasks(const struct api_config *config, const struct api_call *api_call)
{
    struct http_request *http = api_call->http;
    struct task_call *call = make_call(http, TASK_INTAKE_LIST);
    struct request_fault fault;
    const char *bad;

    if (!call)
        return;
    limit_groups(config, call);
    bad = read_filter(call, api_call->parameters);
    if (bad) {
        answer_bad_filter(http, bad);
    } else if (api_call->parameters[API_GROUP] && !is_operator(config, call) &&
               !http_scopes_have_group(&call->scopes, call->group)) {
        request_fault_set(&fault, REQUEST_FAULT_NO_SCOPE, "this token lacks the scope tasks:%.64s",
                          call->group);
        request_fault_at(&fault, "group");
        api_answer_fault(http, &fault, 0);
    } else {
        put_call(config, call);
        return;
    }
    api_pending_free(&call->pending);
}

void api_get_task(const struct api_config *config, const struct api_call *api_call)
{
    struct task_call *call;
    int64_t id;

    if (!read_number(api_call->id, INT64_MAX, &id) || id == 0) {
        api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, NULL,
                       "the id of a task in the path must be a number");
        return;
    }
    call = make_call(api_call->http, TASK_INTAKE_SHOW);
    if (!call)
        return;
    limit_groups(config, call);
    call->pending.request.tasks.id = id;
    put_call(config, call);
}
