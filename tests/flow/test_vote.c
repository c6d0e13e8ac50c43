/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote.h"

#include "common/os.h"
#include "outbox/lanes.h"
#include "tests/flow/votes_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ITEMS_MAX 64
#define STEPS_MAX 400

/* An engine on a fake database, and a batch. */
struct fixture {
    struct votes_db fake;
    struct vote_engine *engine;
    struct vote_item items[ITEMS_MAX];
    struct vote_item *pointers[ITEMS_MAX];
    size_t count;
    struct vote_batch batch;
    struct err err;
};

static void fixture_open(struct fixture *fixture, size_t lane_count)
{
    struct vote_engine_config config = {
        .items_max = ITEMS_MAX, .lane_count = lane_count, .rng_bytes = os_random};

    memset(fixture, 0, sizeof(*fixture));
    votes_db_init(&fixture->fake);
    config.store = &fixture->fake.ops;
    assert_int_equal(vote_engine_open(&fixture->engine, &config, &fixture->err), RC_OK);
}

static int set_up(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));

    assert_non_null(fixture);
    fixture_open(fixture, 1);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    vote_engine_close(fixture->engine);
    votes_db_done(&fixture->fake);
    free(fixture);
    return 0;
}

static void add(struct fixture *fixture, int64_t voter_id, int64_t content_id, int voting)
{
    struct vote_item *item = &fixture->items[fixture->count];

    *item = (struct vote_item){
        .voter_id = voter_id, .content_id = content_id, .voting = (uint8_t)voting};
    fixture->pointers[fixture->count++] = item;
}

static void start(struct fixture *fixture)
{
    vote_batch_start(&fixture->batch, fixture->pointers, fixture->count);
}

/* Steps until the batch is finished; every RC_RETRY is tried again, so many are allowed. */
static void finish(struct fixture *fixture, unsigned retries)
{
    for (unsigned step = 0; !vote_batch_finished(&fixture->batch); step++) {
        enum rc rc = vote_engine_step(fixture->engine, &fixture->batch, &fixture->err);

        assert_true(step < STEPS_MAX);
        assert_false(fixture->fake.alone.open);
        if (rc == RC_OK)
            continue;
        assert_int_equal(rc, RC_RETRY);
        assert_true(retries > 0);
        retries--;
    }
}

static void run(struct fixture *fixture, unsigned retries)
{
    start(fixture);
    finish(fixture, retries);
    fixture->count = 0;
    votes_db_check(&fixture->fake);
}

static void expect(const struct fixture *fixture, size_t index, bool changed, int64_t votes)
{
    assert_int_equal(fixture->items[index].outcome, VOTE_DONE);
    assert_int_equal(fixture->items[index].changed, changed);
    assert_int_equal(fixture->items[index].votes, votes);
}

static void each_vote_gets_the_total_right_after_it(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    add(fixture, 2, 10, 1);
    add(fixture, 1, 20, 1);
    add(fixture, 1, 10, 0);
    add(fixture, 3, 10, 1);
    run(fixture, 0);
    expect(fixture, 0, true, 1);
    expect(fixture, 1, true, 2);
    expect(fixture, 2, true, 1);
    expect(fixture, 3, true, 1);
    expect(fixture, 4, true, 2);
    assert_int_equal(fixture->fake.tables->event_count, 5);
    assert_int_equal(fixture->fake.commits, 1);
}

static void one_pair_many_times_in_a_batch_has_an_event_per_change(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 0);
    add(fixture, 1, 10, 1);
    add(fixture, 1, 10, 1);
    add(fixture, 1, 10, 0);
    add(fixture, 1, 10, 1);
    run(fixture, 0);
    expect(fixture, 0, false, 0);
    assert_false(fixture->items[0].has_event);
    expect(fixture, 1, true, 1);
    expect(fixture, 2, false, 1);
    assert_memory_equal(&fixture->items[2].event_id, &fixture->items[1].event_id,
                        sizeof(struct id));
    expect(fixture, 3, true, 0);
    expect(fixture, 4, true, 1);
    assert_int_equal(fixture->fake.tables->event_count, 3);
}

static void a_repeat_writes_nothing_and_names_the_first_event(void **state)
{
    struct fixture *fixture = *state;
    struct id first;

    add(fixture, 1, 10, 1);
    run(fixture, 0);
    first = fixture->items[0].event_id;
    add(fixture, 1, 10, 1);
    run(fixture, 0);
    expect(fixture, 0, false, 1);
    assert_true(fixture->items[0].has_event);
    assert_memory_equal(&fixture->items[0].event_id, &first, sizeof(first));
    assert_int_equal(fixture->fake.commits, 1);
}

static void taking_back_a_missing_vote_leaves_no_trace(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 0);
    run(fixture, 0);
    expect(fixture, 0, false, 0);
    assert_false(fixture->items[0].has_event);
    assert_false(fixture->fake.tables->counts[0].old.found);
    assert_int_equal(fixture->fake.commits, 0);
}

/* Another writer makes the total, and a vote of the same voter, right after the engine has found no
 * row to lock. */
static void a_vote_of_another_writer_is_taken_back_under_its_lock(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    add(fixture, 2, 10, 1);
    run(fixture, 0);
    add(fixture, 1, 10, 0);
    fixture->fake.missed_content = 10;
    run(fixture, 0);
    assert_int_equal(fixture->fake.missed_content, 0);
    expect(fixture, 0, true, 1);
    assert_int_equal(votes_db_total(&fixture->fake, 10), 1);
}

static void headers_go_with_their_own_events(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    add(fixture, 2, 10, 1);
    fixture->items[1].headers = "{\"traceparent\":\"x\"}";
    run(fixture, 0);
    assert_string_equal(fixture->fake.tables->events[0].headers, "");
    assert_string_equal(fixture->fake.tables->events[1].headers, "{\"traceparent\":\"x\"}");
}

static void events_spread_over_the_lanes_by_their_key(void **state)
{
    struct fixture *fixture = *state;
    bool used[4] = {false};

    vote_engine_close(fixture->engine);
    votes_db_done(&fixture->fake);
    fixture_open(fixture, 4);
    for (int i = 0; i < 40; i++)
        add(fixture, 1 + i, 1 + i % 20, 1);
    run(fixture, 0);
    assert_int_equal(fixture->fake.tables->event_count, 40);
    for (size_t i = 0; i < 40; i++) {
        const struct votes_event *event = &fixture->fake.tables->events[i];
        char key[24];
        char name[OUTBOX_LANE_NAME_SIZE];
        size_t lane;

        snprintf(key, sizeof(key), "%lld", (long long)event->content_id);
        lane = outbox_lane_of(key, 4);
        outbox_lane_name(name, lane);
        assert_string_equal(event->lane, name);
        used[lane] = true;
    }
    assert_true(used[0] && used[1] && used[2] && used[3]);
}

/* The batch that the tests of failures run: new and known contents, a pair twice, a repeat. */
static void add_mixed(struct fixture *fixture)
{
    votes_db_init(&fixture->fake);
    add(fixture, 1, 10, 1);
    add(fixture, 2, 10, 1);
    run(fixture, 0);
    add(fixture, 2, 10, 1);
    add(fixture, 1, 10, 0);
    add(fixture, 3, 30, 1);
    add(fixture, 1, 10, 1);
    add(fixture, 4, 20, 1);
    add(fixture, 4, 20, 0);
    add(fixture, 5, 40, 0);
}

static void expect_mixed(const struct fixture *fixture)
{
    expect(fixture, 0, false, 2);
    expect(fixture, 1, true, 1);
    expect(fixture, 2, true, 1);
    expect(fixture, 3, true, 2);
    expect(fixture, 4, true, 1);
    expect(fixture, 5, true, 0);
    expect(fixture, 6, false, 0);
    assert_int_equal(fixture->fake.tables->event_count, 2 + 5);
    assert_int_equal(fixture->fake.commits, 2);
}

/* How many calls the mixed batch makes when nothing fails. */
#define MIXED_CALLS 11

static void every_call_may_fail_once(void **state)
{
    struct fixture *fixture = *state;

    for (unsigned call = 1; call <= MIXED_CALLS; call++) {
        votes_db_done(&fixture->fake);
        add_mixed(fixture);
        fixture->fake.calls = 0;
        fixture->fake.fail_at = call;
        start(fixture);
        assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err),
                         RC_RETRY);
        assert_int_equal(fixture->fake.calls, call);
        assert_false(fixture->fake.alone.open);
        finish(fixture, 0);
        fixture->count = 0;
        votes_db_check(&fixture->fake);
        expect_mixed(fixture);
    }
    assert_int_equal(fixture->fake.calls, MIXED_CALLS + MIXED_CALLS);
}

static void a_fatal_call_is_handed_on_with_nothing_open(void **state)
{
    struct fixture *fixture = *state;

    for (unsigned call = 1; call <= MIXED_CALLS; call++) {
        votes_db_done(&fixture->fake);
        add_mixed(fixture);
        fixture->fake.calls = 0;
        fixture->fake.fail_at = call;
        fixture->fake.fail_rc = RC_FATAL;
        start(fixture);
        assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err),
                         RC_FATAL);
        assert_false(fixture->fake.alone.open);
        assert_int_equal(fixture->fake.commits, 1);
        fixture->count = 0;
    }
}

static void a_lost_commit_that_did_not_happen_is_done_again(void **state)
{
    struct fixture *fixture = *state;

    votes_db_done(&fixture->fake);
    add_mixed(fixture);
    fixture->fake.next = VOTES_COMMIT_LOST_BEFORE;
    run(fixture, 1);
    expect_mixed(fixture);
}

static void a_lost_commit_that_did_happen_is_found_and_not_done_again(void **state)
{
    struct fixture *fixture = *state;
    struct id ids[7];

    votes_db_done(&fixture->fake);
    add_mixed(fixture);
    fixture->fake.next = VOTES_COMMIT_LOST_AFTER;
    start(fixture);
    assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err), RC_RETRY);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(fixture->items[i].outcome, VOTE_OPEN);
        ids[i] = fixture->items[i].event_id;
    }
    finish(fixture, 0);
    fixture->count = 0;
    votes_db_check(&fixture->fake);
    expect_mixed(fixture);
    for (size_t i = 0; i < 7; i++)
        assert_memory_equal(&fixture->items[i].event_id, &ids[i], sizeof(ids[i]));
}

static void a_lost_commit_is_found_after_more_failures(void **state)
{
    struct fixture *fixture = *state;

    for (unsigned call = 1; call <= 3; call++) {
        votes_db_done(&fixture->fake);
        add_mixed(fixture);
        fixture->fake.next = VOTES_COMMIT_LOST_AFTER;
        start(fixture);
        assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err),
                         RC_RETRY);
        fixture->fake.calls = 0;
        fixture->fake.fail_at = call;
        finish(fixture, 1);
        fixture->count = 0;
        votes_db_check(&fixture->fake);
        expect_mixed(fixture);
    }
}

static void others_go_on(struct votes_db *fake)
{
    fake->before_begin = NULL;
    votes_db_change(fake, 9, 10, 1);
}

static void a_found_commit_is_answered_with_the_totals_of_its_own_time(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    fixture->fake.next = VOTES_COMMIT_LOST_AFTER;
    start(fixture);
    assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err), RC_RETRY);
    fixture->fake.before_begin = others_go_on;
    finish(fixture, 0);
    expect(fixture, 0, true, 1);
    assert_int_equal(votes_db_total(&fixture->fake, 10), 2);
    votes_db_check(&fixture->fake);
}

static void others_take_back(struct votes_db *fake)
{
    fake->before_begin = NULL;
    votes_db_change(fake, 1, 10, 0);
}

/* Used again, the first id would stand for two changes, and readers would drop the second. */
static void a_commit_overwritten_by_others_never_gives_an_id_twice(void **state)
{
    struct fixture *fixture = *state;
    struct id first;

    add(fixture, 1, 10, 1);
    fixture->fake.next = VOTES_COMMIT_LOST_AFTER;
    start(fixture);
    assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err), RC_RETRY);
    first = fixture->items[0].event_id;
    fixture->fake.before_begin = others_take_back;
    finish(fixture, 0);
    expect(fixture, 0, true, 1);
    assert_memory_not_equal(&fixture->items[0].event_id, &first, sizeof(first));
    assert_int_equal(fixture->fake.tables->event_count, 3);
    votes_db_check(&fixture->fake);
}

static void votes_of_a_lost_commit_are_kept_when_the_batch_is_split(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    add(fixture, 2, 20, 1);
    add(fixture, 3, 30, 1);
    fixture->fake.next = VOTES_COMMIT_LOST_AFTER;
    start(fixture);
    assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err), RC_RETRY);
    /* The first one gave up waiting, and the others are joined by a newcomer. */
    fixture->pointers[0] = &fixture->items[2];
    fixture->pointers[1] = &fixture->items[3];
    fixture->items[3] = (struct vote_item){.voter_id = 4, .content_id = 30, .voting = 1};
    fixture->pointers[2] = &fixture->items[1];
    start(fixture);
    finish(fixture, 0);
    expect(fixture, 1, true, 1);
    expect(fixture, 2, true, 1);
    expect(fixture, 3, true, 2);
    assert_int_equal(fixture->fake.tables->event_count, 4);
    votes_db_check(&fixture->fake);
}

static void two_lost_commits_in_one_batch_are_told_apart(void **state)
{
    static const enum votes_commit fates[2] = {VOTES_COMMIT_LOST_AFTER, VOTES_COMMIT_LOST_BEFORE};
    struct fixture *fixture = *state;
    struct id first;

    add(fixture, 1, 10, 1);
    add(fixture, 2, 20, 1);
    for (size_t i = 0; i < 2; i++) {
        fixture->fake.next = fates[i];
        vote_batch_start(&fixture->batch, &fixture->pointers[i], 1);
        assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err),
                         RC_RETRY);
    }
    first = fixture->items[0].event_id;
    run(fixture, 0);
    expect(fixture, 0, true, 1);
    assert_memory_equal(&fixture->items[0].event_id, &first, sizeof(first));
    expect(fixture, 1, true, 1);
    assert_int_equal(votes_db_total(&fixture->fake, 20), 1);
    assert_int_equal(fixture->fake.tables->event_count, 2);
}

static void a_refused_vote_fails_alone(void **state)
{
    struct fixture *fixture = *state;

    fixture->fake.refused_voter = 5;
    for (int i = 1; i <= 30; i++)
        add(fixture, i, 10, 1);
    run(fixture, 0);
    for (size_t i = 0; i < 30; i++) {
        if (i == 4)
            assert_int_equal(fixture->items[i].outcome, VOTE_REFUSED);
        else
            expect(fixture, i, true, (int64_t)(i < 4 ? i + 1 : i));
    }
    assert_int_equal(votes_db_total(&fixture->fake, 10), 29);
    /* Its neighbours were committed together, not one by one. */
    assert_true(fixture->fake.commits <= 10);
}

static void a_batch_of_refused_votes_ends(void **state)
{
    struct fixture *fixture = *state;

    fixture->fake.refused_voter = 5;
    for (int i = 0; i < 30; i++)
        add(fixture, 5, 1 + i, 1);
    run(fixture, 0);
    for (size_t i = 0; i < 30; i++)
        assert_int_equal(fixture->items[i].outcome, VOTE_REFUSED);
    assert_int_equal(fixture->fake.commits, 0);
    assert_false(fixture->fake.tables->counts[0].old.found);
}

static void expect_deleted(const struct fixture *fixture, size_t index)
{
    assert_int_equal(fixture->items[index].outcome, VOTE_DELETED);
    assert_false(fixture->items[index].changed);
}

static void a_vote_on_a_deleted_content_does_not_count_and_others_do(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    add(fixture, 2, 10, 1);
    run(fixture, 0);
    votes_db_delete(&fixture->fake, 10);
    add(fixture, 1, 10, 1); /* a repeat is no exception */
    add(fixture, 2, 10, 0);
    add(fixture, 3, 10, 1);
    add(fixture, 1, 20, 1);
    add(fixture, 1, 30, 0);
    run(fixture, 0);
    expect_deleted(fixture, 0);
    expect_deleted(fixture, 1);
    expect_deleted(fixture, 2);
    expect(fixture, 3, true, 1);
    expect(fixture, 4, false, 0);
    assert_int_equal(votes_db_total(&fixture->fake, 10), 2);
    assert_int_equal(fixture->fake.tables->event_count, 3);
}

static void a_deleted_content_without_votes_gets_no_row(void **state)
{
    struct fixture *fixture = *state;

    votes_db_delete(&fixture->fake, 10);
    add(fixture, 1, 10, 1);
    add(fixture, 1, 20, 1);
    add(fixture, 2, 10, 0);
    run(fixture, 0);
    expect_deleted(fixture, 0);
    expect(fixture, 1, true, 1);
    expect_deleted(fixture, 2);
    assert_true(fixture->fake.tables->counts[0].old.found);
    assert_int_equal(fixture->fake.tables->counts[0].content_id, 20);
    assert_false(fixture->fake.tables->counts[1].old.found);
    assert_int_equal(fixture->fake.tables->event_count, 1);

    fixture->fake.calls = 0;
    add(fixture, 3, 10, 1);
    run(fixture, 0);
    expect_deleted(fixture, 0);
    assert_int_equal(fixture->fake.calls, 4); /* begin, lock, read_deleted, read_states */
    assert_int_equal(fixture->fake.commits, 1);
}

static void delete_before_the_second_begin(struct votes_db *fake)
{
    if (fake->calls == 0)
        return;
    fake->before_begin = NULL;
    votes_db_delete(fake, 10);
}

static void a_deletion_that_comes_while_rows_are_made_leaves_none(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    add(fixture, 1, 20, 1);
    fixture->fake.before_begin = delete_before_the_second_begin;
    run(fixture, 0);
    assert_null(fixture->fake.before_begin);
    expect_deleted(fixture, 0);
    expect(fixture, 1, true, 1);
    assert_int_equal(fixture->fake.tables->counts[0].content_id, 20);
    assert_false(fixture->fake.tables->counts[1].old.found);
    assert_int_equal(fixture->fake.commits, 1);
}

static void remove_total_before_the_second_begin(struct votes_db *fake)
{
    struct err err;

    if (fake->calls == 0)
        return;
    fake->before_begin = NULL;
    assert_int_equal(fake->fake.delete_count(fake->fake.ctx, 10, &err), RC_OK);
}

/* The remover deletes the total while the engine makes the row of another content. */
static void a_total_that_is_removed_while_rows_are_made_does_not_come_back(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    run(fixture, 0);
    votes_db_delete(&fixture->fake, 10);
    add(fixture, 2, 10, 1);
    add(fixture, 1, 20, 1);
    fixture->fake.calls = 0;
    fixture->fake.before_begin = remove_total_before_the_second_begin;
    run(fixture, 0);
    assert_null(fixture->fake.before_begin);
    expect_deleted(fixture, 0);
    expect(fixture, 1, true, 1);
    assert_int_equal(fixture->fake.tables->counts[0].content_id, 20);
    assert_false(fixture->fake.tables->counts[1].old.found);
}

static void remove_all_before_the_second_begin(struct votes_db *fake)
{
    if (fake->calls == 0)
        return;
    votes_db_delete(fake, 10);
    remove_total_before_the_second_begin(fake);
}

/* A vote that is taken back needs no row of its content, but one that was found is made again. */
static void a_found_total_that_is_removed_while_rows_are_made_does_not_come_back(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    run(fixture, 0);
    add(fixture, 1, 10, 0);
    add(fixture, 1, 20, 1);
    fixture->fake.calls = 0;
    fixture->fake.before_begin = remove_all_before_the_second_begin;
    run(fixture, 0);
    assert_null(fixture->fake.before_begin);
    expect_deleted(fixture, 0);
    expect(fixture, 1, true, 1);
    assert_int_equal(fixture->fake.tables->counts[0].content_id, 20);
    assert_false(fixture->fake.tables->counts[1].old.found);
}

/* The vote was counted, and the answer says so. */
static void a_lost_commit_before_the_deletion_is_found(void **state)
{
    struct fixture *fixture = *state;

    add(fixture, 1, 10, 1);
    fixture->fake.next = VOTES_COMMIT_LOST_AFTER;
    start(fixture);
    assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err), RC_RETRY);
    votes_db_delete(&fixture->fake, 10);
    finish(fixture, 0);
    expect(fixture, 0, true, 1);

    fixture->count = 0;
    add(fixture, 1, 20, 1);
    fixture->fake.next = VOTES_COMMIT_LOST_BEFORE;
    start(fixture);
    assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err), RC_RETRY);
    votes_db_delete(&fixture->fake, 20);
    finish(fixture, 0);
    expect_deleted(fixture, 0);
    assert_int_equal(fixture->fake.commits, 1);
}

/* With deleted contents among the rows that are locked and those that are made. */
static void every_call_may_fail_once_with_deleted_contents(void **state)
{
    struct fixture *fixture = *state;
    unsigned calls = MIXED_CALLS;

    for (unsigned call = 1; call <= calls; call++) {
        votes_db_done(&fixture->fake);
        votes_db_init(&fixture->fake);
        add(fixture, 1, 10, 1);
        run(fixture, 0);
        votes_db_delete(&fixture->fake, 10);
        votes_db_delete(&fixture->fake, 30);
        add(fixture, 2, 10, 1);
        add(fixture, 2, 20, 1);
        add(fixture, 2, 30, 1);
        fixture->fake.calls = 0;
        fixture->fake.fail_at = call;
        start(fixture);
        assert_int_equal(vote_engine_step(fixture->engine, &fixture->batch, &fixture->err),
                         RC_RETRY);
        assert_false(fixture->fake.alone.open);
        finish(fixture, 0);
        fixture->count = 0;
        votes_db_check(&fixture->fake);
        expect_deleted(fixture, 0);
        expect(fixture, 1, true, 1);
        expect_deleted(fixture, 2);
        assert_int_equal(fixture->fake.tables->event_count, 2);
        assert_int_equal(fixture->fake.commits, 2);
    }
}

/* Many random batches, with calls failing and commits lost in both ways, compared with the result
 * of plain arithmetic. */
static void random_failures_never_lose_or_double_a_vote(void **state)
{
    struct fixture *fixture = *state;
    int votings[8][4] = {{0}};
    int64_t totals[4] = {0};
    unsigned random_bits = 12345;

    for (size_t round = 0; round < 400; round++) {
        int wanted[ITEMS_MAX][3];
        size_t count = 1 + round % 12;

        for (size_t i = 0; i < count; i++) {
            random_bits = random_bits * 1103515245 + 12345;
            wanted[i][0] = (int)(random_bits >> 16) % 8;
            wanted[i][1] = (int)(random_bits >> 20) % 4;
            wanted[i][2] = (int)(random_bits >> 24) % 2;
            add(fixture, 1 + wanted[i][0], 1 + wanted[i][1], wanted[i][2]);
        }
        fixture->fake.next = (enum votes_commit)((random_bits >> 8) % 3);
        fixture->fake.calls = 0;
        fixture->fake.fail_at = (random_bits >> 12) % 13;
        run(fixture, 2);
        for (size_t i = 0; i < count; i++) {
            int *voting = &votings[wanted[i][0]][wanted[i][1]];
            bool changed = *voting != wanted[i][2];

            totals[wanted[i][1]] += changed ? (wanted[i][2] ? 1 : -1) : 0;
            *voting = wanted[i][2];
            expect(fixture, i, changed, totals[wanted[i][1]]);
        }
    }
    for (int content = 0; content < 4; content++)
        assert_int_equal(votes_db_total(&fixture->fake, 1 + content), totals[content]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_vote_gets_the_total_right_after_it),
        TEST(one_pair_many_times_in_a_batch_has_an_event_per_change),
        TEST(a_repeat_writes_nothing_and_names_the_first_event),
        TEST(taking_back_a_missing_vote_leaves_no_trace),
        TEST(a_vote_of_another_writer_is_taken_back_under_its_lock),
        TEST(headers_go_with_their_own_events),
        TEST(events_spread_over_the_lanes_by_their_key),
        TEST(every_call_may_fail_once),
        TEST(a_fatal_call_is_handed_on_with_nothing_open),
        TEST(a_lost_commit_that_did_not_happen_is_done_again),
        TEST(a_lost_commit_that_did_happen_is_found_and_not_done_again),
        TEST(a_lost_commit_is_found_after_more_failures),
        TEST(a_found_commit_is_answered_with_the_totals_of_its_own_time),
        TEST(a_commit_overwritten_by_others_never_gives_an_id_twice),
        TEST(votes_of_a_lost_commit_are_kept_when_the_batch_is_split),
        TEST(two_lost_commits_in_one_batch_are_told_apart),
        TEST(a_refused_vote_fails_alone),
        TEST(a_batch_of_refused_votes_ends),
        TEST(a_vote_on_a_deleted_content_does_not_count_and_others_do),
        TEST(a_deleted_content_without_votes_gets_no_row),
        TEST(a_deletion_that_comes_while_rows_are_made_leaves_none),
        TEST(a_total_that_is_removed_while_rows_are_made_does_not_come_back),
        TEST(a_found_total_that_is_removed_while_rows_are_made_does_not_come_back),
        TEST(a_lost_commit_before_the_deletion_is_found),
        TEST(every_call_may_fail_once_with_deleted_contents),
        TEST(random_failures_never_lose_or_double_a_vote),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
