/* SPDX-License-Identifier: MIT */
#include "tests/flow/commit_fixture.h"

#include "common/os.h"
#include "producer/serve_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void on_answer(struct queue_entry *entry, enum queue_end end)
{
    struct asked *asked = (struct asked *)entry;

    asked->answers++;
    asked->end = end;
    asked->commits = asked->fixture->fake.commits;
}

static void on_release(struct queue_entry *entry)
{
    struct asked *asked = (struct asked *)entry;

    assert_int_equal(asked->answers, 1);
    asked->releases++;
}

static void on_wake(void *ctx, size_t shard)
{
    struct commit_fixture *fixture = ctx;

    fixture->wakes[shard]++;
}

/* Makes every wait as long as it may be. */
static uint64_t longest(void)
{
    return UINT64_MAX;
}

static int64_t no_time(void)
{
    return 0;
}

static void committers_open(struct commit_fixture *fixture)
{
    for (size_t i = 0; i < SHARDS; i++) {
        struct committer_config config = {
            .queue = fixture->queue,
            .shard = i,
            .store = &fixture->fake.ops,
            .batch_votes_max = BATCH_VOTES_MAX,
            .lane_count = 1,
            .rng_bytes = os_random,
            .rng = longest,
            .clock_us = no_time,
            .stop = &fixture->stop,
        };

        assert_int_equal(committer_open(&fixture->committers[i], &config, &fixture->err), RC_OK);
    }
}

int commit_fixture_set_up(void **state)
{
    struct commit_fixture *fixture = calloc(1, sizeof(*fixture));
    struct queue_config queue = {
        .name = "votes",
        .dep = "mysql",
        .shards = SHARDS,
        .weight_max = QUEUE_VOTES_MAX,
        .timeout_ms = TIMEOUT_MS,
        .breaker_base_ms = 100,
        .breaker_cap_ms = BREAKER_CAP_MS,
        .wake = on_wake,
        .wake_ctx = fixture,
        .waiting = &serve_queue_votes,
    };

    assert_non_null(fixture);
    votes_db_init(&fixture->fake);
    fixture->now_ms = 1000000;
    assert_int_equal(stop_init(&fixture->stop, &fixture->err), RC_OK);
    assert_int_equal(queue_open(&fixture->queue, &queue, &fixture->err), RC_OK);
    committers_open(fixture);
    *state = fixture;
    return 0;
}

int commit_fixture_tear_down(void **state)
{
    struct commit_fixture *fixture = *state;

    queue_drop(fixture->queue);
    for (size_t i = 0; i < SHARDS; i++)
        committer_close(fixture->committers[i]);
    queue_free(fixture->queue);
    stop_done(&fixture->stop);
    for (size_t i = 0; i < fixture->asked_count; i++) {
        assert_int_equal(fixture->asked[i]->answers, 1);
        assert_int_equal(fixture->asked[i]->releases, 1);
        free(fixture->asked[i]);
    }
    votes_db_check(&fixture->fake);
    votes_db_done(&fixture->fake);
    free(fixture);
    return 0;
}

int64_t commit_fixture_step(struct commit_fixture *fixture, size_t shard)
{
    return committer_step(fixture->committers[shard], fixture->now_ms);
}

void commit_fixture_begin(struct commit_fixture *fixture)
{
    assert_true(commit_fixture_step(fixture, 0) > 0);
    assert_false(queue_is_unavailable(fixture->queue));
}

struct asked *commit_fixture_make(struct commit_fixture *fixture, size_t count)
{
    struct asked *asked = calloc(1, sizeof(*asked));

    assert_non_null(asked);
    assert_true(count <= ASKED_ITEMS_MAX);
    asked->fixture = fixture;
    asked->request.items = asked->items;
    asked->request.count = count;
    asked->request.entry.weight = count;
    asked->request.entry.answer = on_answer;
    asked->request.entry.release = on_release;
    return asked;
}

enum queue_verdict commit_fixture_put(struct commit_fixture *fixture, size_t shard,
                                      struct asked *asked)
{
    int64_t wait_ms = -1;
    enum queue_verdict verdict =
        queue_put(fixture->queue, shard, &asked->request.entry, fixture->now_ms, &wait_ms);

    assert_true(wait_ms >= 0);
    assert_true(fixture->asked_count < ASKED_MAX);
    if (verdict == QUEUE_TAKEN)
        fixture->asked[fixture->asked_count++] = asked;
    else
        free(asked);
    return verdict;
}

struct asked *commit_fixture_ask(struct commit_fixture *fixture, size_t shard, int64_t first,
                                 size_t count, int64_t content_id, enum queue_verdict expected)
{
    struct asked *asked = commit_fixture_make(fixture, count);
    enum queue_verdict verdict;

    for (size_t i = 0; i < count; i++)
        asked->items[i] = (struct vote_item){
            .voter_id = first + (int64_t)i, .content_id = content_id, .voting = 1};
    verdict = commit_fixture_put(fixture, shard, asked);
    assert_int_equal(verdict, expected);
    return verdict == QUEUE_TAKEN ? asked : NULL;
}
