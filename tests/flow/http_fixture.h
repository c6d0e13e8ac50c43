/* SPDX-License-Identifier: MIT */
/* A server on a free port of the loopback, and a client that talks to it byte by byte. */
#ifndef TESTS_FLOW_HTTP_FIXTURE_H
#define TESTS_FLOW_HTTP_FIXTURE_H

#include "common/buf.h"
#include "common/http/http.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define BODY_MAX 1000
#define WAITING_MAX 64

/* The server under test and the requests its handler has not answered yet. */
struct fixture {
    struct http_server *server;
    size_t body_bytes_max;
    struct buf arguments; /* of the last request, written by the handler */
    pthread_mutex_t lock; /* guards waiting, count and over */
    pthread_cond_t changed;
    struct http_request *waiting[WAITING_MAX];
    size_t count;
    bool over;
    atomic_int refused; /* the last status on_refuse got */
    atomic_int handled;
};

/* Handles "/late..." by keeping the request for take(), everything else by echo(). */
void on_request(void *ctx, struct http_request *request);

/* Waits for the next request that was kept; NULL when the fixture is over. */
struct http_request *take(struct fixture *fixture);

/* Answers "METHOD path body", the body cut. */
void echo(struct http_request *request);

void fixture_open(struct fixture *fixture, const char *listen, size_t body_bytes_max);
void fixture_close(struct fixture *fixture);

/* For cmocka: *state is a fixture with bodies of BODY_MAX. */
int http_fixture_setup(void **state);
int http_fixture_teardown(void **state);

/* A client's end of one connection. Nothing waits longer than a minute. */
struct client {
    int fd;
    struct buf in;
};

/* False: no process listens there. */
bool client_try(struct client *client, const char *host, int port);
void client_open(struct client *client, const struct fixture *fixture);
void client_close(struct client *client);

/* False when the server closed the connection meanwhile. */
bool client_send(struct client *client, const void *bytes, size_t len);
void client_say(struct client *client, const char *text);

/* False at the end of the connection. */
bool client_read(struct client *client);

struct answer {
    int status; /* 0: the connection ended without one */
    char head[2048];
    char body[2048];
};

/* Takes the next answer off the connection. has_body: false after HEAD. */
void client_answer(struct client *client, struct answer *answer, bool has_body);

/* One request on a connection of its own. */
void ask(const struct fixture *fixture, const char *request, struct answer *answer);

#endif
