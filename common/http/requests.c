/* SPDX-License-Identifier: MIT */
#include "common/http/requests.h"

#include <microhttpd.h>
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
