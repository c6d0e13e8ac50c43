/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/wait.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void assert_span(const char *text, int64_t expected_ms)
{
    int64_t ms = -1;

    assert_true(span_parse(text, strlen(text), &ms));
    assert_int_equal(ms, expected_ms);
}

static void a_number_and_a_unit_are_a_span(void **state)
{
    (void)state;
    assert_span("0ms", 0);
    assert_span("500ms", 500);
    assert_span("30s", 30000);
    assert_span("05m", 300000);
    assert_span("2h", 7200000);
    assert_span("3650d", SPAN_MS_MAX);
}

static void anything_else_is_refused(void **state)
{
    static const char *const texts[] = {
        "",      "5",  "s",     "-1s", "1.5s", "1 s",  "1sec",
        "3651d", "1S", "1m30s", "+1s", "s1",   "1mss", "99999999999999999999h"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int64_t ms = 7;

        assert_false(span_parse(texts[i], strlen(texts[i]), &ms));
        assert_int_equal(ms, 7);
    }
}

static void the_largest_exact_unit_is_printed(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } pairs[] = {{0, "0s"},         {1, "1ms"},       {1000, "1s"},           {61000, "61s"},
                 {3600000, "1h"},   {86400000, "1d"}, {SPAN_MS_MAX, "3650d"}, {60000, "1m"},
                 {90000000, "25h"}, {1500, "1500ms"}};

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char text[SPAN_TEXT_SIZE];

        span_text(pairs[i].ms, text);
        assert_string_equal(text, pairs[i].text);
        assert_span(text, pairs[i].ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_and_a_unit_are_a_span),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(the_largest_exact_unit_is_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
