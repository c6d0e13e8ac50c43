/* SPDX-License-Identifier: MIT */
/* The progress of a lane in a stream, against a model that has a state for each row. */
#include "outbox/relay/stream/row_progress.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

#define ROWS_MAX 128
#define MODEL_ROWS 20000
#define STEPS 200000

enum state { UNREAD, TAKEN, RETURNED, DONE };

static struct row_progress progress;
static struct err err;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(row_progress_init(&progress, ROWS_MAX - 1, &err), RC_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    row_progress_done(&progress);
    return 0;
}

/* Positions are told apart by their offset, which grows with the number of the row before them. */
static void begin(void)
{
    row_progress_begin(&progress)->offset = 0;
}

static int64_t take(void)
{
    int64_t row = 0;

    assert_true(row_progress_take(&progress, &row));
    return row;
}

static void mark(uint64_t offset)
{
    struct stream_position *position = row_progress_mark(&progress);

    assert_non_null(position);
    position->offset = offset;
}

static void a_position_is_reached_when_all_rows_before_it_are_done(void **state)
{
    const struct stream_position *reached;

    (void)state;
    begin();
    assert_null(row_progress_reached(&progress));
    assert_int_equal(take(), 1);
    assert_int_equal(take(), 2);
    mark(20);
    assert_int_equal(take(), 3);
    row_progress_end(&progress, 2);
    assert_null(row_progress_reached(&progress));
    row_progress_end(&progress, 1);
    reached = row_progress_reached(&progress);
    assert_non_null(reached);
    assert_int_equal(reached->offset, 20);
    assert_null(row_progress_reached(&progress));
}

/* Transactions of other tables move it. */
static void a_position_moves_without_rows(void **state)
{
    const struct stream_position *reached;

    (void)state;
    begin();
    mark(5);
    mark(7);
    reached = row_progress_reached(&progress);
    assert_non_null(reached);
    assert_int_equal(reached->offset, 7);
    mark(8);
    assert_int_equal(row_progress_reached(&progress)->offset, 8);
}

static void only_returned_rows_are_passed_on_again(void **state)
{
    int64_t row;

    (void)state;
    begin();
    for (int i = 0; i < 5; i++)
        take();
    row_progress_end(&progress, 1);
    row_progress_end(&progress, 4);
    row_progress_return(&progress, 2);
    row_progress_return(&progress, 5);
    assert_int_equal(row_progress_rewind(&progress, 2)->offset, 0);
    for (int64_t i = 1; i <= 5; i++)
        assert_int_equal(row_progress_take(&progress, &row), i == 2 || i == 5);
    assert_int_equal(take(), 6);
}

/* A stream fails, or the lane stops, while it is read a second time, and the rows that it was to
 * pass are done: no row is repeated. */
static void a_rewind_below_the_lowest_row_goes_to_that_row(void **state)
{
    int64_t row;

    (void)state;
    begin();
    for (int i = 0; i < 5; i++)
        take();
    mark(50);
    row_progress_return(&progress, 1);
    for (int i = 2; i <= 5; i++)
        row_progress_end(&progress, i);
    row_progress_rewind(&progress, 1);
    assert_true(row_progress_take(&progress, &row));
    mark(10);
    row_progress_end(&progress, row);
    assert_int_equal(row_progress_reached(&progress)->offset, 50);
    assert_null(row_progress_mark(&progress));
    assert_int_equal(row_progress_rewind(&progress, progress.read + 1)->offset, 50);
    assert_int_equal(take(), 6);
}

/* Else a window that is smaller than the rows between two positions stays full for ever. */
static void rows_that_are_read_again_are_marked_again(void **state)
{
    int64_t row;

    (void)state;
    begin();
    for (int i = 0; i < 5; i++)
        take();
    mark(50);
    row_progress_return(&progress, 1);
    row_progress_rewind(&progress, 1);
    assert_int_equal(take(), 1);
    assert_false(row_progress_take(&progress, &row));
    mark(20);
    row_progress_end(&progress, 1);
    row_progress_end(&progress, 2);
    assert_int_equal(row_progress_reached(&progress)->offset, 20);
    assert_int_equal(row_progress_rewind(&progress, 3)->offset, 20);
}

/* Rows 1, 3, 5 ... are marked the first time, and rows 2, 4, 6 ... the second time, when there are
 * too many marks. */
static void the_furthest_mark_stays_when_there_are_too_many(void **state)
{
    const int64_t last = 2 * PROGRESS_MARKS_MAX - 3;
    int64_t row;

    (void)state;
    begin();
    while (progress.read < last) {
        take();
        if (progress.read % 2 == 1)
            mark((uint64_t)progress.read);
    }
    assert_int_equal(progress.mark_count, PROGRESS_MARKS_MAX);
    row_progress_return(&progress, 1);
    row_progress_rewind(&progress, 1);
    while (progress.read < last - 1) {
        row_progress_take(&progress, &row);
        if (row % 2 == 0)
            mark((uint64_t)row);
        assert_int_equal(progress.marks[PROGRESS_MARKS_MAX - 1].row, last);
        for (size_t i = 1; i < progress.mark_count; i++)
            assert_true(progress.marks[i - 1].row < progress.marks[i].row);
        for (size_t i = 0; i < progress.mark_count; i++)
            assert_int_equal(progress.marks[i].position.offset, progress.marks[i].row);
    }
    for (row = 1; row <= last; row++)
        row_progress_end(&progress, row);
    assert_int_equal(row_progress_reached(&progress)->offset, last);
}

static void the_window_is_bounded(void **state)
{
    (void)state;
    begin();
    assert_int_equal(row_progress_room(&progress), ROWS_MAX);
    for (int i = 0; i < ROWS_MAX; i++)
        take();
    assert_int_equal(row_progress_room(&progress), 0);
    row_progress_end(&progress, 2);
    assert_int_equal(row_progress_room(&progress), 0);
    row_progress_end(&progress, 1);
    assert_int_equal(row_progress_room(&progress), 2);
}

static enum state model[MODEL_ROWS + 2];
static int64_t model_high;
static int64_t model_low;
static uint64_t rng = 7;

static uint64_t below(uint64_t bound)
{
    return rng_next(&rng) % bound;
}

/* A taken row; 0: there is none. */
static int64_t choose_taken(void)
{
    int64_t from = model_low + (int64_t)below((uint64_t)(model_high - model_low + 2));

    for (int64_t row = from; row <= model_high; row++)
        if (model[row] == TAKEN)
            return row;
    for (int64_t row = model_low; row < from; row++)
        if (model[row] == TAKEN)
            return row;
    return 0;
}

static int64_t find_lowest_returned(void)
{
    for (int64_t row = model_low; row <= model_high; row++)
        if (model[row] == RETURNED)
            return row;
    return 0;
}

static void step_take(void)
{
    int64_t row = 0;
    bool passed;

    if (row_progress_room(&progress) == 0 || progress.read == MODEL_ROWS)
        return;
    passed = row_progress_take(&progress, &row);
    assert_int_equal(passed, model[row] == UNREAD || model[row] == RETURNED);
    assert_true(row <= model_high + 1);
    if (passed)
        model[row] = TAKEN;
    if (row > model_high)
        model_high = row;
}

static void step_end_or_return(bool end)
{
    int64_t row = choose_taken();

    if (row == 0)
        return;
    model[row] = end ? DONE : RETURNED;
    if (end)
        row_progress_end(&progress, row);
    else
        row_progress_return(&progress, row);
    while (model[model_low] == DONE)
        model_low++;
}

static void step_mark(void)
{
    struct stream_position *position = row_progress_mark(&progress);

    if (position)
        position->offset = (uint64_t)progress.read;
}

static void step_reached(void)
{
    static uint64_t last;
    const struct stream_position *position = row_progress_reached(&progress);

    if (!position)
        return;
    assert_true((int64_t)position->offset < model_low);
    assert_true(position->offset >= last);
    last = position->offset;
}

static void step_rewind(void)
{
    int64_t row = find_lowest_returned();
    const struct stream_position *position;

    if (row == 0)
        return;
    position = row_progress_rewind(&progress, row);
    assert_true((int64_t)position->offset < row);
    assert_int_equal(progress.read, position->offset);
}

static void any_order_of_steps_agrees_with_the_model(void **state)
{
    (void)state;
    begin();
    model_low = 1;
    for (int i = 0; i < STEPS; i++) {
        uint64_t kind = below(100);

        if (kind < 45)
            step_take();
        else if (kind < 85)
            step_end_or_return(true);
        else if (kind < 88)
            step_end_or_return(false);
        else if (kind < 93)
            step_mark();
        else if (kind < 97)
            step_reached();
        else
            step_rewind();
    }
    /* Everything ends: nothing was lost. */
    while (model_low <= MODEL_ROWS) {
        step_rewind();
        for (int i = 0; i < 2 * ROWS_MAX; i++)
            step_take();
        for (int i = 0; i < ROWS_MAX; i++)
            step_end_or_return(true);
        step_mark();
        step_reached();
    }
    assert_int_equal(progress.low, MODEL_ROWS + 1);
    assert_int_equal(progress.marks[0].row, MODEL_ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_position_is_reached_when_all_rows_before_it_are_done,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_position_moves_without_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(only_returned_rows_are_passed_on_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rewind_below_the_lowest_row_goes_to_that_row, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rows_that_are_read_again_are_marked_again, setup, teardown),
        cmocka_unit_test_setup_teardown(the_furthest_mark_stays_when_there_are_too_many, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_window_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(any_order_of_steps_agrees_with_the_model, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
