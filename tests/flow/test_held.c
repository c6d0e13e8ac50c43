/* SPDX-License-Identifier: MIT */
/* Votes that the database refuses, and those of their contents: kept, in order, none lost. */
#include "consumer/held/held.h"

#include "consumer/apply/apply.h"
#include "tests/flow/consume_fixture.h"
#include "tests/flow/sink_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

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

static const struct sink_dead *kept(size_t index, const char *reason_class, int64_t offset)
{
    const struct sink_dead *dead = &fixture.db.dead[index];

    assert_string_equal(dead->old.reason_class, reason_class);
    assert_int_equal(dead->base.offset, offset);
    return dead;
}

/* Behind the first refused vote, its content stays in order; other contents continue. */
static void put_refused(void)
{
    fixture.db.faults.refused_event = 2;
    fixture.batch.whole = true;
    put_vote(0, 1, 5, 1);
    put_vote(1, 2, 5, 0);
    put_vote(2, 3, 6, 1);
    put(3, "5", "poison");
    put_vote(4, 4, 5, 1);
    put_vote(5, 5, 6, 0);
}

static void a_refused_vote_is_kept_and_its_content_waits_behind_it(void **state)
{
    (void)state;
    fixture_open();
    put_refused();
    assert_applied(3, 0, 3);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 6);
    kept(0, "decode", 3);
    assert_string_equal(kept(1, "refused", 1)->old.reason, "the log does not take it");
    assert_non_null(strstr(fixture.db.dead[1].value, "\"voting\":0"));
    assert_string_equal(fixture.db.dead[1].key, "5");
    assert_string_equal(kept(2, "behind", 4)->key, "5");
    fixture_close();
}

static void held_contents_are_known_to_the_next_claim_and_stay_held(void **state)
{
    struct apply_result result = {0};

    (void)state;
    fixture_open();
    assert_false(fixture.claimed.holds);
    put_refused();
    assert_applied(3, 0, 3);
    fixture.db.faults.refused_event = 0;
    assert_int_equal(apply_claim(&fixture.apply, &place, &fixture.claimed, NULL), RC_OK);
    assert_true(fixture.claimed.holds);
    batch_reset(&fixture.batch, 6, 3);
    fixture.batch.whole = true;
    put_vote(6, 6, 5, 0);
    put_vote(7, 7, 6, 1);
    assert_int_equal(apply_now(&result), RC_OK);
    assert_false(result.clear);
    assert_int_equal(result.applied, 1);
    kept(3, "behind", 6);
    /* An operator decides on all of them: the next vote of the content is applied. */
    for (size_t i = 1; i < 4; i++)
        sink_db_decide(&fixture.db, i, "x");
    batch_reset(&fixture.batch, 8, 3);
    fixture.batch.whole = true;
    put_vote(8, 8, 5, 1);
    assert_int_equal(apply_now(&result), RC_OK);
    assert_true(result.clear);
    assert_int_equal(result.applied, 1);
    assert_int_equal(apply_claim(&fixture.apply, &place, &fixture.claimed, NULL), RC_OK);
    assert_false(fixture.claimed.holds);
    fixture_close();
}

static void a_refused_vote_needs_a_whole_batch(void **state)
{
    struct apply_result result = {0};

    (void)state;
    fixture_open();
    fixture.db.faults.refused_event = 1;
    put_vote(0, 1, 5, 1);
    put_vote(1, 2, 6, 1);
    assert_int_equal(apply_now(&result), RC_OK);
    assert_int_equal(result.end, APPLY_AGAIN);
    assert_int_equal(fixture.db.vote_count, 0);
    assert_int_equal(fixture.db.dead_count, 0);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, OFFSET_BEGINNING);
    fixture_close();
}

static void a_whole_batch_may_be_all_refused_and_twice(void **state)
{
    (void)state;
    fixture_open();
    fixture.batch.whole = true;
    fixture.db.faults.refused = 5;
    for (int i = 0; i < 20; i++)
        put_vote(i, 1 + i / 2, 5, 1);
    put_vote(20, 30, 6, 1);
    put_vote(21, 30, 6, 1);
    assert_applied(1, 1, 20);
    kept(0, "refused", 0);
    for (size_t i = 1; i < 20; i++)
        kept(i, "behind", (int64_t)i);
    assert_applied(0, 0, 0);
    fixture_close();
}

/* As fails_at(), of a batch with a vote that is refused. */
static void refused_fails_at(int call, enum rc rc, bool lost, int *calls)
{
    struct apply_result result = {0};

    fixture_open();
    put_refused();
    fixture.db.faults.fail_at = call;
    fixture.db.faults.rc = rc;
    fixture.db.faults.lost = lost;
    (void)apply_now(&result);
    assert_false(fixture.fake.alone.open);
    *calls = fixture.db.faults.calls;
    if (result.end != APPLY_DONE || result.applied == 0) {
        enum rc again = apply_now(&result);

        assert_int_equal(again, RC_OK);
    }
    assert_int_equal(result.applied, 3);
    assert_int_equal(fixture.db.vote_count, 3);
    assert_int_equal(fixture.db.dead_count, 3);
    kept(1, "refused", 1);
    kept(2, "behind", 4);
    assert_int_equal(fixture.db.progress[1].old.row.next_offset, 6);
    sink_db_check(&fixture.db);
    fixture_close();
}

static void with_a_refused_vote_every_call_may_fail(void **state)
{
    int calls = 1;

    (void)state;
    for (int call = 1; call <= calls + 1; call++)
        refused_fails_at(call, RC_RETRY, false, &calls);
    assert_in_range(calls, 20, 80);
    for (int call = 1; call <= calls + 1; call++)
        refused_fails_at(call, RC_RETRY, true, &calls);
}

static const struct fixture_limits limits = {.rows_max = 10, .batches_max = 6, .wait_ms = 5};

static struct topic topic;
static struct sink_db sink;
static struct consume_fixture consumer;
static int64_t now_ms = 1000;

static void own_all(void)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        topic.partitions[i].owner = 0;
}

static void run(int64_t ms)
{
    consume_fixture_run(&consumer, &now_ms, now_ms + ms);
}

static size_t count_held(const char *reason_class)
{
    size_t count = 0;

    for (size_t i = 0; i < sink.dead_count; i++)
        count += strcmp(sink.dead[i].old.reason_class, reason_class) == 0;
    return count;
}

/* Contents 1 and 5 are in one partition. */
static void a_refused_vote_holds_only_its_content(void **state)
{
    (void)state;
    topic_init(&topic);
    memset(&sink, 0, sizeof(sink));
    consume_fixture_open(&consumer, &topic, &sink, 0, "me", &limits);
    own_all();
    run(500);
    sink.faults.refused = 1;
    for (int i = 0; i < 45; i++)
        topic_put_vote(&topic, i, i % 3 == 0 ? 1 : 5, 1);
    run(1500);
    assert_false(condition_read(&consumer.fetch.partitions, NULL));
    assert_int_equal(sink.tallies[5].old.seq, 30);
    assert_int_equal(sink.tallies[1].old.seq, 0);
    assert_int_equal(count_held("refused"), 1);
    assert_int_equal(count_held("behind"), 14);
    /* The cause has ended, and the order stays, also for the next reader of the partition. */
    sink.faults.refused = 0;
    topic_put_vote(&topic, 100, 1, 1);
    run(1000);
    consume_fixture_kill(&consumer);
    consume_fixture_open(&consumer, &topic, &sink, 0, "next", &limits);
    own_all();
    topic_put_vote(&topic, 101, 1, 1);
    topic_put_vote(&topic, 102, 5, 1);
    run(1000);
    assert_int_equal(count_held("behind"), 16);
    assert_int_equal(sink.tallies[5].old.seq, 31);
    /* Nothing is held any more: the content continues, and after a while the records are not kept
     * whole. */
    for (size_t i = 0; i < sink.dead_count; i++)
        sink_db_decide(&sink, i, "applied");
    for (int i = 200; i < 220; i++) {
        topic_put_vote(&topic, i, i % 2 == 0 ? 1 : 5, 1);
        run(100);
    }
    run(1000);
    sink_db_check(&sink);
    assert_int_equal(sink.vote_count, 31 + 20);
    for (size_t i = 0; i < consumer.fetch.part_count; i++)
        assert_false(consumer.fetch.parts[i]->whole);
    consume_fixture_kill(&consumer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_vote_is_kept_and_its_content_waits_behind_it),
        cmocka_unit_test(held_contents_are_known_to_the_next_claim_and_stay_held),
        cmocka_unit_test(a_refused_vote_needs_a_whole_batch),
        cmocka_unit_test(a_whole_batch_may_be_all_refused_and_twice),
        cmocka_unit_test(with_a_refused_vote_every_call_may_fail),
        cmocka_unit_test(a_refused_vote_holds_only_its_content),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
