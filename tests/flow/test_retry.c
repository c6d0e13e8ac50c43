/* SPDX-License-Identifier: MIT */
/* What the retry lane's engine decides, on a fake store. */
#include "tests/flow/retry_world.h"

#include "common/log.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static int set_up(void **state)
{
    (void)state;
    world_reset(1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_reset(1);
    return 0;
}

static void a_task_that_works_is_run_once_and_deleted(void **state)
{
    struct task *task = world_task("mail", NULL);

    (void)state;
    host_start(0);
    assert_true(world_drain(1000));
    assert_int_equal(task->runs, 1);
    assert_int_equal(task->seen_attempt, 1);
    assert_string_equal(task->outcome, "deleted");
    assert_string_equal(task->seen_options, "{}");
    assert_true(poller_left(&world.hosts[0].poller));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_that_works_is_run_once_and_deleted),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
