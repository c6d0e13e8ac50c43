/* SPDX-License-Identifier: MIT */
/* The engines of a lane that reads the binary log. Invariant R12 of stream_reader.h is checked by
 * the fake whenever a position is saved or a row is sent. */
#include "common/log.h"
#include "tests/flow/stream_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 300
#define STOP_SEEDS 200
#define REST_SEEDS 100
#define DRAIN_MS 600000

static struct stream_fixture fixture;
static struct fake_relay *const fake = &fixture.fake;
static struct fake_binlog *const binlog = &fixture.log;

static void begin(uint64_t seed, int64_t window_rows_max)
{
    stream_fixture_init(&fixture, seed, window_rows_max);
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

static void assert_all_is_well(uint64_t seed)
{
    if (binlog->broken[0])
        fail_msg("seed %llu: %s", (unsigned long long)seed, binlog->broken);
    if (fake_relay_lost(fake) > 0)
        fail_msg("seed %llu: %zu rows are lost", (unsigned long long)seed, fake_relay_lost(fake));
    if (fake_relay_overtaken(fake) > 0)
        fail_msg("seed %llu: %zu rows are overtaken", (unsigned long long)seed,
                 fake_relay_overtaken(fake));
    if (fake->wrong_copies > 0)
        fail_msg("seed %llu: %zu moves have a wrong copy", (unsigned long long)seed,
                 fake->wrong_copies);
    if (fixture.lane.diverted.row_bytes > 0)
        fail_msg("seed %llu: bytes of moved rows stay", (unsigned long long)seed);
}

static void assert_drains(uint64_t seed)
{
    const struct row_progress *progress = &fixture.reader.progress;

    if (!stream_fixture_drain(&fixture, DRAIN_MS) && !binlog->broken[0])
        fail_msg("seed %llu: not drained: rows %lld to %lld, read to %lld, %zu passed on, %zu "
                 "tasks, %zu keys, place %zu of %zu saved",
                 (unsigned long long)seed, (long long)progress->low, (long long)progress->high,
                 (long long)progress->read, fixture.reader.with_others, fake_relay_tasks(fake),
                 (size_t)atomic_load(&fixture.lane.diverted.count), (size_t)binlog->saved.offset,
                 binlog->count);
    assert_all_is_well(seed);
}

/* The leases take a lost one again only when the lane is idle. */
static void wait_until_idle(void)
{
    for (int i = 0; i < 100000 && !atomic_load(&fixture.lane.lease.idle); i++)
        stream_fixture_run(&fixture, 1);
    assert_true(atomic_load(&fixture.lane.lease.idle));
}

/* Single failures */

static void rows_are_published_once_and_the_end_of_the_log_is_saved(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    for (size_t rows = 1; rows < 20; rows++)
        fake_binlog_append(binlog, rows);
    assert_drains(7);
    assert_int_equal(fake->log_count, binlog->row_count);
}

static void rows_that_were_rolled_back_are_not_published(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 3);
    for (int i = 0; i < 5; i++)
        fake_binlog_write(binlog, i);
    fake_binlog_undo(binlog, 2);
    fake_binlog_write(binlog, 2);
    stream_fixture_run(&fixture, 200);
    assert_int_equal(fake->log_count, 3);
    fake_binlog_commit(binlog);
    fake_binlog_write(binlog, 3);
    fake_binlog_cut(binlog);
    fake_binlog_append(binlog, 3);
    assert_drains(7);
    assert_int_equal(fake->log_count, 9);
}

/* A transaction that ends above 4 GiB in its file, until the server begins the next file. */
static void a_position_that_no_server_opens_is_not_saved(void **state)
{
    size_t near_rows;

    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 3);
    stream_fixture_run(&fixture, 20000);
    near_rows = binlog->saved_rows;
    assert_int_equal(near_rows, 3);
    binlog->far_from = binlog->count + 1;
    binlog->far_to = SIZE_MAX;
    for (int i = 0; i < 5; i++) {
        fake_binlog_append(binlog, 4);
        stream_fixture_run(&fixture, 20000);
    }
    assert_int_equal(fake->log_count, 23);
    assert_int_equal(binlog->saved_rows, near_rows);
    stream_fixture_restart(&fixture);
    stream_fixture_take_lease(&fixture);
    stream_fixture_run(&fixture, 20000);
    assert_int_equal(binlog->saved_rows, near_rows);
    binlog->far_to = binlog->count + 1;
    fake_binlog_append(binlog, 1);
    assert_drains(7);
    assert_int_equal(binlog->saved_rows, 24);
}

/* The rows may be older than the log, and are not published by this lane. */
static void a_lane_without_a_position_does_not_begin_while_the_table_has_rows(void **state)
{
    (void)state;
    fake_binlog_append(binlog, 5);
    stream_fixture_run(&fixture, 10000);
    assert_true(fixture.lane.reading.failing);
    assert_string_equal(fixture.lane.reading.err.text, "the table has rows");
    assert_false(binlog->found);
    assert_int_equal(fake->log_count, 0);
}

/* A kill would otherwise begin behind rows that were not published. */
static void no_row_is_sent_before_the_first_position_is_saved(void **state)
{
    (void)state;
    binlog->refuses = true;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    stream_fixture_run(&fixture, 3000);
    assert_int_equal(fake->log_count, 0);
    assert_true(fixture.lane.deleting.failing);
    binlog->refuses = false;
    assert_drains(7);
    assert_false(fixture.lane.deleting.failing);
    assert_int_equal(fake->log_count, 5);
}

/* The queue is full when the broker refuses a row that was sent alone. */
static void a_refused_row_that_the_queue_of_moves_cannot_take_is_left(void **state)
{
    int64_t bad;

    (void)state;
    fake->task_chance = 0;
    fake->faults.move = 1000;
    stream_fixture_run(&fixture, 200);
    bad = fake_binlog_write(binlog, 4);
    fake->rows[bad].sync_bad = true;
    for (int i = 0; i < 11; i++)
        fake_binlog_write(binlog, 4);
    fake_binlog_commit(binlog);
    bad = fake_binlog_write(binlog, 5);
    fake->rows[bad].bad = true;
    fake_binlog_write(binlog, 5);
    fake_binlog_commit(binlog);
    stream_fixture_run(&fixture, 5000);
    assert_true(fake->rows[bad].refused > 1);
    assert_int_equal(fixture.reader.with_others, 8);
    assert_int_equal(fake->log_count, 0);
    fake->faults.move = 0;
    fake->task_chance = 50;
    assert_drains(7);
}

static int64_t age_of_lane(void)
{
    return metric_value(&fixture.lane.metrics->oldest_age);
}

static void a_lane_is_as_old_as_its_oldest_row(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 3000);
    assert_int_equal(age_of_lane(), 0);
    fake->down_until_ms = INT64_MAX;
    fake_binlog_append(binlog, 5);
    stream_fixture_run(&fixture, 3000);
    assert_true(age_of_lane() >= 2700);
    assert_true(age_of_lane() <= 3300);
    fake->down_until_ms = 0;
    assert_drains(7);
    stream_fixture_run(&fixture, 300);
    assert_int_equal(age_of_lane(), 0);
}

/* The keeper wakes to save the position of each heartbeat. A stream that never waits gives batches
 * all the time. */
static bool lane_rests(void)
{
    const int64_t *due_ms = fixture.due_ms;

    return binlog->found && due_ms[LANE_SENDER] == INT64_MAX &&
           due_ms[LANE_DELETER] > fake->now_ms + LANE_WAIT_MS &&
           (due_ms[LANE_READER] == INT64_MAX || !fixture.pump.ops.interrupt);
}

static void wait_until_lane_rests(void)
{
    for (int i = 0; i < 3 * KEEPER_SAVE_IDLE_MS && !lane_rests(); i++)
        stream_fixture_run(&fixture, 1);
    assert_true(lane_rests());
}

static void a_lane_that_has_slept_for_long_is_as_old_as_its_row(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    wait_until_lane_rests();
    stream_fixture_run(&fixture, 30000);
    assert_int_equal(age_of_lane(), 0);
    fake->down_until_ms = INT64_MAX;
    fake_binlog_append(binlog, 5);
    stream_fixture_run(&fixture, 300);
    assert_in_range(age_of_lane(), 1, 600);
    fake->down_until_ms = 0;
    assert_drains(7);
}

/* The stream is at its end between two of them, and the first one is done soon. */
static void a_lane_whose_rows_come_one_after_the_other_is_not_old(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    for (int i = 0; i < 1000; i++) {
        fake_binlog_append(binlog, 1);
        stream_fixture_run(&fixture, 3);
    }
    assert_true(age_of_lane() <= 300);
    assert_drains(7);
}

static void a_silent_broker_gets_the_rows_again(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 20);
    fake_binlog_append(binlog, 20);
    fake->silent_until_ms = fake->now_ms + 1000;
    stream_fixture_run(&fixture, 250);
    assert_int_equal(fixture.reader.progress.read, 40);
    stream_fixture_run(&fixture, 600);
    assert_true(fixture.lane.sending.failing);
    assert_int_equal(fixture.reader.progress.low, 1);
    assert_drains(7);
    assert_false(fixture.lane.sending.failing);
    assert_int_equal(fixture.reader.progress.high, 40);
}

static void a_stream_that_fails_is_read_again(void **state)
{
    size_t opens;

    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 50);
    stream_fixture_run(&fixture, 2);
    binlog->faults.stream = 1000;
    opens = binlog->opens;
    stream_fixture_run(&fixture, 3000);
    assert_true(fixture.lane.reading.failing);
    assert_true(binlog->opens - opens < 30);
    binlog->faults.stream = 0;
    stream_fixture_run(&fixture, 6000);
    assert_false(fixture.lane.reading.failing);
    assert_drains(7);
    assert_int_equal(fake->log_count, 50);
}

static void a_transaction_may_be_larger_than_the_window(void **state)
{
    (void)state;
    tear_down(state);
    begin(7, 10);
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 4);
    fake_binlog_append(binlog, 150);
    fake_binlog_append(binlog, 4);
    assert_drains(7);
    assert_int_equal(fake->log_count, 158);
}

/* The position stays before the rows that are left. */
static void rows_that_the_queue_of_moves_cannot_take_are_read_again(void **state)
{
    int64_t bad;

    (void)state;
    fake->task_chance = 0;
    fake->faults.move = 1000;
    stream_fixture_run(&fixture, 200);
    bad = fake_binlog_write(binlog, 4);
    fake->rows[bad].sync_bad = true;
    for (int i = 0; i < 11; i++)
        fake_binlog_write(binlog, 4);
    fake_binlog_commit(binlog);
    for (int i = 0; i < 30; i++) {
        fake_binlog_write(binlog, 4);
        fake_binlog_write(binlog, 5);
        fake_binlog_commit(binlog);
    }
    stream_fixture_run(&fixture, 5000);
    assert_int_equal(fixture.reader.with_others, 8);
    assert_int_equal(fixture.reader.progress.low, 1);
    assert_int_equal(binlog->saved_rows, 0);
    assert_true(fake->log_count > 20);
    fake->faults.move = 0;
    stream_fixture_run(&fixture, 10000);
    assert_int_equal(fake_relay_key_tasks(fake, 4), 42);
    assert_int_equal(fake->log_count, 30);
    fake->task_chance = 50;
    assert_drains(7);
}

/* As no_row_is_sent_before_the_first_position_is_saved(). */
static void a_process_that_is_fenced_at_once_sends_nothing(void **state)
{
    (void)state;
    fake->epoch++;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 5);
    stream_fixture_run(&fixture, 3000);
    assert_false(binlog->found);
    assert_int_equal(fake->log_count, 0);
    assert_string_equal(binlog->broken, "");
}

/* Another process has taken the lease, which this one learns later. */
static void a_process_that_was_fenced_saves_no_position(void **state)
{
    size_t saves;

    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 5);
    fake->epoch++;
    saves = binlog->saves;
    stream_fixture_run(&fixture, 3000);
    assert_int_equal(binlog->saves, saves);
    stream_fixture_lose_lease(&fixture);
    wait_until_idle();
    stream_fixture_take_lease(&fixture);
    assert_drains(7);
}

/* A heartbeat is late: the lease is held again, with the same epoch, before the rows have returned.
 */
static void rows_that_return_in_a_gap_of_the_lease_are_read_again(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 20);
    fake->down_until_ms = fake->now_ms + 100;
    stream_fixture_run(&fixture, 50);
    assert_int_equal(fixture.reader.with_others, 20);
    stream_fixture_begin_gap(&fixture);
    stream_reader_step(&fixture.reader, fake->now_ms);
    stream_keeper_step(&fixture.keeper, fake->now_ms);
    stream_fixture_end_gap(&fixture);
    assert_int_equal(fixture.reader.with_others, 20);
    assert_drains(7);
}

/* All rows have returned, and the last position is not saved yet. */
static void a_gap_of_the_lease_repeats_no_record(void **state)
{
    struct leased *lease = &fixture.lane.lease;

    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 20);
    stream_fixture_run(&fixture, 500);
    assert_int_equal(fake->log_count, 20);
    assert_int_equal(fixture.reader.with_others, 0);
    stream_fixture_begin_gap(&fixture);
    stream_fixture_run(&fixture, 300);
    assert_true(atomic_load(&lease->idle));
    stream_fixture_end_gap(&fixture);
    assert_drains(7);
    assert_int_equal(fake->log_count, 20);
}

/* Rows 9 and 10 of a key are left, the tasks of those before them have ended, and the key is not
 * diverted any more. Its later row must not be read before them. */
static void rows_that_were_left_are_read_first_after_a_gap_of_the_lease(void **state)
{
    int64_t bad;

    (void)state;
    fake->task_chance = 0;
    stream_fixture_run(&fixture, 200);
    fake->down_until_ms = INT64_MAX;
    bad = fake_binlog_write(binlog, 4);
    fake->rows[bad].sync_bad = true;
    for (int i = 1; i < 10; i++)
        fake_binlog_write(binlog, 4);
    fake_binlog_commit(binlog);
    /* There is a position between them. */
    while (fixture.reader.progress.read < 10)
        stream_fixture_run(&fixture, 1);
    for (int i = 0; i < 3; i++)
        fake_binlog_write(binlog, 5);
    fake_binlog_commit(binlog);
    while (fake_relay_key_tasks(fake, 4) < 8 || flight_count(&fixture.sender.flight) < 3)
        stream_fixture_run(&fixture, 1);
    for (int i = 0; i < 8; i++)
        fake_relay_run_task(fake, 4);
    stream_fixture_begin_gap(&fixture);
    stream_keeper_step(&fixture.keeper, fake->now_ms);
    stream_fixture_end_gap(&fixture);
    fake_binlog_write(binlog, 4);
    fake_binlog_commit(binlog);
    fake->down_until_ms = 0;
    fake->healed = true;
    assert_true(fixture.reader.has_left);
    assert_drains(7);
}

/* The keeper saw that the lease was not held, the reader did not. */
static void a_position_that_was_dropped_in_a_gap_of_the_lease_is_saved(void **state)
{
    (void)state;
    while (fixture.keeper.offers == 0)
        stream_reader_step(&fixture.reader, ++fake->now_ms);
    stream_fixture_begin_gap(&fixture);
    stream_keeper_step(&fixture.keeper, fake->now_ms);
    stream_fixture_end_gap(&fixture);
    assert_true(stream_keeper_is_settled(&fixture.keeper));
    assert_false(binlog->found);
    binlog->refuses = true;
    stream_fixture_run(&fixture, 500);
    fake_binlog_append(binlog, 20);
    stream_fixture_run(&fixture, 500);
    assert_int_equal(fake->log_count, 0);
    binlog->refuses = false;
    assert_drains(7);
    assert_int_equal(fake->log_count, 20);
}

/* The position is known between batches only, so the rows of a batch that was begun are all sent.
 */
static void a_lease_that_drains_ends_between_batches(void **state)
{
    (void)state;
    tear_down(state);
    begin(7, 10);
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 60);
    while (!fixture.sender.batch || fixture.sender.batch->next == 0)
        stream_fixture_run(&fixture, 1);
    assert_true(stream_fixture_drain_lease(&fixture, 500));
    assert_true(fake->log_count > 10);
    assert_true(fake->log_count < 60);
    assert_int_equal(fake->log_count, binlog->saved_rows);
    stream_fixture_take_lease(&fixture);
    stream_fixture_run(&fixture, 500);
    assert_int_equal(fake->log_count, 60);
    assert_drains(7);
    assert_int_equal(fake->log_count, 60);
}

/* A lease that drains waits for no broker that is not there. */
static void a_lease_that_drains_ends_while_the_broker_fails(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 60);
    fake->down_until_ms = INT64_MAX;
    stream_fixture_run(&fixture, 3000);
    assert_true(fixture.lane.sending.failing);
    assert_true(fixture.reader.with_others > 0);
    assert_true(stream_fixture_drain_lease(&fixture, 1000));
    fake->down_until_ms = 0;
    stream_fixture_restart(&fixture);
    assert_drains(7);
}

/* The rows behind the statement are saved with the first position behind it, and no others. */
static void a_table_that_is_emptied_makes_the_lane_forget_its_rows(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 20);
    assert_drains(7);
    assert_int_equal(binlog->forgets, 0);
    fake_binlog_append(binlog, 3);
    fake_binlog_empty(binlog);
    fake_binlog_append(binlog, 4);
    assert_drains(7);
    assert_int_equal(binlog->forgets, 1);
    assert_int_equal(atomic_load(&fixture.lane.emptied), 1);
    assert_int_equal(fake->log_count, 27);
    for (size_t i = 0; i < 27; i++)
        assert_int_equal(binlog->recorded[binlog->rows[i]], i >= 23);
}

/* Without a row behind it the position is saved, too. */
static void an_emptied_table_is_not_forgotten_again_after_a_restart(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 20);
    fake_binlog_empty(binlog);
    assert_drains(7);
    assert_int_equal(binlog->forgets, 1);
    stream_fixture_restart(&fixture);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    assert_int_equal(binlog->forgets, 1);
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
    stream_fixture_begin_gap(&fixture);
    stream_fixture_run(&fixture, (int64_t)fake_relay_below(fake, 30));
    stream_fixture_end_gap(&fixture);
}

static void disturb(void)
{
    switch (fake_relay_below(fake, 8)) {
    case 0:
        stream_fixture_restart(&fixture);
        break;
    case 1:
        stream_fixture_lose_lease(&fixture);
        wait_until_idle();
        stream_fixture_take_lease(&fixture);
        break;
    case 2:
        lose_lease_for_a_moment();
        break;
    case 3: /* another process has it, and this one learns it later */
        fake->epoch++;
        stream_fixture_run(&fixture, (int64_t)fake_relay_below(fake, 500));
        stream_fixture_lose_lease(&fixture);
        wait_until_idle();
        stream_fixture_take_lease(&fixture);
        break;
    case 4:
        stream_fixture_drain_lease(&fixture, 1000);
        stream_fixture_restart(&fixture);
        break;
    case 5:
        lane_request_full_scan(&fixture.lane);
        break;
    default:
        break;
    }
}

static void a_lane_that_has_lost_its_lease_closes_its_producer(void **state)
{
    (void)state;
    stream_fixture_run(&fixture, 200);
    fake_binlog_append(binlog, 5);
    assert_drains(7);
    wait_until_lane_rests();
    assert_int_not_equal(fixture.sender.epoch, 0);
    stream_fixture_lose_lease(&fixture);
    stream_fixture_run(&fixture, 1000);
    assert_true(atomic_load(&fixture.lane.lease.idle));
    assert_int_equal(fixture.sender.epoch, 0);
}

/* The steps are called only when they are woken. */
static void disturb_rest(void)
{
    wait_until_lane_rests();
    switch (fake_relay_below(fake, 5)) {
    case 0:
        disturb();
        break;
    case 1:
        stream_fixture_drain_lease(&fixture, 1000);
        wait_until_idle();
        stream_fixture_take_lease(&fixture);
        break;
    default:
        break;
    }
    for (uint64_t i = fake_relay_below(fake, 3); i > 0; i--)
        fake_binlog_append(binlog, 1 + fake_relay_below(fake, 30));
}

static void a_lane_that_rests_is_woken_by_whatever_happens(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= REST_SEEDS; seed++) {
        begin(seed, 0);
        fixture.late_steps = (unsigned)fake_relay_below(fake, 500);
        fixture.switches = (unsigned)fake_relay_below(fake, 300);
        fake->healed = true;
        for (int i = 0; i < 5; i++) {
            disturb_rest();
            assert_drains(seed);
        }
        stream_fixture_done(&fixture);
    }
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

/* STREAM_LANE_SEED runs one seed only. */
static void every_row_is_published_in_order_whatever_happens(void **state)
{
    const char *one = getenv("STREAM_LANE_SEED");

    (void)state;
    if (one) {
        run_with_faults(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_with_faults(seed);
}

static void a_clean_stop_repeats_no_record(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= STOP_SEEDS; seed++) {
        begin(seed, seed % 2 == 0 ? 0 : 10);
        fixture.settings.relay.send_timeout_ms = 5000;
        binlog->rows_max = 60;
        binlog->faults.undo = 20;
        binlog->writing = true;
        for (int i = 0; i < 4; i++) {
            stream_fixture_run(&fixture, 100 + (int64_t)fake_relay_below(fake, 400));
            if (!stream_fixture_drain_lease(&fixture, 5000))
                fail_msg("seed %llu: the lane does not end", (unsigned long long)seed);
            stream_fixture_restart(&fixture);
        }
        end_faults();
        assert_drains(seed);
        if (fake->log_count != binlog->row_count)
            fail_msg("seed %llu: %zu records of %zu rows", (unsigned long long)seed,
                     fake->log_count, binlog->row_count);
        stream_fixture_done(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_published_once_and_the_end_of_the_log_is_saved,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_position_that_no_server_opens_is_not_saved, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rows_that_were_rolled_back_are_not_published, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_lane_without_a_position_does_not_begin_while_the_table_has_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_row_is_sent_before_the_first_position_is_saved, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lane_is_as_old_as_its_oldest_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lane_whose_rows_come_one_after_the_other_is_not_old,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_broker_gets_the_rows_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_that_fails_is_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_transaction_may_be_larger_than_the_window, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rows_that_the_queue_of_moves_cannot_take_are_read_again,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_row_that_the_queue_of_moves_cannot_take_is_left,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_is_fenced_at_once_sends_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_was_fenced_saves_no_position, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rows_that_return_in_a_gap_of_the_lease_are_read_again,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_gap_of_the_lease_repeats_no_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_that_were_left_are_read_first_after_a_gap_of_the_lease,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_position_that_was_dropped_in_a_gap_of_the_lease_is_saved,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lease_that_drains_ends_between_batches, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lease_that_drains_ends_while_the_broker_fails, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lane_that_has_slept_for_long_is_as_old_as_its_row, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lane_that_has_lost_its_lease_closes_its_producer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_table_that_is_emptied_makes_the_lane_forget_its_rows,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_emptied_table_is_not_forgotten_again_after_a_restart,
                                        set_up, tear_down),
        cmocka_unit_test(a_lane_that_rests_is_woken_by_whatever_happens),
        cmocka_unit_test(every_row_is_published_in_order_whatever_happens),
        cmocka_unit_test(a_clean_stop_repeats_no_record),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
