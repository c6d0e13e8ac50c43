/* SPDX-License-Identifier: MIT */
/* A lane that reads the binary log and publishes exactly once, on fakes: a reader of committed
 * transactions finds each row once, also if it was moved into the retry queue: the fake of the
 * queue publishes a task as outbox/retry/handlers/exact_publisher_kafka.h does. The fake checks
 * invariant R19 at each commit. */
#include "common/log.h"
#include "tests/flow/stream_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 300
#define STOP_SEEDS 100
#define DRAIN_MS 600000

static struct stream_fixture fixture;
static struct fake_relay *const fake = &fixture.fake;
static struct fake_binlog *const binlog = &fixture.log;

static void begin(uint64_t seed, int64_t window_rows_max)
{
    stream_fixture_init_exact(&fixture, seed, window_rows_max);
    stream_fixture_take_lease(&fixture);
}

static int set_up(void **state)
{
    (void)state;
    begin(7, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stream_fixture_done(&fixture);
    return 0;
}

static void wait_until_idle(void)
{
    for (int i = 0; i < 100000 && !atomic_load(&fixture.lane.lease.idle); i++)
        stream_fixture_run(&fixture, 1);
    assert_true(atomic_load(&fixture.lane.lease.idle));
}

static void wait_for_rows(size_t rows)
{
    for (int i = 0; i < 10000 && fake->log_count < rows; i++)
        stream_fixture_run(&fixture, 1);
    assert_true(fake->log_count >= rows);
}

static void assert_all_is_well(uint64_t seed)
{
    fake_binlog_read_committed(binlog);
    if (binlog->broken[0])
        fail_msg("seed %llu: %s", (unsigned long long)seed, binlog->broken);
    if (fake_relay_lost(fake) > 0)
        fail_msg("seed %llu: %zu rows are lost", (unsigned long long)seed, fake_relay_lost(fake));
    if (fake_relay_overtaken(fake) > 0)
        fail_msg("seed %llu: %zu rows are overtaken", (unsigned long long)seed,
                 fake_relay_overtaken(fake));
    if (fake_binlog_not_once(binlog) > 0)
        fail_msg("seed %llu: %zu rows are not there once", (unsigned long long)seed,
                 fake_binlog_not_once(binlog));
}

/* As the leases do when the lane was fenced. */
static void take_lost_lease(void)
{
    stream_fixture_lose_lease(&fixture);
    wait_until_idle();
    atomic_store(&fixture.lane.lease.origin_lost, false);
    stream_fixture_take_lease(&fixture);
}

static bool drain(void)
{
    for (int64_t ms = 0; ms < DRAIN_MS; ms += 1000) {
        if (stream_fixture_drain(&fixture, 1000))
            return true;
        if (atomic_load(&fixture.lane.lease.origin_lost))
            take_lost_lease();
    }
    return false;
}

static void assert_drains(uint64_t seed)
{
    const struct row_progress *progress = &fixture.reader.progress;

    if (!drain() && !binlog->broken[0])
        fail_msg("seed %llu: not drained: rows %lld to %lld, read to %lld, %zu passed on, %zu "
                 "tasks, place %zu of %zu saved, takeover %d, claimed %d, \"%s\", \"%s\"",
                 (unsigned long long)seed, (long long)progress->low, (long long)progress->high,
                 (long long)progress->read, fixture.reader.with_others, fake_relay_tasks(fake),
                 (size_t)binlog->saved.offset, binlog->count, (int)fixture.reader.takeover,
                 (int)binlog->claimed, fixture.lane.sending.err.text,
                 fixture.lane.reading.err.text);
    assert_all_is_well(seed);
}

/* Single cases */

static void rows_are_acknowledged_when_their_transaction_is_committed(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    assert_int_equal(binlog->commits, 1);
    binlog->faults.commit = 1000;
    fake_binlog_append(binlog, 12);
    wait_for_rows(12);
    stream_fixture_run(&fixture, 30);
    assert_int_equal(fixture.reader.with_others, 12);
    binlog->faults.commit = 0;
    assert_drains(7);
    assert_int_equal(fake->log_count, 12);
}

static void many_small_transactions_share_one_commit(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    for (int i = 0; i < 60; i++)
        fake_binlog_append(binlog, 1);
    assert_drains(7);
    assert_true(binlog->commits < 20);
    assert_int_equal(fake->log_count, 60);
}

/* The position in relay_position is older than that of the record. */
static void a_kill_repeats_nothing(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 1500);
    fake_binlog_append(binlog, 12);
    for (int i = 0; i < 1000 && binlog->commits < 2; i++)
        stream_fixture_run(&fixture, 1);
    assert_int_equal(binlog->commits, 2);
    assert_int_equal(binlog->saved_rows, 0);
    stream_fixture_restart(&fixture);
    assert_drains(7);
    assert_int_equal(fake->log_count, 12);
}

static void a_kill_before_the_commit_aborts_the_transaction(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 12);
    wait_for_rows(6);
    assert_int_equal(binlog->commits, 1);
    stream_fixture_restart(&fixture);
    stream_fixture_run(&fixture, 1000);
    assert_true(fake->log_count > 12);
    assert_drains(7);
    assert_int_equal(fake->log_count, 12);
}

static void a_fenced_producer_ends_the_lease(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 12);
    wait_for_rows(4);
    fake_binlog_fence(binlog);
    for (int i = 0; i < 1000 && !atomic_load(&fixture.lane.lease.origin_lost); i++)
        stream_fixture_run(&fixture, 1);
    assert_true(atomic_load(&fixture.lane.lease.origin_lost));
    wait_until_idle();
    atomic_store(&fixture.lane.lease.origin_lost, false);
    fake->epoch++;
    stream_fixture_take_lease(&fixture);
    assert_drains(7);
    assert_int_equal(fake->log_count, 12);
}

/* The producer was reset, and meanwhile another process has published. */
static void a_record_of_another_process_ends_the_lease(void **state)
{
    size_t commits;

    (void)state;
    stream_fixture_run(&fixture, 500);
    commits = binlog->commits;
    fake_binlog_fence(binlog);
    binlog->last.number += 5;
    binlog->last.epoch++;
    binlog->claimed = BROKER_UNCLAIMED;
    fake_binlog_append(binlog, 3);
    stream_fixture_run(&fixture, 1000);
    assert_true(atomic_load(&fixture.lane.lease.origin_lost));
    assert_int_equal(binlog->commits, commits);
}

static void a_record_of_a_later_lease_stops_the_lane(void **state)
{
    uint64_t transactions;

    (void)state;
    stream_fixture_run(&fixture, 500);
    binlog->last.epoch = 50;
    stream_fixture_restart(&fixture);
    transactions = binlog->transactions;
    stream_fixture_run(&fixture, 3000);
    /* The other one is not fenced. */
    assert_int_equal(binlog->transactions, transactions);
    assert_true(fixture.lane.reading.failing);
    assert_non_null(strstr(fixture.lane.reading.err.text, "transactional_id"));
}

/* A lane that publishes at least once has moved the position, or an operator has. */
static void a_saved_position_of_a_later_lease_counts(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    stream_fixture_run(&fixture, 3000);
    assert_int_equal(binlog->saved_rows, 5);
    binlog->last.position.offset = 0;
    buf_reset(&binlog->last.position.before);
    binlog->last.position.file[0] = '\0';
    fake->epoch++;
    binlog->saved_epoch = fake->epoch;
    stream_fixture_restart(&fixture);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    assert_int_equal(fake->log_count, 10);
}

static void a_refused_row_is_moved_and_the_others_are_published_once(void **state)
{
    int64_t bad;

    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 6);
    for (int i = 0; i < 5; i++)
        fake_binlog_write(binlog, 4);
    bad = fake_binlog_write(binlog, 4);
    fake->rows[bad].bad = true;
    for (int i = 0; i < 8; i++)
        fake_binlog_write(binlog, i);
    fake_binlog_commit(binlog);
    bad = fake_binlog_write(binlog, 5);
    fake->rows[bad].sync_bad = true;
    for (int i = 0; i < 5; i++)
        fake_binlog_write(binlog, 5);
    fake_binlog_commit(binlog);
    stream_fixture_run(&fixture, 5000);
    fake->healed = true;
    assert_drains(7);
    assert_int_equal(fake->log_count, binlog->row_count);
}

/* Until the row is in the retry queue, whose tasks do not run. */
static void move_a_row(void)
{
    int64_t bad;

    stream_fixture_run(&fixture, 500);
    fake->task_chance = 0;
    bad = fake_binlog_write(binlog, 4);
    fake->rows[bad].sync_bad = true;
    fake_binlog_write(binlog, 4);
    fake_binlog_commit(binlog);
    for (int i = 0; i < 10000 && fake_relay_tasks(fake) < 2; i++)
        stream_fixture_run(&fixture, 1);
    assert_int_equal(fake_relay_tasks(fake), 2);
    fake->healed = true;
}

static void a_task_is_not_published_before_the_position_has_passed_its_row(void **state)
{
    (void)state;
    move_a_row();
    fake_relay_run_task(fake, 4);
    assert_int_equal(fake_relay_tasks(fake), 2);
    assert_int_equal(fake->log_count, 0);
    stream_fixture_run(&fixture, 10000);
    fake_relay_run_task(fake, 4);
    assert_int_equal(fake_relay_tasks(fake), 1);
    assert_int_equal(fake->log_count, 1);
    fake->task_chance = 1000;
    assert_drains(7);
    assert_int_equal(fake->replaced, 0);
}

/* The next holder reads the rows again. */
static void the_tasks_of_a_move_before_a_kill_are_replaced(void **state)
{
    (void)state;
    move_a_row();
    stream_fixture_restart(&fixture);
    stream_fixture_run(&fixture, 10000);
    fake_relay_run_task(fake, 4);
    fake_relay_run_task(fake, 4);
    assert_int_equal(fake->replaced, 2);
    assert_int_equal(fake->log_count, 0);
    fake->task_chance = 1000;
    assert_drains(7);
    assert_int_equal(fake->log_count, 2);
    assert_int_equal(fake->undecided, 0);
}

static void the_tasks_of_a_move_before_a_commit_outlive_a_kill(void **state)
{
    (void)state;
    move_a_row();
    stream_fixture_run(&fixture, 10000);
    for (int i = 0; i < 3; i++) {
        stream_fixture_restart(&fixture);
        stream_fixture_run(&fixture, 2000);
    }
    fake->task_chance = 1000;
    assert_drains(7);
    assert_int_equal(fake->log_count, 2);
    assert_int_equal(fake->replaced, 0);
}

/* What was saved, as an operator's command or a restored copy of the database has it. */
struct copy {
    struct stream_position position;
    int64_t epoch;
    size_t rows;
};

static void take_copy(struct copy *copy)
{
    memset(copy, 0, sizeof(*copy));
    stream_position_copy(&copy->position, &binlog->saved);
    copy->epoch = binlog->saved_epoch;
    copy->rows = binlog->saved_rows;
}

static void put_copy(struct copy *copy)
{
    stream_position_copy(&binlog->saved, &copy->position);
    binlog->saved_epoch = copy->epoch;
    binlog->saved_rows = copy->rows;
    buf_done(&copy->position.before);
}

/* Writes the end of the log as the saved position, under this epoch. */
static void save_end(int64_t epoch)
{
    struct stream_position *saved = &binlog->saved;

    buf_reset(&saved->before);
    buf_print(&saved->before, "0-1-%zu", binlog->count);
    snprintf(saved->file, sizeof(saved->file), "0-1-%zu", binlog->count);
    saved->gtid[0] = '\0';
    saved->by_gtid = true;
    saved->offset = binlog->count;
    saved->rows_done = 0;
    binlog->saved_epoch = epoch;
    binlog->saved_rows = binlog->recorded_count = binlog->row_count;
    for (size_t i = 0; i < binlog->row_count; i++)
        binlog->done[binlog->rows[i]] = binlog->recorded[binlog->rows[i]] = true;
    binlog->found = true;
}

static void assert_lane_is_stopped(const char *text)
{
    const size_t commits = binlog->commits;

    stream_fixture_run(&fixture, 10000);
    assert_true(fixture.lane.reading.failing);
    if (!strstr(fixture.lane.reading.err.text, text))
        fail_msg("%s", fixture.lane.reading.err.text);
    assert_int_equal(binlog->commits, commits);
}

/* A transaction that ends above 4 GiB in its file, until the server begins the next file. */
static void a_position_that_no_server_opens_is_not_committed(void **state)
{
    uint64_t offset;

    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 3);
    assert_drains(7);
    offset = binlog->last.position.offset;
    binlog->far_from = binlog->count + 1;
    binlog->far_to = SIZE_MAX;
    for (int i = 0; i < 5; i++) {
        fake_binlog_append(binlog, 4);
        stream_fixture_run(&fixture, 5000);
    }
    assert_int_equal(fake->log_count, 23);
    assert_int_equal(binlog->last.position.offset, offset);
    assert_int_equal(binlog->last.rows, 20);
    stream_fixture_restart(&fixture);
    stream_fixture_take_lease(&fixture);
    stream_fixture_run(&fixture, 20000);
    binlog->far_to = binlog->count + 1;
    fake_binlog_append(binlog, 1);
    assert_true(drain());
    assert_int_equal(fake->log_count, 24);
    assert_int_equal(binlog->last.position.offset, binlog->count);
    assert_string_equal(binlog->broken, "");
}

/* `tallybox lanes begin` of a lane that no relay has ever held. */
static void a_lane_begins_where_a_command_has_written_it(void **state)
{
    (void)state;
    fake_binlog_append(binlog, 7);
    save_end(0);
    stream_fixture_run(&fixture, 500);
    assert_int_equal(binlog->last.position.offset, binlog->saved.offset);
    fake_binlog_append(binlog, 5);
    assert_true(drain());
    assert_int_equal(fake->log_count, 5);
    assert_string_equal(binlog->broken, "");
}

/* `tallybox lanes begin --replace-position`. */
static void a_command_replaces_the_position_of_the_record(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    fake_binlog_append(binlog, 7);
    fake->epoch++;
    save_end(fake->epoch);
    stream_fixture_restart(&fixture);
    fake_binlog_append(binlog, 3);
    assert_true(drain());
    assert_int_equal(fake->log_count, 8);
    assert_string_equal(binlog->broken, "");
}

/* As after `tallybox relay source LANE table`. */
static void a_record_without_a_saved_position_stops_the_lane(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    binlog->found = false;
    stream_fixture_restart(&fixture);
    assert_lane_is_stopped("tallybox relay source outbox binlog");
    save_end(fake->epoch);
    fake_binlog_append(binlog, 3);
    stream_fixture_restart(&fixture);
    assert_true(drain());
    assert_int_equal(fake->log_count, 8);
}

static void a_kill_before_the_first_save_loses_nothing(void **state)
{
    (void)state;
    binlog->refuses = true;
    stream_fixture_run(&fixture, 1000);
    assert_int_equal(binlog->commits, 1);
    assert_true(binlog->last.begun);
    assert_false(binlog->found);
    stream_fixture_restart(&fixture);
    stream_fixture_run(&fixture, 1000);
    binlog->refuses = false;
    stream_fixture_run(&fixture, 5000);
    assert_true(binlog->found);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    assert_false(binlog->last.begun);
}

/* The epochs of lease and position go back with the data, to those of the record. */
static void a_restored_database_stops_the_lane(void **state)
{
    struct copy copy;
    int64_t epoch;

    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    take_copy(&copy);
    epoch = fake->epoch;
    fake_binlog_append(binlog, 7);
    assert_drains(7);
    fake_binlog_append(binlog, 3);
    assert_drains(7);
    put_copy(&copy);
    fake->epoch = epoch;
    stream_fixture_restart(&fixture);
    assert_lane_is_stopped("was restored");
    /* Whatever is written meanwhile, and how often the relay is started. */
    fake_binlog_append(binlog, 20);
    stream_fixture_restart(&fixture);
    assert_lane_is_stopped("was restored");
}

/* The other threads of the lane connect while the sender reads what is in Kafka. A database that is
 * not accepted by then would end the lease, each time. */
static void the_next_database_is_accepted_before_kafka_is_asked(void **state)
{
    size_t before = binlog->accepts;

    (void)state;
    for (int i = 0; i < 100 && fixture.reader.takeover == READER_ASKS; i++)
        stream_reader_step(&fixture.reader, fake->now_ms);
    assert_int_equal(fixture.reader.takeover, READER_READS);
    assert_int_equal(binlog->accepts, before + 1);
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    /* What is in Kafka and what this database has must belong together. */
    assert_int_equal(binlog->accepts, before + 1);
}

/* The log goes on behind the lost transactions, and gives their GTIDs to other ones. */
static void a_shorter_log_stops_the_lane(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    binlog->last.position.offset += 3;
    stream_fixture_restart(&fixture);
    assert_lane_is_stopped("lacks transactions");
    fake_binlog_append(binlog, 5);
    assert_lane_is_stopped("lacks transactions");
}

static void a_record_with_more_rows_than_the_window_stops_the_lane(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    binlog->last.rows = 65;
    stream_fixture_restart(&fixture);
    assert_lane_is_stopped("relay.window_rows_max");
}

static void wait_for_failure(void)
{
    for (int i = 0; i < 10000 && !fixture.lane.sending.failing; i++)
        stream_fixture_run(&fixture, 1);
    assert_true(fixture.lane.sending.failing);
}

static void the_condition_of_the_broker_recovers(void **state)
{
    (void)state;
    binlog->faults.claim = 1000;
    wait_for_failure();
    binlog->faults.claim = 0;
    stream_fixture_run(&fixture, 10000);
    assert_false(fixture.lane.sending.failing);
    binlog->faults.commit = 1000;
    fake_binlog_append(binlog, 5);
    wait_for_failure();
    binlog->faults.commit = 0;
    assert_drains(7);
    assert_false(fixture.lane.sending.failing);
    /* Of a lease that ends meanwhile. */
    stream_fixture_lose_lease(&fixture);
    wait_until_idle();
    stream_fixture_run(&fixture, 500);
    binlog->faults.claim = 1000;
    stream_fixture_take_lease(&fixture);
    wait_for_failure();
    stream_fixture_lose_lease(&fixture);
    wait_until_idle();
    stream_fixture_run(&fixture, 500);
    assert_false(fixture.lane.sending.failing);
}

/* The reader decided under a lease that is over. */
static void a_position_is_written_under_the_lease_for_which_it_was_chosen(void **state)
{
    (void)state;
    fixture.running[LANE_READER] = true;
    stream_fixture_run(&fixture, 5);
    fixture.running[LANE_READER] = false;
    fixture.running[LANE_SENDER] = true;
    stream_fixture_run(&fixture, 50);
    assert_int_equal(fixture.reader.takeover, READER_READS);
    fixture.running[LANE_SENDER] = false;
    fixture.running[LANE_READER] = true;
    stream_fixture_run(&fixture, 50);
    fixture.running[LANE_SENDER] = true;
    fixture.running[LANE_READER] = false;
    stream_fixture_run(&fixture, 200);
    assert_int_equal(fixture.reader.takeover, READER_WRITES);
    fixture.running[LANE_READER] = true;
    atomic_store(&fixture.lane.lease.epoch, ++fake->epoch);
    fixture.running[LANE_SENDER] = false;
    stream_fixture_run(&fixture, 200);
    assert_int_equal(binlog->commits, 0);
    assert_int_equal(fixture.takeover.answered, fixture.takeover.asked);
    fixture.running[LANE_READER] = false;
    stream_fixture_run(&fixture, 1000);
    assert_int_equal(binlog->last.epoch, fake->epoch);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
}

/* A lane has few blocks beside those of a full window. */
static void rows_of_a_transaction_share_a_block(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 500);
    for (int i = 0; i < 200; i++) {
        fake_binlog_append(binlog, 1);
        stream_fixture_run(&fixture, 4);
        assert_true(fixture.sender.commits.held_count <= 1);
    }
    assert_drains(7);
}

/* Its partitions do not know a new producer. */
static void topics_are_opened_again_for_a_new_producer(void **state)
{
    size_t opens;

    (void)state;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    opens = binlog->topic_opens;
    binlog->faults.commit = 1000;
    fake_binlog_append(binlog, 5);
    stream_fixture_run(&fixture, 100);
    binlog->faults.commit = 0;
    assert_drains(7);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    assert_true(binlog->topic_opens > opens);
}

/* The next holder reads the last record in any case. */
static void nothing_is_claimed_while_the_lease_ends(void **state)
{
    size_t claims;

    (void)state;
    stream_fixture_run(&fixture, 500);
    binlog->faults.commit = 1000;
    fake_binlog_append(binlog, 12);
    wait_for_rows(12);
    atomic_store(&fixture.lane.lease.draining, true);
    claims = binlog->claims;
    assert_true(stream_fixture_drain_lease(&fixture, 5000));
    assert_int_equal(binlog->claims, claims);
    binlog->faults.commit = 0;
    stream_fixture_restart(&fixture);
    assert_drains(7);
}

/* Random runs */

static unsigned choose_chance(unsigned chance)
{
    return fake_relay_chance(fake, 500) ? chance : 0;
}

static void choose_faults(void)
{
    binlog->rows_max = fake_relay_chance(fake, 500) ? 30 : 150;
    binlog->faults.undo = choose_chance(100);
    binlog->faults.cut = choose_chance(100);
    binlog->faults.empty = choose_chance(4);
    binlog->faults.stream = choose_chance(3);
    binlog->faults.positions = choose_chance(100);
    binlog->faults.bad_row = choose_chance(30);
    binlog->faults.claim = choose_chance(300);
    binlog->faults.commit = choose_chance(200);
    fake->faults.database = choose_chance(50);
    fake->faults.broker = choose_chance(2);
    fake->faults.lost_answer = choose_chance(5);
    fake->faults.move = choose_chance(300);
    fake->faults.ghost = choose_chance(500);
    fixture.late_steps = choose_chance(700);
    fixture.switches = choose_chance(200);
    binlog->faults.pause = choose_chance((unsigned)fake_relay_below(fake, 950));
}

static void end_faults(void)
{
    memset(&binlog->faults, 0, sizeof(binlog->faults));
    memset(&fake->faults, 0, sizeof(fake->faults));
    fake->down_until_ms = fake->silent_until_ms = 0;
    fixture.late_steps = 0;
    fake->healed = true;
    binlog->writing = false;
    stream_fixture_run(&fixture, 100);
}

static void lose_lease_for_a_moment(void)
{
    atomic_store(&fixture.lane.lease.valid_until_ms, 0);
    stream_fixture_run(&fixture, (int64_t)fake_relay_below(fake, 30));
    atomic_store(&fixture.lane.lease.valid_until_ms, INT64_MAX);
}

static void disturb(void)
{
    switch (fake_relay_below(fake, 9)) {
    case 0:
        stream_fixture_restart(&fixture);
        break;
    case 1:
        take_lost_lease();
        break;
    case 2:
        lose_lease_for_a_moment();
        break;
    case 3: /* another process has it, and this one learns it later */
        fake->epoch++;
        stream_fixture_run(&fixture, (int64_t)fake_relay_below(fake, 500));
        take_lost_lease();
        break;
    case 4:
        stream_fixture_drain_lease(&fixture, 1000);
        stream_fixture_restart(&fixture);
        break;
    case 5:
        lane_request_full_scan(&fixture.lane);
        break;
    case 6:
        fake_binlog_fence(binlog);
        break;
    default:
        break;
    }
    if (atomic_load(&fixture.lane.lease.origin_lost))
        take_lost_lease();
}

static void run_with_faults(uint64_t seed)
{
    static const int64_t windows[] = {0, 0, 10, 200};

    begin(seed, windows[seed % 4]);
    choose_faults();
    binlog->writing = true;
    for (int i = 0; i < 10; i++) {
        stream_fixture_run(&fixture, (int64_t)fake_relay_below(fake, 600));
        disturb();
        if (binlog->broken[0])
            break;
    }
    end_faults();
    assert_drains(seed);
    stream_fixture_done(&fixture);
}

/* EXACTLY_ONCE_SEED runs one seed only. */
static void every_row_is_published_once_in_order_whatever_happens(void **state)
{
    const char *one = getenv("EXACTLY_ONCE_SEED");

    (void)state;
    if (one) {
        run_with_faults(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_with_faults(seed);
}

/* The copy in relay_position is that of the last commit, so the option can be switched off. */
static void a_clean_stop_saves_the_position_of_the_last_commit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= STOP_SEEDS; seed++) {
        begin(seed, seed % 2 == 0 ? 0 : 10);
        fixture.settings.relay.send_timeout_ms = 5000;
        binlog->rows_max = 60;
        binlog->writing = true;
        for (int i = 0; i < 4; i++) {
            stream_fixture_run(&fixture, 100 + (int64_t)fake_relay_below(fake, 400));
            if (!stream_fixture_drain_lease(&fixture, 5000))
                fail_msg("seed %llu: the lane does not end", (unsigned long long)seed);
            if (binlog->saved_rows != binlog->done_count)
                fail_msg("seed %llu: %zu rows saved of %zu", (unsigned long long)seed,
                         binlog->saved_rows, binlog->done_count);
            stream_fixture_restart(&fixture);
        }
        end_faults();
        assert_drains(seed);
        stream_fixture_done(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_acknowledged_when_their_transaction_is_committed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_small_transactions_share_one_commit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_kill_repeats_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_kill_before_the_commit_aborts_the_transaction, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_fenced_producer_ends_the_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_of_another_process_ends_the_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_record_of_a_later_lease_stops_the_lane, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_saved_position_of_a_later_lease_counts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_refused_row_is_moved_and_the_others_are_published_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_task_is_not_published_before_the_position_has_passed_its_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_tasks_of_a_move_before_a_kill_are_replaced, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_tasks_of_a_move_before_a_commit_outlive_a_kill, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_position_that_no_server_opens_is_not_committed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lane_begins_where_a_command_has_written_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_next_database_is_accepted_before_kafka_is_asked, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_command_replaces_the_position_of_the_record, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_record_without_a_saved_position_stops_the_lane, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_kill_before_the_first_save_loses_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_restored_database_stops_the_lane, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shorter_log_stops_the_lane, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_with_more_rows_than_the_window_stops_the_lane,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_condition_of_the_broker_recovers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_position_is_written_under_the_lease_for_which_it_was_chosen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_of_a_transaction_share_a_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(topics_are_opened_again_for_a_new_producer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_claimed_while_the_lease_ends, set_up, tear_down),
        cmocka_unit_test(every_row_is_published_once_in_order_whatever_happens),
        cmocka_unit_test(a_clean_stop_saves_the_position_of_the_last_commit),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
