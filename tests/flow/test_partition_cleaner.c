/* SPDX-License-Identifier: MIT */
/* The part of the cleaner that drops partitions, on a model of a table with writers: transactions
 * take seqs when they write and can be seen when they commit, and all that is committed is
 * published some time later. */
#include "outbox/relay/partitions/partition_cleaner.h"

#include "common/db/error.h"

#include "common/hash.h"
#include "common/log.h"
#include "outbox/relay/partitions/partition_size.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SIZE INT64_C(50) /* seqs of a partition */
#define SEQS_MAX_MODEL 20000
#define KEEP_MS INT64_C(1000)
#define EPOCH 3

enum row_state { ROW_NONE, ROW_OPEN, ROW_COMMITTED };

struct row {
    enum row_state state;
    bool unlogged;       /* it is never published */
    bool recorded;       /* an entry has it */
    int64_t recorded_ms; /* when that was saved */
};

static struct {
    struct row rows[SEQS_MAX_MODEL + 1];
    int64_t next_seq;
    int64_t first_limit; /* of the partitions that are left: this one and each SIZE more */
    int64_t last_limit;
    int64_t now_ms;
    int64_t epoch;
    bool denied;
    bool removed;         /* the table has no partitions any more */
    bool busy;            /* a transaction has the table for long */
    bool full;            /* no partition can be made */
    int64_t prepared;     /* XA transactions without a session, whose rows stay open */
    int64_t with_session; /* and with one, which they lose at the first look */
    int64_t
        ended_row; /* the row of one that another session commits right before a look; 0: none */
    unsigned failures;
    size_t drops;
    size_t waits;
    size_t made;
    uint64_t rng;
} base;

static struct settings settings;
static struct lane_settings own;
static struct lane lane;
static struct partition_cleaner cleaner;

static enum rc call_fails(struct err *err)
{
    if (base.failures > 0 && rng_next(&base.rng) % base.failures == 0)
        return err_fail(err, RC_RETRY, 0, "the connection was lost");
    return RC_OK;
}

/* Some partitions of before are gone. */
static bool gone[SEQS_MAX_MODEL / SIZE + 2];

static int64_t begin_of(const struct partition *partition)
{
    int64_t begin = partition->limit - SIZE;

    while (begin > 0 && gone[begin / SIZE])
        begin -= SIZE;
    return begin;
}

static void read_low(struct partition *partition)
{
    partition->low = begin_of(partition);
    while (partition->low < partition->limit && base.rows[partition->low].state != ROW_COMMITTED)
        partition->low++;
}

static enum rc next(void *ctx, int64_t above, int64_t keep_ms, struct partition *partition,
                    bool *found, struct err *err)
{
    int64_t youngest_ms = -1;

    (void)ctx;
    *found = false;
    assert_int_equal(keep_ms, KEEP_MS);
    if (call_fails(err) != RC_OK)
        return RC_RETRY;
    partition->last_limit = base.last_limit;
    for (int64_t limit = SIZE; limit <= base.last_limit && !*found; limit += SIZE) {
        if (limit <= above || gone[limit / SIZE])
            continue;
        *found = true;
        partition->limit = limit;
        snprintf(partition->name, sizeof(partition->name), "p%d", (int)limit);
    }
    if (!*found)
        return RC_OK;
    read_low(partition);
    partition->is_finished = false;
    partition->high = partition->oldest_ms = 0;
    for (int64_t seq = 1; seq < base.next_seq; seq++) {
        const struct row *row = &base.rows[seq];

        if (!row->recorded)
            continue;
        if (seq >= above && seq < partition->limit && partition->oldest_ms == 0)
            partition->oldest_ms = base.now_ms - row->recorded_ms;
        if (seq >= partition->limit)
            partition->is_finished = true;
        else if (row->recorded_ms > youngest_ms)
            youngest_ms = row->recorded_ms;
    }
    partition->youngest_ms = youngest_ms < 0 ? INT64_MAX : base.now_ms - youngest_ms;
    return RC_OK;
}

/* All writers end: an open row commits, or was rolled back. Those of prepared transactions stay. */
static void end_writers(void)
{
    if (base.prepared + base.with_session > 0)
        return;
    for (int64_t seq = 1; seq < base.next_seq; seq++)
        if (base.rows[seq].state == ROW_OPEN)
            base.rows[seq].state = rng_next(&base.rng) % 4 == 0 ? ROW_NONE : ROW_COMMITTED;
}

static enum rc wait_for_writers(void *ctx, struct partition *partition, struct err *err)
{
    (void)ctx;
    base.waits++;
    if (base.denied)
        return err_fail(err, RC_REJECT, 1142, "LOCK TABLES denied");
    if (base.removed)
        return err_fail(err, RC_FATAL, DB_NO_PARTITIONS, "PARTITION () on a table that has none");
    if (base.busy)
        return err_fail(err, RC_RETRY, 1205, "Lock wait timeout exceeded");
    if (call_fails(err) != RC_OK)
        return RC_RETRY;
    end_writers();
    read_low(partition);
    return RC_OK;
}

static enum rc count_prepared(void *ctx, int64_t *lost, int64_t *with_session, struct err *err)
{
    (void)ctx;
    if (call_fails(err) != RC_OK)
        return RC_RETRY;
    if (base.ended_row > 0 && base.prepared > 0) {
        base.rows[base.ended_row].state = ROW_COMMITTED;
        base.prepared--;
    }
    *lost = base.prepared;
    *with_session = base.with_session;
    base.prepared += base.with_session;
    base.with_session = 0;
    return RC_OK;
}

static enum rc fill(void *ctx, const struct partition *partition, struct entry_cursor *cursor,
                    struct seq_set *set, bool *more, struct err *err)
{
    (void)ctx;
    if (call_fails(err) != RC_OK)
        return RC_RETRY;
    for (int n = 0; n < 20 && cursor->first_seq < partition->limit; n++) {
        int64_t seq = cursor->first_seq++;

        if (base.rows[seq].recorded)
            seq_set_add(set, (struct seq_range){seq, seq});
    }
    *more = cursor->first_seq < partition->limit;
    return RC_OK;
}

static enum rc scan(void *ctx, const struct partition *partition, const struct seq_set *set,
                    int64_t *at, int64_t *rows, int64_t *unpublished, struct err *err)
{
    (void)ctx;
    if (call_fails(err) != RC_OK)
        return RC_RETRY;
    if (*at < begin_of(partition))
        *at = begin_of(partition);
    for (int n = 0; n < 20 && *at < partition->limit; n++) {
        int64_t seq = (*at)++;

        if (base.rows[seq].state != ROW_COMMITTED)
            continue;
        (*rows)++;
        if (*unpublished == 0 && !seq_set_has(set, seq))
            *unpublished = seq;
    }
    return RC_OK;
}

static void delete_row(int64_t seq)
{
    const struct row *row = &base.rows[seq];

    assert_true(row->state != ROW_OPEN);
    if (row->state == ROW_COMMITTED) {
        assert_true(row->recorded);
        assert_true(base.now_ms - row->recorded_ms >= KEEP_MS);
    }
    base.rows[seq].state = ROW_NONE;
}

static enum rc drop(void *ctx, const struct partition *partition, int64_t epoch, bool *fenced,
                    struct err *err)
{
    (void)ctx;
    *fenced = epoch != base.epoch;
    if (*fenced)
        return RC_OK;
    if (base.busy)
        return err_fail(err, RC_RETRY, 1205, "Lock wait timeout exceeded");
    if (call_fails(err) != RC_OK)
        return RC_RETRY;
    end_writers();
    for (int64_t seq = begin_of(partition); seq < partition->limit; seq++)
        delete_row(seq);
    gone[partition->limit / SIZE] = true;
    base.drops++;
    return call_fails(err);
}

static enum rc end(void *ctx, const struct partition *partition, struct entry_cursor *cursor,
                   bool *more, struct err *err)
{
    (void)ctx;
    if (call_fails(err) != RC_OK)
        return RC_RETRY;
    for (int n = 0; n < 20 && cursor->first_seq < partition->limit; n++) {
        int64_t seq = cursor->first_seq++;

        assert_int_equal(base.rows[seq].state, ROW_NONE);
        base.rows[seq].recorded = false;
    }
    *more = cursor->first_seq < partition->limit;
    return RC_OK;
}

static enum rc make(void *ctx, int64_t epoch, int64_t span_ms, bool *is_full, struct err *err)
{
    (void)ctx;
    *is_full = base.full;
    if (base.full)
        return RC_OK;
    assert_int_equal(span_ms, partition_span_ms(KEEP_MS));
    if (call_fails(err) != RC_OK)
        return RC_RETRY;
    if (epoch != base.epoch || base.next_seq <= base.last_limit - SIZE)
        return RC_OK;
    base.last_limit += SIZE;
    base.made++;
    return RC_OK;
}

static const struct partition_ops ops = {.next = next,
                                         .wait_for_writers = wait_for_writers,
                                         .count_prepared = count_prepared,
                                         .fill = fill,
                                         .scan = scan,
                                         .drop = drop,
                                         .end = end,
                                         .make = make};

static int setup(void **state)
{
    (void)state;
    memset(&base, 0, sizeof(base));
    memset(gone, 0, sizeof(gone));
    base.next_seq = 1;
    base.last_limit = 2 * SIZE;
    base.epoch = EPOCH;
    base.now_ms = 1000000;
    base.rng = 5;
    settings.relay.read_rows_max = settings.relay.window_rows_max = 10;
    settings.relay.read_bytes_max = settings.relay.row_bytes_max = 1024;
    settings.relay.diverted_keys_max = 10;
    snprintf(own.name, sizeof(own.name), "outbox");
    assert_int_equal(lane_init(&lane, &own, &settings, relay_metrics_of(0, own.name), NULL), RC_OK);
    partition_cleaner_init(&cleaner, &lane, &ops);
    partition_cleaner_begin(&cleaner, true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    partition_cleaner_done(&cleaner);
    lane_done(&lane);
    return 0;
}

static int64_t write_row(enum row_state state)
{
    assert_true(base.next_seq < SEQS_MAX_MODEL);
    base.rows[base.next_seq].state = state;
    return base.next_seq++;
}

static void write_rows(int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        write_row(ROW_COMMITTED);
}

/* All rows that are committed and in the log are saved as published. */
static void publish(void)
{
    for (int64_t seq = 1; seq < base.next_seq; seq++) {
        struct row *row = &base.rows[seq];

        if (row->state != ROW_COMMITTED || row->unlogged || row->recorded)
            continue;
        row->recorded = true;
        row->recorded_ms = base.now_ms;
    }
}

static void run(int64_t ms)
{
    int64_t until_ms = base.now_ms + ms;
    struct err err = {0};

    for (; base.now_ms < until_ms; base.now_ms++) {
        const struct partition_input input = {.keep_ms = KEEP_MS,
                                              .epoch = EPOCH,
                                              .current_ms = base.now_ms - 100,
                                              .now_ms = base.now_ms};

        if (cleaner.is_on && base.now_ms >= cleaner.due_ms)
            partition_cleaner_step(&cleaner, &input, &err);
    }
}

static bool is_gone(int64_t limit)
{
    return gone[limit / SIZE];
}

static void finished_partitions_are_dropped_after_they_were_kept(void **state)
{
    (void)state;
    write_rows(SIZE * 3 / 2);
    publish();
    run(KEEP_MS / 2);
    assert_int_equal(base.drops, 0);
    run(2 * PARTITION_LOOK_MS);
    assert_true(is_gone(SIZE));
    assert_int_equal(base.drops, 1);
    assert_int_equal(base.last_limit, 3 * SIZE);
    for (int64_t seq = 1; seq < SIZE; seq++)
        assert_false(base.rows[seq].recorded);
    assert_true(base.rows[SIZE].recorded);
    write_rows(SIZE * 2);
    publish();
    run(3 * PARTITION_LOOK_MS);
    assert_int_equal(base.drops, 3);
}

/* Rows behind a transaction that is open are published, and its own are not. */
static void a_late_row_keeps_its_partition_until_it_is_published(void **state)
{
    int64_t late;

    (void)state;
    write_rows(10);
    late = write_row(ROW_OPEN);
    write_rows(SIZE);
    publish();
    base.busy = true;
    run(2 * PARTITION_LOOK_MS);
    assert_true(base.waits > 0);
    assert_int_equal(base.drops, 0);
    base.busy = false;
    base.rows[late].state = ROW_COMMITTED;
    run(2 * PARTITION_LOOK_MS);
    assert_int_equal(base.drops, 0);
    assert_int_equal(cleaner.below, 0);
    assert_int_equal(cleaner.doubted, SIZE);
    publish();
    run(3 * PARTITION_LOOK_MS);
    assert_true(is_gone(SIZE));
}

/* A dump reads the table in a transaction of hours, and writers wait behind each try. */
static void a_table_that_is_in_use_for_long_is_tried_rarely(void **state)
{
    size_t waits;

    (void)state;
    write_rows(SIZE + 10);
    publish();
    base.busy = true;
    run(4 * PARTITION_BUSY_MS);
    assert_true(base.waits >= 2);
    assert_string_equal(cleaner.held.text, "");
    run(10 * PARTITION_BUSY_MS_MAX);
    waits = base.waits;
    assert_non_null(strstr(cleaner.held.text, "are open for long"));
    run(10 * PARTITION_BUSY_MS_MAX);
    assert_true(base.waits - waits >= 9 && base.waits - waits <= 11);
    base.busy = false;
    run(PARTITION_BUSY_MS_MAX + 10);
    assert_string_equal(cleaner.held.text, "");
    assert_true(is_gone(SIZE));
    assert_int_equal(cleaner.busy_ms, 0);
}

static void rows_behind_the_last_limit_that_are_too_many_are_told(void **state)
{
    (void)state;
    base.full = true;
    write_rows(3 * SIZE);
    publish();
    run(3 * PARTITION_LOOK_MS);
    assert_int_equal(base.drops, 2);
    assert_int_equal(base.made, 0);
    assert_non_null(strstr(cleaner.held.text, "split its last partition"));
    base.full = false;
    run(2 * PARTITION_LOOK_MS);
    assert_string_equal(cleaner.held.text, "");
    assert_true(base.made > 0);
}

static void partitions_that_are_removed_meanwhile_are_no_failure(void **state)
{
    struct partition_input input = {.keep_ms = KEEP_MS, .epoch = EPOCH};
    struct err err = {0};

    (void)state;
    write_rows(2 * SIZE);
    publish();
    base.removed = true;
    base.now_ms += KEEP_MS + 1;
    for (int i = 0; i < 10; i++, base.now_ms += PARTITION_LOOK_MS / 4) {
        input.now_ms = input.current_ms = base.now_ms;
        assert_int_equal(partition_cleaner_step(&cleaner, &input, &err), RC_OK);
    }
    assert_true(base.waits > 0);
    assert_true(cleaner.is_on);
    assert_int_equal(base.drops, 0);
}

static void check_prepared_rows_are_not_dropped(void)
{
    int64_t late;

    write_rows(SIZE - 2);
    late = write_row(ROW_OPEN);
    write_rows(SIZE);
    publish();
    run(5 * PARTITION_LOOK_MS);
    assert_int_equal(base.drops, 0);
    assert_int_equal(base.rows[late].state, ROW_OPEN);
    assert_non_null(strstr(cleaner.held.text, "1 transactions without a session"));
    base.prepared = 0;
    base.rows[late].state = ROW_COMMITTED;
    publish();
    run(3 * PARTITION_LOOK_MS);
    assert_string_equal(cleaner.held.text, "");
    assert_true(is_gone(SIZE));
}

static void prepared_rows_without_a_session_are_not_dropped(void **state)
{
    (void)state;
    base.prepared = 1;
    check_prepared_rows_are_not_dropped();
}

static void prepared_rows_whose_session_ends_just_now_are_not_dropped(void **state)
{
    (void)state;
    base.with_session = 1;
    check_prepared_rows_are_not_dropped();
}

/* The row was the lowest of the partition, and could not be seen. */
static void a_prepared_row_that_is_committed_between_two_looks_is_not_dropped(void **state)
{
    int64_t late = write_row(ROW_OPEN);

    (void)state;
    base.with_session = 1;
    write_rows(2 * SIZE);
    publish();
    for (int i = 0; i < 1000 && !cleaner.is_checked; i++)
        run(PARTITION_CHECK_MS / 4);
    assert_true(cleaner.is_checked);
    base.prepared = 0;
    base.rows[late].state = ROW_COMMITTED;
    run(3 * PARTITION_LOOK_MS);
    assert_false(is_gone(SIZE));
    publish();
    run(PARTITION_KEPT_MS + 3 * PARTITION_LOOK_MS);
    assert_true(is_gone(SIZE));
}

static void a_prepared_row_that_is_committed_before_the_look_is_not_dropped(void **state)
{
    (void)state;
    base.ended_row = write_row(ROW_OPEN);
    base.prepared = 1;
    write_rows(2 * SIZE);
    publish();
    run(KEEP_MS + 3 * PARTITION_LOOK_MS);
    assert_int_equal(base.prepared, 0);
    assert_false(is_gone(SIZE));
    publish();
    run(PARTITION_KEPT_MS + 3 * PARTITION_LOOK_MS);
    assert_true(is_gone(SIZE));
}

/* The server's own short transactions have no session either. */
static void a_transaction_without_a_session_is_told_if_it_stays(void **state)
{
    (void)state;
    base.prepared = 1;
    write_rows(SIZE + 10);
    publish();
    run(KEEP_MS + PARTITION_LOOK_MS);
    assert_true(base.waits > 0);
    assert_string_equal(cleaner.held.text, "");
    base.prepared = 0;
    run(2 * PARTITION_LOOK_MS);
    assert_true(is_gone(SIZE));
    assert_string_equal(cleaner.held.text, "");
}

/* Its row was published just now, so the partition is left for keep_ms. */
static void a_prepared_transaction_that_has_ended_is_told_no_more(void **state)
{
    int64_t late;

    (void)state;
    base.prepared = 1;
    write_rows(SIZE - 2);
    late = write_row(ROW_OPEN);
    write_rows(SIZE);
    publish();
    run(5 * PARTITION_LOOK_MS);
    assert_true(cleaner.prepared > 0);
    base.prepared = 0;
    base.rows[late].state = ROW_COMMITTED;
    while (cleaner.due_ms > base.now_ms + 10)
        run(1);
    publish();
    run(20);
    assert_int_equal(base.drops, 0);
    assert_true(cleaner.phase == PARTITION_LOOKING);
    assert_string_equal(cleaner.held.text, "");
}

static void a_row_past_the_log_keeps_its_partition_and_no_other(void **state)
{
    (void)state;
    write_rows(SIZE - 1);
    base.rows[7].unlogged = true;
    write_rows(3 * SIZE);
    publish();
    run(PARTITION_KEPT_MS / 2);
    assert_false(is_gone(SIZE));
    assert_true(is_gone(2 * SIZE));
    assert_true(is_gone(3 * SIZE));
    assert_int_equal(base.rows[7].state, ROW_COMMITTED);
    base.rows[7].state = ROW_NONE;
    run(PARTITION_KEPT_MS);
    assert_true(is_gone(SIZE));
}

/* The rows of a partition that is filled slowly are left to be deleted one by one, and those of
 * others are not. */
static void a_slow_partition_is_left_until_it_is_finished(void **state)
{
    const int64_t most_ms = KEEP_MS + 2 * partition_span_ms(KEEP_MS);

    (void)state;
    write_rows(SIZE / 2);
    publish();
    run(most_ms - PARTITION_LOOK_MS);
    assert_int_equal(cleaner.below, 0);
    run(2 * PARTITION_LOOK_MS);
    assert_int_equal(cleaner.below, SIZE);
    assert_int_equal(base.drops, 0);
    for (int64_t seq = 1; seq < base.next_seq; seq++)
        base.rows[seq] = (struct row){0};
    write_rows(SIZE / 2 + 2);
    publish();
    run(PARTITION_KEPT_MS + 2 * PARTITION_LOOK_MS);
    assert_int_equal(cleaner.below, 0);
    assert_true(is_gone(SIZE));
    assert_int_equal(base.drops, 1);
}

static void without_the_privilege_no_partition_is_dropped(void **state)
{
    (void)state;
    base.denied = true;
    write_rows(SIZE * 3);
    publish();
    run(3 * PARTITION_LOOK_MS);
    assert_false(cleaner.is_on);
    assert_int_equal(base.drops, 0);
}

static void without_the_lease_no_partition_is_dropped(void **state)
{
    (void)state;
    base.epoch = EPOCH + 1;
    write_rows(SIZE * 3);
    publish();
    run(3 * PARTITION_LOOK_MS);
    assert_int_equal(base.drops, 0);
}

/* Writers, failures and kills at any moment; the model checks what a drop deletes. */
static void any_course_drops_published_rows_only(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        teardown(NULL);
        setup(NULL);
        base.rng = seed;
        base.failures = seed % 2 == 0 ? 10 : 0;
        for (int i = 0; i < 300 && base.next_seq < SEQS_MAX_MODEL - 100; i++) {
            uint64_t chance = rng_next(&base.rng) % 100;

            if (chance < 60)
                write_rows((int64_t)(rng_next(&base.rng) % 10));
            else if (chance < 80)
                write_row(ROW_OPEN);
            else if (chance < 82)
                base.rows[write_row(ROW_COMMITTED)].unlogged = true;
            else if (chance < 90)
                end_writers();
            else if (chance < 92)
                partition_cleaner_begin(&cleaner, true);
            if (rng_next(&base.rng) % 3 == 0)
                publish();
            run((int64_t)(rng_next(&base.rng) % 400));
        }
        base.failures = 0;
        end_writers();
        publish();
        write_rows(SIZE);
        publish();
        run(PARTITION_KEPT_MS + 10 * PARTITION_LOOK_MS);
        assert_true(base.drops > 0);
    }
}

static void a_set_has_the_seqs_of_its_ranges(void **state)
{
    struct seq_set set = {0};

    (void)state;
    assert_int_equal(seq_set_begin(&set, 1000, 1300, NULL), RC_OK);
    seq_set_add(&set, (struct seq_range){1, 1001});
    seq_set_add(&set, (struct seq_range){1063, 1064});
    seq_set_add(&set, (struct seq_range){1100, 1230});
    seq_set_add(&set, (struct seq_range){1299, 5000});
    seq_set_add(&set, (struct seq_range){2000, 3000});
    for (int64_t seq = 900; seq < 1400; seq++)
        assert_int_equal(seq_set_has(&set, seq), seq == 1000 || seq == 1001 || seq == 1063 ||
                                                     seq == 1064 || seq == 1299 ||
                                                     (seq >= 1100 && seq <= 1230));
    assert_int_equal(seq_set_begin(&set, 5, 5, NULL), RC_OK);
    assert_false(seq_set_has(&set, 5));
    assert_int_equal(seq_set_begin(&set, 0, 640, NULL), RC_OK);
    for (int64_t seq = 0; seq < 640; seq++)
        assert_false(seq_set_has(&set, seq));
    seq_set_done(&set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(finished_partitions_are_dropped_after_they_were_kept),
        TEST(a_late_row_keeps_its_partition_until_it_is_published),
        TEST(a_table_that_is_in_use_for_long_is_tried_rarely),
        TEST(rows_behind_the_last_limit_that_are_too_many_are_told),
        TEST(partitions_that_are_removed_meanwhile_are_no_failure),
        TEST(prepared_rows_without_a_session_are_not_dropped),
        TEST(prepared_rows_whose_session_ends_just_now_are_not_dropped),
        TEST(a_prepared_row_that_is_committed_between_two_looks_is_not_dropped),
        TEST(a_prepared_row_that_is_committed_before_the_look_is_not_dropped),
        TEST(a_transaction_without_a_session_is_told_if_it_stays),
        TEST(a_prepared_transaction_that_has_ended_is_told_no_more),
        TEST(a_row_past_the_log_keeps_its_partition_and_no_other),
        TEST(a_slow_partition_is_left_until_it_is_finished),
        TEST(without_the_privilege_no_partition_is_dropped),
        TEST(without_the_lease_no_partition_is_dropped),
        TEST(any_course_drops_published_rows_only),
        cmocka_unit_test(a_set_has_the_seqs_of_its_ranges),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
