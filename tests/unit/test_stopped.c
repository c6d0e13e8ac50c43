/* SPDX-License-Identifier: MIT */
#include "outbox/relay/ordering_key.h"
#include "outbox/relay/stopped.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define EPOCH 5

static struct stopped stopped;
static uint64_t generation;

static int set_up(void **state)
{
    (void)state;
    if (stopped_init(&stopped, 3, NULL) != RC_OK || !stopped_load_begin(&stopped))
        return -1;
    stopped_load_end(&stopped, EPOCH);
    stopped_begin_pass(&stopped, 1);
    generation = stopped_adopt(&stopped, EPOCH);
    return generation == 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    stopped_done(&stopped);
    return 0;
}

static uint64_t key_of(int number)
{
    char text[16];

    snprintf(text, sizeof(text), "t/%d", number);
    return ordering_key_hash(text);
}

static enum stopped_given give(int number, int64_t seq)
{
    struct relay_move move = {.seq = seq, .key = key_of(number), .topic = "t"};
    bool news;

    snprintf(move.ordering_key, sizeof(move.ordering_key), "t/%d", number);
    return stopped_give(&stopped, generation, &move, &news);
}

static enum stopped_say ask(int number)
{
    return stopped_ask(&stopped, generation, key_of(number));
}

/* The mover takes what there is. */
static void move_all(void)
{
    size_t count;

    stopped_moves(&stopped, 100, &count);
    stopped_moved(&stopped, count);
}

static size_t question(struct lane_key keys[4], uint64_t *asked)
{
    size_t cursor = 0;

    return stopped_question(&stopped, &cursor, keys, 4, asked);
}

static void later_rows_of_the_key_follow_it_and_other_keys_do_not(void **state)
{
    const struct relay_move *moves;
    size_t count;

    (void)state;
    assert_int_equal(ask(7), STOPPED_NOT);
    assert_int_equal(give(7, 100), STOPPED_MOVES);
    assert_int_equal(ask(7), STOPPED_IS);
    assert_int_equal(ask(8), STOPPED_NOT);
    assert_int_equal(give(7, 101), STOPPED_MOVES);
    moves = stopped_moves(&stopped, 100, &count);
    assert_int_equal(count, 2);
    assert_int_equal(moves[0].seq, 100);
    assert_int_equal(moves[1].seq, 101);
}

static void rows_go_home_once_they_are_in_the_retry_lane(void **state)
{
    int64_t seq;

    (void)state;
    give(7, 100);
    give(7, 101);
    assert_false(stopped_home(&stopped, &seq));
    stopped_moved(&stopped, 1);
    assert_true(stopped_home(&stopped, &seq));
    assert_int_equal(seq, 100);
    assert_false(stopped_home(&stopped, &seq));
}

static void a_key_without_tasks_is_free(void **state)
{
    struct lane_key keys[4];
    uint64_t asked;

    (void)state;
    give(7, 100);
    assert_int_equal(question(keys, &asked), 0);
    move_all();
    assert_int_equal(question(keys, &asked), 1);
    assert_string_equal(keys[0].ordering_key, "t/7");
    assert_false(stopped_answer(&stopped, keys[0].key, asked));
    assert_int_equal(ask(7), STOPPED_NOT);
    assert_int_equal(atomic_load(&stopped.count), 0);
}

static void an_answer_older_than_the_last_row_frees_nothing(void **state)
{
    struct lane_key keys[4];
    uint64_t asked;

    (void)state;
    give(7, 100);
    move_all();
    assert_int_equal(question(keys, &asked), 1);
    give(7, 101);
    stopped_answer(&stopped, keys[0].key, asked);
    assert_int_equal(ask(7), STOPPED_IS);
    move_all();
    stopped_answer(&stopped, keys[0].key, asked);
    assert_int_equal(ask(7), STOPPED_IS);
    assert_int_equal(question(keys, &asked), 1);
    stopped_answer(&stopped, keys[0].key, asked);
    assert_int_equal(ask(7), STOPPED_NOT);
}

static void a_row_left_in_the_table_keeps_the_later_ones_of_the_pass_behind_it(void **state)
{
    (void)state;
    stopped.moves_max = 1;
    give(7, 100);
    assert_int_equal(give(7, 101), STOPPED_LEFT);
    stopped.moves_max = 8;
    assert_int_equal(give(7, 102), STOPPED_LEFT);
    assert_int_equal(give(8, 103), STOPPED_MOVES);
    stopped_begin_pass(&stopped, 2);
    assert_int_equal(give(7, 101), STOPPED_MOVES);
}

static void a_key_that_left_rows_is_free_with_the_next_pass(void **state)
{
    struct lane_key keys[4];
    uint64_t asked;

    (void)state;
    stopped.key_rows_max = 1;
    give(7, 100);
    assert_int_equal(give(7, 101), STOPPED_LEFT);
    move_all();
    assert_int_equal(question(keys, &asked), 1);
    assert_true(stopped_answer(&stopped, keys[0].key, asked));
    assert_int_equal(ask(7), STOPPED_IS);
    assert_int_equal(give(7, 102), STOPPED_LEFT);
    assert_int_equal(question(keys, &asked), 0);
    stopped_begin_pass(&stopped, 2);
    assert_int_equal(ask(7), STOPPED_NOT);
}

static void a_row_given_back_unsent_keeps_its_key_in_the_table(void **state)
{
    (void)state;
    give(7, 100);
    stopped_begin_pass(&stopped, 2);
    stopped_leave(&stopped, key_of(7));
    assert_int_equal(give(7, 101), STOPPED_LEFT);
}

static void there_is_no_room_for_more_keys_than_were_asked_for(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(give(i, i + 1), STOPPED_MOVES);
    assert_int_equal(give(3, 4), STOPPED_FULL);
    assert_int_equal(ask(3), STOPPED_NOT);
    assert_int_equal(give(2, 5), STOPPED_MOVES);
}

static void with_the_lease_all_of_it_is_void(void **state)
{
    int64_t seq;

    (void)state;
    give(7, 100);
    stopped_void(&stopped);
    stopped_void(&stopped);
    assert_int_equal(ask(7), STOPPED_STALE);
    assert_int_equal(ask(8), STOPPED_STALE);
    assert_int_equal(give(7, 101), STOPPED_VOID);
    assert_int_equal(stopped_adopt(&stopped, EPOCH), 0);
    assert_false(stopped_load_begin(&stopped));
    assert_true(stopped_home(&stopped, &seq));
    assert_int_equal(seq, 100);
    assert_true(stopped_load_begin(&stopped));
    assert_int_equal(atomic_load(&stopped.count), 0);
    /* Nobody knows yet: also where the list is empty. */
    assert_int_equal(ask(7), STOPPED_STALE);
    assert_true(stopped_put(&stopped, "t/8"));
    stopped_load_end(&stopped, EPOCH + 1);
    assert_int_equal(ask(8), STOPPED_STALE);
    generation = stopped_adopt(&stopped, EPOCH + 1);
    assert_int_equal(ask(7), STOPPED_NOT);
    assert_int_equal(ask(8), STOPPED_IS);
}

static void too_many_keys_cannot_be_loaded(void **state)
{
    (void)state;
    assert_true(stopped_put(&stopped, "t/1"));
    assert_true(stopped_put(&stopped, "t/2"));
    assert_true(stopped_put(&stopped, "t/2"));
    assert_true(stopped_put(&stopped, "t/3"));
    assert_false(stopped_put(&stopped, "t/4"));
}

/* Keys come and go in all places of the table. */
static void keys_are_found_whatever_goes_in_between(void **state)
{
    struct stopped many;
    uint64_t asked = 0;

    (void)state;
    assert_int_equal(stopped_init(&many, 500, NULL), RC_OK);
    assert_true(stopped_load_begin(&many));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 500; i++) {
            char text[16];

            snprintf(text, sizeof(text), "t/%d", i);
            assert_true(stopped_put(&many, text));
        }
        for (int i = round % 3; i < 500; i += 3)
            stopped_answer(&many, key_of(i), asked);
    }
    stopped_load_end(&many, 1);
    for (int i = 0; i < 500; i++)
        assert_int_equal(stopped_ask(&many, stopped_adopt(&many, 1), key_of(i)),
                         i % 3 == 0 ? STOPPED_NOT : STOPPED_IS);
    stopped_done(&many);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(later_rows_of_the_key_follow_it_and_other_keys_do_not),
        TEST(rows_go_home_once_they_are_in_the_retry_lane),
        TEST(a_key_without_tasks_is_free),
        TEST(an_answer_older_than_the_last_row_frees_nothing),
        TEST(a_row_left_in_the_table_keeps_the_later_ones_of_the_pass_behind_it),
        TEST(a_key_that_left_rows_is_free_with_the_next_pass),
        TEST(a_row_given_back_unsent_keeps_its_key_in_the_table),
        TEST(there_is_no_room_for_more_keys_than_were_asked_for),
        TEST(with_the_lease_all_of_it_is_void),
        TEST(too_many_keys_cannot_be_loaded),
        TEST(keys_are_found_whatever_goes_in_between),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
