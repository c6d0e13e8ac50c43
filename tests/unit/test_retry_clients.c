/* SPDX-License-Identifier: MIT */
/* Which client gets a task, and what is known of clients from reading to reading. */
#include "common/hash.h"
#include "outbox/retry/clients/client_choice.h"
#include "outbox/retry/clients/clients.h"
#include "outbox/retry/handlers/endpoints.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define COUNT 5
#define KEYS 5000

static struct clients *clients;
static uint64_t rng;

static int setup(void **state)
{
    struct err err = {0};

    (void)state;
    rng = 1;
    return clients_open(&clients, &err) == RC_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    clients_close(clients);
    return 0;
}

static void make_candidates(struct client_candidate candidates[COUNT], char names[COUNT][32])
{
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], 32, "http://10.0.0.%zu:80", i + 1);
        candidates[i] = (struct client_candidate){.address = names[i]};
    }
}

static void each_route_gives_each_client_its_share(void **state)
{
    (void)state;
    for (int route = 0; route < CLIENT_ROUTES; route++) {
        struct client_candidate candidates[COUNT];
        char names[COUNT][32];
        size_t counts[COUNT] = {0};
        uint64_t turn = 0;
        uint64_t used = 0;

        make_candidates(candidates, names);
        for (int i = 0; i < KEYS; i++) {
            char key[16];
            size_t index;

            snprintf(key, sizeof(key), "order/%d", i);
            index = client_choose((enum client_route)route, candidates, COUNT, key, &turn,
                                  rng_next(&rng));
            counts[index]++;
            candidates[index].used = ++used;
        }
        for (size_t i = 0; i < COUNT; i++)
            assert_in_range(counts[i], KEYS / COUNT * 8 / 10, KEYS / COUNT * 12 / 10);
    }
}

static void a_leaver_moves_its_own_keys_only(void **state)
{
    struct client_candidate candidates[COUNT];
    char names[COUNT][32];
    uint64_t turn = 0;
    int moved = 0;

    (void)state;
    make_candidates(candidates, names);
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        size_t with;
        size_t without;

        snprintf(key, sizeof(key), "order/%d", i);
        with = client_choose(CLIENT_CONSISTENT_HASH, candidates, COUNT, key, &turn, 0);
        without = client_choose(CLIENT_CONSISTENT_HASH, candidates, COUNT - 1, key, &turn, 0);
        assert_true(with == without || with == COUNT - 1);
        moved += with != without;
    }
    assert_in_range(moved, KEYS / COUNT * 8 / 10, KEYS / COUNT * 12 / 10);
}

static void lru_takes_the_least_recent_and_two_choices_the_idle_one(void **state)
{
    struct client_candidate candidates[COUNT];
    char names[COUNT][32];
    uint64_t turn = 0;

    (void)state;
    make_candidates(candidates, names);
    for (size_t i = 0; i < COUNT; i++)
        candidates[i].used = i == 3 ? 1 : 10 + i;
    assert_int_equal(client_choose(CLIENT_LRU, candidates, COUNT, "", &turn, 0), 3);
    candidates[0].in_flight = 7;
    for (int i = 0; i < 100; i++)
        assert_int_equal(
            client_choose(CLIENT_TWO_CHOICES, candidates, 2, "", &turn, rng_next(&rng)), 1);
    assert_int_equal(client_choose(CLIENT_TWO_CHOICES, candidates, 1, "", &turn, 5), 0);
}

/* Names are letters: "ab" is clients a and b. */
static void read_clients(const char *names, int64_t now_ms)
{
    clients_begin(clients);
    for (const char *at = names; *at; at++) {
        char address[RETRY_CLIENT_ADDRESS_SIZE];

        snprintf(address, sizeof(address), "http://%c:80", *at);
        assert_true(clients_add(clients, "shop", address, CLIENT_ROUND_ROBIN));
    }
    clients_end(clients, now_ms);
}

/* The letter of the client, or '-'. */
static char pick(struct clients_attempt *attempt, int64_t now_ms)
{
    if (!attempt->group)
        *attempt = (struct clients_attempt){.group = "shop", .key = "k"};
    if (clients_pick(clients, attempt, now_ms, rng_next(&rng)) != CLIENTS_FOUND)
        return '-';
    return attempt->tried[attempt->tried_count - 1][7];
}

static char call(enum clients_outcome outcome, int64_t now_ms)
{
    struct clients_attempt attempt = {0};
    char letter = pick(&attempt, now_ms);

    if (letter != '-')
        clients_report(clients, &attempt, outcome, now_ms, rng_next(&rng));
    return letter;
}

static void nothing_is_known_before_the_first_reading(void **state)
{
    struct clients_attempt attempt = {.group = "shop", .key = "k"};
    char group[RETRY_NAME_BYTES_MAX + 1];

    (void)state;
    assert_int_equal(clients_pick(clients, &attempt, 0, 0), CLIENTS_UNREAD);
    read_clients("", 0);
    assert_false(clients_missing(clients, 1, group));
    assert_int_equal(clients_pick(clients, &attempt, 1, 0), CLIENTS_NONE);
    assert_true(clients_missing(clients, 1, group));
    assert_string_equal(group, "shop");
    /* Readings without clients do not forget it, one with a client does. */
    read_clients("", 1000);
    assert_true(clients_missing(clients, 1000, group));
    read_clients("a", 2000);
    assert_false(clients_missing(clients, 2000, group));
    assert_int_equal(call(CLIENTS_WORKED, 2000), 'a');
}

static void an_unreachable_client_is_left_out_at_once_and_returns_as_a_probe(void **state)
{
    struct clients_attempt attempt = {0};
    struct clients_attempt other = {0};
    char first;
    char second;

    (void)state;
    read_clients("ab", 0);
    first = pick(&attempt, 0);
    assert_true(clients_report(clients, &attempt, CLIENTS_UNSENT, 0, 0));
    second = pick(&attempt, 0);
    assert_int_not_equal(first, second);
    assert_true(attempt.is_last);
    clients_report(clients, &attempt, CLIENTS_WORKED, 0, 0);
    assert_int_equal(pick(&attempt, 0), '-');
    for (int i = 0; i < 10; i++) {
        read_clients("ab", i); /* a reading keeps what is known */
        assert_int_equal(call(CLIENTS_WORKED, i), second);
    }
    /* After its time one call at a time tries it. */
    attempt = (struct clients_attempt){0};
    while (pick(&attempt, ENDPOINT_OUT_MS_CAP) != first) {
        clients_report(clients, &attempt, CLIENTS_WORKED, ENDPOINT_OUT_MS_CAP, 0);
        attempt = (struct clients_attempt){0};
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(call(CLIENTS_WORKED, ENDPOINT_OUT_MS_CAP), second);
    clients_report(clients, &attempt, CLIENTS_WORKED, ENDPOINT_OUT_MS_CAP, 0);
    assert_int_not_equal(call(CLIENTS_WORKED, ENDPOINT_OUT_MS_CAP),
                         call(CLIENTS_WORKED, ENDPOINT_OUT_MS_CAP));
    assert_int_not_equal(pick(&other, ENDPOINT_OUT_MS_CAP), '-');
}

static void failures_leave_a_client_out_only_in_a_row(void **state)
{
    (void)state;
    read_clients("a", 0);
    for (int i = 0; i < 3 * ENDPOINT_FAILURES_OUT; i++)
        assert_int_equal(call(i % ENDPOINT_FAILURES_OUT == 0 ? CLIENTS_WORKED : CLIENTS_FAILED, 0),
                         'a');
    read_clients("ab", 0);
    for (int i = 0; i < 2 * ENDPOINT_FAILURES_OUT; i++) {
        struct clients_attempt attempt = {0};

        if (pick(&attempt, 0) == 'a')
            clients_report(clients, &attempt, CLIENTS_FAILED, 0, 0);
        else
            clients_report(clients, &attempt, CLIENTS_WORKED, 0, 0);
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(call(CLIENTS_WORKED, 1), 'b');
}

static void an_attempt_tries_three_addresses_and_a_group_that_is_out_is_tried(void **state)
{
    struct clients_attempt attempt = {0};

    (void)state;
    read_clients("abcde", 0);
    for (int i = 0; i < CLIENTS_TRIES_MAX; i++) {
        assert_int_not_equal(pick(&attempt, 0), '-');
        clients_report(clients, &attempt, CLIENTS_UNSENT, 0, 0);
    }
    assert_int_equal(pick(&attempt, 0), '-');
    call(CLIENTS_UNSENT, 0);
    call(CLIENTS_UNSENT, 0);
    /* All are out: the first call of an attempt is made, a second one is not. */
    attempt = (struct clients_attempt){0};
    assert_int_not_equal(pick(&attempt, 1), '-');
    clients_report(clients, &attempt, CLIENTS_UNSENT, 1, 0);
    assert_int_equal(pick(&attempt, 1), '-');
}

/* Calls of two clients within a second, at a time a call every 5 ms, and those that had to wait. */
static int count_calls(enum client_route route, int64_t held, int counts[2])
{
    const struct retry_client_rate rate = {.per_s = 10, .burst = 2, .held = held, .of = 16};
    int waits = 0;

    clients_begin(clients);
    assert_true(clients_add(clients, "shop", "http://a:80", route));
    assert_true(clients_add(clients, "shop", "http://b:80", route));
    clients_end(clients, 0);
    for (int64_t now_ms = 0; now_ms < 1000; now_ms += 5) {
        struct clients_attempt attempt = {
            .group = "shop", .scene = "mail", .key = "k", .rate = &rate};

        switch (clients_pick(clients, &attempt, now_ms, rng_next(&rng))) {
        case CLIENTS_FOUND:
            counts[attempt.tried[0][7] - 'a']++;
            clients_report(clients, &attempt, CLIENTS_WORKED, now_ms, 0);
            break;
        case CLIENTS_BUSY:
            assert_in_range(attempt.wait_ms, 1, 60000);
            waits++;
            break;
        case CLIENTS_NONE:
        case CLIENTS_UNREAD:
            fail();
        }
    }
    return waits;
}

static void a_rate_counts_for_each_client(void **state)
{
    int whole[2] = {0};
    int half[2] = {0};
    int one[2] = {0};
    int waits;

    (void)state;
    waits = count_calls(CLIENT_RANDOM, 16, whole);
    assert_int_equal(waits, 200 - whole[0] - whole[1]);
    for (int i = 0; i < 2; i++)
        assert_in_range(whole[i], 10, 12);
    teardown(state);
    setup(state);
    /* A process that holds half of the shards uses half of the rate. */
    count_calls(CLIENT_TWO_CHOICES, 8, half);
    for (int i = 0; i < 2; i++)
        assert_in_range(half[i], 4, 7);
    teardown(state);
    setup(state);
    /* A key waits for its client, although the other one is free. */
    count_calls(CLIENT_CONSISTENT_HASH, 16, one);
    assert_in_range(one[0] + one[1], 10, 12);
    assert_true(one[0] == 0 || one[1] == 0);
}

static void a_client_may_expire_during_its_call(void **state)
{
    struct clients_attempt attempt = {0};

    (void)state;
    read_clients("a", 0);
    assert_int_equal(pick(&attempt, 0), 'a');
    read_clients("", 1);
    assert_false(clients_report(clients, &attempt, CLIENTS_FAILED, 1, 0));
    assert_int_equal(call(CLIENTS_WORKED, 1), '-');
    read_clients("a", 2);
    assert_int_equal(call(CLIENTS_WORKED, 2), 'a');
}

static void waiting_tasks_return_one_by_one(void **state)
{
    int64_t before;

    (void)state;
    read_clients("", 0);
    assert_int_equal(call(CLIENTS_WORKED, 0), '-');
    before = clients_wait_ms(clients, "shop", 0);
    assert_int_equal(before, CLIENTS_WAIT_MS);
    for (int i = 0; i < 10000; i++) {
        int64_t wait_ms = clients_wait_ms(clients, "shop", 0);

        assert_true(wait_ms > before || wait_ms == CLIENTS_WAIT_MS_MAX);
        before = wait_ms;
    }
    assert_int_equal(before, CLIENTS_WAIT_MS_MAX);
}

static void the_number_of_clients_is_bounded(void **state)
{
    char address[RETRY_CLIENT_ADDRESS_SIZE];
    size_t count = 0;

    (void)state;
    clients_begin(clients);
    for (int i = 0; i <= CLIENTS_GROUP_MAX; i++) {
        snprintf(address, sizeof(address), "http://a:%d", i);
        count += clients_add(clients, "a", address, CLIENT_RANDOM);
    }
    assert_int_equal(count, CLIENTS_GROUP_MAX);
    for (int i = 0; i <= RETRY_CLIENTS_MAX; i++) {
        char group[16];

        snprintf(group, sizeof(group), "g%06d", i);
        count += clients_add(clients, group, "http://a:1", CLIENT_RANDOM);
    }
    assert_in_range(count, CLIENTS_GROUP_MAX, RETRY_CLIENTS_MAX);
    clients_end(clients, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_route_gives_each_client_its_share),
        cmocka_unit_test(a_leaver_moves_its_own_keys_only),
        cmocka_unit_test(lru_takes_the_least_recent_and_two_choices_the_idle_one),
        cmocka_unit_test_setup_teardown(nothing_is_known_before_the_first_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_unreachable_client_is_left_out_at_once_and_returns_as_a_probe, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_leave_a_client_out_only_in_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_attempt_tries_three_addresses_and_a_group_that_is_out_is_tried, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rate_counts_for_each_client, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_may_expire_during_its_call, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_tasks_return_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(the_number_of_clients_is_bounded, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
