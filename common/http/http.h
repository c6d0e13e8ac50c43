/* SPDX-License-Identifier: MIT */
/* A small HTTP/1.1 server on libmicrohttpd, for the API and the admin pages. It bounds headers,
 * body, connections and time by itself; a handler sees only whole requests. */
#ifndef COMMON_HTTP_HTTP_H
#define COMMON_HTTP_HTTP_H

#include "common/err.h"
#include "common/http/guard.h"

#include <stddef.h>
#include <stdint.h>

struct http_server;
struct http_request;

struct http_config {
    const char *listen; /* address:port; port 0 = any free one */
    size_t body_bytes_max;
    size_t header_bytes_max;
    unsigned connections_max;
    unsigned connections_reserved;        /* of these, for requests of open_path alone */
    unsigned connections_per_address_max; /* 0: any number */
    unsigned idle_timeout_ms;             /* a connection with nothing moving is closed */
    unsigned header_timeout_ms;           /* for a header, from the accept; 0: no end */
    unsigned body_timeout_ms;             /* for a body, from the end of its header; 0: no end */
    struct http_guard_config guard;
    const char *open_path; /* answered without a token, or NULL */
};

/* Runs on the server's thread and must not block. It answers with http_answer(), at once or later
 * from any thread; until then the connection waits and costs no thread. */
typedef void (*http_handler)(void *ctx, struct http_request *request);

/* Requests the server must refuse before the handler sees them (no token, too large, bad) go to
 * on_refuse with the status (401, 413, ...), which must http_answer(); NULL: a plain sentence. */
typedef void (*http_on_refuse)(void *ctx, struct http_request *request, int status);

/* RC_FATAL: err says which address and why (in use, not ours, no right). RC_REJECT: which setting
 * of the guard is wrong, or what is wrong with its file. */
enum rc http_open(struct http_server **server, const struct http_config *config,
                  http_handler handler, http_on_refuse on_refuse, void *ctx, struct err *err);

/* Takes no new connections; those under way go on. Then http_close() ends them all: every request
 * handed out must have been answered before. */
void http_quiesce(struct http_server *server);
void http_close(struct http_server *server);

/* The port it listens on, and "http" or "https". */
int http_port(const struct http_server *server);
const char *http_scheme(const struct http_server *server);

/* Borrowed until the answer. The path is decoded and without the query; NULL where there is none.
 * http_argument(): a decoded query argument, the first of that name, "" for one without a value.
 * http_header(): any case. */
const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request);
const char *http_argument(struct http_request *request, const char *name);
const char *http_header(struct http_request *request, const char *name);
/* What the request's token may do, or what everyone may where there are none. */
const struct http_scopes *http_scopes(const struct http_request *request);
const void *http_body(const struct http_request *request, size_t *len);

/* Calls on_argument for every query argument, so that unknown ones can be refused. */
void http_each_argument(struct http_request *request,
                        void (*on_argument)(void *ctx, const char *name, const char *value),
                        void *ctx);

/* Before the answer: adds one header to it (copied). */
void http_answer_header(struct http_request *request, const char *name, const char *value);

/* Answers once and gives the request back: it must not be touched afterwards. body is copied. */
void http_answer(struct http_request *request, int status, const char *content_type,
                 const void *body, size_t len);

#endif
