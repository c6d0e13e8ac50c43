/* SPDX-License-Identifier: MIT */
#include "outbox/client/report_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct report_limits limits = {.tasks_max = 8,
                                            .bytes_max = 100,
                                            .batch_max = 4,
                                            .flush_ms = 1000,
                                            .retry_ms = 200,
                                            .retry_ms_max = 1000};

static struct report_task *make_task(const char *json)
{
    size_t len = strlen(json);
    struct report_task *task = calloc(1, sizeof(*task) + len + 1);

    assert_non_null(task);
    memcpy(task->json, json, len + 1);
    task->key = task->json;
    task->len = len;
    return task;
}

static void take(struct report_window *window, const char *names, int64_t now_ms)
{
    for (; *names; names++) {
        char json[2] = {*names, '\0'};

        report_window_take(window, make_task(json), now_ms);
    }
}

static void assert_waiting(const struct report_window *window, const char *names)
{
    const struct report_task *task = window->first;
    const struct report_task *last = NULL;

    assert_int_equal(window->count, strlen(names));
    for (; *names; names++, task = task->next) {
        assert_non_null(task);
        assert_int_equal(task->json[0], *names);
        last = task;
    }
    assert_null(task);
    assert_ptr_equal(window->last, last);
    assert_int_equal(window->bytes, window->count);
    assert_int_equal(window->queued,
                     window->reported + window->refused + window->lost + window->count);
}

/* Applies a reply to a batch; returns the names of the refused tasks. */
static const char *apply(struct report_window *window, enum report_end end, const char *states,
                         int64_t wait_ms, int64_t now_ms)
{
    static char refused[16];
    enum report_state list[16] = {REPORT_TAKEN};
    struct report_reply reply = {.end = end, .wait_ms = wait_ms};
    size_t at[16];
    size_t count = report_window_batch(window);
    size_t len = 0;

    for (size_t i = 0; i < strlen(states); i++)
        list[i] = states[i] == 'k' ? REPORT_KEPT : states[i] == 'b' ? REPORT_BAD : REPORT_TAKEN;
    for (struct report_task *task =
             report_window_apply(window, count, &reply, list, now_ms, 100, at);
         task;) {
        struct report_task *next = task->next;

        refused[len++] = task->json[0];
        free(task);
        task = next;
    }
    refused[len] = '\0';
    return refused;
}

static void test_a_full_batch_is_due_at_once(void **state)
{
    struct report_window window;

    (void)state;
    report_window_init(&window, &limits);
    assert_int_equal(report_window_due(&window, 5000, false), REPORT_IDLE);
    take(&window, "abc", 5000);
    assert_int_equal(report_window_due(&window, 5000, false), 1000);
    take(&window, "d", 5100);
    assert_int_equal(report_window_due(&window, 5100, false), 0);
    assert_int_equal(report_window_batch(&window), 4);
    report_window_lose(&window);
}

static void test_a_few_tasks_are_due_when_the_first_has_waited(void **state)
{
    struct report_window window;

    (void)state;
    report_window_init(&window, &limits);
    take(&window, "a", 5000);
    take(&window, "b", 5900);
    assert_int_equal(report_window_due(&window, 5999, false), 1);
    assert_int_equal(report_window_due(&window, 6000, false), 0);
    assert_int_equal(report_window_batch(&window), 2);
    assert_string_equal(apply(&window, REPORT_ANSWERED, "tt", 0, 6000), "");
    assert_waiting(&window, "");
    assert_int_equal(window.reported, 2);
}

static void test_closing_waits_for_no_more_tasks(void **state)
{
    struct report_window window;

    (void)state;
    report_window_init(&window, &limits);
    take(&window, "a", 5000);
    assert_int_equal(report_window_due(&window, 5000, true), 0);
    apply(&window, REPORT_UNAVAILABLE, "", 60000, 5000);
    assert_int_equal(report_window_due(&window, 5000, false), 60000);
    assert_int_equal(report_window_due(&window, 5000, true), 200);
    report_window_lose(&window);
}

static void test_the_window_is_bounded_by_tasks_and_bytes(void **state)
{
    struct report_window window;
    char big[102];

    (void)state;
    memset(big, 'x', 101);
    big[101] = '\0';
    report_window_init(&window, &limits);
    assert_true(report_window_fits(&window, 101)); /* alone */
    report_window_take(&window, make_task(big), 0);
    assert_false(report_window_fits(&window, 1));
    report_window_lose(&window);
    assert_int_equal(window.lost, 1);
    take(&window, "a", 0);
    assert_true(report_window_fits(&window, 99));
    assert_false(report_window_fits(&window, 100));
    assert_false(report_window_fits(&window, SIZE_MAX));
    take(&window, "bcdefgh", 0);
    assert_false(report_window_fits(&window, 1));
    report_window_lose(&window);
    assert_waiting(&window, "");
}

static void test_an_unavailable_server_keeps_the_tasks_and_waits_longer_each_time(void **state)
{
    static const int64_t waits[] = {200, 400, 800, 1000, 1000};
    struct report_window window;
    int64_t now_ms = 0;

    (void)state;
    report_window_init(&window, &limits);
    take(&window, "abcd", 0);
    for (size_t i = 0; i < COUNT(waits); i++) {
        apply(&window, REPORT_UNAVAILABLE, "", 0, now_ms);
        /* random is 100: half of the wait, and 100 more */
        assert_int_equal(report_window_due(&window, now_ms, false), waits[i] / 2 + 100);
        now_ms += waits[i];
        assert_int_equal(window.failed, i + 1);
        assert_waiting(&window, "abcd");
    }
    apply(&window, REPORT_ANSWERED, "tttt", 0, now_ms);
    take(&window, "efgh", now_ms);
    assert_int_equal(report_window_due(&window, now_ms, false), 0);
    apply(&window, REPORT_UNAVAILABLE, "", 0, now_ms);
    assert_int_equal(report_window_due(&window, now_ms, false), 200);
    report_window_lose(&window);
}

static void test_a_refused_request_is_halved_until_the_bad_task_is_alone(void **state)
{
    struct report_window window;

    (void)state;
    report_window_init(&window, &limits);
    take(&window, "abcdef", 0);
    apply(&window, REPORT_REFUSED, "", 0, 0);
    assert_int_equal(report_window_batch(&window), 2);
    apply(&window, REPORT_REFUSED, "", 0, 0);
    assert_int_equal(report_window_batch(&window), 1);
    assert_int_equal(report_window_due(&window, 0, false), 0);
    assert_string_equal(apply(&window, REPORT_REFUSED, "", 0, 0), "a");
    assert_waiting(&window, "bcdef");
    apply(&window, REPORT_ANSWERED, "t", 0, 0);
    assert_int_equal(report_window_batch(&window), 2);
    apply(&window, REPORT_ANSWERED, "tt", 0, 0);
    assert_waiting(&window, "ef");
    assert_int_equal(window.batch, 4);
    assert_int_equal(window.refused, 1);
    assert_int_equal(window.failed, 0);
    report_window_lose(&window);
}

static void test_each_task_of_an_answer_has_its_own_end_and_kept_ones_keep_their_order(void **state)
{
    struct report_window window;

    (void)state;
    report_window_init(&window, &limits);
    take(&window, "abcdef", 0);
    assert_string_equal(apply(&window, REPORT_ANSWERED, "ktbk", 700, 50), "c");
    assert_waiting(&window, "adef");
    assert_int_equal(report_window_due(&window, 50, false), 700);
    assert_int_equal(window.failed, 1);
    assert_string_equal(apply(&window, REPORT_ANSWERED, "bttb", 0, 1000), "af");
    assert_waiting(&window, "");
    assert_int_equal(window.reported, 3);
    assert_int_equal(window.refused, 3);
    take(&window, "g", 2000);
    assert_waiting(&window, "g");
    report_window_lose(&window);
    report_window_lose(&window);
    assert_int_equal(window.lost, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_batch_is_due_at_once),
        cmocka_unit_test(test_a_few_tasks_are_due_when_the_first_has_waited),
        cmocka_unit_test(test_closing_waits_for_no_more_tasks),
        cmocka_unit_test(test_the_window_is_bounded_by_tasks_and_bytes),
        cmocka_unit_test(test_an_unavailable_server_keeps_the_tasks_and_waits_longer_each_time),
        cmocka_unit_test(test_a_refused_request_is_halved_until_the_bad_task_is_alone),
        cmocka_unit_test(
            test_each_task_of_an_answer_has_its_own_end_and_kept_ones_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
