/* SPDX-License-Identifier: MIT */
#include "common/http.h"

#include "common/buf.h"
#include "common/http_frame.h"
#include "common/http_listen.h"
#include "common/log.h"
#include "common/stop.h"

#include <assert.h>
#include <ctype.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* All bodies being received at a time; without it connections_max full bodies could be in memory. */
#define BODIES_BYTES_MAX ((size_t)64 << 20)

/* Of a body that is too large this much is read and dropped, so that the client, which sends before
 * it reads, sees the answer. What is larger ends with its connection. */
#define DROP_BYTES_MAX ((size_t)4 << 20)

/* A larger body's memory is not kept for the next request. */
#define KEPT_BYTES_MAX ((size_t)8 << 10)

/* How long http_close() waits for answers that are still being sent. */
#define CLOSE_WAIT_MS 2000

#define STATUS_BAD 400
#define STATUS_NO_TOKEN 401
#define STATUS_TOO_LARGE 413
#define STATUS_OTHER_HOST 421
#define STATUS_BUSY 503

enum request_state {
    REQUEST_GATHERING, /* its body is being received */
    REQUEST_HANDLING,  /* the handler has it; the connection is not suspended yet */
    REQUEST_WAITING,   /* the handler has it; the connection is suspended */
    REQUEST_ANSWERED,  /* http_answer() was called */
};

/* Belongs to the server's thread, except between the handler's call and http_answer(). */
struct http_request {
    struct http_server *server;
    struct MHD_Connection *connection;
    const char *method;
    const char *path;
    bool is_old; /* HTTP/1.0, where Host may be left out */
    struct buf body;
    size_t dropped_bytes;
    int refused; /* the status, or 0 */
    struct http_scopes scopes;
    struct buf headers; /* of the answer: name, zero, value, zero ... */
    struct MHD_Response *response;
    int status;
    atomic_int state; /* an enum request_state */
    struct http_request *next;
};

struct http_server {
    struct http_config config;
    http_handler handler;
    http_on_refuse on_refuse;
    void *ctx;
    struct MHD_Daemon *daemon;
    struct http_guard guard;
    int listen_fd;
    int port;
    atomic_bool quiet;   /* takes no new connections */
    atomic_bool closing; /* takes no new requests */
    atomic_int requests; /* begun and not yet ended */
    struct stop drained; /* requested when closing and no request is left */
    /* Of the server's thread only: */
    struct http_request *spare;
    size_t bodies_bytes;
};

static struct http_request *request_take(struct http_server *server)
{
    struct http_request *request = server->spare;

    if (request) {
        server->spare = request->next;
        request->next = NULL;
    } else {
        request = calloc(1, sizeof(*request));
        if (!request)
            return NULL;
        request->server = server;
        buf_init(&request->body, server->config.body_bytes_max);
    }
    server->bodies_bytes += request->body.size;
    atomic_init(&request->state, REQUEST_GATHERING);
    atomic_fetch_add(&server->requests, 1);
    return request;
}

static void body_drop(struct http_request *request)
{
    request->server->bodies_bytes -= request->body.size;
    buf_done(&request->body);
    buf_init(&request->body, request->server->config.body_bytes_max);
}

static void request_free(struct http_request *request)
{
    buf_done(&request->body);
    buf_done(&request->headers);
    free(request);
}

/* Keeps the request and its memory for the next one. */
static void request_give_back(struct http_request *request)
{
    struct http_server *server = request->server;

    if (request->body.size > KEPT_BYTES_MAX)
        body_drop(request);
    server->bodies_bytes -= request->body.size;
    buf_reset(&request->body);
    buf_reset(&request->headers);
    if (request->response)
        MHD_destroy_response(request->response);
    request->response = NULL;
    request->refused = 0;
    request->dropped_bytes = 0;
    request->next = server->spare;
    server->spare = request;
    if (atomic_fetch_sub(&server->requests, 1) == 1 && atomic_load(&server->closing))
        stop_request(&server->drained);
}

/* The connection's thread: the answer is there, hand it to the library. */
static enum MHD_Result request_send(struct http_request *request)
{
    /* Without memory for an answer the connection ends. */
    if (!request->response)
        return MHD_NO;
    return MHD_queue_response(request->connection, (unsigned)request->status, request->response);
}

static void refuse_plainly(struct http_request *request)
{
    const char *text = "the request cannot be read\n";
    char sentence[128];

    if (request->refused == STATUS_NO_TOKEN)
        text = "a bearer token is needed: Authorization: Bearer ...\n";
    if (request->refused == STATUS_TOO_LARGE)
        text = "the body is too large\n";
    if (request->refused == STATUS_BUSY)
        text = "too many bodies are being received; try again later\n";
    if (request->refused == STATUS_OTHER_HOST) {
        snprintf(sentence, sizeof(sentence),
                 "this server does not answer for that host; %s.hosts may name it\n",
                 request->server->config.guard.section);
        text = sentence;
    }
    http_answer(request, request->refused, "text/plain; charset=utf-8", text, strlen(text));
}

static void request_hand_out(struct http_request *request)
{
    struct http_server *server = request->server;

    if (!request->refused) {
        server->handler(server->ctx, request);
        return;
    }
    if (request->refused == STATUS_NO_TOKEN)
        http_answer_header(request, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tallybox\"");
    if (request->refused == STATUS_BUSY)
        http_answer_header(request, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (server->on_refuse)
        server->on_refuse(server->ctx, request, request->refused);
    else
        refuse_plainly(request);
}

/* Hands the request to its handler and parks the connection unless it was answered meanwhile.
 * Invariant: whoever moves the state second resumes, so that no answer is lost between the
 * handler's return and the suspension. */
static enum MHD_Result request_deliver(struct http_request *request)
{
    int handling = REQUEST_HANDLING;

    atomic_store(&request->state, REQUEST_HANDLING);
    request_hand_out(request);
    if (atomic_load(&request->state) == REQUEST_ANSWERED)
        return request_send(request);
    MHD_suspend_connection(request->connection);
    if (!atomic_compare_exchange_strong(&request->state, &handling, REQUEST_WAITING))
        MHD_resume_connection(request->connection);
    return MHD_YES;
}

static enum MHD_Result body_put(struct http_request *request, const char *bytes, size_t len)
{
    struct http_server *server = request->server;
    size_t size = request->body.size;
    size_t bound = BODIES_BYTES_MAX > server->config.body_bytes_max ? BODIES_BYTES_MAX
                                                                    : server->config.body_bytes_max;

    if (!request->refused) {
        /* A buf grows to twice its size. */
        size_t growth = size - request->body.len < len ? (size > len ? size : len) : 0;

        if (len > server->config.body_bytes_max - request->body.len)
            request->refused = STATUS_TOO_LARGE;
        else if (server->bodies_bytes + growth > bound)
            request->refused = STATUS_BUSY;
        else
            buf_put(&request->body, bytes, len);
        if (request->body.failed)
            return MHD_NO;
        server->bodies_bytes += request->body.size - size;
    }
    if (request->refused) {
        body_drop(request);
        request->dropped_bytes += len;
    }
    return request->dropped_bytes > DROP_BYTES_MAX ? MHD_NO : MHD_YES;
}

static bool is_for_open_path(const struct http_request *request)
{
    const char *open_path = request->server->config.open_path;

    return open_path && strcmp(request->path, open_path) == 0;
}

/* Browsers always name a host. */
static bool is_for_our_host(struct http_request *request)
{
    const char *host = http_header(request, MHD_HTTP_HEADER_HOST);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    if (!host || is_for_open_path(request))
        return true;
    return info && http_guard_answers_for(&request->server->guard, host, info->connect_fd);
}

static bool may_pass(struct http_request *request)
{
    struct http_server *server = request->server;

    request->scopes = (struct http_scopes){.bits = 0};
    if (is_for_open_path(request))
        return true;
    return http_guard_allows(&server->guard, http_header(request, MHD_HTTP_HEADER_AUTHORIZATION),
                             &request->scopes);
}

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    (void)kind;
    http_frame_see(ctx, name, value);
    return MHD_YES;
}

static bool has_clear_frame(const struct http_request *request)
{
    struct http_frame frame = {0};

    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, on_header, &frame);
    return http_frame_is_clear(&frame) && (frame.hosts == 1 || request->is_old);
}

/* What the headers already say. */
static enum MHD_Result request_begin(struct http_request *request)
{
    size_t body_bytes_max = request->server->config.body_bytes_max;
    const char *text = http_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    unsigned long long len = text ? strtoull(text, NULL, 10) : 0;

    /* Answered at once, because the library then closes the connection: nobody knows where the next
     * request would begin. */
    if (!has_clear_frame(request)) {
        request->refused = STATUS_BAD;
        return request_deliver(request);
    }
    if (!is_for_our_host(request))
        request->refused = STATUS_OTHER_HOST;
    else if (!may_pass(request))
        request->refused = STATUS_NO_TOKEN;
    else if (len > body_bytes_max)
        request->refused = STATUS_TOO_LARGE;
    else
        return MHD_YES;
    /* A client that asks first, or would send too much, is answered at once; the library closes
     * the connection afterwards, unread. */
    if (http_header(request, MHD_HTTP_HEADER_EXPECT) || len > DROP_BYTES_MAX)
        return request_deliver(request);
    return MHD_YES;
}

static enum MHD_Result on_access(void *ctx, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *bytes,
                                 size_t *len, void **slot)
{
    struct http_server *server = ctx;
    struct http_request *request = *slot;
    enum MHD_Result result;

    if (!request) {
        request = atomic_load(&server->closing) ? NULL : request_take(server);
        if (!request)
            return MHD_NO;
        *slot = request;
        request->connection = connection;
        request->method = method;
        request->path = url;
        request->is_old = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
        return request_begin(request);
    }
    if (*len > 0) {
        result = body_put(request, bytes, *len);
        *len = 0;
        return result;
    }
    if (atomic_load(&request->state) == REQUEST_ANSWERED)
        return request_send(request);
    return request_deliver(request);
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    (void)ctx;
    (void)connection;
    (void)code;
    if (*slot)
        request_give_back(*slot);
    *slot = NULL;
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place. "%00" stays as it is: decoded it would end the text early, and two different
 * paths would look the same. */
static size_t on_unescape(void *ctx, struct MHD_Connection *connection, char *text)
{
    char *out = text;

    (void)ctx;
    (void)connection;
    for (const char *in = text; *in;) {
        int high = *in == '%' ? hex_of(in[1]) : -1;
        int low = high >= 0 ? hex_of(in[2]) : -1;

        if (low < 0 || high + low == 0) {
            *out++ = *in++;
            continue;
        }
        *out++ = (char)(high * 16 + low);
        in += 3;
    }
    *out = '\0';
    return (size_t)(out - text);
}

__attribute__((format(printf, 2, 0))) static void on_log(void *ctx, const char *format,
                                                         va_list args)
{
    char text[256];

    (void)ctx;
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\r\n")] = '\0';
    log_event(LOG_DEBUG, "http_library", "text=\"%s\"", text);
}

static unsigned idle_seconds(const struct http_config *config)
{
    return (config->idle_timeout_ms + 999) / 1000;
}

static bool has_tls(const struct http_server *server)
{
    return server->guard.cert.len > 0;
}

static struct MHD_Daemon *daemon_start(struct http_server *server)
{
    /* GnuTLS's own choice of ciphers, with nothing older than TLS 1.2; only read. */
    static char tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    const struct http_config *config = &server->config;
    bool tls = has_tls(server);
    unsigned flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ERROR_LOG;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, server->listen_fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)config->connections_max, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)idle_seconds(config), NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)config->header_bytes_max, NULL},
        /* Without TLS the list ends here. */
        {tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, server->guard.cert.data},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, server->guard.key.data},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, tls_priorities},
        {MHD_OPTION_END, 0, NULL},
    };

    if (tls)
        flags |= MHD_USE_TLS;
    /* The logger has to come first; pairs of pointers do not fit into the array. */
    return MHD_start_daemon(flags, 0, NULL, NULL, on_access, server, MHD_OPTION_EXTERNAL_LOGGER,
                            on_log, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                            MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL, MHD_OPTION_ARRAY,
                            options, MHD_OPTION_END);
}

static void server_free(struct http_server *server)
{
    while (server->spare) {
        struct http_request *request = server->spare;

        server->spare = request->next;
        request_free(request);
    }
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    http_guard_close(&server->guard);
    stop_done(&server->drained);
    free(server);
}

enum rc http_open(struct http_server **out, const struct http_config *config, http_handler handler,
                  http_on_refuse on_refuse, void *ctx, struct err *err)
{
    struct http_server *server = calloc(1, sizeof(*server));
    enum rc rc;

    if (!server)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    server->config = *config;
    server->handler = handler;
    server->on_refuse = on_refuse;
    server->ctx = ctx;
    server->listen_fd = -1;
    rc = stop_init(&server->drained, err);
    if (rc == RC_OK)
        rc = http_listen(config->listen, &server->listen_fd, &server->port, err);
    if (rc == RC_OK)
        rc = http_guard_open(&server->guard, &server->config.guard, config->listen,
                             server->listen_fd, err);
    if (rc == RC_OK && has_tls(server) && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        rc = err_fail(err, RC_FATAL, 0, "this libmicrohttpd was built without TLS");
    if (rc == RC_OK) {
        server->daemon = daemon_start(server);
        if (!server->daemon)
            rc = err_fail(err, RC_FATAL, 0,
                          "cannot start the HTTP server on %s; log.level = debug says why",
                          config->listen);
    }
    if (rc != RC_OK) {
        server_free(server);
        return rc;
    }
    *out = server;
    return RC_OK;
}

void http_quiesce(struct http_server *server)
{
    if (atomic_exchange(&server->quiet, true))
        return;
    /* The library gives the socket back but may look at it until it is stopped: it is closed then,
     * and made to refuse connections now. */
    MHD_quiesce_daemon(server->daemon);
    shutdown(server->listen_fd, SHUT_RDWR);
}

void http_close(struct http_server *server)
{
    if (!server)
        return;
    http_quiesce(server);
    atomic_store(&server->closing, true);
    if (atomic_load(&server->requests) > 0)
        stop_wait(&server->drained, CLOSE_WAIT_MS);
    MHD_stop_daemon(server->daemon);
    server_free(server);
}

int http_port(const struct http_server *server)
{
    return server->port;
}

const char *http_scheme(const struct http_server *server)
{
    return has_tls(server) ? "https" : "http";
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

/* The library's own look-up takes either case. */
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
    /* Without memory for a header it is whole or not there. */
    if (request->headers.failed)
        buf_cut(&request->headers, len);
}

/* A header the library refuses (empty, or with a line end in it) is left out: the answer counts. */
static void headers_add(struct http_request *request, struct MHD_Response *response,
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
    /* A server that is about to go asks its clients to go as well. */
    if (atomic_load(&request->server->quiet))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

void http_answer(struct http_request *request, int status, const char *content_type,
                 const void *body, size_t len)
{
    struct MHD_Connection *connection = request->connection;
    /* The library's parameter is not const, but it only copies from it. */
    void *bytes = (void *)(uintptr_t)body;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_COPY);
    int was;

    if (response)
        headers_add(request, response, content_type);
    request->response = response;
    request->status = status;
    was = atomic_exchange(&request->state, REQUEST_ANSWERED);
    assert(was == REQUEST_HANDLING || was == REQUEST_WAITING);
    /* From here on the request belongs to the server's thread. */
    if (was == REQUEST_WAITING)
        MHD_resume_connection(connection);
}
