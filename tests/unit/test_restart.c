/* SPDX-License-Identifier: MIT */
#include "consumer/restart_command.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void a_place_has_topic_partition_and_offset(void **state)
{
    struct restart_request request;
    struct err err = {0};

    (void)state;
    assert_int_equal(restart_request_read(&request, "vote-events/3@1200", &err), RC_OK);
    assert_string_equal(request.place.topic, "vote-events");
    assert_int_equal(request.place.partition, 3);
    assert_int_equal(request.offset, 1200);
    assert_false(request.earliest || request.latest);
    assert_int_equal(restart_request_read(&request, "t/2147483647@9223372036854775806", &err),
                     RC_OK);
    assert_int_equal(request.place.partition, INT32_MAX);
    assert_true(request.offset == INT64_MAX - 1);
}

static void its_two_ends_have_names(void **state)
{
    struct restart_request request;
    struct err err = {0};

    (void)state;
    assert_int_equal(restart_request_read(&request, "t/0@earliest", &err), RC_OK);
    assert_true(request.earliest && !request.latest);
    assert_int_equal(restart_request_read(&request, "t/0@latest", &err), RC_OK);
    assert_true(request.latest && !request.earliest);
}

static void any_other_text_is_reported_with_the_expected_form(void **state)
{
    static const char *const bad[] = {
        "",
        "t",
        "t/0",
        "t@0",
        "/0@0",
        "t/@0",
        "t/0@",
        "t/0@-1",
        "t/0@ 1",
        "t/0@1x",
        "t/2147483648@0",
        "t/0@9223372036854775807",
        "t/0@Earliest",
    };
    struct restart_request request;
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(restart_request_read(&request, bad[i], &err), RC_FATAL);
        assert_non_null(strstr(err.text, bad[i]));
        assert_non_null(strstr(err.text, "expected TOPIC/PARTITION@"));
    }
}

static void a_long_mistake_does_not_hide_the_expected_form(void **state)
{
    char text[1000];
    struct restart_request request;
    struct err err = {0};

    (void)state;
    memset(text, 't', sizeof(text));
    memcpy(text + 990, "/0@latest", 10);
    assert_int_equal(restart_request_read(&request, text, &err), RC_FATAL);
    assert_non_null(strstr(err.text, "such as vote-events/3@1200"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_has_topic_partition_and_offset),
        cmocka_unit_test(its_two_ends_have_names),
        cmocka_unit_test(any_other_text_is_reported_with_the_expected_form),
        cmocka_unit_test(a_long_mistake_does_not_hide_the_expected_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
