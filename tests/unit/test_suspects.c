/* SPDX-License-Identifier: MIT */
#include "outbox/relay/suspects.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void an_added_seq_is_suspected_until_it_is_removed(void **state)
{
    static struct suspects suspects;

    (void)state;
    suspects_add(&suspects, 5);
    suspects_add(&suspects, 3);
    suspects_add(&suspects, 5);
    assert_int_equal(suspects.count, 2);
    assert_true(suspects_has(&suspects, 3));
    assert_true(suspects_has(&suspects, 5));
    assert_false(suspects_has(&suspects, 4));
    suspects_remove(&suspects, 4);
    suspects_remove(&suspects, 3);
    assert_false(suspects_has(&suspects, 3));
    assert_int_equal(suspects.count, 1);
}

static void when_it_is_full_the_lowest_stay(void **state)
{
    static struct suspects suspects;

    (void)state;
    for (int64_t i = 0; i < SUSPECTS_MAX; i++)
        suspects_add(&suspects, 10 * i);
    suspects_add(&suspects, INT64_C(10) * SUSPECTS_MAX);
    assert_false(suspects_has(&suspects, INT64_C(10) * SUSPECTS_MAX));
    suspects_add(&suspects, 15);
    assert_int_equal(suspects.count, SUSPECTS_MAX);
    assert_true(suspects_has(&suspects, 15));
    assert_false(suspects_has(&suspects, INT64_C(10) * (SUSPECTS_MAX - 1)));
    assert_true(suspects_has(&suspects, INT64_C(10) * (SUSPECTS_MAX - 2)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_added_seq_is_suspected_until_it_is_removed),
        cmocka_unit_test(when_it_is_full_the_lowest_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
