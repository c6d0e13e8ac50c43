/* SPDX-License-Identifier: MIT */
#include "common/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_zeroed_buf_is_ready(void **state)
{
    struct buf buf = {0};

    (void)state;
    assert_string_equal(buf_text(&buf), "");
    assert_false(buf.failed);
    buf_text_put(&buf, "SELECT ");
    buf_char(&buf, '1');
    buf_put(&buf, "\0x", 2);
    assert_int_equal(buf.len, 10);
    assert_memory_equal(buf.data, "SELECT 1\0x", 10);
    buf_done(&buf);
    assert_null(buf.data);
    buf_done(&buf);
}

static void nothing_can_be_put(void **state)
{
    struct buf buf = {0};

    (void)state;
    buf_put(&buf, "", 0);
    buf_text_put(&buf, "");
    buf_hex(&buf, "", 0);
    buf_print(&buf, "%s", "");
    assert_non_null(buf_reserve(&buf, 0));
    assert_false(buf.failed);
    assert_int_equal(buf.len, 0);
    buf_done(&buf);
}

static void numbers_are_written_whole(void **state)
{
    struct buf buf = {0};

    (void)state;
    buf_u64(&buf, 0);
    buf_char(&buf, ' ');
    buf_u64(&buf, UINT64_MAX);
    buf_char(&buf, ' ');
    buf_i64(&buf, INT64_MIN);
    buf_char(&buf, ' ');
    buf_i64(&buf, INT64_MAX);
    buf_char(&buf, ' ');
    buf_i64(&buf, -1);
    assert_string_equal(buf_text(&buf), "0 18446744073709551615 -9223372036854775808 "
                                        "9223372036854775807 -1");
    buf_done(&buf);
}

static void bytes_become_hex(void **state)
{
    struct buf buf = {0};

    (void)state;
    buf_hex(&buf, "\x00\xff\x1e", 3);
    assert_string_equal(buf_text(&buf), "00ff1e");
    buf_done(&buf);
}

static void printing_grows_the_buf(void **state)
{
    struct buf buf = {0};

    (void)state;
    for (int i = 0; i < 1000; i++)
        buf_print(&buf, "%04d,", i);
    assert_int_equal(buf.len, 5000);
    assert_memory_equal(buf.data + 4995, "0999,", 5);
    buf_done(&buf);
}

static void the_ceiling_can_be_filled_to_the_last_byte(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 10);
    buf_text_put(&buf, "12345");
    buf_print(&buf, "%d", 67890);
    assert_false(buf.failed);
    assert_int_equal(buf.len, 10);
    assert_string_equal(buf_text(&buf), "1234567890");
    assert_false(buf.failed);
    buf_char(&buf, 'x');
    assert_true(buf.failed);
    assert_int_equal(buf.len, 10);
    buf_done(&buf);
}

static void an_append_beyond_the_limit_leaves_the_buf_unchanged(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    buf_text_put(&buf, "abc");
    assert_null(buf_reserve(&buf, 998));
    assert_true(buf.failed);
    assert_int_equal(buf.len, 3);
    buf_char(&buf, 'd');
    buf_print(&buf, "%d", 5);
    buf_hex(&buf, "x", 1);
    assert_int_equal(buf.len, 3);
    assert_string_equal(buf_text(&buf), "");
    buf_cut(&buf, 1);
    assert_true(buf.failed);
    buf_done(&buf);
}

static void absurd_lengths_fail_and_do_not_overflow(void **state)
{
    struct buf buf = {0};

    (void)state;
    buf_text_put(&buf, "abc");
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    buf_reset(&buf);
    assert_null(buf_reserve(&buf, BUF_SIZE_MAX + 1));
    buf_reset(&buf);
    buf_hex(&buf, "", SIZE_MAX / 2 + 1);
    assert_true(buf.failed);
    buf_done(&buf);
}

static void a_reset_forgives_and_keeps_the_memory(void **state)
{
    struct buf buf;
    const char *data;

    (void)state;
    buf_init(&buf, 300);
    buf_text_put(&buf, "abc");
    data = buf.data;
    assert_null(buf_reserve(&buf, 300));
    buf_reset(&buf);
    assert_false(buf.failed);
    assert_int_equal(buf.len, 0);
    buf_text_put(&buf, "xyz");
    assert_ptr_equal(buf.data, data);
    assert_string_equal(buf_text(&buf), "xyz");
    buf_done(&buf);
}

static void a_trimmed_buf_keeps_its_bytes_and_grows_again(void **state)
{
    struct buf buf = {0};

    (void)state;
    buf_trim(&buf);
    buf_text_put(&buf, "abc");
    buf_trim(&buf);
    assert_int_equal(buf.size, 3);
    buf_text_put(&buf, "def");
    assert_string_equal(buf_text(&buf), "abcdef");
    buf_reset(&buf);
    buf_trim(&buf);
    buf_text_put(&buf, "x");
    assert_string_equal(buf_text(&buf), "x");
    buf_done(&buf);
}

static void a_cut_never_lengthens(void **state)
{
    struct buf buf = {0};

    (void)state;
    buf_text_put(&buf, "abcdef");
    buf_cut(&buf, 100);
    assert_int_equal(buf.len, 6);
    buf_cut(&buf, 2);
    assert_string_equal(buf_text(&buf), "ab");
    buf_done(&buf);
}

static void reserved_space_can_be_written_to_its_end(void **state)
{
    struct buf buf = {0};

    (void)state;
    for (size_t len = 1; len < 5000; len += 77) {
        char *at = buf_reserve(&buf, len);

        assert_non_null(at);
        memset(at, 'r', len);
        buf.len += len;
        assert_int_equal(strlen(buf_text(&buf)), buf.len);
    }
    buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zeroed_buf_is_ready),
        cmocka_unit_test(nothing_can_be_put),
        cmocka_unit_test(numbers_are_written_whole),
        cmocka_unit_test(bytes_become_hex),
        cmocka_unit_test(printing_grows_the_buf),
        cmocka_unit_test(the_ceiling_can_be_filled_to_the_last_byte),
        cmocka_unit_test(an_append_beyond_the_limit_leaves_the_buf_unchanged),
        cmocka_unit_test(absurd_lengths_fail_and_do_not_overflow),
        cmocka_unit_test(a_reset_forgives_and_keeps_the_memory),
        cmocka_unit_test(a_trimmed_buf_keeps_its_bytes_and_grows_again),
        cmocka_unit_test(a_cut_never_lengthens),
        cmocka_unit_test(reserved_space_can_be_written_to_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
