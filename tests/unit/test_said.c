/* SPDX-License-Identifier: MIT */
#include "common/said.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void the_same_key_is_logged_again_only_after_the_interval(void **state)
{
    struct said said = {0};

    (void)state;
    assert_true(said_now(&said, "refused", 1000, 60000));
    assert_false(said_now(&said, "refused", 1000, 60000));
    assert_false(said_now(&said, "refused", 60999, 60000));
    assert_true(said_now(&said, "refused", 61000, 60000));
    assert_false(said_now(&said, "refused", 62000, 60000));
}

static void other_numbers_are_no_other_text(void **state)
{
    struct said said = {0};

    (void)state;
    assert_true(said_now(&said, "broker 1: refused after 0ms", 1000, 60000));
    assert_false(said_now(&said, "broker 2: refused after 17ms", 1000, 60000));
    assert_true(said_now(&said, "broker 2: timed out after 17ms", 1000, 60000));
}

static void a_key_logged_long_before_others_may_be_logged_again(void **state)
{
    struct said said = {0};
    char text[2] = "a";

    (void)state;
    for (int i = 0; i <= SAID_MAX; i++, text[0]++)
        assert_true(said_now(&said, text, 1000, 60000));
    assert_true(said_now(&said, "a", 1000, 60000));
    assert_false(said_now(&said, "a", 1000, 60000));
    text[0]--;
    assert_false(said_now(&said, text, 1000, 60000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_key_is_logged_again_only_after_the_interval),
        cmocka_unit_test(other_numbers_are_no_other_text),
        cmocka_unit_test(a_key_logged_long_before_others_may_be_logged_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
