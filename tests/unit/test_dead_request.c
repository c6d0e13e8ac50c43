/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_cli.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define NOW_MS INT64_C(1790000000000)

static struct dead_request request;

static struct dead_options said(void)
{
    return (struct dead_options){.partition = DEAD_NUMBER_ANY, .limit = DEAD_NUMBER_ANY};
}

static enum rc read_words(const struct dead_options *words, const char *const *arguments,
                          size_t count)
{
    struct err err = {0};
    enum rc rc = dead_request_read(&request, words, arguments, count, &err);

    assert_true(rc == RC_OK || err.text[0] != '\0');
    return rc;
}

static void ids_and_filters_are_kept(void **state)
{
    struct dead_options words = said();

    (void)state;
    assert_int_equal(read_words(&words, (const char *[]){"show", "17"}, 2), RC_OK);
    assert_int_equal(request.action, DEAD_SHOW);
    assert_int_equal(request.filter.id_count, 1);
    assert_int_equal(request.filter.ids[0], 17);
    assert_false(dead_request_is_bulk(&request));
    words.reason_class = "key";
    words.since = "1h";
    assert_int_equal(read_words(&words, (const char *[]){"drop"}, 1), RC_OK);
    assert_true(dead_request_is_bulk(&request));
    dead_request_times(&request, NOW_MS);
    assert_int_equal(request.filter.since_ms, NOW_MS - 3600000);
    assert_int_equal(request.filter.until_ms, DEAD_NUMBER_ANY);
    assert_string_equal(request.filter.reason_class, "key");
}

static void a_change_of_all_records_needs_an_explicit_choice(void **state)
{
    struct dead_options words = said();

    (void)state;
    assert_int_equal(read_words(&words, (const char *[]){"drop"}, 1), RC_FATAL);
    words.yes = true;
    assert_int_equal(read_words(&words, (const char *[]){"replay"}, 1), RC_FATAL);
    words.all = true;
    assert_int_equal(read_words(&words, (const char *[]){"replay"}, 1), RC_OK);
    assert_int_equal(read_words(&words, (const char *[]){"replay", "5"}, 2), RC_FATAL);
    words.topic = "t";
    assert_int_equal(read_words(&words, (const char *[]){"replay"}, 1), RC_FATAL);
}

static void ids_that_are_none_are_refused(void **state)
{
    static const char *const texts[] = {"0", "-1", "x", "1x", "99999999999999999999", ""};
    struct dead_options words = said();

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(read_words(&words, (const char *[]){"drop", texts[i]}, 2), RC_FATAL);
}

static void a_replaced_value_is_for_one_record(void **state)
{
    struct dead_options words = said();

    (void)state;
    words.value_path = "f";
    assert_int_equal(read_words(&words, (const char *[]){"replay", "5"}, 2), RC_OK);
    assert_int_equal(read_words(&words, (const char *[]){"replay", "5", "6"}, 3), RC_FATAL);
    assert_int_equal(read_words(&words, (const char *[]){"drop", "5"}, 2), RC_FATAL);
    words.key = "5";
    assert_int_equal(read_words(&words, (const char *[]){"replay"}, 1), RC_FATAL);
}

static void json_and_payload_exclude_each_other(void **state)
{
    struct dead_options words = said();
    const char *const arguments[] = {"show", "5"};
    struct err err = {0};

    (void)state;
    words.json = true;
    assert_int_equal(read_words(&words, arguments, 2), RC_OK);
    words.payload = true;
    assert_int_equal(dead_request_read(&request, &words, arguments, 2, &err), RC_FATAL);
    assert_string_equal(err.text, "--json and --payload exclude each other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_filters_are_kept),
        cmocka_unit_test(a_change_of_all_records_needs_an_explicit_choice),
        cmocka_unit_test(ids_that_are_none_are_refused),
        cmocka_unit_test(a_replaced_value_is_for_one_record),
        cmocka_unit_test(json_and_payload_exclude_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
