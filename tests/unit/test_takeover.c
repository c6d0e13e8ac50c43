/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/takeover.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define OWN 11
#define OTHER 22

/* A lane whose process 11 holds epoch 5, before that another one had epoch 4. */
struct decision {
    struct takeover takeover;
    struct position_record record;
    struct stream_position saved;
    struct takeover_facts facts;
    enum takeover_choice choice;
    struct err err;
};

static void put_gtids(struct stream_position *position, const char *gtids)
{
    position->by_gtid = true;
    buf_reset(&position->before);
    buf_text_put(&position->before, gtids);
    strcpy(position->server, "server");
}

static int set_up(void **state)
{
    struct decision *decision = calloc(1, sizeof(*decision));

    takeover_init(&decision->takeover);
    decision->record.epoch = 4;
    decision->record.number = 70;
    decision->record.maker = OTHER;
    decision->record.saved = 90;
    decision->record.saved_by_gtid = true;
    put_gtids(&decision->record.position, "0-1-100");
    decision->saved.epoch = 4;
    put_gtids(&decision->saved, "0-1-90");
    decision->facts = (struct takeover_facts){.lane = "outbox",
                                              .epoch = 5,
                                              .maker = OWN,
                                              .found = true,
                                              .saved_found = true,
                                              .saved = &decision->saved};
    *state = decision;
    return 0;
}

static int tear_down(void **state)
{
    struct decision *decision = *state;

    position_record_done(&decision->record);
    buf_done(&decision->saved.before);
    takeover_done(&decision->takeover);
    free(decision);
    return 0;
}

static enum rc choose(struct decision *decision)
{
    return takeover_choose(&decision->record, &decision->facts, &decision->choice, &decision->err);
}

static void assert_refused(struct decision *decision, const char *text)
{
    assert_int_equal(choose(decision), RC_FATAL);
    assert_non_null(strstr(decision->err.text, text));
    /* The whole text fits. */
    assert_true(strlen(decision->err.text) + 60 < sizeof(decision->err.text));
}

static void assert_gtids(struct decision *decision, const char *gtids)
{
    assert_string_equal(buf_text(&decision->record.position.before), gtids);
}

static void the_record_counts_while_the_copy_is_of_its_lease(void **state)
{
    struct decision *decision = *state;

    assert_int_equal(choose(decision), RC_OK);
    assert_int_equal(decision->choice, TAKEOVER_USE_RECORD);
    assert_gtids(decision, "0-1-100");
    assert_int_equal(decision->record.epoch, 5);
    assert_int_equal(decision->record.saved, 90);
    assert_false(decision->record.begun);
}

static void a_position_of_a_later_lease_counts(void **state)
{
    struct decision *decision = *state;

    decision->saved.epoch = 5;
    put_gtids(&decision->saved, "0-1-60");
    assert_int_equal(choose(decision), RC_OK);
    assert_int_equal(decision->choice, TAKEOVER_USE_SAVED);
    assert_gtids(decision, "0-1-60");
    assert_int_equal(decision->record.rows, 0);
}

/* Whatever its epoch is: `lanes begin` of a lane that no relay has held. */
static void without_a_record_the_saved_position_counts(void **state)
{
    struct decision *decision = *state;

    decision->facts.found = false;
    decision->saved.epoch = 0;
    position_record_reset(&decision->record);
    assert_int_equal(choose(decision), RC_OK);
    assert_int_equal(decision->choice, TAKEOVER_USE_SAVED);
    assert_gtids(decision, "0-1-90");
}

static void without_any_position_the_lane_begins(void **state)
{
    struct decision *decision = *state;

    decision->facts.found = decision->facts.saved_found = false;
    assert_int_equal(choose(decision), RC_OK);
    assert_int_equal(decision->choice, TAKEOVER_BEGIN);
    assert_true(decision->record.begun);
    assert_int_equal(decision->record.position.before.len, 0);
}

static void a_kill_before_the_first_save_begins_again(void **state)
{
    struct decision *decision = *state;

    decision->facts.saved_found = false;
    decision->record.begun = true;
    assert_int_equal(choose(decision), RC_OK);
    assert_int_equal(decision->choice, TAKEOVER_BEGIN);
    assert_int_equal(decision->record.position.before.len, 0);
}

static void a_record_without_a_saved_position_is_refused(void **state)
{
    struct decision *decision = *state;

    decision->facts.saved_found = false;
    assert_refused(decision, "`tallybox relay source outbox binlog`");
    assert_refused(decision, "`tallybox lanes begin outbox`");
    decision->facts.obstacle = "it has no key";
    assert_refused(decision, "`tallybox lanes begin outbox`; they cannot be published from the "
                             "table: it has no key");
    assert_null(strstr(decision->err.text, "relay source"));
}

static void a_record_of_a_later_lease_is_refused(void **state)
{
    struct decision *decision = *state;

    decision->record.epoch = 6;
    assert_refused(decision, "transactional_id");
}

/* The database gave the epoch a second time. */
static void a_record_of_another_process_under_this_lease_is_refused(void **state)
{
    struct decision *decision = *state;

    decision->record.epoch = 5;
    assert_refused(decision, "transactional_id");
    decision->record.maker = OWN;
    decision->saved.epoch = 5;
    assert_int_equal(choose(decision), RC_OK);
    assert_int_equal(decision->choice, TAKEOVER_USE_RECORD);
}

static void a_copy_that_went_back_is_refused(void **state)
{
    struct decision *decision = *state;

    put_gtids(&decision->saved, "0-1-89");
    assert_refused(decision, "--from-table");
    decision->facts.obstacle = "it has no key";
    assert_refused(decision, "set a new lane.outbox.transactional_id");
    assert_null(strstr(decision->err.text, "--from-table"));
    put_gtids(&decision->saved, "0-1-91");
    assert_int_equal(choose(decision), RC_OK);
}

/* The copy of an earlier lease is the one that was found when the record was written. */
static void a_copy_of_an_earlier_lease_is_the_one_that_was_found(void **state)
{
    struct decision *decision = *state;

    decision->saved.epoch = 3;
    assert_int_equal(choose(decision), RC_OK);
    decision->record.epoch = 4;
    put_gtids(&decision->saved, "0-1-91");
    assert_refused(decision, "was restored");
}

/* In an idle lane the copy is ahead; the first position of the next lease is that of the record. */
static void the_first_copy_of_a_lease_may_be_that_of_the_record(void **state)
{
    struct decision *decision = *state;

    decision->record.saved = 120;
    put_gtids(&decision->saved, "0-1-100");
    assert_int_equal(choose(decision), RC_OK);
    decision->record.epoch = 4;
    decision->record.saved = 120;
    put_gtids(&decision->saved, "0-1-99");
    assert_refused(decision, "was restored");
}

static void a_record_that_knows_no_copy_counts(void **state)
{
    struct decision *decision = *state;

    decision->record.saved = 0;
    put_gtids(&decision->saved, "0-1-2");
    assert_int_equal(choose(decision), RC_OK);
    assert_int_equal(decision->choice, TAKEOVER_USE_RECORD);
}

static void an_empty_position_is_refused(void **state)
{
    struct decision *decision = *state;

    decision->record.position.by_gtid = false;
    assert_refused(decision, "is empty");
    decision->saved.epoch = 5;
    decision->saved.by_gtid = false;
    assert_refused(decision, "is empty");
}

static uint64_t reach_of(struct decision *decision)
{
    decision->facts.found = false;
    assert_int_equal(choose(decision), RC_OK);
    return decision->record.saved;
}

static void the_reach_grows_with_the_log(void **state)
{
    struct decision *decision = *state;
    struct stream_position *saved = &decision->saved;

    put_gtids(saved, "0-1-7,3-9-5");
    assert_int_equal(reach_of(decision), 12);
    put_gtids(saved, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5");
    assert_int_equal(reach_of(decision), 5);
    put_gtids(saved, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7:9-10:tag_1:1-3,\n"
                     "3e11fa47-71ca-11e1-9e33-c80aa9429563:4");
    assert_int_equal(reach_of(decision), 12);
    put_gtids(saved, "3-");
    assert_int_equal(reach_of(decision), 0);
    put_gtids(saved, "");
    assert_int_equal(reach_of(decision), 0);
    saved->by_gtid = false;
    strcpy(saved->file, "binlog.000002");
    saved->offset = 4;
    assert_true(reach_of(decision) == (UINT64_C(2) << 32) + 4);
}

static void the_record_tells_how_far_the_copy_is(void **state)
{
    struct decision *decision = *state;
    struct takeover *takeover = &decision->takeover;
    struct position_record *record = &decision->record;

    takeover_begin_saved(record);
    assert_int_equal(record->saved, 100);
    takeover_put_saved(takeover, record, 10);
    assert_int_equal(record->saved, 100);
    /* Of an earlier begin. */
    takeover_note_saved(takeover, &decision->saved, 10);
    takeover_put_saved(takeover, record, 10);
    assert_int_equal(record->saved, 100);
    takeover_note_saved(takeover, &decision->saved, 11);
    takeover_put_saved(takeover, record, 10);
    assert_int_equal(record->saved, 90);
    takeover_ask_read(takeover);
    record->saved = 1;
    takeover_put_saved(takeover, record, 10);
    assert_int_equal(record->saved, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_record_counts_while_the_copy_is_of_its_lease),
        TEST(a_position_of_a_later_lease_counts),
        TEST(without_a_record_the_saved_position_counts),
        TEST(without_any_position_the_lane_begins),
        TEST(a_kill_before_the_first_save_begins_again),
        TEST(a_record_without_a_saved_position_is_refused),
        TEST(a_record_of_a_later_lease_is_refused),
        TEST(a_record_of_another_process_under_this_lease_is_refused),
        TEST(a_copy_that_went_back_is_refused),
        TEST(a_copy_of_an_earlier_lease_is_the_one_that_was_found),
        TEST(the_first_copy_of_a_lease_may_be_that_of_the_record),
        TEST(a_record_that_knows_no_copy_counts),
        TEST(an_empty_position_is_refused),
        TEST(the_reach_grows_with_the_log),
        TEST(the_record_tells_how_far_the_copy_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
