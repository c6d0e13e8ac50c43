/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/ignored_changes.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define START_MS 1000

static struct metric updates;
static struct metric statements;
static struct ignored_changes ignored;

static int set_up(void **state)
{
    (void)state;
    updates = statements = (struct metric){0};
    ignored_changes_init(&ignored, "outbox", &updates, &statements);
    return 0;
}

static void each_new_change_is_counted_once(void **state)
{
    struct change_counts counts = {0};

    (void)state;
    assert_false(ignored_changes_any(&ignored, &counts));
    counts.transactions = 9;
    assert_false(ignored_changes_any(&ignored, &counts));
    counts.updates = 2;
    assert_true(ignored_changes_any(&ignored, &counts));
    ignored_changes_note(&ignored, &counts, "log.000007", 4, START_MS);
    assert_false(ignored_changes_any(&ignored, &counts));
    counts.statements = 3;
    ignored_changes_note(&ignored, &counts, "log.000007", 4, START_MS);
    assert_int_equal(metric_value(&updates), 2);
    assert_int_equal(metric_value(&statements), 3);
}

static void a_line_is_written_once_a_minute(void **state)
{
    struct change_counts counts = {.updates = 1};

    (void)state;
    ignored_changes_note(&ignored, &counts, "log.000007", 4, START_MS);
    assert_int_equal(ignored.updates.said_ms, START_MS);
    counts.updates = 5;
    ignored_changes_note(&ignored, &counts, "log.000007", 4,
                         START_MS + IGNORED_CHANGES_SILENT_MS - 1);
    assert_int_equal(ignored.updates.said_ms, START_MS);
    assert_int_equal(ignored.updates.unsaid, 4);
    assert_int_equal(metric_value(&updates), 5);
    /* The others have a line of their own. */
    counts.statements = 1;
    ignored_changes_note(&ignored, &counts, "log.000007", 4,
                         START_MS + IGNORED_CHANGES_SILENT_MS - 1);
    assert_int_equal(ignored.statements.unsaid, 0);
    assert_true(ignored_changes_any(&ignored, &counts));
    ignored_changes_note(&ignored, &counts, "log.000007", 4, START_MS + IGNORED_CHANGES_SILENT_MS);
    assert_int_equal(ignored.updates.said_ms, START_MS + IGNORED_CHANGES_SILENT_MS);
    assert_int_equal(ignored.updates.unsaid, 0);
    assert_false(ignored_changes_any(&ignored, &counts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_new_change_is_counted_once, set_up),
        cmocka_unit_test_setup(a_line_is_written_once_a_minute, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
