/* SPDX-License-Identifier: MIT */
#include "outbox/relay/writers_mysql.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#define SERVER 7

static struct writers_mysql writers;

static int set_up(void **state)
{
    (void)state;
    writers_mysql_init(&writers);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    writers_mysql_done(&writers);
    return 0;
}

static bool takes(int64_t now_ms, struct source_writers *answer)
{
    uint64_t number = 0;

    return writers_mysql_take(&writers, SERVER, now_ms, answer, &number);
}

static void heard(int64_t asked_ms, uint64_t newest)
{
    const struct source_writers answer = {
        .oldest = newest, .newest = newest, .known = true, .asked_ms = asked_ms};

    writers_mysql_give(&writers, SERVER, asked_ms, &answer);
}

static void one_lane_queries_and_all_use_its_answer(void **state)
{
    struct source_writers answer;

    (void)state;
    assert_true(takes(1000, &answer));
    assert_false(answer.known);
    /* No lane queries meanwhile, however long it takes. */
    assert_false(takes(1000, &answer));
    assert_false(takes(90000, &answer));
    heard(1000, 5);
    assert_false(takes(1001, &answer));
    assert_true(answer.known);
    assert_int_equal(answer.newest, 5);
    assert_int_equal(answer.asked_ms, 1000);
}

static void the_next_question_waits_its_time(void **state)
{
    struct source_writers answer;

    (void)state;
    assert_true(takes(1000, &answer));
    heard(1000, 5);
    assert_false(takes(1000 + WRITERS_EVERY_MS - 1, &answer));
    assert_true(takes(1000 + WRITERS_EVERY_MS, &answer));
}

static void an_answer_that_does_not_count_leaves_the_one_before(void **state)
{
    const struct source_writers none = {.asked_ms = 2000};
    struct source_writers answer;

    (void)state;
    assert_true(takes(1000, &answer));
    heard(1000, 5);
    assert_true(takes(2000, &answer));
    writers_mysql_give(&writers, SERVER, 2000, &none);
    assert_false(takes(2000 + WRITERS_AGAIN_MS - 1, &answer));
    assert_int_equal(answer.asked_ms, 1000);
    assert_true(takes(2000 + WRITERS_AGAIN_MS, &answer));
    writers_mysql_give(&writers, SERVER, 3000, NULL);
    assert_true(takes(3000 + WRITERS_AGAIN_MS, &answer));
}

static void too_many_answers_that_do_not_count_are_no_knowledge(void **state)
{
    const struct source_writers none = {0};
    struct source_writers answer;
    int64_t now_ms = 1000;

    (void)state;
    assert_true(takes(now_ms, &answer));
    heard(now_ms, 5);
    now_ms += WRITERS_EVERY_MS;
    for (int i = 0; i < WRITERS_UNSEEN_MAX; i++) {
        assert_true(takes(now_ms, &answer));
        assert_true(answer.known);
        writers_mysql_give(&writers, SERVER, now_ms, &none);
        now_ms += WRITERS_AGAIN_MS;
    }
    assert_false(takes(now_ms, &answer));
    assert_false(answer.known);
    assert_true(takes(now_ms + WRITERS_REST_MS, &answer));
}

static void an_answer_of_another_server_is_none(void **state)
{
    struct source_writers answer;
    uint64_t number = 0;

    (void)state;
    assert_true(takes(1000, &answer));
    heard(1000, 5);
    assert_false(writers_mysql_take(&writers, SERVER + 1, 1001, &answer, &number));
    assert_false(answer.known);
}

static void each_question_has_a_number_of_its_own(void **state)
{
    struct source_writers answer;
    uint64_t first = 0;
    uint64_t second = 0;

    (void)state;
    assert_true(writers_mysql_take(&writers, SERVER, 1000, &answer, &first));
    heard(1000, 5);
    assert_true(writers_mysql_take(&writers, SERVER, 9000, &answer, &second));
    assert_int_not_equal(first, second);
}

#define QUESTIONS 200

static atomic_llong clock_ms;
static atomic_int askers;
static atomic_int asked;

/* Time passes during a query, however long it takes on a busy machine: the test waits for the
 * queries, not for a time. */
static void *lane(void *arg)
{
    (void)arg;
    while (atomic_load(&asked) < QUESTIONS) {
        int64_t now_ms = atomic_fetch_add(&clock_ms, 10);
        struct source_writers answer;

        if (!takes(now_ms, &answer))
            continue;
        assert_int_equal(atomic_fetch_add(&askers, 1), 0);
        atomic_fetch_add(&asked, 1);
        atomic_fetch_sub(&askers, 1);
        heard(now_ms, 5);
    }
    return NULL;
}

static void threads_never_query_at_the_same_time(void **state)
{
    pthread_t threads[8];

    (void)state;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lane, NULL), 0);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&clock_ms) >= (int64_t)(QUESTIONS - 1) * WRITERS_EVERY_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_lane_queries_and_all_use_its_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_next_question_waits_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_that_does_not_count_leaves_the_one_before, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(too_many_answers_that_do_not_count_are_no_knowledge, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_answer_of_another_server_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_question_has_a_number_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_never_query_at_the_same_time, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
