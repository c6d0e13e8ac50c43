/* SPDX-License-Identifier: MIT */
/* The header traceparent: which texts are valid, and the ones that are made. */
#include "common/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TRACE_ID "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN_ID "00f067aa0ba902b7"

static void assert_read(const char *text, const char *expected)
{
    char parent[TRACE_SIZE];

    assert_true(trace_read(text, parent));
    assert_string_equal(parent, expected);
}

static void assert_bad(const char *text)
{
    char parent[TRACE_SIZE] = "x";

    assert_false(trace_read(text, parent));
    assert_string_equal(parent, "");
}

static void a_valid_header_is_read_as_version_00(void **state)
{
    (void)state;
    assert_read("00-" TRACE_ID "-" SPAN_ID "-01", "00-" TRACE_ID "-" SPAN_ID "-01");
    assert_read("00-" TRACE_ID "-" SPAN_ID "-00", "00-" TRACE_ID "-" SPAN_ID "-00");
    assert_read("cc-" TRACE_ID "-" SPAN_ID "-01", "00-" TRACE_ID "-" SPAN_ID "-01");
    assert_read("cc-" TRACE_ID "-" SPAN_ID "-01-more", "00-" TRACE_ID "-" SPAN_ID "-01");
}

static void a_malformed_header_is_refused(void **state)
{
    (void)state;
    assert_bad(NULL);
    assert_bad("");
    assert_bad("00-" TRACE_ID "-" SPAN_ID "-0");
    assert_bad("00-" TRACE_ID "-" SPAN_ID "-01-more");
    assert_bad("00-" TRACE_ID "-" SPAN_ID "-01x");
    assert_bad("cc-" TRACE_ID "-" SPAN_ID "-01x");
    assert_bad("ff-" TRACE_ID "-" SPAN_ID "-01");
    assert_bad("00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN_ID "-01");
    assert_bad("00-00000000000000000000000000000000-" SPAN_ID "-01");
    assert_bad("00-" TRACE_ID "-0000000000000000-01");
    assert_bad("00+" TRACE_ID "-" SPAN_ID "-01");
    assert_bad("00-" TRACE_ID "-" SPAN_ID "-0g");
}

static void a_made_header_is_valid_and_its_trace_depends_on_the_seed_alone(void **state)
{
    char first[TRACE_SIZE];
    char second[TRACE_SIZE];
    char other[TRACE_SIZE];
    char parent[TRACE_SIZE];

    (void)state;
    trace_make(first, 7, 1);
    trace_make(second, 7, 2);
    trace_make(other, 8, 1);
    assert_true(trace_read(first, parent));
    assert_string_equal(parent, first);
    assert_true(trace_read(second, parent));
    assert_int_equal(strncmp(first, second, 35), 0);
    assert_int_not_equal(strncmp(first + 36, second + 36, 16), 0);
    assert_int_not_equal(strncmp(first, other, 35), 0);
    assert_string_equal(first + 52, "-01");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_header_is_read_as_version_00),
        cmocka_unit_test(a_malformed_header_is_refused),
        cmocka_unit_test(a_made_header_is_valid_and_its_trace_depends_on_the_seed_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
