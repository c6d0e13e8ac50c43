/* SPDX-License-Identifier: MIT */
#include "producer/http/api_routes.h"

#include "common/id.h"
#include "producer/http/api_answer.h"
#include "producer/remark/remark_json.h"

#include <stdlib.h>
#include <string.h>

#define MAYBE_MADE                                                                               \
    "the remark may have been made; only a request with an id may be sent again without making " \
    "a second one"

#define NO_REMARK "there is no remark with this id"
#define BAD_ID "the id in the path must be a number, " ID_NUMBER_RANGE

/* POST /v1/remarks and PATCH /v1/remarks/{id} */
struct write_call {
    struct api_pending pending; /* first */
    struct remark_json json;
    struct remark_write write;
    int deleted_status; /* api.deleted_status */
};

static void answer_id(struct http_request *http, int status, const struct remark_write *write)
{
    struct buf body = {0};

    buf_text_put(&body, "{\"id\":");
    buf_i64(&body, write->id);
    if (!write->update)
        buf_text_put(&body, status == 201 ? ",\"existed\":false" : ",\"existed\":true");
    buf_char(&body, '}');
    api_answer(http, status, &body);
    buf_done(&body);
}

/* A second remark with the id would be listed, and never take a vote. */
static void answer_deleted(struct http_request *http, int status)
{
    struct request_fault fault;

    request_fault_set(&fault, REQUEST_FAULT_DELETED,
                      "the remark with this id was deleted; make another one with another id");
    request_fault_place(&fault, false, 0, "id");
    fault.status = status;
    api_answer_fault(http, &fault, 0);
}

static void answer_write(struct api_pending *pending)
{
    const struct write_call *call = (struct write_call *)pending;
    const struct remark_write *write = &call->write;
    struct http_request *http = pending->http;
    struct request_fault fault;

    switch (write->end) {
    case REMARK_WRITTEN:
        answer_id(http, write->update ? 200 : 201, write);
        break;
    case REMARK_EXISTED:
        answer_id(http, 200, write);
        break;
    case REMARK_DELETED:
        answer_deleted(http, call->deleted_status);
        break;
    case REMARK_TAKEN:
        api_answer_bad(http, REQUEST_FAULT_REFUSED, "/id",
                       "there is a remark with this id, of another item");
        break;
    case REMARK_NOT_FOUND:
        api_answer_bad(http, REQUEST_FAULT_NOT_FOUND, NULL, NO_REMARK);
        break;
    case REMARK_UNKNOWN:
        api_answer_bad(http, REQUEST_FAULT_TIMEOUT, NULL,
                       "the database gave no clear answer: " MAYBE_MADE);
        break;
    case REMARK_REFUSED:
        request_fault_set(&fault, REQUEST_FAULT_REFUSED, "the database refuses this remark: %s",
                          write->err.text);
        api_answer_fault(http, &fault, 0);
        break;
    }
}

static void free_write(struct api_pending *pending)
{
    remark_json_done(&((struct write_call *)pending)->json);
}

static const struct api_pending_kind insert_kind = {
    .answer = answer_write,
    .done = free_write,
    .unknown = MAYBE_MADE,
};

static const struct api_pending_kind update_kind = {
    .answer = answer_write,
    .done = free_write,
    .unknown = "the remark may have been changed, and sending it again is harmless",
};

static void put_write(const struct api_config *config, const struct api_call *api_call,
                      const struct api_pending_kind *kind, int64_t id)
{
    struct http_request *http = api_call->http;
    struct write_call *call = api_pending_make(http, kind, sizeof(*call));
    bool update = kind == &update_kind;
    struct request_fault fault;
    const char *body;
    size_t len;

    if (!call)
        return;
    call->deleted_status = (int)strtol(config->settings->api.deleted_status, NULL, 10);
    body = http_body(http, &len);
    switch (remark_json_parse(&call->json, update ? REMARK_JSON_CHANGE : REMARK_JSON_NEW, body, len,
                              &fault)) {
    case RC_OK:
        call->write.values = call->json.values;
        call->write.update = update;
        call->write.id = update ? id : call->json.id;
        call->pending.request.remarks.write = &call->write;
        call->pending.request.entry.weight = 1;
        api_pending_put(&call->pending, config->remarks, queue_shard_least(config->remarks));
        return;
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

void api_post_remarks(const struct api_config *config, const struct api_call *api_call)
{
    put_write(config, api_call, &insert_kind, 0);
}

void api_patch_remark(const struct api_config *config, const struct api_call *api_call)
{
    int64_t id;

    if (id_parse_number(api_call->id, strlen(api_call->id), &id))
        put_write(config, api_call, &update_kind, id);
    else
        api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, NULL, BAD_ID);
}

/* Of DELETE /v1/remarks/{id}. */
static void answer_delete(struct api_pending *pending)
{
    const struct removal_request *request = &pending->request.removal;
    struct http_request *http = pending->http;
    struct request_fault fault;
    struct buf body = {0};

    switch (request->end) {
    case REMOVAL_DONE:
        buf_text_put(&body, "{\"id\":");
        buf_i64(&body, request->id);
        buf_char(&body, '}');
        api_answer(http, 200, &body);
        buf_done(&body);
        break;
    case REMOVAL_NOT_FOUND:
        api_answer_bad(http, REQUEST_FAULT_NOT_FOUND, NULL, NO_REMARK);
        break;
    case REMOVAL_REFUSED:
        request_fault_set(&fault, REQUEST_FAULT_REFUSED, "the database refuses the deletion: %s",
                          request->err.text);
        api_answer_fault(http, &fault, 0);
        break;
    }
}

static const struct api_pending_kind delete_kind = {
    .answer = answer_delete,
    .unknown = "the remark may have been deleted, and sending the request again is harmless",
};

void api_delete_remark(const struct api_config *config, const struct api_call *api_call)
{
    struct api_pending *pending;
    int64_t id;

    if (!id_parse_number(api_call->id, strlen(api_call->id), &id)) {
        api_answer_bad(api_call->http, REQUEST_FAULT_OUT_OF_RANGE, NULL, BAD_ID);
        return;
    }
    pending = api_pending_make(api_call->http, &delete_kind, sizeof(*pending));
    if (!pending)
        return;
    pending->request.removal.id = id;
    pending->request.entry.weight = 1;
    api_pending_put(pending, config->removals, 0);
}
