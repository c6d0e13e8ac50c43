/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_scene_command.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define UNTIL_MS 10000

/* The live processes, and the change that each has recorded. */
static struct {
    size_t count;
    int64_t recorded[16];
    enum rc rc;
    size_t asked;
} fake;

static struct scene_wait scene_wait;
static struct buf out;

static enum rc each(void *ctx, int64_t change, scene_on_process on_process, void *on_process_ctx,
                    struct err *err)
{
    char name[16];

    (void)ctx;
    fake.asked++;
    if (fake.rc != RC_OK)
        return err_fail(err, fake.rc, 0, "no way");
    for (size_t i = 0; i < fake.count; i++) {
        snprintf(name, sizeof(name), "p%zu", i);
        on_process(on_process_ctx, name, fake.recorded[i] >= change);
    }
    return RC_OK;
}

static const struct scene_processes processes = {NULL, each};

static int set_up(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    scene_wait_init(&scene_wait, &processes, 7, UNTIL_MS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scene_wait_done(&scene_wait);
    buf_done(&out);
    out = (struct buf){0};
    return 0;
}

static void without_a_live_process_nothing_is_waited_for(void **state)
{
    (void)state;
    assert_true(scene_wait_step(&scene_wait, 0));
    assert_true(scene_wait_text(&scene_wait, &out));
    assert_non_null(strstr(buf_text(&out), "no retry process is live"));
}

static void it_is_over_when_all_have_recorded_the_change(void **state)
{
    (void)state;
    fake.count = 2;
    fake.recorded[0] = 7;
    fake.recorded[1] = 6;
    assert_false(scene_wait_step(&scene_wait, 0));
    assert_int_equal(scene_wait.behind, 1);
    fake.recorded[1] = 8;
    assert_true(scene_wait_step(&scene_wait, 100));
    assert_true(scene_wait_text(&scene_wait, &out));
    assert_string_equal(buf_text(&out), "in force in 2 retry processes\n");
}

static void one_that_has_recorded_nothing_is_waited_for(void **state)
{
    (void)state;
    fake.count = 1;
    assert_false(scene_wait_step(&scene_wait, 0));
    assert_false(scene_wait_step(&scene_wait, UNTIL_MS - 1));
    assert_true(scene_wait_step(&scene_wait, UNTIL_MS));
    assert_false(scene_wait_text(&scene_wait, &out));
    assert_non_null(strstr(buf_text(&out), "1 of 1 retry process: p0; "));
}

static void those_without_it_are_named_when_the_time_is_up(void **state)
{
    (void)state;
    fake.count = 3;
    fake.recorded[1] = 7;
    assert_true(scene_wait_step(&scene_wait, UNTIL_MS));
    assert_false(scene_wait_text(&scene_wait, &out));
    assert_non_null(strstr(buf_text(&out), "2 of 3 retry processes: p0, p2; "));
}

static void the_last_look_counts_even_when_it_comes_late(void **state)
{
    (void)state;
    fake.count = 1;
    fake.recorded[0] = 7;
    assert_true(scene_wait_step(&scene_wait, UNTIL_MS + 5000));
    assert_true(scene_wait_text(&scene_wait, &out));
}

static void many_are_counted_rather_than_named(void **state)
{
    (void)state;
    fake.count = SCENE_WAIT_NAMES_MAX + 2;
    assert_true(scene_wait_step(&scene_wait, UNTIL_MS));
    assert_false(scene_wait_text(&scene_wait, &out));
    assert_non_null(strstr(buf_text(&out), "p9 and 2 more;"));
}

static void one_that_is_dead_is_not_waited_for_any_more(void **state)
{
    (void)state;
    fake.count = 2;
    fake.recorded[0] = 7;
    assert_false(scene_wait_step(&scene_wait, 0));
    fake.count = 1;
    assert_true(scene_wait_step(&scene_wait, 100));
    assert_true(scene_wait_text(&scene_wait, &out));
}

static void an_unavailable_database_is_polled_until_the_deadline(void **state)
{
    (void)state;
    fake.rc = RC_RETRY;
    assert_false(scene_wait_step(&scene_wait, 0));
    assert_true(scene_wait_step(&scene_wait, UNTIL_MS));
    assert_int_equal(scene_wait.rc, RC_RETRY);
    fake.rc = RC_OK;
    assert_true(scene_wait_step(&scene_wait, UNTIL_MS));
    assert_int_equal(scene_wait.rc, RC_OK);
}

static void a_missing_privilege_ends_the_polling(void **state)
{
    (void)state;
    fake.rc = RC_FATAL;
    assert_true(scene_wait_step(&scene_wait, 0));
    assert_int_equal(scene_wait.rc, RC_FATAL);
    assert_int_equal(fake.asked, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_live_process_nothing_is_waited_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_is_over_when_all_have_recorded_the_change, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_that_has_recorded_nothing_is_waited_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(those_without_it_are_named_when_the_time_is_up, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_last_look_counts_even_when_it_comes_late, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(many_are_counted_rather_than_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_dead_is_not_waited_for_any_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_unavailable_database_is_polled_until_the_deadline,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_privilege_ends_the_polling, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
