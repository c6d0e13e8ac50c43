/* SPDX-License-Identifier: MIT */
#include "outbox/relay/diverted_keys.h"
#include "outbox/relay/relay_row.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH 5

static struct diverted_keys diverted;
static uint64_t generation;

static int set_up(void **state)
{
    (void)state;
    if (diverted_keys_init(&diverted, 3, NULL) != RC_OK || !diverted_keys_load_begin(&diverted))
        return -1;
    diverted_keys_load_end(&diverted, EPOCH);
    diverted_keys_begin_full_scan(&diverted, 1);
    generation = diverted_keys_adopt(&diverted, EPOCH);
    return generation == 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    diverted_keys_done(&diverted);
    return 0;
}

static uint64_t key_of(int number)
{
    char text[16];

    snprintf(text, sizeof(text), "t/%d", number);
    return ordering_key_hash_of_text(text);
}

static enum divert_result divert_row(int number, int64_t seq)
{
    struct relay_move move = {.seq = seq, .key = key_of(number), .topic = "t"};
    bool newly_diverted;

    snprintf(move.ordering_key, sizeof(move.ordering_key), "t/%d", number);
    return diverted_keys_divert_row(&diverted, generation, &move, &newly_diverted);
}

static enum diverted_key_state check_key(int number)
{
    return diverted_keys_check(&diverted, generation, key_of(number));
}

/* The diverter takes the existing moves. */
static void move_all(void)
{
    size_t count;

    diverted_keys_moves(&diverted, 100, &count);
    diverted_keys_moved(&diverted, count);
}

static size_t list_moved(struct lane_key keys[4], uint64_t *moved_at_query)
{
    size_t cursor = 0;

    return diverted_keys_list_moved(&diverted, &cursor, keys, 4, moved_at_query);
}

static void later_rows_of_the_key_follow_it_and_other_keys_do_not(void **state)
{
    const struct relay_move *moves;
    size_t count;

    (void)state;
    assert_int_equal(check_key(7), KEY_NOT_DIVERTED);
    assert_int_equal(divert_row(7, 100), DIVERT_QUEUED);
    assert_int_equal(check_key(7), KEY_DIVERTED);
    assert_int_equal(check_key(8), KEY_NOT_DIVERTED);
    assert_int_equal(divert_row(7, 101), DIVERT_QUEUED);
    moves = diverted_keys_moves(&diverted, 100, &count);
    assert_int_equal(count, 2);
    assert_int_equal(moves[0].seq, 100);
    assert_int_equal(moves[1].seq, 101);
}

static void rows_leave_the_lane_once_they_are_in_the_retry_queue(void **state)
{
    bool moved;

    (void)state;
    divert_row(7, 100);
    divert_row(7, 101);
    assert_false(diverted_keys_can_return(&diverted, &moved));
    diverted_keys_moved(&diverted, 1);
    assert_true(diverted_keys_can_return(&diverted, &moved));
    assert_true(moved);
    assert_int_equal(diverted_keys_return_row(&diverted), 100);
    assert_false(diverted_keys_can_return(&diverted, &moved));
}

static void none_is_diverted_only_while_the_keys_are_known(void **state)
{
    (void)state;
    assert_true(diverted_keys_are_none(&diverted, EPOCH));
    assert_false(diverted_keys_are_none(&diverted, EPOCH + 1));
    divert_row(7, 100);
    divert_row(7, 101);
    assert_false(diverted_keys_are_none(&diverted, EPOCH));
    move_all();
    assert_false(diverted_keys_are_none(&diverted, EPOCH));
    diverted_keys_release_key(&diverted, key_of(7), 2);
    assert_true(diverted_keys_are_none(&diverted, EPOCH));
    diverted_keys_invalidate(&diverted);
    assert_false(diverted_keys_are_none(&diverted, EPOCH));
}

/* The queue owns the copy only if it was queued. */
static enum divert_result divert_copy(int64_t seq, size_t bytes)
{
    const struct relay_row row = {.seq = seq, .payload = {"0123456789", bytes}};
    struct relay_move move = {.seq = seq, .key = key_of(7), .row = relay_row_copy(&row)};
    enum divert_result result;
    bool newly_diverted;

    assert_non_null(move.row);
    result = diverted_keys_divert_row(&diverted, generation, &move, &newly_diverted);
    if (result != DIVERT_QUEUED)
        free(move.row);
    return result;
}

static void the_queue_owns_copies_until_their_rows_are_returned(void **state)
{
    const struct relay_move *moves;
    size_t count;

    (void)state;
    assert_int_equal(divert_copy(100, 10), DIVERT_QUEUED);
    assert_int_equal(divert_copy(101, 5), DIVERT_QUEUED);
    moves = diverted_keys_moves(&diverted, 1, &count);
    assert_int_equal(count, 1);
    assert_memory_equal(moves[0].row->payload.data, "0123456789", 10);
    diverted_keys_moved(&diverted, 1);
    assert_int_equal(diverted_keys_return_row(&diverted), 100);
    assert_int_equal(diverted.row_bytes, sizeof(struct relay_row) + 5);
    diverted_keys_invalidate(&diverted);
    assert_int_equal(divert_copy(102, 1), DIVERT_STALE);
    assert_int_equal(diverted_keys_return_row(&diverted), 101);
    assert_int_equal(diverted.row_bytes, 0);
}

static void copies_in_a_queue_that_ends_are_freed(void **state)
{
    (void)state;
    assert_int_equal(divert_copy(100, 10), DIVERT_QUEUED);
    assert_int_equal(divert_copy(101, 10), DIVERT_QUEUED);
    diverted_keys_moved(&diverted, 1);
}

static void the_bytes_of_copies_are_bounded_but_for_one_row(void **state)
{
    (void)state;
    diverted.row_bytes_max = sizeof(struct relay_row) + 5;
    assert_int_equal(divert_copy(100, 10), DIVERT_QUEUED);
    assert_int_equal(divert_copy(101, 0), DIVERT_LEFT);
    move_all();
    assert_int_equal(diverted_keys_return_row(&diverted), 100);
    diverted_keys_begin_full_scan(&diverted, 2);
    assert_int_equal(divert_copy(101, 0), DIVERT_QUEUED);
    diverted_keys_begin_full_scan(&diverted, 3);
    assert_int_equal(divert_copy(102, 0), DIVERT_LEFT);
}

static void moved_and_abandoned_rows_are_told_apart(void **state)
{
    bool moved;

    (void)state;
    for (int64_t seq = 100; seq < 104; seq++)
        divert_row(7, seq);
    diverted_keys_moved(&diverted, 2);
    diverted_keys_invalidate(&diverted);
    for (int64_t seq = 100; seq < 104; seq++) {
        assert_true(diverted_keys_can_return(&diverted, &moved));
        assert_int_equal(moved, seq < 102);
        assert_int_equal(diverted_keys_return_row(&diverted), seq);
    }
    assert_false(diverted_keys_can_return(&diverted, &moved));
}

static void a_key_without_tasks_is_free(void **state)
{
    struct lane_key keys[4];
    uint64_t moved_at_query;

    (void)state;
    divert_row(7, 100);
    assert_int_equal(list_moved(keys, &moved_at_query), 0);
    move_all();
    assert_int_equal(list_moved(keys, &moved_at_query), 1);
    assert_string_equal(keys[0].ordering_key, "t/7");
    assert_false(diverted_keys_release_key(&diverted, keys[0].key, moved_at_query));
    assert_int_equal(check_key(7), KEY_NOT_DIVERTED);
    assert_int_equal(atomic_load(&diverted.count), 0);
}

static void an_answer_older_than_the_last_row_frees_nothing(void **state)
{
    struct lane_key keys[4];
    uint64_t moved_at_query;

    (void)state;
    divert_row(7, 100);
    move_all();
    assert_int_equal(list_moved(keys, &moved_at_query), 1);
    divert_row(7, 101);
    diverted_keys_release_key(&diverted, keys[0].key, moved_at_query);
    assert_int_equal(check_key(7), KEY_DIVERTED);
    move_all();
    diverted_keys_release_key(&diverted, keys[0].key, moved_at_query);
    assert_int_equal(check_key(7), KEY_DIVERTED);
    assert_int_equal(list_moved(keys, &moved_at_query), 1);
    diverted_keys_release_key(&diverted, keys[0].key, moved_at_query);
    assert_int_equal(check_key(7), KEY_NOT_DIVERTED);
}

static void a_row_left_in_the_table_keeps_the_later_ones_of_the_pass_behind_it(void **state)
{
    (void)state;
    diverted.moves_max = 1;
    divert_row(7, 100);
    assert_int_equal(divert_row(7, 101), DIVERT_LEFT);
    diverted.moves_max = 8;
    assert_int_equal(divert_row(7, 102), DIVERT_LEFT);
    assert_int_equal(divert_row(8, 103), DIVERT_QUEUED);
    diverted_keys_begin_full_scan(&diverted, 2);
    assert_int_equal(divert_row(7, 101), DIVERT_QUEUED);
}

static void a_key_that_left_rows_is_free_with_the_next_pass(void **state)
{
    struct lane_key keys[4];
    uint64_t moved_at_query;

    (void)state;
    diverted.key_rows_max = 1;
    divert_row(7, 100);
    assert_int_equal(divert_row(7, 101), DIVERT_LEFT);
    move_all();
    assert_int_equal(list_moved(keys, &moved_at_query), 1);
    assert_true(diverted_keys_release_key(&diverted, keys[0].key, moved_at_query));
    assert_int_equal(check_key(7), KEY_DIVERTED);
    assert_int_equal(divert_row(7, 102), DIVERT_LEFT);
    assert_int_equal(list_moved(keys, &moved_at_query), 0);
    diverted_keys_begin_full_scan(&diverted, 2);
    assert_int_equal(check_key(7), KEY_NOT_DIVERTED);
}

static void a_row_given_back_unsent_keeps_its_key_in_the_table(void **state)
{
    (void)state;
    divert_row(7, 100);
    diverted_keys_begin_full_scan(&diverted, 2);
    diverted_keys_leave_row(&diverted, key_of(7));
    assert_int_equal(divert_row(7, 101), DIVERT_LEFT);
}

static void there_is_no_space_for_more_keys_than_configured(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(divert_row(i, i + 1), DIVERT_QUEUED);
    assert_int_equal(divert_row(3, 4), DIVERT_FULL);
    assert_int_equal(check_key(3), KEY_NOT_DIVERTED);
    assert_int_equal(divert_row(2, 5), DIVERT_QUEUED);
}

static void with_the_lease_all_of_it_is_void(void **state)
{
    bool moved;

    (void)state;
    divert_row(7, 100);
    diverted_keys_invalidate(&diverted);
    diverted_keys_invalidate(&diverted);
    assert_int_equal(check_key(7), KEY_STALE);
    assert_int_equal(check_key(8), KEY_STALE);
    assert_int_equal(divert_row(7, 101), DIVERT_STALE);
    assert_int_equal(diverted_keys_adopt(&diverted, EPOCH), 0);
    assert_false(diverted_keys_load_begin(&diverted));
    assert_true(diverted_keys_can_return(&diverted, &moved));
    assert_int_equal(diverted_keys_return_row(&diverted), 100);
    assert_true(diverted_keys_load_begin(&diverted));
    assert_int_equal(atomic_load(&diverted.count), 0);
    /* Unknown yet, also when the list is empty. */
    assert_int_equal(check_key(7), KEY_STALE);
    assert_true(diverted_keys_load_key(&diverted, "t/8"));
    diverted_keys_load_end(&diverted, EPOCH + 1);
    assert_int_equal(check_key(8), KEY_STALE);
    generation = diverted_keys_adopt(&diverted, EPOCH + 1);
    assert_int_equal(check_key(7), KEY_NOT_DIVERTED);
    assert_int_equal(check_key(8), KEY_DIVERTED);
}

static void too_many_keys_cannot_be_loaded(void **state)
{
    (void)state;
    assert_true(diverted_keys_load_key(&diverted, "t/1"));
    assert_true(diverted_keys_load_key(&diverted, "t/2"));
    assert_true(diverted_keys_load_key(&diverted, "t/2"));
    assert_true(diverted_keys_load_key(&diverted, "t/3"));
    assert_false(diverted_keys_load_key(&diverted, "t/4"));
}

/* Keys come and go in all places of the table. */
static void keys_are_found_after_any_additions_and_removals(void **state)
{
    struct diverted_keys many;
    uint64_t moved_at_query = 0;

    (void)state;
    assert_int_equal(diverted_keys_init(&many, 500, NULL), RC_OK);
    assert_true(diverted_keys_load_begin(&many));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 500; i++) {
            char text[16];

            snprintf(text, sizeof(text), "t/%d", i);
            assert_true(diverted_keys_load_key(&many, text));
        }
        for (int i = round % 3; i < 500; i += 3)
            diverted_keys_release_key(&many, key_of(i), moved_at_query);
    }
    diverted_keys_load_end(&many, 1);
    for (int i = 0; i < 500; i++)
        assert_int_equal(diverted_keys_check(&many, diverted_keys_adopt(&many, 1), key_of(i)),
                         i % 3 == 0 ? KEY_NOT_DIVERTED : KEY_DIVERTED);
    diverted_keys_done(&many);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(later_rows_of_the_key_follow_it_and_other_keys_do_not),
        TEST(rows_leave_the_lane_once_they_are_in_the_retry_queue),
        TEST(moved_and_abandoned_rows_are_told_apart),
        TEST(the_queue_owns_copies_until_their_rows_are_returned),
        TEST(copies_in_a_queue_that_ends_are_freed),
        TEST(the_bytes_of_copies_are_bounded_but_for_one_row),
        TEST(a_key_without_tasks_is_free),
        TEST(an_answer_older_than_the_last_row_frees_nothing),
        TEST(a_row_left_in_the_table_keeps_the_later_ones_of_the_pass_behind_it),
        TEST(a_key_that_left_rows_is_free_with_the_next_pass),
        TEST(a_row_given_back_unsent_keeps_its_key_in_the_table),
        TEST(there_is_no_space_for_more_keys_than_configured),
        TEST(with_the_lease_all_of_it_is_void),
        TEST(too_many_keys_cannot_be_loaded),
        TEST(keys_are_found_after_any_additions_and_removals),
        TEST(none_is_diverted_only_while_the_keys_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
