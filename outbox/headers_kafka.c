/* SPDX-License-Identifier: MIT */
#include "outbox/headers_kafka.h"

#include "outbox/header_row.h"
#include "outbox/time_row.h"

#include <jansson.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <string.h>

#define HEADERS_EXPECTED 12
#define SEQ_DIGITS_MAX 20

static void add(rd_kafka_headers_t *headers, const char *name, const void *value, size_t len)
{
    /* Fails only for want of memory, which librdkafka ends the process for by itself. */
    rd_kafka_header_add(headers, name, -1, value, (ssize_t)len);
}

static void add_bytes(rd_kafka_headers_t *headers, const char *name, struct bytes bytes)
{
    add(headers, name, bytes.data ? bytes.data : "", bytes.len);
}

static enum rc add_member(rd_kafka_headers_t *headers, const char *name, const json_t *value,
                          struct err *err)
{
    enum rc rc = header_name_check(name, err);

    if (rc != RC_OK)
        return rc;
    if (!json_is_string(value))
        return err_fail(err, RC_REJECT, 0, "headers: the value of \"%.64s\" is not a text", name);
    add(headers, name, json_string_value(value), json_string_length(value));
    return RC_OK;
}

static enum rc add_members(rd_kafka_headers_t *headers, json_t *object, struct err *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return err_fail(err, RC_REJECT, 0, "headers: not a JSON object");
    json_object_foreach(object, name, value) {
        enum rc rc = add_member(headers, name, value, err);

        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc parse(json_t **object, struct bytes text, struct err *err)
{
    json_error_t error;

    *object = NULL;
    if (!text.data)
        return RC_OK;
    *object = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    if (*object)
        return RC_OK;
    /* Its text may quote the column; the place is enough. */
    return err_fail(err, RC_REJECT, 0, "headers: not valid JSON at byte %d", error.position);
}

/* What an application knows better than the relay; it is not given twice. */
static bool is_given(const json_t *object, const char *name)
{
    return object && json_object_get(object, name);
}

static void add_cloud_events(rd_kafka_headers_t *headers, const struct relay_row *row,
                             const char *source, const json_t *object)
{
    char time[UTC_TEXT_SIZE];

    add(headers, "ce_specversion", "1.0", 3);
    add_bytes(headers, "ce_id", row->id);
    if (!is_given(object, "ce_type"))
        add_bytes(headers, "ce_type", row->type);
    if (!is_given(object, "ce_source"))
        add(headers, "ce_source", source, strlen(source));
    if (row->created_ms != UTC_UNKNOWN_MS && !is_given(object, "ce_time"))
        add(headers, "ce_time", time, utc_format(row->created_ms, time));
}

/* A seq is above zero. */
static struct bytes seq_text(int64_t seq, char digits[SEQ_DIGITS_MAX])
{
    size_t at = SEQ_DIGITS_MAX;

    do {
        digits[--at] = (char)('0' + seq % 10);
        seq /= 10;
    } while (seq > 0);
    return (struct bytes){digits + at, SEQ_DIGITS_MAX - at};
}

enum rc headers_make(rd_kafka_headers_t **out, const struct relay_row *row, const char *lane,
                     const char *source, struct err *err)
{
    rd_kafka_headers_t *headers;
    char digits[SEQ_DIGITS_MAX];
    struct bytes seq = seq_text(row->seq, digits);
    json_t *object;
    enum rc rc = parse(&object, row->headers, err);

    if (rc != RC_OK)
        return rc;
    headers = rd_kafka_headers_new(HEADERS_EXPECTED);
    add_bytes(headers, "id", row->id);
    add_cloud_events(headers, row, source, object);
    add_bytes(headers, "seq", seq);
    add(headers, "lane", lane, strlen(lane));
    if (object)
        rc = add_members(headers, object, err);
    json_decref(object);
    if (rc == RC_OK)
        *out = headers;
    else
        rd_kafka_headers_destroy(headers);
    return rc;
}
