/* SPDX-License-Identifier: MIT */
/* The requests of a server, from their first bytes on: whether their headers are unambiguous, their
 * bodies within limits, and their memory. Only common/http/ includes this header; a handler uses
 * request.h. A request belongs to the server's thread, except between the call of the handler and
 * http_answer(). */
#ifndef COMMON_HTTP_REQUESTS_H
#define COMMON_HTTP_REQUESTS_H

#include "common/buf.h"
#include "common/http/tokens.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct MHD_Connection;
struct MHD_Response;
struct http_server;

enum http_request_state {
    HTTP_REQUEST_GATHERING, /* its body is being received */
    HTTP_REQUEST_HANDLING,  /* the handler has it; the connection is not suspended yet */
    HTTP_REQUEST_WAITING,   /* the handler has it; the connection is suspended */
    HTTP_REQUEST_ANSWERED,  /* http_answer() was called */
};

/* Why a request is refused before the handler: the status of the answer. */
enum http_refusal {
    HTTP_REFUSAL_NONE,
    HTTP_REFUSAL_BAD = 400,
    HTTP_REFUSAL_NO_TOKEN = 401,
    HTTP_REFUSAL_TOO_LARGE = 413,
    HTTP_REFUSAL_OTHER_HOST = 421,
    HTTP_REFUSAL_BUSY = 503,
};

/* The memory of a server's requests, kept for the next ones. Only the server's thread may use it,
 * except for the atomic fields. */
struct http_requests {
    size_t body_bytes_max;
    size_t bodies_bytes; /* of all bodies being received */
    struct http_request *spare;
    atomic_int open;     /* begun and not yet ended */
    atomic_bool parting; /* answers ask their clients to close the connection */
};

struct http_request {
    struct http_requests *all;
    struct http_server *server;
    struct MHD_Connection *connection;
    struct http_connection *held; /* its connection: place and deadlines */
    const char *method;
    const char *path;
    bool is_old;    /* HTTP/1.0, where Host may be missing */
    bool is_beyond; /* its connection is beyond the limit and ends with the answer */
    struct buf body;
    size_t dropped_bytes;
    enum http_refusal refusal;
    struct http_scopes scopes;
    struct buf headers; /* of the answer: name, zero, value, zero ... */
    struct MHD_Response *response;
    int status;
    atomic_int state; /* an enum http_request_state */
    struct http_request *next;
};

void http_requests_init(struct http_requests *all, size_t body_bytes_max);
void http_requests_done(struct http_requests *all);

/* A new request of the connection. NULL: there is no memory. */
struct http_request *http_request_take(struct http_requests *all, struct http_server *server,
                                       struct MHD_Connection *connection);

/* Ends a request and keeps its memory for the next one. True: it was the last open one. */
bool http_request_give_back(struct http_request *request);

/* Takes more of the body. A body beyond a limit is dropped, and refusal is set. False: the client
 * keeps sending beyond all limits, or there is no memory; the connection must end. */
bool http_request_gather(struct http_request *request, const char *bytes, size_t len);

/* Whether a body of that length is read to its end, kept or dropped. */
bool http_request_would_gather(size_t len);

/* Counts the headers that define the end and the host of a request. If a request defines one of
 * them in two ways, a proxy in front could see another end than this server (request smuggling):
 * the next client's request would become part of this one. Zeroed: no header yet. */
struct http_frame {
    unsigned hosts;     /* how often Host is there */
    unsigned lengths;   /* how often Content-Length is there */
    unsigned encodings; /* how often Transfer-Encoding is there */
    bool bad;
};

/* Takes the next header; value may be NULL. Pure, as the next one. */
void http_frame_see(struct http_frame *frame, const char *name, const char *value);

/* After all headers. True: there is at most one Host, at most one of Content-Length and
 * Transfer-Encoding, the latter is chunked, and every name is well-formed. */
bool http_frame_is_clear(const struct http_frame *frame);

#endif
