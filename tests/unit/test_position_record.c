/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/position_record.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct position_record *record)
{
    struct stream_position *position = &record->position;

    record->epoch = 4;
    record->number = 75;
    record->first = 60;
    record->row = 70;
    record->terms[0] = (struct position_term){2, 10, 20};
    record->terms[1] = (struct position_term){4, 30, 50};
    record->term_count = 2;
    record->maker = UINT64_MAX;
    record->rows = 3;
    record->begun = record->emptied = true;
    record->saved = 90;
    record->saved_by_gtid = true;
    position->by_gtid = true;
    buf_text_put(&position->before, "uuid:1-5,\nother:1");
    strcpy(position->file, "binlog.000002");
    position->offset = 157;
    strcpy(position->gtid, "uuid:6");
    position->rows_done = 2;
    position->time_s = 1700000000;
    strcpy(position->server, "server");
    buf_put(&record->seqs, "\x01\x00\xff", 3);
}

static enum rc read_text(struct position_record *record, const char *text, struct err *err)
{
    position_record_reset(record);
    return position_record_read(record, (struct bytes){text, strlen(text)}, err);
}

static void a_record_is_read_as_it_was_written(void **state)
{
    struct position_record record = {0};
    struct position_record again = {0};
    struct buf text = {0};
    struct err err = {0};

    (void)state;
    fill(&record);
    position_record_put(&text, &record);
    assert_int_equal(position_record_read(&again, (struct bytes){text.data, text.len}, &err),
                     RC_OK);
    assert_true(position_record_is_same(&record, &again));
    assert_true(again.maker == UINT64_MAX);
    assert_int_equal(again.rows, 3);
    assert_int_equal(again.first, 60);
    assert_int_equal(again.row, 70);
    assert_int_equal(again.term_count, 2);
    assert_memory_equal(again.terms, record.terms, sizeof(record.terms));
    assert_true(again.begun && again.emptied && again.saved_by_gtid && again.position.by_gtid);
    assert_int_equal(again.saved, 90);
    assert_string_equal(buf_text(&again.position.before), "uuid:1-5,other:1");
    assert_string_equal(again.position.file, "binlog.000002");
    assert_int_equal(again.position.offset, 157);
    assert_string_equal(again.position.gtid, "uuid:6");
    assert_int_equal(again.position.rows_done, 2);
    assert_int_equal(again.position.time_s, 1700000000);
    assert_int_equal(again.seqs.len, 3);
    assert_memory_equal(again.seqs.data, record.seqs.data, 3);
    position_record_done(&again);
    assert_true(position_record_copy(&again, &record));
    assert_true(again.begun && again.emptied && again.saved_by_gtid && again.saved == 90);
    assert_true(again.first == 60 && again.term_count == 2 && again.terms[1].last == 50);
    assert_true(position_record_is_same(&record, &again));
    again.maker--;
    assert_false(position_record_is_same(&record, &again));
    position_record_done(&again);
    position_record_done(&record);
    buf_done(&text);
}

/* As a process before this one has written it, and as a later one may. */
static void names_may_be_missing_or_unknown(void **state)
{
    struct position_record record = {0};
    struct err err = {0};

    (void)state;
    fill(&record);
    assert_int_equal(read_text(&record, "version=1\nepoch=4\nnumber=7\nby_gtid=1\nnew=x\n", &err),
                     RC_OK);
    assert_int_equal(record.maker, 0);
    assert_int_equal(record.saved, 0);
    assert_false(record.begun || record.emptied);
    position_record_done(&record);
}

static void what_is_no_record_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "version=1\nepoch=4\nnumber=7\n",
        "version=2\nepoch=4\nnumber=7\nby_gtid=1\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=2\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=1\nbegun=yes\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=1\nsaved=-1\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=1\nmaker=\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=1\nseqs=0g\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=1\nterms=1:2\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=1\nterms=1:2:3:4\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=1\nterms=1:2:3,x\n",
        "version=1\nepoch=4\nnumber=7\nby_gtid=1",
        "fence",
    };
    struct position_record record = {0};
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(read_text(&record, texts[i], &err), RC_FATAL);
    position_record_done(&record);
}

/* The record is of epoch 4: of the term 30, which ended at row 50, and of the present one, 60,
 * which is at row 70. */
static void a_position_has_passed_the_rows_of_its_term_before_it(void **state)
{
    static const struct {
        int64_t epoch;
        uint64_t term;
        uint64_t row;
        enum position_cover cover;
    } moves[] = {
        {4, 60, 70, POSITION_PASSED},  {4, 60, 1, POSITION_PASSED},   {4, 60, 71, POSITION_BEFORE},
        {4, 61, 1, POSITION_BEFORE},   {5, 1, 1, POSITION_BEFORE},    {4, 30, 50, POSITION_PASSED},
        {4, 30, 51, POSITION_RETURNS}, {4, 31, 1, POSITION_UNKNOWN},  {2, 10, 20, POSITION_PASSED},
        {2, 10, 21, POSITION_RETURNS}, {3, 10, 20, POSITION_UNKNOWN}, {1, 10, 5, POSITION_UNKNOWN},
    };
    struct position_record record = {0};

    (void)state;
    fill(&record);
    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
        assert_int_equal(
            position_record_cover(&record, moves[i].epoch, moves[i].term, moves[i].row),
            moves[i].cover);
    position_record_done(&record);
}

static void the_oldest_term_is_dropped(void **state)
{
    struct position_record record = {.epoch = 1};

    (void)state;
    for (uint64_t i = 1; i <= POSITION_TERMS_MAX + 1; i++) {
        record.first = 10 * i;
        record.row = 10 * i + 5;
        position_record_end_term(&record);
    }
    assert_int_equal(record.term_count, POSITION_TERMS_MAX);
    assert_int_equal(record.terms[0].first, 20);
    assert_int_equal(record.terms[POSITION_TERMS_MAX - 1].last, 10 * POSITION_TERMS_MAX + 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read_as_it_was_written),
        cmocka_unit_test(names_may_be_missing_or_unknown),
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(a_position_has_passed_the_rows_of_its_term_before_it),
        cmocka_unit_test(the_oldest_term_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
