/* SPDX-License-Identifier: MIT */
#include "outbox/relay/shared/event_queue.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define SIZE 1024

static struct event_queue queue;
static uint8_t body[2 * SIZE];

static bool put(uint32_t number, size_t len)
{
    const struct queued_event queued = {
        {.time_s = number, .body = body + number % 256, .body_len = len}, number, number + 1};

    return event_queue_put(&queue, &queued);
}

static void expect(uint32_t number, size_t len)
{
    struct queued_event queued = {0};

    assert_true(event_queue_take(&queue, &queued));
    assert_int_equal(queued.event.time_s, number);
    assert_int_equal(queued.begin, number);
    assert_int_equal(queued.end, number + 1);
    assert_int_equal(queued.event.body_len, len);
    if (len > 0)
        assert_memory_equal(queued.event.body, body + number % 256, len);
}

static void expect_none(void)
{
    struct queued_event queued = {0};

    assert_false(event_queue_has(&queue));
    assert_false(event_queue_take(&queue, &queued));
}

static int set_up(void **state)
{
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (uint8_t)(i * 31);
    return event_queue_init(&queue, SIZE - 3, &err) == RC_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    event_queue_done(&queue);
    return 0;
}

static void only_published_events_are_taken(void **state)
{
    uint64_t mark;

    (void)state;
    assert_true(put(1, 0) && put(2, 10));
    expect_none();
    event_queue_publish(&queue);
    assert_true(event_queue_has(&queue));
    mark = event_queue_mark(&queue);
    assert_true(put(3, 20));
    event_queue_cut(&queue, mark);
    assert_true(put(4, 30));
    expect(1, 0);
    expect(2, 10);
    expect_none();
    event_queue_publish(&queue);
    expect(4, 30);
    expect_none();
}

static void a_full_queue_refuses_and_keeps_what_it_has(void **state)
{
    uint32_t count = 0;

    (void)state;
    assert_false(put(0, sizeof(body)));
    while (put(count, 50))
        count++;
    assert_true(count >= 5 && count < SIZE / 50);
    event_queue_publish(&queue);
    /* What is taken is borrowed until the next call. */
    expect(0, 50);
    assert_false(put(count, 50));
    expect(1, 50);
    expect(2, 50);
    assert_true(put(count, 50));
    event_queue_publish(&queue);
    for (uint32_t i = 3; i <= count; i++)
        expect(i, 50);
    expect_none();
    event_queue_reset(&queue);
    expect_none();
    assert_true(put(7, 500));
    event_queue_publish(&queue);
    expect(7, 500);
}

static void events_of_all_sizes_pass_the_end_of_the_buffer(void **state)
{
    uint64_t seed = 1;
    uint32_t next = 0;
    uint32_t taken = 0;
    size_t lens[16];

    (void)state;
    for (size_t turn = 0; turn < 20000; turn++) {
        size_t len = (size_t)(rng_next(&seed) % 300);

        if (next - taken < 16 && rng_next(&seed) % 2 && put(next, len)) {
            lens[next++ % 16] = len;
            event_queue_publish(&queue);
        } else if (taken < next) {
            expect(taken, lens[taken % 16]);
            taken++;
        } else {
            expect_none();
        }
    }
    assert_true(taken > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_published_events_are_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_queue_refuses_and_keeps_what_it_has, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(events_of_all_sizes_pass_the_end_of_the_buffer, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
