/* SPDX-License-Identifier: MIT */
/* The relay's engines on fake servers in which nearly everything fails, with many seeds: no
 * committed row is lost, none is deleted before it is published, and none overtakes its key. */
#include "common/log.h"
#include "tests/flow/relay_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More seeds by hand: TEST_SEEDS=5000 build/test_relay */
#define SEEDS 40

static size_t seeds(void)
{
    const char *text = getenv("TEST_SEEDS");

    return text ? (size_t)strtoul(text, NULL, 10) : SEEDS;
}

struct trial {
    struct fake_relay_faults faults;
    bool writers_known;
    unsigned lose_lease; /* in thousandths of 10 ms */
    unsigned restart;
};

static void let_it_happen(struct relay_fixture *fixture, const struct trial *trial)
{
    for (int i = 0; i < 300; i++) {
        relay_fixture_run(fixture, 10);
        if (fake_relay_chance(&fixture->fake, trial->lose_lease)) {
            relay_fixture_lose_lease(fixture);
            relay_fixture_run(fixture, 1 + (int64_t)fake_relay_below(&fixture->fake, 100));
            relay_fixture_take_lease(fixture);
        }
        if (fake_relay_chance(&fixture->fake, trial->restart))
            relay_fixture_restart(fixture);
    }
}

static void heal(struct relay_fixture *fixture)
{
    struct fake_relay *fake = &fixture->fake;

    memset(&fake->faults, 0, sizeof(fake->faults));
    fake->writing = false;
    fake->healed = true;
    fake->down_until_ms = 0;
    fake->silent_until_ms = 0;
}

static void try_seed(const struct trial *trial, uint64_t seed)
{
    static struct relay_fixture fixture;
    bool drained;

    relay_fixture_init(&fixture, seed);
    fixture.fake.faults = trial->faults;
    fixture.fake.writing = true;
    fixture.fake.calls_advance = true;
    fixture.fake.writers_known = trial->writers_known;
    fixture.late_steps = (size_t)fake_relay_below(&fixture.fake, 900);
    relay_fixture_take_lease(&fixture);
    let_it_happen(&fixture, trial);
    heal(&fixture);
    drained = relay_fixture_drain(&fixture, 60000);
    if (!drained || fake_relay_overtaken(&fixture.fake) || fake_relay_lost(&fixture.fake))
        print_message("seed %llu\n", (unsigned long long)seed);
    assert_true(drained);
    assert_int_equal(fake_relay_lost(&fixture.fake), 0);
    assert_int_equal(fake_relay_overtaken(&fixture.fake), 0);
    assert_int_equal(fixture.fake.wrong_deletes, 0);
    assert_true(fixture.fake.log_count > 5);
    relay_fixture_done(&fixture);
}

static void try_all(const struct trial *trial)
{
    for (uint64_t seed = 1; seed <= seeds(); seed++)
        try_seed(trial, seed);
}

static void rows_keep_their_order_while_transactions_overlap(void **state)
{
    const struct trial trial = {.faults = {.roll_back = 200, .hold = 100}, .writers_known = true};

    (void)state;
    try_all(&trial);
}

static void rows_keep_their_order_when_open_transactions_cannot_be_seen(void **state)
{
    const struct trial trial = {.faults = {.roll_back = 200, .hold = 100}};

    (void)state;
    try_all(&trial);
}

static void a_failing_database_loses_nothing(void **state)
{
    const struct trial trial = {.faults = {.roll_back = 100, .hold = 50, .database = 100},
                                .writers_known = true};

    (void)state;
    try_all(&trial);
}

static void a_failing_broker_loses_nothing(void **state)
{
    const struct trial trial = {
        .faults = {.roll_back = 100, .hold = 50, .broker = 3, .lost_answer = 10, .ghost = 500},
        .writers_known = true};

    (void)state;
    try_all(&trial);
}

static void refused_rows_hold_their_own_key_only(void **state)
{
    const struct trial trial = {.faults = {.roll_back = 100, .bad_row = 15}, .writers_known = true};

    (void)state;
    try_all(&trial);
}

static void lost_leases_and_kills_lose_nothing(void **state)
{
    const struct trial trial = {.faults = {.roll_back = 100, .hold = 50, .ghost = 500},
                                .writers_known = true,
                                .lose_lease = 20,
                                .restart = 20};

    (void)state;
    try_all(&trial);
}

static void everything_at_once_loses_nothing(void **state)
{
    const struct trial trial = {.faults = {.roll_back = 100,
                                           .hold = 50,
                                           .database = 30,
                                           .broker = 1,
                                           .lost_answer = 5,
                                           .ghost = 500,
                                           .bad_row = 5},
                                .writers_known = true,
                                .lose_lease = 10,
                                .restart = 10};

    (void)state;
    try_all(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_keep_their_order_while_transactions_overlap),
        cmocka_unit_test(rows_keep_their_order_when_open_transactions_cannot_be_seen),
        cmocka_unit_test(a_failing_database_loses_nothing),
        cmocka_unit_test(a_failing_broker_loses_nothing),
        cmocka_unit_test(refused_rows_hold_their_own_key_only),
        cmocka_unit_test(lost_leases_and_kills_lose_nothing),
        cmocka_unit_test(everything_at_once_loses_nothing),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
