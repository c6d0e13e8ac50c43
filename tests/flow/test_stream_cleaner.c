/* SPDX-License-Identifier: MIT */
/* The cleaner of a stream lane on a model of its table: which rows are there, which are published,
 * and the entries that say so. A row is known by its number, which is its seq or its id. */
#include "outbox/relay/stream/stream_cleaner.h"

#include "common/hash.h"
#include "common/loop.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 3000
#define ENTRIES_MAX 64
#define KEEP_MS INT64_C(1000)
#define EPOCH 3

struct entry {
    int64_t number; /* 0: there is none */
    enum cleaner_kind kind;
    int64_t saved_ms;
    int64_t first_seq;
    int64_t id_count;
    struct buf rows;
};

/* The database. */
static struct {
    bool row[ROWS_MAX + 1]; /* by seq */
    bool published[ROWS_MAX + 1];
    int64_t created_ms[ROWS_MAX + 1];
    struct entry entries[ENTRIES_MAX];
    size_t entry_count;
    int64_t now_ms;
    int64_t epoch;
    struct cleaner_table table;
    size_t calls;
    size_t fail_at;  /* number of the call that fails; 0: none */
    bool fail_after; /* it has its effect */
    size_t deletions;
    size_t piece_rows; /* most rows of a deletion */
    size_t lists;
    size_t counts;
} base;

static struct settings settings;
static struct lane_settings own;
static struct lane lane;
static struct stream_cleaner cleaner;

/* Counts a call; false: it fails, without an effect if before is set. */
static bool call_works(bool before, struct err *err)
{
    if (before)
        base.calls++;
    if (base.calls != base.fail_at || before == base.fail_after)
        return true;
    err_fail(err, RC_RETRY, 0, "the connection was lost");
    return false;
}

static enum rc read_table(void *ctx, struct cleaner_table *table, struct err *err)
{
    (void)ctx;
    if (!call_works(true, err))
        return RC_RETRY;
    *table = base.table;
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static bool by_id(void)
{
    return !base.table.has_seq && base.table.has_id;
}

static enum cleaner_kind kind(void)
{
    return by_id() && own.keep_ids_max > 0 ? CLEANER_IDS : CLEANER_SEQS;
}

static enum rc read_oldest(void *ctx, enum cleaner_kind wanted, int64_t age_ms,
                           struct cleaner_entry *entry, bool *found, struct err *err)
{
    (void)ctx;
    buf_reset(&entry->rows);
    *found = false;
    if (!call_works(true, err))
        return RC_RETRY;
    for (size_t i = 0; i < base.entry_count && !*found; i++) {
        const struct entry *one = &base.entries[i];

        if (one->number == 0 || one->kind != wanted)
            continue;
        *found = true;
        entry->number = one->number;
        entry->age_ms = base.now_ms - one->saved_ms;
        if (entry->age_ms >= age_ms)
            buf_put(&entry->rows, one->rows.data, one->rows.len);
        entry->id_count = one->id_count;
    }
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static void delete_row(int64_t row, size_t *rows)
{
    assert_true(base.published[row]);
    base.row[row] = false;
    (*rows)++;
}

static enum rc end_deletion(size_t rows, struct err *err)
{
    base.deletions++;
    if (rows > base.piece_rows)
        base.piece_rows = rows;
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static enum rc delete_ids(void *ctx, const struct published_ids *ids, int64_t epoch, bool *fenced,
                          struct err *err)
{
    struct published_ids rest = *ids;
    char uuid[ID_TEXT_SIZE];
    struct bytes id;
    size_t rows = 0;
    bool found;

    (void)ctx;
    *fenced = false;
    if (!call_works(true, err))
        return RC_RETRY;
    *fenced = epoch != base.epoch;
    if (*fenced)
        return RC_OK;
    while (published_ids_read(&rest, uuid, &id, &found, NULL) == RC_OK && found) {
        char text[24] = "";

        assert_true(id.len < sizeof(text));
        memcpy(text, id.data, id.len);
        delete_row(strtoll(text, NULL, 10), &rows);
    }
    return end_deletion(rows, err);
}

static enum rc delete_ranges(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err)
{
    size_t rows = 0;

    (void)ctx;
    *fenced = false;
    if (!call_works(true, err))
        return RC_RETRY;
    if (epoch != base.epoch) {
        *fenced = true;
        return RC_OK;
    }
    for (size_t i = 0; i < count; i++) {
        for (int64_t seq = ranges[i].from; seq <= ranges[i].to; seq++)
            delete_row(seq, &rows);
    }
    return end_deletion(rows, err);
}

static enum rc end_entry(void *ctx, enum cleaner_kind wanted, int64_t number, struct err *err)
{
    struct entry *entry = &base.entries[number - 1];

    (void)ctx;
    assert_int_equal(wanted, entry->kind);
    if (!call_works(true, err))
        return RC_RETRY;
    entry->number = 0;
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static enum rc count_ids(void *ctx, int64_t *count, struct err *err)
{
    (void)ctx;
    *count = 0;
    base.counts++;
    if (!call_works(true, err))
        return RC_RETRY;
    for (size_t i = 0; i < base.entry_count; i++)
        *count += base.entries[i].number != 0 ? base.entries[i].id_count : 0;
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static enum rc list_old(void *ctx, enum cleaner_kind wanted, int64_t age_ms, int64_t *seqs,
                        size_t seqs_max, size_t *count, struct err *err)
{
    int64_t below = ROWS_MAX + 1;

    (void)ctx;
    assert_int_equal(wanted, kind());
    *count = 0;
    base.lists++;
    if (!call_works(true, err))
        return RC_RETRY;
    for (size_t i = 0; i < base.entry_count && !by_id(); i++) {
        if (base.entries[i].number != 0 && base.entries[i].first_seq < below)
            below = base.entries[i].first_seq;
    }
    for (int64_t seq = 1; seq < below && *count < seqs_max; seq++) {
        if (base.row[seq] && base.now_ms - base.created_ms[seq] >= age_ms)
            seqs[(*count)++] = seq;
    }
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static int64_t model_time(void *ctx)
{
    (void)ctx;
    return base.now_ms;
}

static void start_cleaner(void)
{
    static const struct cleaner_ops ops = {
        .table = read_table,
        .oldest = read_oldest,
        .delete_ranges = delete_ranges,
        .delete_ids = delete_ids,
        .count_ids = count_ids,
        .end = end_entry,
        .list_old = list_old,
    };

    stream_cleaner_init(&cleaner, &lane, &ops, 11);
}

static void set_lease(int64_t epoch)
{
    atomic_store(&lane.lease.epoch, epoch);
    atomic_store(&lane.lease.valid_until_ms, epoch == 0 ? 0 : INT64_MAX);
}

static int setup(void **state)
{
    (void)state;
    memset(&base, 0, sizeof(base));
    base.now_ms = 1000000;
    base.epoch = EPOCH;
    base.table = (struct cleaner_table){.has_seq = true, .has_created_at = true};
    settings.relay.read_rows_max = settings.relay.window_rows_max = 10;
    settings.relay.read_bytes_max = settings.relay.row_bytes_max = 1024;
    settings.relay.diverted_keys_max = 10;
    snprintf(own.name, sizeof(own.name), "outbox");
    snprintf(own.table, sizeof(own.table), "outbox");
    snprintf(own.source, sizeof(own.source), "binlog");
    own.keep_ms = KEEP_MS;
    own.keep_ids_max = 0;
    assert_int_equal(lane_init(&lane, &own, &settings, relay_metrics_of(0, own.name), NULL), RC_OK);
    lane.time_ms = model_time;
    metric_set(&lane.metrics->deleted, 0);
    metric_set(&lane.metrics->unpublished, 0);
    metric_set(&lane.metrics->oldest_age, 0);
    set_lease(EPOCH);
    start_cleaner();
    return 0;
}

/* A table without a seq whose rows are deleted by their ids. */
static void use_ids(void)
{
    base.table.has_seq = false;
    base.table.has_id = true;
    own.keep_ids_max = 1000;
}

static int setup_ids(void **state)
{
    int rc = setup(state);

    use_ids();
    return rc;
}

static int teardown(void **state)
{
    (void)state;
    stream_cleaner_done(&cleaner);
    lane_done(&lane);
    for (size_t i = 0; i < base.entry_count; i++)
        buf_done(&base.entries[i].rows);
    return 0;
}

static void insert_row(int64_t seq)
{
    base.row[seq] = true;
    base.created_ms[seq] = base.now_ms;
}

static void put_id(struct buf *rows, int64_t number)
{
    struct published_id id;
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRId64 " ", number);

    assert_true(published_id_set(&id, (struct bytes){text, (size_t)len}));
    published_ids_put(rows, &id, 1);
}

/* The rows from `from` to `to`, every step-th one, were published. */
static void publish_rows(int64_t from, int64_t to, int64_t step)
{
    struct entry *entry = &base.entries[base.entry_count++];
    int64_t seqs[ROWS_MAX];
    size_t count = 0;

    for (int64_t seq = from; seq <= to; seq += step) {
        insert_row(seq);
        base.published[seq] = true;
        seqs[count++] = seq;
    }
    assert_true(base.entry_count <= ENTRIES_MAX);
    *entry = (struct entry){
        .number = (int64_t)base.entry_count,
        .saved_ms = base.now_ms,
        .first_seq = from,
        .kind = kind(),
    };
    if (kind() == CLEANER_SEQS) {
        seq_ranges_put(&entry->rows, seqs, count);
        return;
    }
    entry->id_count = (int64_t)count;
    for (size_t i = 0; i < count; i++)
        put_id(&entry->rows, seqs[i]);
}

static void run(int64_t ms)
{
    int64_t until_ms = base.now_ms + ms;

    while (base.now_ms < until_ms) {
        int64_t wait_ms = stream_cleaner_step(&cleaner, base.now_ms);

        assert_true(wait_ms >= 0);
        base.now_ms += wait_ms < until_ms - base.now_ms ? wait_ms : until_ms - base.now_ms;
    }
}

static size_t count_rows(void)
{
    size_t count = 0;

    for (size_t seq = 0; seq <= ROWS_MAX; seq++)
        count += base.row[seq];
    return count;
}

static size_t count_entries(void)
{
    size_t count = 0;

    for (size_t i = 0; i < base.entry_count; i++)
        count += base.entries[i].number != 0;
    return count;
}

static void published_rows_are_deleted_when_they_were_kept(void **state)
{
    (void)state;
    publish_rows(1, 100, 1);
    insert_row(101);
    run(KEEP_MS / 2);
    publish_rows(102, 200, 2);
    run(KEEP_MS / 2 - 1);
    assert_int_equal(count_rows(), 151);
    run(10);
    assert_int_equal(count_rows(), 51);
    assert_int_equal(count_entries(), 1);
    run(KEEP_MS);
    assert_int_equal(count_rows(), 1);
    assert_true(base.row[101]);
    assert_int_equal(count_entries(), 0);
    assert_int_equal(metric_value(&lane.metrics->deleted), 150);
    assert_false(condition_read(&cleaner.removing, NULL));
}

static void pieces_are_bounded_and_apart(void **state)
{
    (void)state;
    cleaner.rows_max = 100;
    own.keep_ids_max *= 3;
    publish_rows(1, 2500, 1);
    run(KEEP_MS + 24);
    assert_in_range(base.deletions, 20, 25);
    run(10);
    assert_int_equal(count_rows(), 0);
    assert_int_equal(base.piece_rows, 100);
    assert_int_equal(base.deletions, 25);
    /* Single rows, in as many ranges as a statement may have. */
    publish_rows(1, 2000, 2);
    cleaner.rows_max = CLEANER_ROWS_MAX;
    base.deletions = 0;
    run(KEEP_MS + 1000);
    assert_int_equal(count_rows(), 0);
    assert_int_equal(base.deletions, by_id() ? 1 : 2);
}

/* Entries are as old as they are saved: the next one is due no sooner than the oldest one. */
static void the_cleaner_asks_again_when_an_entry_is_due(void **state)
{
    size_t calls;

    (void)state;
    run(5 * KEEP_MS);
    calls = base.calls;
    run(10 * KEEP_MS);
    assert_in_range(base.calls - calls, 9, 11);
    cleaner.keep_ms = 20000;
    run(2 * KEEP_MS);
    calls = base.calls;
    run(40000);
    assert_in_range(base.calls - calls, 4, 7);
    publish_rows(1, 100, 1);
    run(19990);
    assert_int_equal(count_rows(), 100);
    run(40);
    assert_int_equal(count_rows(), 0);
}

static void nothing_is_deleted_without_the_lease(void **state)
{
    (void)state;
    publish_rows(1, 100, 1);
    set_lease(0);
    run(5 * KEEP_MS);
    assert_int_equal(base.calls, 0);
    /* A lease that another instance has taken meanwhile. */
    base.epoch = EPOCH + 1;
    set_lease(EPOCH);
    run(5 * KEEP_MS);
    assert_int_equal(count_rows(), 100);
    assert_int_equal(count_entries(), 1);
    assert_false(condition_read(&cleaner.removing, NULL));
    set_lease(EPOCH + 1);
    run(2 * KEEP_MS);
    assert_int_equal(count_rows() + count_entries(), 0);
}

static void rows_that_are_kept_for_ever_are_left_alone(void **state)
{
    (void)state;
    stream_cleaner_done(&cleaner);
    own.keep_ms = -1;
    start_cleaner();
    assert_int_equal(stream_cleaner_step(&cleaner, base.now_ms), LOOP_WAKEUP);
    assert_int_equal(base.calls, 0);
}

static void without_a_column_seq_only_entries_end(void **state)
{
    (void)state;
    base.table.has_seq = false;
    base.table.has_id = true;
    publish_rows(1, 100, 1);
    insert_row(101);
    run(4 * CLEANER_LIST_MS);
    assert_int_equal(base.counts, 0);
    assert_int_equal(base.deletions, 0);
    assert_int_equal(base.lists, 0);
    assert_int_equal(count_rows(), 101);
    assert_int_equal(count_entries(), 0);
    assert_true(cleaner.told);
}

/* Each call fails in turn, before or after its effect, or is the last one of its process. */
static void any_call_may_fail(bool ids, size_t fail_at, bool after, bool kill)
{
    setup(NULL);
    if (ids)
        use_ids();
    cleaner.rows_max = 30;
    publish_rows(1, 100, 1);
    insert_row(101);
    publish_rows(102, 160, 3);
    base.fail_at = fail_at;
    base.fail_after = after;
    while (kill && base.calls < fail_at && base.now_ms < 1000000 + 3 * KEEP_MS)
        run(1);
    if (kill) {
        stream_cleaner_done(&cleaner);
        set_lease(++base.epoch);
        start_cleaner();
    }
    run(2 * KEEP_MS + 12000);
    assert_true(base.row[101]);
    assert_int_equal(count_rows(), 1);
    assert_int_equal(count_entries(), 0);
    assert_false(condition_read(&cleaner.removing, NULL));
    teardown(NULL);
}

static void all_calls_may_fail(bool ids)
{
    size_t calls;

    any_call_may_fail(ids, 0, false, false);
    calls = base.calls;
    assert_in_range(calls, 8, 100);
    for (size_t i = 1; i <= calls; i++) {
        any_call_may_fail(ids, i, false, false);
        any_call_may_fail(ids, i, true, false);
        any_call_may_fail(ids, i, false, true);
        any_call_may_fail(ids, i, true, true);
    }
}

static void it_ends_its_work_after_any_failure(void **state)
{
    (void)state;
    all_calls_may_fail(false);
    all_calls_may_fail(true);
}

static void a_failure_is_told_until_it_ends(void **state)
{
    struct err err;

    (void)state;
    publish_rows(1, 10, 1);
    run(KEEP_MS / 2);
    base.fail_at = base.calls + 2;
    while (base.calls < base.fail_at)
        run(1);
    assert_true(condition_read(&cleaner.removing, &err));
    assert_string_equal(err.text, "the connection was lost");
    run(200);
    assert_false(condition_read(&cleaner.removing, NULL));
}

static void bytes_that_are_no_seqs_delete_nothing(void **state)
{
    struct err err;

    (void)state;
    publish_rows(1, 10, 1);
    base.entries[0].rows.data[0] = 0;
    run(2 * KEEP_MS);
    assert_int_equal(base.deletions, 0);
    assert_int_equal(count_entries(), 1);
    assert_true(condition_read(&cleaner.removing, &err));
    assert_non_null(strstr(err.text, "row 1 of relay_published"));
}

static int64_t unpublished(void)
{
    return metric_value(&lane.metrics->unpublished);
}

static void rows_that_did_not_come_through_the_log_are_counted(void **state)
{
    struct err err;

    (void)state;
    insert_row(5);
    insert_row(7);
    publish_rows(8, 20, 1);
    insert_row(21);
    run(CLEANER_MARGIN_MS + 2 * KEEP_MS);
    /* A long transaction commits now: its row is published a little later. */
    insert_row(3);
    base.created_ms[3] = 0;
    run(CLEANER_LIST_MS);
    publish_rows(3, 3, 1);
    run(CLEANER_LIST_MS);
    assert_int_equal(unpublished(), 3);
    assert_true(condition_read(&cleaner.unpublished, &err));
    assert_non_null(strstr(err.text, "3 rows of table outbox, from seq 5 on, "));
    base.row[5] = base.row[7] = base.row[21] = false;
    run(CLEANER_LIST_MS + KEEP_MS);
    assert_int_equal(unpublished(), 0);
    assert_false(condition_read(&cleaner.unpublished, NULL));
    assert_in_range(base.lists, 3, 6);
}

static void a_lane_that_is_behind_counts_nothing(void **state)
{
    (void)state;
    insert_row(5);
    metric_set(&lane.metrics->oldest_age, 3600000);
    run(5 * CLEANER_LIST_MS);
    assert_in_range(base.lists, 5, 6);
    assert_int_equal(unpublished(), 0);
    metric_set(&lane.metrics->oldest_age, 10);
    run(2 * CLEANER_LIST_MS);
    assert_int_equal(unpublished(), 1);
    set_lease(0);
    run(KEEP_MS);
    assert_int_equal(unpublished(), 0);
}

static void the_count_is_bounded(void **state)
{
    struct err err;

    (void)state;
    for (int64_t seq = 1; seq <= ROWS_MAX; seq++)
        insert_row(seq);
    run(4 * CLEANER_LIST_MS);
    assert_int_equal(unpublished(), CLEANER_LISTED_MAX);
    assert_true(condition_read(&cleaner.unpublished, &err));
    assert_non_null(strstr(err.text, "at least 1001 rows of table outbox"));
}

static void ids_that_are_damaged_delete_nothing(void **state)
{
    struct err err;

    (void)state;
    publish_rows(1, 10, 1);
    base.entries[0].rows.data[0] = (char)64;
    run(2 * KEEP_MS);
    assert_int_equal(base.deletions, 0);
    assert_int_equal(count_entries(), 1);
    assert_true(condition_read(&cleaner.removing, &err));
    assert_non_null(strstr(err.text, "row 1 of relay_published_id: byte 0 of 31 is no id"));
}

static void ids_without_a_unique_index_delete_nothing(void **state)
{
    (void)state;
    base.table.has_id = false;
    own.keep_ids_max = 0;
    publish_rows(1, 10, 1);
    own.keep_ids_max = 1000;
    assert_int_equal(stream_cleaner_step(&cleaner, base.now_ms), 0);
    assert_true(cleaner.told);
    assert_int_equal(base.deletions, 0);
}

/* They are left from before the table was changed, or its index. */
static void entries_of_the_other_kind_end_and_their_rows_stay(void **state)
{
    (void)state;
    own.keep_ids_max = 1000;
    for (int changes = 0; changes < 2; changes++) {
        const struct cleaner_table tables[] = {{.has_seq = true}, {.has_id = true}, {0}};

        base.table = tables[changes];
        publish_rows(1, 10, 1);
        publish_rows(11, 20, 1);
        base.table = tables[changes + 1];
        base.deletions = 0;
        set_lease(++base.epoch);
        run(KEEP_MS / 2);
        assert_int_equal(count_entries(), 2);
        run(2 * CLEANER_OTHER_MS);
        assert_int_equal(count_entries(), 0);
        assert_int_equal(base.deletions, 0);
        assert_int_equal(count_rows(), 20);
    }
}

static void run_until_ids_are_too_many(void)
{
    for (int i = 0; i < 300 && !condition_read(&cleaner.kept_ids, NULL); i++)
        run(100);
    run(100);
}

/* Of more ids than may be kept the oldest ones end early. */
static void a_full_list_of_ids_ends_early(void **state)
{
    struct err err;

    (void)state;
    own.keep_ms = cleaner.keep_ms = 3600000;
    own.keep_ids_max = 100;
    publish_rows(1, 60, 1);
    run(3 * CLEANER_COUNT_MS);
    assert_int_equal(count_rows(), 60);
    assert_in_range(base.counts, 2, 4);
    publish_rows(61, 120, 1);
    publish_rows(121, 130, 1);
    run_until_ids_are_too_many();
    assert_true(condition_read(&cleaner.kept_ids, &err));
    assert_non_null(strstr(err.text, "130 ids of published rows of table outbox, more than"));
    assert_int_equal(count_entries(), 2);
    assert_int_equal(count_rows(), 70);
    assert_false(base.row[60]);
    run(2 * CLEANER_COUNT_MS);
    assert_false(condition_read(&cleaner.kept_ids, NULL));
    assert_int_equal(count_rows(), 70);
    /* A process without the lane says nothing of it. */
    publish_rows(131, 180, 1);
    run_until_ids_are_too_many();
    assert_true(condition_read(&cleaner.kept_ids, NULL));
    set_lease(0);
    run(1000);
    assert_false(condition_read(&cleaner.kept_ids, NULL));
}

static void rows_without_a_seq_that_did_not_come_through_the_log_are_counted(void **state)
{
    struct err err;

    (void)state;
    base.created_ms[5] = 0;
    base.row[5] = true;
    /* The time of its writer is an old one, as a transaction's may be that was open for long. */
    publish_rows(8, 8, 1);
    base.created_ms[8] = 0;
    run(CLEANER_MARGIN_MS);
    /* Published by a lane that was behind. */
    publish_rows(9, 9, 1);
    base.created_ms[9] = 0;
    metric_set(&lane.metrics->oldest_age, 3600000);
    run(2000);
    assert_int_equal(unpublished(), 0);
    metric_set(&lane.metrics->oldest_age, 10);
    run(3 * CLEANER_LIST_MS);
    assert_int_equal(unpublished(), 1);
    assert_true(condition_read(&cleaner.unpublished, &err));
    assert_non_null(strstr(err.text, "1 rows of table outbox are older than keep_ms"));
    base.row[5] = false;
    run(2 * CLEANER_LIST_MS + 4 * KEEP_MS);
    assert_int_equal(unpublished(), 0);
    assert_in_range(base.lists, 3, 7);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_IDS(name) cmocka_unit_test_setup_teardown(name, setup_ids, teardown)
    const struct CMUnitTest tests[] = {
        TEST(published_rows_are_deleted_when_they_were_kept),
        TEST(pieces_are_bounded_and_apart),
        TEST(the_cleaner_asks_again_when_an_entry_is_due),
        TEST(nothing_is_deleted_without_the_lease),
        TEST(rows_that_are_kept_for_ever_are_left_alone),
        TEST(without_a_column_seq_only_entries_end),
        cmocka_unit_test(it_ends_its_work_after_any_failure),
        TEST(a_failure_is_told_until_it_ends),
        TEST(bytes_that_are_no_seqs_delete_nothing),
        TEST(rows_that_did_not_come_through_the_log_are_counted),
        TEST(a_lane_that_is_behind_counts_nothing),
        TEST(the_count_is_bounded),
        TEST(entries_of_the_other_kind_end_and_their_rows_stay),
        TEST_IDS(published_rows_are_deleted_when_they_were_kept),
        TEST_IDS(pieces_are_bounded_and_apart),
        TEST_IDS(nothing_is_deleted_without_the_lease),
        TEST_IDS(ids_that_are_damaged_delete_nothing),
        TEST_IDS(ids_without_a_unique_index_delete_nothing),
        TEST_IDS(a_full_list_of_ids_ends_early),
        TEST_IDS(rows_without_a_seq_that_did_not_come_through_the_log_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
