/* SPDX-License-Identifier: MIT */
#include "common/ring.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int items[4096];

static void items_are_taken_in_the_order_they_were_given(void **state)
{
    struct ring ring;
    struct err err;

    (void)state;
    assert_int_equal(ring_init(&ring, 4, &err), RC_OK);
    assert_null(ring_take(&ring));
    assert_null(ring_peek(&ring));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 3; i++)
            assert_true(ring_give(&ring, &items[i]));
        assert_ptr_equal(ring_peek(&ring), &items[0]);
        assert_ptr_equal(ring_peek(&ring), &items[0]);
        assert_int_equal(ring_count(&ring), 3);
        for (int i = 0; i < 3; i++)
            assert_ptr_equal(ring_take(&ring), &items[i]);
    }
    assert_null(ring_take(&ring));
    assert_int_equal(ring_count(&ring), 0);
    ring_done(&ring);
}

static void a_full_ring_refuses(void **state)
{
    struct ring ring;
    struct err err;

    (void)state;
    assert_int_equal(ring_init(&ring, 3, &err), RC_OK);
    for (int i = 0; i < 4; i++)
        assert_true(ring_give(&ring, &items[i]));
    assert_false(ring_give(&ring, &items[4]));
    assert_int_equal(ring_count(&ring), 4);
    assert_ptr_equal(ring_take(&ring), &items[0]);
    assert_true(ring_give(&ring, &items[4]));
    assert_ptr_equal(ring_take(&ring), &items[1]);
    ring_done(&ring);
}

static void a_ring_has_at_least_one_slot(void **state)
{
    struct ring ring;
    struct err err;

    (void)state;
    assert_int_equal(ring_init(&ring, 0, &err), RC_OK);
    assert_true(ring_give(&ring, &items[0]));
    assert_false(ring_give(&ring, &items[1]));
    ring_done(&ring);
}

static void a_ring_too_large_is_fatal_and_safe_to_release(void **state)
{
    struct ring ring;
    struct err err = {0};

    (void)state;
    assert_int_equal(ring_init(&ring, SIZE_MAX, &err), RC_FATAL);
    assert_non_null(strstr(err.text, "is too large"));
    ring_done(&ring);
    assert_int_equal(ring_init(&ring, RING_SLOTS_MAX + 1, &err), RC_FATAL);
    ring_done(&ring);
}

/* malloc() promises less than a cache line, and rings live inside allocated structs. */
static void a_ring_may_lie_anywhere_malloc_puts_it(void **state)
{
    struct err err;

    (void)state;
    assert_true(_Alignof(struct ring) <= _Alignof(max_align_t));
    for (size_t size = 1; size < 4; size++) {
        struct holder {
            char before[16];
            struct ring ring;
        } *holder = calloc(size, sizeof(*holder));

        assert_non_null(holder);
        assert_int_equal(ring_init(&holder->ring, 2, &err), RC_OK);
        assert_true(ring_give(&holder->ring, holder));
        assert_ptr_equal(ring_take(&holder->ring), holder);
        ring_done(&holder->ring);
        free(holder);
    }
}

#define GIVEN 20000

static void *give_all(void *arg)
{
    struct ring *ring = arg;

    for (int i = 0; i < GIVEN; i++)
        while (!ring_give(ring, &items[i % 4096]))
            sched_yield();
    return NULL;
}

static void *count_often(void *arg)
{
    struct ring *ring = arg;
    size_t most = 0;

    for (int i = 0; i < GIVEN; i++) {
        size_t count = ring_count(ring);

        if (count > most)
            most = count;
    }
    return (void *)(uintptr_t)most;
}

static void one_gives_while_another_takes_and_a_third_counts(void **state)
{
    struct ring ring;
    struct err err;
    pthread_t giver;
    pthread_t counter;
    void *most;

    (void)state;
    assert_int_equal(ring_init(&ring, 64, &err), RC_OK);
    assert_int_equal(pthread_create(&giver, NULL, give_all, &ring), 0);
    assert_int_equal(pthread_create(&counter, NULL, count_often, &ring), 0);
    for (int i = 0; i < GIVEN;) {
        void *item = ring_take(&ring);

        if (!item) {
            sched_yield();
            continue;
        }
        assert_ptr_equal(item, &items[i % 4096]);
        i++;
    }
    pthread_join(giver, NULL);
    pthread_join(counter, &most);
    assert_true((uintptr_t)most <= 64);
    ring_done(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_taken_in_the_order_they_were_given),
        cmocka_unit_test(a_full_ring_refuses),
        cmocka_unit_test(a_ring_has_at_least_one_slot),
        cmocka_unit_test(a_ring_too_large_is_fatal_and_safe_to_release),
        cmocka_unit_test(a_ring_may_lie_anywhere_malloc_puts_it),
        cmocka_unit_test(one_gives_while_another_takes_and_a_third_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
