/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/batch.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define GOOD                                                                                \
    "{\"eventId\":\"01970000-0000-7000-8000-000000000001\",\"voterId\":7,\"contentId\":42," \
    "\"voting\":1,\"votes\":3,\"occurredAt\":1790000000000}"

static void no_headers(void *ctx, const struct record *record, struct buf *out)
{
    (void)ctx;
    (void)record;
    buf_text_put(out, "[]");
}

static struct record record_of(int64_t offset, const char *key, const char *value)
{
    return (struct record){
        .offset = offset,
        .time_ms = 1000 + offset,
        .leader_epoch = 5,
        .key = key,
        .key_len = key ? strlen(key) : 0,
        .value = value,
        .value_len = value ? strlen(value) : 0,
    };
}

static void add(struct batch *batch, const struct record *record)
{
    struct err err = {0};

    assert_int_equal(batch_add(batch, record, no_headers, NULL, &err), RC_OK);
}

static void add_text(struct batch *batch, int64_t offset, const char *key, const char *value)
{
    struct record record = record_of(offset, key, value);

    add(batch, &record);
}

static void start(struct batch *batch)
{
    batch_init(batch, 100, 100000);
    batch_reset(batch, 10, 4);
}

static void a_vote_becomes_a_row_without_its_record(void **state)
{
    struct batch batch;
    char value[] = GOOD;
    struct record record = record_of(10, "42", value);

    (void)state;
    start(&batch);
    add(&batch, &record);
    memset(value, 'x', sizeof(value));
    assert_int_equal(batch.row_count, 1);
    assert_int_equal(batch.dead_count, 0);
    assert_int_equal(batch.rows[0].event.voter_id, 7);
    assert_int_equal(batch.rows[0].event.content_id, 42);
    assert_int_equal(batch.rows[0].offset, 10);
    assert_false(batch.rows[0].skip);
    assert_int_equal(batch.bytes.len, 0);
    assert_int_equal(batch.from_offset, 10);
    assert_int_equal(batch.next_offset, 11);
    assert_int_equal(batch.leader_epoch, 5);
    assert_int_equal(batch.oldest_ms, 1010);
    batch_done(&batch);
}

static void assert_dead(const char *key, const char *value, const char *reason_class,
                        const char *reason_part)
{
    struct batch batch;
    struct dead_row dead;
    char reason[600];

    start(&batch);
    add_text(&batch, 10, key, value);
    assert_int_equal(batch.row_count, 0);
    assert_int_equal(batch.dead_count, 1);
    batch_dead_view(&batch, 0, &dead);
    assert_string_equal(dead.reason_class, reason_class);
    snprintf(reason, sizeof(reason), "%.*s", (int)dead.reason_len, dead.reason);
    assert_non_null(strstr(reason, reason_part));
    assert_int_equal(dead.offset, 10);
    assert_int_equal(dead.time_ms, 1010);
    assert_int_equal(dead.key != NULL, key != NULL);
    assert_int_equal(dead.value != NULL, value != NULL);
    if (key)
        assert_memory_equal(dead.key, key, strlen(key));
    if (value)
        assert_memory_equal(dead.value, value, strlen(value));
    assert_int_equal(dead.headers_len, 2);
    assert_int_equal(batch.next_offset, 11);
    batch_done(&batch);
}

static void a_record_that_is_no_vote_event_becomes_dead_with_its_reason(void **state)
{
    (void)state;
    assert_dead("42", "hello", "decode", "");
    assert_dead("42", "", "decode", "");
    assert_dead("42", "{\"voting\":2}", "decode", "");
}

static void a_record_without_value_whose_key_is_a_content_ends_its_tally(void **state)
{
    static const struct {
        const char *key;
        int64_t content_id;
    } cases[] = {{"1", 1}, {"42", 42}, {"9223372036854775807", INT64_MAX}};
    struct batch batch;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(&batch);
        add_text(&batch, 10, cases[i].key, NULL);
        assert_int_equal(batch.row_count, 1);
        assert_int_equal(batch.dead_count, 0);
        assert_true(batch.rows[0].ends);
        assert_false(batch.rows[0].skip);
        assert_int_equal(batch.rows[0].event.content_id, cases[i].content_id);
        assert_int_equal(batch.next_offset, 11);
        /* The row is used again. */
        batch_reset(&batch, 11, 4);
        add_text(&batch, 11, "42", GOOD);
        assert_false(batch.rows[0].ends);
        batch_done(&batch);
    }
}

static void another_record_without_value_is_dead(void **state)
{
    static const char *const keys[] = {NULL,
                                       "",
                                       "0",
                                       "042",
                                       "-1",
                                       "4 2",
                                       "42x",
                                       "x42",
                                       "9223372036854775808",
                                       "92233720368547758070"};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_dead(keys[i], NULL, "tombstone", "no value");
}

/* It has no time, and begin_day is about votes. */
static void a_tombstone_is_never_older_than_the_log(void **state)
{
    struct batch batch;

    (void)state;
    start(&batch);
    batch.begin_day = 20718;
    add_text(&batch, 10, "42", NULL);
    assert_int_equal(batch.row_count, 1);
    assert_false(batch_has_older(&batch, 20719, 10));
    batch_done(&batch);
}

static void a_whole_batch_keeps_the_record_of_a_tombstone(void **state)
{
    struct batch batch;
    struct dead_row view;

    (void)state;
    start(&batch);
    batch.whole = true;
    add_text(&batch, 10, "42", NULL);
    add_text(&batch, 11, "42", GOOD);
    batch_vote_view(&batch, 0, "refused", "why", &view);
    assert_null(view.value);
    assert_memory_equal(view.key, "42", 2);
    batch_vote_view(&batch, 1, "refused", "why", &view);
    assert_memory_equal(view.value, GOOD, strlen(GOOD));
    batch_done(&batch);
}

static void a_vote_under_another_key_is_dead(void **state)
{
    (void)state;
    assert_dead("43", GOOD, "key", "42");
    assert_dead("042", GOOD, "key", "42");
    assert_dead("4", GOOD, "key", "42");
    assert_dead("", GOOD, "key", "42");
}

static void a_vote_without_key_is_dead(void **state)
{
    (void)state;
    assert_dead(NULL, GOOD, "key", "no key");
}

/* GOOD is from 2026-09-21, which is day 20717. */
static void a_vote_from_before_the_log_begins_is_kept_whole(void **state)
{
    struct batch batch;
    struct dead_row dead;
    char reason[600];

    (void)state;
    start(&batch);
    batch.begin_day = 20717;
    add_text(&batch, 10, "42", GOOD);
    assert_int_equal(batch.row_count, 1);
    batch.begin_day = 20718;
    add_text(&batch, 11, "42", GOOD);
    assert_int_equal(batch.row_count, 1);
    assert_int_equal(batch.dead_count, 1);
    batch_dead_view(&batch, 0, &dead);
    assert_string_equal(dead.reason_class, "too_old");
    assert_memory_equal(dead.value, GOOD, strlen(GOOD));
    snprintf(reason, sizeof(reason), "%.*s", (int)dead.reason_len, dead.reason);
    assert_non_null(strstr(reason, "from 2026-09-21, and the log begins on 2026-09-22"));
    batch_done(&batch);
}

static void older_votes_are_seen_where_they_are_not_applied_yet(void **state)
{
    struct batch batch;

    (void)state;
    start(&batch);
    assert_false(batch_has_older(&batch, 99999, 0));
    add_text(&batch, 10, "42", GOOD);
    assert_false(batch_has_older(&batch, 20717, 10));
    assert_true(batch_has_older(&batch, 20718, 10));
    assert_false(batch_has_older(&batch, 20718, 11));
    batch_done(&batch);
}

static void a_reason_is_plain_ascii_for_any_record(void **state)
{
    struct batch batch;
    struct dead_row dead;

    (void)state;
    start(&batch);
    add_text(&batch, 10, "42", "{\"\xff\n\":1}");
    batch_dead_view(&batch, 0, &dead);
    for (size_t i = 0; i < dead.reason_len; i++)
        assert_true(dead.reason[i] >= 0x20 && dead.reason[i] < 0x7f);
    batch_done(&batch);
}

static void it_is_full_at_its_rows(void **state)
{
    struct batch batch;

    (void)state;
    batch_init(&batch, 3, 100000);
    batch_reset(&batch, OFFSET_BEGINNING, -1);
    assert_int_equal(batch_room(&batch), 3);
    add_text(&batch, 0, "42", GOOD);
    add_text(&batch, 1, "42", "bad");
    assert_int_equal(batch_room(&batch), 1);
    add_text(&batch, 2, "42", GOOD);
    assert_int_equal(batch_room(&batch), 0);
    assert_int_equal(batch_count(&batch), 3);
    batch_done(&batch);
}

static void it_is_full_at_its_bytes(void **state)
{
    struct batch batch;

    (void)state;
    batch_init(&batch, 100, strlen(GOOD) + 1);
    batch_reset(&batch, 0, -1);
    add_text(&batch, 0, "", "bad");
    assert_int_equal(batch_room(&batch), 99);
    add_text(&batch, 1, "42", GOOD);
    assert_int_equal(batch_room(&batch), 0);
    batch_done(&batch);
}

static void a_reset_batch_starts_anew_and_gives_big_memory_back(void **state)
{
    static char big[5000];
    struct batch batch;

    (void)state;
    memset(big, 'x', sizeof(big) - 1);
    batch_init(&batch, 100, 1000);
    batch_reset(&batch, 0, -1);
    add_text(&batch, 0, "1", big);
    assert_true(batch.bytes.size > 1000);
    batch_reset(&batch, 7, 2);
    assert_int_equal(batch.bytes.size, 0);
    assert_int_equal(batch_count(&batch), 0);
    assert_int_equal(batch.from_offset, 7);
    assert_int_equal(batch.next_offset, 7);
    assert_int_equal(batch.leader_epoch, 2);
    add_text(&batch, 7, "1", "bad");
    assert_int_equal(batch.dead_count, 1);
    batch_done(&batch);
}

static void many_dead_records_keep_apart(void **state)
{
    struct batch batch;
    struct dead_row dead;
    char value[32];

    (void)state;
    start(&batch);
    for (int i = 0; i < 90; i++) {
        snprintf(value, sizeof(value), "poison %d", i);
        add_text(&batch, 10 + i, i % 2 ? "k" : NULL, value);
    }
    for (int i = 0; i < 90; i++) {
        batch_dead_view(&batch, (size_t)i, &dead);
        snprintf(value, sizeof(value), "poison %d", i);
        assert_int_equal(dead.value_len, strlen(value));
        assert_memory_equal(dead.value, value, strlen(value));
        assert_int_equal(dead.key_len, i % 2);
    }
    batch_done(&batch);
}

static void a_record_of_unknown_leader_keeps_the_epoch(void **state)
{
    struct batch batch;
    struct record record = record_of(10, "42", GOOD);

    (void)state;
    start(&batch);
    record.leader_epoch = -1;
    add(&batch, &record);
    assert_int_equal(batch.leader_epoch, 4);
    batch_done(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vote_becomes_a_row_without_its_record),
        cmocka_unit_test(a_record_that_is_no_vote_event_becomes_dead_with_its_reason),
        cmocka_unit_test(a_record_without_value_whose_key_is_a_content_ends_its_tally),
        cmocka_unit_test(another_record_without_value_is_dead),
        cmocka_unit_test(a_tombstone_is_never_older_than_the_log),
        cmocka_unit_test(a_whole_batch_keeps_the_record_of_a_tombstone),
        cmocka_unit_test(a_vote_under_another_key_is_dead),
        cmocka_unit_test(a_vote_without_key_is_dead),
        cmocka_unit_test(a_vote_from_before_the_log_begins_is_kept_whole),
        cmocka_unit_test(older_votes_are_seen_where_they_are_not_applied_yet),
        cmocka_unit_test(a_reason_is_plain_ascii_for_any_record),
        cmocka_unit_test(it_is_full_at_its_rows),
        cmocka_unit_test(it_is_full_at_its_bytes),
        cmocka_unit_test(a_reset_batch_starts_anew_and_gives_big_memory_back),
        cmocka_unit_test(many_dead_records_keep_apart),
        cmocka_unit_test(a_record_of_unknown_leader_keeps_the_epoch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
