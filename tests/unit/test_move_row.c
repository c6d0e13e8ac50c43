/* SPDX-License-Identifier: MIT */
#include "outbox/relay/move_row.h"
#include "outbox/relay/time_row.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define OWN_HEADERS                                                                   \
    "\"headers\":[[\"id\",\"e-1\"],[\"ce_specversion\",\"1.0\"],[\"ce_id\",\"e-1\"]," \
    "[\"ce_type\",\"Happened\"],[\"ce_source\",\"tallybox\"],"                        \
    "[\"ce_time\",\"2026-03-04T05:06:07.089Z\"],[\"seq\",\"42\"],[\"lane\",\"outbox\"]"

static struct bytes bytes_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

static struct relay_row row_of(void)
{
    return (struct relay_row){
        .seq = 42,
        .created_ms = INT64_C(1772600767089),
        .id = bytes_of("e-1"),
        .aggregate_id = bytes_of("4711"),
        .type = bytes_of("Happened"),
    };
}

static void assert_options_from(const struct relay_row *row, const char *topic, const char *source,
                                const char *json)
{
    struct buf out = {0};

    assert_int_equal(move_row_put_options(&out, row, topic, "outbox", source, NULL), RC_OK);
    assert_string_equal(buf_text(&out), json);
    buf_done(&out);
}

static void assert_options(const struct relay_row *row, const char *topic, const char *json)
{
    assert_options_from(row, topic, "tallybox", json);
}

static void a_row_is_the_record_that_the_relay_would_have_sent(void **state)
{
    struct relay_row row = row_of();

    (void)state;
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"key\":\"4711\"," OWN_HEADERS
                   "],\"timestampMs\":1772600767089}");
    row.headers = bytes_of("{\"b\":\"2\",\"a\":\"\xc3\xa4\\n\"}");
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"key\":\"4711\"," OWN_HEADERS
                   ",[\"b\",\"2\"],[\"a\",\"\xc3\xa4\\n\"]],\"timestampMs\":1772600767089}");
}

static void without_a_source_there_are_no_cloud_events(void **state)
{
    struct relay_row row = row_of();

    (void)state;
    row.headers = bytes_of("{\"ce_type\":\"Own\",\"a\":\"1\"}");
    assert_options_from(&row, "t", "",
                        "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[[\"id\",\"e-1\"],"
                        "[\"seq\",\"42\"],[\"lane\",\"outbox\"],[\"ce_type\",\"Own\"],"
                        "[\"a\",\"1\"]],\"timestampMs\":1772600767089}");
}

static void bytes_that_are_no_text_are_hexadecimal(void **state)
{
    struct relay_row row = row_of();

    (void)state;
    row.aggregate_id = (struct bytes){"\xff\0x", 3};
    row.id = (struct bytes){"\x80", 1};
    row.type = (struct bytes){"a\0", 2};
    row.created_ms = UTC_UNKNOWN_MS;
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"keyHex\":\"ff0078\",\"headers\":[[\"id\",{\"hex\":\"80\"}],"
                   "[\"ce_specversion\",\"1.0\"],[\"ce_id\",{\"hex\":\"80\"}],"
                   "[\"ce_type\",{\"hex\":\"6100\"}],[\"ce_source\",\"tallybox\"],"
                   "[\"seq\",\"42\"],[\"lane\",\"outbox\"]]}");
}

/* NULL and empty are not the same to Kafka. */
static void a_key_may_be_missing_or_empty(void **state)
{
    struct relay_row row = row_of();

    (void)state;
    row.aggregate_id = (struct bytes){NULL, 0};
    assert_options(&row, "", "{\"topic\":\"\"," OWN_HEADERS "],\"timestampMs\":1772600767089}");
    row.aggregate_id = bytes_of("");
    assert_options(&row, "",
                   "{\"topic\":\"\",\"key\":\"\"," OWN_HEADERS "],\"timestampMs\":1772600767089}");
}

/* Nothing is left out in silence: as a text they are what no handler takes. */
static void headers_that_make_no_record_stand_as_they_are(void **state)
{
    static const char *const columns[][2] = {
        {"{not json", "\"{not json\""},
        {"[1]", "\"[1]\""},
        {"{\"a\":1}", "\"{\\\"a\\\":1}\""},
        {"{\"seq\":\"1\"}", "\"{\\\"seq\\\":\\\"1\\\"}\""},
        {"", "\"\""},
        {"\xff", "\"hex:ff\""},
    };
    char json[256];

    (void)state;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        struct relay_row row = row_of();

        row.headers = bytes_of(columns[i][0]);
        row.created_ms = 0;
        snprintf(json, sizeof(json), "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":%s}",
                 columns[i][1]);
        assert_options(&row, "t", json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_the_record_that_the_relay_would_have_sent),
        cmocka_unit_test(without_a_source_there_are_no_cloud_events),
        cmocka_unit_test(bytes_that_are_no_text_are_hexadecimal),
        cmocka_unit_test(a_key_may_be_missing_or_empty),
        cmocka_unit_test(headers_that_make_no_record_stand_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
