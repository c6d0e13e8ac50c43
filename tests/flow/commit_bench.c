/* SPDX-License-Identifier: MIT */
#include "tests/flow/commit_bench.h"

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
    asked->commits = asked->bench->fake.commits;
}

static void on_release(struct queue_entry *entry)
{
    struct asked *asked = (struct asked *)entry;

    assert_int_equal(asked->answers, 1);
    asked->releases++;
}

static void on_wake(void *ctx, size_t shard)
{
    struct bench *bench = ctx;

    bench->wakes[shard]++;
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

static void committers_open(struct bench *bench)
{
    for (size_t i = 0; i < SHARDS; i++) {
        struct commit_config config = {
            .queue = bench->queue,
            .shard = i,
            .store = &bench->fake.ops,
            .batch_votes_max = BATCH_VOTES_MAX,
            .lane_count = 1,
            .rng_bytes = os_random,
            .rng = longest,
            .clock_us = no_time,
            .stop = &bench->stop,
        };

        assert_int_equal(committer_open(&bench->committers[i], &config, &bench->err), RC_OK);
    }
}

int bench_set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    struct queue_config queue = {
        .shards = SHARDS,
        .weight_max = QUEUE_VOTES_MAX,
        .timeout_ms = TIMEOUT_MS,
        .breaker_base_ms = 100,
        .breaker_cap_ms = BREAKER_CAP_MS,
        .wake = on_wake,
        .wake_ctx = bench,
        .waiting = &serve_queue_votes,
    };

    assert_non_null(bench);
    fake_votes_init(&bench->fake);
    bench->now_ms = 1000000;
    assert_int_equal(stop_init(&bench->stop, &bench->err), RC_OK);
    assert_int_equal(queue_open(&bench->queue, &queue, &bench->err), RC_OK);
    committers_open(bench);
    *state = bench;
    return 0;
}

int bench_tear_down(void **state)
{
    struct bench *bench = *state;

    queue_drop(bench->queue);
    for (size_t i = 0; i < SHARDS; i++)
        committer_close(bench->committers[i]);
    queue_free(bench->queue);
    stop_done(&bench->stop);
    for (size_t i = 0; i < bench->asked_count; i++) {
        assert_int_equal(bench->asked[i]->answers, 1);
        assert_int_equal(bench->asked[i]->releases, 1);
        free(bench->asked[i]);
    }
    fake_votes_check(&bench->fake);
    fake_votes_done(&bench->fake);
    free(bench);
    return 0;
}

int64_t bench_step(struct bench *bench, size_t shard)
{
    return committer_step(bench->committers[shard], bench->now_ms);
}

void bench_begin(struct bench *bench)
{
    assert_true(bench_step(bench, 0) > 0);
    assert_false(queue_is_away(bench->queue));
}

struct asked *bench_make(struct bench *bench, size_t count)
{
    struct asked *asked = calloc(1, sizeof(*asked));

    assert_non_null(asked);
    assert_true(count <= ASKED_ITEMS_MAX);
    asked->bench = bench;
    asked->request.items = asked->items;
    asked->request.count = count;
    asked->request.entry.weight = count;
    asked->request.entry.answer = on_answer;
    asked->request.entry.release = on_release;
    return asked;
}

enum queue_verdict bench_put(struct bench *bench, size_t shard, struct asked *asked)
{
    int64_t wait_ms = -1;
    enum queue_verdict verdict =
        queue_put(bench->queue, shard, &asked->request.entry, bench->now_ms, &wait_ms);

    assert_true(wait_ms >= 0);
    assert_true(bench->asked_count < ASKED_MAX);
    if (verdict == QUEUE_TAKEN)
        bench->asked[bench->asked_count++] = asked;
    else
        free(asked);
    return verdict;
}

struct asked *bench_ask(struct bench *bench, size_t shard, int64_t first, size_t count,
                        int64_t content_id, enum queue_verdict expected)
{
    struct asked *asked = bench_make(bench, count);
    enum queue_verdict verdict;

    for (size_t i = 0; i < count; i++)
        asked->items[i] = (struct vote_item){
            .voter_id = first + (int64_t)i, .content_id = content_id, .voting = 1};
    verdict = bench_put(bench, shard, asked);
    assert_int_equal(verdict, expected);
    return verdict == QUEUE_TAKEN ? asked : NULL;
}
