/* SPDX-License-Identifier: MIT */
#include "outbox/hash.h"
#include "outbox/stopped.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { KEY = 7, OTHER = 8 };

static struct stopped stopped;

static int set_up(void **state)
{
    (void)state;
    if (stopped_init(&stopped, 3, NULL) != RC_OK)
        return -1;
    stopped_begin_pass(&stopped, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stopped_done(&stopped);
    return 0;
}

static bool add(uint64_t key, int64_t seq)
{
    bool news;

    return stopped_add(&stopped, key, seq, &news);
}

static void later_rows_of_the_key_wait_and_other_keys_do_not(void **state)
{
    (void)state;
    assert_true(add(KEY, 100));
    assert_int_equal(stopped_ask(&stopped, KEY, 101), STOPPED_SKIP);
    assert_int_equal(stopped_ask(&stopped, KEY, 100), STOPPED_SKIP);
    assert_int_equal(stopped_ask(&stopped, OTHER, 101), STOPPED_NOT);
}

static void older_rows_of_the_key_do_not_wait_behind_it(void **state)
{
    (void)state;
    assert_true(add(KEY, 100));
    assert_int_equal(stopped_ask(&stopped, KEY, 99), STOPPED_NOT);
    assert_false(stopped_free(&stopped, KEY, 99));
    assert_int_equal(stopped.count, 1);
}

static void the_refused_row_is_tried_in_the_next_pass_until_the_outcome_is_known(void **state)
{
    (void)state;
    assert_true(add(KEY, 100));
    stopped_begin_pass(&stopped, 2);
    assert_int_equal(stopped_ask(&stopped, KEY, 100), STOPPED_TRY);
    assert_int_equal(stopped_ask(&stopped, KEY, 100), STOPPED_TRY);
    assert_true(stopped_free(&stopped, KEY, 100));
    assert_int_equal(stopped_ask(&stopped, KEY, 101), STOPPED_NOT);
}

static void tries_that_fail_come_at_growing_distances(void **state)
{
    uint64_t tried[8];
    size_t count = 0;

    (void)state;
    assert_true(add(KEY, 100));
    for (uint64_t pass = 2; pass < 64; pass++) {
        stopped_begin_pass(&stopped, pass);
        if (stopped_ask(&stopped, KEY, 100) == STOPPED_TRY) {
            tried[count++] = pass;
            assert_true(add(KEY, 100));
        }
        assert_int_equal(stopped_ask(&stopped, KEY, 101), STOPPED_SKIP);
    }
    assert_int_equal(count, 6);
    assert_int_equal(tried[0], 2);
    assert_int_equal(tried[1], 4);
    assert_int_equal(tried[2], 8);
    assert_int_equal(tried[3], 16);
    assert_int_equal(tried[4], 32);
    assert_int_equal(tried[5], 48);
}

static void a_later_row_is_tried_when_the_pass_did_not_meet_the_refused_one(void **state)
{
    (void)state;
    assert_true(add(KEY, 100));
    stopped_begin_pass(&stopped, 2);
    assert_int_equal(stopped_ask(&stopped, KEY, 101), STOPPED_TRY);
    assert_true(stopped_free(&stopped, KEY, 101));
    assert_int_equal(stopped.count, 0);
}

static void a_key_none_of_whose_rows_a_pass_met_is_forgotten(void **state)
{
    (void)state;
    assert_true(add(KEY, 100));
    stopped_begin_pass(&stopped, 2);
    assert_int_equal(stopped.count, 1);
    stopped_begin_pass(&stopped, 3);
    assert_int_equal(stopped.count, 0);
}

static void no_more_keys_than_allowed_are_stopped(void **state)
{
    (void)state;
    assert_true(add(1, 10));
    assert_true(add(2, 11));
    assert_true(add(3, 12));
    assert_false(add(4, 13));
    assert_true(add(2, 11));
    assert_int_equal(stopped_ask(&stopped, 4, 13), STOPPED_NOT);
}

static void only_a_new_key_or_row_is_news(void **state)
{
    bool news;

    (void)state;
    assert_true(stopped_add(&stopped, KEY, 100, &news));
    assert_true(news);
    assert_true(stopped_add(&stopped, KEY, 100, &news));
    assert_false(news);
    assert_true(stopped_add(&stopped, KEY, 101, &news));
    assert_true(news);
}

/* Keys that collide, many adds and removals: every key is found or not as it should be. */
static void keys_that_share_slots_do_not_hide_each_other(void **state)
{
    struct stopped many;
    bool inside[64] = {false};
    uint64_t dice = 11;

    (void)state;
    assert_int_equal(stopped_init(&many, 64, NULL), RC_OK);
    stopped_begin_pass(&many, 1);
    for (int i = 0; i < 100000; i++) {
        size_t n = (size_t)(dice_next(&dice) % 64);
        uint64_t key = 126 + (n % 4) + 128 * (n / 4);
        bool news;

        if (inside[n])
            assert_true(stopped_free(&many, key, 5));
        else
            assert_true(stopped_add(&many, key, 5, &news));
        inside[n] = !inside[n];
        for (size_t other = 0; other < 64; other++)
            assert_int_equal(stopped_ask(&many, 126 + (other % 4) + 128 * (other / 4), 6),
                             inside[other] ? STOPPED_SKIP : STOPPED_NOT);
    }
    stopped_done(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(later_rows_of_the_key_wait_and_other_keys_do_not, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(older_rows_of_the_key_do_not_wait_behind_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            the_refused_row_is_tried_in_the_next_pass_until_the_outcome_is_known, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(tries_that_fail_come_at_growing_distances, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_later_row_is_tried_when_the_pass_did_not_meet_the_refused_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_key_none_of_whose_rows_a_pass_met_is_forgotten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_more_keys_than_allowed_are_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_a_new_key_or_row_is_news, set_up, tear_down),
        cmocka_unit_test(keys_that_share_slots_do_not_hide_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
