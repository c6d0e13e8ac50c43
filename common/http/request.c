/* SPDX-License-Identifier: MIT */
#include "common/http/request.h"

#include "common/http/requests.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdint.h>
#include <string.h>

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
