/* SPDX-License-Identifier: MIT */
#include "common/id.h"

#include "common/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The example of RFC 9562, appendix A.6. */
static void the_rfc_example_comes_out(void **state)
{
    static const uint8_t random_bytes[10] = {0x0c, 0xc3, 0x18, 0xc4, 0xdc,
                                             0x0c, 0x0c, 0x07, 0x39, 0x8f};
    char text[ID_TEXT_SIZE];
    struct id id;

    (void)state;
    id_make(&id, 0x017f22e279b0, random_bytes);
    id_format(&id, text);
    assert_string_equal(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

static void version_and_variant_are_right_for_any_random_bytes(void **state)
{
    uint8_t random_bytes[10];
    struct id id;

    (void)state;
    for (int fill = 0; fill < 256; fill++) {
        memset(random_bytes, fill, sizeof(random_bytes));
        id_make(&id, 1, random_bytes);
        assert_int_equal(id.bytes[6] >> 4, 7);
        assert_int_equal(id.bytes[8] >> 6, 2);
    }
}

static void later_ids_sort_later(void **state)
{
    static const uint8_t low[10] = {0};
    static const uint8_t high[10] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    struct id before;
    struct id after;

    (void)state;
    for (int64_t ms = 255; ms < (int64_t)1 << 47; ms = ms * 2 + 1) {
        id_make(&before, ms, high);
        id_make(&after, ms + 1, low);
        assert_true(memcmp(before.bytes, after.bytes, ID_BYTES) < 0);
    }
}

static void new_ids_differ_and_carry_the_time(void **state)
{
    int64_t before_ms = os_wall_ms();
    struct id one;
    struct id other;
    int64_t ms = 0;

    (void)state;
    id_new(&one);
    id_new(&other);
    assert_memory_not_equal(one.bytes, other.bytes, ID_BYTES);
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | one.bytes[i];
    assert_in_range(ms, before_ms, os_wall_ms());
}

static void a_formatted_id_parses_back(void **state)
{
    char text[ID_TEXT_SIZE];
    struct id id;
    struct id back = {{0}};

    (void)state;
    for (int i = 0; i < ID_BYTES; i++)
        id.bytes[i] = (uint8_t)(i * 17 + 3);
    id_format(&id, text);
    assert_int_equal(strlen(text), ID_TEXT_SIZE - 1);
    assert_true(id_parse(&back, text, strlen(text)));
    assert_memory_equal(id.bytes, back.bytes, ID_BYTES);
}

static void either_case_is_taken(void **state)
{
    struct id lower;
    struct id upper;

    (void)state;
    assert_true(id_parse(&lower, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 36));
    assert_true(id_parse(&upper, "017F22E2-79B0-7CC3-98C4-DC0C0C07398F", 36));
    assert_memory_equal(lower.bytes, upper.bytes, ID_BYTES);
}

static void anything_else_is_refused_and_changes_nothing(void **state)
{
    static const char *const bad[] = {
        "",
        "017f22e279b07cc398c4dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        "017f22e2 79b0 7cc3 98c4 dc0c0c07398f",
        "017f22e-279b0-7cc3-98c4-dc0c0c07398f",
        "{17f22e2-79b0-7cc3-98c4-dc0c0c07398}",
        "017f22e2-79b0-7cc3-98c4-dc0c0c0739\xc3\xa9",
    };
    struct id id = {{1, 2, 3}};
    const struct id was = id;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(id_parse(&id, bad[i], strlen(bad[i])));
        assert_memory_equal(id.bytes, was.bytes, ID_BYTES);
    }
}

static void a_number_is_digits_from_one_up(void **state)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "0x1",
                                      "9223372036854775808",
                                      "99999999999999999999"};
    int64_t number = 0;

    (void)state;
    assert_true(id_parse_number("9223372036854775807", 19, &number));
    assert_int_equal(number, INT64_MAX);
    assert_true(id_parse_number("0017", 4, &number));
    assert_int_equal(number, 17);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(id_parse_number(bad[i], strlen(bad[i]), &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rfc_example_comes_out),
        cmocka_unit_test(version_and_variant_are_right_for_any_random_bytes),
        cmocka_unit_test(later_ids_sort_later),
        cmocka_unit_test(new_ids_differ_and_carry_the_time),
        cmocka_unit_test(a_formatted_id_parses_back),
        cmocka_unit_test(either_case_is_taken),
        cmocka_unit_test(anything_else_is_refused_and_changes_nothing),
        cmocka_unit_test(a_number_is_digits_from_one_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
