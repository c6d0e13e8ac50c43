/* SPDX-License-Identifier: MIT */
/* The sockets of a server: opens the listening one, and decides how many connections each address
 * may hold and how long each phase of a connection may take. The library's own time-out restarts
 * with every byte; the deadline of a phase does not move. The server's thread calls the functions
 * on connections, except http_connections_step(), which has a thread of its own. */
#ifndef COMMON_HTTP_CONNECTIONS_H
#define COMMON_HTTP_CONNECTIONS_H

#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_connection;
struct sockaddr;

/* Opens a listening socket. address: host:port; the host is a name, an IPv4 address, an IPv6
 * address in brackets, or * for all addresses; a + after the port asks for the first free port from
 * this one on, of 100. The caller owns *fd; *port is the actual port.
 * RC_REJECT: no process of this machine can listen there. RC_FATAL: another process does, or the
 * machine lacks something. err names the address and the reason. Any thread. */
enum rc http_listen(const char *address, int *fd, int *port, struct err *err);

/* As http_listen(), but at any free port instead of the address's: for a check of the settings that
 * leaves the port alone. */
enum rc http_try_address(const char *address, int *fd, struct err *err);

/* Whether only another machine can listen at the address, because this one does not have it. */
bool http_is_foreign(const char *address);

/* The phases of a connection, and the limit of each. */
enum http_phase {
    HTTP_PHASE_HEADER,  /* receives its first header, from the accept on: header_timeout_ms */
    HTTP_PHASE_BODY,    /* receives a body, from the end of its header on: body_timeout_ms */
    HTTP_PHASE_HANDLER, /* the handler has the request: no limit */
    HTTP_PHASE_ANSWER,  /* sends the answer: idle_timeout_ms + body_timeout_ms */
    HTTP_PHASE_IDLE,    /* from the last answer to the end of the next header: idle_timeout_ms for
                           the first byte and header_timeout_ms for the rest */
};

struct http_limits {
    unsigned connections_max;  /* at the same time, without the reserved ones */
    unsigned reserved;         /* connections that may only request the open path */
    unsigned per_address_max;  /* 0: no limit */
    int64_t header_timeout_ms; /* 0: no limit, as the next two */
    int64_t body_timeout_ms;
    int64_t idle_timeout_ms;
};

struct http_connections {
    struct http_limits limits;
    pthread_mutex_t lock;               /* guards everything below and the connections */
    struct http_connection *first;      /* the newest */
    struct http_connection *next_check; /* the next one whose peer is checked; NULL: the first */
    size_t count;
    unsigned taken;    /* of connections_max */
    unsigned reserved; /* taken of limits.reserved */
};

void http_connections_init(struct http_connections *all, const struct http_limits *limits);

/* Removes the connections that are left. */
void http_connections_done(struct http_connections *all);

/* Registers a client that was accepted. A client beyond a limit gets a reserved connection; if all
 * of these are taken, the oldest one whose request is incomplete is shut down. NULL: there is no
 * room or no memory, and the socket was shut down. The socket fd is borrowed until the removal. */
struct http_connection *http_connection_add(struct http_connections *all, int fd,
                                            const struct sockaddr *address, int64_t now_ms);
void http_connection_remove(struct http_connections *all, struct http_connection *connection);

/* Starts a phase. False: the connection has been shut down. */
bool http_connection_enter(struct http_connections *all, struct http_connection *connection,
                           enum http_phase phase, int64_t now_ms);

/* Whether the connection may request any path. A reserved one may not, unless there is room for it
 * by now. */
bool http_connection_admit(struct http_connections *all, struct http_connection *connection);

/* A loop_step: shuts down the connections that are past their deadline, and those that the peer has
 * closed: the library misses an end that arrives together with the last bytes. Returns LOOP_WAKEUP
 * while there is no connection. ctx: the struct http_connections. */
int64_t http_connections_step(void *ctx, int64_t now_ms);

void http_connections_metrics_register(void);

#endif
