/* SPDX-License-Identifier: MIT */
#include "consumer/consumer_metrics.h"

#include "consumer/consume_command.h"
#include "consumer/rollup/rollup_command.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static bool page_has(const char *text)
{
    struct buf out = {0};
    bool found;

    metrics_render(&out);
    found = strstr(buf_text(&out), text) != NULL;
    buf_done(&out);
    return found;
}

/* The list is the process' own and only grows, so one test has all steps. A process of consume
 * alone must not show a last roll-up of 0: alert TallyboxRollupLate would fire. */
static void only_the_role_that_sets_a_metric_exports_it(void **state)
{
    (void)state;
    consume_role.register_metrics();
    assert_true(page_has("tallybox_consumer_lag_records 0\n"));
    assert_false(page_has("tallybox_rollup_"));
    assert_false(page_has("tallybox_housekeep_"));
    rollup_role.register_metrics();
    assert_true(page_has("tallybox_rollup_last_success_timestamp_seconds 0"));
    assert_false(page_has("tallybox_housekeep_"));
}

static void dead_records_are_counted_by_the_names_of_their_classes(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECORD_CLASS_COUNT; i++)
        assert_non_null(strstr(consume_dead[i].labels, record_classes[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_role_that_sets_a_metric_exports_it),
        cmocka_unit_test(dead_records_are_counted_by_the_names_of_their_classes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
