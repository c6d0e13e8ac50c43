/* SPDX-License-Identifier: MIT */
#include "outbox/retry/fair_queue.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define TASKS 64
#define SCENES 6

/* A task knows its scene and destination. */
struct item {
    struct fair_task task;
    size_t scene;
    size_t destination;
};

static struct fair_queue queue;
static struct fair_scene scenes[SCENES];
static struct item items[TASKS];
static size_t item_count;
static const char destinations[SCENES];

static void begin(size_t threads)
{
    fair_queue_done(&queue);
    assert_int_equal(fair_queue_init(&queue, TASKS, threads, NULL), RC_OK);
    for (size_t i = 0; i < SCENES; i++)
        fair_scene_init(&scenes[i]);
    memset(items, 0, sizeof(items));
    item_count = 0;
}

static int tear_down(void **state)
{
    (void)state;
    fair_queue_done(&queue);
    return 0;
}

static void put_for(size_t scene, size_t destination, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct item *item = &items[item_count++];

        item->scene = scene;
        item->destination = destination;
        fair_queue_put(&queue, &scenes[scene], &destinations[destination], &item->task);
    }
}

static void put(size_t scene, size_t count)
{
    put_for(scene, 0, count);
}

static struct item *take(void)
{
    return (struct item *)(void *)fair_queue_take(&queue);
}

/* The scene of the next task; SCENES: none may run. */
static size_t take_scene(void)
{
    const struct item *item = take();

    return item ? item->scene : SCENES;
}

static void end(struct item *item)
{
    fair_queue_end(&queue, &item->task);
}

static void tasks_of_a_scene_run_in_their_order(void **state)
{
    (void)state;
    begin(1);
    put(0, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_ptr_equal(take(), &items[i]);
        end(&items[i]);
    }
    assert_null(take());
    assert_int_equal(queue.waiting, 0);
}

static void the_last_free_thread_is_kept_for_a_scene_that_has_none(void **state)
{
    (void)state;
    begin(4);
    put(0, 20);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(take_scene(), 0);
    assert_int_equal(take_scene(), SCENES);
    put(1, 2);
    assert_int_equal(take_scene(), 1);
    assert_int_equal(queue.busy, 4);
    /* Behind a task of scene 0 the last free thread is kept again, also from scene 1. */
    end(&items[0]);
    assert_int_equal(take_scene(), SCENES);
    put(2, 1);
    assert_int_equal(take_scene(), 2);
    end(&items[1]);
    end(&items[20]);
    assert_int_equal(take_scene(), 1);
    assert_int_equal(take_scene(), SCENES);
}

static void with_one_thread_scenes_take_turns(void **state)
{
    (void)state;
    begin(1);
    put(0, 10);
    put(1, 2);
    put(2, 2);
    for (size_t i = 0; i < 6; i++) {
        struct item *item = take();

        assert_int_equal(item->scene, i % 3);
        end(item);
    }
    assert_int_equal(take_scene(), 0);
}

static void the_scene_with_the_fewest_threads_comes_first(void **state)
{
    (void)state;
    begin(8);
    put(0, 20);
    put(1, 20);
    put(2, 20);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(take_scene(), i % 3);
    assert_int_equal(take_scene(), 0);
    assert_int_equal(take_scene(), SCENES);
    /* Scene 0 has three threads now, and the others two. */
    end(&items[0]);
    assert_int_equal(take_scene(), 1);
    assert_int_equal(take_scene(), SCENES);
    end(&items[1]);
    assert_int_equal(take_scene(), 0);
}

static void a_scene_may_have_a_limit_of_its_own(void **state)
{
    (void)state;
    begin(8);
    atomic_store(&scenes[0].threads_max, 2);
    put(0, 10);
    assert_int_equal(take_scene(), 0);
    assert_int_equal(take_scene(), 0);
    assert_int_equal(take_scene(), SCENES);
    put(1, 10);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(take_scene(), 1);
    assert_int_equal(take_scene(), SCENES);
    atomic_store(&scenes[0].threads_max, 0);
    end(&items[0]);
    assert_int_equal(take_scene(), 0);
}

static void destinations_of_a_scene_share_its_threads(void **state)
{
    size_t threads[2] = {0};

    (void)state;
    begin(7);
    put_for(0, 0, 30);
    put_for(0, 1, 5);
    for (size_t i = 0; i < 6; i++)
        threads[take()->destination]++;
    assert_int_equal(threads[0], 3);
    assert_int_equal(threads[1], 3);
    /* A later scene does not wait behind all queued tasks. */
    end(&items[0]);
    put_for(0, 2, 1);
    assert_int_equal(take()->destination, 2);
}

static void a_waiting_task_can_be_taken_back(void **state)
{
    (void)state;
    begin(4);
    put(0, 3);
    put(1, 1);
    assert_ptr_equal(fair_queue_first(&queue), &items[0].task);
    fair_queue_remove(&queue, &items[1].task);
    fair_queue_remove(&queue, &items[3].task);
    assert_int_equal(queue.waiting, 2);
    assert_ptr_equal(take(), &items[0]);
    assert_ptr_equal(take(), &items[2]);
    assert_null(take());
    assert_null(fair_queue_first(&queue));
    end(&items[0]);
    end(&items[2]);
    /* Every flow is free again. */
    item_count = 0;
    for (size_t i = 0; i < TASKS; i++)
        put_for(i % SCENES, (i / SCENES) % SCENES, 1);
    while (fair_queue_first(&queue))
        fair_queue_remove(&queue, fair_queue_first(&queue));
    assert_int_equal(queue.waiting, 0);
    for (size_t i = 0; i < SCENES; i++)
        assert_null(scenes[i].used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(tasks_of_a_scene_run_in_their_order, tear_down),
        cmocka_unit_test_teardown(the_last_free_thread_is_kept_for_a_scene_that_has_none,
                                  tear_down),
        cmocka_unit_test_teardown(with_one_thread_scenes_take_turns, tear_down),
        cmocka_unit_test_teardown(the_scene_with_the_fewest_threads_comes_first, tear_down),
        cmocka_unit_test_teardown(a_scene_may_have_a_limit_of_its_own, tear_down),
        cmocka_unit_test_teardown(destinations_of_a_scene_share_its_threads, tear_down),
        cmocka_unit_test_teardown(a_waiting_task_can_be_taken_back, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
