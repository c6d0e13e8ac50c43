/* SPDX-License-Identifier: MIT */
#include "common/http/http.h"

#include "common/http/connections.h"
#include "common/http/requests.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/os.h"

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

/* In addition to the limits, for connections that were shut down and are not removed yet. */
#define CONNECTIONS_EXTRA 16

/* How long http_close() waits for answers that are still being sent. */
#define CLOSE_WAIT_MS 2000

struct http_server {
    struct http_config config;
    http_handler handler;
    http_on_refuse on_refuse;
    void *ctx;
    struct MHD_Daemon *daemon;
    struct http_guard guard;
    int listen_fd;
    int port;
    atomic_bool closing; /* takes no new requests */
    struct stop drained; /* requested when closing and no request is left */
    struct http_requests requests;
    struct http_connections connections;
    struct loop timer; /* shuts down late connections, until ended is requested */
    struct stop ended;
};

/* False: the connection was shut down, and its request is dropped. */
static bool enter_phase(struct http_request *request, enum http_phase phase)
{
    return http_connection_enter(&request->server->connections, request->held, phase, os_now_ms());
}

/* Gives the answer to the library, on its thread. */
static enum MHD_Result send_response(struct http_request *request)
{
    enter_phase(request, HTTP_PHASE_ANSWER);
    /* There was no memory for the answer: the connection ends. */
    if (!request->response)
        return MHD_NO;
    return MHD_queue_response(request->connection, (unsigned)request->status, request->response);
}

static void refuse_request(struct http_request *request)
{
    const char *text = "the request cannot be read\n";
    char sentence[128];

    if (request->refusal == HTTP_REFUSAL_NO_TOKEN)
        text = "a bearer token is needed: Authorization: Bearer ...\n";
    if (request->refusal == HTTP_REFUSAL_TOO_LARGE)
        text = "the body is too large\n";
    if (request->refusal == HTTP_REFUSAL_BUSY)
        text = request->is_beyond ? "too many connections; try again later\n"
                                  : "too many bodies are being received; try again later\n";
    if (request->refusal == HTTP_REFUSAL_OTHER_HOST) {
        snprintf(sentence, sizeof(sentence),
                 "this server does not answer for that host; %s.hosts may name it\n",
                 request->server->config.guard.section);
        text = sentence;
    }
    http_answer(request, (int)request->refusal, "text/plain; charset=utf-8", text, strlen(text));
}

static void hand_out_request(struct http_request *request)
{
    struct http_server *server = request->server;

    if (!request->refusal) {
        server->handler(server->ctx, request);
        return;
    }
    if (request->refusal == HTTP_REFUSAL_NO_TOKEN)
        http_answer_header(request, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tallybox\"");
    if (request->refusal == HTTP_REFUSAL_BUSY)
        http_answer_header(request, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (server->on_refuse)
        server->on_refuse(server->ctx, request, (int)request->refusal);
    else
        refuse_request(request);
}

/* Calls the handler and suspends the connection unless the request is already answered.
 * Invariant: http_answer() and this function both change the state, and the second of the two
 * resumes the connection. So an answer given between the handler's return and the suspension is
 * not lost. */
static enum MHD_Result deliver_request(struct http_request *request)
{
    int handling = HTTP_REQUEST_HANDLING;

    enter_phase(request, HTTP_PHASE_HANDLER);
    atomic_store(&request->state, HTTP_REQUEST_HANDLING);
    hand_out_request(request);
    if (atomic_load(&request->state) == HTTP_REQUEST_ANSWERED)
        return send_response(request);
    MHD_suspend_connection(request->connection);
    if (!atomic_compare_exchange_strong(&request->state, &handling, HTTP_REQUEST_WAITING))
        MHD_resume_connection(request->connection);
    return MHD_YES;
}

static bool is_for_open_path(const struct http_request *request)
{
    const char *open_path = request->server->config.open_path;

    return open_path && strcmp(request->path, open_path) == 0;
}

/* A request without Host is accepted: browsers always send one. */
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

/* Decides what the headers already tell. */
static enum MHD_Result begin_request(struct http_request *request)
{
    size_t body_bytes_max = request->server->config.body_bytes_max;
    const char *text = http_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    unsigned long long len = text ? strtoull(text, NULL, 10) : 0;

    if (!enter_phase(request, HTTP_PHASE_BODY))
        return MHD_NO;
    request->is_beyond = !http_connection_admit(&request->server->connections, request->held);
    /* Answered before the body, because the library then closes the connection: the beginning of
     * the next request is unknown. */
    if (!has_clear_frame(request)) {
        request->refusal = HTTP_REFUSAL_BAD;
        return deliver_request(request);
    }
    if (request->is_beyond && !is_for_open_path(request))
        request->refusal = HTTP_REFUSAL_BUSY;
    else if (!is_for_our_host(request))
        request->refusal = HTTP_REFUSAL_OTHER_HOST;
    else if (!may_pass(request))
        request->refusal = HTTP_REFUSAL_NO_TOKEN;
    else if (len > body_bytes_max)
        request->refusal = HTTP_REFUSAL_TOO_LARGE;
    else
        return MHD_YES;
    /* A client that sends Expect, or would send too much, is answered before its body; the library
     * then closes the connection without reading it. */
    if (http_header(request, MHD_HTTP_HEADER_EXPECT) || !http_request_would_gather(len))
        return deliver_request(request);
    return MHD_YES;
}

/* NULL: the connection was not accepted. */
static struct http_connection *hold_connection(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = ctx;
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *slot = fd ? http_connection_add(&server->connections, fd->connect_fd,
                                         address ? address->client_addr : NULL, os_now_ms())
                   : NULL;
        if (server->connections.count == 1)
            loop_wake(&server->timer);
    } else if (*slot) {
        http_connection_remove(&server->connections, *slot);
        *slot = NULL;
    }
}

static enum MHD_Result on_access(void *ctx, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *bytes,
                                 size_t *len, void **slot)
{
    struct http_server *server = ctx;
    struct http_request *request = *slot;
    bool gathered;

    if (!request) {
        struct http_connection *held = hold_connection(connection);

        if (held && !atomic_load(&server->closing))
            request = http_request_take(&server->requests, server, connection);
        if (!request)
            return MHD_NO;
        *slot = request;
        request->held = held;
        request->method = method;
        request->path = url;
        request->is_old = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
        return begin_request(request);
    }
    if (*len > 0) {
        gathered = http_request_gather(request, bytes, *len);
        *len = 0;
        return gathered ? MHD_YES : MHD_NO;
    }
    if (atomic_load(&request->state) == HTTP_REQUEST_ANSWERED)
        return send_response(request);
    return deliver_request(request);
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = ctx;

    struct http_request *request = *slot;

    (void)connection;
    (void)code;
    if (request)
        enter_phase(request, HTTP_PHASE_IDLE);
    if (request && http_request_give_back(request) && atomic_load(&server->closing))
        stop_request(&server->drained);
    *slot = NULL;
}

static int read_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place. "%00" stays as it is: decoded it would end the text, and two different paths
 * would compare as equal. */
static size_t on_unescape(void *ctx, struct MHD_Connection *connection, char *text)
{
    char *out = text;

    (void)ctx;
    (void)connection;
    for (const char *in = text; *in;) {
        int high = *in == '%' ? read_hex_digit(in[1]) : -1;
        int low = high >= 0 ? read_hex_digit(in[2]) : -1;

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

static unsigned get_idle_seconds(const struct http_config *config)
{
    return (config->idle_timeout_ms + 999) / 1000;
}

static bool has_tls(const struct http_server *server)
{
    return server->guard.cert.len > 0;
}

/* Where connections are reserved, a few more are accepted so that their requests can be read;
 * elsewhere a client waits until another connection ends. */
static unsigned get_connections_max(const struct http_config *config)
{
    return config->connections_max + (config->connections_reserved > 0 ? CONNECTIONS_EXTRA : 0);
}

static struct MHD_Daemon *start_daemon(struct http_server *server)
{
    /* The ciphers are GnuTLS's default; TLS 1.2 is the oldest version. Only read. */
    static char tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    const struct http_config *config = &server->config;
    bool tls = has_tls(server);
    unsigned flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ERROR_LOG;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, server->listen_fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)get_connections_max(config), NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)get_idle_seconds(config), NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)config->header_bytes_max, NULL},
        /* Without TLS the list ends here. */
        {tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, server->guard.cert.data},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, server->guard.key.data},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, tls_priorities},
        {MHD_OPTION_END, 0, NULL},
    };

    if (tls)
        flags |= MHD_USE_TLS;
    /* The logger must be the first option; options with two pointers do not fit into the array. */
    return MHD_start_daemon(flags, 0, NULL, NULL, on_access, server, MHD_OPTION_EXTERNAL_LOGGER,
                            on_log, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
                            MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL, MHD_OPTION_ARRAY,
                            options, MHD_OPTION_END);
}

static void free_server(struct http_server *server)
{
    stop_request(&server->ended);
    loop_join(&server->timer);
    loop_done(&server->timer);
    http_connections_done(&server->connections);
    http_requests_done(&server->requests);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    http_guard_close(&server->guard);
    stop_done(&server->drained);
    stop_done(&server->ended);
    free(server);
}

static void init_connections(struct http_server *server)
{
    const struct http_config *config = &server->config;
    const struct http_limits limits = {
        .connections_max = config->connections_max - config->connections_reserved,
        .reserved = config->connections_reserved,
        .per_address_max = config->connections_per_address_max,
        .header_timeout_ms = config->header_timeout_ms,
        .body_timeout_ms = config->body_timeout_ms,
        .idle_timeout_ms = config->idle_timeout_ms,
    };

    http_connections_init(&server->connections, &limits);
}

static enum rc start_timer(struct http_server *server, struct err *err)
{
    enum rc rc = stop_init(&server->ended, err);

    if (rc == RC_OK)
        rc = loop_init(&server->timer, "http-timer", http_connections_step, &server->connections,
                       &server->ended, err);
    return rc == RC_OK ? loop_start(&server->timer, err) : rc;
}

static enum rc check_tls(const struct http_guard *guard, struct err *err)
{
    if (guard->cert.len == 0 || MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "%s.tls_cert: this libmicrohttpd was built without TLS",
                    guard->config->section);
}

enum rc http_check(const struct http_config *config, struct err *err)
{
    struct http_guard guard = {0};
    int fd = -1;
    enum rc rc = http_try_address(config->listen, &fd, err);

    if (rc != RC_OK) {
        err_wrap(err, "%s.listen", config->guard.section);
        return rc;
    }
    rc = http_guard_open(&guard, &config->guard, config->listen, fd, err);
    if (rc == RC_OK)
        rc = check_tls(&guard, err);
    http_guard_close(&guard);
    close(fd);
    return rc;
}

static enum rc open_listener(struct http_server *server, struct err *err)
{
    enum rc rc = http_listen(server->config.listen, &server->listen_fd, &server->port, err);

    if (rc != RC_OK)
        err_wrap(err, "%s.listen", server->config.guard.section);
    return rc;
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
    http_requests_init(&server->requests, config->body_bytes_max);
    init_connections(server);
    rc = stop_init(&server->drained, err);
    if (rc == RC_OK)
        rc = open_listener(server, err);
    if (rc == RC_OK)
        rc = http_guard_open(&server->guard, &server->config.guard, config->listen,
                             server->listen_fd, err);
    if (rc == RC_OK)
        rc = check_tls(&server->guard, err);
    if (rc == RC_OK)
        rc = start_timer(server, err);
    if (rc == RC_OK) {
        server->daemon = start_daemon(server);
        if (!server->daemon)
            rc = err_fail(err, RC_FATAL, 0,
                          "%s.listen: cannot start the HTTP server on %s; log.level = debug says "
                          "why",
                          config->guard.section, config->listen);
    }
    if (rc != RC_OK) {
        free_server(server);
        return rc;
    }
    http_guard_warn(&server->guard, server->listen_fd);
    *out = server;
    return RC_OK;
}

void http_quiesce(struct http_server *server)
{
    if (atomic_exchange(&server->requests.parting, true))
        return;
    /* The library may use the socket until it is stopped: the socket is closed then, and refuses
     * connections from now on. */
    MHD_quiesce_daemon(server->daemon);
    shutdown(server->listen_fd, SHUT_RDWR);
}

void http_close(struct http_server *server)
{
    if (!server)
        return;
    http_quiesce(server);
    atomic_store(&server->closing, true);
    if (atomic_load(&server->requests.open) > 0)
        stop_wait(&server->drained, CLOSE_WAIT_MS);
    MHD_stop_daemon(server->daemon);
    free_server(server);
}

int http_port(const struct http_server *server)
{
    return server->port;
}

const char *http_scheme(const struct http_server *server)
{
    return has_tls(server) ? "https" : "http";
}
