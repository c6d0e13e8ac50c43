/* SPDX-License-Identifier: MIT */
#include "outbox/retry/pool.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static unsigned bits_of(const char *text)
{
    struct err err = {0};
    unsigned bits;

    assert_int_equal(pool_parse_shards(&bits, text, &err), RC_OK);
    return bits;
}

static void numbers_and_ranges_are_taken(void **state)
{
    (void)state;
    assert_int_equal(bits_of("0"), 1);
    assert_int_equal(bits_of("15"), 0x8000);
    assert_int_equal(bits_of("0-15"), 0xffff);
    assert_int_equal(bits_of("0-3, 7"), 0x8f);
    assert_int_equal(bits_of(" 1 ,1-2 "), 6);
}

static void a_value_that_is_no_list_is_reported(void **state)
{
    static const char *const wrong[] = {"",    "16",  "a",   "1,",   ",1",
                                        "1 2", "3-2", "1-",  "-1",   "1-16",
                                        "0x1", "1;2", "all", "1--2", "99999999999999999999"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = {0};
        unsigned bits;

        assert_int_equal(pool_parse_shards(&bits, wrong[i], &err), RC_REJECT);
        assert_non_null(strstr(err.text, "retry.shards"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_ranges_are_taken),
        cmocka_unit_test(a_value_that_is_no_list_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
