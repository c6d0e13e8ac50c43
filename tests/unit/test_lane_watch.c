/* SPDX-License-Identifier: MIT */
#include "producer/lane_watch.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define GRACE_MS 5000

static struct lane_watch watch;
static struct lanes there;
static bool serves[LANES_MAX];
static bool away;
static struct err number_err;
static struct err unserved_err;
static const char *number;
static const char *unserved;

static enum rc look(void *ctx, struct lanes *lanes, bool served[LANES_MAX], struct err *err)
{
    (void)ctx;
    if (away)
        return err_fail(err, RC_RETRY, 0, "away");
    *lanes = there;
    memcpy(served, serves, sizeof(serves));
    return RC_OK;
}

static int set_up(void **state)
{
    const struct lane_watch_ops ops = {NULL, look};

    (void)state;
    lane_watch_init(&watch, &ops, 2, GRACE_MS);
    there = (struct lanes){.count = 2};
    memset(serves, 0, sizeof(serves));
    serves[0] = serves[1] = true;
    away = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lane_watch_done(&watch);
    return 0;
}

static void at(int64_t now_ms)
{
    assert_true(lane_watch_step(&watch, now_ms) > 0);
    number = condition_read(&watch.number, &number_err) ? number_err.text : "";
    unserved = condition_read(&watch.unserved, &unserved_err) ? unserved_err.text : "";
}

static void lanes_that_are_served_are_fine(void **state)
{
    (void)state;
    at(1000);
    at(100000);
    assert_string_equal(number, "");
    assert_string_equal(unserved, "");
}

static void a_lane_without_a_relay_is_named_after_the_grace(void **state)
{
    (void)state;
    serves[1] = false;
    at(1000);
    at(1000 + GRACE_MS - 1);
    assert_string_equal(unserved, "");
    at(1000 + GRACE_MS);
    assert_non_null(strstr(unserved, "outbox_1:"));
    assert_null(strstr(unserved, "outbox,"));
    serves[1] = true;
    at(1000 + GRACE_MS + 1);
    assert_string_equal(unserved, "");
}

static void lanes_that_change_hands_one_after_the_other_are_no_alarm(void **state)
{
    (void)state;
    for (int64_t now_ms = 1000; now_ms < 60000; now_ms += 1000) {
        serves[0] = now_ms / 1000 % 4 != 0;
        serves[1] = now_ms / 1000 % 4 != 2;
        at(now_ms);
        assert_string_equal(unserved, "");
    }
}

static void all_unserved_lanes_are_named(void **state)
{
    (void)state;
    serves[0] = serves[1] = false;
    at(1);
    at(GRACE_MS + 1);
    assert_non_null(strstr(unserved, "outbox, outbox_1"));
}

static void a_lane_that_this_process_does_not_write_is_no_matter(void **state)
{
    (void)state;
    serves[2] = false;
    at(1);
    at((int64_t)GRACE_MS * 10);
    assert_string_equal(unserved, "");
}

static void a_change_and_another_number_of_lanes_are_reported(void **state)
{
    (void)state;
    there.next = 3;
    at(1);
    assert_non_null(strstr(number, "tallybox lanes set 3"));
    assert_non_null(strstr(number, "tallybox lanes set 2"));
    there = (struct lanes){.count = 3};
    at(2);
    assert_non_null(strstr(number, "api.lane_count = 2"));
    there = (struct lanes){.count = 2};
    at(3);
    assert_string_equal(number, "");
}

static void an_unavailable_database_changes_nothing(void **state)
{
    (void)state;
    serves[1] = false;
    at(1);
    at(GRACE_MS + 1);
    away = true;
    at(GRACE_MS + 1000);
    assert_string_not_equal(unserved, "");
}

static void a_process_starts_only_with_the_stored_number_of_lanes(void **state)
{
    const struct lanes settled = {.count = 2};
    const struct lanes changing = {.count = 2, .next = 4};
    struct err err = {0};

    (void)state;
    assert_int_equal(lanes_check_start(&settled, 2, &err), RC_OK);
    assert_int_equal(lanes_check_start(&settled, 1, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "tallybox lanes set 1"));
    /* It waits until the number is stored. */
    assert_int_equal(lanes_check_start(&changing, 2, &err), RC_OK);
    assert_int_equal(lanes_check_start(&changing, 4, &err), RC_OK);
    assert_int_equal(lanes_check_start(&changing, 3, &err), RC_REJECT);
    assert_int_equal(lanes_check(&changing, 2, &err), RC_RETRY);
    assert_int_equal(lanes_check(&changing, 4, &err), RC_RETRY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lanes_that_are_served_are_fine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lane_without_a_relay_is_named_after_the_grace, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(lanes_that_change_hands_one_after_the_other_are_no_alarm,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_unserved_lanes_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lane_that_this_process_does_not_write_is_no_matter,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_change_and_another_number_of_lanes_are_reported, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_unavailable_database_changes_nothing, set_up, tear_down),
        cmocka_unit_test(a_process_starts_only_with_the_stored_number_of_lanes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
