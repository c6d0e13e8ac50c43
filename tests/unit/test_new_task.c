/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/new_task.h"

#include "common/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct retry_new_task good = {.scene = "mail.send", .handler = "http"};

static void assert_refused(struct retry_new_task task, const char *fault)
{
    struct err err = {0};

    assert_int_equal(new_task_check(&task, 7, &err), RC_REJECT);
    if (!strstr(err.text, fault) || strncmp(err.text, "task 7: ", 8) != 0)
        fail_msg("\"%s\" was expected in: %s", fault, err.text);
}

static void full_and_minimal_tasks_are_accepted(void **state)
{
    struct retry_new_task full = {
        .group = "shop-1",
        .scene = "a:b.c_D",
        .handler = "kafka",
        .ordering_key = "k\xc3\xa9y",
        .idempotency_key = "once",
        .biz_no = "2026/1",
        .options = "{\"topic\":\"t\"}",
        .params = "x",
        .params_len = 1,
        .params_type = "text/plain; charset=utf-8",
        .delay_ms = 5,
        .parent_id = 3,
    };

    (void)state;
    assert_int_equal(new_task_check(&good, 0, NULL), RC_OK);
    assert_int_equal(new_task_check(&full, 0, NULL), RC_OK);
}

static void a_wrong_name_is_refused(void **state)
{
    struct retry_new_task task = good;
    char long_name[RETRY_NAME_BYTES_MAX + 2];

    (void)state;
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    task.scene = NULL;
    assert_refused(task, "scene is missing");
    task.scene = "";
    assert_refused(task, "scene is missing");
    task.scene = "two words";
    assert_refused(task, "scene has a character");
    task.scene = long_name;
    assert_refused(task, "scene is longer than 64 bytes");
    task = good;
    task.handler = long_name;
    assert_refused(task, "handler is longer than 32 bytes");
    task = good;
    task.group = "";
    assert_refused(task, "group is missing");
}

static void a_wrong_text_is_refused(void **state)
{
    struct retry_new_task task = good;
    char text[2 * RETRY_ORDERING_KEY_CHARS_MAX + 3] = "";

    (void)state;
    for (int i = 0; i < RETRY_ORDERING_KEY_CHARS_MAX; i++)
        strncat(text, "\xc3\xa9", 3);
    task.ordering_key = text;
    assert_int_equal(new_task_check(&task, 0, NULL), RC_OK);
    strncat(text, "x", 2);
    assert_refused(task, "ordering_key is longer than 512 characters");
    task.ordering_key = "\xff";
    assert_refused(task, "ordering_key is not UTF-8");
    task = good;
    task.idempotency_key = "";
    assert_refused(task, "idempotency_key is empty");
    task = good;
    task.biz_no = "12345678901234567890123456789012345678901234567890123456789012345";
    assert_refused(task, "biz_no is longer than 64 characters");
}

static void wrong_options_and_params_are_refused(void **state)
{
    struct retry_new_task task = good;
    char *options = calloc(1, RETRY_OPTIONS_BYTES_MAX + 2);

    (void)state;
    assert_non_null(options);
    task.options = "[1]";
    assert_refused(task, "options are not a JSON object");
    task.options = "{\"a\":";
    assert_refused(task, "options are not a JSON object: ");
    memset(options, ' ', RETRY_OPTIONS_BYTES_MAX + 1);
    task.options = options;
    assert_refused(task, "options are longer than 65535 bytes");
    task = good;
    task.params = "";
    task.params_len = RETRY_PARAMS_BYTES_MAX + 1;
    assert_refused(task, "params are longer than 16777216 bytes");
    task = good;
    task.params_type = "";
    assert_refused(task, "params_type");
    task.params_type = "a\nb";
    assert_refused(task, "printable ASCII");
    task = good;
    task.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_int_equal(new_task_check(&task, 0, NULL), RC_OK);
    task.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
    assert_refused(task, "traceparent is not one of W3C Trace Context");
    free(options);
}

static void wrong_numbers_are_refused(void **state)
{
    struct retry_new_task task = good;

    (void)state;
    task.delay_ms = -1;
    assert_refused(task, "delay_ms");
    task.delay_ms = NEW_TASK_DELAY_MS_MAX + 1;
    assert_refused(task, "delay_ms");
    task = good;
    task.parent_id = -1;
    assert_refused(task, "parent_id");
}

static void assert_hash(const struct retry_new_task *task, const char *expected)
{
    struct new_task_hash hash;
    struct buf buf = {0};

    assert_int_equal(new_task_hash(task, OWNER_CLIENT, &hash, NULL), RC_OK);
    buf_hex(&buf, hash.bytes, sizeof(hash.bytes));
    assert_string_equal(buf_text(&buf), expected);
    buf_done(&buf);
}

/* The expected values are what a server made of the same columns. */
static void a_hash_is_the_one_of_the_table(void **state)
{
    struct retry_new_task task = {.scene = "a", .handler = "kafka"};

    (void)state;
    assert_hash(&task, "b2c9033342642ca795337c46514058f3e6d81f206b5e361ecb6b16e8a50e90e8");
    task.params = "0";
    task.params_len = 1;
    assert_hash(&task, "7f55c4fabd19b3703b0a4fd820cd8997697af1922d369ecee92ecb39205be7a5");
    task.ordering_key = "k\xc3\xa9y";
    task.biz_no = "b";
    task.options = "{}";
    assert_hash(&task, "01fd3ab126f07de75a6738a67184f57b42897e6d453ed273caee8ddcc0aee0df");
    task.idempotency_key = "once";
    assert_hash(&task, "2bcd47909d8abb72ca21d79cd7d7c83e082538d7875ff58af565b50f329a5bff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_and_minimal_tasks_are_accepted),
        cmocka_unit_test(a_wrong_name_is_refused),
        cmocka_unit_test(a_wrong_text_is_refused),
        cmocka_unit_test(wrong_options_and_params_are_refused),
        cmocka_unit_test(wrong_numbers_are_refused),
        cmocka_unit_test(a_hash_is_the_one_of_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
