/* SPDX-License-Identifier: MIT */
/* Lanes that share one stream of the binary log. A server writes a log of random transactions of
 * several tables; lanes read it each with a stream of its own, join the shared stream, leave it and
 * begin again, in an order that the seed decides. Each lane must get the rows of its table, each
 * once and in order. A lane finds its place in the log by its position only, as a server does. */
#include "common/hash.h"
#include "outbox/relay/shared/shared_stream.h"
#include "tests/flow/log_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LANES (LOG_TABLES - 1) /* one is of no lane */
#define SEEDS 60

struct lane {
    char table[16];
    struct shared_member member;
    struct change_stream changes;
    struct log_link link;
    bool joined;
    bool asks;
    int64_t rows[LOG_ROWS_MAX];
    size_t count;     /* committed */
    size_t row_count; /* with those of the present transaction */
    size_t joins;
    size_t fulls;
    size_t failures;
};

static struct shared_stream shared;
static struct log_link shared_link;
static struct lane lanes[LANES];
static struct stop stop;
static uint64_t link_state; /* of the thread of the shared stream */
static bool has_threads;
static unsigned fail_permille; /* of the events of the shared stream */
static bool is_silent;         /* that is why it fails */
static bool is_opened;
static size_t opens;

static unsigned choose_for_link(unsigned count)
{
    return (unsigned)(rng_next(&link_state) % count);
}

static enum rc read_shared(void *ctx, const void **event, size_t *len, struct err *err)
{
    struct log_link *link = ctx;

    if (choose_for_link(1000) < fail_permille)
        return err_fail(err, RC_RETRY, 0, "the connection was lost");
    if (!log_link_read(link, event, len)) {
        if (has_threads)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        log_link_beat(link, event, len);
    }
    return RC_OK;
}

static bool is_shared_ready(void *ctx)
{
    const struct log_link *link = ctx;

    return link->at < atomic_load(&the_log->count) && choose_for_link(3) > 0;
}

static bool was_shared_silent(void *ctx)
{
    (void)ctx;
    return is_silent;
}

static void close_shared(void *ctx)
{
    (void)ctx;
    is_opened = false;
}

static void interrupt_shared(void *ctx)
{
    (void)ctx;
}

/* Lanes, as stream_mysql.c. */

static void begin_lane(struct lane *lane, const char *before, const char *file, uint64_t offset)
{
    struct err err = {0};

    shared_member_leave(&lane->member);
    lane->joined = lane->asks = false;
    assert_int_equal(change_stream_begin(&lane->changes, the_log->mode == MODE_MARIADB, before,
                                         file, offset, 0, "", &err),
                     RC_OK);
    log_link_open(&lane->link, &lane->changes);
    lane->row_count = lane->count;
}

/* Reads again from the last commit. */
static void reopen_lane(struct lane *lane)
{
    struct buf before = {0};
    char file[BINLOG_FILE_SIZE];

    gtid_set_put_text(&lane->changes.before, &before);
    snprintf(file, sizeof(file), "%s", lane->changes.file);
    begin_lane(lane, buf_text(&before), file, lane->changes.offset);
    buf_done(&before);
}

static void open_shared(struct lane *lane)
{
    const struct shared_link link = {&shared_link,      read_shared,  is_shared_ready,
                                     was_shared_silent, close_shared, interrupt_shared};
    struct shared_place place = {0};
    struct buf before = {0};
    struct err err = {0};

    assert_false(is_opened);
    is_opened = true;
    opens++;
    log_link_open(&shared_link, &lane->changes);
    shared_place_set(&place, &lane->changes);
    gtid_set_put_text(&lane->changes.before, &before);
    assert_int_equal(shared_stream_begin(&shared, &link, 5, the_log->mode == MODE_MARIADB,
                                         buf_text(&before), &place, &err),
                     RC_OK);
    buf_done(&before);
}

/* Returns false when the lane has to ask again. */
static bool ask(struct lane *lane, int64_t now_ms)
{
    struct shared_place own = {0};
    int64_t silence_ms = 0;

    shared_place_set(&own, &lane->changes);
    switch (shared_member_join(&lane->member, 5, &own)) {
    case SHARED_JOINED:
        change_stream_move(&lane->changes, own.file, own.offset);
        lane->joined = true;
        lane->joins++;
        return true;
    case SHARED_READ_ON:
        lane->asks = true;
        return true;
    case SHARED_WAIT:
        lane->asks = true;
        if (log_fixture_choose(30) > 0)
            return false;
        shared_member_leave(&lane->member);
        lane->asks = false;
        return true;
    case SHARED_REFUSED:
        shared_member_leave(&lane->member);
        lane->asks = false;
        if (shared_stream_claim(&shared, now_ms, 1000, &silence_ms))
            open_shared(lane);
    }
    return true;
}

/* Returns false when there is no event now. */
static bool give_event(struct lane *lane, int64_t now_ms)
{
    const struct change_stream *changes = &lane->changes;
    struct queued_event queued;
    enum shared_state state;
    const void *event = NULL;
    size_t len = 0;
    struct err err = {0};
    enum rc rc = RC_OK;

    if (!lane->joined && changes->state == CHANGE_OUTSIDE && changes->has_last &&
        (lane->asks || log_fixture_choose(8) == 0) && !ask(lane, now_ms))
        return false;
    if (!lane->joined) {
        if (!log_link_read(&lane->link, &event, &len))
            return false;
        assert_int_equal(change_stream_give(&lane->changes, event, len, &err), RC_OK);
        return true;
    }
    if (shared_member_take(&lane->member, &queued)) {
        change_stream_take(&lane->changes, &queued.event, queued.begin, queued.end);
        return true;
    }
    if (!shared_member_has_ended(&lane->member, &state, &rc, &err))
        return false;
    /* What is in the queue of a member ends between two transactions. */
    assert_int_equal(changes->state, CHANGE_OUTSIDE);
    lane->fulls += state == SHARED_FULL;
    lane->failures += state == SHARED_FAILED;
    if (state == SHARED_FAILED)
        assert_int_equal(rc, RC_RETRY);
    reopen_lane(lane);
    return true;
}

/* Returns false at the end of the log. */
static bool step_lane(struct lane *lane, int64_t now_ms)
{
    struct change change = {0};
    struct err err = {0};
    enum rc rc = change_stream_next(&lane->changes, &change, &err);

    if (rc != RC_OK)
        fail_msg("%s: %s", lane->table, err.text);
    switch (change.kind) {
    case CHANGE_WANTS_EVENT:
        return give_event(lane, now_ms);
    case CHANGE_ROW:
        lane->rows[lane->row_count++] = change.values[0].number;
        break;
    case CHANGE_UNDO:
        lane->row_count = lane->count + (size_t)change.row;
        break;
    case CHANGE_COMMIT:
        assert_int_equal(lane->row_count - lane->count, change.row);
        lane->count = lane->row_count;
        break;
    case CHANGE_CUT:
        lane->row_count = lane->count;
        break;
    case CHANGE_IDLE:
    case CHANGE_DEFINITION:
        break;
    }
    return true;
}

static void init(enum log_mode mode, uint64_t seed, size_t queue_bytes)
{
    struct err err = {0};

    link_state = seed;
    has_threads = false;
    fail_permille = 0;
    is_silent = is_opened = false;
    opens = 0;
    log_fixture_init(mode, seed);
    assert_int_equal(stop_init(&stop, &err), RC_OK);
    assert_int_equal(shared_stream_init(&shared, &stop, &err), RC_OK);
    for (size_t i = 0; i < LANES; i++) {
        struct lane *lane = &lanes[i];

        memset(lane, 0, sizeof(*lane));
        snprintf(lane->table, sizeof(lane->table), "outbox_%zu", i);
        assert_int_equal(change_stream_init(&lane->changes, "shop", lane->table, 1 << 20, &err),
                         RC_OK);
        assert_int_equal(
            shared_member_init(&lane->member, &shared, "shop", lane->table, queue_bytes, &err),
            RC_OK);
        begin_lane(lane, log_fixture_first_gtids(), "b.000001", 4);
        shared_member_set_reader(&lane->member, true);
    }
}

static void done(void)
{
    for (size_t i = 0; i < LANES; i++) {
        shared_member_done(&lanes[i].member);
        change_stream_done(&lanes[i].changes);
    }
    shared_stream_done(&shared);
    stop_done(&stop);
    log_fixture_done();
}

static void expect_rows(const struct lane *lane, size_t number)
{
    assert_int_equal(lane->count, the_log->row_count[number]);
    assert_memory_equal(lane->rows, the_log->rows[number], lane->count * sizeof(lane->rows[0]));
}

/* Until each lane has joined and has all rows. */
static void settle(int64_t now_ms)
{
    size_t ready = 0;

    while (the_log->is_open)
        log_fixture_write_on();
    fail_permille = 0;
    for (size_t round = 0; ready < LANES; round++) {
        assert_true(round < 100000);
        now_ms += 20;
        /* A transaction now and then, as the positions of lanes are. */
        if (round % 50 == 0) {
            log_fixture_begin_transaction(false);
            log_fixture_end_transaction();
        }
        shared_stream_step(&shared, now_ms);
        ready = 0;
        for (size_t i = 0; i < LANES; i++) {
            while (step_lane(&lanes[i], now_ms))
                continue;
            ready += lanes[i].joined && lanes[i].count == the_log->row_count[i];
        }
    }
}

struct totals {
    size_t joins;
    size_t fulls;
    size_t failures;
    size_t opens;
};

static void run_random(enum log_mode mode, uint64_t seed, size_t queue_bytes, struct totals *totals)
{
    int64_t now_ms = 1000;

    init(mode, seed, queue_bytes);
    fail_permille = log_fixture_choose(3) ? 0 : 3;
    for (size_t turn = 0; turn < 6000; turn++) {
        struct lane *lane = &lanes[log_fixture_choose(LANES)];

        now_ms += 10;
        switch (log_fixture_choose(8)) {
        case 0:
        case 1:
            log_fixture_write_on();
            break;
        case 2:
        case 3:
            shared_stream_step(&shared, now_ms);
            break;
        default:
            /* One lane after the other does nothing for some time. */
            if (lane == &lanes[turn / 400 % (LANES + 1)])
                break;
            for (unsigned i = log_fixture_choose(60); i > 0; i--)
                if (!step_lane(lane, now_ms))
                    break;
            if (log_fixture_choose(300) == 0 && lane->changes.state == CHANGE_OUTSIDE)
                reopen_lane(lane);
        }
    }
    settle(now_ms);
    for (size_t i = 0; i < LANES; i++) {
        expect_rows(&lanes[i], i);
        assert_string_equal(lanes[i].changes.file, shared.changes.file);
        totals->joins += lanes[i].joins;
        totals->fulls += lanes[i].fulls;
        totals->failures += lanes[i].failures;
    }
    totals->opens += opens;
    done();
}

static void each_lane_gets_its_rows_whatever_it_does(void **state)
{
    struct totals totals = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_random((enum log_mode)(seed % MODES), seed, seed % 2 ? 2048 : 65536, &totals);
    print_message("%zu joins, %zu full queues, %zu failures, %zu streams\n", totals.joins,
                  totals.fulls, totals.failures, totals.opens);
    /* It has all happened. */
    assert_true(totals.joins > (size_t)5 * SEEDS && totals.fulls > SEEDS && totals.failures > 0 &&
                totals.opens > SEEDS);
}

static void lanes_join_when_two_of_them_read(void **state)
{
    int64_t silence_ms = 0;

    (void)state;
    init(MODE_MARIADB, 1, 4096);
    for (size_t i = 1; i < LANES; i++)
        shared_member_set_reader(&lanes[i].member, false);
    assert_false(shared_stream_claim(&shared, 1000, 6000, &silence_ms));
    shared_member_set_reader(&lanes[1].member, true);
    assert_true(shared_stream_claim(&shared, 1000, 6000, &silence_ms));
    assert_int_equal(silence_ms, 6000);
    /* One lane opens it. */
    assert_false(shared_stream_claim(&shared, 1000, 6000, &silence_ms));
    shared_stream_give_up(&shared, 1000);
    assert_false(shared_stream_claim(&shared, 5999, 6000, &silence_ms));
    assert_true(shared_stream_claim(&shared, 6000, 6000, &silence_ms));
    shared_stream_give_up(&shared, 6000);
    done();
}

/* Opens the shared stream, which fails before an event has come. */
static void fail_first(struct lane *lane, int64_t now_ms, bool silent, int64_t expected_ms)
{
    int64_t silence_ms = 0;

    assert_true(shared_stream_claim(&shared, now_ms, 6000, &silence_ms));
    assert_int_equal(silence_ms, expected_ms);
    open_shared(lane);
    is_silent = silent;
    fail_permille = 1000;
    shared_stream_step(&shared, now_ms);
    assert_false(is_opened);
    fail_permille = 0;
}

static void a_link_is_given_more_time_after_silence_only(void **state)
{
    (void)state;
    init(MODE_MARIADB, 1, 4096);
    log_fixture_begin_transaction(false);
    log_fixture_commit();
    /* Too early to open the shared stream. */
    while (step_lane(&lanes[0], -1))
        continue;
    fail_first(&lanes[0], 10000, false, 6000);
    fail_first(&lanes[0], 20000, true, 6000);
    fail_first(&lanes[0], 30000, false, 12000);
    fail_first(&lanes[0], 40000, true, 12000);
    fail_first(&lanes[0], 50000, true, 24000);
    /* The next one finds its place. */
    settle(60000);
    fail_permille = 1000;
    shared_stream_step(&shared, 200000);
    fail_first(&lanes[0], 300000, false, 6000);
    done();
}

/* Of the shared stream. */
static void read_to_end(void)
{
    while (shared_link.at < atomic_load(&the_log->count))
        shared_stream_step(&shared, 100000);
}

static void an_error_in_one_table_concerns_its_lane_alone(void **state)
{
    uint64_t statements[LANES];
    struct change change = {0};
    struct err err = {0};
    enum rc rc = RC_OK;

    (void)state;
    init(MODE_MARIADB, 7, 65536);
    settle(1000);
    for (size_t i = 0; i < LANES; i++)
        statements[i] = lanes[i].changes.counts.statements;
    log_fixture_begin_transaction(false);
    log_fixture_add_query("UPDATE outbox_2 SET x = 1");
    log_fixture_add_query("UPDATE mysql.rds_heartbeat2 SET x = 1");
    log_fixture_insert(1, 3);
    log_fixture_end_transaction();
    read_to_end();
    do {
        rc = change_stream_next(&lanes[2].changes, &change, &err);
    } while (rc == RC_OK && (change.kind != CHANGE_WANTS_EVENT || give_event(&lanes[2], 100000)));
    assert_int_equal(rc, RC_FATAL);
    assert_non_null(strstr(err.text, "a statement may change table outbox_2"));
    shared_member_leave(&lanes[2].member);
    for (size_t i = 0; i < LANES; i++)
        if (i != 2) {
            while (step_lane(&lanes[i], 100000))
                continue;
            assert_true(lanes[i].joined);
            expect_rows(&lanes[i], i);
            assert_int_equal(lanes[i].changes.counts.statements, statements[i] + 1);
        }
    assert_int_equal(lanes[2].changes.counts.statements, statements[2]);
    done();
}

static void an_unknown_event_ends_it_for_all(void **state)
{
    (void)state;
    init(MODE_MYSQL, 7, 65536);
    settle(1000);
    log_fixture_add_event(99, "?", 1);
    read_to_end();
    shared_stream_step(&shared, 100000);
    for (size_t i = 0; i < LANES; i++) {
        struct queued_event queued;
        enum shared_state ended = SHARED_APART;
        struct err err = {0};
        enum rc rc = RC_OK;

        while (shared_member_take(&lanes[i].member, &queued))
            continue;
        assert_true(shared_member_has_ended(&lanes[i].member, &ended, &rc, &err));
        assert_int_equal(ended, SHARED_FAILED);
        assert_int_equal(rc, RC_FATAL);
        assert_non_null(strstr(err.text, "cannot be read"));
    }
    done();
}

/* Threads. */

static void *run_shared(void *arg)
{
    int64_t now_ms = 100000;

    (void)arg;
    while (shared_stream_step(&shared, now_ms++) != LOOP_END)
        continue;
    return NULL;
}

static atomic_bool may_end;

/* A lane that takes and waits, until it has the last row. */
static void *run_lane(void *arg)
{
    struct lane *lane = arg;

    while (!atomic_load(&may_end) || lane->count < the_log->row_count[lane - lanes])
        if (!step_lane(lane, 100000))
            shared_member_wait(&lane->member);
    return NULL;
}

static void threads_take_what_the_shared_stream_puts(void **state)
{
    pthread_t shared_thread;
    pthread_t threads[LANES];

    (void)state;
    /* A queue that is never full. */
    init(MODE_MARIADB, 3, 1 << 24);
    settle(1000);
    has_threads = true;
    atomic_store(&may_end, false);
    pthread_create(&shared_thread, NULL, run_shared, NULL);
    for (size_t i = 0; i < LANES; i++)
        pthread_create(&threads[i], NULL, run_lane, &lanes[i]);
    for (size_t i = 0; i < 3000; i++) {
        log_fixture_begin_transaction(false);
        for (size_t table = 0; table < LOG_TABLES; table++)
            if (i % (table + 2) == 0)
                log_fixture_insert(table, 1 + i % 7);
        log_fixture_commit();
    }
    atomic_store(&may_end, true);
    for (size_t i = 0; i < LANES; i++)
        pthread_join(threads[i], NULL);
    shared_stream_stop(&shared);
    pthread_join(shared_thread, NULL);
    for (size_t i = 0; i < LANES; i++)
        expect_rows(&lanes[i], i);
    done();
}

static void an_interrupt_ends_a_wait(void **state)
{
    (void)state;
    init(MODE_MARIADB, 3, 4096);
    settle(1000);
    shared_member_interrupt(&lanes[0].member);
    assert_false(shared_member_wait(&lanes[0].member));
    assert_false(shared_member_wait(&lanes[0].member));
    shared_member_resume(&lanes[0].member);
    assert_true(shared_member_wait(&lanes[0].member));
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_lane_gets_its_rows_whatever_it_does),
        cmocka_unit_test(lanes_join_when_two_of_them_read),
        cmocka_unit_test(a_link_is_given_more_time_after_silence_only),
        cmocka_unit_test(an_error_in_one_table_concerns_its_lane_alone),
        cmocka_unit_test(an_unknown_event_ends_it_for_all),
        cmocka_unit_test(threads_take_what_the_shared_stream_puts),
        cmocka_unit_test(an_interrupt_ends_a_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
