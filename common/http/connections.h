/* SPDX-License-Identifier: MIT */
/* The connections of a server: who may hold one, and how long each may take for what it is at. The
 * library's own time-out begins anew with every byte; the end of a phase is moved by none. The
 * server's thread calls these functions, but for http_connections_step(), which has a thread of its
 * own. */
#ifndef COMMON_HTTP_CONNECTIONS_H
#define COMMON_HTTP_CONNECTIONS_H

#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_connection;
struct sockaddr;

/* What a connection is at, and what ends with it. */
enum http_phase {
    HTTP_PHASE_HEADER,  /* its first header, from the accept: header_timeout_ms */
    HTTP_PHASE_BODY,    /* a body, from the end of its header: body_timeout_ms */
    HTTP_PHASE_HANDLER, /* the handler has the request: no end here */
    HTTP_PHASE_ANSWER,  /* its answer is sent: idle_timeout_ms and body_timeout_ms */
    HTTP_PHASE_IDLE,    /* from the last answer to the end of the next header: idle_timeout_ms for
                           the first byte and header_timeout_ms for the rest */
};

struct http_limits {
    unsigned connections_max;  /* at the same time, without those that are reserved */
    unsigned reserved;         /* connections for the open path alone */
    unsigned per_address_max;  /* 0: any number */
    int64_t header_timeout_ms; /* 0: no end, as the next two */
    int64_t body_timeout_ms;
    int64_t idle_timeout_ms;
};

struct http_connections {
    struct http_limits limits;
    pthread_mutex_t lock;          /* guards everything below and the connections */
    struct http_connection *first; /* the newest */
    struct http_connection *look;  /* the next one whose peer is looked for */
    size_t count;
    unsigned taken;    /* of connections_max */
    unsigned reserved; /* taken of limits.reserved */
};

void http_connections_init(struct http_connections *all, const struct http_limits *limits);

/* After all of them were removed. */
void http_connections_done(struct http_connections *all);

/* A client has come. One that is beyond a limit gets a reserved connection; where all of these are
 * taken, the oldest one that has not sent all of its request makes room. NULL: there is no room or
 * no memory, and the socket was shut down. Otherwise the socket fd is borrowed until the
 * removal. */
struct http_connection *http_connection_add(struct http_connections *all, int fd,
                                            const struct sockaddr *address, int64_t now_ms);
void http_connection_remove(struct http_connections *all, struct http_connection *connection);

/* False: the connection was shut down meanwhile. */
bool http_connection_enter(struct http_connections *all, struct http_connection *connection,
                           enum http_phase phase, int64_t now_ms);

/* Whether it may ask for anything. A reserved one may not, unless there is room for it by now. */
bool http_connection_admit(struct http_connections *all, struct http_connection *connection);

/* Shuts down what is past its end, and what the peer has closed although the library has not seen
 * it: it misses an end that comes together with the last bytes. Returns when to be called again:
 * LOOP_WAKEUP while there is no connection. ctx: the struct http_connections. */
int64_t http_connections_step(void *ctx, int64_t now_ms);

void http_connections_metrics_register(void);

#endif
