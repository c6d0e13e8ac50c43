/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/kafka_handler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct kafka_options read_options(const char *text)
{
    struct kafka_options options;
    struct err err = {0};

    if (kafka_options_read(&options, text, &err) != RC_OK)
        fail_msg("%s: %s", text, err.text);
    return options;
}

static void assert_bytes(struct bytes bytes, const char *expected, size_t len)
{
    assert_non_null(bytes.data);
    assert_int_equal(bytes.len, len);
    assert_memory_equal(bytes.data, expected, len);
}

static void a_topic_alone_is_enough(void **state)
{
    struct kafka_options options = read_options("{\"topic\": \"orders\"}");

    (void)state;
    assert_string_equal(options.topic, "orders");
    assert_null(options.key.data);
    assert_int_equal(options.timestamp_ms, 0);
    assert_int_equal(options.partition, -1);
    assert_int_equal(options.header_count, 0);
    kafka_options_done(&options);
}

static void a_record_of_the_relay_comes_back_byte_for_byte(void **state)
{
    struct kafka_options options = read_options(
        "{\"topic\": \"orders\", \"keyHex\": \"ff00Aa\", \"timestampMs\": 1700000000123,"
        " \"headers\": [[\"id\", \"a\"], [\"x\", {\"hex\": \"00fe\"}], [\"x\", \"b\\u0000c\"],"
        " [\"empty\", \"\"], [\"none\", null]]}");

    (void)state;
    assert_bytes(options.key, "\xff\x00\xaa", 3);
    assert_int_equal(options.timestamp_ms, INT64_C(1700000000123));
    assert_int_equal(options.header_count, 5);
    assert_string_equal(options.headers[0].name, "id");
    assert_bytes(options.headers[0].value, "a", 1);
    assert_bytes(options.headers[1].value, "\x00\xfe", 2);
    assert_string_equal(options.headers[2].name, "x");
    assert_bytes(options.headers[2].value, "b\0c", 3);
    assert_bytes(options.headers[3].value, "", 0);
    assert_null(options.headers[4].value.data);
    kafka_options_done(&options);
}

static void headers_may_be_an_object(void **state)
{
    struct kafka_options options =
        read_options("{\"headers\": {\"b\": \"1\", \"a\": {\"hex\": \"\"}}, \"topic\": \"t\","
                     " \"key\": \"\", \"partition\": 7}");

    (void)state;
    assert_bytes(options.key, "", 0);
    assert_int_equal(options.partition, 7);
    assert_int_equal(options.header_count, 2);
    assert_string_equal(options.headers[0].name, "b");
    assert_bytes(options.headers[1].value, "", 0);
    kafka_options_done(&options);
}

static const struct {
    const char *text;
    const char *words;
} wrong[] = {
    {"", "not a JSON"},
    {"[]", "not a JSON object"},
    {"{}", "\"topic\" is missing"},
    {"{\"topic\": \"a b\"}", "\"topic\""},
    {"{\"topic\": \"..\"}", "\"topic\""},
    {"{\"topic\": \"a\\u0000b\"}", "\"topic\""},
    {"{\"topic\": 7}", "\"topic\""},
    {"{\"topic\": \"t\", \"topics\": \"u\"}", "has no field \"topics\""},
    {"{\"topic\": \"t\", \"topic\": \"u\"}", "not a JSON"},
    {"{\"topic\": \"t\", \"key\": \"a\", \"keyHex\": \"00\"}", "not both"},
    {"{\"topic\": \"t\", \"key\": 1}", "\"key\""},
    {"{\"topic\": \"t\", \"keyHex\": \"0\"}", "\"keyHex\""},
    {"{\"topic\": \"t\", \"keyHex\": \"0g\"}", "\"keyHex\""},
    {"{\"topic\": \"t\", \"headers\": \"x\"}", "\"headers\""},
    {"{\"topic\": \"t\", \"headers\": [[\"x\"]]}", "[name, value]"},
    {"{\"topic\": \"t\", \"headers\": [[\"\", \"x\"]]}", "a name"},
    {"{\"topic\": \"t\", \"headers\": {\"\": \"x\"}}", "a name is empty"},
    {"{\"topic\": \"t\", \"headers\": [[\"x\", 1]]}", "the value of \"x\""},
    {"{\"topic\": \"t\", \"headers\": [[\"x\", {\"hex\": \"zz\"}]]}", "hexadecimal"},
    {"{\"topic\": \"t\", \"headers\": [[\"x\", {\"base64\": \"zz\"}]]}", "hexadecimal"},
    {"{\"topic\": \"t\", \"timestampMs\": -1}", "\"timestampMs\""},
    {"{\"topic\": \"t\", \"partition\": 4294967296}", "\"partition\""},
};

static void a_wrong_value_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kafka_options options;
        struct err err = {0};

        assert_int_equal(kafka_options_read(&options, wrong[i].text, &err), RC_REJECT);
        if (!strstr(err.text, wrong[i].words))
            fail_msg("%s: %s", wrong[i].text, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_alone_is_enough),
        cmocka_unit_test(a_record_of_the_relay_comes_back_byte_for_byte),
        cmocka_unit_test(headers_may_be_an_object),
        cmocka_unit_test(a_wrong_value_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
