/* SPDX-License-Identifier: MIT */
#include "tests/flow/commit_fixture.h"

#include "producer/serve_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void nothing_is_taken_before_the_database_was_seen(void **state)
{
    struct commit_fixture *fixture = *state;

    assert_true(queue_is_unavailable(fixture->queue));
    assert_false(queue_was_tried(fixture->queue));
    commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_UNAVAILABLE);
    commit_fixture_begin(fixture);
    assert_true(queue_was_tried(fixture->queue));
    commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    commit_fixture_step(fixture, 0);
}

static void requests_that_wait_together_share_a_commit(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked[3];

    commit_fixture_begin(fixture);
    for (int i = 0; i < 3; i++)
        asked[i] = commit_fixture_ask(fixture, 0, 1 + 3 * i, 3, 10, QUEUE_TAKEN);
    assert_int_equal(queue_waiting(fixture->queue), 9);
    assert_int_equal(metric_value(&serve_queue_votes), 9);
    assert_int_equal(fixture->wakes[0], 1);
    assert_int_equal(fixture->wakes[1], 0);
    assert_int_equal(commit_fixture_step(fixture, 0), 0);
    assert_int_equal(fixture->fake.commits, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(asked[i]->answers, 1);
        assert_int_equal(asked[i]->end, QUEUE_DONE);
        assert_int_equal(asked[i]->commits, 1); /* not before */
        for (int n = 0; n < 3; n++)
            assert_int_equal(asked[i]->items[n].votes, 3 * i + n + 1);
    }
    assert_true(queue_idle(fixture->queue));
}

static void a_batch_ends_before_it_is_too_long(void **state)
{
    struct commit_fixture *fixture = *state;

    commit_fixture_begin(fixture);
    for (int i = 0; i < 4; i++)
        commit_fixture_ask(fixture, 0, 1 + 4 * i, 4, 10, QUEUE_TAKEN);
    commit_fixture_step(fixture, 0);
    assert_int_equal(queue_waiting(fixture->queue), 8);
    commit_fixture_step(fixture, 0);
    assert_int_equal(queue_waiting(fixture->queue), 0);
    assert_int_equal(fixture->fake.commits, 2);
}

static void a_request_longer_than_a_batch_goes_alone_and_whole(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *small;
    struct asked *large;

    commit_fixture_begin(fixture);
    small = commit_fixture_ask(fixture, 0, 1, 1, 10, QUEUE_TAKEN);
    large = commit_fixture_ask(fixture, 0, 2, 30, 10, QUEUE_TAKEN);
    commit_fixture_ask(fixture, 0, 40, 1, 10, QUEUE_TAKEN);
    commit_fixture_step(fixture, 0);
    assert_int_equal(small->answers, 1);
    assert_int_equal(large->answers, 0);
    commit_fixture_step(fixture, 0);
    assert_int_equal(large->answers, 1);
    assert_int_equal(fixture->fake.commits, 2);
    assert_int_equal(queue_waiting(fixture->queue), 1);
    commit_fixture_step(fixture, 0);
}

static void a_full_queue_refuses_requests(void **state)
{
    struct commit_fixture *fixture = *state;

    commit_fixture_begin(fixture);
    commit_fixture_ask(fixture, 0, 1, 40, 10, QUEUE_TAKEN);
    commit_fixture_ask(fixture, 1, 50, 10, 10, QUEUE_TAKEN);
    assert_true(queue_is_full(fixture->queue));
    commit_fixture_ask(fixture, 1, 60, 1, 10, QUEUE_FULL);
    commit_fixture_step(fixture, 0);
    commit_fixture_ask(fixture, 1, 60, 1, 10, QUEUE_TAKEN);
    commit_fixture_step(fixture, 1);
    commit_fixture_step(fixture, 1);
    assert_true(queue_idle(fixture->queue));
}

static void an_empty_queue_takes_a_request_larger_than_its_limit(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked = commit_fixture_make(fixture, 1);

    commit_fixture_begin(fixture);
    asked->items[0] = (struct vote_item){.voter_id = 1, .content_id = 10, .voting = 1};
    asked->request.entry.weight = QUEUE_VOTES_MAX + 1;
    assert_int_equal(commit_fixture_put(fixture, 0, asked), QUEUE_TAKEN);
    commit_fixture_ask(fixture, 1, 2, 1, 10, QUEUE_FULL);
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
}

static void the_least_busy_shard_is_the_one_that_works_on_the_least(void **state)
{
    struct commit_fixture *fixture = *state;
    struct asked *asked;

    commit_fixture_begin(fixture);
    assert_int_equal(queue_shard_least(fixture->queue), 0);
    asked = commit_fixture_ask(fixture, 0, 1, 5, 10, QUEUE_TAKEN);
    assert_int_equal(queue_shard_least(fixture->queue), 1);
    fixture->fake.calls = 0;
    fixture->fake.fail_at = 1;
    commit_fixture_step(fixture, 0); /* in flight, not done */
    assert_int_equal(queue_waiting(fixture->queue), 0);
    assert_int_equal(queue_shard_least(fixture->queue), 1);
    commit_fixture_step(fixture, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(queue_shard_least(fixture->queue), 0);
}

static void votes_for_one_content_meet_in_one_shard(void **state)
{
    struct vote_item items[2] = {{.content_id = 7}, {.content_id = 7}};
    bool used[4] = {false};

    (void)state;
    assert_int_equal(committer_shard_of(items, 2, 4), committer_shard_of(items, 1, 4));
    for (int64_t content = 1; content <= 64; content++) {
        items[0].content_id = content;
        used[committer_shard_of(items, 1, 4)] = true;
    }
    assert_true(used[0] && used[1] && used[2] && used[3]);
    assert_true(committer_shard_of(items, 2, 4) == SIZE_MAX);
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, commit_fixture_set_up, commit_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_taken_before_the_database_was_seen),
        TEST(requests_that_wait_together_share_a_commit),
        TEST(a_batch_ends_before_it_is_too_long),
        TEST(a_request_longer_than_a_batch_goes_alone_and_whole),
        TEST(a_full_queue_refuses_requests),
        TEST(an_empty_queue_takes_a_request_larger_than_its_limit),
        TEST(the_least_busy_shard_is_the_one_that_works_on_the_least),
        TEST(votes_for_one_content_meet_in_one_shard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
