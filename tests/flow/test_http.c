/* SPDX-License-Identifier: MIT */
/* The server as a client sees it: real sockets on free ports of the loopback. */
#include "common/http.h"

#include "common/buf.h"

#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

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

static void keep(struct fixture *fixture, struct http_request *request)
{
    pthread_mutex_lock(&fixture->lock);
    if (fixture->count < WAITING_MAX)
        fixture->waiting[fixture->count++] = request;
    pthread_cond_signal(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

/* Waits for the next request that was kept; NULL when the fixture is over. */
static struct http_request *take(struct fixture *fixture)
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

/* "METHOD path body", the body cut. */
static void echo(struct http_request *request)
{
    struct buf out = {0};
    size_t len;
    const void *body = http_body(request, &len);

    buf_print(&out, "%s %s ", http_method(request), http_path(request));
    buf_put(&out, body, len < 256 ? len : 256);
    http_answer(request, 200, "text/plain", out.data, out.len);
    buf_done(&out);
}

static void on_request(void *ctx, struct http_request *request)
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

static void fixture_open(struct fixture *fixture, const char *listen, size_t body_bytes_max)
{
    struct http_config config = {.listen = listen,
                                 .body_bytes_max = body_bytes_max,
                                 .header_bytes_max = 8192,
                                 .connections_max = 100,
                                 .idle_timeout_ms = 10000};
    struct err err = {0};

    memset(fixture, 0, sizeof(*fixture));
    fixture->body_bytes_max = body_bytes_max;
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    if (http_open(&fixture->server, &config, on_request, on_refuse, fixture, &err) != RC_OK)
        fail_msg("%s", err.text);
}

static void fixture_close(struct fixture *fixture)
{
    http_close(fixture->server);
    buf_done(&fixture->arguments);
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
}

static int setup(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));

    assert_non_null(fixture);
    fixture_open(fixture, "127.0.0.1:0", BODY_MAX);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

/* A client's end of one connection. Nothing waits longer than ten seconds. */
struct client {
    int fd;
    struct buf in;
};

static bool client_try(struct client *client, const char *host, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *place = NULL;
    struct timeval wait = {.tv_sec = 10};
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

static void client_open(struct client *client, const struct fixture *fixture)
{
    assert_true(client_try(client, "127.0.0.1", http_port(fixture->server)));
}

static void client_close(struct client *client)
{
    close(client->fd);
    buf_done(&client->in);
}

/* False when the server closed the connection meanwhile. */
static bool client_send(struct client *client, const void *bytes, size_t len)
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

static void client_say(struct client *client, const char *text)
{
    assert_true(client_send(client, text, strlen(text)));
}

/* False at the end of the connection. */
static bool client_read(struct client *client)
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

struct answer {
    int status; /* 0: the connection ended without one */
    char head[2048];
    char body[2048];
};

/* Takes the next answer off the connection. */
static void client_answer(struct client *client, struct answer *answer, bool has_body)
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

/* One request on a connection of its own. */
static void ask(const struct fixture *fixture, const char *request, struct answer *answer)
{
    struct client client;

    client_open(&client, fixture);
    client_say(&client, request);
    client_answer(&client, answer, true);
    client_close(&client);
}

static void a_request_is_answered_at_once(void **state)
{
    struct answer answer;

    ask(*state, "POST /v1/votes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "POST /v1/votes hello");
    assert_non_null(strstr(answer.head, "Content-Type: text/plain\r\n"));
}

static void a_request_is_answered_later_by_another_thread(void **state)
{
    struct fixture *fixture = *state;
    struct http_request *request;
    struct client client;
    struct answer answer;

    client_open(&client, fixture);
    client_say(&client, "GET /late HTTP/1.1\r\nHost: x\r\nX-Who: me\r\n\r\n");
    request = take(fixture);
    assert_string_equal(http_header(request, "x-WHO"), "me");
    assert_null(http_header(request, "x-other"));
    http_answer_header(request, "Retry-After", "7");
    http_answer_header(request, "X-Empty", "");
    http_answer_header(request, "X-Split", "a\r\nX-Evil: b");
    http_answer_header(request, "X-Two", "2");
    http_answer(request, 503, "application/json", "{}", 2);
    client_answer(&client, &answer, true);
    assert_int_equal(answer.status, 503);
    assert_string_equal(answer.body, "{}");
    assert_non_null(strstr(answer.head, "Retry-After: 7\r\n"));
    assert_non_null(strstr(answer.head, "X-Two: 2\r\n"));
    assert_null(strstr(answer.head, "X-Evil"));
    client_close(&client);
}

static void *answerer(void *arg)
{
    struct http_request *request;

    while ((request = take(arg)))
        echo(request);
    return NULL;
}

struct hammer {
    const struct fixture *fixture;
    int good;
};

static void *hammer_run(void *arg)
{
    struct hammer *hammer = arg;
    struct client client;
    struct answer answer;

    if (!client_try(&client, "127.0.0.1", http_port(hammer->fixture->server)))
        return NULL;
    for (int i = 0; i < 300; i++) {
        char want[64];
        char text[128];

        snprintf(want, sizeof(want), "GET /late/%d ", i);
        snprintf(text, sizeof(text), "GET /late/%d HTTP/1.1\r\nHost: x\r\n\r\n", i);
        if (!client_send(&client, text, strlen(text)))
            break;
        client_answer(&client, &answer, true);
        hammer->good += answer.status == 200 && strcmp(answer.body, want) == 0;
    }
    client_close(&client);
    return NULL;
}

/* The answer may come before, while or after the connection is parked. */
static void no_late_answer_is_lost(void **state)
{
    struct fixture *fixture = *state;
    struct hammer hammers[4];
    pthread_t clients[4];
    pthread_t answerers[2];

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&answerers[i], NULL, answerer, fixture), 0);
    for (int i = 0; i < 4; i++) {
        hammers[i] = (struct hammer){.fixture = fixture};
        assert_int_equal(pthread_create(&clients[i], NULL, hammer_run, &hammers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(clients[i], NULL);
        assert_int_equal(hammers[i].good, 300);
    }
    pthread_mutex_lock(&fixture->lock);
    fixture->over = true;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
    for (int i = 0; i < 2; i++)
        pthread_join(answerers[i], NULL);
}

static void requests_on_one_connection_are_answered_in_order(void **state)
{
    struct client client;
    struct answer answer;

    client_open(&client, *state);
    client_say(&client, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /late HTTP/1.1\r\nHost: x\r\n\r\n"
                        "POST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                        "GET /4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    client_answer(&client, &answer, true);
    assert_string_equal(answer.body, "GET /1 ");
    echo(take(*state));
    client_answer(&client, &answer, true);
    assert_string_equal(answer.body, "GET /late ");
    client_answer(&client, &answer, true);
    assert_string_equal(answer.body, "POST /3 abc");
    client_answer(&client, &answer, true);
    assert_string_equal(answer.body, "GET /4 ");
    assert_false(client_read(&client));
    client_close(&client);
}

static void paths_are_decoded_but_not_cut(void **state)
{
    struct answer answer;

    ask(*state, "GET /a%20b/%e4%B8%AD HTTP/1.1\r\nHost: x\r\n\r\n", &answer);
    assert_string_equal(answer.body, "GET /a b/\xE4\xB8\xAD ");
    ask(*state, "GET /v1/votes%00evil HTTP/1.1\r\nHost: x\r\n\r\n", &answer);
    assert_string_equal(answer.body, "GET /v1/votes%00evil ");
    ask(*state, "GET /100%/%4/%zz HTTP/1.1\r\nHost: x\r\n\r\n", &answer);
    assert_string_equal(answer.body, "GET /100%/%4/%zz ");
}

static void arguments_are_decoded_and_listed(void **state)
{
    struct fixture *fixture = *state;
    struct http_request *request;
    struct client client;

    client_open(&client, fixture);
    client_say(&client, "GET /late?voterId=1&ids=1%2C2&q=a+b&flag&q=c HTTP/1.1\r\nHost: x\r\n\r\n");
    request = take(fixture);
    assert_string_equal(buf_text(&fixture->arguments),
                        "voterId=[1] ids=[1,2] q=[a b] flag=[] q=[c] ");
    assert_string_equal(http_argument(request, "ids"), "1,2");
    assert_null(http_argument(request, "voterid"));
    assert_string_equal(http_path(request), "/late");
    echo(request);
    client_close(&client);
}

static void a_head_request_gets_no_body(void **state)
{
    struct client client;
    struct answer answer;

    client_open(&client, *state);
    client_say(&client, "HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n");
    client_answer(&client, &answer, false);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.head, "Content-Length: 8\r\n"));
    client_say(&client, "GET /y HTTP/1.1\r\nHost: x\r\n\r\n");
    client_answer(&client, &answer, true);
    assert_string_equal(answer.body, "GET /y ");
    client_close(&client);
}

static void a_method_nobody_knows_reaches_the_handler(void **state)
{
    struct answer answer;

    ask(*state, "BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n", &answer);
    assert_string_equal(answer.body, "BREW /pot ");
}

static void bytes_that_are_no_http_harm_nobody(void **state)
{
    static const char *const junk[] = {
        "\x16\x03\x01\x02",
        "GARBAGE\r\n\r\n",
        "GET /\x01\x7F\xFF HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    };
    struct answer answer;

    for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
        struct client client;

        client_open(&client, *state);
        client_say(&client, junk[i]);
        client_close(&client);
    }
    ask(*state, "GET /still/here HTTP/1.1\r\nHost: x\r\n\r\n", &answer);
    assert_string_equal(answer.body, "GET /still/here ");
}

static void a_client_that_asks_first_is_told_to_go_on(void **state)
{
    struct client client;
    struct answer answer;

    client_open(&client, *state);
    client_say(&client,
               "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    client_answer(&client, &answer, true);
    assert_int_equal(answer.status, 100);
    client_say(&client, "ok");
    client_answer(&client, &answer, true);
    assert_string_equal(answer.body, "POST / ok");
    client_close(&client);
}

static void a_client_that_asks_first_is_refused_first(void **state)
{
    struct fixture *fixture = *state;
    struct answer answer;

    ask(fixture,
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
        &answer);
    assert_int_equal(answer.status, 413);
    assert_int_equal(atomic_load(&fixture->handled), 0);
}

/* Sends a body of len bytes, whole or in chunks, and reads the answer. */
static void post(const struct fixture *fixture, size_t len, bool chunked, struct answer *answer)
{
    static const char zeros[4096];
    struct client client;
    char head[128];

    client_open(&client, fixture);
    if (chunked)
        snprintf(head, sizeof(head),
                 "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n", len);
    else
        snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                 len);
    client_say(&client, head);
    for (size_t left = len; left > 0;) {
        size_t part = left < sizeof(zeros) ? left : sizeof(zeros);

        if (!client_send(&client, zeros, part))
            break;
        left -= part;
    }
    if (chunked)
        client_send(&client, "\r\n0\r\n\r\n", 7);
    client_answer(&client, answer, true);
    client_close(&client);
}

static void a_body_may_be_as_large_as_allowed_and_no_larger(void **state)
{
    struct fixture *fixture = *state;
    struct answer answer;

    for (int chunked = 0; chunked < 2; chunked++) {
        post(fixture, BODY_MAX, chunked, &answer);
        assert_int_equal(answer.status, 200);
        post(fixture, BODY_MAX + 1, chunked, &answer);
        assert_int_equal(answer.status, 413);
        assert_string_equal(answer.body, "no");
        assert_int_equal(atomic_load(&fixture->refused), 413);
        /* The client sends all of it before it reads, and must see the answer all the same. */
        post(fixture, 2000000, chunked, &answer);
        assert_int_equal(answer.status, 413);
    }
    assert_int_equal(atomic_load(&fixture->handled), 2);
}

static void a_refused_body_leaves_the_connection_usable(void **state)
{
    static const char zeros[BODY_MAX + 1];
    struct client client;
    struct answer answer;

    client_open(&client, *state);
    client_say(&client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
    assert_true(client_send(&client, zeros, sizeof(zeros)));
    client_answer(&client, &answer, true);
    assert_int_equal(answer.status, 413);
    client_say(&client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok");
    client_answer(&client, &answer, true);
    assert_string_equal(answer.body, "POST / ok");
    client_close(&client);
}

static void a_huge_body_is_refused_unread(void **state)
{
    struct client client;
    struct answer answer;

    client_open(&client, *state);
    client_say(&client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000\r\n\r\n");
    client_answer(&client, &answer, true);
    assert_int_equal(answer.status, 413);
    assert_false(client_read(&client));
    client_close(&client);
}

static void an_endless_body_ends_with_its_connection(void **state)
{
    static const char chunk[] = "1000\r\n";
    static const char zeros[4096];
    struct client client;
    size_t sent = 0;

    client_open(&client, *state);
    client_say(&client, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (sent < (size_t)64 << 20 && client_send(&client, chunk, 6) &&
           client_send(&client, zeros, sizeof(zeros)) && client_send(&client, "\r\n", 2))
        sent += sizeof(zeros);
    assert_true(sent < (size_t)64 << 20);
    assert_int_equal(atomic_load(&((struct fixture *)*state)->handled), 0);
    client_close(&client);
}

static void a_header_that_is_too_large_is_refused(void **state)
{
    struct buf request = {0};
    struct answer answer;

    buf_text_put(&request, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: ");
    for (int i = 0; i < 9000; i++)
        buf_char(&request, 'a');
    buf_text_put(&request, "\r\n\r\n");
    ask(*state, buf_text(&request), &answer);
    assert_int_equal(answer.status, 431);
    buf_done(&request);
}

/* Each body is allowed, all of them together are not. */
static void all_bodies_together_are_bounded(void **state)
{
    static const char zeros[65536];
    const size_t body = (size_t)40 << 20;
    struct fixture fixture;
    struct client first;
    struct answer answer;

    (void)state;
    fixture_open(&fixture, "127.0.0.1:0", body);
    client_open(&first, &fixture);
    client_say(&first, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 41943040\r\n\r\n");
    for (size_t sent = 0; sent < body - sizeof(zeros); sent += sizeof(zeros))
        assert_true(client_send(&first, zeros, sizeof(zeros)));
    /* 40 MiB are set apart for the first; the second may not grow from 16 to 32. */
    post(&fixture, (size_t)18 << 20, false, &answer);
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(answer.head, "Retry-After: 1\r\n"));
    assert_true(client_send(&first, zeros, sizeof(zeros)));
    client_answer(&first, &answer, false);
    assert_int_equal(answer.status, 200);
    /* What was held is free again. */
    post(&fixture, (size_t)18 << 20, false, &answer);
    assert_non_null(strstr(answer.head, "200 OK"));
    client_close(&first);
    fixture_close(&fixture);
}

static void a_busy_port_is_named(void **state)
{
    const struct fixture *fixture = *state;
    struct http_config config = {
        .body_bytes_max = 1, .header_bytes_max = 1024, .connections_max = 1, .idle_timeout_ms = 1};
    struct http_server *other;
    struct err err = {0};
    char listen[32];
    char want[64];

    snprintf(listen, sizeof(listen), "127.0.0.1:%d", http_port(fixture->server));
    snprintf(want, sizeof(want), "cannot listen on %s: another process listens there", listen);
    config.listen = listen;
    assert_int_equal(http_open(&other, &config, on_request, NULL, NULL, &err), RC_FATAL);
    assert_memory_equal(err.text, want, strlen(want));
}

static void an_address_that_is_not_ours_is_named(void **state)
{
    static const char *const addresses[] = {"192.0.2.1:0", "no.such.host.invalid:80", "127.0.0.1",
                                            ":8080",       "127.0.0.1:http",          "[::1:80"};
    struct http_config config = {
        .body_bytes_max = 1, .header_bytes_max = 1024, .connections_max = 1, .idle_timeout_ms = 1};

    (void)state;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        struct http_server *other;
        struct err err = {0};

        config.listen = addresses[i];
        assert_int_equal(http_open(&other, &config, on_request, NULL, NULL, &err), RC_FATAL);
        assert_non_null(strstr(err.text, addresses[i]));
    }
}

static void both_families_can_be_listened_on(void **state)
{
    static const char *const listens[] = {"[::1]:0", "*:0", "localhost:0"};
    static const char *const hosts[] = {"::1", "127.0.0.1", "127.0.0.1"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct fixture fixture;
        struct client client;
        struct answer answer;
        struct client probe;

        /* A machine without IPv6 cannot be asked for it. */
        if (i == 0) {
            int fd = socket(AF_INET6, SOCK_STREAM, 0);

            if (fd < 0)
                continue;
            close(fd);
        }
        fixture_open(&fixture, listens[i], BODY_MAX);
        assert_true(client_try(&client, hosts[i], http_port(fixture.server)));
        client_say(&client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        client_answer(&client, &answer, true);
        assert_int_equal(answer.status, 200);
        client_close(&client);
        if (i == 1 && client_try(&probe, "::1", http_port(fixture.server)))
            client_close(&probe);
        fixture_close(&fixture);
    }
}

static void a_quiet_server_finishes_what_is_under_way(void **state)
{
    struct fixture fixture;
    struct http_request *request;
    struct client client;
    struct client late;
    struct answer answer;
    int port;

    (void)state;
    fixture_open(&fixture, "127.0.0.1:0", BODY_MAX);
    port = http_port(fixture.server);
    client_open(&client, &fixture);
    client_say(&client, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n");
    request = take(&fixture);
    http_quiesce(fixture.server);
    http_quiesce(fixture.server);
    assert_false(client_try(&late, "127.0.0.1", port));
    echo(request);
    fixture_close(&fixture);
    client_answer(&client, &answer, true);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.head, "Connection: close\r\n"));
    client_close(&client);
}

static void an_idle_connection_is_closed(void **state)
{
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .body_bytes_max = BODY_MAX,
                                 .header_bytes_max = 1024,
                                 .connections_max = 10,
                                 .idle_timeout_ms = 1};
    struct fixture fixture = {0};
    struct client client;

    (void)state;
    assert_int_equal(http_open(&fixture.server, &config, on_request, NULL, &fixture, NULL), RC_OK);
    client_open(&client, &fixture);
    client_say(&client, "GET / HT");
    assert_false(client_read(&client));
    client_close(&client);
    http_close(fixture.server);
}

static void without_on_refuse_a_sentence_is_sent(void **state)
{
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .body_bytes_max = 1,
                                 .header_bytes_max = 1024,
                                 .connections_max = 10,
                                 .idle_timeout_ms = 5000};
    struct fixture fixture = {0};
    struct answer answer;

    (void)state;
    assert_int_equal(http_open(&fixture.server, &config, on_request, NULL, &fixture, NULL), RC_OK);
    ask(&fixture, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nno", &answer);
    assert_int_equal(answer.status, 413);
    assert_string_equal(answer.body, "the body is too large\n");
    http_close(fixture.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_answered_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_is_answered_later_by_another_thread, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_late_answer_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_on_one_connection_are_answered_in_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(paths_are_decoded_but_not_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(arguments_are_decoded_and_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_request_gets_no_body, setup, teardown),
        cmocka_unit_test_setup_teardown(a_method_nobody_knows_reaches_the_handler, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_http_harm_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_asks_first_is_told_to_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_asks_first_is_refused_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_may_be_as_large_as_allowed_and_no_larger, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_refused_body_leaves_the_connection_usable, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_huge_body_is_refused_unread, setup, teardown),
        cmocka_unit_test_setup_teardown(an_endless_body_ends_with_its_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(a_header_that_is_too_large_is_refused, setup, teardown),
        cmocka_unit_test(all_bodies_together_are_bounded),
        cmocka_unit_test_setup_teardown(a_busy_port_is_named, setup, teardown),
        cmocka_unit_test(an_address_that_is_not_ours_is_named),
        cmocka_unit_test(both_families_can_be_listened_on),
        cmocka_unit_test(a_quiet_server_finishes_what_is_under_way),
        cmocka_unit_test(an_idle_connection_is_closed),
        cmocka_unit_test(without_on_refuse_a_sentence_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
