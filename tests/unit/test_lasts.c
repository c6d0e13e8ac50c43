/* SPDX-License-Identifier: MIT */
#include "consumer/apply/lasts.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct vote_row vote(int64_t content_id, int64_t voter_id, int voting, int64_t occurred_ms)
{
    return (struct vote_row){.event = {.content_id = content_id,
                                       .voter_id = voter_id,
                                       .voting = voting,
                                       .occurred_ms = occurred_ms}};
}

static void voters_are_collected_once_and_sorted(void **state)
{
    struct vote_row votes[] = {vote(9, 2, 1, 0), vote(4, 7, 1, 0), vote(9, 2, 0, 0),
                               vote(9, 1, 1, 0), vote(1, 1, 1, 0)};
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
    size_t aside;

    assert_int_equal(lasts_init(&lasts, count, NULL), RC_OK);
    lasts_collect(&lasts, votes, count);
    if (known)
        lasts.rows[0] = *known;
    aside = lasts_judge(&lasts, votes, count);
    lasts_done(&lasts);
    return aside;
}

static void a_repeat_is_put_aside(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 1, 10), vote(1, 1, 1, 11), vote(1, 1, 0, 12),
                               vote(1, 1, 0, 13), vote(1, 1, 1, 14)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), NULL), 2);
    assert_false(votes[0].skip);
    assert_true(votes[1].skip);
    assert_false(votes[2].skip);
    assert_true(votes[3].skip);
    assert_false(votes[4].skip);
}

static void taking_back_what_was_not_given_is_put_aside(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 0, 10), vote(1, 2, 1, 10)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), NULL), 1);
    assert_true(votes[0].skip);
    assert_false(votes[1].skip);
}

static void an_older_vote_is_put_aside_and_one_of_the_same_time_is_not(void **state)
{
    const struct last_row known = {
        .content_id = 1, .voter_id = 1, .voting = 1, .occurred_ms = 50, .found = true};
    struct vote_row votes[] = {vote(1, 1, 0, 49), vote(1, 1, 0, 50), vote(1, 1, 1, 49)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), &known), 2);
    assert_true(votes[0].skip);
    assert_false(votes[1].skip);
    assert_true(votes[2].skip);
}

static void an_older_vote_does_not_pass_a_repeat(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 1, 10), vote(1, 1, 1, 20), vote(1, 1, 0, 15)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), NULL), 2);
    assert_true(votes[2].skip);
}

static void a_vote_that_comes_after_it_was_taken_back_is_put_aside(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 0, 20), vote(1, 1, 1, 10), vote(1, 1, 1, 30)};

    (void)state;
    assert_int_equal(judged(votes, COUNT(votes), NULL), 2);
    assert_true(votes[1].skip);
    assert_false(votes[2].skip);
}

static void only_what_changes_is_written(void **state)
{
    struct vote_row votes[] = {vote(1, 1, 1, 20), vote(1, 2, 1, 20)};
    struct lasts lasts;

    (void)state;
    assert_int_equal(lasts_init(&lasts, COUNT(votes), NULL), RC_OK);
    lasts_collect(&lasts, votes, COUNT(votes));
    lasts.rows[1].found = true;
    lasts.rows[1].voting = 1;
    lasts.rows[1].occurred_ms = 20;
    assert_int_equal(lasts_judge(&lasts, votes, COUNT(votes)), 1);
    assert_true(lasts.rows[0].changed);
    assert_int_equal(lasts.rows[0].voting, 1);
    assert_int_equal(lasts.rows[0].occurred_ms, 20);
    assert_false(lasts.rows[1].changed);
    lasts_done(&lasts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(voters_are_collected_once_and_sorted),
        cmocka_unit_test(a_repeat_is_put_aside),
        cmocka_unit_test(taking_back_what_was_not_given_is_put_aside),
        cmocka_unit_test(an_older_vote_is_put_aside_and_one_of_the_same_time_is_not),
        cmocka_unit_test(an_older_vote_does_not_pass_a_repeat),
        cmocka_unit_test(a_vote_that_comes_after_it_was_taken_back_is_put_aside),
        cmocka_unit_test(only_what_changes_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
