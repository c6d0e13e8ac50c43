/* SPDX-License-Identifier: MIT */
#include "tests/flow/commit_bench.h"

#include "producer/serve_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void nothing_is_taken_before_the_database_was_seen(void **state)
{
    struct bench *bench = *state;

    assert_true(queue_is_away(bench->queue));
    bench_ask(bench, 0, 1, 1, 10, QUEUE_AWAY);
    bench_begin(bench);
    bench_ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    bench_step(bench, 0);
}

static void what_waits_together_shares_a_commit(void **state)
{
    struct bench *bench = *state;
    struct asked *asked[3];

    bench_begin(bench);
    for (int i = 0; i < 3; i++)
        asked[i] = bench_ask(bench, 0, 1 + 3 * i, 3, 10, QUEUE_TAKEN);
    assert_int_equal(queue_waiting(bench->queue), 9);
    assert_int_equal(metric_value(&serve_queue_votes), 9);
    assert_int_equal(bench->wakes[0], 1);
    assert_int_equal(bench->wakes[1], 0);
    assert_int_equal(bench_step(bench, 0), 0);
    assert_int_equal(bench->fake.commits, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(asked[i]->answers, 1);
        assert_int_equal(asked[i]->end, QUEUE_DONE);
        assert_int_equal(asked[i]->commits, 1); /* not before */
        for (int n = 0; n < 3; n++)
            assert_int_equal(asked[i]->items[n].votes, 3 * i + n + 1);
    }
    assert_true(queue_idle(bench->queue));
}

static void a_batch_ends_before_it_is_too_long(void **state)
{
    struct bench *bench = *state;

    bench_begin(bench);
    for (int i = 0; i < 4; i++)
        bench_ask(bench, 0, 1 + 4 * i, 4, 10, QUEUE_TAKEN);
    bench_step(bench, 0);
    assert_int_equal(queue_waiting(bench->queue), 8);
    bench_step(bench, 0);
    assert_int_equal(queue_waiting(bench->queue), 0);
    assert_int_equal(bench->fake.commits, 2);
}

static void a_request_longer_than_a_batch_goes_alone_and_whole(void **state)
{
    struct bench *bench = *state;
    struct asked *small;
    struct asked *large;

    bench_begin(bench);
    small = bench_ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    large = bench_ask(bench, 0, 2, 30, 10, QUEUE_TAKEN);
    bench_ask(bench, 0, 40, 1, 10, QUEUE_TAKEN);
    bench_step(bench, 0);
    assert_int_equal(small->answers, 1);
    assert_int_equal(large->answers, 0);
    bench_step(bench, 0);
    assert_int_equal(large->answers, 1);
    assert_int_equal(bench->fake.commits, 2);
    assert_int_equal(queue_waiting(bench->queue), 1);
    bench_step(bench, 0);
}

static void a_full_queue_turns_away(void **state)
{
    struct bench *bench = *state;

    bench_begin(bench);
    bench_ask(bench, 0, 1, 40, 10, QUEUE_TAKEN);
    bench_ask(bench, 1, 50, 10, 10, QUEUE_TAKEN);
    assert_true(queue_is_full(bench->queue));
    bench_ask(bench, 1, 60, 1, 10, QUEUE_FULL);
    bench_step(bench, 0);
    bench_ask(bench, 1, 60, 1, 10, QUEUE_TAKEN);
    bench_step(bench, 1);
    bench_step(bench, 1);
    assert_true(queue_idle(bench->queue));
}

static void an_empty_queue_takes_what_no_queue_could_hold(void **state)
{
    struct bench *bench = *state;
    struct asked *asked = bench_make(bench, 1);

    bench_begin(bench);
    asked->items[0] = (struct vote_item){.voter_id = 1, .content_id = 10, .voting = 1};
    asked->request.entry.weight = QUEUE_VOTES_MAX + 1;
    assert_int_equal(bench_put(bench, 0, asked), QUEUE_TAKEN);
    bench_ask(bench, 1, 2, 1, 10, QUEUE_FULL);
    bench_step(bench, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
}

static void the_least_busy_shard_is_the_one_that_works_on_the_least(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;

    bench_begin(bench);
    assert_int_equal(queue_shard_least(bench->queue), 0);
    asked = bench_ask(bench, 0, 1, 5, 10, QUEUE_TAKEN);
    assert_int_equal(queue_shard_least(bench->queue), 1);
    bench->fake.calls = 0;
    bench->fake.fail_at = 1;
    bench_step(bench, 0); /* in hand, not done */
    assert_int_equal(queue_waiting(bench->queue), 0);
    assert_int_equal(queue_shard_least(bench->queue), 1);
    bench_step(bench, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(queue_shard_least(bench->queue), 0);
}

static void votes_for_one_content_meet_in_one_shard(void **state)
{
    struct vote_item items[2] = {{.content_id = 7}, {.content_id = 7}};
    bool used[4] = {false};

    (void)state;
    assert_int_equal(commit_shard_of(items, 2, 4), commit_shard_of(items, 1, 4));
    for (int64_t content = 1; content <= 64; content++) {
        items[0].content_id = content;
        used[commit_shard_of(items, 1, 4)] = true;
    }
    assert_true(used[0] && used[1] && used[2] && used[3]);
    assert_true(commit_shard_of(items, 2, 4) == SIZE_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_set_up, bench_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_taken_before_the_database_was_seen),
        TEST(what_waits_together_shares_a_commit),
        TEST(a_batch_ends_before_it_is_too_long),
        TEST(a_request_longer_than_a_batch_goes_alone_and_whole),
        TEST(a_full_queue_turns_away),
        TEST(an_empty_queue_takes_what_no_queue_could_hold),
        TEST(the_least_busy_shard_is_the_one_that_works_on_the_least),
        TEST(votes_for_one_content_meet_in_one_shard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
