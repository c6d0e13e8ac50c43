/* SPDX-License-Identifier: MIT */
#include "producer/http/api_parts.h"

#include "common/os.h"
#include "producer/serve_metrics.h"
#include "producer/vote/commit.h"
#include "producer/vote/vote_json.h"

#include <stdlib.h>
#include <string.h>

#define TRACE_LEN 55 /* "00-<32 hex>-<16 hex>-<2 hex>" */
#define TRACE_HEAD "{\"traceparent\":\""
#define TRACE_TAIL "\"}"

/* A request for votes between the server's thread and its answer. */
struct posting {
    struct commit_request request; /* first */
    struct http_request *http;
    struct vote_json votes;
    char headers[sizeof(TRACE_HEAD) + TRACE_LEN + sizeof(TRACE_TAIL)]; /* of the events, or "" */
};

/* As W3C Trace Context has it; only what is well-formed is passed on. */
static bool trace_is_good(const char *trace)
{
    if (!trace || strlen(trace) != TRACE_LEN)
        return false;
    for (size_t i = 0; i < TRACE_LEN; i++) {
        bool dash = i == 2 || i == 35 || i == 52;

        if (dash ? trace[i] != '-' : !strchr("0123456789abcdef", trace[i]))
            return false;
    }
    return true;
}

static void headers_set(struct posting *posting, const char *trace)
{
    char *at = posting->headers;

    if (!trace_is_good(trace))
        return;
    memcpy(at, TRACE_HEAD, sizeof(TRACE_HEAD) - 1);
    at += sizeof(TRACE_HEAD) - 1;
    memcpy(at, trace, TRACE_LEN);
    memcpy(at + TRACE_LEN, TRACE_TAIL, sizeof(TRACE_TAIL));
    for (size_t i = 0; i < posting->votes.item_count; i++)
        posting->votes.items[i].headers = posting->headers;
}

static void answer_votes(struct posting *posting)
{
    struct buf body = {0};
    struct fault fault;

    if (vote_json_answer(&posting->votes, &body, &fault))
        api_answer(posting->http, 200, &body);
    else
        api_answer_fault(posting->http, &fault, 0);
    buf_done(&body);
}

static void posting_answer(struct queue_entry *entry, enum queue_end end)
{
    struct posting *posting = (struct posting *)entry;

    if (end == QUEUE_DONE) {
        answer_votes(posting);
        return;
    }
    metric_add(&serve_votes_failed, (int64_t)entry->weight);
    api_answer_end(posting->http, end, "the votes may have been counted");
}

static void posting_release(struct queue_entry *entry)
{
    struct posting *posting = (struct posting *)entry;

    vote_json_done(&posting->votes);
    free(posting);
}

/* From here on the posting belongs to the queue, or is gone. */
static void posting_queue(struct api *api, struct posting *posting)
{
    struct commit_request *request = &posting->request;
    struct http_request *http = posting->http;
    size_t shard =
        commit_shard_of(posting->votes.items, posting->votes.item_count, api->config.shards);
    enum queue_verdict verdict;
    int64_t wait_ms;

    if (shard == SIZE_MAX)
        shard = queue_shard_least(api->config.votes);
    request->items = posting->votes.items;
    request->count = posting->votes.item_count;
    request->entry.weight = request->count;
    request->entry.answer = posting_answer;
    request->entry.release = posting_release;
    verdict = queue_put(api->config.votes, shard, &request->entry, os_now_ms(), &wait_ms);
    if (verdict == QUEUE_TAKEN)
        return;
    metric_add(&serve_votes_failed, (int64_t)request->count);
    posting_release(&request->entry);
    api_answer_verdict(http, verdict, wait_ms);
}

static void body_take(struct api *api, struct posting *posting)
{
    struct fault fault;
    size_t len;
    const char *body = http_body(posting->http, &len);

    switch (vote_json_parse(&posting->votes, body, len, &fault)) {
    case RC_OK:
        headers_set(posting, http_header(posting->http, "traceparent"));
        if (posting->votes.item_count > 0) {
            posting_queue(api, posting);
            return;
        }
        answer_votes(posting);
        break;
    case RC_REJECT:
        api_answer_fault(posting->http, &fault, 0);
        break;
    case RC_RETRY:
    case RC_FATAL:
        api_answer_no_memory(posting->http);
        break;
    }
    posting_release(&posting->request.entry);
}

void api_post_votes(struct api *api, struct http_request *request)
{
    struct posting *posting;

    if (!api_body_is_json(request))
        return;
    posting = calloc(1, sizeof(*posting));
    if (!posting) {
        api_answer_no_memory(request);
        return;
    }
    posting->http = request;
    body_take(api, posting);
}
