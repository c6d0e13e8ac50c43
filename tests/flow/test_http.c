/* SPDX-License-Identifier: MIT */
/* The server as a client sees it: real sockets on free ports of the loopback. */
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
#include <unistd.h>

#include <cmocka.h>

#define CLOSE_WAIT_MS 2000 /* as in common/http/http.c */

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

static void an_unknown_method_reaches_the_handler(void **state)
{
    struct answer answer;

    ask(*state, "BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n", &answer);
    assert_string_equal(answer.body, "BREW /pot ");
}

static void bytes_that_are_no_http_do_no_harm(void **state)
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

static void a_client_that_expects_100_continue_gets_it(void **state)
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

static void a_busy_port_is_named(void **state)
{
    const struct fixture *fixture = *state;
    struct http_config config = {.body_bytes_max = 1,
                                 .header_bytes_max = 1024,
                                 .connections_max = 1,
                                 .idle_timeout_ms = 1,
                                 .guard = {.section = "test"}};
    struct http_server *other;
    struct err err = {0};
    char listen[32];
    char want[96];

    snprintf(listen, sizeof(listen), "127.0.0.1:%d", http_port(fixture->server));
    snprintf(want, sizeof(want),
             "test.listen: cannot listen on %s: another process listens on this address", listen);
    config.listen = listen;
    assert_int_equal(http_open(&other, &config, on_request, NULL, NULL, &err), RC_FATAL);
    assert_memory_equal(err.text, want, strlen(want));
    /* A check of the settings needs no free port. */
    assert_int_equal(http_check(&config, &err), RC_OK);
}

static void a_plus_asks_for_the_next_free_port(void **state)
{
    const struct fixture *fixture = *state;
    struct http_config config = {.body_bytes_max = 1,
                                 .header_bytes_max = 1024,
                                 .connections_max = 1,
                                 .idle_timeout_ms = 1,
                                 .guard = {.section = "test"}};
    struct http_server *second;
    struct http_server *third;
    struct err err = {0};
    char listen[32];
    int taken = http_port(fixture->server);

    /* A port near the end has no hundred ports after it. */
    if (taken > 65000)
        return;
    snprintf(listen, sizeof(listen), "127.0.0.1:%d+", taken);
    config.listen = listen;
    assert_int_equal(http_open(&second, &config, on_request, NULL, NULL, &err), RC_OK);
    assert_in_range(http_port(second), taken + 1, taken + 99);
    assert_int_equal(http_open(&third, &config, on_request, NULL, NULL, &err), RC_OK);
    assert_in_range(http_port(third), http_port(second) + 1, taken + 99);
    http_close(third);
    http_close(second);
}

static void the_last_port_has_no_next_one(void **state)
{
    struct http_config config = {.listen = "127.0.0.1:65535+",
                                 .body_bytes_max = 1,
                                 .header_bytes_max = 1024,
                                 .connections_max = 1,
                                 .idle_timeout_ms = 1,
                                 .guard = {.section = "test"}};
    struct http_server *one = NULL;
    struct http_server *other = NULL;
    struct err err = {0};

    (void)state;
    /* Another program of this machine may have the port; the second server fails in any case. */
    if (http_open(&one, &config, on_request, NULL, NULL, &err) == RC_OK)
        assert_int_equal(http_port(one), 65535);
    assert_int_equal(http_open(&other, &config, on_request, NULL, NULL, &err), RC_FATAL);
    assert_non_null(strstr(err.text, "cannot listen on 127.0.0.1:65535+: another process"));
    if (one)
        http_close(one);
}

static void an_address_that_is_not_ours_is_named(void **state)
{
    static const char *const addresses[] = {"192.0.2.1:0", "127.0.0.1", ":8080", "127.0.0.1:http",
                                            "[::1:80"};
    struct http_config config = {.body_bytes_max = 1,
                                 .header_bytes_max = 1024,
                                 .connections_max = 1,
                                 .idle_timeout_ms = 1,
                                 .guard = {.section = "test"}};

    (void)state;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        struct http_server *other;
        struct err err = {0};

        config.listen = addresses[i];
        assert_int_equal(http_open(&other, &config, on_request, NULL, NULL, &err), RC_REJECT);
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

        /* A machine without IPv6 cannot run this part. */
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

/* The server goes while an answer is under way; returns how long that took. */
static int64_t part_with(struct answer *answer)
{
    struct fixture fixture;
    struct http_request *request;
    struct client client;
    struct client late;
    int64_t from_ms;
    int64_t took_ms;
    int port;

    fixture_open(&fixture, "127.0.0.1:0", BODY_MAX);
    port = http_port(fixture.server);
    client_open(&client, &fixture);
    client_say(&client, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n");
    request = take(&fixture);
    http_quiesce(fixture.server);
    http_quiesce(fixture.server);
    assert_false(client_try(&late, "127.0.0.1", port));
    echo(request);
    from_ms = os_now_ms();
    fixture_close(&fixture);
    took_ms = os_now_ms() - from_ms;
    client_answer(&client, answer, true);
    client_close(&client);
    return took_ms;
}

/* It waits for two seconds at most, and its own thread may be late on a busy machine. */
static void a_quiet_server_finishes_what_is_under_way(void **state)
{
    struct answer answer;

    (void)state;
    while (part_with(&answer) >= CLOSE_WAIT_MS && answer.status == 0) {
    }
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.head, "Connection: close\r\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_answered_at_once, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_request_is_answered_later_by_another_thread,
                                        http_fixture_setup, http_fixture_teardown),
        cmocka_unit_test_setup_teardown(no_late_answer_is_lost, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(requests_on_one_connection_are_answered_in_order,
                                        http_fixture_setup, http_fixture_teardown),
        cmocka_unit_test_setup_teardown(paths_are_decoded_but_not_cut, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(arguments_are_decoded_and_listed, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_head_request_gets_no_body, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(an_unknown_method_reaches_the_handler, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_http_do_no_harm, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_client_that_expects_100_continue_gets_it,
                                        http_fixture_setup, http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_busy_port_is_named, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test_setup_teardown(a_plus_asks_for_the_next_free_port, http_fixture_setup,
                                        http_fixture_teardown),
        cmocka_unit_test(an_address_that_is_not_ours_is_named),
        cmocka_unit_test(the_last_port_has_no_next_one),
        cmocka_unit_test(both_families_can_be_listened_on),
        cmocka_unit_test(a_quiet_server_finishes_what_is_under_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
