/* SPDX-License-Identifier: MIT */
#include "consumer/held/vote_task.h"

#include "tests/flow/sink_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_KEY "{\"dead\":{\"group\":\"g\",\"topic\":\"votes\",\"partition\":1,\"key\":\"5\"}}"

static struct {
    struct sink_db db;
    struct sink_connection sink;
    struct sink_dead_store store;
    struct vote_work work;
    struct attempt_result attempt;
} fixture;

static int64_t clock_ms;

static int64_t now_ms(void)
{
    return clock_ms++;
}

static atomic_llong lease_until_ms;

static void fixture_open(void)
{
    memset(&fixture, 0, sizeof(fixture));
    clock_ms = 0;
    sink_connection_init(&fixture.sink, &fixture.db);
    sink_dead_store_init(&fixture.store, &fixture.sink);
    atomic_store(&lease_until_ms, 1000000);
    fixture.work = (struct vote_work){.sink = &fixture.sink.ops,
                                      .store = &fixture.store.ops,
                                      .now_ms = now_ms,
                                      .until_ms = 1000000,
                                      .lease_until_ms = &lease_until_ms};
    fixture.db.progress[1].now.row.found = true;
    sink_db_save(&fixture.db);
}

static void vote_print(char *value, size_t size, int event, int content, int voting)
{
    snprintf(value, size,
             "{\"eventId\":\"00000000-0000-7000-8000-%012d\",\"voterId\":1,\"contentId\":%d,"
             "\"voting\":%d,\"occurredAt\":1790000000000}",
             event, content, voting);
}

static void put(int64_t offset, const char *reason_class, int content, const char *value)
{
    char key[16];

    snprintf(key, sizeof(key), "%d", content);
    sink_db_add_dead(&fixture.db, 1, offset, key, value, reason_class);
}

static void put_vote(int64_t offset, const char *reason_class, int event, int content)
{
    char value[256];

    vote_print(value, sizeof(value), event, content, 1);
    put(offset, reason_class, content, value);
}

static enum attempt_end replay(const char *text)
{
    struct vote_options options;
    struct err err = {0};

    assert_int_equal(vote_options_read(&options, text, &err), RC_OK);
    memset(&fixture.attempt, 0, sizeof(fixture.attempt));
    vote_work_replay(&fixture.work, &options, &fixture.attempt);
    assert_false(fixture.sink.alone.open);
    sink_db_check(&fixture.db);
    return fixture.attempt.end;
}

static enum attempt_end apply(int event, int content)
{
    char value[256];

    vote_print(value, sizeof(value), event, content, 1);
    memset(&fixture.attempt, 0, sizeof(fixture.attempt));
    vote_work_apply(&fixture.work, value, strlen(value), &fixture.attempt);
    assert_false(fixture.sink.alone.open);
    sink_db_check(&fixture.db);
    return fixture.attempt.end;
}

static const char *decision(int64_t id)
{
    return fixture.db.dead[id - 1].old.decision;
}

/* A record that can never be applied, held records of its key behind it, and of another key. */
static void put_held(void)
{
    put(1, "decode", 5, "poison");
    put_vote(2, "refused", 1, 5);
    put_vote(3, "refused", 2, 6);
    put_vote(4, "behind", 3, 5);
    put_vote(5, "behind", 4, 5);
}

static void held_records_of_a_key_are_applied_in_order_and_no_others(void **state)
{
    (void)state;
    fixture_open();
    put_held();
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_DONE);
    assert_int_equal(fixture.db.vote_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fixture.db.votes[i].vote.event.content_id, 5);
    assert_int_equal(fixture.db.votes[0].vote.offset, 2);
    assert_int_equal(fixture.db.votes[2].vote.offset, 5);
    assert_string_equal(decision(1), "");
    assert_string_equal(decision(3), "");
    /* Done twice it is as good as once. */
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_DONE);
    assert_int_equal(fixture.db.vote_count, 3);
}

static void a_record_that_is_still_refused_holds_its_key_until_another_attempt(void **state)
{
    (void)state;
    fixture_open();
    put_held();
    fixture.db.faults.refused_event = 3;
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_FAILED);
    assert_int_equal(fixture.attempt.fault, FAULT_CLASS_TRANSIENT);
    assert_non_null(strstr(fixture.attempt.err.text, "the log does not take it"));
    assert_string_equal(decision(2), "applied");
    assert_string_equal(decision(4), "");
    assert_string_equal(decision(5), "");
    assert_string_equal(fixture.db.dead[3].old.reason_class, "refused");
    fixture.db.faults.refused_event = 0;
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_DONE);
    assert_int_equal(fixture.db.vote_count, 3);
    assert_int_equal(fixture.db.votes[2].vote.offset, 5);
}

/* Also while the database would still refuse them, so that no task of a deleted content stays. */
static void held_votes_of_a_content_whose_tally_has_ended_are_stale(void **state)
{
    (void)state;
    fixture_open();
    put_held();
    fixture.db.tallies[5].now = (struct fake_tally_version){.found = true, .ended = true};
    fixture.db.tallies[5].old = fixture.db.tallies[5].now;
    fixture.db.faults.refused = 5;
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_DONE);
    assert_string_equal(decision(2), "stale");
    assert_string_equal(decision(4), "stale");
    assert_string_equal(decision(5), "stale");
    assert_int_equal(apply(9, 5), ATTEMPT_DONE);
    assert_int_equal(fixture.db.vote_count, 0);
    assert_int_equal(fixture.db.tallies[5].old.votes, 0);
}

/* 2026-09-21 is day 20717. */
static void a_record_that_can_never_be_applied_is_passed(void **state)
{
    (void)state;
    fixture_open();
    put_held();
    snprintf(fixture.db.dead[1].value, sizeof(fixture.db.dead[1].value),
             "{\"eventId\":\"00000000-0000-7000-8000-000000000001\",\"voterId\":1,"
             "\"contentId\":5,\"voting\":1,\"occurredAt\":1780000000000}");
    fixture.db.begin_day = 20717;
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_DONE);
    assert_string_equal(fixture.db.dead[1].old.reason_class, "too_old");
    assert_string_equal(decision(4), "applied");
    assert_string_equal(decision(5), "applied");
}

static void named_records_are_replayed_or_rejected(void **state)
{
    (void)state;
    fixture_open();
    put_held();
    assert_int_equal(replay("{\"dead\":{\"group\":\"g\",\"ids\":[1]}}"), ATTEMPT_REJECTED);
    assert_int_equal(replay("{\"dead\":{\"group\":\"g\",\"ids\":[3]}}"), ATTEMPT_DONE);
    assert_string_equal(decision(3), "applied");
    /* An older one of its key was not named. */
    assert_int_equal(replay("{\"dead\":{\"group\":\"g\",\"ids\":[4]}}"), ATTEMPT_FAILED);
    assert_int_equal(fixture.attempt.fault, FAULT_CLASS_TRANSIENT);
    /* Records that were dropped or replayed meanwhile are done. */
    assert_int_equal(replay("{\"dead\":{\"group\":\"g\",\"ids\":[3]}}"), ATTEMPT_DONE);
}

static void a_replay_may_end_at_every_call_and_be_done_again(void **state)
{
    int calls = 1;

    (void)state;
    for (int lost = 0; lost <= 1; lost++) {
        for (int call = 1; call <= calls; call++) {
            fixture_open();
            put_held();
            fixture.db.faults.fail_at = call;
            fixture.db.faults.rc = RC_RETRY;
            fixture.db.faults.lost = lost;
            assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_FAILED);
            assert_int_equal(fixture.attempt.fault, FAULT_CLASS_TRANSIENT);
            assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_DONE);
            calls = fixture.db.faults.calls - call;
            assert_int_equal(fixture.db.vote_count, 3);
            assert_string_equal(decision(5), "applied");
        }
        assert_in_range(calls, 1, 40);
        calls = 8;
    }
}

static void it_ends_by_its_time_its_lease_and_the_stop(void **state)
{
    struct stop stop = {0};

    (void)state;
    fixture_open();
    put_held();
    fixture.work.until_ms = 0;
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_SNOOZED);
    fixture.work.until_ms = 1000000;
    atomic_store(&lease_until_ms, 0);
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_CUT);
    atomic_store(&lease_until_ms, 1000000);
    atomic_init(&stop.requested, true);
    fixture.work.stop = &stop;
    assert_int_equal(replay(OPTIONS_KEY), ATTEMPT_CUT);
    assert_int_equal(fixture.db.vote_count, 0);
}

static void a_vote_is_applied_once_however_often_it_is_tried(void **state)
{
    (void)state;
    for (int call = 0; call <= 12; call++) {
        for (int lost = 0; lost <= 1; lost++) {
            fixture_open();
            fixture.db.faults.fail_at = call;
            fixture.db.faults.rc = RC_RETRY;
            fixture.db.faults.lost = lost;
            if (apply(1, 5) != ATTEMPT_DONE)
                assert_int_equal(apply(1, 5), ATTEMPT_DONE);
            fixture.db.faults.fail_at = 0;
            assert_int_equal(apply(1, 5), ATTEMPT_DONE);
            assert_int_equal(fixture.db.vote_count, 1);
            assert_int_equal(fixture.db.tallies[5].old.votes, 1);
        }
    }
}

static void a_vote_that_is_refused_is_tried_again_and_a_bad_one_is_not(void **state)
{
    (void)state;
    fixture_open();
    fixture.db.faults.refused = 5;
    assert_int_equal(apply(1, 5), ATTEMPT_FAILED);
    assert_int_equal(fixture.attempt.fault, FAULT_CLASS_TRANSIENT);
    fixture.db.faults.refused = 0;
    fixture.db.begin_day = 20718;
    assert_int_equal(apply(1, 5), ATTEMPT_REJECTED);
    fixture.db.begin_day = 0;
    memset(&fixture.attempt, 0, sizeof(fixture.attempt));
    vote_work_apply(&fixture.work, "poison", 6, &fixture.attempt);
    assert_int_equal(fixture.attempt.end, ATTEMPT_REJECTED);
    assert_int_equal(fixture.db.vote_count, 0);
    fixture.db.faults.fail_at = fixture.db.faults.calls + 1;
    fixture.db.faults.rc = RC_FATAL;
    assert_int_equal(apply(1, 5), ATTEMPT_FAILED);
    assert_int_equal(fixture.attempt.fault, FAULT_CLASS_OURS);
}

static void options_are_read_and_written(void **state)
{
    static const char *const good[] = {OPTIONS_KEY, "{\"dead\":{\"group\":\"g\",\"ids\":[1,17]}}"};
    static const char *const bad[] = {
        "[]",
        "x",
        "{\"x\":1}",
        "{\"dead\":{}}",
        "{\"dead\":1}",
        "{\"dead\":{\"group\":\"g\"}}",
        "{\"dead\":{\"group\":\"\",\"ids\":[1]}}",
        "{\"dead\":{\"group\":\"g\",\"ids\":[]}}",
        "{\"dead\":{\"group\":\"g\",\"ids\":[0]}}",
        "{\"dead\":{\"group\":\"g\",\"ids\":[1],\"topic\":\"t\"}}",
        "{\"dead\":{\"group\":\"g\",\"topic\":\"t\",\"partition\":-1,\"key\":\"5\"}}",
        "{\"dead\":{\"group\":\"g\",\"topic\":\"t\",\"partition\":1,\"key\":\"\"}}",
        "{\"dead\":{\"group\":\"g\",\"topic\":\"t\",\"partition\":1,\"ids\":[1]}}",
    };
    struct vote_options options;
    struct buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(vote_options_read(&options, good[i], NULL), RC_OK);
        assert_true(options.has_dead);
        buf_reset(&out);
        vote_options_put(&out, &options);
        assert_string_equal(buf_text(&out), good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(vote_options_read(&options, bad[i], NULL), RC_REJECT);
    assert_int_equal(vote_options_read(&options, "{}", NULL), RC_OK);
    assert_false(options.has_dead);
    assert_int_equal(vote_options_read(&options, NULL, NULL), RC_OK);
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_records_of_a_key_are_applied_in_order_and_no_others),
        cmocka_unit_test(a_record_that_is_still_refused_holds_its_key_until_another_attempt),
        cmocka_unit_test(held_votes_of_a_content_whose_tally_has_ended_are_stale),
        cmocka_unit_test(a_record_that_can_never_be_applied_is_passed),
        cmocka_unit_test(named_records_are_replayed_or_rejected),
        cmocka_unit_test(a_replay_may_end_at_every_call_and_be_done_again),
        cmocka_unit_test(it_ends_by_its_time_its_lease_and_the_stop),
        cmocka_unit_test(a_vote_is_applied_once_however_often_it_is_tried),
        cmocka_unit_test(a_vote_that_is_refused_is_tried_again_and_a_bad_one_is_not),
        cmocka_unit_test(options_are_read_and_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
