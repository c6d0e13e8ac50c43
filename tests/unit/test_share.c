/* SPDX-License-Identifier: MIT */
#include "common/hash.h"
#include "outbox/lease/leases.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

static bool takes(const size_t *held, size_t instances, size_t me, size_t lanes)
{
    const struct share share = {held, instances, me, lanes, 0, NULL};

    return share_may_take(&share);
}

static size_t surplus_of(const size_t *held, size_t instances, size_t me, size_t lanes)
{
    struct share share = {held, instances, me, lanes, lanes, NULL};

    for (size_t i = 0; i < instances; i++)
        share.free -= held[i];

    return share_surplus(&share);
}

static bool gives(const size_t *held, size_t instances, size_t me, size_t lanes)
{
    return surplus_of(held, instances, me, lanes) > 0;
}

static void one_instance_takes_everything(void **state)
{
    (void)state;
    assert_true(takes((size_t[]){0}, 1, 0, 3));
    assert_true(takes((size_t[]){2}, 1, 0, 3));
    assert_false(takes((size_t[]){3}, 1, 0, 3));
    assert_false(gives((size_t[]){3}, 1, 0, 3));
}

static void the_odd_lane_is_taken_only_when_every_instance_has_its_share(void **state)
{
    (void)state;
    assert_true(takes((size_t[]){1, 1}, 2, 0, 3));
    assert_true(takes((size_t[]){1, 1}, 2, 1, 3));
    assert_false(takes((size_t[]){1, 0}, 2, 0, 3));
    assert_true(takes((size_t[]){1, 0}, 2, 1, 3));
}

static void a_newcomer_gets_a_lane_from_one_of_the_richest(void **state)
{
    const size_t held[] = {2, 2, 0};

    (void)state;
    assert_true(gives(held, 3, 0, 4));
    assert_false(gives(held, 3, 1, 4));
    assert_false(gives(held, 3, 2, 4));
}

static void all_that_is_too_much_is_given_at_once(void **state)
{
    (void)state;
    assert_int_equal(surplus_of((size_t[]){16, 0}, 2, 0, 16), 8);
    assert_int_equal(surplus_of((size_t[]){8, 8, 0}, 3, 0, 16), 2);
    assert_int_equal(surplus_of((size_t[]){6, 6, 4}, 3, 0, 16), 1);
}

static void no_instance_gives_a_lane_while_enough_are_free(void **state)
{
    (void)state;
    assert_false(gives((size_t[]){1, 2, 0}, 3, 1, 4));
    assert_true(gives((size_t[]){2, 2, 0, 0}, 4, 0, 5));
    assert_false(gives((size_t[]){2, 1, 0, 0}, 4, 0, 5));
    assert_true(gives((size_t[]){3, 0, 0}, 3, 0, 4));
}

static void nothing_moves_when_all_is_even(void **state)
{
    (void)state;
    for (size_t me = 0; me < 3; me++)
        assert_false(gives((size_t[]){2, 1, 1}, 3, me, 4));
    for (size_t me = 0; me < 4; me++)
        assert_false(gives((size_t[]){1, 0, 0, 1}, 4, me, 2));
}

/* All instances act on the same numbers, one after the other, from any start. */
static void from_any_start_it_ends_even_with_few_moves(void **state)
{
    uint64_t rng = 5;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t held[8] = {0};
        size_t instances = 1 + (size_t)(rng_next(&rng) % 8);
        size_t lanes = (size_t)(rng_next(&rng) % 20);
        size_t free_lanes = 0;
        size_t moves = 0;

        for (size_t i = 0; i < lanes; i++)
            held[rng_next(&rng) % instances]++;
        for (int turn = 0; turn < 200; turn++) {
            size_t me = (size_t)turn % instances;

            size_t surplus = surplus_of(held, instances, me, lanes);

            if (surplus > 0) {
                held[me] -= surplus;
                free_lanes += surplus;
                moves += surplus;
            } else if (free_lanes > 0 && takes(held, instances, me, lanes)) {
                held[me]++;
                free_lanes--;
            }
        }
        assert_int_equal(free_lanes, 0);
        assert_true(moves <= lanes);
        for (size_t i = 0; i < instances; i++) {
            assert_true(held[i] >= lanes / instances);
            assert_true(held[i] <= (lanes + instances - 1) / instances);
        }
    }
}

static void weights_share_as_they_say(void **state)
{
    const int64_t weights[] = {3, 1};
    struct share share = {(size_t[]){12, 4}, 2, 0, 16, 0, weights};

    (void)state;
    assert_int_equal(share_surplus(&share), 0);
    assert_false(share_may_take(&share));
    share.held = (size_t[]){8, 8};
    share.me = 1;
    assert_int_equal(share_surplus(&share), 4);
    share.held = (size_t[]){11, 4};
    share.free = 1;
    assert_false(share_may_take(&share));
    share.me = 0;
    assert_true(share_may_take(&share));
}

static void from_any_start_weights_are_kept_with_few_moves(void **state)
{
    uint64_t rng = 6;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t held[8] = {0};
        int64_t weights[8];
        size_t instances = 1 + (size_t)(rng_next(&rng) % 8);
        size_t lanes = (size_t)(rng_next(&rng) % 20);
        struct share share = {held, instances, 0, lanes, 0, weights};
        size_t moves = 0;
        size_t sum = 0;

        for (size_t i = 0; i < instances; i++) {
            weights[i] = 1 + (int64_t)(rng_next(&rng) % 5);
            sum += (size_t)weights[i];
        }
        for (size_t i = 0; i < lanes; i++)
            held[rng_next(&rng) % instances]++;
        for (int turn = 0; turn < 300; turn++) {
            share.me = (size_t)turn % instances;
            if (share_surplus(&share) > 0) {
                size_t surplus = share_surplus(&share);

                held[share.me] -= surplus;
                share.free += surplus;
                moves += surplus;
            } else if (share.free > 0 && share_may_take(&share)) {
                held[share.me]++;
                share.free--;
            }
        }
        assert_int_equal(share.free, 0);
        assert_true(moves <= lanes);
        for (size_t i = 0; i < instances; i++) {
            assert_true(held[i] >= lanes * (size_t)weights[i] / sum);
            assert_true(held[i] <= (lanes * (size_t)weights[i] + sum - 1) / sum);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_instance_takes_everything),
        cmocka_unit_test(the_odd_lane_is_taken_only_when_every_instance_has_its_share),
        cmocka_unit_test(a_newcomer_gets_a_lane_from_one_of_the_richest),
        cmocka_unit_test(all_that_is_too_much_is_given_at_once),
        cmocka_unit_test(no_instance_gives_a_lane_while_enough_are_free),
        cmocka_unit_test(nothing_moves_when_all_is_even),
        cmocka_unit_test(from_any_start_it_ends_even_with_few_moves),
        cmocka_unit_test(weights_share_as_they_say),
        cmocka_unit_test(from_any_start_weights_are_kept_with_few_moves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
