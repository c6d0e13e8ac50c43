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

struct header_sink {
    record_on_header on_header;
    void *ctx;
};

static void emit_header(const struct header_sink *sink, const char *name, const char *data,
                        size_t len)
{
    sink->on_header(sink->ctx, name, (struct bytes){data, len});
}

static void emit_bytes(const struct header_sink *sink, const char *name, struct bytes bytes)
{
    emit_header(sink, name, bytes.data ? bytes.data : "", bytes.len);
}

static enum rc emit_member(const struct header_sink *sink, const char *name, const json_t *value,
                           struct err *err)
{
    enum rc rc = outbox_check_header(name, err);

    if (rc != RC_OK)
        return rc;
    if (!json_is_string(value))
        return err_fail(err, RC_REJECT, 0, "headers: the value of \"%.64s\" is not a string", name);
    emit_header(sink, name, json_string_value(value), json_string_length(value));
    return RC_OK;
}

static enum rc emit_members(const struct header_sink *sink, json_t *object, struct err *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return err_fail(err, RC_REJECT, 0, "headers: not a JSON object");
    json_object_foreach(object, name, value) {
        enum rc rc = emit_member(sink, name, value, err);

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
    /* The text of the JSON error may quote the column, so only the position is reported. */
    return err_fail(err, RC_REJECT, 0, "headers: not valid JSON at byte %d", error.position);
}

/* A header of the application replaces the relay's header of the same name. */
static bool has_member(const json_t *object, const char *name)
{
    return object && json_object_get(object, name);
}

static void emit_cloud_events(const struct header_sink *sink, const struct relay_row *row,
                              const char *source, const json_t *object)
{
    char time[UTC_TEXT_SIZE];

    emit_header(sink, "ce_specversion", "1.0", 3);
    emit_bytes(sink, "ce_id", row->id);
    if (!has_member(object, "ce_type"))
        emit_bytes(sink, "ce_type", row->type);
    if (!has_member(object, "ce_source"))
        emit_header(sink, "ce_source", source, strlen(source));
    if (row->created_ms != UTC_UNKNOWN_MS && !has_member(object, "ce_time"))
        emit_header(sink, "ce_time", time, utc_format(row->created_ms, time));
}

static void emit_original_timestamp(const struct header_sink *sink, const struct relay_row *row,
                                    int64_t timestamp_ms, const json_t *object)
{
    char time[UTC_TEXT_SIZE];

    if (row->created_ms != ROW_CREATED_UNKNOWN && row->created_ms != timestamp_ms &&
        !has_member(object, RECORD_ORIGINAL_TIMESTAMP))
        emit_header(sink, RECORD_ORIGINAL_TIMESTAMP, time, utc_format(row->created_ms, time));
}

/* seq must be above 0. */
static struct bytes format_seq(int64_t seq, char digits[SEQ_DIGITS_MAX])
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

static json_t *make_hex_json(struct bytes bytes)
{
    struct buf hex = {0};
    json_t *value;

    buf_hex(&hex, bytes.data, bytes.len);
    value = hex.failed ? NULL : json_string(buf_text(&hex));
    buf_done(&hex);
    return value;
}

static json_t *make_value_json(struct bytes bytes)
{
    return is_text(bytes) ? json_stringn(bytes.data, bytes.len)
                          : json_pack("{s:o}", "hex", make_hex_json(bytes));
}

static void add_header(void *ctx, const char *name, struct bytes value)
{
    json_array_append_new(ctx, json_pack("[s,o]", name, make_value_json(value)));
}

static json_t *make_headers_json(const struct relay_row *row, int64_t timestamp_ms,
                                 const char *lane, const char *source)
{
    json_t *list = json_array();
    json_t *hex;
    json_t *text;

    if (record_headers(row, timestamp_ms, lane, source, add_header, list, NULL) == RC_OK)
        return list;
    json_decref(list);
    if (is_text(row->headers))
        return make_value_json(row->headers);
    hex = make_hex_json(row->headers);
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
        json_object_set_new(options, "keyHex", make_hex_json(key));
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
    const struct header_sink sink = {on_header, ctx};
    char digits[SEQ_DIGITS_MAX];
    struct bytes seq = format_seq(row->seq, digits);
    json_t *object;
    enum rc rc = parse_headers(&object, row->headers, err);

    if (rc != RC_OK)
        return rc;
    emit_bytes(&sink, "id", row->id);
    if (source[0])
        emit_cloud_events(&sink, row, source, object);
    emit_bytes(&sink, "seq", seq);
    emit_header(&sink, "lane", lane, strlen(lane));
    emit_original_timestamp(&sink, row, timestamp_ms, object);
    if (object)
        rc = emit_members(&sink, object, err);
    json_decref(object);
    return rc;
}

enum rc record_put_options(struct buf *out, const struct relay_row *row, const char *topic,
                           const char *lane, const char *source, struct err *err)
{
    /* The handler limits the age when it sends the record: the task may wait for a long time. */
    int64_t timestamp_ms = record_timestamp(row, INT64_MAX);
    json_t *options = json_object();
    char *text;

    json_object_set_new(options, "topic", json_string(topic));
    add_key(options, row->aggregate_id);
    json_object_set_new(options, "headers", make_headers_json(row, timestamp_ms, lane, source));
    if (timestamp_ms > 0)
        json_object_set_new(options, "timestampMs", json_integer(timestamp_ms));
    text = json_dumps(options, JSON_COMPACT);
    json_decref(options);
    if (text)
        buf_text_put(out, text);
    free(text);
    return text ? RC_OK : err_fail(err, RC_FATAL, 0, "out of memory for the options of a task");
}
