/* SPDX-License-Identifier: MIT */
#include "outbox/relay/row_record.h"

#include "common/config/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NOW_MS INT64_C(1772600767089)
#define HOUR_MS INT64_C(3600000)
#define OLDER_MS_MAX (12 * HOUR_MS)

#define OWN_HEADERS                                                                   \
    "\"headers\":[[\"id\",\"e-1\"],[\"ce_specversion\",\"1.0\"],[\"ce_id\",\"e-1\"]," \
    "[\"ce_type\",\"Happened\"],[\"ce_source\",\"tallybox\"],"                        \
    "[\"ce_time\",\"2026-03-04T05:06:07.089Z\"],[\"seq\",\"42\"],[\"lane\",\"outbox\"]"

static struct bytes text_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

static int64_t timestamp_of(int64_t created_ms, int64_t older_ms_max)
{
    const struct relay_row row = {.created_ms = created_ms, .read_ms = NOW_MS};

    return row_record_timestamp(&row, older_ms_max);
}

static void a_record_has_the_time_of_its_row(void **state)
{
    (void)state;
    assert_int_equal(timestamp_of(NOW_MS, OLDER_MS_MAX), NOW_MS);
    assert_int_equal(timestamp_of(NOW_MS - 1, OLDER_MS_MAX), NOW_MS - 1);
    assert_int_equal(timestamp_of(NOW_MS - OLDER_MS_MAX, OLDER_MS_MAX), NOW_MS - OLDER_MS_MAX);
    assert_int_equal(timestamp_of(1, INT64_MAX), 1);
    assert_int_equal(timestamp_of(ROW_CREATED_UNKNOWN, OLDER_MS_MAX), 0);
}

static void a_time_ahead_of_the_database_becomes_its_now(void **state)
{
    (void)state;
    assert_int_equal(timestamp_of(NOW_MS + 1, OLDER_MS_MAX), NOW_MS);
    assert_int_equal(timestamp_of(NOW_MS + 1000 * HOUR_MS, INT64_MAX), NOW_MS);
}

static void a_time_that_the_topic_does_not_keep_is_brought_forward(void **state)
{
    (void)state;
    assert_int_equal(timestamp_of(NOW_MS - OLDER_MS_MAX - 1, OLDER_MS_MAX), NOW_MS - OLDER_MS_MAX);
    assert_int_equal(timestamp_of(-5, OLDER_MS_MAX), NOW_MS - OLDER_MS_MAX);
    assert_int_equal(timestamp_of(1, 0), NOW_MS);
    assert_int_equal(timestamp_of(-5, INT64_MAX), 0);
}

static void a_row_without_a_time_of_reading_keeps_its_own(void **state)
{
    const struct relay_row row = {.created_ms = NOW_MS + HOUR_MS};

    (void)state;
    assert_int_equal(row_record_timestamp(&row, OLDER_MS_MAX), NOW_MS + HOUR_MS);
}

struct found {
    size_t count;
    char value[64];
};

static void on_header(void *ctx, const char *name, struct bytes value)
{
    struct found *found = ctx;

    if (strcmp(name, ROW_RECORD_ORIGINAL_TIMESTAMP) != 0)
        return;
    found->count++;
    assert_true(value.len < sizeof(found->value));
    memcpy(found->value, value.data, value.len);
    found->value[value.len] = '\0';
}

static struct found original_of(int64_t created_ms, int64_t timestamp_ms, const char *headers)
{
    const struct relay_row row = {.table_seq = 1,
                                  .created_ms = created_ms,
                                  .id = text_of("e"),
                                  .headers = headers ? text_of(headers) : (struct bytes){0}};
    struct found found = {0};

    assert_int_equal(row_record_headers(&row, timestamp_ms, "outbox", "", on_header, &found, NULL),
                     RC_OK);
    return found;
}

static void a_changed_time_is_kept_in_a_header(void **state)
{
    struct found found = original_of(NOW_MS + HOUR_MS, NOW_MS, NULL);

    (void)state;
    assert_int_equal(found.count, 1);
    assert_string_equal(found.value, "2026-03-04T06:06:07.089Z");
    assert_int_equal(original_of(NOW_MS, NOW_MS, NULL).count, 0);
    assert_int_equal(original_of(ROW_CREATED_UNKNOWN, 0, NULL).count, 0);
}

static void an_application_that_gives_the_header_itself_is_believed(void **state)
{
    struct found found = original_of(NOW_MS + HOUR_MS, NOW_MS, "{\"original_timestamp\":\"mine\"}");

    (void)state;
    assert_int_equal(found.count, 1);
    assert_string_equal(found.value, "mine");
}

static struct relay_row row_of(void)
{
    return (struct relay_row){
        .table_seq = 42,
        .created_ms = NOW_MS,
        .id = text_of("e-1"),
        .aggregate_id = text_of("4711"),
        .type = text_of("Happened"),
    };
}

static void assert_options_from(const struct relay_row *row, const char *topic, const char *source,
                                const char *json)
{
    struct buf out = {0};

    assert_int_equal(row_record_put_options(&out, row, topic, "outbox", source, NULL, NULL), RC_OK);
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
    row.headers = text_of("{\"b\":\"2\",\"a\":\"\xc3\xa4\\n\"}");
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"key\":\"4711\"," OWN_HEADERS
                   ",[\"b\",\"2\"],[\"a\",\"\xc3\xa4\\n\"]],\"timestampMs\":1772600767089}");
}

/* A member of the headers column stands for the column of that name. */
static void columns_are_headers_of_the_record_too(void **state)
{
    struct relay_row row = row_of();
    struct buf extras = {0};

    (void)state;
    relay_extra_put(&extras, "tenant", text_of("t-1"));
    relay_extra_put(&extras, "raw", (struct bytes){"\xff\0", 2});
    relay_extra_put(&extras, "none", (struct bytes){NULL, 0});
    row.extras = (struct bytes){extras.data, extras.len};
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"key\":\"4711\"," OWN_HEADERS
                   ",[\"tenant\",\"t-1\"],[\"raw\",{\"hex\":\"ff00\"}],[\"none\",null]],"
                   "\"timestampMs\":1772600767089}");
    row.headers = text_of("{\"tenant\":\"mine\"}");
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"key\":\"4711\"," OWN_HEADERS
                   ",[\"raw\",{\"hex\":\"ff00\"}],[\"none\",null],[\"tenant\",\"mine\"]],"
                   "\"timestampMs\":1772600767089}");
    /* They are also beside headers that an operator has to correct. */
    row.headers = text_of("[]");
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"key\":\"4711\"," OWN_HEADERS
                   ",[\"tenant\",\"t-1\"],[\"raw\",{\"hex\":\"ff00\"}],[\"none\",null]],"
                   "\"rowHeaders\":\"[]\",\"timestampMs\":1772600767089}");
    buf_done(&extras);
}

static void without_a_source_there_are_no_cloud_events(void **state)
{
    struct relay_row row = row_of();

    (void)state;
    row.headers = text_of("{\"ce_type\":\"Own\",\"a\":\"1\"}");
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
    row.type = (struct bytes){"a\0", 2};
    row.created_ms = ROW_CREATED_UNKNOWN;
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"keyHex\":\"ff0078\",\"headers\":[[\"id\",\"e-1\"],"
                   "[\"ce_specversion\",\"1.0\"],[\"ce_id\",\"e-1\"],"
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
    row.aggregate_id = text_of("");
    assert_options(&row, "",
                   "{\"topic\":\"\",\"key\":\"\"," OWN_HEADERS "],\"timestampMs\":1772600767089}");
}

/* Nothing is left out silently: the handler accepts no rowHeaders. The relay's own headers stand
 * beside them. */
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
    char json[512];

    (void)state;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        struct relay_row row = row_of();

        row.headers = text_of(columns[i][0]);
        snprintf(json, sizeof(json),
                 "{\"topic\":\"t\",\"key\":\"4711\"," OWN_HEADERS
                 "],\"rowHeaders\":%s,\"timestampMs\":1772600767089}",
                 columns[i][1]);
        assert_options(&row, "t", json);
    }
}

static void an_id_of_16_bytes_is_sent_as_the_text_of_a_uuid(void **state)
{
    struct relay_row row = row_of();

    (void)state;
    row.id = (struct bytes){"\x01\x89\0\0\0\0\x70\0\x80\0\0\0\0\0\0\x01", 16};
    assert_options_from(&row, "t", "",
                        "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[[\"id\","
                        "\"01890000-0000-7000-8000-000000000001\"],[\"seq\",\"42\"],"
                        "[\"lane\",\"outbox\"]],\"timestampMs\":1772600767089}");
    /* A CHAR column drops the blank at the end. */
    row.id = (struct bytes){"\x01\x89\0\0\0\0\x70\0\x80\0\0\0\0\0\0", 15};
    row.id_padded = true;
    assert_options_from(&row, "t", "",
                        "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[[\"id\","
                        "\"01890000-0000-7000-8000-000000000020\"],[\"seq\",\"42\"],"
                        "[\"lane\",\"outbox\"]],\"timestampMs\":1772600767089}");
    row.id = text_of("sixteen letters.");
    assert_options_from(&row, "t", "",
                        "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[[\"id\","
                        "\"sixteen letters.\"],[\"seq\",\"42\"],"
                        "[\"lane\",\"outbox\"]],\"timestampMs\":1772600767089}");
}

/* Such a text is no UUID that lost the blanks at its end. */
static void a_short_text_in_a_char_column_stays_as_it_is(void **state)
{
    static const char *const ids[] = {"bestell\303\274ng", "gr\303\266\303\237e-0815",
                                      "gr\303\266\303\237e-08154", "\342\202\254-0123456789",
                                      "\360\237\230\200-0123456789"};
    struct relay_row row = row_of();
    char uuid[ID_TEXT_SIZE];

    (void)state;
    row.id_padded = true;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct bytes id;

        row.id = text_of(ids[i]);
        id = relay_row_id(&row, uuid);
        assert_int_equal(id.len, strlen(ids[i]));
        assert_memory_equal(id.data, ids[i], id.len);
        assert_int_equal(relay_row_check(&row, INT64_MAX, NULL), RC_OK);
    }
    /* This one is, although it has the same length. */
    row.id = (struct bytes){"\x01\x89\0\0\0\0\x70\0\x80\0\0\0", 12};
    assert_int_equal(relay_row_id(&row, uuid).len, ID_TEXT_SIZE - 1);
    assert_string_equal(uuid, "01890000-0000-7000-8000-000020202020");
}

/* The handler accepts no rowId. */
static void an_id_that_is_not_printable_is_kept_for_the_operator(void **state)
{
    struct relay_row row = row_of();

    (void)state;
    row.id = (struct bytes){"a\0b", 3};
    row.created_ms = 0;
    assert_options_from(&row, "t", "",
                        "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[[\"seq\",\"42\"],"
                        "[\"lane\",\"outbox\"]],\"rowId\":\"hex:610062\"}");
    row.created_ms = NOW_MS;
    row.headers = text_of("{\"a\":\"1\"}");
    assert_options(&row, "t",
                   "{\"topic\":\"t\",\"key\":\"4711\",\"headers\":[[\"ce_specversion\",\"1.0\"],"
                   "[\"ce_type\",\"Happened\"],[\"ce_source\",\"tallybox\"],"
                   "[\"ce_time\",\"2026-03-04T05:06:07.089Z\"],[\"seq\",\"42\"],"
                   "[\"lane\",\"outbox\"],[\"a\",\"1\"]],\"rowId\":\"hex:610062\","
                   "\"timestampMs\":1772600767089}");
}

#define BATCH_BYTES 61      /* of a batch without records */
#define RECORD_BYTES_MAX 36 /* of a record without key, value and headers */
#define LENGTH_BYTES_MAX 5  /* of a name or a value of a header */

static void add_size(void *ctx, const char *name, struct bytes value)
{
    size_t *size = ctx;

    *size += strlen(name) + value.len + 2 * (size_t)LENGTH_BYTES_MAX;
}

static void the_headers_of_the_relay_itself_are_bounded(void **state)
{
    static char longest[ROW_TEXT_BYTES_MAX];
    static char source[SETTING_TEXT_SIZE];
    static char lane[SETTING_NAME_SIZE];
    struct relay_row row = row_of();
    size_t size = BATCH_BYTES + RECORD_BYTES_MAX;

    (void)state;
    memset(longest, 'x', sizeof(longest));
    memset(source, 'x', sizeof(source) - 1);
    memset(lane, 'x', sizeof(lane) - 1);
    row.table_seq = INT64_MAX;
    row.id = row.type = (struct bytes){longest, sizeof(longest)};
    assert_int_equal(relay_row_check(&row, INT64_MAX, NULL), RC_OK);
    assert_int_equal(row_record_headers(&row, NOW_MS - 1, lane, source, add_size, &size, NULL),
                     RC_OK);
    assert_in_range(size, 3 * ROW_TEXT_BYTES_MAX, ROW_RECORD_OWN_BYTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_the_time_of_its_row),
        cmocka_unit_test(a_time_ahead_of_the_database_becomes_its_now),
        cmocka_unit_test(a_time_that_the_topic_does_not_keep_is_brought_forward),
        cmocka_unit_test(a_row_without_a_time_of_reading_keeps_its_own),
        cmocka_unit_test(a_changed_time_is_kept_in_a_header),
        cmocka_unit_test(an_application_that_gives_the_header_itself_is_believed),
        cmocka_unit_test(a_row_is_the_record_that_the_relay_would_have_sent),
        cmocka_unit_test(columns_are_headers_of_the_record_too),
        cmocka_unit_test(without_a_source_there_are_no_cloud_events),
        cmocka_unit_test(bytes_that_are_no_text_are_hexadecimal),
        cmocka_unit_test(a_key_may_be_missing_or_empty),
        cmocka_unit_test(headers_that_make_no_record_stand_as_they_are),
        cmocka_unit_test(an_id_of_16_bytes_is_sent_as_the_text_of_a_uuid),
        cmocka_unit_test(a_short_text_in_a_char_column_stays_as_it_is),
        cmocka_unit_test(an_id_that_is_not_printable_is_kept_for_the_operator),
        cmocka_unit_test(the_headers_of_the_relay_itself_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
