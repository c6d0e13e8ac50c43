/* SPDX-License-Identifier: MIT */
/* Compressed transactions and events that are made by hand: bytes that are cut off or changed,
 * lengths that are not true, and small inputs that expand to more than may be held. */
#include "outbox/relay/binlog/expand.h"
#include "outbox/relay/binlog/payload.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define EVENT_BYTES_MAX 100000
#define ALGORITHM_ZSTD 0
#define ALGORITHM_NONE 255
#define INNER_MAX 300000

static uint8_t inner[INNER_MAX]; /* events */
static size_t inner_len;
static uint8_t body[INNER_MAX]; /* of the outer event */
static size_t body_len;
static struct binlog_payload payload;
static struct err err;

static void put_le(uint8_t *bytes, size_t *len, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[(*len)++] = (uint8_t)(value >> 8 * i);
}

/* An event that says that it has `size` bytes, and has `more` behind its header. */
static void put_inner(uint32_t size, size_t more)
{
    put_le(inner, &inner_len, 1790000000, 4);
    put_le(inner, &inner_len, BINLOG_ROWS_QUERY, 1);
    put_le(inner, &inner_len, 7, 4); /* server */
    put_le(inner, &inner_len, size, 4);
    put_le(inner, &inner_len, 0, 4);
    put_le(inner, &inner_len, 0, 2);
    memset(inner + inner_len, 'x', more);
    inner_len += more;
}

static void put_good(size_t more)
{
    put_inner((uint32_t)(BINLOG_HEADER_SIZE + more), more);
}

static void put_field(uint8_t type, uint64_t value)
{
    put_le(body, &body_len, type, 1);
    put_le(body, &body_len, 9, 1);
    put_le(body, &body_len, 254, 1); /* eight bytes follow */
    put_le(body, &body_len, value, 8);
}

/* The fields in front of the bytes, and the bytes. */
static void put_body(uint64_t algorithm, const uint8_t *bytes, size_t len)
{
    body_len = 0;
    put_field(2, algorithm);
    put_field(3, inner_len);
    put_field(1, len);
    put_le(body, &body_len, 0, 1);
    memcpy(body + body_len, bytes, len);
    body_len += len;
}

static void compress_inner(void)
{
    static uint8_t bytes[INNER_MAX];
    size_t len = ZSTD_compress(bytes, sizeof(bytes), inner, inner_len, 3);

    assert_false(ZSTD_isError(len));
    put_body(ALGORITHM_ZSTD, bytes, len);
}

/* Reads all events of the first `len` bytes of the body; *count of them were found. The bytes are
 * where a read beyond them is seen. */
static enum rc read_some(size_t len, size_t *count)
{
    uint8_t *bytes = malloc(len ? len : 1);
    struct binlog_event outer = {.body = bytes, .body_len = len};
    struct binlog_event event;
    bool found = true;
    enum rc rc;

    assert_non_null(bytes);
    memcpy(bytes, body, len);
    memset(&err, 0, sizeof(err));
    *count = 0;
    rc = binlog_payload_begin(&payload, &outer, &err);
    while (rc == RC_OK && found) {
        rc = binlog_payload_next(&payload, &event, &found, &err);
        *count += rc == RC_OK && found;
    }
    free(bytes);
    return rc;
}

static enum rc read_all(size_t *count)
{
    return read_some(body_len, count);
}

static void assert_refused(enum rc rc, const char *what)
{
    assert_int_equal(rc, RC_FATAL);
    if (!strstr(err.text, what))
        fail_msg("'%s' does not say '%s'", err.text, what);
}

static int set_up(void **state)
{
    (void)state;
    inner_len = body_len = 0;
    binlog_payload_init(&payload, EVENT_BYTES_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    binlog_payload_done(&payload);
    return 0;
}

static void events_come_one_after_the_other(void **state)
{
    size_t count;

    (void)state;
    put_good(1000);
    put_good(0);
    put_good(20);
    compress_inner();
    assert_int_equal(read_all(&count), RC_OK);
    assert_int_equal(count, 3);
    put_body(ALGORITHM_NONE, inner, inner_len);
    assert_int_equal(read_all(&count), RC_OK);
    assert_int_equal(count, 3);
}

/* A few bytes may expand to far more than an event may have: no more than that is held. */
static void an_event_that_expands_beyond_the_limit_is_refused(void **state)
{
    size_t count;

    (void)state;
    put_inner(UINT32_MAX, 200000);
    compress_inner();
    assert_true(body_len < 1000);
    assert_refused(read_all(&count), "larger than events may be");
    assert_true(payload.event.size <= EVENT_BYTES_MAX);
}

static void many_events_of_a_few_bytes_are_held_one_at_a_time(void **state)
{
    size_t count;

    (void)state;
    for (int i = 0; i < 10; i++)
        put_good(29000);
    compress_inner();
    assert_true(body_len < 2000);
    assert_int_equal(read_all(&count), RC_OK);
    assert_int_equal(count, 10);
    assert_true(payload.event.size < EVENT_BYTES_MAX);
}

static void an_event_that_is_shorter_than_its_header_is_refused(void **state)
{
    size_t count;

    (void)state;
    put_inner(BINLOG_HEADER_SIZE - 1, 100);
    compress_inner();
    assert_refused(read_all(&count), "shorter than its header");
}

static void a_payload_that_ends_too_early_is_refused(void **state)
{
    size_t count;

    (void)state;
    put_inner(BINLOG_HEADER_SIZE + 100, 99);
    compress_inner();
    assert_refused(read_all(&count), "ends within an event");
    inner_len = BINLOG_HEADER_SIZE - 1;
    compress_inner();
    assert_refused(read_all(&count), "ends within an event");
}

static void an_unknown_way_to_compress_is_refused(void **state)
{
    size_t count;

    (void)state;
    put_good(10);
    put_body(7, inner, inner_len);
    assert_refused(read_all(&count), "compressed by the method 7");
}

static void a_body_that_is_cut_off_anywhere_is_refused(void **state)
{
    size_t count;

    (void)state;
    put_good(200);
    put_good(50);
    compress_inner();
    for (size_t len = 0; len < body_len; len++)
        assert_int_equal(read_some(len, &count), RC_FATAL);
}

/* Whatever the bytes become, they are read within their bounds, and no more events come than the
 * bytes of the limit may hold. */
static void a_body_with_any_other_bit_is_read_or_refused(void **state)
{
    size_t count;
    size_t refused = 0;

    (void)state;
    put_good(200);
    put_good(50);
    compress_inner();
    for (size_t bit = 0; bit < 8 * body_len; bit++) {
        enum rc rc;

        body[bit / 8] ^= (uint8_t)(1 << bit % 8);
        rc = read_all(&count);
        body[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(rc == RC_OK || rc == RC_FATAL);
        assert_true(rc == RC_OK || err.text[0]);
        assert_true(payload.event.size <= EVENT_BYTES_MAX);
        refused += rc != RC_OK;
    }
    assert_true(refused > body_len);
}

static enum rc expand(uint64_t claimed, uint8_t first, const uint8_t *bytes, size_t len)
{
    static uint8_t all[INNER_MAX];
    struct buf out = {.size_max = EVENT_BYTES_MAX};
    size_t at = 0;
    enum rc rc;

    memset(&err, 0, sizeof(err));
    all[at++] = first;
    for (int i = (first & 7) - 1; i >= 0; i--)
        all[at++] = (uint8_t)(claimed >> 8 * i);
    memcpy(all + at, bytes, len);
    rc = binlog_expand(&out, cursor_of(all, at + len), &err);
    assert_true(out.size <= EVENT_BYTES_MAX);
    assert_int_equal(out.len, rc == RC_OK ? claimed : 0);
    buf_done(&out);
    return rc;
}

/* MariaDB's events: the length comes first and is not believed. */
static void expanded_bytes_have_the_length_that_they_claim(void **state)
{
    static uint8_t bytes[INNER_MAX];
    uLongf len = sizeof(bytes);

    (void)state;
    assert_int_equal(compress(bytes, &len, inner, EVENT_BYTES_MAX), Z_OK);
    assert_int_equal(expand(EVENT_BYTES_MAX, 0x84, bytes, len), RC_OK);
    assert_refused(expand(EVENT_BYTES_MAX + 1, 0x84, bytes, len), "more than the limit");
    assert_refused(expand(UINT32_MAX, 0x84, bytes, len), "more than the limit");
    assert_refused(expand(EVENT_BYTES_MAX - 1, 0x84, bytes, len), "damaged");
    assert_refused(expand(1000, 0x84, bytes, len), "damaged");
    assert_refused(expand(EVENT_BYTES_MAX, 0x84, bytes, len - 5), "damaged");
    assert_refused(expand(EVENT_BYTES_MAX, 0x94, bytes, len), "unknown algorithm");
    assert_refused(expand(EVENT_BYTES_MAX, 0x04, bytes, len), "unknown form");
    assert_refused(expand(0, 0x80, bytes, 0), "unknown form");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_come_one_after_the_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_event_that_expands_beyond_the_limit_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(many_events_of_a_few_bytes_are_held_one_at_a_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_event_that_is_shorter_than_its_header_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_payload_that_ends_too_early_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_way_to_compress_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_body_that_is_cut_off_anywhere_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_body_with_any_other_bit_is_read_or_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(expanded_bytes_have_the_length_that_they_claim, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
