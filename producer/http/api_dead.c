/* SPDX-License-Identifier: MIT */
#include "common/id.h"
#include "producer/dead/dead_json.h"
#include "producer/http/api_answer.h"
#include "producer/http/api_routes.h"

#include <stdio.h>
#include <string.h>

#define LIST_ROWS 50
#define LIST_ROWS_MAX 200

#define BAD_ID "the id of a dead record in the path must be a number"

struct dead_call {
    struct api_pending pending; /* first */
    struct dead_json json;
    /* What the filter of a list points to. */
    char topic[DEAD_TOPIC_BYTES_MAX + 1];
    char reason_class[DEAD_CLASS_BYTES_MAX + 1];
    char key[4 * DEAD_KEY_CHARS_MAX + 1];
};

static void answer_call(struct api_pending *pending)
{
    struct dead_worker_request *request = &pending->request.dead;

    if (request->failed)
        api_answer_fault(pending->http, &request->fault, 0);
    else
        api_answer(pending->http, 200, &request->body);
}

static void free_call(struct api_pending *pending)
{
    dead_json_done(&((struct dead_call *)pending)->json);
    buf_done(&pending->request.dead.body);
}

static const struct api_pending_kind find_kind = {.answer = answer_call, .done = free_call};

static const struct api_pending_kind change_kind = {
    .answer = answer_call,
    .done = free_call,
    .unknown = "a part of the action may have been done, and sending it again is harmless",
};

static void put_call(const struct api_config *config, struct dead_call *call,
                     enum dead_worker_kind kind)
{
    call->pending.request.dead.kind = kind;
    call->pending.request.dead.entry.weight = 1;
    api_pending_put(&call->pending, config->dead, 0);
}

static bool keep_text(char *place, size_t size, const char *text, bool (*is_good)(const char *text),
                      const char **out)
{
    if (!text)
        return true;
    if (!is_good(text))
        return false;
    snprintf(place, size, "%s", text);
    *out = place;
    return true;
}

/* min: 0 or 1. */
static bool read_number(const char *text, int64_t min, int64_t max, int64_t *number)
{
    if (!text)
        return true;
    if (min == 0 && strcmp(text, "0") == 0) {
        *number = 0;
        return true;
    }
    return id_parse_number(text, strlen(text), number) && *number <= max;
}

static bool read_flag(const char *text, bool *flag)
{
    *flag = text && strcmp(text, "true") == 0;
    return !text || *flag || strcmp(text, "false") == 0;
}

/* The name of the query parameter that is bad, or NULL. */
static const char *read_query(struct dead_call *call, const char *const *parameters)
{
    struct dead_worker_request *request = &call->pending.request.dead;
    struct dead_filter *filter = &request->filter;
    int64_t limit = LIST_ROWS;

    *filter = (struct dead_filter){
        .partition = DEAD_NUMBER_ANY, .since_ms = DEAD_NUMBER_ANY, .until_ms = DEAD_NUMBER_ANY};
    if (!keep_text(call->topic, sizeof(call->topic), parameters[API_TOPIC], dead_json_is_topic,
                   &filter->topic))
        return "topic";
    if (!keep_text(call->reason_class, sizeof(call->reason_class), parameters[API_DEAD_CLASS],
                   dead_json_is_class, &filter->reason_class))
        return "reasonClass";
    if (!keep_text(call->key, sizeof(call->key), parameters[API_KEY], dead_json_is_key,
                   &filter->key))
        return "key";
    if (!read_number(parameters[API_PARTITION], 0, INT32_MAX, &filter->partition))
        return "partition";
    if (!read_number(parameters[API_SINCE], 0, API_TIME_MS_MAX, &filter->since_ms))
        return "since";
    if (!read_number(parameters[API_UNTIL], 0, API_TIME_MS_MAX, &filter->until_ms))
        return "until";
    if (!read_flag(parameters[API_DECIDED], &request->decided))
        return "decided";
    if (!read_number(parameters[API_LIMIT], 1, LIST_ROWS_MAX, &limit))
        return "limit";
    if (!read_number(parameters[API_AFTER], 0, INT64_MAX, &request->after))
        return "after";
    request->rows_max = (size_t)limit;
    return NULL;
}

void api_get_dead(const struct api_config *config, const struct api_call *api_call)
{
    struct dead_call *call = api_pending_make(api_call->http, &find_kind, sizeof(*call));
    const char *bad;

    if (!call)
        return;
    bad = read_query(call, api_call->parameters);
    if (!bad) {
        put_call(config, call, DEAD_WORKER_LIST);
        return;
    }
    api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, bad,
                   "topic and reasonClass are names, key has 1 to 255 characters, partition is a "
                   "number from 0, since and until are ms since 1970, decided is true or false, "
                   "limit is 1 to 200, after an id");
    api_pending_free(&call->pending);
}

/* NULL: the path has no id, or there was no memory, which has been answered. */
static struct dead_call *make_call(const struct api_call *api_call,
                                   const struct api_pending_kind *kind)
{
    struct dead_call *call;
    int64_t id;

    if (!id_parse_number(api_call->id, strlen(api_call->id), &id)) {
        api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, NULL, BAD_ID);
        return NULL;
    }
    call = api_pending_make(api_call->http, kind, sizeof(*call));
    if (call)
        call->pending.request.dead.id = id;
    return call;
}

void api_get_dead_record(const struct api_config *config, const struct api_call *api_call)
{
    struct dead_call *call = make_call(api_call, &find_kind);

    if (call)
        put_call(config, call, DEAD_WORKER_SHOW);
}

/* Reads the body of a call, which is queued or answered and freed. */
static void change(const struct api_config *config, struct dead_call *call,
                   enum dead_json_kind kind)
{
    struct http_request *http = call->pending.http;
    struct request_fault fault;
    size_t len;
    const char *body = http_body(http, &len);
    enum rc rc = dead_json_parse(&call->json, kind, http_scopes(http)->token, body, len, &fault);

    if (rc == RC_OK) {
        call->pending.request.dead.operation = &call->json.operation;
        call->pending.request.dead.dry_run = call->json.dry_run;
        put_call(config, call, kind == DEAD_JSON_MANY ? DEAD_WORKER_MANY : DEAD_WORKER_ONE);
        return;
    }
    if (rc == RC_REJECT)
        api_answer_fault(http, &fault, 0);
    else
        api_answer_no_memory(http);
    api_pending_free(&call->pending);
}

void api_post_dead(const struct api_config *config, const struct api_call *api_call)
{
    struct dead_call *call = api_pending_make(api_call->http, &change_kind, sizeof(*call));

    if (call)
        change(config, call, DEAD_JSON_MANY);
}

void api_replay_dead(const struct api_config *config, const struct api_call *api_call)
{
    struct dead_call *call = make_call(api_call, &change_kind);

    if (call)
        change(config, call, DEAD_JSON_REPLAY);
}

void api_drop_dead(const struct api_config *config, const struct api_call *api_call)
{
    struct dead_call *call = make_call(api_call, &change_kind);

    if (call)
        change(config, call, DEAD_JSON_DROP);
}
