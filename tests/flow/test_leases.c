/* SPDX-License-Identifier: MIT */
/* Several relays on one fake table of leases: which relay holds a lane, and which one believes that
 * it does. All of them read one clock, and step one after the other. */
#include "common/log.h"
#include "outbox/lease/leases.h"
#include "outbox/relay/lane.h"
#include "tests/fakes/fake_leases.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define RELAYS 3
#define LANES 4
#define LEASE_MS 3000

/* The database. */
static struct fake_lease rows[LANES];
static struct fake_instances instances;
static int64_t now_ms;

struct relay {
    struct lane lanes[LANES];
    struct leases leases;
    struct fake_lease_store store;
    char name[16];
    bool dead;
    bool busy;         /* its lanes do not come to rest */
    bool cut_off;      /* the database cannot be reached */
    bool answers_lost; /* each statement takes effect, and its answer is lost */
    size_t calls;
    size_t fail_call;
    int64_t due_ms;
};

static struct relay relays[RELAYS];
static struct settings settings;
static const char *const lane_names[LANES] = {"outbox", "outbox_1", "outbox_2", "shop"};
static struct lane_settings own_settings[LANES];

static struct fake_lease *find_row(void *ctx, const char *lane)
{
    (void)ctx;
    for (size_t i = 0; i < LANES; i++) {
        if (strcmp(lane_names[i], lane) == 0)
            return &rows[i];
    }
    fail();
    return NULL;
}

static enum rc count_call(void *ctx, struct err *err)
{
    struct relay *relay = ctx;

    relay->calls++;
    if (relay->cut_off || relay->calls == relay->fail_call)
        return err_fail(err, RC_RETRY, 0, "the database cannot be reached");
    return RC_OK;
}

static enum rc lose_answer(void *ctx, struct err *err)
{
    const struct relay *relay = ctx;

    return relay->answers_lost ? err_fail(err, RC_RETRY, 0, "the answer was lost") : RC_OK;
}

static int64_t read_clock(void *ctx)
{
    (void)ctx;
    return now_ms;
}

static void relay_start(size_t number)
{
    struct relay *relay = &relays[number];
    struct lease_store store;

    memset(relay, 0, sizeof(*relay));
    snprintf(relay->name, sizeof(relay->name), "relay-%zu", number);
    relay->store = (struct fake_lease_store){
        .hooks = {relay, count_call, lose_answer, read_clock},
        .name = relay->name,
        .weight = 1,
        .instances = &instances,
        .lease_count = LANES,
        .find = find_row,
    };
    for (size_t i = 0; i < LANES; i++)
        relay->store.leases[i] = &rows[i];
    store = fake_lease_store_ops(&relay->store);
    leases_init(&relay->leases, "relay", "lane", relay->name, &store, LEASE_MS, number);
    for (size_t i = 0; i < LANES; i++) {
        snprintf(own_settings[i].name, sizeof(own_settings[i].name), "lane_%zu", i);
        snprintf(own_settings[i].table, sizeof(own_settings[i].table), "%s", lane_names[i]);
        assert_int_equal(lane_init(&relay->lanes[i], &own_settings[i], &settings,
                                   relay_metrics_of(number * LANES + i, lane_names[i]), NULL),
                         RC_OK);
        leases_add(&relay->leases, &relay->lanes[i].lease);
    }
}

static void relay_end(size_t number)
{
    leases_done(&relays[number].leases);
    for (size_t i = 0; i < LANES; i++)
        lane_done(&relays[number].lanes[i]);
}

static int set_up(void **state)
{
    (void)state;
    memset(rows, 0, sizeof(rows));
    for (size_t i = 0; i < LANES; i++)
        rows[i].made = true;
    instances.count = 0;
    now_ms = 1000000;
    settings.relay.read_rows_max = 1;
    settings.relay.read_bytes_max = 1024;
    settings.relay.window_rows_max = 1;
    for (size_t i = 0; i < RELAYS; i++) {
        relay_start(i);
        relays[i].dead = true;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < RELAYS; i++)
        relay_end(i);
    return 0;
}

static bool believes(size_t number, size_t lane)
{
    return !relays[number].dead && lane_epoch(&relays[number].lanes[lane], now_ms) != 0;
}

/* Invariant: two relays never believe to hold the same lane at the same time. */
static void assert_no_lane_is_held_twice(void)
{
    for (size_t lane = 0; lane < LANES; lane++) {
        size_t holders = 0;

        for (size_t i = 0; i < RELAYS; i++)
            holders += believes(i, lane);
        assert_true(holders <= 1);
    }
}

static size_t held_by(size_t number)
{
    size_t held = 0;

    for (size_t lane = 0; lane < LANES; lane++)
        held += believes(number, lane);
    return held;
}

static void come_to_rest(struct relay *relay)
{
    for (size_t i = 0; i < LANES; i++) {
        struct lane *lane = &relay->lanes[i];

        if (atomic_load(&lane->lease.draining) || lane_epoch(lane, now_ms) == 0)
            atomic_store(&lane->lease.idle, true);
    }
}

/* Calls the step of each relay when it is due; lanes that leave are finished after a while. */
static void pass(int64_t ms)
{
    for (int64_t until_ms = now_ms + ms; now_ms < until_ms; now_ms += 50) {
        for (size_t i = 0; i < RELAYS; i++) {
            if (relays[i].dead || now_ms < relays[i].due_ms)
                continue;
            relays[i].due_ms = now_ms + leases_step(&relays[i].leases, now_ms);
            if (!relays[i].busy)
                come_to_rest(&relays[i]);
        }
        assert_no_lane_is_held_twice();
    }
}

static void start(size_t number)
{
    relays[number].dead = false;
}

static void one_relay_takes_all_lanes_and_keeps_them(void **state)
{
    (void)state;
    start(0);
    pass(200);
    assert_int_equal(held_by(0), LANES);
    for (int i = 0; i < 100; i++) {
        pass(300);
        assert_int_equal(held_by(0), LANES);
    }
    for (size_t lane = 0; lane < LANES; lane++)
        assert_int_equal(rows[lane].epoch, 1);
}

/* Each step reads the leases and the instances; every third of a lease there are two writes. */
static void a_relay_that_is_alone_with_all_lanes_asks_seldom(void **state)
{
    size_t calls;

    (void)state;
    start(0);
    relays[0].leases.lease_ms = 15000;
    pass(2000);
    calls = relays[0].calls;
    pass(60000);
    assert_in_range(relays[0].calls - calls, 60, 90);
    start(1);
    pass(5000);
    assert_int_equal(held_by(0), 2);
    assert_int_equal(held_by(1), 2);
    calls = relays[0].calls;
    pass(60000);
    assert_in_range(relays[0].calls - calls, 240, 270);
}

static void a_second_and_a_third_relay_get_their_share_and_nothing_moves_after_that(void **state)
{
    int64_t epochs = 0;

    (void)state;
    start(0);
    pass(1000);
    start(1);
    pass(10000);
    assert_int_equal(held_by(0), 2);
    assert_int_equal(held_by(1), 2);
    start(2);
    pass(10000);
    assert_int_equal(held_by(0) + held_by(1) + held_by(2), LANES);
    assert_int_equal(held_by(2), 1);
    for (size_t lane = 0; lane < LANES; lane++)
        epochs += rows[lane].epoch;
    assert_int_equal(epochs, LANES + 2 + 1);
    pass(30000);
    for (size_t lane = 0; lane < LANES; lane++)
        epochs -= rows[lane].epoch;
    assert_int_equal(epochs, 0);
}

static void a_heavier_relay_gets_more(void **state)
{
    (void)state;
    relays[1].store.weight = 3;
    start(0);
    pass(1000);
    start(1);
    pass(10000);
    assert_int_equal(held_by(0), 1);
    assert_int_equal(held_by(1), 3);
}

static void the_lanes_of_a_killed_relay_are_taken_over_within_the_lease(void **state)
{
    (void)state;
    start(0);
    pass(1000);
    start(1);
    pass(10000);
    relays[0].dead = true;
    /* The fake's time goes in steps of 50 ms. */
    pass(LEASE_MS + 100);
    assert_int_equal(held_by(1), LANES);
}

static int64_t moves(void)
{
    int64_t epochs = 0;

    for (size_t lane = 0; lane < LANES; lane++)
        epochs += rows[lane].epoch;
    return epochs;
}

static void a_relay_that_ends_moves_its_own_lanes_and_no_others(void **state)
{
    for (size_t gone = 0; gone < RELAYS; gone++) {
        int64_t before;
        size_t held;

        tear_down(state);
        set_up(state);
        for (size_t i = 0; i < RELAYS; i++)
            start(i);
        pass(20000);
        held = held_by(gone);
        before = moves();
        relays[gone].dead = true;
        pass(LEASE_MS + 20000);
        assert_int_equal(moves() - before, held);
        assert_int_equal(held_by((gone + 1) % RELAYS), LANES / 2);
        assert_int_equal(held_by((gone + 2) % RELAYS), LANES / 2);
        before = moves();
        start(gone);
        pass(20000);
        assert_int_equal(moves() - before, LANES / RELAYS);
    }
}

static void a_lane_whose_database_has_changed_is_given_back_and_taken_anew(void **state)
{
    const struct err why = {.text = "it is another one"};

    (void)state;
    start(0);
    pass(1000);
    relays[0].busy = true;
    lane_origin_lost(&relays[0].lanes[1], &why);
    lane_origin_lost(&relays[0].lanes[1], &why);
    assert_false(believes(0, 1));
    pass(2000);
    assert_false(believes(0, 1));
    assert_int_equal(rows[1].epoch, 1);
    relays[0].busy = false;
    pass(1100);
    assert_true(believes(0, 1));
    assert_int_equal(rows[1].epoch, 2);
    assert_int_equal(held_by(0), LANES);
    assert_int_equal(rows[0].epoch, 1);
}

static void a_lost_lane_is_not_taken_up_again_before_its_rows_have_come_back(void **state)
{
    (void)state;
    start(0);
    pass(1000);
    relays[0].busy = true;
    snprintf(rows[2].owner, sizeof(rows[2].owner), "somebody");
    rows[2].epoch++;
    pass(2000);
    assert_false(believes(0, 2));
    rows[2].owner[0] = '\0';
    pass(5000);
    assert_false(believes(0, 2));
    assert_int_equal(held_by(0), LANES - 1);
    relays[0].busy = false;
    pass(1100);
    assert_true(believes(0, 2));
}

static void a_relay_that_cannot_reach_the_database_stops_believing_before_others_take_over(
    void **state)
{
    (void)state;
    start(0);
    start(1);
    pass(10000);
    assert_int_equal(held_by(0), 2);
    relays[0].cut_off = true;
    pass(LEASE_MS + 1100);
    assert_int_equal(held_by(0), 0);
    assert_int_equal(held_by(1), LANES);
    assert_true(condition_read(&relays[0].leases.store_state, NULL));
    relays[0].cut_off = false;
    pass(10000);
    assert_int_equal(held_by(0), 2);
    assert_false(leases_failing(&relays[0].leases, NULL));
}

static void a_take_whose_answer_was_lost_is_noticed(void **state)
{
    (void)state;
    start(0);
    relays[0].answers_lost = true;
    pass(1000);
    assert_int_equal(held_by(0), 0);
    relays[0].answers_lost = false;
    snprintf(rows[1].owner, sizeof(rows[1].owner), "relay-0");
    rows[1].epoch = 5;
    rows[1].until_ms = now_ms + LEASE_MS;
    pass(1500);
    assert_int_equal(held_by(0), LANES);
    assert_int_equal(lane_epoch(&relays[0].lanes[1], now_ms), 5);
}

static void a_lane_that_another_relay_took_is_given_up_at_once(void **state)
{
    (void)state;
    start(0);
    pass(1000);
    snprintf(rows[2].owner, sizeof(rows[2].owner), "somebody");
    rows[2].epoch++;
    rows[2].until_ms = now_ms + 60000;
    pass(1100);
    assert_int_equal(held_by(0), LANES - 1);
    assert_false(believes(0, 2));
}

/* Sets the clock of the database back: the written times lie so much in its future. */
static void a_lane_that_a_command_asks_for_is_given_up_and_not_taken(void **state)
{
    (void)state;
    start(0);
    start(1);
    pass(3000);
    assert_int_equal(held_by(0) + held_by(1), LANES);
    rows[0].wanted = true;
    pass(5000);
    assert_false(believes(0, 0) || believes(1, 0));
    assert_string_equal(rows[0].owner, "");
    assert_int_equal(held_by(0) + held_by(1), LANES - 1);
    rows[0].wanted = false;
    pass(3000);
    assert_int_equal(held_by(0) + held_by(1), LANES);
}

/* Relays with another source are of another group. */
static void only_a_relay_with_the_source_of_the_lane_takes_it(void **state)
{
    static struct fake_instances others;

    (void)state;
    others.count = 0;
    relays[1].store.instances = &others;
    for (size_t i = 0; i < LANES; i++)
        snprintf(rows[i].source, sizeof(rows[i].source), i % 2 == 0 ? "table" : "");
    relays[0].store.source = "table";
    relays[1].store.source = "binlog";
    start(1);
    pass(5000);
    assert_int_equal(held_by(1), LANES / 2);
    assert_true(atomic_load(&relays[1].lanes[0].lease.other_source));
    start(0);
    pass(10000);
    assert_int_equal(held_by(0) + held_by(1), LANES);
    for (size_t i = 0; i < LANES; i += 2)
        assert_true(believes(0, i));
    /* A command has changed it without asking. */
    snprintf(rows[0].source, sizeof(rows[0].source), "binlog");
    pass(10000);
    assert_false(believes(0, 0));
}

static void set_back(int64_t ms)
{
    for (size_t i = 0; i < LANES; i++)
        rows[i].until_ms += ms;
    for (size_t i = 0; i < instances.count; i++)
        instances.rows[i].seen_ms += ms;
}

static void a_dead_relays_lanes_are_taken_within_the_lease_although_the_clock_was_set_back(
    void **state)
{
    struct err err;

    (void)state;
    start(0);
    pass(1000);
    relays[0].dead = true;
    set_back(3600000);
    start(1);
    pass(1000);
    assert_int_equal(held_by(1), 0);
    assert_true(condition_read(&relays[1].leases.clock, &err));
    assert_non_null(strstr(err.text, "the database clock was set back"));
    assert_non_null(strstr(err.text, "relay-0"));
    pass(LEASE_MS + 500);
    assert_int_equal(held_by(1), LANES);
    assert_false(leases_failing(&relays[1].leases, NULL));
}

/* At any time when the other relay looks: the live one renews its leases, and none takes them. */
static void a_relay_that_lives_keeps_its_lanes_although_the_clock_was_set_back(void **state)
{
    (void)state;
    start(0);
    pass(1000);
    start(1);
    pass(10000);
    for (int i = 0; i < 40; i++) {
        int64_t epochs = 0;

        pass((int64_t)50 * i);
        for (size_t lane = 0; lane < LANES; lane++)
            epochs -= rows[lane].epoch;
        set_back(3600000);
        pass((int64_t)3 * LEASE_MS);
        for (size_t lane = 0; lane < LANES; lane++)
            epochs += rows[lane].epoch;
        assert_int_equal(epochs, 0);
        assert_int_equal(held_by(0), 2);
        assert_int_equal(held_by(1), 2);
    }
    assert_false(leases_failing(&relays[0].leases, NULL));
    assert_false(leases_failing(&relays[1].leases, NULL));
}

/* Its length is in the row: another relay may be set otherwise. */
static void a_longer_lease_of_another_relay_is_plausible(void **state)
{
    (void)state;
    snprintf(rows[2].owner, sizeof(rows[2].owner), "somebody");
    rows[2].epoch = 7;
    rows[2].until_ms = now_ms + 60000;
    rows[2].length_ms = 60000;
    start(0);
    pass(10000);
    assert_int_equal(held_by(0), LANES - 1);
    assert_int_equal(rows[2].until_ms - now_ms, 50000);
    assert_false(leases_failing(&relays[0].leases, NULL));
}

static void a_clean_stop_releases_all_and_another_relay_has_them_in_a_second(void **state)
{
    (void)state;
    start(0);
    pass(1000);
    leases_drain(&relays[0].leases, now_ms);
    assert_false(leases_drained(&relays[0].leases));
    for (size_t lane = 0; lane < LANES; lane++)
        atomic_store(&relays[0].lanes[lane].lease.idle, true);
    assert_true(leases_drained(&relays[0].leases));
    leases_release(&relays[0].leases);
    relays[0].dead = true;
    start(1);
    pass(1100);
    assert_int_equal(held_by(1), LANES);
}

/* A lane that does not come to an end is dropped when a lease's time has passed. */
static void a_lane_that_cannot_finish_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    start(0);
    pass(1000);
    leases_drain(&relays[0].leases, now_ms);
    for (int i = 0; i < 20; i++) {
        leases_step(&relays[0].leases, now_ms);
        now_ms += 300;
    }
    assert_int_equal(held_by(0), 0);
    assert_true(relays[0].leases.list[0].held);
}

static void diverted_keys_are_written_into_the_lease(void **state)
{
    const struct err err = {.text = "seq 7, key \"a\": too large"};

    (void)state;
    start(0);
    pass(1000);
    metric_set(&relays[0].lanes[1].metrics->diverted_keys, 2);
    condition_fail(&relays[0].lanes[1].key_delivery, now_ms, &err);
    pass(1100);
    assert_int_equal(rows[1].status.diverted_keys, 2);
    assert_string_equal(rows[1].status.diverted_reason, err.text);
    metric_set(&relays[0].lanes[1].metrics->diverted_keys, 0);
    condition_ok(&relays[0].lanes[1].key_delivery, now_ms);
    pass(1100);
    assert_int_equal(rows[1].status.diverted_keys, 0);
    assert_string_equal(rows[1].status.diverted_reason, "");
}

static void each_call_may_fail_in_turn(void **state)
{
    for (size_t call = 1; call <= 80; call++) {
        tear_down(state);
        set_up(state);
        relays[0].fail_call = call;
        relays[1].fail_call = call + 3;
        start(0);
        start(1);
        pass(15000);
        assert_int_equal(held_by(0), 2);
        assert_int_equal(held_by(1), 2);
    }
}

static void only_relays_that_list_the_same_lanes_compete(void **state)
{
    const char *const others[] = {"outbox", "shop"};
    const char *const turned[] = {"shop", "outbox_2", "outbox", "outbox_1"};
    char one[LEASES_GROUP_SIZE];
    char two[LEASES_GROUP_SIZE];

    (void)state;
    leases_group(one, lane_names, LANES);
    leases_group(two, turned, LANES);
    assert_string_equal(one, two);
    leases_group(two, others, 2);
    assert_string_not_equal(one, two);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_relay_takes_all_lanes_and_keeps_them),
        TEST(a_second_and_a_third_relay_get_their_share_and_nothing_moves_after_that),
        TEST(a_relay_that_is_alone_with_all_lanes_asks_seldom),
        TEST(a_heavier_relay_gets_more),
        TEST(the_lanes_of_a_killed_relay_are_taken_over_within_the_lease),
        TEST(a_relay_that_ends_moves_its_own_lanes_and_no_others),
        TEST(a_lane_whose_database_has_changed_is_given_back_and_taken_anew),
        TEST(a_lost_lane_is_not_taken_up_again_before_its_rows_have_come_back),
        TEST(a_relay_that_cannot_reach_the_database_stops_believing_before_others_take_over),
        TEST(a_take_whose_answer_was_lost_is_noticed),
        TEST(a_lane_that_another_relay_took_is_given_up_at_once),
        TEST(a_lane_that_a_command_asks_for_is_given_up_and_not_taken),
        TEST(only_a_relay_with_the_source_of_the_lane_takes_it),
        TEST(a_dead_relays_lanes_are_taken_within_the_lease_although_the_clock_was_set_back),
        TEST(a_relay_that_lives_keeps_its_lanes_although_the_clock_was_set_back),
        TEST(a_longer_lease_of_another_relay_is_plausible),
        TEST(a_clean_stop_releases_all_and_another_relay_has_them_in_a_second),
        TEST(a_lane_that_cannot_finish_is_not_waited_for_for_ever),
        TEST(diverted_keys_are_written_into_the_lease),
        TEST(each_call_may_fail_in_turn),
        TEST(only_relays_that_list_the_same_lanes_compete),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
