/* SPDX-License-Identifier: MIT */
#include "outbox/relay/record.h"

#include "common/utc.h"
#include "common/utf8.h"
#include "outbox/outbox.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SEQ_DIGITS_MAX 20

struct giving {
    record_on_header on_header;
    void *ctx;
};

static void give_header(const struct giving *giving, const char *name, const char *data, size_t len)
{
    giving->on_header(giving->ctx, name, (struct bytes){data, len});
}

static void give_bytes(const struct giving *giving, const char *name, struct bytes bytes)
{
    give_header(giving, name, bytes.data ? bytes.data : "", bytes.len);
}

static enum rc give_member(const struct giving *giving, const char *name, const json_t *value,
                           struct err *err)
{
    enum rc rc = outbox_check_header(name, err);

    if (rc != RC_OK)
        return rc;
    if (!json_is_string(value))
        return err_fail(err, RC_REJECT, 0, "headers: the value of \"%.64s\" is not a text", name);
    give_header(giving, name, json_string_value(value), json_string_length(value));
    return RC_OK;
}

static enum rc give_members(const struct giving *giving, json_t *object, struct err *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return err_fail(err, RC_REJECT, 0, "headers: not a JSON object");
    json_object_foreach(object, name, value) {
        enum rc rc = give_member(giving, name, value, err);

        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc parse_headers(json_t **object, struct bytes text, struct err *err)
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

static void give_cloud_events(const struct giving *giving, const struct relay_row *row,
                              const char *source, const json_t *object)
{
    char time[UTC_TEXT_SIZE];

    give_header(giving, "ce_specversion", "1.0", 3);
    give_bytes(giving, "ce_id", row->id);
    if (!is_given(object, "ce_type"))
        give_bytes(giving, "ce_type", row->type);
    if (!is_given(object, "ce_source"))
        give_header(giving, "ce_source", source, strlen(source));
    if (row->created_ms != UTC_UNKNOWN_MS && !is_given(object, "ce_time"))
        give_header(giving, "ce_time", time, utc_format(row->created_ms, time));
}

static void give_original(const struct giving *giving, const struct relay_row *row,
                          int64_t timestamp_ms, const json_t *object)
{
    char time[UTC_TEXT_SIZE];

    if (row->created_ms != ROW_CREATED_UNKNOWN && row->created_ms != timestamp_ms &&
        !is_given(object, RECORD_ORIGINAL_TIMESTAMP))
        give_header(giving, RECORD_ORIGINAL_TIMESTAMP, time, utc_format(row->created_ms, time));
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

static bool is_text(struct bytes bytes)
{
    return utf8_fits(bytes.data, bytes.len) && !memchr(bytes.data, '\0', bytes.len);
}

static json_t *hex_of(struct bytes bytes)
{
    struct buf hex = {0};
    json_t *value;

    buf_hex(&hex, bytes.data, bytes.len);
    value = hex.failed ? NULL : json_string(buf_text(&hex));
    buf_done(&hex);
    return value;
}

static json_t *value_of(struct bytes bytes)
{
    return is_text(bytes) ? json_stringn(bytes.data, bytes.len)
                          : json_pack("{s:o}", "hex", hex_of(bytes));
}

static void add_header(void *ctx, const char *name, struct bytes value)
{
    json_array_append_new(ctx, json_pack("[s,o]", name, value_of(value)));
}

static json_t *headers_of(const struct relay_row *row, int64_t timestamp_ms, const char *lane,
                          const char *source)
{
    json_t *list = json_array();
    json_t *hex;
    json_t *text;

    if (record_headers(row, timestamp_ms, lane, source, add_header, list, NULL) == RC_OK)
        return list;
    json_decref(list);
    if (is_text(row->headers))
        return value_of(row->headers);
    hex = hex_of(row->headers);
    text = hex ? json_sprintf("hex:%s", json_string_value(hex)) : NULL;
    json_decref(hex);
    return text;
}

static void add_key(json_t *options, struct bytes key)
{
    if (!key.data)
        return;
    if (is_text(key))
        json_object_set_new(options, "key", json_stringn(key.data, key.len));
    else
        json_object_set_new(options, "keyHex", hex_of(key));
}

int64_t record_timestamp(const struct relay_row *row, int64_t older_ms_max)
{
    int64_t time_ms = row->created_ms;

    if (time_ms == ROW_CREATED_UNKNOWN)
        return 0;
    if (row->read_ms > 0 && time_ms > row->read_ms)
        time_ms = row->read_ms;
    if (row->read_ms > older_ms_max && time_ms < row->read_ms - older_ms_max)
        time_ms = row->read_ms - older_ms_max;
    return time_ms > 0 ? time_ms : 0;
}

enum rc record_headers(const struct relay_row *row, int64_t timestamp_ms, const char *lane,
                       const char *source, record_on_header on_header, void *ctx, struct err *err)
{
    const struct giving giving = {on_header, ctx};
    char digits[SEQ_DIGITS_MAX];
    struct bytes seq = seq_text(row->seq, digits);
    json_t *object;
    enum rc rc = parse_headers(&object, row->headers, err);

    if (rc != RC_OK)
        return rc;
    give_bytes(&giving, "id", row->id);
    if (source[0])
        give_cloud_events(&giving, row, source, object);
    give_bytes(&giving, "seq", seq);
    give_header(&giving, "lane", lane, strlen(lane));
    give_original(&giving, row, timestamp_ms, object);
    if (object)
        rc = give_members(&giving, object, err);
    json_decref(object);
    return rc;
}

enum rc record_put_options(struct buf *out, const struct relay_row *row, const char *topic,
                           const char *lane, const char *source, struct err *err)
{
    /* How old a record may be is for whom sends it: the task may wait for long. */
    int64_t timestamp_ms = record_timestamp(row, INT64_MAX);
    json_t *options = json_object();
    char *text;

    json_object_set_new(options, "topic", json_string(topic));
    add_key(options, row->aggregate_id);
    json_object_set_new(options, "headers", headers_of(row, timestamp_ms, lane, source));
    if (timestamp_ms > 0)
        json_object_set_new(options, "timestampMs", json_integer(timestamp_ms));
    text = json_dumps(options, JSON_COMPACT);
    json_decref(options);
    if (text)
        buf_text_put(out, text);
    free(text);
    return text ? RC_OK : err_fail(err, RC_FATAL, 0, "out of memory for the options of a task");
}
