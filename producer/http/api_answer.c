/* SPDX-License-Identifier: MIT */
#include "producer/http/api_parts.h"

#include "producer/serve_metrics.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define STATUS_UNAVAILABLE 503
#define JSON_TYPE "application/json"
#define WAIT_MS 1000 /* when nobody knows better */

static void answer(struct http_request *request, int status, const void *body, size_t len)
{
    metric_add(status < 300   ? &serve_answers_2xx
               : status < 500 ? &serve_answers_4xx
                              : &serve_answers_5xx,
               1);
    http_answer(request, status, len > 0 ? JSON_TYPE : NULL, body, len);
}

void api_answer(struct http_request *request, int status, struct buf *body)
{
    if (body->failed)
        api_answer_no_memory(request);
    else
        answer(request, status, body->data, body->len);
}

void api_answer_no_memory(struct http_request *request)
{
    static const char text[] = "{\"error\":{\"code\":\"unavailable\",\"message\":"
                               "\"no memory is left for this request; try again later\"}}";

    http_answer_header(request, "Retry-After", "1");
    answer(request, STATUS_UNAVAILABLE, text, sizeof(text) - 1);
}

static void retry_after_put(struct http_request *request, int64_t wait_ms)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", wait_ms > 1000 ? (long long)(wait_ms + 999) / 1000 : 1LL);
    http_answer_header(request, "Retry-After", text);
}

void api_answer_fault(struct http_request *request, const struct fault *fault, int64_t wait_ms)
{
    int status = fault_status(fault->code);
    struct buf body = {0};

    if (fault->code == FAULT_FULL || status == STATUS_UNAVAILABLE)
        retry_after_put(request, wait_ms);
    fault_put(&body, fault);
    api_answer(request, status, &body);
    buf_done(&body);
}

void api_answer_verdict(struct http_request *request, enum queue_verdict verdict, int64_t wait_ms)
{
    struct fault fault;

    switch (verdict) {
    case QUEUE_TAKEN:
        return;
    case QUEUE_FULL:
        fault_set(&fault, FAULT_FULL,
                  "too many requests wait already; nothing was done: send this "
                  "one again later");
        break;
    case QUEUE_AWAY:
        fault_set(
            &fault, FAULT_AWAY,
            "the database is away or does not take it now; nothing was done: send this request "
            "again later");
        break;
    case QUEUE_STOPPING:
        fault_set(&fault, FAULT_AWAY,
                  "the server stops; nothing was done: send this request again");
        wait_ms = WAIT_MS;
        break;
    }
    api_answer_fault(request, &fault, wait_ms);
}

void api_answer_end(struct http_request *request, enum queue_end end, const char *what)
{
    struct fault fault;

    if (end == QUEUE_CLOSED) {
        api_answer_verdict(request, QUEUE_STOPPING, 0);
        return;
    }
    if (end == QUEUE_UNKNOWN && what)
        fault_set(
            &fault, FAULT_TIMEOUT,
            "the database gave no clear answer in time: %s, and sending them again is harmless",
            what);
    else
        fault_set(&fault, FAULT_TIMEOUT,
                  "not done in time; nothing was changed: send this request again later");
    api_answer_fault(request, &fault, WAIT_MS);
}

struct reading {
    unsigned allowed;
    struct api_arguments *arguments;
    bool bad;
    struct fault fault;
};

static void on_argument(void *ctx, const char *name, const char *value)
{
    struct reading *reading = ctx;
    struct api_arguments *arguments = reading->arguments;
    const struct {
        unsigned when;
        const char *name;
        const char **place;
    } known[] = {
        {API_VOTER_ID, "voterId", &arguments->voter_id},
        {API_CONTENT_IDS, "contentIds", &arguments->content_ids},
        {API_OF_TASKS, "bizNo", &arguments->biz_no},
        {API_OF_TASKS, "scene", &arguments->scene},
        {API_OF_TASKS, "group", &arguments->group},
        {API_OF_TASKS, "state", &arguments->state},
        {API_OF_TASKS, "limit", &arguments->limit},
        {API_OF_TASKS, "after", &arguments->after},
    };
    const char **place = NULL;

    if (reading->bad)
        return;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if ((reading->allowed & known[i].when) != 0 && strcmp(name, known[i].name) == 0)
            place = known[i].place;
    if (place && !*place) {
        *place = value;
        return;
    }
    reading->bad = true;
    if (place)
        fault_set(&reading->fault, FAULT_DUPLICATE, "the argument is given twice");
    else
        fault_set(&reading->fault, FAULT_UNKNOWN, "unknown argument");
    fault_at(&reading->fault, name);
}

bool api_arguments_read(struct http_request *request, unsigned allowed,
                        struct api_arguments *arguments)
{
    struct reading reading = {.allowed = allowed, .arguments = arguments};

    *arguments = (struct api_arguments){0};
    http_each_argument(request, on_argument, &reading);
    if (reading.bad)
        api_answer_fault(request, &reading.fault, 0);
    return !reading.bad;
}

/* "application/json", with or without parameters. One without any is refused: a page of another
 * site could send that in a reader's name. */
static bool type_is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t len = sizeof(json) - 1;

    if (!type || strncasecmp(type, json, len) != 0)
        return false;
    type += len;
    type += strspn(type, " \t");
    return *type == '\0' || *type == ';';
}

bool api_body_is_json(struct http_request *request)
{
    struct api_arguments none;
    struct fault fault;

    if (!api_arguments_read(request, 0, &none))
        return false;
    if (type_is_json(http_header(request, "Content-Type")))
        return true;
    fault_set(&fault, FAULT_MEDIA_TYPE, "the body must be sent as Content-Type: application/json");
    api_answer_fault(request, &fault, 0);
    return false;
}
