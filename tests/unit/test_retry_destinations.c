/* SPDX-License-Identifier: MIT */
#include "outbox/retry/destinations.h"

#include "common/log.h"
#include "outbox/retry/retry_metrics.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct destinations all;
static const struct err refused = {.text = "connection refused"};

static int tear_down(void **state)
{
    (void)state;
    destinations_done(&all);
    assert_int_equal(metric_value(&retry_breakers_open), 0);
    return 0;
}

static struct destination *use(const char *name)
{
    return destinations_use(&all, name, strlen(name));
}

static void fail_often(struct destination *destination, int64_t now_ms)
{
    for (size_t i = 0; i < DESTINATION_FAILURES; i++)
        destinations_failed(&all, destination, &refused, now_ms, 99);
}

static bool passes(struct destination *destination, int64_t now_ms)
{
    bool probe;

    return destination_passes(destination, now_ms, &probe);
}

static void ten_failures_in_a_row_open_the_breaker(void **state)
{
    struct destination *dead = use("http://dead:80");
    struct destination *living = use("http://living:80");
    bool probe = true;

    (void)state;
    for (size_t i = 1; i < DESTINATION_FAILURES; i++)
        destinations_failed(&all, dead, &refused, 0, 0);
    destinations_worked(&all, dead, 0);
    for (size_t i = 1; i < DESTINATION_FAILURES; i++)
        destinations_failed(&all, dead, &refused, 0, 0);
    assert_true(destination_passes(dead, 0, &probe));
    assert_false(probe);
    destinations_failed(&all, dead, &refused, 1000, 99);
    assert_false(passes(dead, 1000));
    assert_true(atomic_load(&dead->open));
    assert_true(passes(living, 1000));
    assert_int_equal(metric_value(&retry_breakers_open), 1);
    assert_ptr_equal(destinations_find_open(&all), dead);
    assert_int_equal(dead->opened_ms, 1000);
}

static void half_open_one_probe_decides(void **state)
{
    struct destination *dead = use("http://dead:80");
    bool probe;

    (void)state;
    fail_often(dead, 0);
    assert_true(destination_passes(dead, 100, &probe));
    assert_true(probe);
    assert_false(passes(dead, 100));
    destination_learned_nothing(dead);
    assert_true(destination_passes(dead, 101, &probe));
    destinations_failed(&all, dead, &refused, 200, 499);
    assert_false(passes(dead, 600));
    assert_true(destination_passes(dead, 700, &probe));
    destinations_worked(&all, dead, 800);
    assert_true(passes(dead, 800));
    assert_false(atomic_load(&dead->open));
    assert_int_equal(metric_value(&retry_breakers_open), 0);
    assert_null(destinations_find_open(&all));
}

static void tasks_that_are_put_off_come_back_one_by_one(void **state)
{
    struct destination *dead = use("http://dead:80");

    (void)state;
    fail_often(dead, 0);
    assert_int_equal(destination_put_off_ms(dead, 0), 100);
    assert_int_equal(destination_put_off_ms(dead, 0), 100 + DESTINATION_RETURN_MS);
    assert_int_equal(destination_put_off_ms(dead, 60), 40 + 2 * DESTINATION_RETURN_MS);
    for (size_t i = 0; i < 100000; i++)
        assert_true(destination_put_off_ms(dead, 60) <= DESTINATION_PUT_OFF_MS_MAX);
    /* The end of a running probe is unknown. */
    assert_true(passes(dead, 400000));
    assert_int_equal(destination_put_off_ms(dead, 400000), 1000);
}

static void a_long_name_ends_with_a_hash_and_control_bytes_are_masked(void **state)
{
    char text[2 * DESTINATION_NAME_SIZE];
    struct destination *one;
    struct destination *other;

    (void)state;
    memset(text, 'a', sizeof(text));
    one = destinations_use(&all, text, sizeof(text));
    text[sizeof(text) - 1] = 'b';
    other = destinations_use(&all, text, sizeof(text));
    assert_ptr_not_equal(one, other);
    assert_int_equal(strlen(one->name), DESTINATION_NAME_SIZE - 1);
    assert_ptr_equal(destinations_use(&all, text, sizeof(text)), other);
    assert_string_equal(use("exec:/a b\" c\n")->name, "exec:/a?b??c?");
}

static void those_not_used_for_the_longest_time_are_forgotten(void **state)
{
    struct destination *used = use("used");
    struct destination *old = use("old");
    char name[32];

    (void)state;
    fail_often(used, 0);
    fail_often(old, 0);
    destinations_leave(&all, old);
    for (int i = 0; i < DESTINATIONS_IDLE_MAX - 1; i++) {
        snprintf(name, sizeof(name), "host-%d", i);
        destinations_leave(&all, use(name));
    }
    assert_false(passes(use("old"), 0));
    destinations_leave(&all, use("old"));
    destinations_leave(&all, old);
    for (int i = 0; i < 2 * DESTINATIONS_IDLE_MAX; i++) {
        snprintf(name, sizeof(name), "more-%d", i);
        destinations_leave(&all, use(name));
        assert_true(all.idle_count <= DESTINATIONS_IDLE_MAX);
    }
    assert_true(passes(use("old"), 0));
    assert_false(passes(used, 0));
    assert_int_equal(metric_value(&retry_breakers_open), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ten_failures_in_a_row_open_the_breaker, tear_down),
        cmocka_unit_test_teardown(half_open_one_probe_decides, tear_down),
        cmocka_unit_test_teardown(tasks_that_are_put_off_come_back_one_by_one, tear_down),
        cmocka_unit_test_teardown(a_long_name_ends_with_a_hash_and_control_bytes_are_masked,
                                  tear_down),
        cmocka_unit_test_teardown(those_not_used_for_the_longest_time_are_forgotten, tear_down),
    };

    log_init(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
