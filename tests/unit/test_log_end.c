/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/log_end.h"

#include <string.h>

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NOW_S 1700000000
#define HOUR_S 3600

static struct change_stream changes;
static struct log_end end;

static int set_up(void **state)
{
    (void)state;
    changes = (struct change_stream){.state = CHANGE_OUTSIDE, .has_last = true};
    log_end_begin(&end, "", 0, INT64_MAX);
    return 0;
}

/* time_s: by the server's clock, which shows NOW_S. */
static void note(uint8_t type, uint32_t time_s)
{
    const struct binlog_event event = {.type = type, .time_s = time_s};

    log_end_note_event(&end, &event, (int64_t)NOW_S * 1000);
}

static void note_heartbeat(const char *file, uint32_t pos)
{
    const struct binlog_event event = {.type = BINLOG_HEARTBEAT,
                                       .next_pos = pos,
                                       .body = (const uint8_t *)file,
                                       .body_len = strlen(file)};

    log_end_note_event(&end, &event, (int64_t)NOW_S * 1000);
}

static void what_is_read_is_the_end_only_while_it_is_new(void **state)
{
    (void)state;
    assert_false(log_end_is_reached(&end, &changes, false));
    note(BINLOG_XID, NOW_S - HOUR_S);
    assert_false(log_end_is_reached(&end, &changes, false));
    note(BINLOG_XID, NOW_S - 3);
    assert_false(log_end_is_reached(&end, &changes, false));
    note(BINLOG_XID, NOW_S - 2);
    assert_true(log_end_is_reached(&end, &changes, false));
    /* The server's clock may have been set back. */
    note(BINLOG_XID, NOW_S + HOUR_S);
    assert_true(log_end_is_reached(&end, &changes, false));
    /* The rest of a transaction that has begun is in the log. */
    changes.state = CHANGE_INSIDE;
    assert_false(log_end_is_reached(&end, &changes, false));
}

static void the_age_of_the_position_counts_until_a_transaction_comes(void **state)
{
    (void)state;
    log_end_begin(&end, "log.000007", 4, 2999);
    assert_true(log_end_is_reached(&end, &changes, false));
    /* The file was begun long ago. */
    note(BINLOG_ROTATE, 0);
    note(BINLOG_FORMAT, NOW_S - HOUR_S);
    note(BINLOG_PREVIOUS_GTIDS, NOW_S - HOUR_S);
    note(BINLOG_MARIADB_GTID_LIST, NOW_S - HOUR_S);
    note(BINLOG_CHECKPOINT, NOW_S - HOUR_S);
    assert_true(log_end_is_reached(&end, &changes, false));
    note(BINLOG_GTID, NOW_S - HOUR_S);
    assert_false(log_end_is_reached(&end, &changes, false));
}

static void a_heartbeat_is_the_end_until_the_next_event(void **state)
{
    (void)state;
    note(BINLOG_XID, NOW_S - HOUR_S);
    note_heartbeat("log.000007", 100);
    assert_true(log_end_is_reached(&end, &changes, false));
    /* It is an old one. */
    assert_false(log_end_is_reached(&end, &changes, true));
    note(BINLOG_GTID, NOW_S - HOUR_S);
    assert_false(log_end_is_reached(&end, &changes, false));
    note(BINLOG_XID, NOW_S - HOUR_S);
    note(BINLOG_HEARTBEAT_2, 0);
    assert_true(log_end_is_reached(&end, &changes, false));
}

/* The server searches where to begin, and tells how far it is. */
static void a_heartbeat_of_a_search_is_not_the_end(void **state)
{
    (void)state;
    log_end_begin(&end, "log.000007", 5000, INT64_MAX);
    note(BINLOG_ROTATE, 0);
    note(BINLOG_FORMAT, NOW_S - HOUR_S);
    note_heartbeat("log.000006", 9000);
    assert_false(log_end_is_reached(&end, &changes, false));
    note_heartbeat("log.000007", 4999);
    assert_false(log_end_is_reached(&end, &changes, false));
    assert_false(end.found);
    note_heartbeat("log.000007", 5000);
    assert_true(log_end_is_reached(&end, &changes, false));
    assert_true(end.found);
}

static void a_search_whose_aim_is_not_known_has_ended_when_it_stands(void **state)
{
    (void)state;
    note_heartbeat("log.000006", 9000);
    note_heartbeat("log.000007", 4000);
    note_heartbeat("log.000007", 5000);
    assert_false(log_end_is_reached(&end, &changes, false));
    note_heartbeat("log.000007", 5000);
    assert_true(log_end_is_reached(&end, &changes, false));
}

static void files_have_six_digits_or_more(void **state)
{
    (void)state;
    assert_true(log_end_compare_files("log.999999", "log.1000000") < 0);
    assert_true(log_end_compare_files("log.000010", "log.000009") > 0);
    assert_int_equal(log_end_compare_files("log.000010", "log.000010"), 0);
}

/* Also when the clock of the server cannot be told. */
static void a_reader_that_has_waited_for_a_transaction_is_near_the_end(void **state)
{
    (void)state;
    note(BINLOG_XID, NOW_S - HOUR_S);
    assert_false(log_end_is_near(&end, 50000));
    log_end_note_wait(&end, &changes, 49900, 50000);
    assert_true(log_end_is_near(&end, 52999));
    assert_false(log_end_is_near(&end, 53000));
    note(BINLOG_XID, NOW_S - 2);
    assert_true(log_end_is_near(&end, 53000));
    log_end_begin(&end, "", 0, INT64_MAX);
    assert_false(log_end_is_near(&end, 50001));
}

/* Hours behind, the server has not sent its first transaction yet, or sends more slowly than the
 * reader reads, or sends a transaction that it has as a whole. */
static void a_reader_that_is_faster_than_the_server_is_not_near_the_end(void **state)
{
    (void)state;
    changes.has_last = false;
    log_end_note_wait(&end, &changes, 40000, 50000);
    assert_false(log_end_is_near(&end, 50000));
    changes.has_last = true;
    for (int64_t now_ms = 50000; now_ms < 60000; now_ms += 99)
        log_end_note_wait(&end, &changes, now_ms - 99, now_ms);
    assert_false(log_end_is_near(&end, 60000));
    changes.state = CHANGE_INSIDE;
    log_end_note_wait(&end, &changes, 60000, 61000);
    assert_false(log_end_is_near(&end, 61000));
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_read_is_the_end_only_while_it_is_new),
        TEST(the_age_of_the_position_counts_until_a_transaction_comes),
        TEST(a_heartbeat_is_the_end_until_the_next_event),
        TEST(a_heartbeat_of_a_search_is_not_the_end),
        TEST(a_search_whose_aim_is_not_known_has_ended_when_it_stands),
        TEST(files_have_six_digits_or_more),
        TEST(a_reader_that_has_waited_for_a_transaction_is_near_the_end),
        TEST(a_reader_that_is_faster_than_the_server_is_not_near_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
