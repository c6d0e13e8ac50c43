/* SPDX-License-Identifier: MIT */
/* The consumer's engines together, on fakes: the events in the life of a partition, one in each
 * test. */
#include "tests/flow/consume_fixture.h"

#include "common/log.h"
#include "consumer/consumer_metrics.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct topic topic;
static struct sink_db sink;
static struct consume_fixture fixture;
static int64_t now_ms;

static const struct fixture_limits standard = {.rows_max = 10, .batches_max = 6, .wait_ms = 5};

static void open_with(const struct fixture_limits *limits)
{
    topic_init(&topic);
    memset(&sink, 0, sizeof(sink));
    now_ms = 1000;
    consume_fixture_open(&fixture, &topic, &sink, 0, "me", limits);
}

static void open_fixture(void)
{
    open_with(&standard);
}

static void own_all(void)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        topic.partitions[i].owner = 0;
}

static void run(int64_t ms)
{
    consume_fixture_run(&fixture, &now_ms, now_ms + ms);
}

/* Everything that was put is applied, in order, once. */
static void assert_all_applied(size_t votes)
{
    sink_db_check(&sink);
    assert_int_equal(sink.vote_count, votes);
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        if (topic.partitions[i].end > 0)
            assert_int_equal(sink.progress[i].old.row.next_offset, topic.partitions[i].end);
}

static void put_votes(int from, int count)
{
    for (int i = from; i < from + count; i++)
        topic_put_vote(&topic, i, 1 + i % 7, 1);
}

static bool stopped_because(const char *words)
{
    struct err err = {0};

    return condition_read(&fixture.fetch.partitions, &err) && strstr(err.text, words) != NULL;
}

static void all_records_of_all_partitions_are_applied(void **state)
{
    (void)state;
    open_fixture();
    put_votes(0, 500);
    own_all();
    run(1000);
    assert_all_applied(500);
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        assert_int_equal(fixture.stream.stored[i], topic.partitions[i].end);
    put_votes(500, 20);
    run(1000);
    assert_all_applied(520);
    consume_fixture_kill(&fixture);
}

static void it_continues_at_the_offset_in_the_database(void **state)
{
    (void)state;
    open_fixture();
    put_votes(0, 100);
    own_all();
    run(1000);
    consume_fixture_kill(&fixture);
    put_votes(100, 100);
    consume_fixture_open(&fixture, &topic, &sink, 0, "next", &standard);
    own_all();
    run(1000);
    assert_all_applied(200);
    assert_string_equal(sink.progress[1].old.row.owner, "next");
    assert_int_equal(sink.progress[1].old.row.epoch, 2);
    consume_fixture_kill(&fixture);
}

/* The last commits are lost, and no new record comes that would show it. */
static void a_new_connection_finds_that_the_database_has_gone_back(void **state)
{
    static struct sink_db copy;
    int64_t before = metric_value(&consume_went_back);

    (void)state;
    open_fixture();
    sink.faults.session = 1;
    put_votes(0, 100);
    own_all();
    run(1000);
    copy = sink;
    put_votes(100, 100);
    run(10000);
    assert_all_applied(200);
    assert_int_equal(metric_value(&consume_went_back), before);
    sink = copy;
    sink.faults.session = 2;
    run(10000);
    assert_all_applied(200);
    assert_true(metric_value(&consume_went_back) > before);
    consume_fixture_kill(&fixture);
}

static void full_batches_are_sent_at_once_and_others_wait_for_more(void **state)
{
    const struct fixture_limits limits = {.rows_max = 10, .batches_max = 6, .wait_ms = 300};

    (void)state;
    open_with(&limits);
    topic.partitions[1].owner = 0;
    run(50);
    for (int i = 0; i < 15; i++)
        topic_put_vote(&topic, i, 1, 1);
    run(250);
    assert_int_equal(sink.vote_count, 10);
    run(500);
    assert_int_equal(sink.vote_count, 15);
    consume_fixture_kill(&fixture);
}

/* As an applier that wakes at once, before the next line of the fetching step. */
static void step_applier(void *applier)
{
    (void)applier_step(applier, now_ms);
}

static void small_batches_of_several_partitions_share_a_transaction(void **state)
{
    int commits;

    (void)state;
    open_fixture();
    own_all();
    run(500);
    commits = sink.commits;
    for (int i = 0; i < FIXTURE_APPLIERS; i++) {
        fixture.links[i].wake = step_applier;
        fixture.links[i].wake_ctx = &fixture.appliers[i];
    }
    put_votes(0, 14);
    run(300);
    assert_all_applied(14);
    assert_int_equal(sink.commits - commits, FIXTURE_APPLIERS);
    consume_fixture_kill(&fixture);
}

/* Votes of contents whose partition has the first applier. */
static void put_votes_of(int partition, int event, int count)
{
    assert_int_equal(partition % FIXTURE_APPLIERS, 0);
    for (int i = 0; i < count; i++)
        topic_put_vote(&topic, event + i, TOPIC_PARTITIONS + partition, 1);
}

/* The first applier has a batch with so many votes of partition 0 that it cannot commit. */
static void hold_first_applier(int count)
{
    open_fixture();
    own_all();
    run(500);
    sink.faults.away = true;
    put_votes_of(0, 0, count);
    run(300);
    assert_null(ring_peek(&fixture.appliers[0].given));
    assert_int_equal(fixture.appliers[0].job_count - fixture.appliers[0].job_at, 1);
}

static void small_batches_wait_for_the_end_of_others_and_then_share_a_transaction(void **state)
{
    int commits;

    (void)state;
    hold_first_applier(1);
    put_votes_of(0, 1, 1);
    put_votes_of(2, 2, 1);
    run(300);
    assert_null(ring_peek(&fixture.appliers[0].given));
    commits = sink.commits;
    sink.faults.away = false;
    run(5000);
    assert_all_applied(3);
    assert_int_equal(sink.commits - commits, 2);
    consume_fixture_kill(&fixture);
}

static void batches_that_fit_into_no_common_transaction_do_not_wait_for_each_other(void **state)
{
    (void)state;
    hold_first_applier(6);
    put_votes_of(2, 6, 6);
    run(300);
    assert_non_null(ring_peek(&fixture.appliers[0].given));
    sink.faults.away = false;
    run(5000);
    assert_all_applied(12);
    consume_fixture_kill(&fixture);
}

static void more_partitions_than_batches_are_served_in_turn(void **state)
{
    const struct fixture_limits limits = {.rows_max = 10, .batches_max = 1, .wait_ms = 1};

    (void)state;
    open_with(&limits);
    put_votes(0, 300);
    own_all();
    run(2000);
    assert_all_applied(300);
    assert_int_equal(fixture.fetch.job_count, 1);
    consume_fixture_kill(&fixture);
}

static void while_the_database_is_unavailable_memory_is_bounded_and_nothing_is_lost(void **state)
{
    (void)state;
    open_fixture();
    own_all();
    put_votes(0, 100);
    run(300);
    sink.faults.away = true;
    put_votes(100, 800);
    run(60000);
    assert_true(condition_read(&fixture.appliers[0].database, NULL));
    assert_true(fixture.fetch.job_count <= standard.batches_max);
    sink.faults.away = false;
    run(10000);
    assert_false(condition_read(&fixture.appliers[0].database, NULL));
    assert_all_applied(900);
    consume_fixture_kill(&fixture);
}

static void a_partition_revoked_while_its_claim_waits_is_not_claimed(void **state)
{
    (void)state;
    open_fixture();
    own_all();
    sink.faults.away = true;
    run(1000);
    topic.partitions[1].owner = TOPIC_NOBODY;
    run(1000);
    sink.faults.away = false;
    run(10000);
    assert_false(sink.progress[1].old.row.found);
    assert_true(sink.progress[2].old.row.found);
    consume_fixture_kill(&fixture);
}

static void a_fatal_error_of_the_database_ends_it(void **state)
{
    (void)state;
    open_fixture();
    put_votes(0, 10);
    own_all();
    sink.faults = (struct sink_faults){.fail_at = 6, .rc = RC_FATAL};
    run(1000);
    assert_true(fixture.ended);
    assert_true(fixture.appliers[0].failed || fixture.appliers[1].failed);
    consume_fixture_kill(&fixture);
}

static void a_fatal_error_of_the_stream_ends_it(void **state)
{
    (void)state;
    open_fixture();
    own_all();
    run(500);
    fixture.stream.failed = true;
    run(1000);
    assert_true(fixture.fetch.failed);
    consume_fixture_kill(&fixture);
}

static void a_call_that_is_refused_for_no_vote_stops_its_partition(void **state)
{
    (void)state;
    open_fixture();
    own_all();
    run(500);
    topic_put_vote(&topic, 1, 1, 1);
    sink.faults.refused_totals = true;
    run(1500);
    assert_true(stopped_because("the total is refused"));
    assert_int_equal(metric_value(&consume_stopped), 1);
    sink.faults.refused_totals = false;
    run(20000);
    assert_false(stopped_because(""));
    assert_all_applied(1);
    consume_fixture_kill(&fixture);
}

static void deleted_records_stop_the_partition_until_an_operator_decides(void **state)
{
    (void)state;
    open_fixture();
    for (int i = 0; i < 50; i++)
        topic_put_vote(&topic, i, 1, 1);
    topic.partitions[1].owner = 0;
    run(500);
    consume_fixture_kill(&fixture);
    for (int i = 50; i < 100; i++)
        topic_put_vote(&topic, i, 1, 1);
    topic.partitions[1].begin = 80;
    consume_fixture_open(&fixture, &topic, &sink, 0, "next", &standard);
    topic.partitions[1].owner = 0;
    run(30000);
    assert_true(stopped_because("offset 50 is not there"));
    assert_int_equal(sink.vote_count, 50);
    sink.progress[1].now.row.next_offset = 80;
    sink.progress[1].now.row.epoch++;
    sink_db_save(&sink);
    run(30000);
    assert_false(stopped_because(""));
    assert_int_equal(sink.vote_count, 70);
    consume_fixture_kill(&fixture);
}

static void a_topic_made_again_stops_its_partitions(void **state)
{
    (void)state;
    open_fixture();
    for (int i = 0; i < 50; i++)
        topic_put_vote(&topic, i, 1, 1);
    topic.partitions[1].owner = 0;
    run(500);
    snprintf(topic.id, sizeof(topic.id), "second");
    run(2000);
    assert_true(stopped_because("created again"));
    for (int i = 50; i < 100; i++)
        topic_put_vote(&topic, i, 1, 1);
    run(30000);
    assert_int_equal(sink.vote_count, 50);
    sink.progress[1].now.row.topic_id[0] = '\0';
    sink.progress[1].now.row.epoch++;
    sink_db_save(&sink);
    run(30000);
    assert_int_equal(sink.vote_count, 100);
    assert_string_equal(sink.progress[1].old.row.topic_id, "second");
    consume_fixture_kill(&fixture);
}

static void a_leader_epoch_that_falls_stops_the_partition(void **state)
{
    (void)state;
    open_fixture();
    for (int i = 0; i < 10; i++)
        topic_put_vote(&topic, i, 1, 1);
    for (int i = 0; i < 10; i++)
        topic.partitions[1].records[i].leader_epoch = i < 6 ? 4 : 3;
    topic.partitions[1].owner = 0;
    run(5000);
    assert_true(stopped_because("leader epoch"));
    assert_int_equal(sink.vote_count, 0);
    consume_fixture_kill(&fixture);
}

static void it_waits_for_the_topics_id_before_it_claims(void **state)
{
    (void)state;
    open_fixture();
    fixture.stream.id_unknown = true;
    own_all();
    run(3000);
    assert_false(sink.progress[0].old.row.found);
    fixture.stream.id_unknown = false;
    run(500);
    assert_string_equal(sink.progress[0].old.row.topic_id, "first");
    consume_fixture_kill(&fixture);
}

static void seeks_that_are_refused_are_made_again(void **state)
{
    (void)state;
    open_fixture();
    put_votes(0, 50);
    fixture.stream.seeks_refused = 10;
    own_all();
    run(3000);
    assert_all_applied(50);
    consume_fixture_kill(&fixture);
}

static void start_in_the_middle(void)
{
    open_fixture();
    put_votes(0, 100);
    own_all();
    run(1000);
    consume_fixture_kill(&fixture);
    put_votes(100, 50);
    consume_fixture_open(&fixture, &topic, &sink, 0, "next", &standard);
}

static void a_seek_lost_to_the_beginning_applies_nothing_twice(void **state)
{
    (void)state;
    start_in_the_middle();
    fixture.stream.seeks_lost = TOPIC_PARTITIONS;
    own_all();
    run(5000);
    assert_all_applied(150);
    consume_fixture_kill(&fixture);
}

static void a_seek_lost_to_the_end_skips_nothing(void **state)
{
    (void)state;
    start_in_the_middle();
    fixture.stream.seeks_lost = TOPIC_PARTITIONS;
    fixture.stream.seek_lost_ends = true;
    own_all();
    run(500);
    put_votes(150, 50);
    run(5000);
    assert_all_applied(200);
    consume_fixture_kill(&fixture);
}

/* No record shows it: reads still report the end of the partition. */
static void a_seek_lost_to_the_end_of_an_idle_partition_skips_nothing(void **state)
{
    (void)state;
    start_in_the_middle();
    fixture.stream.seeks_lost = TOPIC_PARTITIONS;
    fixture.stream.seek_lost_ends = true;
    own_all();
    run(10000);
    assert_int_equal(sink.vote_count, 100);
    run(10000);
    assert_all_applied(150);
    consume_fixture_kill(&fixture);
}

static void offsets_without_records_at_the_end_are_no_lag(void **state)
{
    (void)state;
    open_fixture();
    topic_put_vote(&topic, 1, 1, 1);
    topic_put_hole(&topic, 1);
    topic.partitions[1].owner = 0;
    run(3000);
    assert_all_applied(1);
    assert_int_equal(metric_value(&consume_lag), 0);
    assert_int_equal(metric_value(&consume_oldest_age), 0);
    assert_int_equal(fixture.stream.stored[1], 2);
    /* Alone, behind the applied records. */
    topic_put_hole(&topic, 1);
    run(3000);
    assert_all_applied(1);
    assert_int_equal(metric_value(&consume_lag), 0);
    /* The leader epoch of a mark is not known. */
    assert_int_equal(sink.progress[1].old.row.leader_epoch, -1);
    topic_put_vote(&topic, 2, 1, 1);
    run(1000);
    assert_all_applied(2);
    consume_fixture_kill(&fixture);
}

/* No record tells whether the seek was lost, so the end is believed later, and still in time. */
static void a_partition_of_marks_alone_is_no_lag_after_some_seeks(void **state)
{
    (void)state;
    open_fixture();
    topic_put_hole(&topic, 1);
    topic_put_hole(&topic, 1);
    topic.partitions[1].owner = 0;
    run(20000);
    assert_int_equal(metric_value(&consume_lag), 2);
    run(38000);
    assert_int_equal(metric_value(&consume_lag), 0);
    assert_int_equal(metric_value(&consume_oldest_age), 0);
    assert_all_applied(0);
    topic_put_vote(&topic, 1, 1, 1);
    run(1000);
    assert_all_applied(1);
    consume_fixture_kill(&fixture);
}

static void offsets_that_hold_no_record_are_passed(void **state)
{
    (void)state;
    open_fixture();
    topic_put_hole(&topic, 1);
    topic_put_vote(&topic, 1, 1, 1);
    topic_put_hole(&topic, 1);
    topic_put_hole(&topic, 1);
    topic_put_vote(&topic, 2, 1, 1);
    topic.partitions[1].owner = 0;
    run(1000);
    assert_all_applied(2);
    consume_fixture_kill(&fixture);
    topic_put_hole(&topic, 1);
    topic_put_vote(&topic, 3, 1, 1);
    consume_fixture_open(&fixture, &topic, &sink, 0, "next", &standard);
    topic.partitions[1].owner = 0;
    run(1000);
    assert_all_applied(3);
    consume_fixture_kill(&fixture);
}

static void a_stale_owner_is_fenced_and_comes_back_when_it_still_holds_the_partition(void **state)
{
    (void)state;
    open_fixture();
    topic.partitions[1].owner = 0;
    run(500);
    /* Another process has claimed the partition and ended, and the group did not notice. */
    sink.progress[1].now.row.epoch++;
    sink_db_save(&sink);
    for (int i = 0; i < 30; i++)
        topic_put_vote(&topic, i, 1, 1);
    run(500);
    assert_int_equal(sink.vote_count, 0);
    run(5000);
    assert_all_applied(30);
    consume_fixture_kill(&fixture);
}

/* The votes are from 2026-09-21, which is day 20717. */
static void a_month_dropped_while_its_partition_is_held_counts_no_late_vote(void **state)
{
    (void)state;
    open_fixture();
    topic.partitions[1].owner = 0;
    topic_put_vote(&topic, 0, 1, 1);
    run(500);
    assert_int_equal(sink.vote_count, 1);
    sink.begin_day = 20718;
    /* The first event again: its event id was dropped with its row. */
    sink_db_drop_votes(&sink);
    topic_put_vote(&topic, 0, 1, 1);
    topic_put_vote(&topic, 1, 1, 1);
    run(5000);
    assert_int_equal(sink.vote_count, 0);
    assert_int_equal(sink.tallies[1].old.votes, 1);
    assert_int_equal(sink.dead_count, 2);
    assert_string_equal(sink.dead[1].old.reason_class, "too_old");
    assert_int_equal(sink.progress[1].old.row.next_offset, 3);
    consume_fixture_kill(&fixture);
}

static void an_unavailable_broker_is_probed_until_it_is_back(void **state)
{
    (void)state;
    open_fixture();
    assert_true(condition_read(&fixture.fetch.broker, NULL));
    fixture.stream.away = true;
    run(10000);
    assert_true(condition_read(&fixture.fetch.broker, NULL));
    assert_in_range(fixture.stream.probes, 4, 6);
    fixture.stream.away = false;
    run(3000);
    assert_false(condition_read(&fixture.fetch.broker, NULL));
    fixture.stream.probes = 0;
    run(10000);
    assert_in_range(fixture.stream.probes, 0, 2);
    consume_fixture_kill(&fixture);
}

/* The library does not say so each time. */
static void a_broker_that_stops_answering_is_noticed(void **state)
{
    struct err err = {0};

    (void)state;
    open_fixture();
    run(3000);
    assert_false(condition_read(&fixture.fetch.broker, NULL));
    fixture.stream.away = true;
    run(15000);
    assert_true(condition_read(&fixture.fetch.broker, &err));
    assert_non_null(strstr(err.text, "no broker answers"));
    fixture.stream.away = false;
    run(3000);
    assert_false(condition_read(&fixture.fetch.broker, NULL));
    consume_fixture_kill(&fixture);
}

static void one_late_answer_is_no_failure(void **state)
{
    (void)state;
    open_fixture();
    run(3000);
    fixture.stream.probes = 0;
    fixture.stream.away = true;
    for (int i = 0; i < 100 && fixture.stream.probes == 0; i++)
        run(100);
    assert_int_equal(fixture.stream.probes, 1);
    fixture.stream.away = false;
    assert_false(condition_read(&fixture.fetch.broker, NULL));
    run(3000);
    assert_false(condition_read(&fixture.fetch.broker, NULL));
    consume_fixture_kill(&fixture);
}

static void a_missing_privilege_is_reported_until_partitions_are_assigned(void **state)
{
    struct err err = {0};

    (void)state;
    open_fixture();
    assert_false(condition_read(&fixture.fetch.access, NULL));
    fixture.stream.denied = true;
    run(20000);
    assert_true(condition_read(&fixture.fetch.access, &err));
    assert_string_equal(err.text, "no right");
    own_all();
    run(100);
    assert_false(condition_read(&fixture.fetch.access, NULL));
    consume_fixture_kill(&fixture);
}

static void a_compacted_topic_is_reported_until_it_is_not(void **state)
{
    struct err err = {0};

    (void)state;
    open_fixture();
    own_all();
    run(1500);
    assert_false(condition_read(&fixture.fetch.topics, NULL));
    fixture.stream.compacted = true;
    put_votes(0, 8);
    run(1500);
    assert_true(condition_read(&fixture.fetch.topics, &err));
    assert_non_null(strstr(err.text, "compacted"));
    assert_all_applied(8);
    fixture.stream.compacted = false;
    run(1500);
    assert_false(condition_read(&fixture.fetch.topics, NULL));
    consume_fixture_kill(&fixture);
}

static void gauges_tell_lag_age_and_partitions(void **state)
{
    (void)state;
    open_fixture();
    own_all();
    run(1500);
    sink.faults.away = true;
    put_votes(0, 40);
    run(3000);
    assert_int_equal(metric_value(&consume_partitions), TOPIC_PARTITIONS);
    assert_int_equal(metric_value(&consume_lag), 40);
    sink.faults.away = false;
    run(5000);
    assert_int_equal(metric_value(&consume_lag), 0);
    assert_int_equal(metric_value(&consume_oldest_age), 0);
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        topic.partitions[i].owner = TOPIC_NOBODY;
    run(1500);
    assert_int_equal(metric_value(&consume_partitions), 0);
    consume_fixture_kill(&fixture);
}

static unsigned long long count_pauses(void)
{
    unsigned long long count = 0;

    for (size_t i = 0; i <= METRIC_BUCKETS; i++)
        count += atomic_load(&consume_rebalance_pause.buckets[i]);
    return count;
}

static void own_none(void)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        topic.partitions[i].owner = TOPIC_NOBODY;
}

static void a_rebalance_pauses_a_partition_until_its_records_are_read(void **state)
{
    unsigned long long count = count_pauses();
    int64_t assigned = metric_value(&consume_assigned);
    int64_t revoked = metric_value(&consume_revoked);
    int64_t us;

    (void)state;
    open_fixture();
    own_all();
    run(1000);
    assert_int_equal(count_pauses(), count + TOPIC_PARTITIONS);
    assert_int_equal(metric_value(&consume_assigned), assigned + 1);
    us = metric_value(&consume_rebalance_pause);
    /* All are given back and assigned again, as in an eager group. The claim waits for the
     * database. */
    sink.faults.away = true;
    own_none();
    run(500);
    own_all();
    run(2000);
    assert_int_equal(count_pauses(), count + TOPIC_PARTITIONS);
    sink.faults.away = false;
    run(10000);
    assert_int_equal(count_pauses(), count + 2ULL * TOPIC_PARTITIONS);
    assert_true(metric_value(&consume_rebalance_pause) - us >= TOPIC_PARTITIONS * 2500000LL);
    assert_int_equal(metric_value(&consume_assigned), assigned + 2);
    assert_int_equal(metric_value(&consume_revoked), revoked + 1);
    /* Another claim, of a new connection, is no rebalance. */
    sink.faults.session++;
    run(5000);
    assert_int_equal(count_pauses(), count + 2ULL * TOPIC_PARTITIONS);
    consume_fixture_kill(&fixture);
}

static void the_time_with_another_owner_is_no_pause(void **state)
{
    unsigned long long count = count_pauses();
    int64_t us;

    (void)state;
    open_fixture();
    topic.partitions[1].owner = 0;
    topic.partitions[2].owner = 0;
    run(1000);
    us = metric_value(&consume_rebalance_pause);
    topic.partitions[1].owner = 1;
    topic.partitions[2].owner = TOPIC_NOBODY;
    run(200);
    topic.partitions[2].owner = 0;
    run(60000);
    topic.partitions[1].owner = 0;
    run(1000);
    assert_int_equal(count_pauses(), count + 4);
    assert_true(metric_value(&consume_rebalance_pause) - us >= 200000);
    assert_true(metric_value(&consume_rebalance_pause) - us < 5000000);
    consume_fixture_kill(&fixture);
}

static void the_wait_of_a_stopped_partition_is_no_pause(void **state)
{
    unsigned long long count = count_pauses();

    (void)state;
    open_fixture();
    put_votes(0, 40);
    own_all();
    run(1000);
    own_none();
    run(1000);
    snprintf(topic.id, sizeof(topic.id), "%s", "another id");
    own_all();
    run(5000);
    assert_true(stopped_because("was deleted and created again"));
    assert_int_equal(count_pauses(), count + TOPIC_PARTITIONS);
    consume_fixture_kill(&fixture);
}

static void waiting_records_grow_older_while_servers_are_unavailable(void **state)
{
    int64_t age_ms;

    (void)state;
    open_fixture();
    own_all();
    run(1500);
    assert_int_equal(metric_value(&consume_oldest_age), 0);
    /* In flight, and must not be written. */
    sink.faults.away = true;
    put_votes(0, 8);
    run(1500);
    age_ms = metric_value(&consume_oldest_age);
    run(5000);
    assert_in_range(metric_value(&consume_oldest_age) - age_ms, 4900, 5100);
    sink.faults.away = false;
    run(4000);
    assert_int_equal(metric_value(&consume_oldest_age), 0);
    /* Known to be there, and not to be read. */
    fixture.stream.away = true;
    put_votes(8, 16);
    run(6000);
    assert_in_range(metric_value(&consume_oldest_age), 4900, 6100);
    fixture.stream.away = false;
    run(4000);
    assert_int_equal(metric_value(&consume_oldest_age), 0);
    assert_int_equal(metric_value(&consume_lag), 0);
    consume_fixture_kill(&fixture);
}

static void a_partition_that_cannot_be_claimed_is_seen_to_wait(void **state)
{
    (void)state;
    open_fixture();
    sink.faults.away = true;
    put_votes(0, 8);
    own_all();
    run(6000);
    assert_in_range(metric_value(&consume_oldest_age), 4900, 6100);
    sink.faults.away = false;
    run(4000);
    assert_int_equal(metric_value(&consume_oldest_age), 0);
    consume_fixture_kill(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_records_of_all_partitions_are_applied),
        cmocka_unit_test(it_continues_at_the_offset_in_the_database),
        cmocka_unit_test(a_new_connection_finds_that_the_database_has_gone_back),
        cmocka_unit_test(full_batches_are_sent_at_once_and_others_wait_for_more),
        cmocka_unit_test(small_batches_of_several_partitions_share_a_transaction),
        cmocka_unit_test(small_batches_wait_for_the_end_of_others_and_then_share_a_transaction),
        cmocka_unit_test(batches_that_fit_into_no_common_transaction_do_not_wait_for_each_other),
        cmocka_unit_test(more_partitions_than_batches_are_served_in_turn),
        cmocka_unit_test(while_the_database_is_unavailable_memory_is_bounded_and_nothing_is_lost),
        cmocka_unit_test(a_partition_revoked_while_its_claim_waits_is_not_claimed),
        cmocka_unit_test(a_fatal_error_of_the_database_ends_it),
        cmocka_unit_test(a_fatal_error_of_the_stream_ends_it),
        cmocka_unit_test(a_call_that_is_refused_for_no_vote_stops_its_partition),
        cmocka_unit_test(deleted_records_stop_the_partition_until_an_operator_decides),
        cmocka_unit_test(a_topic_made_again_stops_its_partitions),
        cmocka_unit_test(a_leader_epoch_that_falls_stops_the_partition),
        cmocka_unit_test(it_waits_for_the_topics_id_before_it_claims),
        cmocka_unit_test(seeks_that_are_refused_are_made_again),
        cmocka_unit_test(a_seek_lost_to_the_beginning_applies_nothing_twice),
        cmocka_unit_test(a_seek_lost_to_the_end_skips_nothing),
        cmocka_unit_test(a_seek_lost_to_the_end_of_an_idle_partition_skips_nothing),
        cmocka_unit_test(offsets_without_records_at_the_end_are_no_lag),
        cmocka_unit_test(a_partition_of_marks_alone_is_no_lag_after_some_seeks),
        cmocka_unit_test(offsets_that_hold_no_record_are_passed),
        cmocka_unit_test(a_stale_owner_is_fenced_and_comes_back_when_it_still_holds_the_partition),
        cmocka_unit_test(a_month_dropped_while_its_partition_is_held_counts_no_late_vote),
        cmocka_unit_test(an_unavailable_broker_is_probed_until_it_is_back),
        cmocka_unit_test(a_broker_that_stops_answering_is_noticed),
        cmocka_unit_test(one_late_answer_is_no_failure),
        cmocka_unit_test(a_missing_privilege_is_reported_until_partitions_are_assigned),
        cmocka_unit_test(a_compacted_topic_is_reported_until_it_is_not),
        cmocka_unit_test(gauges_tell_lag_age_and_partitions),
        cmocka_unit_test(a_rebalance_pauses_a_partition_until_its_records_are_read),
        cmocka_unit_test(the_time_with_another_owner_is_no_pause),
        cmocka_unit_test(the_wait_of_a_stopped_partition_is_no_pause),
        cmocka_unit_test(waiting_records_grow_older_while_servers_are_unavailable),
        cmocka_unit_test(a_partition_that_cannot_be_claimed_is_seen_to_wait),
    };

    log_init(LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
