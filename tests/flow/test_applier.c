/* SPDX-License-Identifier: MIT */
/* An applier alone, with jobs that the test makes: which jobs share a transaction, and how the
 * others end when one of them cannot be applied. */
#include "consumer/apply/applier.h"

#include "consumer/consumer_metrics.h"
#include "tests/flow/sink_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define JOBS_MAX 8
#define ROWS_MAX 6
#define CALLS_MAX 60

struct fixture {
    struct sink_db db;
    struct sink_connection fake;
    struct applier applier;
    struct holding holdings[SINK_PARTITIONS];
    int64_t epochs[SINK_PARTITIONS];
    struct job jobs[JOBS_MAX];
    size_t job_count;
    size_t returned; /* of the jobs, in their order */
    int64_t now_ms;
    int64_t applied_before; /* of the metric */
    atomic_uint dead_logged;
    int64_t day_ms; /* of the votes that are put now, behind 2026-09-21 */
};

static struct fixture fixture;

static uint64_t no_rng(void)
{
    return 0;
}

static int64_t no_time(void)
{
    return 0;
}

static void no_wake(void *ctx)
{
    (void)ctx;
}

static void fixture_open_with(size_t jobs_max)
{
    struct applier_config config = {
        .sink = &fixture.fake.ops,
        .owner = "me",
        .batch_rows_max = ROWS_MAX,
        .jobs_max = jobs_max,
        .rng = no_rng,
        .clock_us = no_time,
        .wake_fetch = no_wake,
        .dead_logged = &fixture.dead_logged,
    };

    memset(&fixture, 0, sizeof(fixture));
    sink_connection_init(&fixture.fake, &fixture.db);
    assert_int_equal(applier_init(&fixture.applier, &config, NULL), RC_OK);
    for (int32_t i = 0; i < SINK_PARTITIONS; i++) {
        struct progress_row row = {0};

        fixture.holdings[i].place = (struct place){"votes", i};
        assert_int_equal(
            apply_claim(&fixture.applier.apply, &fixture.holdings[i].place, &row, NULL), RC_OK);
        fixture.epochs[i] = row.epoch;
        fixture.db.progress[i].now.row.next_offset = 0;
        sink_db_save(&fixture.db);
    }
    fixture.db.faults.calls = 0;
    fixture.db.commits = 0;
    fixture.applied_before = metric_value(&consume_applied);
}

static void fixture_open(void)
{
    fixture_open_with(JOBS_MAX);
}

static void fixture_close(void)
{
    applier_done(&fixture.applier);
    for (size_t i = 0; i < fixture.job_count; i++)
        batch_done(&fixture.jobs[i].batch);
}

static void no_headers(void *ctx, const struct record *record, struct buf *out)
{
    (void)ctx;
    (void)record;
    buf_text_put(out, "[]");
}

static struct job *put_job(enum job_kind kind, int32_t partition, int64_t from_offset)
{
    struct job *job = &fixture.jobs[fixture.job_count++];

    assert_true(fixture.job_count <= JOBS_MAX);
    job->kind = kind;
    job->holding = &fixture.holdings[partition];
    job->progress.epoch = fixture.epochs[partition];
    batch_init(&job->batch, ROWS_MAX, 100000);
    batch_reset(&job->batch, from_offset, 3);
    assert_true(ring_give(&fixture.applier.given, job));
    return job;
}

static void put_record(struct job *job, const char *key, const char *value)
{
    struct record record = {
        .offset = job->batch.next_offset,
        .leader_epoch = 3,
        .key = key,
        .key_len = strlen(key),
        .value = value,
        .value_len = strlen(value),
    };

    assert_int_equal(batch_add(&job->batch, &record, no_headers, NULL, NULL), RC_OK);
}

static void put_vote(struct job *job, int event, int content)
{
    char value[256];
    char key[16];

    snprintf(key, sizeof(key), "%d", content);
    snprintf(value, sizeof(value),
             "{\"eventId\":\"00000000-0000-7000-8000-%012d\",\"voterId\":1,\"contentId\":%d,"
             "\"voting\":1,\"occurredAt\":%" PRId64 "}",
             event, content, INT64_C(1790000000000) + fixture.day_ms);
    put_record(job, key, value);
}

/* count votes of a partition, on a content of its own. */
static struct job *put_votes(int32_t partition, int64_t from_offset, int event, int count)
{
    struct job *job = put_job(JOB_APPLY, partition, from_offset);

    for (int i = 0; i < count; i++)
        put_vote(job, event + i, partition + 1);
    return job;
}

static void put_three(void)
{
    put_votes(1, 0, 1, 2);
    put_votes(2, 0, 11, 1);
    put_votes(3, 0, 21, 2);
}

/* Steps until all jobs are back, each in its turn, or the applier has failed. */
static void run(void)
{
    for (int i = 0; i < 100 && fixture.returned < fixture.job_count && !fixture.applier.failed;
         i++) {
        struct job *job;

        fixture.now_ms += 5000;
        applier_step(&fixture.applier, fixture.now_ms);
        for (job = ring_take(&fixture.applier.done); job; job = ring_take(&fixture.applier.done))
            assert_ptr_equal(job, &fixture.jobs[fixture.returned++]);
    }
    sink_db_check(&fixture.db);
}

static void assert_moved(int32_t partition, int64_t next_offset)
{
    assert_int_equal(fixture.db.progress[partition].old.row.next_offset, next_offset);
}

static void assert_counted(int64_t applied)
{
    assert_int_equal(fixture.db.vote_count, applied);
    assert_int_equal(metric_value(&consume_applied) - fixture.applied_before, applied);
}

static void assert_all_done(void)
{
    assert_int_equal(fixture.returned, fixture.job_count);
    for (size_t i = 0; i < fixture.job_count; i++)
        assert_int_equal(fixture.jobs[i].end, JOB_DONE);
}

static void batches_of_several_partitions_share_a_transaction(void **state)
{
    (void)state;
    fixture_open();
    put_three();
    run();
    assert_all_done();
    assert_int_equal(fixture.db.commits, 1);
    assert_counted(5);
    assert_moved(1, 2);
    assert_moved(2, 1);
    assert_moved(3, 2);
    assert_int_equal(fixture.db.progress[2].old.row.leader_epoch, 3);
    fixture_close();
}

static void two_batches_of_a_partition_follow_one_another(void **state)
{
    (void)state;
    fixture_open();
    put_votes(1, 0, 1, 2);
    put_votes(2, 0, 11, 1);
    put_votes(1, 2, 3, 1);
    put_votes(2, 1, 12, 1);
    run();
    assert_all_done();
    assert_int_equal(fixture.db.commits, 2);
    assert_counted(5);
    assert_moved(1, 3);
    assert_moved(2, 2);
    fixture_close();
}

static void a_group_has_no_more_rows_than_a_batch_may_have(void **state)
{
    (void)state;
    fixture_open();
    put_votes(1, 0, 1, 3);
    put_votes(2, 0, 11, 3);
    put_votes(3, 0, 21, 1);
    run();
    assert_all_done();
    assert_int_equal(fixture.db.commits, 2);
    assert_counted(7);
    fixture_close();
}

static void a_claim_is_no_part_of_a_group(void **state)
{
    (void)state;
    fixture_open();
    put_votes(1, 0, 1, 1);
    put_job(JOB_CLAIM, 3, 0);
    put_votes(2, 0, 11, 1);
    run();
    assert_all_done();
    assert_int_equal(fixture.db.commits, 3);
    assert_int_equal(fixture.db.progress[3].old.row.epoch, fixture.epochs[3] + 1);
    assert_counted(2);
    fixture_close();
}

static void dead_records_and_whole_batches_stay_alone(void **state)
{
    (void)state;
    fixture_open();
    put_record(put_votes(1, 0, 1, 1), "5", "poison");
    put_votes(2, 0, 11, 1);
    put_job(JOB_APPLY, 3, 0)->batch.whole = true;
    put_vote(&fixture.jobs[2], 21, 4);
    put_votes(0, 0, 31, 1);
    run();
    assert_all_done();
    assert_int_equal(fixture.db.commits, 4);
    assert_int_equal(fixture.db.dead_count, 1);
    assert_counted(4);
    assert_int_equal(atomic_load(&fixture.dead_logged), 1U << record_class_index("decode"));
    fixture_close();
}

static void a_fenced_partition_does_not_delay_the_others(void **state)
{
    (void)state;
    fixture_open();
    put_three();
    fixture.db.progress[2].now.row.epoch++;
    sink_db_save(&fixture.db);
    run();
    assert_int_equal(fixture.returned, 3);
    assert_int_equal(fixture.jobs[0].end, JOB_DONE);
    assert_int_equal(fixture.jobs[1].end, JOB_FENCED);
    assert_int_equal(fixture.jobs[2].end, JOB_DONE);
    assert_counted(4);
    assert_moved(2, 0);
    fixture_close();
}

static void a_partition_with_dropped_months_does_not_delay_the_others(void **state)
{
    (void)state;
    fixture_open();
    fixture.day_ms = 86400000;
    put_votes(1, 0, 1, 2);
    fixture.day_ms = 0;
    put_votes(2, 0, 11, 1);
    fixture.day_ms = 86400000;
    put_votes(3, 0, 21, 2);
    fixture.db.begin_day = 20718;
    run();
    assert_int_equal(fixture.jobs[0].end, JOB_DONE);
    assert_int_equal(fixture.jobs[1].end, JOB_FENCED);
    assert_int_equal(fixture.jobs[2].end, JOB_DONE);
    assert_counted(4);
    fixture_close();
}

static void a_revoked_partition_is_dropped_without_the_others(void **state)
{
    (void)state;
    fixture_open();
    put_three();
    atomic_fetch_add(&fixture.holdings[2].generation, 1);
    run();
    assert_int_equal(fixture.jobs[0].end, JOB_DONE);
    assert_int_equal(fixture.jobs[1].end, JOB_DROPPED);
    assert_int_equal(fixture.jobs[2].end, JOB_DONE);
    assert_counted(4);
    assert_moved(2, 0);
    fixture_close();
}

/* Between the try of the group and the tries of each. */
static void a_partition_revoked_while_the_database_is_unavailable_is_dropped(void **state)
{
    (void)state;
    fixture_open();
    put_three();
    fixture.db.faults = (struct sink_faults){.away = true};
    assert_true(applier_step(&fixture.applier, 1) > 0);
    fixture.db.faults.away = false;
    atomic_fetch_add(&fixture.holdings[1].generation, 1);
    run();
    assert_int_equal(fixture.jobs[0].end, JOB_DROPPED);
    assert_int_equal(fixture.jobs[1].end, JOB_DONE);
    assert_int_equal(fixture.jobs[2].end, JOB_DONE);
    assert_counted(3);
    fixture_close();
}

static void a_refused_partition_is_retried_alone(void **state)
{
    (void)state;
    fixture_open();
    put_three();
    fixture.db.faults.refused = 3; /* the content of partition 2 */
    run();
    assert_int_equal(fixture.jobs[0].end, JOB_DONE);
    assert_int_equal(fixture.jobs[1].end, JOB_AGAIN);
    assert_int_equal(fixture.jobs[2].end, JOB_DONE);
    assert_counted(4);
    fixture_close();
}

static void a_duplicate_in_one_of_them_is_left_out(void **state)
{
    (void)state;
    fixture_open();
    put_votes(1, 0, 1, 2);
    run();
    put_votes(2, 0, 11, 1);
    put_vote(put_votes(3, 0, 21, 1), 1, 2);
    put_votes(1, 2, 3, 1);
    run();
    assert_all_done();
    assert_int_equal(fixture.db.commits, 2);
    assert_counted(5);
    assert_moved(3, 2);
    fixture_close();
}

/* Partitions were added, and the event was sent again. */
static void an_event_in_two_of_them_counts_once(void **state)
{
    (void)state;
    fixture_open();
    put_vote(put_votes(1, 0, 1, 1), 5, 5);
    put_vote(put_votes(2, 0, 11, 1), 5, 5);
    run();
    assert_all_done();
    assert_int_equal(fixture.db.commits, 1);
    assert_counted(3);
    assert_moved(1, 2);
    assert_moved(2, 2);
    fixture_close();
}

static void a_ring_that_is_full_takes_the_rest_later(void **state)
{
    (void)state;
    fixture_open_with(1); /* two in done */
    for (int32_t partition = 1; partition <= 3; partition++) {
        /* The ring of given ones has room for one: */
        fixture.applier.jobs[partition - 1] = put_votes(partition, 0, partition * 10, 1);
        assert_ptr_equal(ring_take(&fixture.applier.given), fixture.applier.jobs[partition - 1]);
    }
    fixture.applier.job_count = 3;
    for (int i = 0; i < 3; i++)
        applier_step(&fixture.applier, 1);
    assert_int_equal(ring_count(&fixture.applier.done), 2);
    assert_true(applier_step(&fixture.applier, 1) > 0);
    run();
    assert_all_done();
    assert_counted(3);
    fixture_close();
}

/* Each call fails in turn, before and after it takes effect. */
static int fails_at(int call, enum rc rc, bool lost)
{
    int calls;

    fixture_open();
    put_three();
    fixture.db.faults = (struct sink_faults){.fail_at = call, .rc = rc, .lost = lost};
    run();
    calls = fixture.db.faults.calls;
    if (rc == RC_FATAL) {
        assert_true(fixture.applier.failed || call > calls);
        assert_true(call > calls || fixture.db.vote_count == 0);
        fixture_close();
        return calls;
    }
    assert_all_done();
    assert_counted(5);
    assert_moved(1, 2);
    assert_moved(2, 1);
    assert_moved(3, 2);
    fixture_close();
    return calls;
}

static void every_call_may_fail_and_each_is_applied_and_counted_once(void **state)
{
    static const enum rc rcs[] = {RC_RETRY, RC_REJECT, RC_FATAL};
    int calls = fails_at(CALLS_MAX, RC_RETRY, false);

    (void)state;
    assert_in_range(calls, 8, CALLS_MAX - 1);
    for (int call = 1; call <= calls; call++) {
        for (size_t i = 0; i < sizeof(rcs) / sizeof(rcs[0]); i++)
            fails_at(call, rcs[i], false);
        fails_at(call, RC_RETRY, true);
    }
}

/* The answer to the group's COMMIT is lost, and before it is known that it worked, one of them is
 * another's. */
static void a_lost_commit_is_counted_once_after_any_reassignment(void **state)
{
    int commit = fails_at(CALLS_MAX, RC_RETRY, false);

    (void)state;
    for (int32_t partition = 1; partition <= 3; partition++) {
        fixture_open();
        put_three();
        fixture.db.faults = (struct sink_faults){.fail_at = commit, .rc = RC_RETRY, .lost = true};
        assert_true(applier_step(&fixture.applier, 1) > 0);
        assert_int_equal(fixture.db.vote_count, 5);
        fixture.db.progress[partition].now.row.epoch++;
        sink_db_save(&fixture.db);
        run();
        assert_int_equal(fixture.returned, 3);
        for (int32_t i = 1; i <= 3; i++)
            assert_int_equal(fixture.jobs[i - 1].end, i == partition ? JOB_FENCED : JOB_DONE);
        assert_counted(5);
        fixture_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_several_partitions_share_a_transaction),
        cmocka_unit_test(two_batches_of_a_partition_follow_one_another),
        cmocka_unit_test(a_group_has_no_more_rows_than_a_batch_may_have),
        cmocka_unit_test(a_claim_is_no_part_of_a_group),
        cmocka_unit_test(dead_records_and_whole_batches_stay_alone),
        cmocka_unit_test(a_fenced_partition_does_not_delay_the_others),
        cmocka_unit_test(a_partition_with_dropped_months_does_not_delay_the_others),
        cmocka_unit_test(a_revoked_partition_is_dropped_without_the_others),
        cmocka_unit_test(a_partition_revoked_while_the_database_is_unavailable_is_dropped),
        cmocka_unit_test(a_refused_partition_is_retried_alone),
        cmocka_unit_test(a_duplicate_in_one_of_them_is_left_out),
        cmocka_unit_test(an_event_in_two_of_them_counts_once),
        cmocka_unit_test(a_ring_that_is_full_takes_the_rest_later),
        cmocka_unit_test(every_call_may_fail_and_each_is_applied_and_counted_once),
        cmocka_unit_test(a_lost_commit_is_counted_once_after_any_reassignment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
