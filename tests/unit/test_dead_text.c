/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_cli.h"

#include "common/text.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <string.h>

#define NOW_MS INT64_C(1790000060000)

static struct buf out;

static struct dead_view record(const char *value, size_t len)
{
    return (struct dead_view){
        .id = 17,
        .topic = "votes",
        .partition = 3,
        .offset = 120,
        .key = "5\x1b",
        .key_len = 2,
        .value = value,
        .value_len = len,
        .has_value = value != NULL,
        .headers = "[[\"id\",\"cG9pc29u\"],[\"none\",null],[\"raw\",\"/wA=\"],[\"e\",\"\"]]",
        .time_ms = DEAD_NUMBER_ANY,
        .reason_class = "decode",
        .reason = "the value is not JSON",
        .died_ms = NOW_MS - 60000,
    };
}

static void assert_shows(const char *words)
{
    if (!strstr(buf_text(&out), words))
        fail_msg("\"%s\" is not in:\n%s", words, buf_text(&out));
}

static void a_text_is_shown_as_it_is(void **state)
{
    struct dead_view view = record("{\"a\":1}", 7);

    (void)state;
    buf_reset(&out);
    dead_show_text(&out, &view, NOW_MS);
    assert_shows("votes/3@120");
    assert_shows("2026-09-21 14:13:20.000 UTC, 1 min ago");
    assert_shows("decode: the value is not JSON");
    assert_shows("payload       7 bytes\n  {\"a\":1}\n");
    assert_shows("  id: poison\n");
    assert_shows("  none: (none)\n");
    assert_shows("  raw: base64 /wA=\n");
    assert_shows("  e: \n");
    assert_shows("record time   (none)");
    assert_shows("00000000  35 1b");
    assert_null(strchr(buf_text(&out), '\x1b'));
}

static void other_bytes_are_shown_as_digits(void **state)
{
    struct dead_view view = record("hello \x00\x1b world and more", 23);

    (void)state;
    buf_reset(&out);
    dead_show_text(&out, &view, NOW_MS);
    assert_shows("  00000000  68 65 6c 6c 6f 20 00 1b 20 77 6f 72 6c 64 20 61  hello .. world a\n");
    assert_shows("  00000010  6e 64 20 6d 6f 72 65                             nd more\n");
    assert_null(strchr(buf_text(&out), '\x1b'));
}

static void a_long_value_is_cut_in_the_text(void **state)
{
    static char bytes[10000];
    struct dead_view view = record(bytes, sizeof(bytes));

    (void)state;
    buf_reset(&out);
    dead_show_text(&out, &view, NOW_MS);
    assert_shows("and 5904 bytes more");
}

static void a_tombstone_has_nothing(void **state)
{
    struct dead_view view = record(NULL, 0);

    (void)state;
    view.key = NULL;
    buf_reset(&out);
    dead_show_text(&out, &view, NOW_MS);
    assert_shows("payload       (none)");
    assert_shows("key           (none)");
    buf_reset(&out);
    dead_list_row(&out, &view, NOW_MS);
    assert_shows("  (none)  (none)");
}

static void a_line_of_the_list_is_one_line(void **state)
{
    struct dead_view view = record("x", 1);

    (void)state;
    view.key = "a\nb";
    view.key_len = 3;
    buf_reset(&out);
    dead_list_row(&out, &view, NOW_MS);
    assert_shows("a.b");
    assert_shows("the value is not JSON\n");
    assert_ptr_equal(strchr(buf_text(&out), '\n') + 1, buf_text(&out) + out.len);
}

static json_t *json_of(const struct dead_view *view)
{
    json_t *object;

    buf_reset(&out);
    dead_json(&out, view, true);
    assert_false(out.failed);
    object = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
    assert_non_null(object);
    return object;
}

static void json_has_text_or_base64(void **state)
{
    struct dead_view view = record("\xff\x00", 2);
    json_t *object = json_of(&view);
    const json_t *headers = json_object_get(object, "headers");

    (void)state;
    assert_true(json_is_null(json_object_get(object, "payload")));
    assert_string_equal(json_string_value(json_object_get(object, "payload_base64")), "/wA=");
    assert_string_equal(json_string_value(json_object_get(object, "key")), "5\x1b");
    assert_int_equal(json_array_size(headers), 4);
    assert_true(json_is_null(json_object_get(json_array_get(headers, 1), "value")));
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(headers, 2), "value_base64")), "/wA=");
    assert_string_equal(json_string_value(json_object_get(json_array_get(headers, 3), "value")),
                        "");
    assert_null(json_object_get(object, "decision"));
    json_decref(object);
    view.value = "x";
    view.value_len = 1;
    view.decision = "applied";
    view.decided_by = "me";
    view.applied_value = "mended";
    view.applied_len = 6;
    object = json_of(&view);
    assert_string_equal(json_string_value(json_object_get(object, "payload")), "x");
    assert_string_equal(json_string_value(json_object_get(object, "applied_value")), "mended");
    json_decref(object);
}

/* The column could have been written by hand. */
static void headers_of_another_form_leave_the_record_readable(void **state)
{
    struct dead_view view = record("x", 1);
    json_t *object;
    const json_t *headers;

    (void)state;
    view.headers = "[[\"n\",\"\\u001bA\"]]";
    buf_reset(&out);
    dead_show_text(&out, &view, NOW_MS);
    assert_shows("n: (not printable)\n");
    assert_true(utf8_prints(out.data, out.len));
    view.headers = "[\"x\",[]]";
    object = json_of(&view);
    headers = json_object_get(object, "headers");
    assert_int_equal(json_array_size(headers), 2);
    assert_true(json_is_null(json_object_get(json_array_get(headers, 0), "name")));
    assert_string_equal(json_string_value(json_object_get(object, "payload")), "x");
    json_decref(object);
}

static int finish(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_shown_as_it_is),
        cmocka_unit_test(other_bytes_are_shown_as_digits),
        cmocka_unit_test(a_long_value_is_cut_in_the_text),
        cmocka_unit_test(a_tombstone_has_nothing),
        cmocka_unit_test(a_line_of_the_list_is_one_line),
        cmocka_unit_test(json_has_text_or_base64),
        cmocka_unit_test(headers_of_another_form_leave_the_record_readable),
    };

    return cmocka_run_group_tests(tests, NULL, finish);
}
