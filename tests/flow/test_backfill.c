/* SPDX-License-Identifier: MIT */
/* A backfill on a model of its table, of the rows that are saved as published, and of a broker that
 * refuses rows, loses reports and fails. */
#include "outbox/relay/stream/backfill.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROWS_MAX 3000
#define KEYS 7
#define QUEUE_MAX 400 /* records that the producer takes */
#define GIVE_UP_MS 5000

static struct {
    bool row[ROWS_MAX + 1]; /* by seq; its key is seq % KEYS */
    bool published[ROWS_MAX + 1];
    bool refused[ROWS_MAX + 1]; /* by the broker */
    bool moved[ROWS_MAX + 1];
    bool on_its_way[ROWS_MAX + 1]; /* the lane publishes it before settle() returns */
    bool is_cleaned;               /* and deletes it and its entry */
    int records[ROWS_MAX + 1];
    int64_t last_seq[KEYS]; /* whose first record is in the topic */
    int64_t key_in_queue;   /* has tasks in the retry queue; -1: none */
    int64_t now_ms;
    size_t calls;
    size_t fail_at;    /* number of the call that fails; 0: none */
    bool fail_after;   /* it has its effect */
    size_t waits_left; /* until a signal comes; 0: none comes */
    bool signalled;
    size_t polls_left; /* that bring no report */
    size_t settled;
    size_t named;

    uint64_t queued[QUEUE_MAX]; /* tickets of the records in flight, and their rows */
    int64_t queued_seq[QUEUE_MAX];
    size_t queued_count;
    bool stopped;         /* the producer has refused one: it sends no more */
    size_t fail_rounds;   /* so many times the next report is a failure */
    size_t report_failed; /* reports until then */
} base;

static struct settings settings;
static struct backfill backfill;

static bool call_works(bool before, struct err *err)
{
    if (before)
        base.calls++;
    if (base.calls != base.fail_at || before == base.fail_after)
        return true;
    err_fail(err, RC_RETRY, 0, "the connection was lost");
    return false;
}

static enum rc list(void *ctx, int64_t after, int64_t upto, int64_t *seqs, size_t seqs_max,
                    size_t *count, struct err *err)
{
    (void)ctx;
    *count = 0;
    if (!call_works(true, err))
        return RC_RETRY;
    for (int64_t seq = after + 1; seq <= upto && seq <= ROWS_MAX && *count < seqs_max; seq++)
        if (base.row[seq])
            seqs[(*count)++] = seq;
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static enum rc pass_published(void *ctx, int64_t upto, backfill_on_range on_range,
                              void *on_range_ctx, struct err *err)
{
    (void)ctx;
    if (!call_works(true, err))
        return RC_RETRY;
    for (int64_t seq = 1; seq <= ROWS_MAX && seq <= upto; seq++) {
        struct seq_range range = {seq, seq};

        if (!base.published[seq])
            continue;
        while (range.to < ROWS_MAX && base.published[range.to + 1])
            range.to++;
        on_range(on_range_ctx, &range);
        seq = range.to;
    }
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static enum rc settle(void *ctx, struct err *err)
{
    (void)ctx;
    if (!call_works(true, err))
        return RC_RETRY;
    base.settled++;
    for (int64_t seq = 1; seq <= ROWS_MAX; seq++)
        base.published[seq] |= base.on_its_way[seq] && !base.is_cleaned;
    for (int64_t seq = 1; seq <= ROWS_MAX && base.is_cleaned; seq++)
        base.row[seq] = base.row[seq] && !base.on_its_way[seq];
    return RC_OK;
}

static enum rc read_rows(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                         source_on_row on_row, void *on_row_ctx, struct err *err)
{
    size_t rows = 0;

    (void)ctx;
    if (!call_works(true, err))
        return RC_RETRY;
    for (size_t i = 0; i < count; i++) {
        for (int64_t seq = ranges[i].from; seq <= ranges[i].to && rows < rows_max; seq++) {
            char id[24];
            char key[24];
            struct relay_row row = {.seq = seq, .table_seq = seq, .aggregate_type = {"kind", 4}};

            if (!base.row[seq])
                continue;
            row.id = (struct bytes){id, (size_t)snprintf(id, sizeof(id), "id-%d", (int)seq)};
            row.aggregate_id =
                (struct bytes){key, (size_t)snprintf(key, sizeof(key), "%d", (int)(seq % KEYS))};
            row.payload = row.id;
            rows++;
            if (!on_row(on_row_ctx, &row))
                return RC_OK;
        }
    }
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static enum rc mark(void *ctx, const int64_t *seqs, size_t count, struct err *err)
{
    (void)ctx;
    if (!call_works(true, err))
        return RC_RETRY;
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || seqs[i - 1] < seqs[i]);
        assert_true(base.records[seqs[i]] > 0 || base.moved[seqs[i]]);
        base.published[seqs[i]] = true;
    }
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static enum rc load_keys(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err)
{
    char text[ORDERING_KEY_SIZE];
    char key[24];

    (void)ctx;
    (void)keys_max;
    if (!call_works(true, err))
        return RC_RETRY;
    for (int64_t i = 0; i < KEYS; i++) {
        bool has = i == base.key_in_queue;

        for (int64_t seq = 1; seq <= ROWS_MAX; seq++)
            has = has || (base.moved[seq] && seq % KEYS == i);
        if (!has)
            continue;
        snprintf(key, sizeof(key), "%d", (int)i);
        ordering_key_make_text(text, "event.kind", (struct bytes){key, strlen(key)});
        if (on_key(on_key_ctx, text, err) != RC_OK)
            return RC_FATAL;
    }
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

/* As the diverter does it for a table: the row is gone. */
static enum rc move(void *ctx, const struct relay_move *one, struct err *err)
{
    (void)ctx;
    if (!call_works(true, err))
        return RC_RETRY;
    /* All earlier rows of its key are in the topic or moved. */
    for (int64_t seq = one->seq % KEYS; seq < one->seq; seq += KEYS)
        assert_true(!base.row[seq] || base.records[seq] > 0 || base.published[seq]);
    base.moved[one->seq] = true;
    base.row[one->seq] = false;
    return call_works(false, err) ? RC_OK : RC_RETRY;
}

static void on_refused(void *ctx, int64_t seq, bool moved, const struct err *why)
{
    (void)ctx;
    (void)why;
    assert_true(moved == base.moved[seq]);
    base.named++;
}

static enum rc hold(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return RC_OK;
}

static int64_t read_clock(void *ctx)
{
    (void)ctx;
    return base.now_ms;
}

static bool wait_ms(void *ctx, int64_t ms)
{
    (void)ctx;
    base.now_ms += ms;
    if (base.waits_left > 0 && --base.waits_left == 0)
        base.signalled = true;
    return base.signalled;
}

static enum rc open_topic(void *ctx, const char *topic, size_t index, struct err *err)
{
    (void)ctx;
    (void)index;
    (void)err;
    assert_string_equal(topic, "event.kind");
    assert_int_equal(base.queued_count, 0);
    return RC_OK;
}

static enum rc send(void *ctx, const char *topic, size_t index, const struct relay_row *row,
                    uint64_t ticket, struct err *err)
{
    (void)ctx;
    (void)topic;
    (void)index;
    assert_false(base.signalled);
    if (base.queued_count == QUEUE_MAX)
        return err_fail(err, RC_RETRY, 0, "the queue is full");
    base.queued[base.queued_count] = ticket;
    base.queued_seq[base.queued_count++] = row->seq;
    return RC_OK;
}

static void deliver(int64_t seq)
{
    /* The first records of a key are in order, and none follows one that was refused or moved. */
    if (base.records[seq]++ == 0) {
        assert_true(base.last_seq[seq % KEYS] < seq);
        base.last_seq[seq % KEYS] = seq;
    }
    for (int64_t before = seq % KEYS; before < seq; before += KEYS)
        assert_true(!base.moved[before]);
}

static enum rc poll(void *ctx, broker_on_report on_report, void *on_report_ctx, struct err *err)
{
    size_t count = base.queued_count;

    (void)ctx;
    (void)err;
    if (base.polls_left > 0) {
        base.polls_left--;
        return RC_OK;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t seq = base.queued_seq[i];
        struct err why = {0};
        enum rc rc = RC_OK;

        if (base.fail_rounds > 0 && base.report_failed-- == 0) {
            base.fail_rounds--;
            base.report_failed = 0;
            base.stopped = true;
        }
        if (base.refused[seq])
            rc = err_fail(&why, RC_REJECT, 0, "too large");
        if (base.stopped)
            rc = err_fail(&why, RC_RETRY, 0, "the broker failed");
        base.stopped = base.stopped || rc != RC_OK;
        if (rc == RC_OK)
            deliver(seq);
        on_report(on_report_ctx, base.queued[i], rc, rc == RC_OK ? NULL : &why);
    }
    base.queued_count = 0;
    return RC_OK;
}

static void purge(void *ctx)
{
    (void)ctx;
}

/* What was in flight when a signal came may be in the topic. */
static void reset(void *ctx)
{
    (void)ctx;
    for (size_t i = 0; i < base.queued_count && base.signalled; i++)
        deliver(base.queued_seq[i]);
    base.queued_count = 0;
    base.stopped = false;
}

static void start(bool moves)
{
    static const struct lane_settings lane = {.name = "fast", .table = "outbox"};
    const struct backfill_ops ops = {
        .list = list,
        .published = pass_published,
        .settle = moves ? NULL : settle,
        .read = read_rows,
        .mark = mark,
        .load_keys = moves ? load_keys : NULL,
        .move = moves ? move : NULL,
        .on_refused = on_refused,
        .hold = hold,
        .time_ms = read_clock,
        .wait = wait_ms,
    };
    const struct broker broker = {
        .topic_open = open_topic, .send = send, .poll = poll, .purge = purge, .reset = reset};

    reset(NULL);
    assert_int_equal(backfill_init(&backfill, &ops, &broker, &lane, &settings, GIVE_UP_MS, NULL),
                     RC_OK);
}

static void fill(int64_t rows)
{
    memset(&base, 0, sizeof(base));
    base.key_in_queue = -1;
    for (int64_t seq = 1; seq <= rows; seq++)
        base.row[seq] = seq % 11 != 0;
}

static int set_up(void **state)
{
    (void)state;
    settings.relay.row_bytes_max = 1000;
    settings.relay.read_bytes_max = 100000;
    settings.relay.send_timeout_ms = 1000;
    settings.relay.diverted_keys_max = 10;
    snprintf(settings.relay.topic_prefix, sizeof(settings.relay.topic_prefix), "event.");
    return 0;
}

static enum rc run(bool moves)
{
    struct err err = {0};
    enum rc rc;

    start(moves);
    rc = backfill_run(&backfill, ROWS_MAX, true, &err);
    return rc;
}

static int64_t count(const bool flags[ROWS_MAX + 1])
{
    int64_t found = 0;

    for (int64_t seq = 1; seq <= ROWS_MAX; seq++)
        found += flags[seq];
    return found;
}

static void rows_that_are_not_saved_are_published_once_and_saved(void **state)
{
    (void)state;
    fill(ROWS_MAX);
    for (int64_t seq = 100; seq < 900; seq++)
        base.published[seq] = true;
    assert_int_equal(run(true), RC_OK);
    for (int64_t seq = 1; seq <= ROWS_MAX; seq++) {
        bool before = seq >= 100 && seq < 900;

        assert_int_equal(base.records[seq], base.row[seq] && !before);
        assert_true(!base.row[seq] || base.published[seq]);
    }
    assert_int_equal(backfill.result.found, backfill.result.published);
    assert_int_equal(backfill.result.first_seq, 1);
    backfill_done(&backfill);
    assert_int_equal(run(true), RC_OK);
    assert_int_equal(backfill.result.found, 0);
    backfill_done(&backfill);
}

static void a_dry_run_counts(void **state)
{
    struct err err = {0};

    (void)state;
    fill(100);
    start(true);
    assert_int_equal(backfill_run(&backfill, 50, false, &err), RC_OK);
    assert_int_equal(backfill.result.found, 46);
    assert_int_equal(backfill.result.published, 0);
    assert_int_equal(count(base.published), 0);
    backfill_done(&backfill);
}

static void rows_on_their_way_through_the_log_are_left_to_the_lane(void **state)
{
    (void)state;
    fill(1000);
    for (int64_t seq = 500; seq <= 1000; seq++)
        base.on_its_way[seq] = base.row[seq];
    assert_int_equal(run(false), RC_OK);
    for (int64_t seq = 1; seq <= 1000; seq++)
        assert_int_equal(base.records[seq], base.row[seq] && seq < 500);
    assert_int_equal(base.settled, 1);
    backfill_done(&backfill);
}

static void rows_that_the_lane_published_and_deleted_are_not_counted(void **state)
{
    (void)state;
    fill(1000);
    base.is_cleaned = true;
    for (int64_t seq = 500; seq <= 1000; seq++)
        base.on_its_way[seq] = base.row[seq];
    assert_int_equal(run(false), RC_OK);
    assert_int_equal(backfill.result.found, backfill.result.published);
    assert_int_equal(backfill.result.found, 454);
    assert_int_equal(backfill.result.last_seq, 499);
    backfill_done(&backfill);
}

static void a_signal_lets_what_is_in_flight_be_acknowledged_and_saved(void **state)
{
    (void)state;
    for (size_t waits = 1; waits < 40; waits++) {
        fill(2000);
        base.waits_left = waits;
        base.polls_left = 10;
        if (run(true) == RC_OK)
            assert_false(base.signalled);
        for (int64_t seq = 1; seq <= ROWS_MAX; seq++) {
            assert_true(base.records[seq] <= 1);
            assert_int_equal(base.published[seq], base.records[seq] == 1);
        }
        backfill_done(&backfill);
    }
}

static void a_signal_does_not_wait_for_a_broker_that_is_silent(void **state)
{
    (void)state;
    fill(100);
    base.waits_left = 3;
    base.polls_left = SIZE_MAX;
    assert_int_equal(run(true), RC_RETRY);
    assert_true(base.now_ms <= 2 * settings.relay.send_timeout_ms);
    assert_int_equal(count(base.published), 0);
    backfill_done(&backfill);
}

static void a_refused_row_and_the_later_ones_of_its_key_are_moved(void **state)
{
    (void)state;
    fill(200);
    base.refused[50] = true;
    base.key_in_queue = 3;
    assert_int_equal(run(true), RC_OK);
    for (int64_t seq = 1; seq <= 200; seq++) {
        bool moves = seq % 11 != 0 && (seq % KEYS == 3 || (seq % KEYS == 50 % KEYS && seq >= 50));

        assert_int_equal(base.moved[seq], moves);
        assert_int_equal(base.records[seq] > 0, seq % 11 != 0 && !moves);
        assert_true(seq % 11 == 0 || base.published[seq]);
    }
    assert_int_equal(base.named, count(base.moved));
    backfill_done(&backfill);
}

static void refused_rows_stay_without_a_retry_queue(void **state)
{
    (void)state;
    fill(200);
    base.refused[50] = base.refused[60] = true;
    for (int runs = 0; runs < 2; runs++) {
        assert_int_equal(run(false), RC_OK);
        assert_true(backfill.result.left > 2);
        assert_int_equal(backfill.result.left, (int64_t)base.named);
        for (int64_t seq = 1; seq <= 200; seq++) {
            bool left =
                (seq % KEYS == 50 % KEYS && seq >= 50) || (seq % KEYS == 60 % KEYS && seq >= 60);

            assert_int_equal(base.published[seq], base.row[seq] && !left);
            assert_true(base.records[seq] <= 1);
        }
        base.named = 0;
        backfill_done(&backfill);
    }
}

static void a_broker_that_fails_repeats_and_loses_nothing(void **state)
{
    (void)state;
    for (size_t at = 0; at < 50; at++) {
        fill(300);
        base.fail_rounds = 3;
        base.report_failed = at * 7;
        assert_int_equal(run(true), RC_OK);
        for (int64_t seq = 1; seq <= 300; seq++)
            assert_int_equal(base.records[seq], base.row[seq]);
        backfill_done(&backfill);
    }
}

static void it_gives_up_a_broker_that_acknowledges_nothing(void **state)
{
    (void)state;
    fill(100);
    base.fail_rounds = 1000;
    assert_int_equal(run(true), RC_RETRY);
    assert_true(base.now_ms >= GIVE_UP_MS);
    assert_int_equal(count(base.published), 0);
    backfill_done(&backfill);
}

/* Each call fails in turn, before or after it had its effect, and the command is run again. */
static void a_command_that_ends_anywhere_goes_on(void **state)
{
    (void)state;
    for (size_t fail_at = 1; fail_at < 200; fail_at++) {
        size_t calls;
        int64_t repeats = 0;

        fill(2500);
        base.refused[1500] = true;
        base.fail_at = fail_at / 2 + 1;
        base.fail_after = fail_at % 2;
        run(true);
        calls = base.calls;
        base.fail_at = 0;
        backfill_done(&backfill);
        assert_int_equal(run(true), RC_OK);
        backfill_done(&backfill);
        for (int64_t seq = 1; seq <= 2500; seq++) {
            assert_true(seq % 11 == 0 || base.records[seq] > 0 || base.moved[seq]);
            assert_true(!base.row[seq] || base.published[seq]);
            repeats += base.records[seq] > 1;
        }
        assert_true(repeats <= BACKFILL_ROWS_MAX);
        if (calls < fail_at / 2 + 1)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_not_saved_are_published_once_and_saved),
        cmocka_unit_test(a_dry_run_counts),
        cmocka_unit_test(rows_on_their_way_through_the_log_are_left_to_the_lane),
        cmocka_unit_test(rows_that_the_lane_published_and_deleted_are_not_counted),
        cmocka_unit_test(a_signal_lets_what_is_in_flight_be_acknowledged_and_saved),
        cmocka_unit_test(a_signal_does_not_wait_for_a_broker_that_is_silent),
        cmocka_unit_test(a_refused_row_and_the_later_ones_of_its_key_are_moved),
        cmocka_unit_test(refused_rows_stay_without_a_retry_queue),
        cmocka_unit_test(a_broker_that_fails_repeats_and_loses_nothing),
        cmocka_unit_test(it_gives_up_a_broker_that_acknowledges_nothing),
        cmocka_unit_test(a_command_that_ends_anywhere_goes_on),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
