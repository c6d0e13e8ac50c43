/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/exec_handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_program_its_arguments_and_its_time_are_read(void **state)
{
    struct exec_options options;
    struct err err = {0};

    (void)state;
    assert_int_equal(exec_options_read(&options, "{\"program\": \"/bin/true\"}", &err), RC_OK);
    assert_string_equal(options.args[0], "/bin/true");
    assert_null(options.args[1]);
    assert_int_equal(options.timeout_ms, EXEC_TIMEOUT_MS_DEFAULT);
    exec_options_done(&options);
    assert_int_equal(exec_options_read(&options,
                                       "{\"args\": [\"a b\", \"\"], \"program\": \"/x\","
                                       " \"timeout\": \"1500ms\"}",
                                       &err),
                     RC_OK);
    assert_string_equal(options.args[0], "/x");
    assert_string_equal(options.args[1], "a b");
    assert_string_equal(options.args[2], "");
    assert_null(options.args[3]);
    assert_int_equal(options.timeout_ms, 1500);
    exec_options_done(&options);
}

static const struct {
    const char *text;
    const char *words;
} wrong[] = {
    {"{}", "\"program\" is missing"},
    {"{\"program\": \"true\"}", "an absolute path"},
    {"{\"program\": \"\"}", "\"program\""},
    {"{\"program\": \"/a\\u0000b\"}", "\"program\""},
    {"{\"program\": \"/a\", \"args\": \"-c\"}", "\"args\""},
    {"{\"program\": \"/a\", \"args\": [\"x\", 1]}", "number 2"},
    {"{\"program\": \"/a\", \"args\": [\"\\u0000\"]}", "number 1"},
    {"{\"program\": \"/a\", \"timeout\": 5}", "\"timeout\""},
    {"{\"program\": \"/a\", \"timeout\": \"0s\"}", "\"timeout\""},
    {"{\"program\": \"/a\", \"shell\": true}", "has no field \"shell\""},
};

static void a_wrong_value_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct exec_options options;
        struct err err = {0};

        assert_int_equal(exec_options_read(&options, wrong[i].text, &err), RC_REJECT);
        if (!strstr(err.text, wrong[i].words))
            fail_msg("%s: %s", wrong[i].text, err.text);
    }
}

static void only_programs_that_are_listed_exactly_are_allowed(void **state)
{
    (void)state;
    assert_true(exec_is_allowed("/bin/a,/bin/b c", "/bin/a"));
    assert_true(exec_is_allowed("/bin/a,/bin/b c", "/bin/b c"));
    assert_false(exec_is_allowed("/bin/a,/bin/b c", "/bin/b"));
    assert_false(exec_is_allowed("/bin/a,/bin/b", "/bin/../bin/a"));
    assert_false(exec_is_allowed("/bin/a,/bin/b", "/bin/a,/bin/b"));
    assert_false(exec_is_allowed("/bin/a", "/bin/ab"));
    assert_false(exec_is_allowed("", ""));
    assert_false(exec_is_allowed("", "/bin/a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_its_arguments_and_its_time_are_read),
        cmocka_unit_test(a_wrong_value_is_named),
        cmocka_unit_test(only_programs_that_are_listed_exactly_are_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
