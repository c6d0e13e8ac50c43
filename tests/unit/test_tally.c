/* SPDX-License-Identifier: MIT */
#include "consumer/apply/tally.h"

#include "consumer/apply/event_set.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct vote_row vote(int64_t content_id, int voting, uint8_t event)
{
    struct vote_row row = {.event = {.content_id = content_id, .voting = voting}};

    row.event.event_id.bytes[15] = event;
    return row;
}

static void contents_are_collected_once_and_sorted(void **state)
{
    struct vote_row votes[] = {vote(9, 1, 1), vote(-3, 1, 2), vote(9, 0, 3), vote(INT64_MAX, 1, 4),
                               vote(4, 1, 5)};
    struct tally tally;

    (void)state;
    votes[4].skip = true;
    assert_int_equal(tally_init(&tally, COUNT(votes), NULL), RC_OK);
    tally_collect(&tally, votes, COUNT(votes));
    assert_int_equal(tally.count, 3);
    assert_int_equal(tally.rows[0].content_id, -3);
    assert_int_equal(tally.rows[1].content_id, 9);
    assert_int_equal(tally.rows[2].content_id, INT64_MAX);
    tally_done(&tally);
}

static void rows_count_on_from_the_tally_in_order(void **state)
{
    struct vote_row votes[] = {vote(2, 1, 1), vote(1, 0, 2), vote(2, 1, 3), vote(2, 0, 4),
                               vote(1, 1, 5)};
    struct tally tally;

    (void)state;
    votes[2].skip = true;
    assert_int_equal(tally_init(&tally, COUNT(votes), NULL), RC_OK);
    tally_collect(&tally, votes, COUNT(votes));
    tally.rows[0].votes = 10;
    tally.rows[0].seq = 100;
    tally.rows[1].votes = 5;
    tally.rows[1].seq = 50;
    tally_count(&tally, votes, COUNT(votes));
    assert_int_equal(votes[0].votes, 6);
    assert_int_equal(votes[0].content_seq, 51);
    assert_int_equal(votes[3].votes, 5);
    assert_int_equal(votes[3].content_seq, 52);
    assert_int_equal(votes[1].votes, 9);
    assert_int_equal(votes[1].content_seq, 101);
    assert_int_equal(votes[4].votes, 10);
    assert_int_equal(votes[4].content_seq, 102);
    assert_int_equal(tally.rows[0].votes, 10);
    assert_int_equal(tally.rows[0].seq, 102);
    assert_true(tally.rows[0].changed);
    assert_int_equal(tally.rows[1].seq, 52);
    tally_done(&tally);
}

static void a_content_whose_votes_are_skipped_later_stays_unchanged(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 1), vote(2, 1, 2)};
    struct tally tally;

    (void)state;
    assert_int_equal(tally_init(&tally, COUNT(votes), NULL), RC_OK);
    tally_collect(&tally, votes, COUNT(votes));
    votes[0].skip = true;
    tally_count(&tally, votes, COUNT(votes));
    assert_false(tally.rows[0].changed);
    assert_true(tally.rows[1].changed);
    tally_done(&tally);
}

static void a_full_batch_of_different_contents_fits_again_and_again(void **state)
{
    static struct vote_row votes[1000];
    struct tally tally;

    (void)state;
    assert_int_equal(tally_init(&tally, COUNT(votes), NULL), RC_OK);
    for (int64_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT(votes); i++)
            votes[i] = vote((int64_t)i * (INT64_C(1) << 32) + round, 1, 0);
        tally_collect(&tally, votes, COUNT(votes));
        tally_count(&tally, votes, COUNT(votes));
        assert_int_equal(tally.count, COUNT(votes));
        for (size_t i = 0; i < COUNT(votes); i++)
            assert_int_equal(votes[i].content_seq, 1);
    }
    tally_done(&tally);
}

static void an_event_twice_in_a_batch_is_skipped_the_second_time(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 1), vote(1, 1, 2), vote(2, 1, 1),
                               vote(1, 1, 3), vote(1, 1, 3), vote(1, 1, 3)};
    struct event_set set;

    (void)state;
    votes[3].skip = true;
    assert_int_equal(event_set_init(&set, COUNT(votes), NULL), RC_OK);
    assert_int_equal(event_set_collect(&set, votes, COUNT(votes)), 2);
    assert_false(votes[0].skip);
    assert_false(votes[1].skip);
    assert_true(votes[2].skip);
    assert_false(votes[4].skip);
    assert_true(votes[5].skip);
    event_set_done(&set);
}

static void an_event_of_the_log_is_skipped_once(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 1), vote(1, 1, 2)};
    struct id other = {{9}};
    struct event_set set;

    (void)state;
    assert_int_equal(event_set_init(&set, COUNT(votes), NULL), RC_OK);
    assert_int_equal(event_set_collect(&set, votes, COUNT(votes)), 0);
    assert_int_equal(event_set_skip(&set, &votes[1].event.event_id), 1);
    assert_int_equal(event_set_skip(&set, &votes[1].event.event_id), 0);
    assert_int_equal(event_set_skip(&set, &other), 0);
    assert_false(votes[0].skip);
    assert_true(votes[1].skip);
    event_set_done(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_are_collected_once_and_sorted),
        cmocka_unit_test(rows_count_on_from_the_tally_in_order),
        cmocka_unit_test(a_content_whose_votes_are_skipped_later_stays_unchanged),
        cmocka_unit_test(a_full_batch_of_different_contents_fits_again_and_again),
        cmocka_unit_test(an_event_twice_in_a_batch_is_skipped_the_second_time),
        cmocka_unit_test(an_event_of_the_log_is_skipped_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
