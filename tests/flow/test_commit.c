/* SPDX-License-Identifier: MIT */
#include "producer/commit.h"

#include "common/os.h"
#include "producer/serve_metrics.h"
#include "tests/flow/fake_votes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHARDS 2
#define TIMEOUT_MS 1000
#define BREAKER_CAP_MS 400
#define QUEUE_VOTES_MAX 50
#define BATCH_VOTES_MAX 10
#define ASKED_ITEMS_MAX 40
#define ASKED_MAX 4000

/* A request, and what became of it. */
struct asked {
    struct commit_request request; /* first */
    struct vote_item items[ASKED_ITEMS_MAX];
    unsigned answers;
    unsigned releases;
    enum queue_end end;
    unsigned commits; /* of the database when it was answered */
};

/* Two committers on one fake database, in virtual time. */
struct bench {
    struct fake_votes fake;
    struct queue *queue;
    struct committer *committers[SHARDS];
    struct stop stop;
    int64_t now_ms;
    unsigned wakes[SHARDS];
    struct asked *asked[ASKED_MAX];
    size_t asked_count;
    struct err err;
};

static struct bench *the_bench; /* for callbacks without a context */

static void on_answer(struct queue_entry *entry, enum queue_end end)
{
    struct asked *asked = (struct asked *)entry;

    asked->answers++;
    asked->end = end;
    asked->commits = the_bench->fake.commits;
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

static uint64_t longest(void)
{
    return UINT64_MAX;
}

static int64_t no_time(void)
{
    return 0;
}

static int set_up(void **state)
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
    the_bench = bench;
    fake_votes_init(&bench->fake);
    bench->now_ms = 1000000;
    assert_int_equal(stop_init(&bench->stop, &bench->err), RC_OK);
    assert_int_equal(queue_open(&bench->queue, &queue, &bench->err), RC_OK);
    for (size_t i = 0; i < SHARDS; i++) {
        struct commit_config config = {
            .queue = bench->queue,
            .shard = i,
            .store = &bench->fake.seam,
            .batch_votes_max = BATCH_VOTES_MAX,
            .lane_count = 1,
            .dice = os_random,
            .dice_u64 = longest,
            .clock_us = no_time,
            .stop = &bench->stop,
        };

        assert_int_equal(committer_open(&bench->committers[i], &config, &bench->err), RC_OK);
    }
    *state = bench;
    return 0;
}

static int tear_down(void **state)
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

static int64_t step(struct bench *bench, size_t shard)
{
    return committer_step(bench->committers[shard], bench->now_ms);
}

/* A vote of each voter first..first+count-1 for a content. NULL: the queue did not take it. */
static struct asked *ask(struct bench *bench, size_t shard, int64_t first, size_t count,
                         int64_t content_id, enum queue_verdict expected)
{
    struct asked *asked = calloc(1, sizeof(*asked));
    int64_t wait_ms = -1;
    enum queue_verdict verdict;

    assert_non_null(asked);
    assert_true(count <= ASKED_ITEMS_MAX);
    for (size_t i = 0; i < count; i++)
        asked->items[i] = (struct vote_item){
            .voter_id = first + (int64_t)i, .content_id = content_id, .voting = 1};
    asked->request.items = asked->items;
    asked->request.count = count;
    asked->request.entry.weight = count;
    asked->request.entry.answer = on_answer;
    asked->request.entry.release = on_release;
    verdict = queue_put(bench->queue, shard, &asked->request.entry, bench->now_ms, &wait_ms);
    assert_int_equal(verdict, expected);
    assert_true(wait_ms >= 0);
    if (verdict != QUEUE_TAKEN) {
        free(asked);
        return NULL;
    }
    assert_true(bench->asked_count < ASKED_MAX);
    bench->asked[bench->asked_count++] = asked;
    return asked;
}

/* The first look of a committer finds the database. */
static void begin(struct bench *bench)
{
    assert_true(step(bench, 0) > 0);
    assert_false(queue_is_away(bench->queue));
}

static void nothing_is_taken_before_the_database_was_seen(void **state)
{
    struct bench *bench = *state;

    assert_true(queue_is_away(bench->queue));
    ask(bench, 0, 1, 1, 10, QUEUE_AWAY);
    begin(bench);
    ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    step(bench, 0);
}

static void what_waits_together_shares_a_commit(void **state)
{
    struct bench *bench = *state;
    struct asked *asked[3];

    begin(bench);
    for (int i = 0; i < 3; i++)
        asked[i] = ask(bench, 0, 1 + 3 * i, 3, 10, QUEUE_TAKEN);
    assert_int_equal(queue_waiting(bench->queue), 9);
    assert_int_equal(metric_value(&serve_queue_votes), 9);
    assert_int_equal(bench->wakes[0], 1);
    assert_int_equal(bench->wakes[1], 0);
    assert_int_equal(step(bench, 0), 0);
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

    begin(bench);
    for (int i = 0; i < 4; i++)
        ask(bench, 0, 1 + 4 * i, 4, 10, QUEUE_TAKEN);
    step(bench, 0);
    assert_int_equal(queue_waiting(bench->queue), 8);
    step(bench, 0);
    assert_int_equal(queue_waiting(bench->queue), 0);
    assert_int_equal(bench->fake.commits, 2);
}

static void a_request_longer_than_a_batch_goes_alone_and_whole(void **state)
{
    struct bench *bench = *state;
    struct asked *small;
    struct asked *large;

    begin(bench);
    small = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    large = ask(bench, 0, 2, 30, 10, QUEUE_TAKEN);
    ask(bench, 0, 40, 1, 10, QUEUE_TAKEN);
    step(bench, 0);
    assert_int_equal(small->answers, 1);
    assert_int_equal(large->answers, 0);
    step(bench, 0);
    assert_int_equal(large->answers, 1);
    assert_int_equal(bench->fake.commits, 2);
    assert_int_equal(queue_waiting(bench->queue), 1);
    step(bench, 0);
}

static void a_full_queue_turns_away_and_an_empty_one_takes_anything(void **state)
{
    struct bench *bench = *state;

    begin(bench);
    ask(bench, 0, 1, 40, 10, QUEUE_TAKEN);
    ask(bench, 1, 50, 10, 10, QUEUE_TAKEN);
    assert_true(queue_is_full(bench->queue));
    ask(bench, 1, 60, 1, 10, QUEUE_FULL);
    step(bench, 0);
    ask(bench, 1, 60, 1, 10, QUEUE_TAKEN);
    step(bench, 1);
    step(bench, 1);
    assert_true(queue_idle(bench->queue));
}

static void one_lost_connection_is_nobodys_business(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;

    begin(bench);
    asked = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    bench->fake.calls = 0;
    bench->fake.fail_at = 2;
    assert_int_equal(step(bench, 0), 0);
    assert_false(queue_is_away(bench->queue));
    assert_int_equal(asked->answers, 0);
    step(bench, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
}

static void an_absent_database_is_503_at_once_and_comes_back_by_itself(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;
    int64_t wait_ms;

    begin(bench);
    asked = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    bench->fake.away = true;
    assert_int_equal(step(bench, 0), 0);
    wait_ms = step(bench, 0);
    assert_in_range(wait_ms, 1, BREAKER_CAP_MS);
    assert_true(queue_is_away(bench->queue));
    ask(bench, 1, 2, 1, 10, QUEUE_AWAY);
    assert_int_equal(step(bench, 0), wait_ms);
    bench->now_ms += wait_ms;
    bench->fake.away = false;
    step(bench, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(asked->answers, 1);
    assert_false(queue_is_away(bench->queue));
    ask(bench, 1, 2, 1, 10, QUEUE_TAKEN);
    step(bench, 1);
}

static void an_idle_committer_notices_the_loss_and_the_return(void **state)
{
    struct bench *bench = *state;
    int64_t wait_ms;

    begin(bench);
    bench->fake.away = true;
    bench->now_ms += 5000;
    while (!queue_is_away(bench->queue))
        bench->now_ms += step(bench, 0);
    bench->fake.away = false;
    for (int looks = 0; queue_is_away(bench->queue); looks++) {
        assert_true(looks < 10);
        wait_ms = step(bench, 0);
        assert_true(wait_ms > 0);
        bench->now_ms += wait_ms;
    }
}

static void a_collision_waits_a_little_and_does_not_turn_callers_away(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;
    int64_t wait_ms;

    begin(bench);
    asked = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    bench->fake.collides = true;
    bench->fake.calls = 0;
    bench->fake.fail_at = 2;
    wait_ms = step(bench, 0);
    assert_in_range(wait_ms, 1, 500);
    assert_false(queue_is_away(bench->queue));
    bench->now_ms += wait_ms;
    step(bench, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
}

static void who_waited_too_long_is_told_and_not_counted(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;

    begin(bench);
    asked = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    assert_int_equal(queue_expire(bench->queue, bench->now_ms), TIMEOUT_MS);
    bench->now_ms += TIMEOUT_MS - 1;
    assert_int_equal(queue_expire(bench->queue, bench->now_ms), 1);
    assert_int_equal(asked->answers, 0);
    bench->now_ms++;
    queue_expire(bench->queue, bench->now_ms);
    assert_int_equal(asked->end, QUEUE_LATE);
    step(bench, 0);
    assert_int_equal(fake_votes_total(&bench->fake, 10), 0);
}

static void a_late_request_is_not_begun_even_if_nobody_looked(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;

    begin(bench);
    asked = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    bench->now_ms += TIMEOUT_MS;
    step(bench, 0);
    assert_int_equal(asked->end, QUEUE_LATE);
    assert_int_equal(bench->fake.commits, 0);
}

static void who_is_in_hand_too_long_is_told_that_it_is_unknown(void **state)
{
    struct bench *bench = *state;
    struct asked *old;
    struct asked *young;

    begin(bench);
    old = ask(bench, 0, 1, 2, 10, QUEUE_TAKEN);
    bench->now_ms += TIMEOUT_MS / 2;
    young = ask(bench, 0, 3, 2, 10, QUEUE_TAKEN);
    bench->fake.away = true;
    while (!queue_is_away(bench->queue))
        step(bench, 0);
    bench->now_ms += TIMEOUT_MS / 2;
    queue_expire(bench->queue, bench->now_ms);
    assert_int_equal(old->answers, 1);
    assert_int_equal(old->end, QUEUE_UNKNOWN);
    assert_int_equal(old->releases, 0);
    assert_int_equal(young->answers, 0);
    bench->fake.away = false;
    step(bench, 0);
    assert_int_equal(old->releases, 1);
    assert_int_equal(young->end, QUEUE_DONE);
    /* The old one was given up, not done behind its back. */
    assert_int_equal(fake_votes_total(&bench->fake, 10), 2);
}

static void a_lost_commit_is_answered_once_it_is_known(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;

    begin(bench);
    asked = ask(bench, 0, 1, 3, 10, QUEUE_TAKEN);
    bench->fake.next = FAKE_COMMIT_LOST_AFTER;
    step(bench, 0);
    assert_int_equal(asked->answers, 0);
    step(bench, 0);
    assert_int_equal(asked->end, QUEUE_DONE);
    assert_int_equal(asked->items[2].votes, 3);
    assert_true(asked->items[2].changed);
    assert_int_equal(bench->fake.commits, 1);
}

static void a_fatal_error_answers_everybody_and_stops_the_process(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;

    begin(bench);
    asked = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    bench->fake.calls = 0;
    bench->fake.fail_at = 1;
    bench->fake.fail_rc = RC_FATAL;
    step(bench, 0);
    assert_int_equal(asked->end, QUEUE_UNKNOWN);
    assert_true(stop_requested(&bench->stop));
    assert_true(atomic_load(&bench->stop.failed));
    ask(bench, 1, 2, 1, 10, QUEUE_STOPPING);
}

static void a_closed_queue_takes_nothing_and_drops_what_waits(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;

    begin(bench);
    asked = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    queue_close(bench->queue);
    ask(bench, 0, 2, 1, 10, QUEUE_STOPPING);
    queue_drop(bench->queue);
    assert_int_equal(asked->end, QUEUE_CLOSED);
    assert_true(queue_idle(bench->queue));
}

static void a_committer_that_is_closed_answers_its_hand(void **state)
{
    struct bench *bench = *state;
    struct asked *asked;

    begin(bench);
    asked = ask(bench, 0, 1, 1, 10, QUEUE_TAKEN);
    bench->fake.away = true;
    step(bench, 0);
    committer_close(bench->committers[0]);
    bench->committers[0] = NULL;
    assert_int_equal(asked->end, QUEUE_UNKNOWN);
    bench->fake.away = false;
}

static void a_refused_vote_does_not_hold_up_its_batch(void **state)
{
    struct bench *bench = *state;
    struct asked *good;
    struct asked *bad;

    begin(bench);
    bench->fake.refused_voter = 2;
    good = ask(bench, 0, 10, 2, 10, QUEUE_TAKEN);
    bad = ask(bench, 0, 1, 3, 10, QUEUE_TAKEN);
    for (int steps = 0; bad->answers == 0; steps++) {
        assert_true(steps < 30);
        step(bench, 0);
    }
    assert_int_equal(good->end, QUEUE_DONE);
    assert_int_equal(bad->items[0].outcome, VOTE_DONE);
    assert_int_equal(bad->items[1].outcome, VOTE_REFUSED);
    assert_int_equal(bad->items[2].outcome, VOTE_DONE);
    assert_int_equal(fake_votes_total(&bench->fake, 10), 4);
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

static unsigned roll(unsigned *dice, unsigned sides)
{
    *dice = *dice * 1103515245 + 12345;
    return (*dice >> 8) % sides;
}

static void trouble_make(struct bench *bench, unsigned *dice)
{
    struct fake_votes *fake = &bench->fake;

    fake->away = fake->away ? roll(dice, 3) > 0 : roll(dice, 40) == 0;
    fake->collides = roll(dice, 2) == 0;
    fake->fail_at = roll(dice, 4) == 0 ? fake->calls + 1 + roll(dice, 9) : 0;
    if (roll(dice, 5) == 0)
        fake->next = (enum fake_commit)roll(dice, 3);
}

static void ask_random(struct bench *bench, unsigned *dice)
{
    size_t shard = roll(dice, SHARDS);
    size_t count = 1 + roll(dice, 14);
    struct asked *asked = calloc(1, sizeof(*asked));
    int64_t wait_ms;

    assert_non_null(asked);
    for (size_t i = 0; i < count; i++)
        asked->items[i] = (struct vote_item){.voter_id = 1 + roll(dice, 20),
                                             .content_id = 1 + roll(dice, 5),
                                             .voting = (uint8_t)roll(dice, 2)};
    asked->request.items = asked->items;
    asked->request.count = count;
    asked->request.entry.weight = count;
    asked->request.entry.answer = on_answer;
    asked->request.entry.release = on_release;
    if (queue_put(bench->queue, shard, &asked->request.entry, bench->now_ms, &wait_ms) ==
        QUEUE_TAKEN)
        bench->asked[bench->asked_count++] = asked;
    else
        free(asked);
}

/* Every change that was answered has its event; every event was answered as a change, unless its
 * asker had lost patience. */
static void answers_check(const struct bench *bench)
{
    const struct fake_tables *tables = bench->fake.committed;
    size_t changed = 0;
    size_t unknown = 0;

    for (size_t i = 0; i < bench->asked_count; i++) {
        const struct asked *asked = bench->asked[i];

        for (size_t n = 0; n < asked->request.count; n++) {
            changed += asked->end == QUEUE_DONE && asked->items[n].changed;
            unknown += asked->end == QUEUE_UNKNOWN;
        }
    }
    assert_true(changed > 0);
    assert_in_range(tables->event_count, changed, changed + unknown);
}

static void random_trouble_answers_everybody_once_and_truly(void **state)
{
    struct bench *bench = *state;

    for (unsigned seed = 1; seed <= 20; seed++) {
        unsigned dice = seed * 7919;

        for (int round = 0; round < 150; round++) {
            trouble_make(bench, &dice);
            if (roll(&dice, 3) > 0)
                ask_random(bench, &dice);
            step(bench, roll(&dice, SHARDS));
            if (roll(&dice, 4) == 0)
                queue_expire(bench->queue, bench->now_ms);
            bench->now_ms += roll(&dice, 200);
        }
        bench->fake.away = false;
        bench->fake.fail_at = 0;
        bench->fake.next = FAKE_COMMIT_WORKS;
        for (int steps = 0; !queue_idle(bench->queue); steps++) {
            assert_true(steps < 1000);
            step(bench, (size_t)steps % SHARDS);
            bench->now_ms += 50;
        }
        fake_votes_check(&bench->fake);
        answers_check(bench);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_taken_before_the_database_was_seen),
        TEST(what_waits_together_shares_a_commit),
        TEST(a_batch_ends_before_it_is_too_long),
        TEST(a_request_longer_than_a_batch_goes_alone_and_whole),
        TEST(a_full_queue_turns_away_and_an_empty_one_takes_anything),
        TEST(one_lost_connection_is_nobodys_business),
        TEST(an_absent_database_is_503_at_once_and_comes_back_by_itself),
        TEST(an_idle_committer_notices_the_loss_and_the_return),
        TEST(a_collision_waits_a_little_and_does_not_turn_callers_away),
        TEST(who_waited_too_long_is_told_and_not_counted),
        TEST(a_late_request_is_not_begun_even_if_nobody_looked),
        TEST(who_is_in_hand_too_long_is_told_that_it_is_unknown),
        TEST(a_lost_commit_is_answered_once_it_is_known),
        TEST(a_fatal_error_answers_everybody_and_stops_the_process),
        TEST(a_closed_queue_takes_nothing_and_drops_what_waits),
        TEST(a_committer_that_is_closed_answers_its_hand),
        TEST(a_refused_vote_does_not_hold_up_its_batch),
        TEST(votes_for_one_content_meet_in_one_shard),
        TEST(random_trouble_answers_everybody_once_and_truly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
