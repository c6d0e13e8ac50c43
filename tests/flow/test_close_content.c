/* SPDX-License-Identifier: MIT */
#include "producer/vote/close_content.h"

#include "common/os.h"
#include "outbox/lanes.h"
#include "tests/flow/votes_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define CALLS 5 /* begin, make_counts, mark_closed, append, commit */

static int set_up(void **state)
{
    struct votes_db *db = malloc(sizeof(*db));

    assert_non_null(db);
    votes_db_init(db);
    *state = db;
    return 0;
}

static int tear_down(void **state)
{
    votes_db_done(*state);
    free(*state);
    return 0;
}

static enum rc close_one(struct votes_db *db, int64_t content_id, bool *now)
{
    const struct close_content close = {.store = &db->ops, .lane_count = 4, .rng_bytes = os_random};
    struct err err = {0};
    enum rc rc = close_content(&close, content_id, now, &err);

    assert_false(db->alone.open);
    votes_db_check(db);
    return rc;
}

static bool is_closed(struct votes_db *db, int64_t content_id)
{
    struct vote_count_row count = {.content_id = content_id};
    struct err err;

    assert_int_equal(db->ops.read_deleted(db->ops.ctx, &count, 1, &err), RC_OK);
    return count.deleted;
}

static void the_mark_and_the_tombstone_are_one_transaction(void **state)
{
    struct votes_db *db = *state;
    char lane[OUTBOX_LANE_NAME_SIZE];
    bool now = false;

    assert_int_equal(close_one(db, 10, &now), RC_OK);
    assert_true(now);
    assert_true(is_closed(db, 10));
    assert_int_equal(db->commits, 1);
    assert_int_equal(db->tables->event_count, 1);
    assert_true(db->tables->events[0].ends);
    assert_int_equal(db->tables->events[0].content_id, 10);
    outbox_lane_name(lane, outbox_lane_of("10", 4));
    assert_string_equal(db->tables->events[0].lane, lane);
}

/* As an application may have inserted it. */
static void a_number_that_no_content_has_is_refused(void **state)
{
    struct votes_db *db = *state;
    bool now = true;

    assert_int_equal(close_one(db, 0, &now), RC_REJECT);
    assert_false(now);
    assert_int_equal(close_one(db, -7, &now), RC_REJECT);
    assert_int_equal(db->tables->event_count, 0);
}

static void a_closed_content_gets_no_second_tombstone(void **state)
{
    struct votes_db *db = *state;
    bool now = false;

    assert_int_equal(close_one(db, 10, &now), RC_OK);
    assert_int_equal(close_one(db, 10, &now), RC_OK);
    assert_false(now);
    assert_int_equal(db->tables->event_count, 1);
    assert_int_equal(db->commits, 1);
}

/* An application has inserted the row of deleted_content, without a tombstone. */
static void a_content_that_was_deleted_without_a_tombstone_gets_one(void **state)
{
    struct votes_db *db = *state;
    bool now = false;

    votes_db_delete(db, 10);
    assert_int_equal(close_one(db, 10, &now), RC_OK);
    assert_true(now);
    assert_int_equal(db->tables->event_count, 1);
    assert_int_equal(close_one(db, 10, &now), RC_OK);
    assert_int_equal(db->tables->event_count, 1);
}

static void every_call_may_fail_and_nothing_is_left(void **state)
{
    struct votes_db *db = *state;
    bool now;

    for (unsigned call = 1; call <= CALLS; call++) {
        db->fail_rc = call % 2 ? RC_RETRY : RC_FATAL;
        db->fail_at = db->calls + call;
        assert_int_equal(close_one(db, call, &now), db->fail_rc);
        assert_int_equal(db->tables->event_count, call - 1);
        assert_false(is_closed(db, call));
        assert_int_equal(close_one(db, call, &now), RC_OK);
        assert_true(now);
        assert_int_equal(db->tables->event_count, call);
    }
}

static void a_lost_commit_may_be_repeated(void **state)
{
    struct votes_db *db = *state;
    bool now = false;

    db->next = VOTES_COMMIT_LOST_AFTER;
    assert_int_equal(close_one(db, 10, &now), RC_RETRY);
    assert_int_equal(close_one(db, 10, &now), RC_OK);
    assert_false(now);
    assert_int_equal(db->tables->event_count, 1);

    db->next = VOTES_COMMIT_LOST_BEFORE;
    assert_int_equal(close_one(db, 20, &now), RC_RETRY);
    assert_int_equal(close_one(db, 20, &now), RC_OK);
    assert_true(now);
    assert_int_equal(db->tables->event_count, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_mark_and_the_tombstone_are_one_transaction),
        TEST(a_number_that_no_content_has_is_refused),
        TEST(a_closed_content_gets_no_second_tombstone),
        TEST(a_content_that_was_deleted_without_a_tombstone_gets_one),
        TEST(every_call_may_fail_and_nothing_is_left),
        TEST(a_lost_commit_may_be_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
