/* SPDX-License-Identifier: MIT */
/* Tombstones end the tallies of contents: votes before them count, later ones are stale, whatever
 * fails and however often a record comes. */
#include "consumer/apply/apply.h"
#include "consumer/dead/dead.h"
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
    struct sink_dead_store store;
    struct apply apply;
    struct batch batch;
    struct progress_row claimed;
    int outcomes[DEAD_OUTCOME_WAITS + 1];
};

static struct fixture fixture;

static void fixture_open(void)
{
    memset(&fixture, 0, sizeof(fixture));
    sink_connection_init(&fixture.fake, &fixture.db);
    sink_dead_store_init(&fixture.store, &fixture.fake);
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

/* value NULL: a tombstone. */
static void put(int64_t offset, const char *key, const char *value)
{
    struct record record = {
        .offset = offset,
        .leader_epoch = 3,
        .key = key,
        .key_len = strlen(key),
        .value = value,
        .value_len = value ? strlen(value) : 0,
    };

    assert_int_equal(batch_add(&fixture.batch, &record, no_headers, NULL, NULL), RC_OK);
}

static void put_vote(int64_t offset, int event, int content)
{
    char value[256];
    char key[16];

    snprintf(key, sizeof(key), "%d", content);
    snprintf(value, sizeof(value),
             "{\"eventId\":\"00000000-0000-7000-8000-%012d\",\"voterId\":%d,\"contentId\":%d,"
             "\"voting\":1,\"occurredAt\":1790000000000}",
             event, event, content);
    put(offset, key, value);
}

static enum rc apply_now(struct apply_result *result)
{
    struct err err = {0};

    return apply_batch(&fixture.apply, &place, fixture.claimed.epoch, &fixture.batch, result, &err);
}

static void assert_applied(size_t applied, size_t stale, size_t ended)
{
    struct apply_result result = {0};

    assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.end, APPLY_DONE);
    assert_int_equal(result.applied, applied);
    assert_int_equal(result.stale, stale);
    assert_int_equal(result.ended, ended);
    sink_db_check(&fixture.db);
}

static void votes_before_a_tombstone_count_and_later_ones_are_stale(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5);
    put(1, "5", NULL);
    put_vote(2, 2, 5);
    put_vote(3, 3, 6);
    assert_applied(2, 1, 1);
    assert_true(fixture.db.tallies[5].old.ended);
    assert_int_equal(fixture.db.tallies[5].old.votes, 1);
    assert_false(fixture.db.tallies[6].old.ended);
    assert_int_equal(fixture.db.dead_count, 0);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 4);
    batch_reset(&fixture.batch, 4, 3);
    put_vote(4, 4, 5);
    put_vote(5, 5, 6);
    assert_applied(1, 1, 0);
    assert_int_equal(fixture.db.tallies[5].old.votes, 1);
    assert_int_equal(fixture.db.tallies[5].old.seq, 1);
    fixture_close();
}

static void a_content_without_votes_is_ended_with_a_total_of_0(void **state)
{
    (void)state;
    fixture_open();
    put(0, "7", NULL);
    assert_applied(0, 0, 1);
    assert_true(fixture.db.tallies[7].old.found);
    assert_true(fixture.db.tallies[7].old.ended);
    assert_int_equal(fixture.db.tallies[7].old.votes, 0);
    assert_int_equal(fixture.db.tallies[7].old.seq, 0);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 1);
    fixture_close();
}

static void a_second_tombstone_keeps_the_time_of_the_first(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5);
    put(1, "5", NULL);
    put(2, "5", NULL);
    assert_applied(1, 0, 1);
    fixture.db.tallies[5].now.ended_ms = fixture.db.tallies[5].old.ended_ms = 77;
    batch_reset(&fixture.batch, 3, 3);
    put(3, "5", NULL);
    assert_applied(0, 0, 0);
    assert_int_equal(fixture.db.tallies[5].old.ended_ms, 77);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 4);
    fixture_close();
}

/* The offset was set back: votes that are in the log are not counted again, nor added. */
static void records_that_come_again_change_nothing(void **state)
{
    (void)state;
    fixture_open();
    put_vote(0, 1, 5);
    put(1, "5", NULL);
    put_vote(2, 2, 5);
    assert_applied(1, 1, 1);
    fixture.db.progress[1].now.row.next_offset = OFFSET_BEGINNING;
    sink_db_save(&fixture.db);
    assert_applied(0, 2, 0);
    assert_int_equal(fixture.db.vote_count, 1);
    assert_int_equal(fixture.db.tallies[5].old.votes, 1);
    fixture_close();
}

/* Each call fails in turn, before and after it takes effect; then the batch is tried again. */
static int fails_at(int call, enum rc rc, bool lost, bool lasts)
{
    struct apply_result result = {0};
    enum rc first;
    int calls;

    fixture_open();
    if (lasts)
        assert_int_equal(apply_keep_lasts(&fixture.apply, ROWS_MAX, NULL), RC_OK);
    put_vote(0, 1, 5);
    put_vote(1, 1, 5);
    put(2, "5", NULL);
    put_vote(3, 2, 5);
    put(4, "7", NULL);
    fixture.db.faults = (struct sink_faults){.fail_at = call, .rc = rc, .lost = lost};
    first = apply_now(&result);
    calls = fixture.db.faults.calls;
    fixture.db.faults.fail_at = 0;
    assert_false(fixture.fake.alone.open);
    if (!lost && (first != RC_OK || result.end != APPLY_DONE)) {
        assert_false(fixture.db.tallies[5].old.ended);
        assert_false(fixture.db.tallies[7].old.ended);
        assert_int_equal(fixture.db.vote_count, 0);
        assert_int_equal(fixture.db.progress[1].old.row.next_offset, OFFSET_BEGINNING);
    }
    if (first != RC_OK || result.end != APPLY_DONE)
        assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.end, APPLY_DONE);
    assert_int_equal(result.applied, 1);
    assert_int_equal(result.ended, 2);
    assert_true(fixture.db.tallies[5].old.ended);
    assert_true(fixture.db.tallies[7].old.ended);
    assert_int_equal(fixture.db.vote_count, 1);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 5);
    sink_db_check(&fixture.db);
    fixture_close();
    return calls;
}

static void every_call_may_fail_and_the_end_is_in_the_transaction_of_the_offset(void **state)
{
    static const enum rc rcs[] = {RC_RETRY, RC_REJECT, RC_FATAL};

    (void)state;
    for (int lasts = 0; lasts <= 1; lasts++) {
        int calls = fails_at(CALLS_MAX, RC_RETRY, false, lasts);

        assert_in_range(calls, 8, CALLS_MAX - 1);
        for (int call = 1; call <= calls; call++) {
            fails_at(call, RC_RETRY, true, lasts);
            for (size_t i = 0; i < sizeof(rcs) / sizeof(rcs[0]); i++)
                fails_at(call, rcs[i], false, lasts);
        }
    }
}

static void count_outcome(void *ctx, const struct dead_result *result)
{
    (void)ctx;
    fixture.outcomes[result->outcome]++;
}

static void replay_held(void)
{
    const struct dead_filter filter = {.topic = "votes",
                                       .partition = 1,
                                       .key = "5",
                                       .held = true,
                                       .since_ms = DEAD_NUMBER_ANY,
                                       .until_ms = DEAD_NUMBER_ANY};
    const struct dead_config config = {.sink = &fixture.fake.ops,
                                       .store = &fixture.store.ops,
                                       .filter = &filter,
                                       .on_result = count_outcome};
    struct dead dead;
    bool more = true;

    assert_int_equal(dead_init(&dead, &config, NULL), RC_OK);
    while (more)
        assert_int_equal(dead_step(&dead, &more, NULL), RC_OK);
    dead_done(&dead);
}

static void a_tombstone_passes_held_votes_which_are_stale_when_they_are_replayed(void **state)
{
    (void)state;
    fixture_open();
    fixture.batch.whole = true;
    fixture.db.faults.refused_event = 2;
    put_vote(0, 1, 5);
    put_vote(1, 2, 5);
    put(2, "5", NULL);
    put_vote(3, 3, 5);
    assert_applied(1, 0, 1);
    assert_int_equal(fixture.db.dead_count, 2);
    assert_string_equal(fixture.db.dead[0].old.reason_class, REASON_REFUSED);
    assert_string_equal(fixture.db.dead[1].old.reason_class, REASON_BEHIND);
    assert_int_equal(fixture.db.dead[1].base.offset, 3);
    fixture.db.faults.refused_event = 0;
    replay_held();
    assert_int_equal(fixture.outcomes[DEAD_OUTCOME_STALE], 2);
    assert_string_equal(fixture.db.dead[0].old.decision, "stale");
    assert_string_equal(fixture.db.dead[1].old.decision, "stale");
    assert_int_equal(fixture.db.tallies[5].old.votes, 1);
    sink_db_check(&fixture.db);
    fixture_close();
}

/* A vote that the log would refuse is not tried once the tally has ended. */
static void a_vote_of_an_ended_content_is_never_refused(void **state)
{
    (void)state;
    fixture_open();
    put(0, "5", NULL);
    assert_applied(0, 0, 1);
    fixture.db.faults.refused = 5;
    batch_reset(&fixture.batch, 1, 3);
    put_vote(1, 1, 5);
    assert_applied(0, 1, 0);
    assert_int_equal(fixture.db.dead_count, 0);
    fixture_close();
}

/* The votes are from day 20717. A tombstone has no time that could be too old. */
static void a_log_that_begins_later_does_not_fence_a_tombstone(void **state)
{
    (void)state;
    fixture_open();
    put(0, "5", NULL);
    fixture.db.begin_day = 20718;
    assert_applied(0, 0, 1);
    fixture_close();
}

static void batches_of_several_partitions_end_tallies_together(void **state)
{
    static const struct place second = {"votes", 2};
    struct progress_row claimed = {0};
    struct apply_group group = {0};
    struct apply_result result = {0};
    struct batch batch;
    struct err err = {0};

    (void)state;
    fixture_open();
    assert_int_equal(apply_claim(&fixture.apply, &second, &claimed, NULL), RC_OK);
    put_vote(0, 1, 5);
    put(1, "5", NULL);
    put_vote(2, 2, 5);
    batch = fixture.batch;
    batch_init(&fixture.batch, ROWS_MAX, 100000);
    batch_reset(&fixture.batch, claimed.next_offset, -1);
    put_vote(0, 3, 6);
    put(1, "6", NULL);
    assert_true(apply_group_add(&group, ROWS_MAX, &place, fixture.claimed.epoch, &batch));
    assert_true(apply_group_add(&group, ROWS_MAX, &second, claimed.epoch, &fixture.batch));
    assert_int_equal(apply_group(&fixture.apply, &group, &result, &err), RC_OK);
    assert_int_equal(result.applied, 2);
    assert_int_equal(result.stale, 1);
    assert_int_equal(result.ended, 2);
    sink_db_check(&fixture.db);
    batch_done(&batch);
    fixture_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_before_a_tombstone_count_and_later_ones_are_stale),
        cmocka_unit_test(a_content_without_votes_is_ended_with_a_total_of_0),
        cmocka_unit_test(a_second_tombstone_keeps_the_time_of_the_first),
        cmocka_unit_test(records_that_come_again_change_nothing),
        cmocka_unit_test(every_call_may_fail_and_the_end_is_in_the_transaction_of_the_offset),
        cmocka_unit_test(a_tombstone_passes_held_votes_which_are_stale_when_they_are_replayed),
        cmocka_unit_test(a_vote_of_an_ended_content_is_never_refused),
        cmocka_unit_test(a_log_that_begins_later_does_not_fence_a_tombstone),
        cmocka_unit_test(batches_of_several_partitions_end_tallies_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
