/* SPDX-License-Identifier: MIT */
/* The requests that the server refuses, and the low cost of refusing them. */
#include "common/os.h"
#include "tests/flow/http_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define TRICKLE_MS_MAX 50000 /* a client waits for a minute */
#define IDLE_MS 1000
#define HEADER_MS 400
#define BODY_MS 800

static void a_client_that_expects_100_continue_is_refused_before_its_body(void **state)
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

/* Bytes behind such a request are not taken for another one. */
static void a_request_without_a_clear_end_is_refused_and_its_connection_closed(void **state)
{
    static const char *const headers[] = {
        "Content-Length: 2\r\nContent-Length: 4\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Content-Length : 2\r\n",
    };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        struct buf request = {0};
        struct client client;
        struct answer answer;

        buf_print(&request, "POST /1 HTTP/1.1\r\nHost: x\r\n%s\r\n", headers[i]);
        buf_text_put(&request, "2\r\nab\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
        client_open(&client, fixture);
        client_say(&client, buf_text(&request));
        client_answer(&client, &answer, true);
        assert_int_equal(answer.status, 400);
        assert_non_null(strstr(answer.head, "Connection: close\r\n"));
        assert_int_equal(client.in.len, 0);
        assert_false(client_read(&client));
        client_close(&client);
        buf_done(&request);
    }
    assert_int_equal(atomic_load(&fixture->handled), 0);
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
    /* The held memory is free again. */
    post(&fixture, (size_t)18 << 20, false, &answer);
    assert_non_null(strstr(answer.head, "200 OK"));
    client_close(&first);
    fixture_close(&fixture);
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

/* Sends one byte after the other until the server has enough; returns how long that took since
 * from_ms. *gap_ms: the longest time without a byte. */
static int64_t trickle(struct client *client, const char *head, int64_t from_ms, int64_t *gap_ms)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    int64_t last_ms = from_ms;
    bool open;
    char byte;

    *gap_ms = 0;
    client_say(client, head);
    do {
        int64_t now_ms;

        nanosleep(&pause, NULL);
        open =
            client_send(client, "a", 1) && recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
        now_ms = os_now_ms();
        if (now_ms - last_ms > *gap_ms)
            *gap_ms = now_ms - last_ms;
        last_ms = now_ms;
    } while (open && last_ms - from_ms < TRICKLE_MS_MAX);
    client_close(client);
    return last_ms - from_ms;
}

/* Returns when it began, which is before the server's time does. A busy machine may not get the
 * head to the server in the time that it has: then with another connection. */
static int64_t client_begin(struct client *client, const struct fixture *fixture, const char *head,
                            int status)
{
    for (;;) {
        int64_t from_ms = os_now_ms();
        struct answer answer;

        client_open(client, fixture);
        client_say(client, head);
        client_answer(client, &answer, true);
        if (answer.status == status)
            return from_ms;
        assert_int_equal(answer.status, 0);
        assert_true(os_now_ms() - from_ms >= HEADER_MS);
        client_close(client);
    }
}

/* Each byte begins the time of an idle connection anew, but not that of a request. */
static void a_request_that_trickles_in_is_closed_in_its_time(void **state)
{
    static const char header[] = "GET / HTTP/1.1\r\nHost: localhost\r\nX-Any: ";
    static const char body[] = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
                               "Expect: 100-continue\r\n\r\n";
    static const char whole[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .body_bytes_max = BODY_MAX,
                                 .header_bytes_max = 16384,
                                 .connections_max = 10,
                                 .idle_timeout_ms = IDLE_MS,
                                 .header_timeout_ms = HEADER_MS,
                                 .body_timeout_ms = BODY_MS};
    struct fixture fixture = {0};
    struct client client;
    int64_t from_ms;
    int64_t gap_ms;
    int64_t ms;
    int handled;

    (void)state;
    assert_int_equal(http_open(&fixture.server, &config, on_request, NULL, &fixture, NULL), RC_OK);
    from_ms = os_now_ms();
    client_open(&client, &fixture);
    ms = trickle(&client, header, from_ms, &gap_ms);
    assert_true(ms >= HEADER_MS && ms < TRICKLE_MS_MAX);
    from_ms = client_begin(&client, &fixture, body, 100);
    ms = trickle(&client, "", from_ms, &gap_ms);
    assert_true(ms >= BODY_MS && ms < TRICKLE_MS_MAX);
    assert_int_equal(atomic_load(&fixture.handled), 0);
    /* The next request of a connection may begin at the last moment, and has its time then. Not
     * when this thread did not run for so long that the connection was idle. */
    do {
        from_ms = client_begin(&client, &fixture, whole, 200);
        handled = atomic_load(&fixture.handled);
        ms = trickle(&client, header, from_ms, &gap_ms);
        assert_int_equal(atomic_load(&fixture.handled), handled);
    } while (gap_ms >= IDLE_MS);
    assert_true(ms >= IDLE_MS + HEADER_MS && ms < TRICKLE_MS_MAX);
    http_close(fixture.server);
}

/* The library does not see an end that comes together with the last bytes until its time-out. */
static void a_connection_ends_with_its_client(void **state)
{
    static const char *const texts[] = {"", "GET / HT",
                                        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .body_bytes_max = BODY_MAX,
                                 .header_bytes_max = 1024,
                                 .connections_max = 100,
                                 .idle_timeout_ms = 600000};
    struct fixture fixture = {0};
    struct client clients[48];
    int64_t from_ms = os_now_ms();

    (void)state;
    assert_int_equal(http_open(&fixture.server, &config, on_request, NULL, &fixture, NULL), RC_OK);
    for (size_t i = 0; i < 48; i++) {
        client_open(&clients[i], &fixture);
        client_say(&clients[i], texts[i % 3]);
        assert_int_equal(shutdown(clients[i].fd, SHUT_WR), 0);
    }
    for (size_t i = 0; i < 48; i++) {
        while (client_read(&clients[i])) {
        }
        client_close(&clients[i]);
    }
    assert_true(os_now_ms() - from_ms < TRICKLE_MS_MAX);
    http_close(fixture.server);
}

static int status_of(const struct fixture *fixture, const char *path)
{
    struct answer answer;
    char text[128];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    ask(fixture, text, &answer);
    if (answer.status == 503) {
        assert_non_null(strstr(answer.head, "Connection: close\r\n"));
        assert_non_null(strstr(answer.head, "Retry-After: 1\r\n"));
        assert_string_equal(answer.body, "too many connections; try again later\n");
    }
    return answer.status;
}

static void a_probe_is_answered_while_all_connections_are_taken(void **state)
{
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .body_bytes_max = BODY_MAX,
                                 .header_bytes_max = 1024,
                                 .connections_max = 8,
                                 .connections_reserved = 2,
                                 .idle_timeout_ms = 600000,
                                 .open_path = "/healthz"};
    struct fixture fixture = {0};
    struct client clients[70];

    (void)state;
    assert_int_equal(http_open(&fixture.server, &config, on_request, NULL, &fixture, NULL), RC_OK);
    assert_int_equal(status_of(&fixture, "/x"), 200);
    for (size_t i = 0; i < 70; i++) {
        client_open(&clients[i], &fixture);
        client_send(&clients[i], "G", 1);
    }
    assert_int_equal(status_of(&fixture, "/healthz"), 200);
    assert_int_equal(status_of(&fixture, "/x"), 503);
    assert_int_equal(status_of(&fixture, "/healthz"), 200);
    for (size_t i = 0; i < 70; i++)
        client_close(&clients[i]);
    while (status_of(&fixture, "/x") != 200) {
    }
    http_close(fixture.server);
}

/* Such a request holds a reserved connection only until a probe needs it. */
static void a_probe_is_answered_while_bodies_are_awaited(void **state)
{
    static const char header[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
                                 "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .body_bytes_max = BODY_MAX,
                                 .header_bytes_max = 1024,
                                 .connections_max = 10,
                                 .connections_reserved = 2,
                                 .connections_per_address_max = 2,
                                 .idle_timeout_ms = 600000,
                                 .open_path = "/healthz"};
    struct fixture fixture = {0};
    struct client clients[4];

    (void)state;
    assert_int_equal(http_open(&fixture.server, &config, on_request, NULL, &fixture, NULL), RC_OK);
    for (size_t i = 0; i < 4; i++) {
        client_open(&clients[i], &fixture);
        client_say(&clients[i], header);
        assert_true(client_read(&clients[i])); /* 100: the body is awaited */
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(status_of(&fixture, "/healthz"), 200);
    for (size_t i = 0; i < 4; i++)
        client_close(&clients[i]);
    http_close(fixture.server);
}

static void an_address_with_too_many_connections_is_refused(void **state)
{
    struct http_config config = {.listen = "127.0.0.1:0",
                                 .body_bytes_max = BODY_MAX,
                                 .header_bytes_max = 1024,
                                 .connections_max = 10,
                                 .connections_per_address_max = 2,
                                 .idle_timeout_ms = 600000};
    struct fixture fixture = {0};
    struct client clients[2];
    struct client more;

    (void)state;
    assert_int_equal(http_open(&fixture.server, &config, on_request, NULL, &fixture, NULL), RC_OK);
    for (size_t i = 0; i < 2; i++)
        client_open(&clients[i], &fixture);
    client_open(&more, &fixture);
    assert_false(client_read(&more));
    client_close(&more);
    for (size_t i = 0; i < 2; i++)
        client_close(&clients[i]);
    while (status_of(&fixture, "/x") != 200) {
    }
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
        cmocka_unit_test_setup_teardown(
            a_client_that_expects_100_continue_is_refused_before_its_body, http_fixture_setup,
            http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_body_may_be_as_large_as_allowed_and_no_larger,
                                        http_fixture_setup, http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_refused_body_leaves_the_connection_usable,
                                        http_fixture_setup, http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_huge_body_is_refused_unread, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(an_endless_body_ends_with_its_connection,
                                        http_fixture_setup, http_fixture_teardown),
        cmocka_unit_test_setup_teardown(
            a_request_without_a_clear_end_is_refused_and_its_connection_closed, http_fixture_setup,
            http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_header_that_is_too_large_is_refused, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test(all_bodies_together_are_bounded),
        cmocka_unit_test(an_idle_connection_is_closed),
        cmocka_unit_test(a_request_that_trickles_in_is_closed_in_its_time),
        cmocka_unit_test(a_connection_ends_with_its_client),
        cmocka_unit_test(a_probe_is_answered_while_all_connections_are_taken),
        cmocka_unit_test(a_probe_is_answered_while_bodies_are_awaited),
        cmocka_unit_test(an_address_with_too_many_connections_is_refused),
        cmocka_unit_test(without_on_refuse_a_sentence_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
