/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/published_tasks.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define NOW_S 1800000000

static struct published_tasks tasks;

static int set_up(void **state)
{
    (void)state;
    memset(&tasks, 0, sizeof(tasks));
    return 0;
}

static void add(int64_t id, int64_t time_s)
{
    const struct published_task task = published_task_name(id, "key", time_s);

    published_tasks_add(&tasks, &task);
}

static bool has(int64_t id, const char *key)
{
    const struct published_task task = published_task_name(id, key, 0);

    return published_tasks_has(&tasks, &task);
}

static void a_list_is_read_as_it_was_written(void **state)
{
    struct buf text = {0};
    struct err err = {0};

    (void)state;
    add(7, NOW_S);
    add(INT64_MAX, NOW_S + 1);
    published_tasks_put(&text, &tasks);
    memset(&tasks, 0, sizeof(tasks));
    assert_int_equal(published_tasks_read(&tasks, (struct bytes){text.data, text.len}, &err),
                     RC_OK);
    assert_int_equal(tasks.count, 2);
    assert_true(has(7, "key") && has(INT64_MAX, "key"));
    assert_int_equal(tasks.tasks[1].time_s, NOW_S + 1);
    buf_reset(&text);
    tasks.count = 0;
    published_tasks_put(&text, &tasks);
    assert_int_equal(published_tasks_read(&tasks, (struct bytes){text.data, text.len}, &err),
                     RC_OK);
    assert_int_equal(tasks.count, 0);
    buf_done(&text);
}

/* After a fail-over another task may have the id. */
static void a_task_is_known_by_its_id_and_its_key(void **state)
{
    (void)state;
    add(7, NOW_S);
    assert_true(has(7, "key"));
    assert_false(has(7, "other"));
    assert_false(has(8, "key"));
}

static void an_ended_task_leaves_the_list(void **state)
{
    const struct published_task task = published_task_name(7, "key", 0);

    (void)state;
    add(6, NOW_S);
    add(7, NOW_S);
    add(8, NOW_S);
    published_tasks_remove(&tasks, &task);
    published_tasks_remove(&tasks, &task);
    assert_int_equal(tasks.count, 2);
    assert_true(has(6, "key") && has(8, "key"));
}

static void old_tasks_are_dropped(void **state)
{
    (void)state;
    add(1, NOW_S);
    add(2, NOW_S + 10);
    add(3, NOW_S + PUBLISHED_TASKS_S);
    assert_int_equal(tasks.count, 3);
    add(4, NOW_S + PUBLISHED_TASKS_S + 1);
    assert_int_equal(tasks.count, 3);
    assert_false(has(1, "key"));
    assert_true(has(2, "key"));
}

static void the_list_is_bounded(void **state)
{
    (void)state;
    for (int64_t id = 1; id <= PUBLISHED_TASKS_MAX + 1; id++)
        add(id, NOW_S);
    assert_int_equal(tasks.count, PUBLISHED_TASKS_MAX);
    assert_false(has(1, "key"));
    assert_true(has(PUBLISHED_TASKS_MAX + 1, "key"));
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "published_tasks=2\n",
        "published_tasks=1",
        "published_tasks=1\n1 2 3",
        "published_tasks=1\n1 2\n",
        "published_tasks=1\n1 2 3 4\n",
        "published_tasks=1\n-1 2 3\n",
        "published_tasks=1\n1 -2 3\n",
        "published_tasks=1\n1 2 99999999999999999999\n",
        "published_tasks=1\n1  2 3\n",
        "published_tasks=1\n\n",
    };
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        tasks.count = 1;
        assert_int_equal(
            published_tasks_read(&tasks, (struct bytes){texts[i], strlen(texts[i])}, &err),
            RC_FATAL);
        assert_int_equal(tasks.count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_list_is_read_as_it_was_written, set_up),
        cmocka_unit_test_setup(a_task_is_known_by_its_id_and_its_key, set_up),
        cmocka_unit_test_setup(an_ended_task_leaves_the_list, set_up),
        cmocka_unit_test_setup(old_tasks_are_dropped, set_up),
        cmocka_unit_test_setup(the_list_is_bounded, set_up),
        cmocka_unit_test_setup(what_is_no_list_is_refused, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
