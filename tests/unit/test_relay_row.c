/* SPDX-License-Identifier: MIT */
#include "outbox/relay/relay_row.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct relay_row row(int64_t seq, const char *payload)
{
    return (struct relay_row){
        .seq = seq,
        .id = {"id", 2},
        .aggregate_type = {"vote", 4},
        .aggregate_id = {"", 0},
        .payload = {payload, payload ? strlen(payload) : 0},
    };
}

static void a_row_is_kept_with_its_bytes(void **state)
{
    struct relay_batch batch;
    char payload[] = "hello";
    struct relay_row in = row(7, payload);

    (void)state;
    assert_int_equal(relay_batch_init(&batch, 4, 100, NULL), RC_OK);
    assert_true(relay_batch_add(&batch, &in));
    memset(payload, 'x', 5);
    assert_int_equal(batch.rows[0].seq, 7);
    assert_int_equal(batch.rows[0].payload.len, 5);
    assert_memory_equal(batch.rows[0].payload.data, "hello", 5);
    assert_memory_equal(batch.rows[0].aggregate_type.data, "vote", 4);
    relay_batch_done(&batch);
}

static void an_empty_value_stays_apart_from_null(void **state)
{
    struct relay_batch batch;
    struct relay_row in = row(7, NULL);

    (void)state;
    assert_int_equal(relay_batch_init(&batch, 4, 100, NULL), RC_OK);
    assert_true(relay_batch_add(&batch, &in));
    assert_null(batch.rows[0].payload.data);
    assert_non_null(batch.rows[0].aggregate_id.data);
    assert_int_equal(batch.rows[0].aggregate_id.len, 0);
    relay_batch_done(&batch);
}

static void the_extras_of_a_row_are_copied_with_it(void **state)
{
    struct buf extras = {0};
    struct relay_row in = row(7, NULL);
    struct relay_row *copy;
    struct bytes rest;
    struct bytes value;
    const char *name;

    (void)state;
    relay_extra_put(&extras, "tenant", (struct bytes){"a\0b", 3});
    relay_extra_put(&extras, "none", (struct bytes){NULL, 0});
    relay_extra_put(&extras, "empty", (struct bytes){"", 0});
    assert_int_equal(extras.len, relay_extra_size("tenant", (struct bytes){"", 3}) +
                                     relay_extra_size("none", (struct bytes){NULL, 0}) +
                                     relay_extra_size("empty", (struct bytes){"", 0}));
    in.extras = (struct bytes){extras.data, extras.len};
    assert_int_equal(relay_row_bytes(&in), relay_row_bytes(&(struct relay_row){0}) + in.id.len +
                                               in.aggregate_type.len + extras.len);
    copy = relay_row_copy(&in);
    assert_non_null(copy);
    buf_done(&extras);
    rest = copy->extras;
    assert_true(relay_extra_next(&rest, &name, &value));
    assert_string_equal(name, "tenant");
    assert_int_equal(value.len, 3);
    assert_memory_equal(value.data, "a\0b", 3);
    assert_true(relay_extra_next(&rest, &name, &value));
    assert_string_equal(name, "none");
    assert_null(value.data);
    assert_true(relay_extra_next(&rest, &name, &value));
    assert_string_equal(name, "empty");
    assert_non_null(value.data);
    assert_int_equal(value.len, 0);
    assert_false(relay_extra_next(&rest, &name, &value));
    free(copy);
}

static void a_copy_of_a_row_has_its_own_bytes(void **state)
{
    char payload[] = "a\0b";
    struct relay_row in = row(7, NULL);
    struct relay_row *copy;

    (void)state;
    in.payload = (struct bytes){payload, 3};
    copy = relay_row_copy(&in);
    assert_non_null(copy);
    memset(payload, 'x', 3);
    assert_int_equal(copy->seq, 7);
    assert_int_equal(copy->payload.len, 3);
    assert_memory_equal(copy->payload.data, "a\0b", 3);
    assert_memory_equal(copy->id.data, "id", 2);
    assert_ptr_not_equal(copy->aggregate_type.data, in.aggregate_type.data);
    assert_memory_equal(copy->aggregate_type.data, "vote", 4);
    assert_non_null(copy->aggregate_id.data);
    assert_int_equal(copy->aggregate_id.len, 0);
    assert_null(copy->headers.data);
    free(copy);
}

static void a_row_that_does_not_fit_changes_nothing(void **state)
{
    struct relay_batch batch;
    struct relay_row small = row(1, "1234");
    struct relay_row large = row(2, "12345");

    (void)state;
    assert_int_equal(relay_batch_init(&batch, 2, 20, NULL), RC_OK);
    assert_true(relay_batch_add(&batch, &small));
    assert_false(relay_batch_add(&batch, &large));
    assert_int_equal(batch.count, 1);
    assert_true(relay_batch_add(&batch, &small));
    assert_false(relay_batch_add(&batch, &small));
    relay_batch_reset(&batch);
    assert_true(relay_batch_add(&batch, &large));
    assert_int_equal(batch.count, 1);
    relay_batch_done(&batch);
}

static void sorting_brings_rows_into_the_order_of_seq(void **state)
{
    struct relay_batch batch;
    const int64_t seqs[] = {7, 8, 9, 2, 5};

    (void)state;
    assert_int_equal(relay_batch_init(&batch, 8, 100, NULL), RC_OK);
    for (size_t i = 0; i < 5; i++) {
        struct relay_row in = row(seqs[i], "");

        assert_true(relay_batch_add(&batch, &in));
    }
    relay_batch_sort(&batch);
    for (size_t i = 1; i < 5; i++)
        assert_true(batch.rows[i - 1].seq < batch.rows[i].seq);
    relay_batch_done(&batch);
}

static void assert_refused(const struct relay_row *row, const char *why)
{
    struct err err = {0};

    assert_int_equal(relay_row_check(row, 100, &err), RC_REJECT);
    if (!strstr(err.text, why))
        fail_msg("%s: %s is missing", err.text, why);
}

static void a_row_above_the_limit_is_refused_with_both_sizes(void **state)
{
    struct relay_row checked = row(1, "");

    (void)state;
    checked.size = 100;
    assert_int_equal(relay_row_check(&checked, 100, NULL), RC_OK);
    checked.size = 101;
    assert_refused(&checked, "101 bytes, relay.row_bytes_max is 100");
    checked.headers_size = ROW_HEADERS_BYTES_MAX + 1;
    assert_refused(&checked, "headers have 65536 bytes, 65535 at most");
}

static void a_text_that_is_too_long_is_refused_by_name(void **state)
{
    static char text[ROW_TEXT_BYTES_MAX + 1];
    struct relay_row checked = row(1, "");

    (void)state;
    memset(text, 'x', sizeof(text));
    checked.aggregate_id = (struct bytes){text, ROW_TEXT_BYTES_MAX};
    assert_int_equal(relay_row_check(&checked, 100, NULL), RC_OK);
    checked.aggregate_id.len++;
    assert_refused(&checked, "aggregateid is longer than 1024 bytes");
}

static void an_id_is_printable_or_the_16_bytes_of_a_uuid(void **state)
{
    static const struct bytes good[] = {{"", 0},
                                        {"order/7", 7},
                                        {"\xc3\xbc", 2},
                                        {"\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xff", 16}};
    static const struct bytes bad[] = {{"a\0b", 3}, {"a\nb", 3}, {"\xff", 1}, {"\x7f", 1}};
    struct relay_row checked = row(1, "");

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        checked.id = good[i];
        assert_int_equal(relay_row_check(&checked, 100, NULL), RC_OK);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        checked.id = bad[i];
        assert_refused(&checked, "id is neither");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_kept_with_its_bytes),
        cmocka_unit_test(an_empty_value_stays_apart_from_null),
        cmocka_unit_test(a_copy_of_a_row_has_its_own_bytes),
        cmocka_unit_test(the_extras_of_a_row_are_copied_with_it),
        cmocka_unit_test(a_row_that_does_not_fit_changes_nothing),
        cmocka_unit_test(sorting_brings_rows_into_the_order_of_seq),
        cmocka_unit_test(a_row_above_the_limit_is_refused_with_both_sizes),
        cmocka_unit_test(a_text_that_is_too_long_is_refused_by_name),
        cmocka_unit_test(an_id_is_printable_or_the_16_bytes_of_a_uuid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
