/* SPDX-License-Identifier: MIT */
#include "common/text.h"
#include "outbox/retry/cli/task_text.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define NOW_MS INT64_C(1795280759000)

static struct buf out;

static struct retry_view view_make(void)
{
    return (struct retry_view){
        .id = 17,
        .group = "default",
        .scene = "mail",
        .origin = "client",
        .handler = "http",
        .params_type = "application/json",
        .next_ms = NOW_MS + 90000,
        .reason_class = "",
        .reason = "",
        .owner = "",
        .made_ms = NOW_MS - 60000,
        .changed_ms = NOW_MS - 1000,
    };
}

static int setup(void **state)
{
    (void)state;
    out = (struct buf){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_done(&out);
    return 0;
}

static void assert_shows(const char *words)
{
    if (!strstr(buf_text(&out), words))
        fail_msg("\"%s\" is not in:\n%s", words, buf_text(&out));
}

static void a_line_shows_when_the_task_is_due(void **state)
{
    struct retry_view view = view_make();

    (void)state;
    task_text_row(&out, &view, NOW_MS);
    assert_shows("default/mail");
    assert_shows("in 1 min");
    view.next_ms = NOW_MS;
    task_text_row(&out, &view, NOW_MS);
    assert_shows("  due  ");
    view.outcome = "cancelled";
    view.ended_ms = NOW_MS - 5000;
    task_text_row(&out, &view, NOW_MS);
    assert_shows("cancelled");
    assert_shows("5.0 s ago");
}

static void nothing_in_a_task_steers_the_terminal(void **state)
{
    struct retry_view view = view_make();

    (void)state;
    view.ordering_key = "\x1b[2J\xc2\x9b\xff\n\xe2\x82\xac";
    view.biz_no = "\x7f";
    view.reason_class = "ours";
    view.reason = "a\x07 b\nc";
    view.options = "{\"\x1b\": 1}";
    view.params = "\x1b]0;x\x07";
    view.params_len = 6;
    view.has_params = true;
    task_text_head(&out, false);
    task_text_row(&out, &view, NOW_MS);
    task_text_show(&out, &view, NOW_MS);
    assert_false(out.failed);
    assert_true(utf8_prints(out.data, out.len));
    assert_shows("\xe2\x82\xac");
    assert_shows("1b 5d 30");
    assert_shows("a? b c");
}

static void long_keys_and_long_reasons_stay_whole(void **state)
{
    struct retry_view view = view_make();
    char key[3 * 100 + 1] = "";
    char whole[sizeof(key) + 4];

    (void)state;
    for (size_t i = 0; i < 100; i++)
        memcpy(key + 3 * i, "\xe2\x82\xac", 3);
    view.ordering_key = key;
    view.reason = key;
    task_text_row(&out, &view, NOW_MS);
    assert_true(utf8_prints(out.data, out.len));
    snprintf(whole, sizeof(whole), "  %s  ", key);
    assert_shows(whole);
    snprintf(whole, sizeof(whole), "  %s\n", key);
    assert_shows(whole);
}

static void a_word_for_the_shell_is_quoted_where_it_must_be(void **state)
{
    static const struct {
        const char *text;
        const char *word;
    } words[] = {{"order/4711", "order/4711"},
                 {"a b", "'a b'"},
                 {"a'b", "'a'\\''b'"},
                 {"$HOME;`x`\\", "'$HOME;`x`\\'"},
                 {"*", "'*'"},
                 {"-x", "'-x'"},
                 {"~x", "'~x'"},
                 {"", "''"},
                 {"\xe2\x82\xac", "'\xe2\x82\xac'"},
                 {"a\tb", NULL},
                 {"a\nb", NULL},
                 {"a\x1b", NULL},
                 {"a\xff", NULL}};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        buf_reset(&out);
        assert_int_equal(task_text_word(&out, words[i].text), words[i].word != NULL);
        assert_string_equal(buf_text(&out), words[i].word ? words[i].word : "");
    }
}

static void a_task_is_one_json_object(void **state)
{
    struct retry_view view = view_make();
    json_t *object;

    (void)state;
    view.params = "\xff\x00";
    view.params_len = 2;
    view.has_params = true;
    view.state = TASK_BLOCKED;
    view.biz_no = "\"\n";
    task_text_json(&out, &view, true);
    object = json_loads(buf_text(&out), 0, NULL);
    assert_non_null(object);
    assert_int_equal(json_integer_value(json_object_get(object, "id")), 17);
    assert_string_equal(json_string_value(json_object_get(object, "state")), "blocked");
    assert_string_equal(json_string_value(json_object_get(object, "biz_no")), "\"\n");
    assert_true(json_is_null(json_object_get(object, "params")));
    assert_string_equal(json_string_value(json_object_get(object, "params_base64")), "/wA=");
    assert_int_equal(json_integer_value(json_object_get(object, "params_bytes")), 2);
    assert_true(json_is_null(json_object_get(object, "outcome")));
    assert_true(json_is_null(json_object_get(object, "parent_id")));
    json_decref(object);
}

static void an_attempt_is_a_line_or_an_object(void **state)
{
    struct retry_attempt_view attempt = {.at_ms = NOW_MS - 3000,
                                         .took_ms = 12,
                                         .owner = "host-1",
                                         .outcome = "failed",
                                         .reason_class = "transient",
                                         .reason = "no\troute"};

    (void)state;
    task_text_attempt(&out, &attempt, true, NOW_MS);
    assert_shows("3.0 s ago     12 ms     failed");
    assert_shows("transient: no route");
    buf_reset(&out);
    task_text_attempt_json(&out, &attempt);
    assert_shows("\"took_ms\": 12");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_shows_when_the_task_is_due, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_in_a_task_steers_the_terminal, setup, teardown),
        cmocka_unit_test_setup_teardown(long_keys_and_long_reasons_stay_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_word_for_the_shell_is_quoted_where_it_must_be, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_is_one_json_object, setup, teardown),
        cmocka_unit_test_setup_teardown(an_attempt_is_a_line_or_an_object, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
