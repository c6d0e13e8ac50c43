/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/record.h"

#include "common/text.h"
#include "consumer/apply/date.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const char *const record_classes[RECORD_CLASS_COUNT] = {
    "decode", "rule", "key", "tombstone", "too_old", REASON_REFUSED, REASON_BEHIND};

size_t record_class_index(const char *reason_class)
{
    size_t i = 0;

    while (strcmp(record_classes[i], reason_class) != 0) {
        i++;
        assert(i < RECORD_CLASS_COUNT);
    }
    return i;
}

/* Kafka keeps the order of the records of one key. A vote with another key, or none, may have
 * overtaken an earlier one. */
static bool key_is_content(const struct record *record, int64_t content_id)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRId64, content_id);

    return record->key && record->key_len == (size_t)len &&
           memcmp(record->key, text, (size_t)len) == 0;
}

/* Invariant C7: the log takes no vote from before its beginning. */
static enum rc check_age(const struct vote_event *event, int64_t begin_day, struct err *err)
{
    char date[DATE_SIZE];
    char begin[DATE_SIZE];

    if (event->occurred_ms / MS_PER_DAY >= begin_day)
        return RC_OK;
    date_write(event->occurred_ms / MS_PER_DAY, date);
    date_write(begin_day, begin);
    return err_fail(err, RC_REJECT, 0,
                    "the vote is from %s, and the log begins on %s: earlier votes were dropped, so "
                    "this one could be a repeat",
                    date, begin);
}

static void put_header_name(struct buf *out, const char *name)
{
    buf_char(out, '"');
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c >= 0x7f) {
            buf_print(out, "\\u%04x", (unsigned)*c);
            continue;
        }
        if (*c == '"' || *c == '\\')
            buf_char(out, '\\');
        buf_char(out, (char)*c);
    }
    buf_char(out, '"');
}

bool record_is_end(const struct record *record, int64_t *content_id)
{
    const char *digits = record->key;
    int64_t number = 0;

    /* Digits without a leading zero, as key_is_content() requires of a vote. */
    if (record->value || !digits || record->key_len == 0 || digits[0] == '0')
        return false;
    for (size_t i = 0; i < record->key_len; i++) {
        int digit = digits[i] - '0';

        if (digit < 0 || digit > 9 || number > (INT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *content_id = number;
    return true;
}

enum rc record_decide(const struct record *record, enum record_rule rule, int64_t begin_day,
                      struct vote_event *event, const char **reason_class, struct err *err)
{
    enum rc rc;

    /* Only NULL. An empty value fails in vote_event_decode(). */
    if (!record->value) {
        *reason_class = "tombstone";
        return err_fail(err, RC_REJECT, 0,
                        "the record has no value, and its key is not a contentId whose tally could "
                        "end");
    }
    rc = vote_event_decode(event, record->value, record->value_len, err);
    if (rc == RC_REJECT)
        *reason_class = vote_event_fault_name(err ? err->code : 0);
    if (rc != RC_OK)
        return rc;
    if (rule == RECORD_ANY_KEY || key_is_content(record, event->content_id)) {
        *reason_class = "too_old";
        return check_age(event, begin_day, err);
    }
    *reason_class = "key";
    if (!record->key)
        return err_fail(err, RC_REJECT, 0,
                        "the record has no key; the key must be its contentId, \"%" PRId64
                        "\", to keep the order of its votes",
                        event->content_id);
    return err_fail(err, RC_REJECT, 0, "the key is not the contentId %" PRId64 " as decimal digits",
                    event->content_id);
}

void record_put_reason(struct buf *out, const char *reason)
{
    for (; *reason; reason++)
        buf_char(out, *reason >= 0x20 && *reason < 0x7f ? *reason : '?');
}

void record_headers_begin(struct buf *out)
{
    buf_char(out, '[');
}

void record_headers_end(struct buf *out)
{
    buf_char(out, ']');
}

void record_headers_add(struct buf *out, size_t index, const char *name, const void *value,
                        size_t len)
{
    buf_text_put(out, index == 0 ? "[" : ",[");
    put_header_name(out, name);
    buf_char(out, ',');
    if (value) {
        buf_char(out, '"');
        base64_put(out, value, len);
        buf_char(out, '"');
    } else {
        buf_text_put(out, "null");
    }
    buf_char(out, ']');
}
