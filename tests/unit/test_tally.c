/* SPDX-License-Identifier: MIT */
#include "consumer/apply/tally.h"

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

static void an_ended_content_takes_no_later_votes(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 1), vote(1, 0, 0), vote(1, 1, 2), vote(2, 1, 3),
                               vote(2, 0, 0), vote(3, 1, 4), vote(1, 1, 5), vote(1, 0, 0)};
    struct tally tally;
    size_t stale = 0;

    (void)state;
    votes[1].ends = votes[4].ends = votes[7].ends = true;
    votes[6].skip = true;
    assert_int_equal(tally_init(&tally, COUNT(votes), NULL), RC_OK);
    tally_collect(&tally, votes, COUNT(votes));
    assert_int_equal(tally.count, 3);
    tally.rows[1].ended = true; /* before */
    assert_int_equal(tally_end(&tally, votes, COUNT(votes), &stale), 1);
    assert_int_equal(stale, 2);
    assert_true(tally.rows[0].ends);
    assert_false(tally.rows[1].ends);
    assert_false(tally.rows[2].ended);
    assert_false(votes[0].skip);
    assert_true(votes[1].skip);
    assert_false(votes[1].stale);
    assert_true(votes[2].skip);
    assert_true(votes[2].stale);
    assert_true(votes[3].stale);
    assert_true(votes[4].skip);
    assert_false(votes[5].skip);
    assert_false(votes[6].stale);
    tally_count(&tally, votes, COUNT(votes));
    assert_int_equal(tally.rows[0].votes, 1);
    assert_int_equal(tally.rows[0].seq, 1);
    assert_false(tally.rows[1].changed);
    assert_int_equal(tally.rows[2].votes, 1);
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

static struct vote_row vote_at(int64_t content_id, int64_t voter_id, int voting,
                               int64_t occurred_ms)
{
    return (struct vote_row){.event = {.content_id = content_id,
                                       .voter_id = voter_id,
                                       .voting = voting,
                                       .occurred_ms = occurred_ms}};
}

static void voters_are_collected_once_and_sorted(void **state)
{
    struct vote_row votes[] = {vote_at(9, 2, 1, 0), vote_at(4, 7, 1, 0), vote_at(9, 2, 0, 0),
                               vote_at(9, 1, 1, 0), vote_at(1, 1, 1, 0)};
    struct lasts lasts;

    (void)state;
    votes[4].skip = true;
    assert_int_equal(lasts_init(&lasts, COUNT(votes), NULL), RC_OK);
    for (int again = 0; again < 2; again++) {
        lasts_collect(&lasts, votes, COUNT(votes));
        assert_int_equal(lasts.count, 3);
        assert_int_equal(lasts.rows[0].content_id, 4);
        assert_int_equal(lasts.rows[1].voter_id, 1);
        assert_int_equal(lasts.rows[2].voter_id, 2);
        assert_false(lasts.rows[2].found);
        lasts.rows[2].found = true;
    }
    lasts_done(&lasts);
}

static size_t judged(struct vote_row *votes, size_t count, const struct last_row *known)
{
    struct lasts lasts;
    size_t stale;

    assert_int_equal(lasts_init(&lasts, count, NULL), RC_OK);
    lasts_collect(&lasts, votes, count);
    if (known)
        lasts.rows[0] = *known;
    stale = lasts_decide(&lasts, votes, count);
    lasts_done(&lasts);
    return stale;
}

static void a_repeat_is_stale(void **state)
{
    struct vote_row votes[] = {vote_at(1, 1, 1, 10), vote_at(1, 1, 1, 11), vote_at(1, 1, 0, 12),
                               vote_at(1, 1, 0, 13), vote_at(1, 1, 1, 14)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), NULL), 2);
    assert_false(votes[0].skip);
    assert_true(votes[1].skip);
    assert_false(votes[2].skip);
    assert_true(votes[3].skip);
    assert_false(votes[4].skip);
}

static void taking_back_a_missing_vote_is_stale(void **state)
{
    struct vote_row votes[] = {vote_at(1, 1, 0, 10), vote_at(1, 2, 1, 10)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), NULL), 1);
    assert_true(votes[0].skip);
    assert_false(votes[1].skip);
}

static void an_older_vote_is_stale_and_one_of_the_same_time_is_not(void **state)
{
    const struct last_row known = {
        .content_id = 1, .voter_id = 1, .voting = 1, .occurred_ms = 50, .found = true};
    struct vote_row votes[] = {vote_at(1, 1, 0, 49), vote_at(1, 1, 0, 50), vote_at(1, 1, 1, 49)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), &known), 2);
    assert_true(votes[0].skip);
    assert_false(votes[1].skip);
    assert_true(votes[2].skip);
}

static void an_older_vote_does_not_pass_a_repeat(void **state)
{
    struct vote_row votes[] = {vote_at(1, 1, 1, 10), vote_at(1, 1, 1, 20), vote_at(1, 1, 0, 15)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), NULL), 2);
    assert_true(votes[2].skip);
}

static void a_vote_that_comes_after_it_was_taken_back_is_stale(void **state)
{
    struct vote_row votes[] = {vote_at(1, 1, 0, 20), vote_at(1, 1, 1, 10), vote_at(1, 1, 1, 30)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), NULL), 2);
    assert_true(votes[1].skip);
    assert_false(votes[2].skip);
}

static void only_changed_totals_are_written(void **state)
{
    struct vote_row votes[] = {vote_at(1, 1, 1, 20), vote_at(1, 2, 1, 20)};
    struct lasts lasts;

    (void)state;
    assert_int_equal(lasts_init(&lasts, COUNT(votes), NULL), RC_OK);
    lasts_collect(&lasts, votes, COUNT(votes));
    lasts.rows[1].found = true;
    lasts.rows[1].voting = 1;
    lasts.rows[1].occurred_ms = 20;
    assert_int_equal(lasts_decide(&lasts, votes, COUNT(votes)), 1);
    assert_true(lasts.rows[0].changed);
    assert_int_equal(lasts.rows[0].voting, 1);
    assert_int_equal(lasts.rows[0].occurred_ms, 20);
    assert_false(lasts.rows[1].changed);
    lasts_done(&lasts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_are_collected_once_and_sorted),
        cmocka_unit_test(rows_count_on_from_the_tally_in_order),
        cmocka_unit_test(a_content_whose_votes_are_skipped_later_stays_unchanged),
        cmocka_unit_test(an_ended_content_takes_no_later_votes),
        cmocka_unit_test(a_full_batch_of_different_contents_fits_again_and_again),
        cmocka_unit_test(an_event_twice_in_a_batch_is_skipped_the_second_time),
        cmocka_unit_test(an_event_of_the_log_is_skipped_once),
        cmocka_unit_test(voters_are_collected_once_and_sorted),
        cmocka_unit_test(a_repeat_is_stale),
        cmocka_unit_test(taking_back_a_missing_vote_is_stale),
        cmocka_unit_test(an_older_vote_is_stale_and_one_of_the_same_time_is_not),
        cmocka_unit_test(an_older_vote_does_not_pass_a_repeat),
        cmocka_unit_test(a_vote_that_comes_after_it_was_taken_back_is_stale),
        cmocka_unit_test(only_changed_totals_are_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
