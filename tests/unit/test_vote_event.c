/* SPDX-License-Identifier: MIT */
#include "schema/vote_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ID "01970000-0000-7000-8000-0123456789ab"
#define WHOLE                                                                         \
    "{\"eventId\":\"" ID "\",\"voterId\":1,\"contentId\":2,\"voting\":1,\"votes\":3," \
    "\"occurredAt\":1700000000000}"

static struct vote_event event_sample(void)
{
    struct vote_event event = {
        .voter_id = 1, .content_id = 2, .voting = 1, .votes = 3, .occurred_ms = 1700000000000};

    assert_true(id_parse(&event.event_id, ID, strlen(ID)));
    return event;
}

static void assert_same(const struct vote_event *a, const struct vote_event *b)
{
    assert_memory_equal(&a->event_id, &b->event_id, sizeof(a->event_id));
    assert_int_equal(a->voter_id, b->voter_id);
    assert_int_equal(a->content_id, b->content_id);
    assert_int_equal(a->voting, b->voting);
    assert_int_equal(a->votes, b->votes);
    assert_int_equal(a->occurred_ms, b->occurred_ms);
}

static void reads(const char *text, const struct vote_event *expected)
{
    struct vote_event event = {0};
    struct err err = {0};
    enum rc rc = vote_event_decode(&event, text, strlen(text), &err);

    if (rc != RC_OK)
        fail_msg("%s: %s", text, err.text);
    assert_same(&event, expected);
}

static void refuses(const char *text, int fault, const char *sentence)
{
    struct vote_event event = {.voter_id = 77};
    struct err err = {0};

    assert_int_equal(vote_event_decode(&event, text, strlen(text), &err), RC_REJECT);
    if (!strstr(err.text, sentence))
        fail_msg("%s\n  said     %s\n  expected %s", text, err.text, sentence);
    assert_int_equal(err.code, fault);
    assert_int_equal(event.voter_id, 77);
}

static void an_event_is_written_as_documented(void **state)
{
    struct vote_event event = event_sample();
    struct buf out = {0};

    (void)state;
    buf_text_put(&out, "before ");
    vote_event_encode(&event, &out);
    assert_string_equal(buf_text(&out), "before " WHOLE);
    buf_done(&out);
}

static void a_written_event_is_read_back(void **state)
{
    static const int64_t numbers[] = {1, 9, 10, 4711, INT64_MAX - 1, INT64_MAX};
    size_t count = sizeof(numbers) / sizeof(numbers[0]);
    struct buf out = {0};

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct vote_event event = event_sample();

        event.voter_id = numbers[i];
        event.content_id = numbers[count - 1 - i];
        event.voting = (int)(i % 2);
        event.votes = i == 0 ? 0 : numbers[i];
        event.occurred_ms = i % 2 ? VOTE_EVENT_OCCURRED_MS_MIN : VOTE_EVENT_OCCURRED_MS_MAX - 1;
        buf_reset(&out);
        vote_event_encode(&event, &out);
        reads(buf_text(&out), &event);
        buf_char(&out, ' ');
        reads(buf_text(&out), &event);
    }
    buf_done(&out);
}

static void an_unknown_total_is_left_out(void **state)
{
    struct vote_event event = event_sample();
    struct buf out = {0};

    (void)state;
    event.votes = VOTE_EVENT_VOTES_UNKNOWN;
    vote_event_encode(&event, &out);
    assert_null(strstr(buf_text(&out), "votes"));
    reads(buf_text(&out), &event);
    buf_done(&out);
}

static void a_full_buffer_gets_no_half_event(void **state)
{
    struct vote_event event = event_sample();
    struct buf out;

    (void)state;
    buf_init(&out, 100);
    vote_event_encode(&event, &out);
    assert_true(out.failed);
    assert_int_equal(out.len, 0);
    buf_done(&out);
}

static void order_blanks_and_unknown_fields_do_not_matter(void **state)
{
    struct vote_event event = event_sample();

    (void)state;
    reads(" {\n\t\"occurredAt\" : 1700000000000, \"votes\":3, \"contentId\":2,\r\n"
          "\"voterId\":1, \"eventId\":\"" ID "\", \"voting\":1 } ",
          &event);
    reads("{\"eventId\":\"" ID "\",\"voterId\":1,\"contentId\":2,\"voting\":1,\"votes\":3,"
          "\"occurredAt\":1700000000000,\"client\":{\"os\":[1,2.5,null,\"a\\u0000b\"]},\"v\":2}",
          &event);
    reads("{\"\\u0065ventId\":\"01970000-0000-7000-8000-0123456789AB\",\"voterId\":1,"
          "\"contentId\":2,\"voting\":1,\"votes\":3,\"occurredAt\":1700000000000}",
          &event);
}

static void bytes_that_are_no_event_are_refused_as_undecodable(void **state)
{
    (void)state;
    refuses("", VOTE_EVENT_FAULT_DECODE, "the record has an empty value");
    refuses("hello", VOTE_EVENT_FAULT_DECODE, "the value is not JSON");
    refuses(WHOLE "}", VOTE_EVENT_FAULT_DECODE, "the value is not JSON");
    refuses("{\"eventId\":\"\xff\"}", VOTE_EVENT_FAULT_DECODE, "the value is not JSON");
    refuses("[" WHOLE "]", VOTE_EVENT_FAULT_DECODE, "the value is an array, expected a JSON");
    refuses("null", VOTE_EVENT_FAULT_DECODE, "the value is null, expected a JSON object");
    refuses("{\"voterId\":1,"
            "\"voterId\":1}",
            VOTE_EVENT_FAULT_DECODE, "voterId");
    refuses("{}", VOTE_EVENT_FAULT_DECODE, "eventId is missing");
    refuses("{\"eventId\":7}", VOTE_EVENT_FAULT_DECODE, "eventId is a whole number, expected");
    refuses("{\"eventId\":\"" ID "\"}", VOTE_EVENT_FAULT_DECODE, "voterId is missing");
    refuses("{\"eventId\":\"" ID "\",\"voterId\":\"1\"}", VOTE_EVENT_FAULT_DECODE,
            "voterId is a text, expected a whole number");
    refuses("{\"eventId\":\"" ID "\",\"voterId\":1,\"contentId\":2.0}", VOTE_EVENT_FAULT_DECODE,
            "contentId is a number with a fraction");
    refuses("{\"eventId\":\"" ID "\",\"voterId\":1,\"contentId\":2,\"voting\":true}",
            VOTE_EVENT_FAULT_DECODE, "voting is true or false, expected a whole number");
    refuses("{\"eventId\":\"" ID "\",\"voterId\":1,\"contentId\":2,\"voting\":1,\"votes\":null}",
            VOTE_EVENT_FAULT_DECODE, "votes is null");
    refuses("{\"eventId\":\"" ID "\",\"voterId\":1,\"contentId\":2,\"voting\":1}",
            VOTE_EVENT_FAULT_DECODE, "occurredAt is missing");
    refuses("{\"hash\":18446744073709551615}", VOTE_EVENT_FAULT_DECODE, "too large to be read");
    refuses("{\"voterId\":1e999}", VOTE_EVENT_FAULT_DECODE, "too large to be read");
}

/* The sample with one field's value replaced. */
static void refuses_with(const char *field, const char *value, const char *sentence)
{
    const char *whole = WHOLE;
    const char *at = strstr(whole, field) + strlen(field) + 2;
    char text[512];

    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - whole), whole, value,
             at + strcspn(at, ",}"));
    refuses(text, VOTE_EVENT_FAULT_RULE, sentence);
}

static void values_that_may_not_be_are_refused_by_rule(void **state)
{
    (void)state;
    refuses_with("eventId", "\"01970000\"", "eventId is not a UUID");
    refuses_with("voterId", "0", "voterId is 0, expected 1..9223372036854775807");
    refuses_with("voterId", "-5", "voterId is -5, expected 1..");
    refuses_with("voterId", "9223372036854775808", "voterId is 9.2233720368547758e+18, expected");
    refuses_with("contentId", "0", "contentId is 0, expected 1..");
    refuses_with("contentId", "-9223372036854775809", "contentId is -9.2");
    refuses_with("contentId", "99999999999999999999999", "contentId is 9.9");
    refuses_with("voting", "2", "voting is 2, expected 0 or 1");
    refuses_with("voting", "-1", "voting is -1, expected 0 or 1");
    refuses_with("votes", "-1", "votes is -1, expected 0..");
    refuses_with("occurredAt", "946684799999", "occurredAt is 946684799999, expected millis");
    refuses_with("occurredAt", "4102444800000", "occurredAt is 4102444800000, expected");
}

static void a_value_of_any_length_is_refused_unread(void **state)
{
    static char text[VOTE_EVENT_BYTES_MAX + 1];
    struct vote_event event = {0};
    struct err err = {0};

    (void)state;
    memset(text, ' ', sizeof(text));
    memcpy(text, WHOLE, strlen(WHOLE));
    assert_int_equal(vote_event_decode(&event, text, VOTE_EVENT_BYTES_MAX, &err), RC_OK);
    assert_int_equal(vote_event_decode(&event, text, sizeof(text), &err), RC_REJECT);
    assert_non_null(strstr(err.text, "the value has 65537 bytes"));
}

static uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Changes, drops or repeats some bytes, mostly with bytes that JSON gives a meaning to. */
static size_t mutate(char *text, size_t len, uint64_t *seed)
{
    static const char bytes[] = "0123456789{}[]\",:-+.eEaf \\u\n";
    size_t changes = 1 + random_next(seed) % 3;

    for (size_t i = 0; i < changes && len > 1; i++) {
        size_t at = random_next(seed) % len;
        uint64_t way = random_next(seed) % 4;

        if (way == 0) {
            memmove(text + at, text + at + 1, len - at - 1);
            len--;
        } else if (way == 1) {
            memmove(text + at + 1, text + at, len - at);
            len++;
        } else {
            text[at] = bytes[random_next(seed) % (sizeof(bytes) - 1)];
        }
    }
    return len;
}

/* A blank behind the value is no part of our own form, so the copy takes the thorough way. */
static void both_ways_of_reading_agree_on_mutations(void **state)
{
    uint64_t seed = 20260101;
    size_t accepted = 0;
    struct vote_event sample = event_sample();
    struct buf out = {0};

    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct vote_event quick = {0};
        struct vote_event thorough = {0};
        struct err err = {0};
        char text[512];
        size_t len;
        enum rc rc;

        sample.voter_id = 1 | (int64_t)(random_next(&seed) >> 1 >> (i % 63));
        sample.votes = (int64_t)(random_next(&seed) % 3) - 1;
        buf_reset(&out);
        vote_event_encode(&sample, &out);
        memcpy(text, out.data, out.len);
        len = mutate(text, out.len, &seed);
        rc = vote_event_decode(&quick, text, len, NULL);
        text[len] = ' ';
        assert_int_equal(rc, vote_event_decode(&thorough, text, len + 1, &err));
        assert_true(rc == RC_OK || rc == RC_REJECT);
        if (rc == RC_OK) {
            assert_same(&quick, &thorough);
            accepted++;
        } else {
            assert_true(err.text[0] != '\0' && err.code != 0);
        }
    }
    buf_done(&out);
    /* Neither all nor none: digits may change, most other bytes may not. */
    assert_in_range(accepted, 2000, 50000);
}

static void faults_have_names(void **state)
{
    (void)state;
    assert_string_equal(vote_event_fault_name(VOTE_EVENT_FAULT_DECODE), "decode");
    assert_string_equal(vote_event_fault_name(VOTE_EVENT_FAULT_RULE), "rule");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_written_as_documented),
        cmocka_unit_test(a_written_event_is_read_back),
        cmocka_unit_test(an_unknown_total_is_left_out),
        cmocka_unit_test(a_full_buffer_gets_no_half_event),
        cmocka_unit_test(order_blanks_and_unknown_fields_do_not_matter),
        cmocka_unit_test(bytes_that_are_no_event_are_refused_as_undecodable),
        cmocka_unit_test(values_that_may_not_be_are_refused_by_rule),
        cmocka_unit_test(a_value_of_any_length_is_refused_unread),
        cmocka_unit_test(both_ways_of_reading_agree_on_mutations),
        cmocka_unit_test(faults_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
