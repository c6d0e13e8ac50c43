/* SPDX-License-Identifier: MIT */
#include "producer/http/api_routes.h"

#include "common/id.h"
#include "common/text.h"
#include "producer/http/api_answer.h"
#include "producer/serve_metrics.h"
#include "producer/vote/vote_json.h"

#include <stdlib.h>
#include <string.h>

#define TRACE_LEN 55 /* "00-<32 hex>-<16 hex>-<2 hex>" */
#define TRACE_HEAD "{\"traceparent\":\""
#define TRACE_TAIL "\"}"

/* POST /v1/votes */
struct vote_call {
    struct api_pending pending; /* first */
    struct vote_json votes;
    int deleted_status;                                                /* api.deleted_status */
    char headers[sizeof(TRACE_HEAD) + TRACE_LEN + sizeof(TRACE_TAIL)]; /* of the events, or "" */
};

/* GET of totals */
struct totals_call {
    struct api_pending pending; /* first */
    bool list;                  /* answered by an array */
    struct totals_row rows[];
};

/* The header as W3C Trace Context defines it; only a well-formed one is passed on. */
static bool is_traceparent(const char *trace)
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

static void set_headers(struct vote_call *call, const char *trace)
{
    char *at = call->headers;

    if (!is_traceparent(trace))
        return;
    memcpy(at, TRACE_HEAD, sizeof(TRACE_HEAD) - 1);
    at += sizeof(TRACE_HEAD) - 1;
    memcpy(at, trace, TRACE_LEN);
    memcpy(at + TRACE_LEN, TRACE_TAIL, sizeof(TRACE_TAIL));
    for (size_t i = 0; i < call->votes.item_count; i++)
        call->votes.items[i].headers = call->headers;
}

static void answer_votes(struct api_pending *pending)
{
    struct vote_call *call = (struct vote_call *)pending;
    struct buf body = {0};
    struct request_fault fault;

    if (vote_json_answer(&call->votes, &body, &fault)) {
        api_answer(pending->http, 200, &body);
        buf_done(&body);
        return;
    }
    if (fault.code == REQUEST_FAULT_DELETED)
        fault.status = call->deleted_status;
    api_answer_fault(pending->http, &fault, 0);
    buf_done(&body);
}

static void free_votes(struct api_pending *pending)
{
    vote_json_done(&((struct vote_call *)pending)->votes);
}

static const struct api_pending_kind votes_kind = {
    .answer = answer_votes,
    .done = free_votes,
    .failed = &serve_votes_failed,
    .unknown = "the votes may have been counted, and sending them again is harmless",
};

static void put_votes(const struct api_config *config, struct vote_call *call)
{
    struct committer_request *request = &call->pending.request.votes;
    size_t shard = committer_shard_of(call->votes.items, call->votes.item_count, config->shards);

    if (shard == SIZE_MAX)
        shard = queue_shard_least(config->votes);
    request->items = call->votes.items;
    request->count = call->votes.item_count;
    request->entry.weight = request->count;
    api_pending_put(&call->pending, config->votes, shard);
}

void api_post_votes(const struct api_config *config, const struct api_call *api_call)
{
    struct http_request *http = api_call->http;
    struct vote_call *call = api_pending_make(http, &votes_kind, sizeof(*call));
    struct request_fault fault;
    const char *body;
    size_t len;

    if (!call)
        return;
    call->deleted_status = (int)strtol(config->settings->api.deleted_status, NULL, 10);
    body = http_body(http, &len);
    switch (vote_json_parse(&call->votes, body, len, &fault)) {
    case RC_OK:
        set_headers(call, http_header(http, "traceparent"));
        if (call->votes.item_count > 0) {
            put_votes(config, call);
            return;
        }
        answer_votes(&call->pending);
        break;
    case RC_REJECT:
        api_answer_fault(http, &fault, 0);
        break;
    case RC_RETRY:
    case RC_FATAL:
        api_answer_no_memory(http);
        break;
    }
    api_pending_free(&call->pending);
}

static void put_row(struct buf *out, int64_t voter_id, const struct totals_row *row)
{
    buf_text_put(out, "{\"contentId\":");
    buf_i64(out, row->content_id);
    buf_text_put(out, ",\"votes\":");
    buf_i64(out, row->votes);
    if (voter_id > 0) {
        buf_text_put(out, ",\"voterId\":");
        buf_i64(out, voter_id);
        buf_text_put(out, row->voting == 1 ? ",\"voting\":1" : ",\"voting\":0");
    }
    buf_char(out, '}');
}

static void answer_totals(struct api_pending *pending)
{
    const struct totals_call *call = (struct totals_call *)pending;
    const struct totals_request *request = &pending->request.totals;
    struct buf body = {0};

    if (call->list)
        buf_char(&body, '[');
    for (size_t i = 0; i < request->count; i++) {
        if (i > 0)
            buf_char(&body, ',');
        put_row(&body, request->voter_id, &call->rows[i]);
    }
    if (call->list)
        buf_char(&body, ']');
    api_answer(pending->http, 200, &body);
    buf_done(&body);
}

static const struct api_pending_kind totals_kind = {.answer = answer_totals};

/* NULL: there was no memory, which has been answered. */
static struct totals_call *make_totals(struct http_request *http, int64_t voter_id, size_t count)
{
    struct totals_call *call =
        api_pending_make(http, &totals_kind, sizeof(*call) + count * sizeof(struct totals_row));

    if (call) {
        call->pending.request.totals.voter_id = voter_id;
        call->pending.request.totals.count = count;
        call->pending.request.totals.rows = call->rows;
        call->pending.request.entry.weight = count;
    }
    return call;
}

static void put_totals(const struct api_config *config, struct totals_call *call)
{
    api_pending_put(&call->pending, config->reads, queue_shard_least(config->reads));
}

/* False: it is bad, which has been answered. */
static bool read_voter(const struct api_call *call, int64_t *voter_id)
{
    const char *text = call->parameters[API_VOTER_ID];

    *voter_id = 0;
    if (!text || id_parse_number(text, strlen(text), voter_id))
        return true;
    api_answer_bad(call->http, REQUEST_FAULT_OUT_OF_RANGE, "voterId",
                   "voterId must be a number, " ID_NUMBER_RANGE);
    return false;
}

void api_get_content(const struct api_config *config, const struct api_call *api_call)
{
    struct totals_call *call;
    int64_t voter_id;
    int64_t id;

    if (!id_parse_number(api_call->id, strlen(api_call->id), &id)) {
        api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, NULL,
                       "the content id in the path must be a number, " ID_NUMBER_RANGE);
        return;
    }
    if (!read_voter(api_call, &voter_id))
        return;
    call = make_totals(api_call->http, voter_id, 1);
    if (!call)
        return;
    call->rows[0].content_id = id;
    put_totals(config, call);
}

static bool read_ids(struct totals_call *call, const char *list)
{
    size_t len;

    for (size_t i = 0; i < call->pending.request.totals.count; i++) {
        const char *id = list_next(&list, ',', &len);

        if (!id || !id_parse_number(id, len, &call->rows[i].content_id))
            return false;
    }
    return true;
}

void api_get_votes(const struct api_config *config, const struct api_call *api_call)
{
    const char *ids = api_call->parameters[API_CONTENT_IDS];
    struct http_request *http = api_call->http;
    struct totals_call *call;
    int64_t voter_id;
    size_t count;

    if (!read_voter(api_call, &voter_id))
        return;
    count = list_count(ids);
    if (count > TOTALS_REQUEST_CONTENTS_MAX) {
        api_answer_bad(http, REQUEST_FAULT_OUT_OF_RANGE, "contentIds",
                       "contentIds may hold 200 contents at most");
        return;
    }
    call = make_totals(http, voter_id, count);
    if (!call)
        return;
    call->list = true;
    if (read_ids(call, ids)) {
        put_totals(config, call);
        return;
    }
    api_pending_free(&call->pending);
    api_answer_bad(http, REQUEST_FAULT_OUT_OF_RANGE, "contentIds",
                   "contentIds must be numbers, " ID_NUMBER_RANGE ", separated by commas");
}
