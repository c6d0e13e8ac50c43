/* SPDX-License-Identifier: MIT */
#include "outbox/relay/record_row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NOW_MS INT64_C(1772600767089)
#define HOUR_MS INT64_C(3600000)
#define OLDER_MS_MAX (12 * HOUR_MS)

static struct bytes text_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

static int64_t timestamp_of(int64_t created_ms, int64_t older_ms_max)
{
    const struct relay_row row = {.created_ms = created_ms, .read_ms = NOW_MS};

    return record_timestamp(&row, older_ms_max);
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
    assert_int_equal(record_timestamp(&row, OLDER_MS_MAX), NOW_MS + HOUR_MS);
}

struct found {
    size_t count;
    char value[64];
};

static void on_header(void *ctx, const char *name, struct bytes value)
{
    struct found *found = ctx;

    if (strcmp(name, RECORD_ORIGINAL_TIMESTAMP) != 0)
        return;
    found->count++;
    assert_true(value.len < sizeof(found->value));
    memcpy(found->value, value.data, value.len);
    found->value[value.len] = '\0';
}

static struct found original_of(int64_t created_ms, int64_t timestamp_ms, const char *headers)
{
    const struct relay_row row = {.seq = 1,
                                  .created_ms = created_ms,
                                  .id = text_of("e"),
                                  .headers = headers ? text_of(headers) : (struct bytes){0}};
    struct found found = {0};

    assert_int_equal(record_headers(&row, timestamp_ms, "outbox", "", on_header, &found, NULL),
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_the_time_of_its_row),
        cmocka_unit_test(a_time_ahead_of_the_database_becomes_its_now),
        cmocka_unit_test(a_time_that_the_topic_does_not_keep_is_brought_forward),
        cmocka_unit_test(a_row_without_a_time_of_reading_keeps_its_own),
        cmocka_unit_test(a_changed_time_is_kept_in_a_header),
        cmocka_unit_test(an_application_that_gives_the_header_itself_is_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
