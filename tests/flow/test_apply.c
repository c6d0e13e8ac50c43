/* SPDX-License-Identifier: MIT */
#include "consumer/apply/apply.h"

#include "tests/flow/sink_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define CALLS_MAX 40
#define ROWS_MAX 50

static const struct place place = {"votes", 1};

struct fixture {
    struct sink_db db;
    struct sink_connection fake;
    struct apply apply;
    struct batch batch;
    struct progress_row claimed;
};

static struct fixture fixture;

static void fixture_open(void)
{
    memset(&fixture, 0, sizeof(fixture));
    sink_connection_init(&fixture.fake, &fixture.db);
    assert_int_equal(apply_init(&fixture.apply, &fixture.fake.ops, "me", ROWS_MAX, NULL), RC_OK);
    assert_int_equal(apply_claim(&fixture.apply, &place, &fixture.claimed, NULL), RC_OK);
    batch_init(&fixture.batch, ROWS_MAX, 100000);
    batch_reset(&fixture.batch, fixture.claimed.next_offset, -1);
    fixture.db.faults.calls = 0;
}

static void fixture_close(void)
{
    apply_done(&fixture.apply);
    batch_done(&fixture.batch);
}

static void no_headers(void *ctx, const struct record *record, struct buf *out)
{
    (void)ctx;
    (void)record;
    buf_text_put(out, "[]");
}

static void put(int64_t offset, const char *key, const char *value)
{
    struct record record = {
        .offset = offset,
        .leader_epoch = 3,
        .key = key,
        .key_len = strlen(key),
        .value = value,
        .value_len = strlen(value),
    };

    assert_int_equal(batch_add(&fixture.batch, &record, no_headers, NULL, NULL), RC_OK);
}

static void put_vote(int64_t offset, int event, int content, int voting)
{
    char value[256];
    char key[16];

    snprintf(key, sizeof(key), "%d", content);
    snprintf(value, sizeof(value),
             "{\"eventId\":\"00000000-0000-7000-8000-%012d\",\"voterId\":1,\"contentId\":%d,"
             "\"voting\":%d,\"occurredAt\":1790000000000}",
             event, content, voting);
    put(offset, key, value);
}

static enum rc apply_now(struct apply_result *result)
{
    struct err err = {0};

    return apply_batch(&fixture.apply, &place, fixture.claimed.epoch, &fixture.batch, result, &err);
}

static void assert_applied(size_t applied, size_t duplicates, size_t dead)
{
    struct apply_result result = {0};
    size_t kept = 0;

    assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.end, APPLY_DONE);
    assert_int_equal(result.applied, applied);
    assert_int_equal(result.duplicates, duplicates);
    for (size_t i = 0; i < RECORD_CLASS_COUNT; i++)
        kept += result.dead[i];
    assert_int_equal(kept, dead);
    sink_db_check(&fixture.db);
}

static void a_batch_is_logged_with_running_totals(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    put_vote(1, 2, 3, 1);
    put_vote(2, 3, 5, 1);
    put_vote(4, 4, 5, 0);
    assert_applied(4, 0, 0);
    assert_int_equal(fixture.db.vote_count, 4);
    assert_int_equal(fixture.db.votes[3].vote.votes, 1);
    assert_int_equal(fixture.db.votes[3].vote.content_seq, 3);
    assert_int_equal(fixture.db.tallies[3].old.votes, 1);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 5);
    assert_int_equal(fixture.db.progress[1].old.row.leader_epoch, 3);
    assert_int_equal(fixture.db.searches, 0);
    fixture_close();
}

static void a_batch_applied_twice_counts_once(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    put(1, "5", "poison");
    assert_applied(1, 0, 1);
    assert_applied(0, 0, 0);
    assert_int_equal(fixture.db.vote_count, 1);
    assert_int_equal(fixture.db.dead_count, 1);
    fixture_close();
}

static void a_poisoned_record_is_kept_and_its_neighbours_are_applied(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    put(1, "5", "poison");
    put_vote(2, 2, 5, 1);
    assert_applied(2, 0, 1);
    assert_int_equal(fixture.db.dead[0].base.partition, 1);
    assert_int_equal(fixture.db.dead[0].base.offset, 1);
    assert_string_equal(fixture.db.dead[0].value, "poison");
    assert_string_equal(fixture.db.dead[0].old.reason_class, "decode");
    fixture_close();
}

static void a_batch_of_poison_alone_moves_the_progress(void **state)
{
    (void)state;
    fixture_open();
    put(7, "5", "poison");
    assert_applied(0, 0, 1);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 8);
    fixture_close();
}

static void too_many_dead_records_stop_it_until_an_operator_decides(void **state)
{
    static const _Atomic int64_t dead_max = 2;
    struct apply_result result = {0};

    (void)state;
    fixture_open();
    apply_limit_dead(&fixture.apply, &dead_max);
    put(0, "5", "poison");
    put(1, "5", "poison");
    put(2, "5", "poison");
    assert_applied(0, 0, 3);
    batch_reset(&fixture.batch, 3, 3);
    put_vote(3, 1, 5, 1);
    assert_applied(1, 0, 0);
    batch_reset(&fixture.batch, 4, 3);
    put_vote(4, 2, 5, 1);
    put(5, "5", "poison");
    assert_int_equal(apply_now(&result), RC_REJECT);
    assert_int_equal(fixture.db.vote_count, 1);
    sink_db_decide(&fixture.db, 0, "dropped");
    sink_db_decide(&fixture.db, 1, "dropped");
    assert_applied(1, 0, 1);
    fixture_close();
}

static void a_duplicate_of_the_log_is_left_out(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    put_vote(1, 2, 5, 1);
    assert_applied(2, 0, 0);
    batch_reset(&fixture.batch, 2, 3);
    put_vote(2, 3, 5, 1);
    put_vote(3, 1, 5, 1);
    put_vote(4, 4, 5, 1);
    assert_applied(2, 1, 0);
    assert_int_equal(fixture.db.vote_count, 4);
    assert_int_equal(fixture.db.tallies[5].old.seq, 4);
    fixture_close();
}

static void a_duplicate_within_the_batch_is_left_out(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    put_vote(1, 1, 5, 1);
    put_vote(2, 2, 6, 1);
    assert_applied(2, 1, 0);
    fixture_close();
}

static void a_batch_of_duplicates_alone_moves_the_progress(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    assert_applied(1, 0, 0);
    batch_reset(&fixture.batch, 1, 3);
    put_vote(1, 1, 5, 1);
    assert_applied(0, 1, 0);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 2);
    assert_int_equal(fixture.db.tallies[5].old.seq, 1);
    fixture_close();
}

static void after_duplicates_it_searches_first_until_a_batch_has_none(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    put_vote(1, 1, 5, 1);
    assert_applied(1, 1, 0);
    assert_int_equal(fixture.db.searches, 1);
    batch_reset(&fixture.batch, 2, 3);
    put_vote(2, 2, 5, 1);
    assert_applied(1, 0, 0);
    assert_int_equal(fixture.db.searches, 2);
    batch_reset(&fixture.batch, 3, 3);
    put_vote(3, 3, 5, 1);
    assert_applied(1, 0, 0);
    assert_int_equal(fixture.db.searches, 2);
    fixture_close();
}

static void only_records_that_are_not_applied_yet_are_applied(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    put(1, "5", "poison");
    put_vote(2, 2, 5, 1);
    put(3, "5", "poison");
    fixture.db.progress[1].now.row.next_offset = 2;
    sink_db_save(&fixture.db);
    assert_applied(1, 0, 1);
    assert_int_equal(fixture.db.votes[0].vote.offset, 2);
    assert_int_equal(fixture.db.dead[0].base.offset, 3);
    fixture_close();
}

static void assert_fenced(void)
{
    struct apply_result result = {0};

    assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.end, APPLY_FENCED);
    assert_int_equal(result.applied, 0);
    assert_int_equal(fixture.db.vote_count, 0);
    assert_false(fixture.fake.alone.open);
}

/* After a fail-over that lost its claim, another process has the same epoch. */
static void another_owner_with_the_same_epoch_fences_it(void **state)
{
    struct progress_row other = {0};
    struct apply second;

    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    fixture.db.progress[1].now.row.epoch--;
    sink_db_save(&fixture.db);
    assert_int_equal(apply_init(&second, &fixture.fake.ops, "other", ROWS_MAX, NULL), RC_OK);
    assert_int_equal(apply_claim(&second, &place, &other, NULL), RC_OK);
    assert_int_equal(other.epoch, fixture.claimed.epoch);
    assert_fenced();
    apply_done(&second);
    fixture_close();
}

static void another_owner_fences_it(void **state)
{
    struct progress_row other = {0};
    struct apply zombie;

    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    assert_int_equal(apply_init(&zombie, &fixture.fake.ops, "other", ROWS_MAX, NULL), RC_OK);
    assert_int_equal(apply_claim(&zombie, &place, &other, NULL), RC_OK);
    assert_int_equal(other.epoch, fixture.claimed.epoch + 1);
    assert_string_equal(fixture.db.progress[1].old.row.owner, "other");
    assert_fenced();
    apply_done(&zombie);
    fixture_close();
}

static void a_deleted_progress_fences_it(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    fixture.db.progress[1].now.row.found = false;
    sink_db_save(&fixture.db);
    assert_fenced();
    fixture_close();
}

static void a_batch_that_would_leave_a_hole_is_fenced(void **state)
{
    (void)state;
    fixture_open();
    batch_reset(&fixture.batch, 3, 3);
    put_vote(3, 1, 5, 1);
    assert_fenced();
    fixture_close();
}

static void put_everything(void)
{
    put_vote(0, 1, 5, 1);
    put_vote(1, 2, 6, 1);
    put(2, "5", "poison");
    put_vote(3, 1, 5, 1);
    put_vote(4, 3, 5, 0);
}

/* Each call fails in turn, before and after it takes effect; then the batch is tried again. */
static void fails_at(int call, enum rc rc, bool lost, int *calls)
{
    struct apply_result result = {0};
    enum rc first;

    fixture_open();
    put_everything();
    fixture.db.faults = (struct sink_faults){.fail_at = call, .rc = rc, .lost = lost};
    first = apply_now(&result);
    assert_false(fixture.fake.alone.open);
    *calls = fixture.db.faults.calls;
    if (result.end == APPLY_AGAIN)
        assert_int_equal(rc, RC_REJECT);
    else if (call > *calls)
        assert_int_equal(first, RC_OK);
    else
        assert_int_equal(first, rc);
    if (first == RC_OK && result.end == APPLY_DONE) {
        assert_int_equal(result.applied, 3);
    } else {
        if (!lost)
            assert_int_equal(fixture.db.vote_count, 0);
        assert_applied(3, 1, 1);
    }
    assert_int_equal(fixture.db.vote_count, 3);
    assert_int_equal(fixture.db.dead_count, 1);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 5);
    sink_db_check(&fixture.db);
    fixture_close();
}

static void every_call_may_fail_and_be_tried_again(void **state)
{
    static const enum rc rcs[] = {RC_RETRY, RC_REJECT, RC_FATAL};
    int calls = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(rcs) / sizeof(rcs[0]); i++)
        for (int call = 1; call <= calls + 1; call++)
            fails_at(call, rcs[i], false, &calls);
    assert_in_range(calls, 10, CALLS_MAX);
}

static void a_commit_whose_answer_is_lost_counts_once_and_is_counted(void **state)
{
    int calls = 1;

    (void)state;
    for (int call = 1; call <= calls + 1; call++)
        fails_at(call, RC_RETRY, true, &calls);
    assert_in_range(calls, 10, CALLS_MAX);
}

static void a_claim_may_fail_at_every_call_and_be_made_again(void **state)
{
    struct progress_row row = {.topic_id = "id"};

    (void)state;
    for (int call = 1; call <= 4; call++) {
        for (int lost = 0; lost <= 1; lost++) {
            fixture_open();
            fixture.db.faults = (struct sink_faults){.fail_at = call, .rc = RC_RETRY, .lost = lost};
            assert_int_equal(apply_claim(&fixture.apply, &place, &row, NULL), RC_RETRY);
            assert_false(fixture.fake.alone.open);
            assert_int_equal(apply_claim(&fixture.apply, &place, &row, NULL), RC_OK);
            assert_true(row.epoch > fixture.claimed.epoch);
            assert_int_equal(row.epoch, fixture.db.progress[1].old.row.epoch);
            fixture_close();
        }
    }
}

static void a_claim_names_the_owner_and_keeps_the_first_topic_id(void **state)
{
    struct progress_row row = {.topic_id = "first"};

    (void)state;
    fixture_open();
    assert_int_equal(apply_claim(&fixture.apply, &place, &row, NULL), RC_OK);
    assert_string_equal(fixture.db.progress[1].old.row.owner, "me");
    assert_string_equal(fixture.db.progress[1].old.row.topic_id, "first");
    memcpy(row.topic_id, "second", 7);
    assert_int_equal(apply_claim(&fixture.apply, &place, &row, NULL), RC_OK);
    assert_string_equal(row.topic_id, "first");
    fixture_close();
}

/* The votes are from 2026-09-21, which is day 20717. */
static void a_batch_judged_before_its_month_was_dropped_is_not_applied(void **state)
{
    struct apply_result result = {0};

    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    fixture.db.begin_day = 20718;
    assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.end, APPLY_FENCED);
    assert_int_equal(fixture.db.vote_count, 0);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, OFFSET_BEGINNING);

    /* Claimed and judged again, it goes into dead_record, in the same transaction as the offset. */
    assert_int_equal(apply_claim(&fixture.apply, &place, &fixture.claimed, NULL), RC_OK);
    assert_int_equal(fixture.claimed.begin_day, 20718);
    batch_reset(&fixture.batch, fixture.claimed.next_offset, -1);
    fixture.batch.begin_day = fixture.claimed.begin_day;
    put_vote(0, 1, 5, 1);
    assert_applied(0, 0, 1);
    assert_string_equal(fixture.db.dead[0].old.reason_class, "too_old");
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 1);
    fixture_close();
}

static void a_beginning_that_moved_behind_a_batch_lets_it_pass(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5, 1);
    fixture.db.begin_day = 20717;
    assert_applied(1, 0, 0);
    fixture_close();
}

static void keep_lasts(void)
{
    assert_int_equal(apply_keep_lasts(&fixture.apply, ROWS_MAX, NULL), RC_OK);
}

/* Every total is the number of voters whose last vote is 1, with any repeats. */
static void assert_totals_are_voters(void)
{
    int64_t sums[SINK_CONTENTS] = {0};

    for (size_t i = 0; i < SINK_LASTS_MAX; i++)
        sums[fixture.db.lasts[i].old.content_id] += fixture.db.lasts[i].old.voting;
    for (size_t i = 1; i < SINK_CONTENTS; i++)
        assert_int_equal(fixture.db.tallies[i].old.votes, sums[i]);
}

static void a_vote_that_repeats_the_last_one_is_stale(void **state)
{
    struct apply_result result = {0};

    (void)state;
    fixture_open();
    keep_lasts();
    put_vote(0, 1, 5, 1);
    put_vote(1, 2, 5, 1);
    put_vote(2, 3, 6, 0);
    assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.applied, 1);
    assert_int_equal(result.stale, 2);
    batch_reset(&fixture.batch, 3, 3);
    put_vote(3, 4, 5, 1);
    put_vote(4, 5, 5, 0);
    assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.applied, 1);
    assert_int_equal(result.stale, 1);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 5);
    assert_int_equal(fixture.db.vote_count, 2);
    sink_db_check(&fixture.db);
    assert_totals_are_voters();
    fixture_close();
}

static void a_redelivered_event_is_no_new_vote(void **state)
{
    struct apply_result result = {0};

    (void)state;
    fixture_open();
    keep_lasts();
    put_vote(0, 1, 5, 1);
    put_vote(1, 2, 5, 0);
    assert_applied(2, 0, 0);
    batch_reset(&fixture.batch, 2, 3);
    put_vote(2, 1, 5, 1);
    put_vote(3, 2, 5, 0);
    assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.applied, 0);
    assert_int_equal(fixture.db.vote_count, 2);
    sink_db_check(&fixture.db);
    assert_totals_are_voters();
    fixture_close();
}

/* How many calls it made. */
static int lasts_fail_at(int call, bool lost)
{
    struct apply_result result = {0};
    enum rc rc;
    int calls;

    fixture_open();
    keep_lasts();
    put_vote(0, 1, 5, 1);
    put_vote(1, 2, 5, 1);
    put_vote(2, 3, 6, 1);
    fixture.db.faults = (struct sink_faults){.fail_at = call, .rc = RC_RETRY, .lost = lost};
    rc = apply_now(&result);
    calls = fixture.db.faults.calls;
    assert_int_equal(rc, call > calls ? RC_OK : RC_RETRY);
    if (rc != RC_OK)
        assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.applied, 2);
    assert_int_equal(result.stale, 1);
    assert_int_equal(fixture.db.vote_count, 2);
    sink_db_check(&fixture.db);
    assert_totals_are_voters();
    fixture_close();
    return calls;
}

static void every_call_may_fail_while_last_votes_are_kept(void **state)
{
    int calls = lasts_fail_at(CALLS_MAX, false);

    (void)state;
    assert_in_range(calls, 10, CALLS_MAX - 1);
    for (int call = 1; call <= calls; call++) {
        lasts_fail_at(call, false);
        lasts_fail_at(call, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_logged_with_running_totals),
        cmocka_unit_test(a_batch_applied_twice_counts_once),
        cmocka_unit_test(a_poisoned_record_is_kept_and_its_neighbours_are_applied),
        cmocka_unit_test(a_batch_of_poison_alone_moves_the_progress),
        cmocka_unit_test(too_many_dead_records_stop_it_until_an_operator_decides),
        cmocka_unit_test(a_duplicate_of_the_log_is_left_out),
        cmocka_unit_test(a_duplicate_within_the_batch_is_left_out),
        cmocka_unit_test(a_batch_of_duplicates_alone_moves_the_progress),
        cmocka_unit_test(after_duplicates_it_searches_first_until_a_batch_has_none),
        cmocka_unit_test(only_records_that_are_not_applied_yet_are_applied),
        cmocka_unit_test(another_owner_with_the_same_epoch_fences_it),
        cmocka_unit_test(another_owner_fences_it),
        cmocka_unit_test(a_deleted_progress_fences_it),
        cmocka_unit_test(a_batch_that_would_leave_a_hole_is_fenced),
        cmocka_unit_test(every_call_may_fail_and_be_tried_again),
        cmocka_unit_test(a_commit_whose_answer_is_lost_counts_once_and_is_counted),
        cmocka_unit_test(a_vote_that_repeats_the_last_one_is_stale),
        cmocka_unit_test(a_redelivered_event_is_no_new_vote),
        cmocka_unit_test(every_call_may_fail_while_last_votes_are_kept),
        cmocka_unit_test(a_claim_may_fail_at_every_call_and_be_made_again),
        cmocka_unit_test(a_claim_names_the_owner_and_keeps_the_first_topic_id),
        cmocka_unit_test(a_batch_judged_before_its_month_was_dropped_is_not_applied),
        cmocka_unit_test(a_beginning_that_moved_behind_a_batch_lets_it_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
