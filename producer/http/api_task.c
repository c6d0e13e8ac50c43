/* SPDX-License-Identifier: MIT */
#include "producer/http/api_parts.h"

#include "common/os.h"
#include "producer/serve_metrics.h"
#include "producer/task/task_check.h"
#include "producer/task/task_intake.h"
#include "producer/task/task_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_ROWS 50
#define LIST_ROWS_MAX 200
#define WORD_SIZE 2100 /* room for 512 characters */
#define FULL_WAIT_MS 5000

/* A request about tasks between the server's thread and its answer. */
struct errand {
    struct task_intake_request request; /* first */
    struct http_request *http;
    struct task_json tasks; /* of TASK_INTAKE_SUBMIT */
    char group[WORD_SIZE];  /* of TASK_INTAKE_LIST, as the filter points to them */
    char scene[WORD_SIZE];
    char biz_no[WORD_SIZE];
    char outcome[WORD_SIZE];
    struct http_scopes scopes; /* whose groups may be seen */
    const char *groups[HTTP_SCOPE_GROUPS_MAX];
};

static void answer_submit(struct errand *errand)
{
    const struct task_json *tasks = &errand->tasks;
    struct buf body = {0};
    struct fault fault;

    if (!task_json_answer(tasks, &body, &fault))
        api_answer_fault(errand->http, &fault, FULL_WAIT_MS);
    else
        api_answer(errand->http, tasks->array || tasks->items[0].ticket.existed ? 200 : 201, &body);
    buf_done(&body);
}

static void errand_answer(struct queue_entry *entry, enum queue_end end)
{
    struct errand *errand = (struct errand *)entry;
    struct task_intake_request *request = &errand->request;

    if (end != QUEUE_DONE) {
        if (request->kind == TASK_INTAKE_SUBMIT)
            metric_add(&serve_tasks_refused, (int64_t)request->count);
        api_answer_end(errand->http, end,
                       request->kind == TASK_INTAKE_SUBMIT ? "the tasks may have been taken"
                                                           : NULL);
    } else if (request->failed) {
        api_answer_fault(errand->http, &request->fault, FULL_WAIT_MS);
    } else if (request->kind == TASK_INTAKE_SUBMIT) {
        answer_submit(errand);
    } else {
        api_answer(errand->http, 200, &request->body);
    }
}

static void errand_release(struct queue_entry *entry)
{
    struct errand *errand = (struct errand *)entry;

    task_json_done(&errand->tasks);
    buf_done(&errand->request.body);
    free(errand);
}

/* NULL: there was no memory, which was answered. */
static struct errand *errand_make(struct http_request *http, enum task_intake_kind kind)
{
    struct errand *errand = calloc(1, sizeof(*errand));

    if (!errand) {
        api_answer_no_memory(http);
        return NULL;
    }
    errand->http = http;
    errand->scopes = *http_scopes(http);
    errand->request.kind = kind;
    errand->request.filter.until_ms = INT64_MAX;
    errand->request.entry.weight = 1;
    errand->request.entry.answer = errand_answer;
    errand->request.entry.release = errand_release;
    return errand;
}

/* From here on the errand belongs to the queue, or is gone. */
static void errand_queue(struct api *api, struct errand *errand)
{
    struct queue *queue = api->config.tasks;
    struct http_request *http = errand->http;
    int64_t wait_ms;
    enum queue_verdict verdict =
        queue_put(queue, queue_shard_least(queue), &errand->request.entry, os_now_ms(), &wait_ms);

    if (verdict == QUEUE_TAKEN)
        return;
    if (errand->request.kind == TASK_INTAKE_SUBMIT)
        metric_add(&serve_tasks_refused, (int64_t)errand->request.count);
    errand_release(&errand->request.entry);
    api_answer_verdict(http, verdict, wait_ms);
}

static const char *group_of(const struct task_item *item)
{
    return item->task.group ? item->task.group : RETRY_GROUP_STANDARD;
}

static void items_look(const struct api *api, struct errand *errand)
{
    struct task_json *tasks = &errand->tasks;

    for (size_t i = 0; i < tasks->count; i++) {
        struct task_item *item = &tasks->items[i];
        const char *field = NULL;

        if (item->bad)
            continue;
        if (!http_scopes_have_group(&errand->scopes, group_of(item))) {
            fault_set(&item->fault, FAULT_NO_SCOPE, "this token lacks the scope tasks:%.64s",
                      group_of(item));
            field = "group";
        } else if (!task_check_known(api->config.handlers, item->task.handler)) {
            fault_set(&item->fault, FAULT_OUT_OF_RANGE, "there is no handler of this name");
            field = "handler";
        }
        item->bad = field != NULL;
        if (item->bad)
            fault_place(&item->fault, tasks->array, i, field);
    }
}

static void body_take(struct api *api, struct errand *errand)
{
    struct fault fault;
    size_t len;
    const char *body = http_body(errand->http, &len);
    enum rc rc = task_json_parse(&errand->tasks, body, len, &fault);

    if (rc == RC_OK) {
        struct task_intake_request *request = &errand->request;

        items_look(api, errand);
        request->items = errand->tasks.items;
        request->count = errand->tasks.count;
        request->entry.weight = request->count;
        if (task_json_good(&errand->tasks) > 0) {
            errand_queue(api, errand);
            return;
        }
        metric_add(&serve_tasks_refused, (int64_t)request->count);
        answer_submit(errand);
    } else if (rc == RC_REJECT) {
        api_answer_fault(errand->http, &fault, 0);
    } else {
        api_answer_no_memory(errand->http);
    }
    errand_release(&errand->request.entry);
}

void api_post_tasks(struct api *api, struct http_request *request)
{
    struct errand *errand;

    if (!api_body_is_json(request))
        return;
    errand = errand_make(request, TASK_INTAKE_SUBMIT);
    if (errand)
        body_take(api, errand);
}

static void answer_bad(struct http_request *request, enum fault_code code, const char *at,
                       const char *message)
{
    struct fault fault;

    fault_set(&fault, code, "%s", message);
    if (at)
        fault_at(&fault, at);
    api_answer_fault(request, &fault, 0);
}

static bool number_read(const char *text, int64_t max, int64_t *number)
{
    char *end;

    if (*text < '0' || *text > '9' || strlen(text) > 18)
        return false;
    *number = strtoll(text, &end, 10);
    return *end == '\0' && *number <= max;
}

/* "waiting" ... are of active tasks, "done" ... of ended ones, "active" and "ended" are all of a
 * kind. */
static bool state_read(struct errand *errand, const char *text)
{
    static const char *const outcomes[] = {"done", "exhausted", "cancelled"};
    struct retry_filter *filter = &errand->request.filter;

    if (strcmp(text, "active") == 0)
        return true;
    errand->request.ended = true;
    if (strcmp(text, "ended") == 0)
        return true;
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        if (strcmp(text, outcomes[i]) == 0) {
            snprintf(errand->outcome, sizeof(errand->outcome), "%s", text);
            filter->outcome = errand->outcome;
            return true;
        }
    errand->request.ended = false;
    for (unsigned i = 0; i < TASK_STATES; i++)
        if (strcmp(text, task_state_name((enum task_state)i)) == 0) {
            filter->states = 1U << i;
            return true;
        }
    return false;
}

/* Copies what must outlive the HTTP request's arguments. */
static bool word_keep(char *place, const char *text, const char **out)
{
    if (!text)
        return true;
    *out = place;
    return *text && snprintf(place, WORD_SIZE, "%s", text) < WORD_SIZE;
}

/* Only tasks that clients made in these are found: a role's group may have a client's name. */
static void groups_limit(struct errand *errand)
{
    struct retry_filter *filter = &errand->request.filter;

    for (size_t i = 0; i < errand->scopes.group_count; i++)
        errand->groups[i] = errand->scopes.groups[i];
    filter->origin = retry_owner_name(OWNER_CLIENT);
    filter->groups = errand->groups;
    filter->group_count = errand->scopes.group_count;
}

static const char *list_read(struct errand *errand, const struct api_arguments *arguments)
{
    struct task_intake_request *request = &errand->request;
    struct retry_filter *filter = &request->filter;
    int64_t limit = LIST_ROWS;

    if (arguments->state && !state_read(errand, arguments->state))
        return "state";
    if (!word_keep(errand->group, arguments->group, &filter->group))
        return "group";
    if (!word_keep(errand->scene, arguments->scene, &filter->scene))
        return "scene";
    if (!word_keep(errand->biz_no, arguments->biz_no, &filter->biz_no))
        return "bizNo";
    if (arguments->limit && (!number_read(arguments->limit, LIST_ROWS_MAX, &limit) || limit == 0))
        return "limit";
    if (arguments->after && !number_read(arguments->after, INT64_MAX, &filter->after))
        return "after";
    request->rows_max = (size_t)limit;
    return NULL;
}

void api_get_tasks(struct api *api, struct http_request *request)
{
    struct api_arguments arguments;
    struct errand *errand;
    struct fault fault;
    const char *bad;

    if (!api_arguments_read(request, API_OF_TASKS, &arguments))
        return;
    errand = errand_make(request, TASK_INTAKE_LIST);
    if (!errand)
        return;
    groups_limit(errand);
    bad = list_read(errand, &arguments);
    if (!bad && arguments.group && !http_scopes_have_group(&errand->scopes, errand->group)) {
        fault_set(&fault, FAULT_NO_SCOPE, "this token lacks the scope tasks:%.64s", errand->group);
        fault_at(&fault, "group");
        errand_release(&errand->request.entry);
        api_answer_fault(request, &fault, 0);
        return;
    }
    if (!bad) {
        errand_queue(api, errand);
        return;
    }
    errand_release(&errand->request.entry);
    answer_bad(request, FAULT_OUT_OF_RANGE, bad,
               "state is active, ended, waiting, running, queued, blocked, parked, done, exhausted "
               "or cancelled; limit is 1 to 200, after an id, the others are texts");
}

void api_get_task(struct api *api, struct http_request *request, const char *id)
{
    struct api_arguments none;
    struct errand *errand;
    int64_t number;

    if (!api_arguments_read(request, 0, &none))
        return;
    if (!number_read(id, INT64_MAX, &number) || number == 0) {
        answer_bad(request, FAULT_OUT_OF_RANGE, NULL,
                   "the id of a task in the path must be a number");
        return;
    }
    errand = errand_make(request, TASK_INTAKE_SHOW);
    if (!errand)
        return;
    groups_limit(errand);
    errand->request.id = number;
    errand_queue(api, errand);
}
