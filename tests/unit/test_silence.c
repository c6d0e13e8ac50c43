/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/silence.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BASE_MS 6000

static void a_search_in_silence_is_given_twice_as_long(void **state)
{
    struct silence silence = {0};

    (void)state;
    for (int64_t ms = BASE_MS; ms < 300000; ms *= 2) {
        assert_int_equal(silence_choose_ms(&silence, BASE_MS), ms);
        silence_note_failure(&silence, true);
    }
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), 300000);
    silence_note_failure(&silence, true);
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), 300000);
}

static void another_failure_leaves_the_time(void **state)
{
    struct silence silence = {0};

    (void)state;
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), BASE_MS);
    silence_note_failure(&silence, false);
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), BASE_MS);
    silence_note_failure(&silence, true);
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), 2 * BASE_MS);
    silence_note_failure(&silence, false);
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), 2 * BASE_MS);
    /* No stream could be opened. */
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), 2 * BASE_MS);
}

static void a_place_that_was_found_ends_the_search(void **state)
{
    struct silence silence = {0};

    (void)state;
    silence_choose_ms(&silence, BASE_MS);
    silence_note_failure(&silence, true);
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), 2 * BASE_MS);
    silence_note_found(&silence);
    /* The server hangs later. */
    silence_note_failure(&silence, true);
    assert_int_equal(silence_choose_ms(&silence, BASE_MS), BASE_MS);
}

static void the_events_before_the_search_are_known(void **state)
{
    static const uint8_t before[] = {BINLOG_FORMAT, BINLOG_ROTATE, BINLOG_PREVIOUS_GTIDS};
    static const uint8_t behind[] = {BINLOG_GTID, BINLOG_MARIADB_GTID, BINLOG_MARIADB_GTID_LIST,
                                     BINLOG_HEARTBEAT, BINLOG_XID};

    (void)state;
    for (size_t i = 0; i < sizeof(before); i++)
        assert_true(silence_is_before_search(&(struct binlog_event){.type = before[i]}));
    for (size_t i = 0; i < sizeof(behind); i++)
        assert_false(silence_is_before_search(&(struct binlog_event){.type = behind[i]}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_in_silence_is_given_twice_as_long),
        cmocka_unit_test(another_failure_leaves_the_time),
        cmocka_unit_test(a_place_that_was_found_ends_the_search),
        cmocka_unit_test(the_events_before_the_search_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
