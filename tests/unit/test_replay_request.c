/* SPDX-License-Identifier: MIT */
#include "outbox/relay/replay/replay_request.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define NOW_MS INT64_C(1795000000000)

static struct replay_request request;

static enum rc read_words(const struct replay_words *words, struct err *err)
{
    static char lane[] = "outbox"; /* the request borrows it */
    char *arguments[] = {lane};

    return replay_request_read(&request, words, arguments, 1, err);
}

static void assert_refused(const struct replay_words *words, const char *text)
{
    struct err err = {0};

    assert_int_equal(read_words(words, &err), RC_REJECT);
    assert_non_null(strstr(err.text, text));
}

static void a_request_has_a_lane_and_two_times(void **state)
{
    const struct replay_words words = {.from = "2h", .to = "2026-11-21T17:05:00Z", .rate = 10};
    struct err err = {0};

    (void)state;
    assert_int_equal(replay_request_read(&request, &words, NULL, 0, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "the name of one lane"));
    assert_int_equal(read_words(&words, &err), RC_OK);
    assert_string_equal(request.lane, "outbox");
    assert_refused(&(struct replay_words){.to = "1h"}, "--from TIME is missing");
    assert_refused(&(struct replay_words){.from = "1h"}, "--to TIME is missing");
    assert_refused(&(struct replay_words){.from = "soon", .to = "1h"}, "--from soon: expected");
}

static void times_are_counted_from_the_clock_of_the_database(void **state)
{
    const struct replay_words words = {.from = "2h", .to = "30m"};
    const struct replay_words empty = {.from = "1h", .to = "1h"};
    struct err err = {0};

    (void)state;
    assert_int_equal(read_words(&words, &err), RC_OK);
    assert_int_equal(replay_request_times(&request, NOW_MS, &err), RC_OK);
    assert_int_equal(request.from_ms, NOW_MS - INT64_C(7200000));
    assert_int_equal(request.to_ms, NOW_MS - INT64_C(1800000));
    assert_int_equal(read_words(&empty, &err), RC_OK);
    assert_int_equal(replay_request_times(&request, NOW_MS, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "--from 1h is not before --to 1h"));
}

static void options_are_checked(void **state)
{
    struct replay_words words = {.from = "2h", .to = "1h", .rate = -1};
    struct err err = {0};

    (void)state;
    assert_refused(&words, "--rate -1: expected 0");
    words.rate = REPLAY_RATE_MAX + 1;
    assert_refused(&words, "--rate 1000001");
    words.rate = 0;
    words.topic = "a b";
    assert_refused(&words, "--topic a b");
    words.topic = "ab";
    words.after = "17";
    assert_refused(&words, "--after 17: expected ENTRY/SEQ or FILE/OFFSET/ROWS@SERVER");
    words.after = "17/4711";
    assert_int_equal(read_words(&words, &err), RC_OK);
    assert_int_equal(request.after.entry, 17);
    assert_int_equal(request.after.seq, 4711);
    assert_true(request.from_table);
    assert_false(request.from_log);
}

static void a_place_in_the_log_is_one_of_a_replay_from_the_log(void **state)
{
    struct replay_words words = {.from = "2h", .to = "1h", .after = "bin.000012/4711/3@mariadb-1"};
    struct err err = {0};

    (void)state;
    assert_int_equal(read_words(&words, &err), RC_OK);
    assert_true(request.from_log);
    assert_false(request.from_table);
    assert_string_equal(request.log_after.at.file, "bin.000012");
    words.from_log = true;
    words.after = "17/4711";
    assert_refused(&words, "leave out --from-log");
    words.after = NULL;
    assert_int_equal(read_words(&words, &err), RC_OK);
    assert_true(request.from_log);
    assert_string_equal(request.log_after.at.file, "");
}

static void a_place_is_two_numbers(void **state)
{
    static const char *const bad[] = {"",     "/",    "1/",   "/1",    "-1/2",
                                      "1/-2", "1/2x", "1 /2", "1/2/3", "99999999999999999999/1"};
    struct replay_place place;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(replay_place_read(&place, bad[i]));
    assert_true(replay_place_read(&place, "0/0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_a_lane_and_two_times),
        cmocka_unit_test(times_are_counted_from_the_clock_of_the_database),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(a_place_in_the_log_is_one_of_a_replay_from_the_log),
        cmocka_unit_test(a_place_is_two_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
