/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/checksum.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <zlib.h>

#define OFFSETS 17
#define LENGTHS 700

static uint8_t bytes[100000];

static int set_up(void **state)
{
    uint64_t rng = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)rng_next(&rng);
    return 0;
}

static void assert_same(uint32_t sum, size_t from, size_t len)
{
    assert_int_equal(binlog_checksum(sum, bytes + from, len), crc32_z(sum, bytes + from, len));
}

static void it_is_that_of_zlib_for_every_length_and_place(void **state)
{
    (void)state;
    for (size_t len = 0; len < LENGTHS; len++)
        for (size_t from = 0; from < OFFSETS; from++)
            assert_same((uint32_t)(len * 2654435761U), from, len);
    for (size_t from = 0; from < OFFSETS; from++)
        assert_same(0, from, sizeof(bytes) - 2 * from);
}

static void it_goes_on_where_it_ended(void **state)
{
    (void)state;
    for (size_t at = 0; at < LENGTHS; at++)
        assert_int_equal(binlog_checksum(binlog_checksum(0, bytes, at), bytes + at, LENGTHS - at),
                         crc32_z(0, bytes, LENGTHS));
}

static void its_value_is_known(void **state)
{
    (void)state;
    assert_int_equal(binlog_checksum(0, (const uint8_t *)"123456789", 9), 0xcbf43926);
    assert_int_equal(binlog_checksum(0, (const uint8_t *)"", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_that_of_zlib_for_every_length_and_place),
        cmocka_unit_test(it_goes_on_where_it_ended),
        cmocka_unit_test(its_value_is_known),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
