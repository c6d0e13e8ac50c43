/* SPDX-License-Identifier: MIT */
#include "tests/flow/http_fixture.h"

#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

static void keep(struct fixture *fixture, struct http_request *request)
{
    pthread_mutex_lock(&fixture->lock);
    if (fixture->count < WAITING_MAX)
        fixture->waiting[fixture->count++] = request;
    pthread_cond_signal(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

struct http_request *take(struct fixture *fixture)
{
    struct http_request *request = NULL;

    pthread_mutex_lock(&fixture->lock);
    while (fixture->count == 0 && !fixture->over)
        pthread_cond_wait(&fixture->changed, &fixture->lock);
    if (fixture->count > 0)
        request = fixture->waiting[--fixture->count];
    pthread_mutex_unlock(&fixture->lock);
    return request;
}

static void on_argument(void *ctx, const char *name, const char *value)
{
    struct fixture *fixture = ctx;

    buf_print(&fixture->arguments, "%s=[%s] ", name, value);
}

void echo(struct http_request *request)
{
    struct buf out = {0};
    size_t len;
    const void *body = http_body(request, &len);

    buf_print(&out, "%s %s ", http_method(request), http_path(request));
    buf_put(&out, body, len < 256 ? len : 256);
    http_answer(request, 200, "text/plain", out.data, out.len);
    buf_done(&out);
}

void on_request(void *ctx, struct http_request *request)
{
    struct fixture *fixture = ctx;

    atomic_fetch_add(&fixture->handled, 1);
    buf_reset(&fixture->arguments);
    http_each_argument(request, on_argument, fixture);
    if (strncmp(http_path(request), "/late", 5) == 0)
        keep(fixture, request);
    else
        echo(request);
}

static void on_refuse(void *ctx, struct http_request *request, int status)
{
    struct fixture *fixture = ctx;

    atomic_store(&fixture->refused, status);
    http_answer(request, status, "text/plain", "no", 2);
}

void fixture_open(struct fixture *fixture, const char *listen, size_t body_bytes_max)
{
    struct http_config config = {.listen = listen,
                                 .body_bytes_max = body_bytes_max,
                                 .header_bytes_max = 8192,
                                 .connections_max = 100,
                                 .idle_timeout_ms = 10000,
                                 .guard = {.section = "test", .without_token = true}};
    struct err err = {0};

    memset(fixture, 0, sizeof(*fixture));
    fixture->body_bytes_max = body_bytes_max;
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    if (http_open(&fixture->server, &config, on_request, on_refuse, fixture, &err) != RC_OK)
        fail_msg("%s", err.text);
}

void fixture_close(struct fixture *fixture)
{
    http_close(fixture->server);
    buf_done(&fixture->arguments);
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
}

int http_fixture_setup(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));

    assert_non_null(fixture);
    fixture_open(fixture, "127.0.0.1:0", BODY_MAX);
    *state = fixture;
    return 0;
}

int http_fixture_teardown(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

bool client_try(struct client *client, const char *host, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *place = NULL;
    struct timeval wait = {.tv_sec = 60};
    char text[8];
    bool good;

    memset(client, 0, sizeof(*client));
    snprintf(text, sizeof(text), "%d", port);
    if (getaddrinfo(host, text, &hints, &place) != 0)
        return false;
    client->fd = socket(place->ai_family, place->ai_socktype, 0);
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    good = connect(client->fd, place->ai_addr, place->ai_addrlen) == 0;
    freeaddrinfo(place);
    if (!good)
        close(client->fd);
    return good;
}

void client_open(struct client *client, const struct fixture *fixture)
{
    assert_true(client_try(client, "127.0.0.1", http_port(fixture->server)));
}

void client_close(struct client *client)
{
    close(client->fd);
    buf_done(&client->in);
}

bool client_send(struct client *client, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = send(client->fd, at, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

void client_say(struct client *client, const char *text)
{
    assert_true(client_send(client, text, strlen(text)));
}

bool client_read(struct client *client)
{
    char *at = buf_reserve(&client->in, 4096);
    ssize_t n;

    assert_non_null(at);
    n = recv(client->fd, at, 4096, 0);
    if (n <= 0)
        return false;
    client->in.len += (size_t)n;
    return true;
}

void client_answer(struct client *client, struct answer *answer, bool has_body)
{
    char *end;
    const char *length;
    size_t head_len;
    size_t body_len;

    memset(answer, 0, sizeof(*answer));
    while (!(end = strstr(buf_text(&client->in), "\r\n\r\n"))) {
        if (!client_read(client))
            return;
    }
    head_len = (size_t)(end - client->in.data) + 4;
    assert_true(head_len < sizeof(answer->head));
    memcpy(answer->head, client->in.data, head_len);
    answer->status = (int)strtol(answer->head + 9, NULL, 10);
    length = strstr(answer->head, "Content-Length: ");
    body_len = length && has_body ? (size_t)strtol(length + 16, NULL, 10) : 0;
    assert_true(body_len < sizeof(answer->body));
    while (client->in.len < head_len + body_len)
        assert_true(client_read(client));
    memcpy(answer->body, client->in.data + head_len, body_len);
    memmove(client->in.data, client->in.data + head_len + body_len,
            client->in.len - head_len - body_len);
    client->in.len -= head_len + body_len;
}

void ask(const struct fixture *fixture, const char *request, struct answer *answer)
{
    struct client client;

    client_open(&client, fixture);
    client_say(&client, request);
    client_answer(&client, answer, true);
    client_close(&client);
}
