/* SPDX-License-Identifier: MIT */
/* How often the reader of an idle lane polls its table, with and without being told of each
 * transaction that writes rows. */
#include "tests/flow/relay_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct relay_fixture fixture;
static struct source table;
static size_t polls;

static enum rc count_read(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                          source_on_row on_row, void *on_row_ctx, struct err *err)
{
    polls++;
    return table.read(ctx, ranges, count, rows_max, on_row, on_row_ctx, err);
}

static size_t count_polls(int64_t ms)
{
    polls = 0;
    relay_fixture_run(&fixture, ms);
    return polls;
}

static int set_up(void **state)
{
    (void)state;
    relay_fixture_init(&fixture, 7);
    memset(&fixture.fake.faults, 0, sizeof(fixture.fake.faults));
    fixture.fake.writing = false;
    table = fixture.reader.source;
    fixture.reader.source.read = count_read;
    relay_fixture_take_lease(&fixture);
    relay_fixture_run(&fixture, 3000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    relay_fixture_done(&fixture);
    return 0;
}

static void an_idle_lane_that_is_told_of_writes_polls_once_a_second(void **state)
{
    (void)state;
    /* poll_idle_ms = 5 */
    assert_in_range(count_polls(3000), 400, 700);
    lane_set_watched(&fixture.lane, true);
    relay_fixture_run(&fixture, 1000);
    assert_in_range(count_polls(10000), 8, 11);
}

/* Its rows can be seen a little later than it is told of. */
static void a_lane_that_was_told_of_a_write_polls_as_when_rows_arrive(void **state)
{
    (void)state;
    lane_set_watched(&fixture.lane, true);
    relay_fixture_run(&fixture, 3000);
    lane_note_write(&fixture.lane);
    assert_in_range(count_polls(5), 2, 6);
    assert_in_range(count_polls(900), 400, 950);
    relay_fixture_run(&fixture, 1000);
    assert_in_range(count_polls(10000), 8, 11);
}

static void a_lane_that_is_told_of_no_writes_any_more_polls_as_before(void **state)
{
    (void)state;
    lane_set_watched(&fixture.lane, true);
    relay_fixture_run(&fixture, 3000);
    lane_set_watched(&fixture.lane, false);
    lane_note_write(&fixture.lane);
    relay_fixture_run(&fixture, 2000);
    assert_in_range(count_polls(3000), 400, 700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_idle_lane_that_is_told_of_writes_polls_once_a_second,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lane_that_was_told_of_a_write_polls_as_when_rows_arrive,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lane_that_is_told_of_no_writes_any_more_polls_as_before,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
