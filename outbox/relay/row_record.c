/* SPDX-License-Identifier: MIT */
#include "outbox/relay/row_record.h"

#include "common/text.h"
#include "common/utc.h"
#include "outbox/outbox.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SEQ_DIGITS_MAX 20

struct header_sink {
    row_record_on_header on_header;
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
                              struct bytes id, const char *source, const json_t *object)
{
    char time[UTC_TEXT_SIZE];

    emit_header(sink, "ce_specversion", "1.0", 3);
    emit_bytes(sink, "ce_id", id);
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
        !has_member(object, ROW_RECORD_ORIGINAL_TIMESTAMP))
        emit_header(sink, ROW_RECORD_ORIGINAL_TIMESTAMP, time, utc_format(row->created_ms, time));
}

/* The columns of lane.NAME.header_columns. */
static void emit_extras(const struct header_sink *sink, struct bytes extras, const json_t *object)
{
    const char *name;
    struct bytes value;

    while (relay_extra_next(&extras, &name, &value))
        if (!has_member(object, name))
            sink->on_header(sink->ctx, name, value);
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
    if (!bytes.data)
        return json_null();
    return is_text(bytes) ? json_stringn(bytes.data, bytes.len)
                          : json_pack("{s:o}", "hex", make_hex_json(bytes));
}

struct header_list {
    json_t *list;
    bool without_id;
};

static void add_header(void *ctx, const char *name, struct bytes value)
{
    struct header_list *headers = ctx;

    if (!headers->without_id || (strcmp(name, "id") != 0 && strcmp(name, "ce_id") != 0))
        json_array_append_new(headers->list, json_pack("[s,o]", name, make_value_json(value)));
}

static json_t *make_text_or_hex_json(struct bytes bytes)
{
    struct buf text = {0};
    json_t *value;

    if (is_text(bytes)) {
        buf_put(&text, bytes.data, bytes.len);
    } else {
        buf_text_put(&text, "hex:");
        buf_hex(&text, bytes.data, bytes.len);
    }
    value = text.failed ? NULL : json_stringn(text.len > 0 ? text.data : "", text.len);
    buf_done(&text);
    return value;
}

/* Invariant: the relay's own headers are in the list also if the row makes no record, so that an
 * operator who corrects the row does not have to know them. An id that cannot be published is left
 * out. */
static void add_headers(json_t *options, const struct relay_row *row, int64_t timestamp_ms,
                        const char *lane, const char *source)
{
    struct header_list headers = {.list = json_array(),
                                  .without_id = relay_row_check(row, INT64_MAX, NULL) != RC_OK};
    struct relay_row without = *row;
    char uuid[ID_TEXT_SIZE];
    bool refused =
        row_record_headers(row, timestamp_ms, lane, source, add_header, &headers, NULL) != RC_OK;

    if (refused) {
        without.headers = (struct bytes){NULL, 0};
        json_array_clear(headers.list);
        row_record_headers(&without, timestamp_ms, lane, source, add_header, &headers, NULL);
    }
    json_object_set_new(options, "headers", headers.list);
    if (headers.without_id)
        json_object_set_new(options, "rowId", make_text_or_hex_json(relay_row_id(row, uuid)));
    if (refused)
        json_object_set_new(options, "rowHeaders", make_text_or_hex_json(row->headers));
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

int64_t row_record_timestamp(const struct relay_row *row, int64_t older_ms_max)
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

enum rc row_record_headers(const struct relay_row *row, int64_t timestamp_ms, const char *lane,
                           const char *source, row_record_on_header on_header, void *ctx,
                           struct err *err)
{
    const struct header_sink sink = {on_header, ctx};
    char digits[SEQ_DIGITS_MAX];
    char uuid[ID_TEXT_SIZE];
    struct bytes id = relay_row_id(row, uuid);
    json_t *object;
    enum rc rc = parse_headers(&object, row->headers, err);

    if (rc != RC_OK)
        return rc;
    emit_bytes(&sink, "id", id);
    if (source[0])
        emit_cloud_events(&sink, row, id, source, object);
    if (row->table_seq > 0)
        emit_bytes(&sink, "seq", format_seq(row->table_seq, digits));
    emit_header(&sink, "lane", lane, strlen(lane));
    emit_original_timestamp(&sink, row, timestamp_ms, object);
    emit_extras(&sink, row->extras, object);
    if (object)
        rc = emit_members(&sink, object, err);
    json_decref(object);
    return rc;
}

enum rc row_record_put_options(struct buf *out, const struct relay_row *row, const char *topic,
                               const char *lane, const char *source, const struct row_move *move,
                               struct err *err)
{
    /* The handler limits the age when it sends the record: the task may wait for a long time. */
    int64_t timestamp_ms = row_record_timestamp(row, INT64_MAX);
    json_t *options = json_object();
    char *text;

    json_object_set_new(options, "topic", json_string(topic));
    add_key(options, row->aggregate_id);
    add_headers(options, row, timestamp_ms, lane, source);
    if (timestamp_ms > 0)
        json_object_set_new(options, "timestampMs", json_integer(timestamp_ms));
    if (move)
        json_object_set_new(options, "transaction",
                            json_pack("{s:s, s:I, s:I, s:I}", "lane", move->lane_key, "epoch",
                                      (json_int_t)move->epoch, "term", (json_int_t)move->term,
                                      "row", (json_int_t)move->row));
    text = json_dumps(options, JSON_COMPACT);
    json_decref(options);
    if (text)
        buf_text_put(out, text);
    free(text);
    return text ? RC_OK : err_fail(err, RC_FATAL, 0, "out of memory for the options of a task");
}
