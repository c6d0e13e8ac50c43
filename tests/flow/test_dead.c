/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead.h"

#include "tests/flow/sink_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STEPS_MAX 2000

struct fixture {
    struct sink_db db;
    struct sink_connection sink;
    struct sink_dead_store store;
    struct dead_filter filter;
    struct dead_config config;
    struct dead dead;
    int64_t ids[4];
    int outcomes[DEAD_OUTCOME_WAITS + 1];
    struct dead_result last; /* that stays */
    char reason[128];
};

static struct fixture fixture;

static void on_result(void *ctx, const struct dead_result *result)
{
    (void)ctx;
    fixture.outcomes[result->outcome]++;
    assert_false(fixture.sink.alone.open);
    if (result->outcome != DEAD_OUTCOME_STAYS && result->outcome != DEAD_OUTCOME_WAITS)
        return;
    fixture.last = *result;
    snprintf(fixture.reason, sizeof(fixture.reason), "%s", result->reason ? result->reason : "");
}

static void fixture_open(void)
{
    memset(&fixture, 0, sizeof(fixture));
    sink_connection_init(&fixture.sink, &fixture.db);
    sink_dead_store_init(&fixture.store, &fixture.sink);
    fixture.filter.ids = fixture.ids;
    fixture.filter.partition = DEAD_NUMBER_ANY;
    fixture.config = (struct dead_config){
        .sink = &fixture.sink.ops,
        .store = &fixture.store.ops,
        .filter = &fixture.filter,
        .on_result = on_result,
    };
}

static struct sink_dead *put(int64_t offset, const char *key, const char *value)
{
    struct sink_dead *row = sink_db_add_dead(&fixture.db, 0, offset, key, value, "decode");

    snprintf(row->now.reason, sizeof(row->now.reason), "of old");
    sink_db_save(&fixture.db);
    return row;
}

static void vote_print(char *value, size_t size, int event, int content, int voting)
{
    snprintf(value, size,
             "{\"eventId\":\"00000000-0000-7000-8000-%012d\",\"voterId\":1,\"contentId\":%d,"
             "\"voting\":%d,\"occurredAt\":1790000000000}",
             event, content, voting);
}

/* A vote that died under older rules. */
static struct sink_dead *put_vote(int64_t offset, int event, int content)
{
    char value[256];
    char key[16];

    snprintf(key, sizeof(key), "%d", content);
    vote_print(value, sizeof(value), event, content, 1);
    return put(offset, key, value);
}

/* Steps until the end; a step that fails with RC_RETRY is made again, without more faults. */
static enum rc work(void)
{
    struct err err = {0};
    bool more = true;
    enum rc rc = dead_init(&fixture.dead, &fixture.config, &err);

    assert_int_equal(rc, RC_OK);
    for (int i = 0; more && (rc == RC_OK || rc == RC_RETRY); i++) {
        assert_true(i < STEPS_MAX);
        rc = dead_step(&fixture.dead, &more, &err);
        assert_false(fixture.sink.alone.open);
        sink_db_check(&fixture.db);
    }
    dead_done(&fixture.dead);
    return rc;
}

static void assert_outcomes(int applied, int duplicates, int stay, int wait)
{
    assert_int_equal(fixture.outcomes[DEAD_OUTCOME_APPLIED], applied);
    assert_int_equal(fixture.outcomes[DEAD_OUTCOME_DUPLICATE], duplicates);
    assert_int_equal(fixture.outcomes[DEAD_OUTCOME_STAYS], stay);
    assert_int_equal(fixture.outcomes[DEAD_OUTCOME_WAITS], wait);
}

static const struct sink_dead *row_of(int64_t id)
{
    return &fixture.db.dead[id - 1];
}

static void votes_are_applied_in_the_order_of_their_places(void **state)
{
    (void)state;
    fixture_open();
    put_vote(9, 3, 5);
    put_vote(4, 1, 5);
    put_vote(7, 2, 6);
    put_vote(1, 4, 5)->base.partition = 1;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(4, 0, 0, 0);
    assert_int_equal(fixture.db.vote_count, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fixture.db.votes[i].vote.event.event_id.bytes[15], i + 1);
    assert_int_equal(fixture.db.tallies[5].old.votes, 3);
    assert_string_equal(row_of(1)->old.decision, "applied");
}

static void a_second_replay_finds_nothing(void **state)
{
    (void)state;
    fixture_open();
    put_vote(1, 1, 5);
    assert_int_equal(work(), RC_OK);
    assert_int_equal(work(), RC_OK);
    assert_outcomes(1, 0, 0, 0);
    assert_int_equal(fixture.db.vote_count, 1);
}

static void an_event_that_is_in_the_log_is_done(void **state)
{
    (void)state;
    fixture_open();
    put_vote(1, 1, 5);
    assert_int_equal(work(), RC_OK);
    put_vote(2, 1, 5);
    put_vote(3, 2, 5);
    put_vote(4, 2, 5);
    assert_int_equal(work(), RC_OK);
    assert_outcomes(2, 2, 0, 0);
    assert_string_equal(row_of(2)->old.decision, "duplicate");
    assert_string_equal(row_of(3)->old.decision, "applied");
    assert_string_equal(row_of(4)->old.decision, "duplicate");
}

static void a_record_that_still_cannot_be_applied_stays_with_its_new_reason(void **state)
{
    (void)state;
    fixture_open();
    put(1, "5", "poison\x1b");
    put(2, "6", NULL);
    put_vote(3, 1, 7);
    assert_int_equal(work(), RC_OK);
    assert_outcomes(1, 0, 2, 0);
    assert_string_equal(row_of(1)->old.decision, "");
    assert_string_equal(row_of(1)->old.reason_class, "decode");
    assert_non_null(strstr(row_of(1)->old.reason, "not JSON"));
    assert_string_equal(row_of(2)->old.reason_class, "tombstone");
    assert_string_equal(fixture.reason, row_of(2)->old.reason);
    fixture.db.faults.calls = 0;
    assert_int_equal(work(), RC_OK);
    /* begin, the log's beginning, page, commit, and the same for the end: the reasons are not
     * written again. */
    assert_int_equal(fixture.db.faults.calls, 8);
}

static void later_records_of_its_key_stay_behind_it(void **state)
{
    (void)state;
    fixture_open();
    put_vote(1, 1, 5);
    put(2, "5", "poison");
    put_vote(3, 2, 5);
    put_vote(4, 3, 6);
    put_vote(5, 4, 5)->base.partition = 1;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(3, 0, 1, 1);
    assert_int_equal(fixture.last.id, 3);
    assert_int_equal(fixture.last.behind, 2);
    assert_string_equal(row_of(3)->old.reason, "of old");
}

static void a_key_waits_over_many_pages(void **state)
{
    (void)state;
    fixture_open();
    for (int i = 0; i < 3 * DEAD_PAGE_ROWS; i++)
        if (i % 250 < 100)
            put(i, i % 2 ? "5" : "6", i < 2 ? "poison" : NULL)->has_value = i < 2;
        else
            put_vote(i, i + 1, 7);
    put_vote(9000, 9000, 5);
    put_vote(9001, 9001, 6);
    put_vote(9002, 9002, 8);
    assert_int_equal(work(), RC_OK);
    assert_outcomes(3 * 150 + 1, 0, 2, 298 + 2);
    assert_int_equal(fixture.last.behind, 1);
}

static void an_older_record_that_was_not_chosen_holds_its_key(void **state)
{
    (void)state;
    fixture_open();
    put_vote(1, 1, 5);
    put_vote(2, 2, 5);
    put_vote(3, 3, 6);
    fixture.ids[0] = 2;
    fixture.ids[1] = 3;
    fixture.filter.id_count = 2;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(1, 0, 0, 1);
    assert_int_equal(fixture.last.behind, 1);
    assert_string_equal(row_of(1)->old.decision, "");
}

static void records_without_a_key_have_no_order(void **state)
{
    (void)state;
    fixture_open();
    put(1, NULL, "poison");
    put_vote(2, 1, 5)->has_key = false;
    fixture.config.rule = RECORD_ANY_KEY;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(1, 0, 1, 0);
}

static void a_key_of_another_content_is_refused_unless_an_operator_allows_it(void **state)
{
    (void)state;
    fixture_open();
    snprintf(put_vote(1, 1, 5)->key, 16, "other");
    assert_int_equal(work(), RC_OK);
    assert_outcomes(0, 0, 1, 0);
    assert_string_equal(row_of(1)->old.reason_class, "key");
    fixture.config.rule = RECORD_ANY_KEY;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(1, 0, 1, 0);
}

static void replaced_bytes_are_applied_instead(void **state)
{
    char value[256];

    (void)state;
    fixture_open();
    put(1, "5", "poison");
    vote_print(value, sizeof(value), 1, 5, 1);
    fixture.ids[0] = 1;
    fixture.filter.id_count = 1;
    fixture.config.value = value;
    fixture.config.value_len = strlen(value);
    assert_int_equal(work(), RC_OK);
    assert_outcomes(1, 0, 0, 0);
    assert_string_equal(row_of(1)->value, "poison");
    assert_string_equal(row_of(1)->old.mended_value, value);
}

static void a_repeated_vote_is_stale_where_events_need_not_be_changes(void **state)
{
    (void)state;
    fixture_open();
    put_vote(1, 1, 5);
    put_vote(2, 2, 5);
    fixture.config.keep_lasts = true;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(1, 0, 0, 0);
    assert_int_equal(fixture.outcomes[DEAD_OUTCOME_STALE], 1);
    assert_string_equal(row_of(2)->old.decision, "stale");
    assert_int_equal(fixture.db.tallies[5].old.votes, 1);
}

static void a_vote_from_before_the_log_begins_stays(void **state)
{
    (void)state;
    fixture_open();
    put_vote(1, 1, 5);
    fixture.db.begin_day = 20718;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(0, 0, 1, 0);
    assert_string_equal(row_of(1)->old.reason_class, "too_old");
}

static void no_more_than_so_many_are_taken(void **state)
{
    (void)state;
    fixture_open();
    for (int i = 0; i < 2 * DEAD_PAGE_ROWS; i++)
        put_vote(i, i + 1, 5);
    fixture.config.records_max = DEAD_PAGE_ROWS + 10;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(DEAD_PAGE_ROWS + 10, 0, 0, 0);
}

static void those_that_die_meanwhile_are_not_meant(void **state)
{
    (void)state;
    fixture_open();
    put_vote(1, 1, 5);
    put_vote(2, 2, 5);
    fixture.filter.id_max = 1;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(1, 0, 0, 0);
}

static void a_drop_takes_the_chosen_records_and_no_others(void **state)
{
    (void)state;
    fixture_open();
    for (int i = 0; i < 2 * DEAD_PAGE_ROWS + 1; i++)
        snprintf(put_vote(i, i + 1, 5)->now.reason_class, 16, i % 2 ? "key" : "rule");
    sink_db_save(&fixture.db);
    fixture.config.drop = true;
    fixture.filter.reason_class = "rule";
    assert_int_equal(work(), RC_OK);
    assert_int_equal(fixture.outcomes[DEAD_OUTCOME_DROPPED], DEAD_PAGE_ROWS + 1);
    assert_string_equal(row_of(1)->old.decision, "dropped");
    assert_string_equal(row_of(2)->old.decision, "");
    assert_int_equal(fixture.db.vote_count, 0);
}

static void a_vote_that_the_database_refuses_stays_alone(void **state)
{
    (void)state;
    fixture_open();
    for (int i = 0; i < 20; i++)
        put_vote(i, i + 1, 1 + i % 4);
    fixture.db.faults.refused = 3;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(15, 0, 1, 4);
    assert_string_equal(row_of(3)->old.reason_class, "refused");
    assert_string_equal(row_of(3)->old.reason, "the log does not take it");
    fixture.db.faults.refused = 0;
    assert_int_equal(work(), RC_OK);
    assert_outcomes(20, 0, 1, 4);
}

static void fill(void)
{
    put_vote(1, 1, 5);
    put(2, "6", "poison");
    put_vote(3, 1, 5);
    put_vote(4, 2, 6);
    put_vote(5, 3, 7);
}

/* Fails at one call; the final data and the reports are always the same. */
static void fails_at(int call, bool lost, int *calls)
{
    fixture_open();
    fill();
    fixture.db.faults = (struct sink_faults){.fail_at = call, .rc = RC_RETRY, .lost = lost};
    assert_int_equal(work(), RC_OK);
    *calls = fixture.db.faults.calls;
    assert_outcomes(2, 1, 1, 1);
    assert_int_equal(fixture.db.vote_count, 2);
}

/* The sink's database is replaced by a replica that has not seen the first page. */
static void a_replay_begins_again_if_its_earlier_pages_may_be_lost(void **state)
{
    static struct sink_db before;
    struct err err = {0};
    bool more = true;

    (void)state;
    fixture_open();
    put(0, "6", "poison");
    for (int i = 1; i <= DEAD_PAGE_ROWS + 10; i++)
        put_vote(i, i, 5);
    fixture.db.faults.session = 1;
    before = fixture.db;
    before.faults.session = 2;
    assert_int_equal(dead_init(&fixture.dead, &fixture.config, &err), RC_OK);
    assert_int_equal(dead_step(&fixture.dead, &more, &err), RC_OK);
    assert_int_equal(fixture.db.vote_count, DEAD_PAGE_ROWS - 1);
    fixture.db = before;
    for (int i = 0; more && i < STEPS_MAX; i++)
        assert_int_equal(dead_step(&fixture.dead, &more, &err), RC_OK);
    dead_done(&fixture.dead);
    assert_int_equal(fixture.db.vote_count, DEAD_PAGE_ROWS + 10);
    for (int i = 0; i < DEAD_PAGE_ROWS + 10; i++)
        assert_int_equal(fixture.db.votes[i].vote.offset, i + 1);
    /* The record that stays is reported once, applied ones as often as they are applied. */
    assert_outcomes(DEAD_PAGE_ROWS - 1 + DEAD_PAGE_ROWS + 10, 0, 1, 0);
}

static void every_call_may_fail_and_be_made_again(void **state)
{
    int calls = 1;

    (void)state;
    for (int call = 1; call <= calls + 1; call++)
        fails_at(call, false, &calls);
    assert_in_range(calls, 12, 40);
}

static void a_commit_whose_answer_is_lost_is_reported_once(void **state)
{
    int calls = 1;

    (void)state;
    for (int call = 1; call <= calls + 1; call++)
        fails_at(call, true, &calls);
}

/* Killed at any call, and replayed by another process. */
static void a_replay_that_was_killed_is_finished_by_the_next(void **state)
{
    (void)state;
    for (int call = 1; call <= 12; call++)
        for (int lost = 0; lost <= 1; lost++) {
            fixture_open();
            fill();
            fixture.db.faults =
                (struct sink_faults){.fail_at = call, .rc = RC_FATAL, .lost = lost != 0};
            work();
            fixture.db.faults = (struct sink_faults){0};
            assert_int_equal(work(), RC_OK);
            assert_int_equal(fixture.db.vote_count, 2);
            assert_string_equal(row_of(1)->old.decision, "applied");
            assert_string_equal(row_of(3)->old.decision, "duplicate");
            assert_string_equal(row_of(4)->old.decision, "");
            assert_string_equal(row_of(5)->old.decision, "applied");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_are_applied_in_the_order_of_their_places),
        cmocka_unit_test(a_second_replay_finds_nothing),
        cmocka_unit_test(an_event_that_is_in_the_log_is_done),
        cmocka_unit_test(a_record_that_still_cannot_be_applied_stays_with_its_new_reason),
        cmocka_unit_test(later_records_of_its_key_stay_behind_it),
        cmocka_unit_test(a_key_waits_over_many_pages),
        cmocka_unit_test(an_older_record_that_was_not_chosen_holds_its_key),
        cmocka_unit_test(records_without_a_key_have_no_order),
        cmocka_unit_test(a_key_of_another_content_is_refused_unless_an_operator_allows_it),
        cmocka_unit_test(replaced_bytes_are_applied_instead),
        cmocka_unit_test(a_repeated_vote_is_stale_where_events_need_not_be_changes),
        cmocka_unit_test(a_vote_from_before_the_log_begins_stays),
        cmocka_unit_test(no_more_than_so_many_are_taken),
        cmocka_unit_test(those_that_die_meanwhile_are_not_meant),
        cmocka_unit_test(a_drop_takes_the_chosen_records_and_no_others),
        cmocka_unit_test(a_vote_that_the_database_refuses_stays_alone),
        cmocka_unit_test(a_replay_begins_again_if_its_earlier_pages_may_be_lost),
        cmocka_unit_test(every_call_may_fail_and_be_made_again),
        cmocka_unit_test(a_commit_whose_answer_is_lost_is_reported_once),
        cmocka_unit_test(a_replay_that_was_killed_is_finished_by_the_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
