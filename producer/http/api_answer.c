/* SPDX-License-Identifier: MIT */
#include "producer/http/api_answer.h"

#include "common/os.h"
#include "producer/serve_metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define STATUS_UNAVAILABLE 503
#define JSON_TYPE "application/json"
#define WAIT_MS 1000 /* Retry-After where no better time is known */

static void answer_bytes(struct http_request *http, int status, const void *body, size_t len)
{
    metric_add(status < 300   ? &serve_answers_2xx
               : status < 500 ? &serve_answers_4xx
                              : &serve_answers_5xx,
               1);
    http_answer(http, status, len > 0 ? JSON_TYPE : NULL, body, len);
}

void api_answer(struct http_request *http, int status, struct buf *body)
{
    if (body->failed)
        api_answer_no_memory(http);
    else
        answer_bytes(http, status, body->data, body->len);
}

void api_answer_no_memory(struct http_request *http)
{
    static const char text[] = "{\"error\":{\"code\":\"unavailable\",\"message\":"
                               "\"no memory is left for this request; try again later\"}}";

    http_answer_header(http, "Retry-After", "1");
    answer_bytes(http, STATUS_UNAVAILABLE, text, sizeof(text) - 1);
}

static void put_retry_after(struct http_request *http, int64_t wait_ms)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", wait_ms > 1000 ? (long long)(wait_ms + 999) / 1000 : 1LL);
    http_answer_header(http, "Retry-After", text);
}

void api_answer_fault(struct http_request *http, const struct request_fault *fault, int64_t wait_ms)
{
    int status = fault->status ? fault->status : request_fault_status(fault->code);
    struct buf body = {0};

    if (fault->code == REQUEST_FAULT_FULL || status == STATUS_UNAVAILABLE)
        put_retry_after(http, wait_ms);
    request_fault_put(&body, fault);
    api_answer(http, status, &body);
    buf_done(&body);
}

void api_answer_bad(struct http_request *http, enum request_fault_code code, const char *at,
                    const char *message)
{
    struct request_fault fault;

    request_fault_set(&fault, code, "%s", message);
    if (at)
        request_fault_at(&fault, at);
    api_answer_fault(http, &fault, 0);
}

void api_answer_unavailable(struct http_request *http)
{
    struct request_fault fault;

    request_fault_set(&fault, REQUEST_FAULT_UNAVAILABLE,
                      "the database cannot be reached now: send this request again later");
    api_answer_fault(http, &fault, WAIT_MS);
}

static void answer_not_taken(struct http_request *http, enum queue_verdict verdict, int64_t wait_ms)
{
    struct request_fault fault;

    switch (verdict) {
    case QUEUE_TAKEN:
        return;
    case QUEUE_FULL:
        request_fault_set(
            &fault, REQUEST_FAULT_FULL,
            "too many requests are waiting; nothing was done: send this request again later");
        break;
    case QUEUE_UNAVAILABLE:
        request_fault_set(
            &fault, REQUEST_FAULT_UNAVAILABLE,
            "the database cannot be reached or does not take writes now; nothing was done: "
            "send this request again later");
        break;
    case QUEUE_STOPPING:
        request_fault_set(&fault, REQUEST_FAULT_UNAVAILABLE,
                          "the server is stopping; nothing was done: send this request again");
        wait_ms = WAIT_MS;
        break;
    }
    api_answer_fault(http, &fault, wait_ms);
}

static void answer_not_done(struct http_request *http, enum queue_end end, const char *unknown)
{
    struct request_fault fault;

    if (end == QUEUE_CLOSED) {
        answer_not_taken(http, QUEUE_STOPPING, 0);
        return;
    }
    if (end == QUEUE_UNKNOWN && unknown)
        request_fault_set(&fault, REQUEST_FAULT_TIMEOUT,
                          "the database gave no clear answer in time: %s", unknown);
    else
        request_fault_set(&fault, REQUEST_FAULT_TIMEOUT,
                          "not done in time; nothing was changed: send this request again later");
    api_answer_fault(http, &fault, WAIT_MS);
}

static void answer_not_read(struct http_request *http, const struct err *err)
{
    struct request_fault fault;

    request_fault_set(&fault, REQUEST_FAULT_UNAVAILABLE,
                      "this cannot be read now, send this request again later: %s", err->text);
    api_answer_fault(http, &fault, WAIT_MS);
}

void api_answer_failure(struct http_request *http, const struct api_failure *failure,
                        const char *unknown)
{
    if (failure->verdict != QUEUE_TAKEN)
        answer_not_taken(http, failure->verdict, failure->wait_ms);
    else if (failure->end != QUEUE_DONE)
        answer_not_done(http, failure->end, unknown);
    else if (failure->err)
        answer_not_read(http, failure->err);
    else
        api_answer_no_memory(http);
}

static void answer_failed(struct api_pending *pending, const struct api_failure *failure)
{
    if (!pending->kind->stand_in || !pending->kind->stand_in(pending, failure))
        api_answer_failure(pending->http, failure, pending->kind->unknown);
}

static void count_failed(const struct api_pending *pending)
{
    if (pending->kind->failed)
        metric_add(pending->kind->failed, (int64_t)pending->request.entry.weight);
}

static void answer_entry(struct queue_entry *entry, enum queue_end end)
{
    struct api_pending *pending = (struct api_pending *)entry;

    if (end == QUEUE_DONE) {
        pending->kind->answer(pending);
        return;
    }
    count_failed(pending);
    answer_failed(pending, &(struct api_failure){.verdict = QUEUE_TAKEN, .end = end});
}

static void release_entry(struct queue_entry *entry)
{
    api_pending_free((struct api_pending *)entry);
}

void *api_pending_make(struct http_request *http, const struct api_pending_kind *kind, size_t size)
{
    struct api_pending *pending = calloc(1, size);

    if (!pending) {
        api_answer_no_memory(http);
        return NULL;
    }
    pending->http = http;
    pending->kind = kind;
    pending->request.entry.answer = answer_entry;
    pending->request.entry.release = release_entry;
    return pending;
}

void api_pending_free(struct api_pending *pending)
{
    if (pending->kind->done)
        pending->kind->done(pending);
    free(pending);
}

void api_pending_put(struct api_pending *pending, struct queue *queue, size_t shard)
{
    struct api_failure failure = {.verdict = QUEUE_TAKEN};

    failure.verdict =
        queue_put(queue, shard, &pending->request.entry, os_now_ms(), &failure.wait_ms);
    if (failure.verdict == QUEUE_TAKEN)
        return;
    count_failed(pending);
    answer_failed(pending, &failure);
    api_pending_free(pending);
}
