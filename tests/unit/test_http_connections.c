/* SPDX-License-Identifier: MIT */
#include "common/http/connections.h"

#include "common/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENTS_MAX 16

/* A client is one end of a pair of sockets; the other end is the server's. */
struct client {
    int ours;
    int theirs;
    struct http_connection *connection; /* NULL: it was not let in */
};

static struct http_connections all;
static struct client clients[CLIENTS_MAX];
static size_t count;

static const struct http_limits standard = {.connections_max = 10,
                                            .header_timeout_ms = 5000,
                                            .body_timeout_ms = 10000,
                                            .idle_timeout_ms = 30000};

static struct client *come(const char *address, int64_t now_ms)
{
    struct client *client = &clients[count++];
    struct sockaddr_in place = {.sin_family = AF_INET};
    int fds[2];

    assert_true(count <= CLIENTS_MAX);
    assert_int_equal(inet_pton(AF_INET, address, &place.sin_addr), 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *client = (struct client){.ours = fds[0], .theirs = fds[1]};
    client->connection =
        http_connection_add(&all, client->theirs, (struct sockaddr *)&place, now_ms);
    return client;
}

static bool is_shut(const struct client *client)
{
    char byte;

    return recv(client->ours, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void go(struct client *client)
{
    if (client->connection)
        http_connection_remove(&all, client->connection);
    client->connection = NULL;
}

static void begin(const struct http_limits *limits)
{
    count = 0;
    http_connections_init(&all, limits);
}

static void end(void)
{
    for (size_t i = 0; i < count; i++) {
        go(&clients[i]);
        close(clients[i].ours);
        close(clients[i].theirs);
    }
    assert_int_equal(all.taken, 0);
    assert_int_equal(all.reserved, 0);
    http_connections_done(&all);
}

static bool enter(struct client *client, enum http_phase phase, int64_t now_ms)
{
    return http_connection_enter(&all, client->connection, phase, now_ms);
}

static void a_phase_ends_at_its_deadline_even_while_bytes_arrive(void **state)
{
    static const struct {
        enum http_phase phase;
        int64_t ms; /* 0: it does not end */
    } phases[] = {
        {HTTP_PHASE_HEADER, 5000},  {HTTP_PHASE_BODY, 10000}, {HTTP_PHASE_HANDLER, 0},
        {HTTP_PHASE_ANSWER, 40000}, {HTTP_PHASE_IDLE, 35000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        int64_t ms = phases[i].ms;
        struct client *client;

        begin(&standard);
        client = come("10.0.0.1", 1000);
        if (phases[i].phase != HTTP_PHASE_HEADER)
            assert_true(enter(client, phases[i].phase, 1000));
        for (int64_t at = 0; ms > 0 && at < ms; at += 500) {
            assert_int_equal(send(client->ours, "x", 1, 0), 1);
            assert_int_equal(http_connections_step(&all, 1000 + at), 625);
            assert_false(is_shut(client));
        }
        http_connections_step(&all, 1000 + (ms > 0 ? ms : 3600000));
        assert_int_equal(is_shut(client), ms > 0);
        assert_int_equal(enter(client, HTTP_PHASE_BODY, 1000), ms == 0);
        end();
    }
}

static void without_a_connection_nothing_is_waited_for(void **state)
{
    const struct http_limits endless = {.connections_max = 1};

    (void)state;
    begin(&standard);
    assert_int_equal(http_connections_step(&all, 1), LOOP_WAKEUP);
    come("10.0.0.1", 1);
    assert_true(http_connections_step(&all, 1) > 0);
    end();
    begin(&endless);
    come("10.0.0.1", 1);
    assert_int_equal(http_connections_step(&all, 1 << 30), 1000);
    assert_false(is_shut(&clients[0]));
    end();
}

/* The library does not see an end that came together with bytes. */
static void a_peer_that_has_gone_is_noticed_between_requests(void **state)
{
    static const enum http_phase waits[] = {HTTP_PHASE_HEADER, HTTP_PHASE_IDLE};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        begin(&standard);
        come("10.0.0.1", 0);
        assert_true(enter(&clients[0], waits[i], 0));
        http_connections_step(&all, 2000);
        assert_int_equal(shutdown(clients[0].ours, SHUT_WR), 0);
        http_connections_step(&all, 2500);
        http_connections_step(&all, 3000);               /* the first look that sees it */
        assert_true(enter(&clients[0], waits[i], 3000)); /* something happened meanwhile */
        http_connections_step(&all, 4000);
        assert_false(is_shut(&clients[0]));
        http_connections_step(&all, 5000);
        assert_true(is_shut(&clients[0]));
        end();
    }
}

static void a_peer_that_waits_for_its_answer_may_have_closed_its_side(void **state)
{
    static const enum http_phase busy[] = {HTTP_PHASE_HANDLER, HTTP_PHASE_ANSWER};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        begin(&standard);
        come("10.0.0.1", 0);
        assert_true(enter(&clients[0], busy[i], 0));
        assert_int_equal(shutdown(clients[0].ours, SHUT_WR), 0);
        for (int64_t at = 1000; at < 10000; at += 1000)
            http_connections_step(&all, at);
        assert_false(is_shut(&clients[0]));
        end();
    }
}

static void one_address_has_so_many_connections(void **state)
{
    struct http_limits limits = standard;

    (void)state;
    limits.per_address_max = 2;
    begin(&limits);
    assert_non_null(come("10.0.0.1", 0)->connection);
    assert_non_null(come("10.0.0.1", 0)->connection);
    assert_null(come("10.0.0.1", 0)->connection);
    assert_true(is_shut(&clients[2]));
    assert_non_null(come("10.0.0.2", 0)->connection);
    go(&clients[0]);
    assert_non_null(come("10.0.0.1", 0)->connection);
    assert_null(come("10.0.0.1", 0)->connection);
    end();
}

static void a_connection_too_many_is_reserved_and_the_oldest_is_closed(void **state)
{
    struct http_limits limits = standard;

    (void)state;
    limits.connections_max = 1;
    limits.reserved = 2;
    begin(&limits);
    assert_true(http_connection_admit(&all, come("10.0.0.1", 0)->connection));
    for (int i = 0; i < 2; i++)
        assert_false(http_connection_admit(&all, come("10.0.0.2", 1)->connection));
    /* One has sent its request and keeps its place, the other one makes room. */
    assert_true(enter(&clients[1], HTTP_PHASE_HANDLER, 2));
    assert_non_null(come("10.0.0.3", 3)->connection);
    assert_false(is_shut(&clients[1]));
    assert_true(is_shut(&clients[2]));
    assert_false(enter(&clients[2], HTTP_PHASE_BODY, 4));
    assert_true(enter(&clients[3], HTTP_PHASE_HANDLER, 4));
    assert_null(come("10.0.0.4", 5)->connection);
    /* A client that connects while there is space is like the others. */
    go(&clients[0]);
    assert_true(http_connection_admit(&all, clients[1].connection));
    assert_false(http_connection_admit(&all, clients[3].connection));
    assert_non_null(come("10.0.0.5", 6)->connection);
    end();
}

static void a_reserved_connection_without_its_body_is_closed(void **state)
{
    struct http_limits limits = standard;

    (void)state;
    limits.per_address_max = 1;
    limits.reserved = 2;
    begin(&limits);
    come("10.0.0.1", 0);
    for (int i = 0; i < 2; i++)
        assert_true(enter(come("10.0.0.1", 1), HTTP_PHASE_BODY, 1));
    assert_non_null(come("10.0.0.1", 2)->connection);
    assert_true(is_shut(&clients[1]));
    assert_false(is_shut(&clients[2]));
    /* A connection whose answer is being sent stays open. */
    assert_true(enter(&clients[2], HTTP_PHASE_ANSWER, 3));
    assert_non_null(come("10.0.0.1", 4)->connection);
    assert_false(is_shut(&clients[2]));
    assert_true(is_shut(&clients[3]));
    end();
}

static void an_address_with_too_many_may_still_probe(void **state)
{
    struct http_limits limits = standard;

    (void)state;
    limits.reserved = 1;
    limits.per_address_max = 1;
    begin(&limits);
    assert_true(http_connection_admit(&all, come("10.0.0.1", 0)->connection));
    assert_false(http_connection_admit(&all, come("10.0.0.1", 0)->connection));
    assert_true(http_connection_admit(&all, come("10.0.0.2", 0)->connection));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_phase_ends_at_its_deadline_even_while_bytes_arrive),
        cmocka_unit_test(without_a_connection_nothing_is_waited_for),
        cmocka_unit_test(a_peer_that_has_gone_is_noticed_between_requests),
        cmocka_unit_test(a_peer_that_waits_for_its_answer_may_have_closed_its_side),
        cmocka_unit_test(one_address_has_so_many_connections),
        cmocka_unit_test(a_connection_too_many_is_reserved_and_the_oldest_is_closed),
        cmocka_unit_test(a_reserved_connection_without_its_body_is_closed),
        cmocka_unit_test(an_address_with_too_many_may_still_probe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
