/* SPDX-License-Identifier: MIT */
/* The relay's engines against a world in which nearly everything goes wrong, many seeds of it: not
 * one committed row is lost, none is deleted before it was published, none overtakes its key. */
#include "common/log.h"
#include "tests/flow/relay_rig.h"

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
    struct world_faults faults;
    bool writers_known;
    unsigned lose_lease; /* in thousandths of 10 ms */
    unsigned restart;
};

static void let_it_happen(struct rig *rig, const struct trial *trial)
{
    for (int i = 0; i < 300; i++) {
        rig_run(rig, 10);
        if (world_chance(&rig->world, trial->lose_lease)) {
            rig_lose_lease(rig);
            rig_run(rig, 1 + (int64_t)world_below(&rig->world, 100));
            rig_take_lease(rig);
        }
        if (world_chance(&rig->world, trial->restart))
            rig_restart(rig);
    }
}

static void heal(struct rig *rig)
{
    struct world *world = &rig->world;

    memset(&world->faults, 0, sizeof(world->faults));
    world->writing = false;
    world->healed = true;
    world->down_until_ms = 0;
    world->silent_until_ms = 0;
}

static void try_seed(const struct trial *trial, uint64_t seed)
{
    static struct rig rig;
    bool drained;

    rig_init(&rig, seed);
    rig.world.faults = trial->faults;
    rig.world.writing = true;
    rig.world.calls_advance = true;
    rig.world.writers_known = trial->writers_known;
    rig.late_steps = (size_t)world_below(&rig.world, 900);
    rig_take_lease(&rig);
    let_it_happen(&rig, trial);
    heal(&rig);
    drained = rig_drain(&rig, 60000);
    if (!drained || world_overtaken(&rig.world) || world_lost(&rig.world))
        print_message("seed %llu\n", (unsigned long long)seed);
    assert_true(drained);
    assert_int_equal(world_lost(&rig.world), 0);
    assert_int_equal(world_overtaken(&rig.world), 0);
    assert_int_equal(rig.world.wrong_deletes, 0);
    assert_true(rig.world.log_count > 5);
    rig_done(&rig);
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
