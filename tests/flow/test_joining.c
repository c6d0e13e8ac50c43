/* SPDX-License-Identifier: MIT */
/* How lanes find the shared stream of the binary log, and what keeps them from it: a server that
 * searches where to begin, a stream that is far behind or far ahead, a log that was begun anew. */
#include "outbox/relay/shared/joining.h"

#include "common/os.h"
#include "outbox/relay/shared/shared_stream.h"
#include "tests/flow/log_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define LANES 2
#define SERVER 5

struct lane {
    char table[16];
    struct change_stream changes;
    struct log_link link;
    struct shared_member member;
    struct joining joining;
    bool joined;
    enum joining_answer answer; /* the last one */
};

/* What the link of the shared stream sends. */
enum sends {
    SENDS_LOG,
    SENDS_SEARCH, /* heartbeats with a place before the begin */
    SENDS_BEATS,  /* heartbeats of a log that is gone */
};

static struct shared_stream shared;
static struct log_link shared_link;
static struct log_link beats;
static enum sends sends;
static bool sends_one; /* and is not ready for more */
static bool is_opened;
static bool is_interrupted;
static struct lane lanes[LANES];
static struct stop stop;

static enum rc read_shared(void *ctx, const void **event, size_t *len, struct err *err)
{
    struct log_link *link = ctx;

    if (is_interrupted)
        return err_fail(err, RC_RETRY, 0, "the connection was lost");
    if (sends == SENDS_LOG && log_link_read(link, event, len))
        return RC_OK;
    if (sends == SENDS_SEARCH && link->opening < 2 && log_link_read(link, event, len))
        return RC_OK;
    if (sends == SENDS_LOG)
        log_link_beat(link, event, len);
    else
        log_link_beat(&beats, event, len);
    return RC_OK;
}

static bool is_shared_ready(void *ctx)
{
    const struct log_link *link = ctx;

    return sends == SENDS_LOG && !sends_one && link->at < atomic_load(&the_log->count);
}

static bool was_shared_silent(void *ctx)
{
    (void)ctx;
    return false;
}

static void close_shared(void *ctx)
{
    (void)ctx;
    is_opened = false;
}

static bool other_closed;

static void close_other(void *ctx)
{
    bool *closed = ctx;

    *closed = true;
}

static void interrupt_shared(void *ctx)
{
    (void)ctx;
    is_interrupted = true;
}

static enum rc begin_shared(const struct lane *lane, uint64_t server)
{
    const struct shared_link link = {&shared_link,      read_shared,  is_shared_ready,
                                     was_shared_silent, close_shared, interrupt_shared};
    struct shared_place place = {0};
    struct buf before = {0};
    struct err err = {0};
    enum rc rc;

    assert_false(is_opened);
    is_opened = true;
    is_interrupted = false;
    log_link_open(&shared_link, &lane->changes);
    shared_place_set(&place, &lane->changes);
    gtid_set_put_text(&lane->changes.before, &before);
    rc = shared_stream_begin(&shared, &link, server, the_log->mode == MODE_MARIADB,
                             buf_text(&before), &place, &err);
    buf_done(&before);
    return rc;
}

static void open_shared(const struct lane *lane, int64_t now_ms)
{
    int64_t silence_ms = 0;

    assert_true(shared_stream_claim(&shared, now_ms, 6000, &silence_ms));
    assert_int_equal(begin_shared(lane, SERVER), RC_OK);
}

static void give_own(struct lane *lane, const void *event, size_t len)
{
    struct err err = {0};

    assert_int_equal(change_stream_give(&lane->changes, event, len, &err), RC_OK);
}

/* Gives the lane its next event, as stream_mysql.c does. False: there is none. */
static bool give_event(struct lane *lane, int64_t now_ms)
{
    struct queued_event queued;
    const void *event = NULL;
    size_t len = 0;

    if (!lane->joined && joining_is_due(&lane->joining, &lane->changes, now_ms)) {
        lane->answer = joining_ask(&lane->joining, &lane->changes, SERVER, now_ms);
        if (lane->answer == JOINING_WAIT)
            return false;
        lane->joined = lane->answer == JOINING_JOINED;
    }
    if (lane->joined && shared_member_take(&lane->member, &queued)) {
        change_stream_take(&lane->changes, &queued.event, queued.begin, queued.end);
        return true;
    }
    if (lane->joined || !log_link_read(&lane->link, &event, &len))
        return false;
    give_own(lane, event, len);
    return true;
}

/* Returns false when there is nothing to read at present. */
static bool step_lane(struct lane *lane, int64_t now_ms)
{
    struct change change = {0};
    struct err err = {0};

    assert_int_equal(change_stream_next(&lane->changes, &change, &err), RC_OK);
    if (change.kind == CHANGE_WANTS_EVENT)
        return give_event(lane, now_ms);
    if (change.kind == CHANGE_IDLE && !lane->joined)
        joining_note_heartbeat(&lane->joining, &lane->changes);
    return true;
}

static void run_lane(struct lane *lane, int64_t now_ms)
{
    while (step_lane(lane, now_ms))
        continue;
}

/* The server has had nothing for the lane's own stream. */
static void beat_lane(struct lane *lane, int64_t now_ms)
{
    const void *event = NULL;
    size_t len = 0;

    log_link_beat(&lane->link, &event, &len);
    give_own(lane, event, len);
    run_lane(lane, now_ms);
}

static void write_transactions(size_t count, size_t rows)
{
    for (size_t i = 0; i < count; i++) {
        log_fixture_begin_transaction(false);
        log_fixture_insert(0, rows);
        log_fixture_commit();
    }
}

static void begin_lane(struct lane *lane)
{
    struct err err = {0};

    joining_leave(&lane->joining);
    lane->joined = false;
    assert_int_equal(change_stream_begin(&lane->changes, the_log->mode == MODE_MARIADB,
                                         log_fixture_first_gtids(), "b.000001", 4, 0, "", &err),
                     RC_OK);
    log_link_open(&lane->link, &lane->changes);
}

static void init(enum log_mode mode, size_t queue_bytes)
{
    struct err err = {0};

    sends = SENDS_LOG;
    sends_one = false;
    is_opened = is_interrupted = false;
    log_fixture_init(mode, 1);
    memset(&beats, 0, sizeof(beats));
    snprintf(beats.file, sizeof(beats.file), "%s", the_log->file);
    assert_int_equal(stop_init(&stop, &err), RC_OK);
    assert_int_equal(shared_stream_init(&shared, &stop, &err), RC_OK);
    for (size_t i = 0; i < LANES; i++) {
        struct lane *lane = &lanes[i];

        memset(lane, 0, sizeof(*lane));
        snprintf(lane->table, sizeof(lane->table), "outbox_%zu", i);
        assert_int_equal(change_stream_init(&lane->changes, "shop", lane->table, 1 << 20, &err),
                         RC_OK);
        joining_init(&lane->joining, &lane->member);
        assert_int_equal(
            shared_member_init(&lane->member, &shared, "shop", lane->table, queue_bytes, &err),
            RC_OK);
        begin_lane(lane);
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

/* Until both lanes have joined, while transactions are written. */
static void expect_to_join(int64_t now_ms)
{
    for (size_t round = 0; !lanes[0].joined || !lanes[1].joined; round++) {
        assert_true(round < 100);
        now_ms += 200;
        write_transactions(1, 1);
        shared_stream_step(&shared, now_ms);
        for (size_t i = 0; i < LANES; i++)
            run_lane(&lanes[i], now_ms);
    }
    assert_true(is_opened);
}

static void a_long_search_does_not_end_the_stream(void **state)
{
    (void)state;
    init(MODE_MYSQL, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    sends = SENDS_SEARCH;
    for (int64_t now_ms = 1000; now_ms < 61000; now_ms += 1000) {
        write_transactions(1, 1);
        shared_stream_step(&shared, now_ms);
        run_lane(&lanes[0], now_ms);
        /* The lane need not wait for it. */
        assert_int_equal(lanes[0].answer, JOINING_REFUSED);
        assert_true(is_opened);
    }
    sends = SENDS_LOG;
    expect_to_join(61000);
    done();
}

static void a_long_search_in_silence_does_not_end_the_stream(void **state)
{
    (void)state;
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    sends = SENDS_SEARCH;
    shared_stream_step(&shared, 1000);
    sends = SENDS_LOG;
    shared_stream_step(&shared, 60000);
    shared_stream_step(&shared, 60001);
    assert_true(is_opened);
    expect_to_join(60002);
    done();
}

/* The server's clock shows so much behind the events of the log. */
static void set_clock(int64_t later_ms)
{
    shared_stream_set_clock(&shared, LOG_TIME_S * 1000LL + later_ms - os_now_ms());
}

/* All that the server has sent is read in each step, but the log may have more. */
static void a_member_is_at_the_end_if_the_server_says_so_or_its_events_are_new(void **state)
{
    (void)state;
    init(MODE_MYSQL, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    expect_to_join(1000);
    set_clock(3600000);
    write_transactions(1, 1);
    shared_stream_step(&shared, 5000);
    assert_false(shared_member_is_at_end(&lanes[0].member));
    /* A heartbeat. */
    shared_stream_step(&shared, 5000);
    assert_true(shared_member_is_at_end(&lanes[0].member));
    write_transactions(1, 1);
    shared_stream_step(&shared, 5000);
    assert_false(shared_member_is_at_end(&lanes[0].member));
    set_clock(0);
    write_transactions(1, 1);
    shared_stream_step(&shared, 5000);
    assert_true(shared_member_is_at_end(&lanes[0].member));
    /* A transaction of another table has begun. */
    log_fixture_begin_transaction(false);
    shared_stream_step(&shared, 5000);
    assert_true(shared_member_is_at_end(&lanes[0].member));
    log_fixture_commit();
    done();
}

/* The shared stream reads one event. */
static void read_one(int64_t now_ms)
{
    sends_one = true;
    shared_stream_step(&shared, now_ms);
    sends_one = false;
}

static void a_lane_does_not_wait_for_a_stream_that_is_far_behind(void **state)
{
    (void)state;
    init(MODE_MYSQL, 4096);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    write_transactions(100, 1);
    while (!shared.end.found)
        read_one(1000);
    /* It asks at the end of the log. */
    joining_hold_off(&lanes[1].joining, -3000);
    run_lane(&lanes[1], 1999);
    run_lane(&lanes[1], 2000);
    assert_int_equal(lanes[1].answer, JOINING_REFUSED);
    assert_int_equal(lanes[1].joining.ask_ms, 2100);
    expect_to_join(2100);
    done();
}

/* The lane has read a transaction that a crash has cut off, and the shared stream has not, or the
 * other way round. Both are behind the same transaction. */
static void expect_to_join_at_a_cut(bool shared_reads_it)
{
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    write_transactions(1, 1);
    shared_stream_step(&shared, 1000);
    joining_hold_off(&lanes[1].joining, 1000);
    run_lane(&lanes[1], 1000);
    log_fixture_begin_transaction(false);
    log_fixture_insert(1, 1);
    log_fixture_crash();
    if (shared_reads_it)
        shared_stream_step(&shared, 6000);
    else
        run_lane(&lanes[1], 1000);
    assert_false(lanes[1].joined);
    run_lane(&lanes[1], 6000);
    run_lane(&lanes[1], 6000);
    assert_true(lanes[1].joined);
    expect_to_join(6000);
    done();
}

static void a_lane_joins_at_a_transaction_that_was_cut_off(void **state)
{
    (void)state;
    expect_to_join_at_a_cut(false);
    expect_to_join_at_a_cut(true);
}

static void a_lane_that_has_waited_asks_again_soon(void **state)
{
    (void)state;
    init(MODE_MYSQL, 4096);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    write_transactions(2, 1);
    while (!shared.end.found)
        read_one(1000);
    run_lane(&lanes[0], 2000);
    assert_int_equal(lanes[0].answer, JOINING_WAIT);
    /* Meanwhile the stream has not only reached the lane. */
    write_transactions(100, 1);
    shared_stream_step(&shared, 2001);
    assert_true(step_lane(&lanes[0], 2005));
    assert_int_equal(lanes[0].answer, JOINING_REFUSED);
    assert_int_equal(lanes[0].joining.ask_ms, 2105);
    expect_to_join(2105);
    done();
}

/* One lane has joined. The server deletes its log, which the shared stream does not notice, and
 * begins it anew, and the other lane reads that. */
static void begin_log_anew(size_t before, size_t rows)
{
    init(MODE_MYSQL, 1 << 20);
    write_transactions(before, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    write_transactions(1, 1);
    for (int64_t now_ms = 1000; !lanes[0].joined; now_ms += 100) {
        assert_true(now_ms < 5000);
        shared_stream_step(&shared, now_ms);
        run_lane(&lanes[0], now_ms);
    }
    sends = SENDS_BEATS;
    log_fixture_done();
    log_fixture_init(MODE_MYSQL, 2);
    write_transactions(5, rows);
    begin_lane(&lanes[1]);
    run_lane(&lanes[1], 10000);
    assert_int_equal(lanes[1].answer, JOINING_READ_ON);
}

static void a_stream_of_a_log_that_is_gone_ends(void **state)
{
    enum shared_state ended = SHARED_APART;
    struct err err = {0};
    enum rc rc = RC_OK;
    int64_t now_ms = 10000;

    (void)state;
    begin_log_anew(50, 1);
    /* It is fed from a place that the log does not have, and waits at the end of the log. */
    while (is_opened && now_ms < 21000) {
        now_ms += 1000;
        shared_stream_step(&shared, now_ms);
        beat_lane(&lanes[1], now_ms);
        assert_false(lanes[1].joined);
    }
    shared_stream_step(&shared, now_ms);
    assert_false(is_opened);
    run_lane(&lanes[0], now_ms);
    assert_true(shared_member_has_ended(&lanes[0].member, &ended, &rc, &err));
    assert_int_equal(ended, SHARED_FAILED);
    assert_int_equal(rc, RC_RETRY);
    assert_non_null(strstr(err.text, "begun its binary log anew"));
    /* The lane that has noticed opens another one. */
    sends = SENDS_LOG;
    begin_lane(&lanes[0]);
    run_lane(&lanes[0], now_ms);
    open_shared(&lanes[1], now_ms + 6000);
    expect_to_join(now_ms + 6000);
    done();
}

/* Heartbeats of before say nothing about the place from which it is fed. */
static void a_lane_whose_server_sends_nothing_ends_no_stream(void **state)
{
    struct lane *lane = &lanes[1];

    (void)state;
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    joining_hold_off(&lane->joining, 1000);
    run_lane(lane, 1000);
    beat_lane(lane, 1000);
    beat_lane(lane, 3000);
    write_transactions(1, 1);
    shared_stream_step(&shared, 6000);
    assert_int_equal(joining_ask(&lane->joining, &lane->changes, SERVER, 6000), JOINING_READ_ON);
    assert_int_equal(joining_ask(&lane->joining, &lane->changes, SERVER, 16000), JOINING_READ_ON);
    assert_int_equal(lane->joining.read_on_ms, 0);
    shared_stream_step(&shared, 16000);
    assert_true(is_opened);
    expect_to_join(21000);
    done();
}

static void a_transaction_of_another_log_is_no_place_to_join(void **state)
{
    (void)state;
    begin_log_anew(20, 5);
    /* It passes the GTID at which the shared stream stands. */
    for (size_t i = 0; i < 40; i++) {
        write_transactions(1, 5);
        shared_stream_step(&shared, 10100);
        run_lane(&lanes[1], 10100);
        assert_false(lanes[1].joined);
    }
    done();
}

static void a_lane_that_is_no_member_ends_no_stream(void **state)
{
    (void)state;
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    shared_member_report_gone(&lanes[0].member);
    expect_to_join(1000);
    /* A lane whose log is gone has joined. */
    shared_member_report_gone(&lanes[0].member);
    shared_stream_step(&shared, 30000);
    assert_false(is_opened);
    done();
}

static void a_stream_of_an_unknown_server_does_not_begin(void **state)
{
    int64_t silence_ms = 0;

    (void)state;
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    assert_true(shared_stream_claim(&shared, 1000, 6000, &silence_ms));
    assert_int_equal(begin_shared(&lanes[0], 0), RC_RETRY);
    assert_false(is_opened);
    /* The lane has not given up yet. */
    assert_false(shared_stream_claim(&shared, 1000, 6000, &silence_ms));
    shared_stream_give_up(&shared, 1000);
    assert_false(shared_stream_claim(&shared, 5999, 6000, &silence_ms));
    open_shared(&lanes[0], 6000);
    expect_to_join(6000);
    done();
}

static void a_stream_that_is_open_does_not_begin_again(void **state)
{
    const struct shared_link other = {&other_closed,     read_shared, is_shared_ready,
                                      was_shared_silent, close_other, interrupt_shared};
    struct shared_place place = {0};
    struct err err = {0};

    (void)state;
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    shared_place_set(&place, &lanes[0].changes);
    other_closed = false;
    assert_int_equal(shared_stream_begin(&shared, &other, SERVER, true, "", &place, &err),
                     RC_RETRY);
    assert_true(other_closed);
    assert_true(is_opened);
    expect_to_join(1000);
    done();
}

static void a_stream_without_members_is_closed(void **state)
{
    (void)state;
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    for (int64_t now_ms = 1000; now_ms <= 11000; now_ms += 500) {
        shared_stream_step(&shared, now_ms);
        assert_true(is_opened);
    }
    shared_stream_step(&shared, 20000);
    assert_false(is_opened);
    done();
}

/* It is behind the lanes until it has read what was written while the server searched. */
static void a_stream_that_reads_faster_than_the_server_sends_is_not_closed(void **state)
{
    int64_t now_ms = 1000;

    (void)state;
    init(MODE_MYSQL, 4096);
    write_transactions(5, 1);
    run_lane(&lanes[0], now_ms);
    open_shared(&lanes[0], now_ms);
    write_transactions(100, 1);
    while (shared_link.at < atomic_load(&the_log->count)) {
        read_one(now_ms);
        assert_true(is_opened);
        now_ms += 50;
    }
    assert_true(now_ms > 1000 + 15000);
    expect_to_join(now_ms);
    done();
}

static void a_stream_that_its_last_member_leaves_is_closed(void **state)
{
    (void)state;
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    expect_to_join(1000);
    for (size_t i = 0; i < LANES; i++)
        shared_member_leave(&lanes[i].member);
    /* The log grows all the time, so the server sends no heartbeat. */
    for (int64_t now_ms = 100000; is_opened; now_ms += 1000) {
        assert_true(now_ms < 115000);
        write_transactions(1, 1);
        read_one(now_ms);
    }
    done();
}

/* Of an old server behind a fail-over, for example, which no lane reads any more. */
static void a_stream_that_no_lane_joins_is_closed(void **state)
{
    (void)state;
    init(MODE_MARIADB, 65536);
    write_transactions(5, 1);
    run_lane(&lanes[0], 1000);
    open_shared(&lanes[0], 1000);
    for (int64_t now_ms = 2000; is_opened; now_ms += 1000) {
        assert_true(now_ms < 150000);
        write_transactions(1, 1);
        read_one(now_ms);
    }
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_search_does_not_end_the_stream),
        cmocka_unit_test(a_long_search_in_silence_does_not_end_the_stream),
        cmocka_unit_test(a_member_is_at_the_end_if_the_server_says_so_or_its_events_are_new),
        cmocka_unit_test(a_stream_without_members_is_closed),
        cmocka_unit_test(a_stream_that_its_last_member_leaves_is_closed),
        cmocka_unit_test(a_stream_that_no_lane_joins_is_closed),
        cmocka_unit_test(a_stream_that_reads_faster_than_the_server_sends_is_not_closed),
        cmocka_unit_test(a_stream_of_an_unknown_server_does_not_begin),
        cmocka_unit_test(a_stream_that_is_open_does_not_begin_again),
        cmocka_unit_test(a_stream_of_a_log_that_is_gone_ends),
        cmocka_unit_test(a_lane_whose_server_sends_nothing_ends_no_stream),
        cmocka_unit_test(a_transaction_of_another_log_is_no_place_to_join),
        cmocka_unit_test(a_lane_that_is_no_member_ends_no_stream),
        cmocka_unit_test(a_lane_does_not_wait_for_a_stream_that_is_far_behind),
        cmocka_unit_test(a_lane_joins_at_a_transaction_that_was_cut_off),
        cmocka_unit_test(a_lane_that_has_waited_asks_again_soon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
