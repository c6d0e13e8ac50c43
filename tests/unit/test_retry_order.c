/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MANY 1000

static enum order_decision decide_one(int64_t id, struct order_ahead ahead)
{
    struct order_candidate candidate = {.id = id, .key = 0};

    order_decide(&candidate, 1, &ahead, MANY);
    return candidate.decision;
}

static struct order_task row(int64_t id, enum task_state state, bool held)
{
    return (struct order_task){id, state, held};
}

static void a_task_without_a_key_runs(void **state)
{
    struct order_candidate candidates[] = {{.id = 9, .key = ORDER_NO_KEY},
                                           {.id = 3, .key = ORDER_NO_KEY}};

    (void)state;
    order_decide(candidates, 2, NULL, MANY);
    assert_int_equal(candidates[0].decision, ORDER_RUN);
    assert_int_equal(candidates[1].decision, ORDER_RUN);
}

static void the_first_of_its_key_runs(void **state)
{
    (void)state;
    assert_int_equal(decide_one(5, (struct order_ahead){.waiting = row(5, TASK_WAITING, true)}),
                     ORDER_RUN);
    /* One that came later is not ahead. */
    assert_int_equal(decide_one(5, (struct order_ahead){.waiting = row(5, TASK_WAITING, true),
                                                        .queued = row(7, TASK_QUEUED, true)}),
                     ORDER_RUN);
}

static void a_task_behind_a_locked_task_is_queued(void **state)
{
    static const enum task_state busy[] = {TASK_RUNNING, TASK_BLOCKED, TASK_PARKED};

    (void)state;
    for (size_t i = 0; i < sizeof(busy) / sizeof(busy[0]); i++) {
        /* With any ids. */
        assert_int_equal(decide_one(5, (struct order_ahead){.busy = row(2, busy[i], true),
                                                            .waiting = row(5, TASK_WAITING, true)}),
                         ORDER_QUEUE);
        assert_int_equal(decide_one(5, (struct order_ahead){.busy = row(8, busy[i], true),
                                                            .waiting = row(5, TASK_WAITING, true)}),
                         ORDER_QUEUE);
    }
    assert_int_equal(decide_one(5, (struct order_ahead){.waiting = row(2, TASK_WAITING, true)}),
                     ORDER_QUEUE);
    assert_int_equal(decide_one(5, (struct order_ahead){.waiting = row(5, TASK_WAITING, true),
                                                        .queued = row(2, TASK_QUEUED, true)}),
                     ORDER_QUEUE);
}

static void a_task_behind_an_unlocked_task_is_left(void **state)
{
    (void)state;
    assert_int_equal(decide_one(5, (struct order_ahead){.busy = row(2, TASK_RUNNING, false),
                                                        .waiting = row(5, TASK_WAITING, true)}),
                     ORDER_LEAVE);
    assert_int_equal(decide_one(5, (struct order_ahead){.waiting = row(2, TASK_WAITING, false)}),
                     ORDER_LEAVE);
    /* One that is held is enough where none is busy. */
    assert_int_equal(decide_one(5, (struct order_ahead){.waiting = row(2, TASK_WAITING, false),
                                                        .queued = row(3, TASK_QUEUED, true)}),
                     ORDER_QUEUE);
}

static void one_is_not_queued_while_another_transaction_may_end_the_busy_one(void **state)
{
    (void)state;
    /* That transaction has looked for queued tasks already, and no other one will. */
    assert_int_equal(decide_one(5, (struct order_ahead){.busy = row(2, TASK_RUNNING, false),
                                                        .waiting = row(3, TASK_WAITING, true)}),
                     ORDER_LEAVE);
    assert_int_equal(decide_one(5, (struct order_ahead){.busy = row(2, TASK_RUNNING, false),
                                                        .waiting = row(5, TASK_WAITING, true),
                                                        .queued = row(3, TASK_QUEUED, true)}),
                     ORDER_LEAVE);
}

static void one_that_was_not_found_where_it_should_be_is_left(void **state)
{
    (void)state;
    assert_int_equal(decide_one(5, (struct order_ahead){0}), ORDER_LEAVE);
    assert_int_equal(decide_one(5, (struct order_ahead){.waiting = row(6, TASK_WAITING, true)}),
                     ORDER_LEAVE);
}

static void only_the_first_of_several_of_one_key_runs(void **state)
{
    struct order_candidate candidates[] = {
        {.id = 7, .key = 0}, {.id = 5, .key = 0}, {.id = 6, .key = 1}, {.id = 9, .key = 0}};
    struct order_ahead ahead[] = {{.waiting = row(5, TASK_WAITING, true)},
                                  {.waiting = row(6, TASK_WAITING, true)}};

    (void)state;
    order_decide(candidates, 4, ahead, MANY);
    assert_int_equal(candidates[0].decision, ORDER_QUEUE);
    assert_int_equal(candidates[1].decision, ORDER_RUN);
    assert_int_equal(candidates[2].decision, ORDER_RUN);
    assert_int_equal(candidates[3].decision, ORDER_QUEUE);
}

static void no_more_run_than_are_wanted(void **state)
{
    struct order_candidate candidates[] = {{.id = 1, .key = ORDER_NO_KEY},
                                           {.id = 2, .key = 0},
                                           {.id = 3, .key = 0},
                                           {.id = 4, .key = ORDER_NO_KEY}};
    struct order_ahead ahead = {.waiting = row(2, TASK_WAITING, true)};

    (void)state;
    order_decide(candidates, 4, &ahead, 1);
    assert_int_equal(candidates[0].decision, ORDER_RUN);
    assert_int_equal(candidates[1].decision, ORDER_LEAVE);
    assert_int_equal(candidates[2].decision, ORDER_QUEUE);
    assert_int_equal(candidates[3].decision, ORDER_LEAVE);
}

static void the_smallest_id_is_the_head_of_its_key(void **state)
{
    struct order_ahead ahead = {.waiting = row(5, TASK_WAITING, false),
                                .queued = row(4, TASK_QUEUED, false)};

    (void)state;
    assert_int_equal(order_head(&ahead).id, 4);
    ahead.queued.id = 6;
    assert_int_equal(order_head(&ahead).id, 5);
    ahead.queued.id = 0;
    assert_int_equal(order_head(&ahead).id, 5);
    ahead.waiting.id = 0;
    assert_int_equal(order_head(&ahead).id, 0);
    ahead.queued.id = 9;
    assert_int_equal(order_head(&ahead).id, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_without_a_key_runs),
        cmocka_unit_test(the_first_of_its_key_runs),
        cmocka_unit_test(a_task_behind_a_locked_task_is_queued),
        cmocka_unit_test(a_task_behind_an_unlocked_task_is_left),
        cmocka_unit_test(one_is_not_queued_while_another_transaction_may_end_the_busy_one),
        cmocka_unit_test(one_that_was_not_found_where_it_should_be_is_left),
        cmocka_unit_test(only_the_first_of_several_of_one_key_runs),
        cmocka_unit_test(no_more_run_than_are_wanted),
        cmocka_unit_test(the_smallest_id_is_the_head_of_its_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
