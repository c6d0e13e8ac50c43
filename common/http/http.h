/* SPDX-License-Identifier: MIT */
/* A small HTTP/1.1 server on libmicrohttpd, for the API and the admin pages. It limits headers,
 * bodies, connections and time; a handler gets only complete requests, see request.h. http_open()
 * to http_close() belong to one thread. */
#ifndef COMMON_HTTP_HTTP_H
#define COMMON_HTTP_HTTP_H

#include "common/err.h"
#include "common/http/guard.h"
#include "common/http/request.h"

#include <stddef.h>
#include <stdint.h>

struct http_server;

struct http_config {
    const char *listen; /* address:port; port 0 = any free one */
    size_t body_bytes_max;
    size_t header_bytes_max;
    unsigned connections_max;
    unsigned connections_reserved;        /* of these, for requests of open_path only */
    unsigned connections_per_address_max; /* 0: no limit */
    unsigned idle_timeout_ms;             /* a connection without traffic is closed */
    unsigned header_timeout_ms;           /* for a header, from the accept on; 0: no limit */
    unsigned body_timeout_ms;             /* for a body, from the end of its header; 0: no limit */
    struct http_guard_config guard;
    const char *open_path; /* answered without a token, or NULL */
};

/* Runs on the server's thread and must not block. It answers with http_answer(), before it returns
 * or later from any thread; until then the connection waits without a thread. */
typedef void (*http_handler)(void *ctx, struct http_request *request);

/* Answers a request that the server refuses before the handler (no token, too large, malformed)
 * with http_answer() and this status, as 401 or 413. NULL: the server answers plain text. */
typedef void (*http_on_refuse)(void *ctx, struct http_request *request, int status);

/* Checks what http_open() needs of the settings: the address, the files and that they fit it. The
 * port of the address may be in use. Fails as http_open() does. */
enum rc http_check(const struct http_config *config, struct err *err);

/* Listens and serves at once; config is copied, its texts are borrowed until the close. RC_FATAL:
 * err names the address and the reason. RC_REJECT: err names the setting of the guard that is
 * wrong, or what is wrong with its file. */
enum rc http_open(struct http_server **server, const struct http_config *config,
                  http_handler handler, http_on_refuse on_refuse, void *ctx, struct err *err);

/* http_quiesce() accepts no new connections and keeps the open ones. http_close() ends them all:
 * every request that a handler got must have been answered before. */
void http_quiesce(struct http_server *server);
void http_close(struct http_server *server);

/* The port it listens on, and "http" or "https". */
int http_port(const struct http_server *server);
const char *http_scheme(const struct http_server *server);

#endif
