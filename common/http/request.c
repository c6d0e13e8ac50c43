/* SPDX-License-Identifier: MIT */
#include "common/http/request.h"

#include "common/http/http.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* All bodies that are being received; without this limit connections_max full bodies could be in
 * memory. */
#define BODIES_BYTES_MAX ((size_t)64 << 20)

/* This much of a body that is too large is read and dropped, so that a client that sends its whole
 * body before it reads gets the answer. Beyond that the connection ends. */
#define DROP_BYTES_MAX ((size_t)4 << 20)

/* A larger body's memory is not kept for the next request. */
#define KEPT_BYTES_MAX ((size_t)8 << 10)

void http_requests_init(struct http_requests *all, size_t body_bytes_max)
{
    *all = (struct http_requests){.body_bytes_max = body_bytes_max};
}

static void free_request(struct http_request *request)
{
    buf_done(&request->body);
    buf_done(&request->headers);
    free(request);
}

void http_requests_done(struct http_requests *all)
{
    while (all->spare) {
        struct http_request *request = all->spare;

        all->spare = request->next;
        free_request(request);
    }
}

struct http_request *http_request_take(struct http_requests *all, struct http_server *server,
                                       struct MHD_Connection *connection)
{
    struct http_request *request = all->spare;

    if (request) {
        all->spare = request->next;
        request->next = NULL;
    } else {
        request = calloc(1, sizeof(*request));
        if (!request)
            return NULL;
        request->all = all;
        request->server = server;
        buf_init(&request->body, all->body_bytes_max);
    }
    request->connection = connection;
    all->bodies_bytes += request->body.size;
    atomic_init(&request->state, HTTP_REQUEST_GATHERING);
    atomic_fetch_add(&all->open, 1);
    return request;
}

static void drop_body(struct http_request *request)
{
    request->all->bodies_bytes -= request->body.size;
    buf_done(&request->body);
    buf_init(&request->body, request->all->body_bytes_max);
}

bool http_request_give_back(struct http_request *request)
{
    struct http_requests *all = request->all;

    if (request->body.size > KEPT_BYTES_MAX)
        drop_body(request);
    all->bodies_bytes -= request->body.size;
    buf_reset(&request->body);
    buf_reset(&request->headers);
    if (request->response)
        MHD_destroy_response(request->response);
    request->response = NULL;
    request->refusal = HTTP_REFUSAL_NONE;
    request->is_beyond = false;
    request->dropped_bytes = 0;
    request->next = all->spare;
    all->spare = request;
    return atomic_fetch_sub(&all->open, 1) == 1;
}

bool http_request_gather(struct http_request *request, const char *bytes, size_t len)
{
    struct http_requests *all = request->all;
    size_t size = request->body.size;
    size_t bound = BODIES_BYTES_MAX > all->body_bytes_max ? BODIES_BYTES_MAX : all->body_bytes_max;

    if (!request->refusal) {
        /* A buf grows to twice its size. */
        size_t growth = size - request->body.len < len ? (size > len ? size : len) : 0;

        if (len > all->body_bytes_max - request->body.len)
            request->refusal = HTTP_REFUSAL_TOO_LARGE;
        else if (all->bodies_bytes + growth > bound)
            request->refusal = HTTP_REFUSAL_BUSY;
        else
            buf_put(&request->body, bytes, len);
        if (request->body.failed)
            return false;
        all->bodies_bytes += request->body.size - size;
    }
    if (request->refusal) {
        drop_body(request);
        request->dropped_bytes += len;
    }
    return request->dropped_bytes <= DROP_BYTES_MAX;
}

bool http_request_would_gather(size_t len)
{
    return len <= DROP_BYTES_MAX;
}

const char *http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

const char *http_header(struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const struct http_scopes *http_scopes(const struct http_request *request)
{
    return &request->scopes;
}

const void *http_body(const struct http_request *request, size_t *len)
{
    *len = request->body.len;
    return request->body.data ? request->body.data : "";
}

struct each_argument {
    void (*on_argument)(void *ctx, const char *name, const char *value);
    void *ctx;
};

static enum MHD_Result on_argument(void *ctx, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct each_argument *each = ctx;

    (void)kind;
    each->on_argument(each->ctx, name, value ? value : "");
    return MHD_YES;
}

void http_each_argument(struct http_request *request,
                        void (*callback)(void *ctx, const char *name, const char *value), void *ctx)
{
    struct each_argument each = {callback, ctx};

    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_argument, &each);
}

struct one_argument {
    const char *name;
    const char *value;
};

static void on_one_argument(void *ctx, const char *name, const char *value)
{
    struct one_argument *one = ctx;

    if (!one->value && strcmp(name, one->name) == 0)
        one->value = value;
}

/* The library's own function ignores the case of the name. */
const char *http_argument(struct http_request *request, const char *name)
{
    struct one_argument one = {.name = name};

    http_each_argument(request, on_one_argument, &one);
    return one.value;
}

void http_answer_header(struct http_request *request, const char *name, const char *value)
{
    size_t len = request->headers.len;

    buf_put(&request->headers, name, strlen(name) + 1);
    buf_put(&request->headers, value, strlen(value) + 1);
    /* Without memory the header is left out as a whole. */
    if (request->headers.failed)
        buf_cut(&request->headers, len);
}

/* A header that the library refuses (empty, or with a line end) is left out. */
static void add_headers(struct http_request *request, struct MHD_Response *response,
                        const char *content_type)
{
    const char *at = request->headers.data;
    const char *end = at ? at + request->headers.len : at;

    if (content_type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    while (at < end) {
        const char *value = at + strlen(at) + 1;

        MHD_add_response_header(response, at, value);
        at = value + strlen(value) + 1;
    }
    /* A server that is stopping asks its clients to close their connections. */
    if (request->is_beyond || atomic_load(&request->all->parting))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

void http_answer(struct http_request *request, int status, const char *content_type,
                 const void *body, size_t len)
{
    struct MHD_Connection *connection = request->connection;
    /* The parameter is not const, but the library only copies from it. */
    void *bytes = (void *)(uintptr_t)body;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_COPY);
    int was;

    if (response)
        add_headers(request, response, content_type);
    request->response = response;
    request->status = status;
    was = atomic_exchange(&request->state, HTTP_REQUEST_ANSWERED);
    assert(was == HTTP_REQUEST_HANDLING || was == HTTP_REQUEST_WAITING);
    /* From here on the request belongs to the server's thread. */
    if (was == HTTP_REQUEST_WAITING)
        MHD_resume_connection(connection);
}

/* The characters of a header's name in RFC 9110; a blank before the colon is none of them. */
static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";

void http_frame_see(struct http_frame *frame, const char *name, const char *value)
{
    if (!*name || name[strspn(name, letters)] != '\0') {
        frame->bad = true;
    } else if (strcasecmp(name, "Host") == 0) {
        frame->hosts++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        frame->lengths++;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        frame->encodings++;
        frame->bad |= !value || strcasecmp(value, "chunked") != 0;
    }
}

bool http_frame_is_clear(const struct http_frame *frame)
{
    return !frame->bad && frame->hosts <= 1 && frame->lengths + frame->encodings <= 1;
}
