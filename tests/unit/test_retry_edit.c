/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/task_edit_mysql.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

/* What the diverter writes for a row whose headers column is "{bad". */
#define RELAYS                                                           \
    "[\"id\",\"e-1\"],[\"ce_specversion\",\"1.0\"],[\"ce_id\",\"e-1\"]," \
    "[\"ce_type\",\"Happened\"],[\"seq\",\"42\"],[\"lane\",\"outbox\"]"
#define POISONED                                                                          \
    "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[" RELAYS "],\"rowHeaders\":\"{bad\"," \
    "\"timestampMs\":7}"
#define GOOD                                                                               \
    "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[" RELAYS ",[\"tenant\",\"north\"]],\"" \
    "timestampMs\":7}"

static void assert_edit(const char *before, bool relays, const char *options, const char *headers,
                        const char *after)
{
    struct buf out = {0};
    struct err err = {0};

    assert_int_equal(task_edit_options(&out, before, relays, options, headers, &err), RC_OK);
    assert_string_equal(buf_text(&out), after);
    buf_done(&out);
}

static void assert_refused(const char *before, const char *options, const char *headers,
                           const char *word)
{
    struct buf out = {0};
    struct err err = {0};

    assert_int_equal(task_edit_options(&out, before, true, options, headers, &err), RC_REJECT);
    assert_non_null(strstr(err.text, word));
    buf_done(&out);
}

static void corrected_headers_stand_behind_those_of_the_relay(void **state)
{
    (void)state;
    assert_edit(POISONED, true, NULL, "{\"tenant\":\"north\"}", GOOD);
    assert_edit(POISONED, true, NULL, "[[\"tenant\",\"north\"]]", GOOD);
    assert_edit(POISONED, true, "{\"headers\":{\"tenant\":\"north\"}}", NULL, GOOD);
    assert_edit(POISONED, true, "", "{\"tenant\":\"north\"}", GOOD);
    /* Again: the result is the same. */
    assert_edit(GOOD, true, NULL, "{\"tenant\":\"north\"}", GOOD);
}

static void headers_of_the_application_are_replaced(void **state)
{
    (void)state;
    assert_edit(GOOD, true, NULL, "{}",
                "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[" RELAYS "],\"timestampMs\":7}");
    assert_edit("{\"topic\":\"t\",\"headers\":[[\"id\",\"1\"],[\"ce_type\",\"A\"],[\"x\",\"y\"]]}",
                true, NULL, "{\"ce_type\":\"B\"}",
                "{\"topic\":\"t\",\"headers\":[[\"id\",\"1\"],[\"ce_type\",\"B\"]]}");
}

static void members_that_are_not_named_stay(void **state)
{
    (void)state;
    assert_edit(GOOD, true, "{\"topic\":\"u\"}", NULL,
                "{\"topic\":\"u\",\"key\":\"4711\",\"headers\":[" RELAYS
                ",[\"tenant\",\"north\"]],\"timestampMs\":7}");
    assert_edit("{\"topic\":\"t\",\"keyHex\":\"ff\"}", true, "{\"key\":\"a\"}", NULL,
                "{\"topic\":\"t\",\"key\":\"a\"}");
    assert_edit(GOOD, true, GOOD, NULL, GOOD);
}

static void a_reserved_header_cannot_be_changed(void **state)
{
    (void)state;
    assert_refused(GOOD, NULL, "{\"id\":\"e-2\"}", "\"id\" is reserved");
    assert_refused(GOOD, "{\"headers\":[[\"seq\",\"43\"]]}", NULL, "\"seq\" is reserved");
    assert_edit("{\"topic\":\"t\",\"headers\":\"{bad\"}", true, NULL, "{\"id\":\"e-1\"}",
                "{\"topic\":\"t\",\"headers\":[[\"id\",\"e-1\"]]}");
}

static void an_id_that_was_missing_can_be_given(void **state)
{
    static const char before[] = "{\"topic\":\"t\",\"headers\":[[\"ce_specversion\",\"1.0\"],"
                                 "[\"seq\",\"42\"]],\"rowId\":\"hex:00\"}";

    (void)state;
    assert_edit(before, true, NULL, "{\"id\":\"e-1\",\"a\":\"b\"}",
                "{\"topic\":\"t\",\"headers\":[[\"ce_specversion\",\"1.0\"],[\"seq\",\"42\"],"
                "[\"id\",\"e-1\"],[\"a\",\"b\"],[\"ce_id\",\"e-1\"]]}");
    /* Without an id the handler still refuses the event. */
    assert_edit(before, true, NULL, "{}",
                "{\"topic\":\"t\",\"headers\":[[\"ce_specversion\",\"1.0\"],[\"seq\",\"42\"]],"
                "\"rowId\":\"hex:00\"}");
}

static void what_is_no_header_or_option_is_refused(void **state)
{
    (void)state;
    assert_refused(GOOD, NULL, "{bad", "not JSON");
    assert_refused(GOOD, NULL, "7", "headers");
    assert_refused(GOOD, NULL, "[7]", "element 1");
    assert_refused(GOOD, NULL, "[[\"a\",\"b\"],[1,\"b\"]]", "element 2");
    assert_refused(GOOD, "[1]", NULL, "options are not a JSON object");
    assert_refused(GOOD, "{\"headers\":{}}", "{}", "given twice");
}

static void the_options_of_a_client_are_replaced_whole(void **state)
{
    (void)state;
    assert_edit("{\"url\":\"a\",\"method\":\"PUT\"}", false, "{\"url\": \"b\"}", NULL,
                "{\"url\": \"b\"}");
    assert_edit("{\"url\":\"a\"}", false, "", NULL, "");
    assert_edit("{\"url\":\"a\"}", false, NULL, "{\"x\":\"y\"}",
                "{\"url\":\"a\",\"headers\":{\"x\":\"y\"}}");
    assert_edit(NULL, false, "{\"url\":\"b\"}", "{\"x\":\"y\"}",
                "{\"url\":\"b\",\"headers\":{\"x\":\"y\"}}");
}

static void a_number_keeps_its_digits(void **state)
{
    (void)state;
    assert_edit("{\"topic\":\"t\",\"a\":0.1}", true, "{\"b\":[1.5,2.675,1e21,17]}", NULL,
                "{\"topic\":\"t\",\"a\":0.1,\"b\":[1.5,2.675,1e21,17]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corrected_headers_stand_behind_those_of_the_relay),
        cmocka_unit_test(headers_of_the_application_are_replaced),
        cmocka_unit_test(members_that_are_not_named_stay),
        cmocka_unit_test(a_reserved_header_cannot_be_changed),
        cmocka_unit_test(an_id_that_was_missing_can_be_given),
        cmocka_unit_test(what_is_no_header_or_option_is_refused),
        cmocka_unit_test(the_options_of_a_client_are_replaced_whole),
        cmocka_unit_test(a_number_keeps_its_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
