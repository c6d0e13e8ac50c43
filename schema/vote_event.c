/* SPDX-License-Identifier: MIT */
#include "schema/vote_event.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#define ENCODED_BYTES_MAX 192
#define ID_LEN (ID_TEXT_SIZE - 1)

/* The whole numbers of an event, in the order in which vote_event_encode() writes them. */
enum number { VOTER, CONTENT, VOTING, VOTES, OCCURRED, NUMBER_COUNT };

struct number_rule {
    const char *name;
    const char *prefix; /* bytes before the digits in our own form */
    int64_t low;
    int64_t high;
    const char *expected;
    bool optional;
};

#define NAMED(name) name, ",\"" name "\":"

static const struct number_rule rules[NUMBER_COUNT] = {
    [VOTER] = {NAMED("voterId"), 1, INT64_MAX, "1..9223372036854775807", false},
    [CONTENT] = {NAMED("contentId"), 1, INT64_MAX, "1..9223372036854775807", false},
    [VOTING] = {NAMED("voting"), 0, 1, "0 or 1", false},
    [VOTES] = {NAMED("votes"), 0, INT64_MAX, "0..9223372036854775807", true},
    [OCCURRED] = {NAMED("occurredAt"), VOTE_EVENT_OCCURRED_MS_MIN, VOTE_EVENT_OCCURRED_MS_MAX - 1,
                  "milliseconds since 1970 of a time in the years 2000..2099", false},
};

static const char opening[] = "{\"eventId\":\"";

static void fill_event(struct vote_event *event, const struct id *event_id,
                       const int64_t numbers[NUMBER_COUNT])
{
    event->event_id = *event_id;
    event->voter_id = numbers[VOTER];
    event->content_id = numbers[CONTENT];
    event->voting = (int)numbers[VOTING];
    event->votes = numbers[VOTES];
    event->occurred_ms = numbers[OCCURRED];
}

static bool check_rule(const struct number_rule *rule, int64_t value)
{
    return value >= rule->low && value <= rule->high;
}

/* The fast path: accepts exactly the bytes that vote_event_encode() writes, from left to right. It
 * returns only "accepted" or "use the slow path", so one place decides what is wrong. */

static bool scan_text(const char **at, const char *end, const char *text, size_t len)
{
    if ((size_t)(end - *at) < len || memcmp(*at, text, len) != 0)
        return false;
    *at += len;
    return true;
}

/* Digits as JSON has them: no sign, no zero in front. */
static bool scan_digits(const char **at, const char *end, int64_t *value)
{
    const char *first = *at;
    int64_t sum = 0;

    while (*at < end && **at >= '0' && **at <= '9') {
        int digit = **at - '0';

        if (sum > (INT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
        (*at)++;
    }
    if (*at == first || (*first == '0' && *at != first + 1))
        return false;
    *value = sum;
    return true;
}

static bool scan_event(struct vote_event *event, const char *bytes, size_t len)
{
    const char *at = bytes;
    const char *end = bytes + len;
    int64_t numbers[NUMBER_COUNT] = {[VOTES] = VOTE_EVENT_VOTES_UNKNOWN};
    struct id event_id;

    if (!scan_text(&at, end, opening, sizeof(opening) - 1) || end - at <= ID_LEN ||
        !id_parse(&event_id, at, ID_LEN) || at[ID_LEN] != '"')
        return false;
    at += ID_LEN + 1;
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        if (!scan_text(&at, end, rules[i].prefix, strlen(rules[i].prefix))) {
            if (rules[i].optional)
                continue;
            return false;
        }
        if (!scan_digits(&at, end, &numbers[i]) || !check_rule(&rules[i], numbers[i]))
            return false;
    }
    if (end - at != 1 || *at != '}')
        return false;
    fill_event(event, &event_id, numbers);
    return true;
}

/* The thorough way: any JSON. */

static const char *name_type(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number with a fraction or exponent";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

static enum rc read_id(const json_t *root, struct id *event_id, struct err *err)
{
    const json_t *value = json_object_get(root, "eventId");

    if (!value)
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE, "eventId is missing");
    if (!json_is_string(value))
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE,
                        "eventId is %s, expected a UUID as text", name_type(value));
    if (!id_parse(event_id, json_string_value(value), json_string_length(value)))
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_RULE,
                        "eventId is not a UUID: expected 36 characters such as "
                        "01970000-0000-7000-8000-000000000000");
    return RC_OK;
}

static enum rc read_number(const json_t *root, const struct number_rule *rule, int64_t *number,
                           struct err *err)
{
    const json_t *value = json_object_get(root, rule->name);

    if (!value && rule->optional)
        return RC_OK;
    if (!value)
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE, "%s is missing", rule->name);
    if (!json_is_integer(value))
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE,
                        "%s is %s, expected a whole number", rule->name, name_type(value));
    *number = (int64_t)json_integer_value(value);
    if (!check_rule(rule, *number))
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_RULE, "%s is %lld, expected %s",
                        rule->name, (long long)*number, rule->expected);
    return RC_OK;
}

static enum rc read_object(struct vote_event *event, const json_t *root, struct err *err)
{
    int64_t numbers[NUMBER_COUNT] = {[VOTES] = VOTE_EVENT_VOTES_UNKNOWN};
    struct id event_id;
    enum rc rc;

    if (!json_is_object(root))
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE,
                        "the value is %s, expected a JSON object", name_type(root));
    rc = read_id(root, &event_id, err);
    for (size_t i = 0; rc == RC_OK && i < NUMBER_COUNT; i++)
        rc = read_number(root, &rules[i], &numbers[i], err);
    if (rc == RC_OK)
        fill_event(event, &event_id, numbers);
    return rc;
}

#define PARSE_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL)

/* Names the number that does not fit into 64 bits: jansson stops there without saying where. */
static enum rc fail_number(const char *bytes, size_t len, const json_error_t *error,
                           struct err *err)
{
    json_t *root = json_loadb(bytes, len, PARSE_FLAGS | JSON_DECODE_INT_AS_REAL, NULL);
    enum rc rc = err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE,
                          "a number in the value is too large to be read: %s", error->text);

    for (size_t i = 0; root && i < NUMBER_COUNT; i++) {
        double number = json_real_value(json_object_get(root, rules[i].name));

        if (number >= 0x1p63 || number <= -0x1p63) {
            rc = err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_RULE, "%s is %.17g, expected %s",
                          rules[i].name, number, rules[i].expected);
            break;
        }
    }
    json_decref(root);
    return rc;
}

static enum rc parse_event(struct vote_event *event, const char *bytes, size_t len, struct err *err)
{
    json_error_t error;
    json_t *root = json_loadb(bytes, len, PARSE_FLAGS, &error);
    enum json_error_code code;

    if (root) {
        enum rc rc = read_object(event, root, err);

        json_decref(root);
        return rc;
    }
    code = json_error_code(&error);
    /* Without memory jansson reports an error with that code or none. */
    if (code == json_error_out_of_memory || code == json_error_unknown)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    if (code == json_error_numeric_overflow)
        return fail_number(bytes, len, &error, err);
    if (code == json_error_duplicate_key)
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE, "a name stands there twice: %s",
                        error.text);
    return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE,
                    "the value is not JSON: %s, at byte %d", error.text, error.position);
}

void vote_event_encode(const struct vote_event *event, struct buf *out)
{
    const int64_t numbers[NUMBER_COUNT] = {
        [VOTER] = event->voter_id, [CONTENT] = event->content_id,   [VOTING] = event->voting,
        [VOTES] = event->votes,    [OCCURRED] = event->occurred_ms,
    };
    char id[ID_TEXT_SIZE];

    /* One growth at most, and nothing half written into a buf that is full. */
    if (!buf_reserve(out, ENCODED_BYTES_MAX))
        return;
    id_format(&event->event_id, id);
    buf_text_put(out, opening);
    buf_put(out, id, ID_LEN);
    buf_char(out, '"');
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        if (rules[i].optional && numbers[i] < rules[i].low)
            continue;
        buf_text_put(out, rules[i].prefix);
        buf_i64(out, numbers[i]);
    }
    buf_char(out, '}');
}

enum rc vote_event_decode(struct vote_event *event, const void *bytes, size_t len, struct err *err)
{
    if (len == 0)
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE,
                        "the record has an empty value, expected a JSON object");
    if (len > VOTE_EVENT_BYTES_MAX)
        return err_fail(err, RC_REJECT, VOTE_EVENT_FAULT_DECODE,
                        "the value has %zu bytes, a vote event has at most %d", len,
                        VOTE_EVENT_BYTES_MAX);
    if (scan_event(event, bytes, len))
        return RC_OK;
    return parse_event(event, bytes, len, err);
}

const char *vote_event_fault_name(int fault)
{
    return fault == VOTE_EVENT_FAULT_RULE ? "rule" : "decode";
}
