/* SPDX-License-Identifier: MIT */
#include "outbox/relay/move_row.h"

#include "common/utf8.h"
#include "outbox/relay/record_row.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

enum rc move_row_put_options(struct buf *out, const struct relay_row *row, const char *topic,
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
