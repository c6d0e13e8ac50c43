/* SPDX-License-Identifier: MIT */
/* Events of the binary log: a file of a server behind its first four bytes. The table maps and rows
 * of all tables are read, and then the changes of the last one. Whatever the bytes are, nothing is
 * read outside of them, and what cannot be read is named. */
#include "outbox/relay/binlog/change_stream.h"
#include "outbox/relay/binlog/event.h"
#include "outbox/relay/binlog/jsonb.h"
#include "outbox/relay/binlog/payload.h"
#include "outbox/relay/binlog/rows.h"
#include "outbox/relay/binlog/table_map.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 200

static struct binlog_format format;
static struct binlog_table table;
static struct binlog_column columns[COLUMNS_MAX];
static struct binlog_value values[COLUMNS_MAX];
static bool has_table;
static char last_schema[256];
static char last_name[256];
static struct change_stream stream; /* of the last table */

static struct buf expanded = {.size_max = 1 << 20};
static struct buf json = {.size_max = 1 << 16};
static uint8_t kept[1 << 16];

/* What may be read besides `expanded`. */
static const uint8_t *event_start;
static const uint8_t *event_end;

static bool is_between(const uint8_t *at, size_t len, const uint8_t *start, const uint8_t *end)
{
    return at >= start && at <= end && len <= (size_t)(end - at);
}

static bool is_inside(const void *bytes, size_t len)
{
    const uint8_t *other = (const uint8_t *)expanded.data;

    return len == 0 || is_between(bytes, len, event_start, event_end) ||
           (other && is_between(bytes, len, other, other + expanded.len));
}

static bool is_good(enum rc rc, const struct err *err)
{
    if (rc == RC_OK)
        return true;
    fuzz_must(rc == RC_FATAL, "what cannot be read is fatal");
    fuzz_must_be_sentence(err->text);
    return false;
}

static void check_value(const struct binlog_value *value)
{
    switch (value->kind) {
    case VALUE_BYTES:
        fuzz_must(is_inside(value->bytes, value->len), "bytes are those of the event");
        break;
    case VALUE_DECIMAL:
    case VALUE_DATE:
    case VALUE_DATETIME:
    case VALUE_TIME:
        fuzz_must(value->len < sizeof(value->text), "a text fits");
        fuzz_must(strlen(value->text) == value->len, "a text has its length");
        break;
    case VALUE_NULL:
    case VALUE_ABSENT:
    case VALUE_SIGNED:
    case VALUE_UNSIGNED:
    case VALUE_FLOAT:
    case VALUE_DOUBLE:
    case VALUE_INDEX:
    case VALUE_TIMESTAMP:
        break;
    }
}

static bool take_rows(const struct binlog_event *event)
{
    struct binlog_rows rows;
    struct err err = {0};
    bool found = true;
    uint64_t count = 0;

    if (!is_good(binlog_rows_begin(&rows, &table, columns, NULL, event, &expanded, &err), &err))
        return false;
    for (; found; count++) {
        if (!is_good(binlog_rows_next(&rows, values, &found, &err), &err))
            return false;
        fuzz_must(count <= event->body_len + expanded.len, "a row takes at least a byte");
        for (size_t i = 0; found && i < table.column_count; i++) {
            check_value(&values[i]);
            if (columns[i].type == COLUMN_JSON && values[i].kind == VALUE_BYTES) {
                buf_reset(&json);
                jsonb_put(&json, values[i].bytes, values[i].len);
            }
        }
    }
    return true;
}

static bool take_table(const struct binlog_event *event)
{
    struct err err = {0};

    if (binlog_table_parse_name(&table, event, NULL) == RC_OK) {
        snprintf(last_schema, sizeof(last_schema), "%.*s", (int)table.schema_len, table.schema);
        snprintf(last_name, sizeof(last_name), "%.*s", (int)table.name_len, table.name);
    }
    has_table = is_good(binlog_table_parse(&table, columns, COLUMNS_MAX, event, &err), &err);
    if (!has_table)
        return false;
    fuzz_must(is_inside(table.name, table.name_len), "a name is that of the event");
    for (size_t i = 0; table.names && i < table.column_count; i++)
        fuzz_must(is_inside(columns[i].name, columns[i].name_len), "a name is that of the event");
    return true;
}

static bool take_body(const struct binlog_event *event)
{
    struct binlog_rotate rotate;
    struct binlog_query query;
    struct binlog_gtid gtid;
    struct err err = {0};

    switch (event->type) {
    case BINLOG_FORMAT:
        return is_good(binlog_format_parse(&format, event, &err), &err);
    case BINLOG_ROTATE:
        return is_good(binlog_rotate_parse(&rotate, event, &err), &err) &&
               is_inside(rotate.name, rotate.name_len);
    case BINLOG_QUERY:
    case BINLOG_QUERY_COMPRESSED:
        if (!is_good(binlog_query_parse(&query, event, &expanded, &err), &err))
            return false;
        fuzz_must(is_inside(query.text, query.text_len), "a text is that of the event");
        return true;
    case BINLOG_GTID:
    case BINLOG_GTID_TAGGED:
    case BINLOG_ANONYMOUS_GTID:
    case BINLOG_MARIADB_GTID:
        return is_good(binlog_gtid_parse(&gtid, event, &err), &err);
    case BINLOG_TABLE_MAP:
        return take_table(event);
    default:
        return !has_table || event->type < BINLOG_WRITE_ROWS_1 || take_rows(event);
    }
}

/* One that has no other events in it. */
static bool take_plain(struct binlog_event *event)
{
    fuzz_must(is_inside(event->body, event->body_len), "the body is in the event");
    fuzz_must(binlog_type_name(event->type) != NULL, "a type has a name");
    return take_body(event);
}

/* Those that are in one event. */
static bool take_payload(const struct binlog_event *outer)
{
    struct binlog_payload payload;
    struct binlog_event event;
    struct err err = {0};
    bool found = false;
    bool good;
    int left = 100; /* a small input may expand to very many */

    binlog_payload_init(&payload, 1 << 20);
    good = is_good(binlog_payload_begin(&payload, outer, &err), &err);
    while (good && left-- > 0) {
        good = is_good(binlog_payload_next(&payload, &event, &found, &err), &err);
        if (!good || !found)
            break;
        event_start = (const uint8_t *)payload.event.data;
        event_end = event_start + payload.event.len;
        /* A table borrows from its event, which the next one takes the place of. */
        if (event.type == BINLOG_TABLE_MAP && event.body_len <= sizeof(kept)) {
            memcpy(kept, event.body, event.body_len);
            event.body = event_start = kept;
            event_end = kept + event.body_len;
        } else if (event.type == BINLOG_TABLE_MAP) {
            break;
        }
        good = event.type != BINLOG_TRANSACTION_PAYLOAD && take_plain(&event);
    }
    has_table = false; /* its event is gone */
    binlog_payload_done(&payload);
    return good;
}

static bool take_event(struct binlog_event *event)
{
    return event->type == BINLOG_TRANSACTION_PAYLOAD ? take_payload(event) : take_plain(event);
}

/* The length of the event, as it says itself, or what is left. */
static uint32_t find_event_len(const uint8_t *bytes, size_t left)
{
    struct cursor cursor = cursor_of(bytes, left);
    uint32_t len;

    cursor_take(&cursor, 9);
    len = cursor_u32(&cursor);
    return cursor.bad || len > left ? (uint32_t)left : len;
}

static bool take_changes(uint64_t *undone_to)
{
    struct change change = {0};
    struct err err = {0};
    int left = 1000; /* a small input may expand to very many */

    do {
        if (!is_good(change_stream_next(&stream, &change, &err), &err))
            return false;
        if (change.kind == CHANGE_ROW)
            fuzz_must(change.row > stream.skip && change.row > *undone_to, "rows are counted");
        if (change.kind == CHANGE_ROW || change.kind == CHANGE_UNDO)
            *undone_to = change.row;
        if (change.kind == CHANGE_COMMIT || change.kind == CHANGE_CUT)
            *undone_to = 0;
    } while (change.kind != CHANGE_WANTS_EVENT && left-- > 0);
    return change.kind == CHANGE_WANTS_EVENT;
}

static void read_changes(const uint8_t *bytes, size_t size)
{
    struct err err = {0};
    uint64_t row = 0;

    if (!stream.values)
        change_stream_init(&stream, last_schema, last_name, 1 << 20, &err);
    if (change_stream_begin(&stream, true, "", "", 4, 0, "", &err) != RC_OK)
        return;
    for (size_t at = 0; at < size;) {
        uint32_t len = find_event_len(bytes + at, size - at);

        if (!is_good(change_stream_give(&stream, bytes + at, len, &err), &err) ||
            !take_changes(&row))
            break;
        at += len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Of the size that it needs, so that a read past the end is seen. */
    uint8_t *bytes = size ? malloc(size) : NULL;

    memset(&format, 0, sizeof(format));
    has_table = false;
    if (bytes)
        memcpy(bytes, data, size);
    for (size_t at = 0; bytes && at < size;) {
        struct binlog_event event;
        struct err err = {0};
        uint32_t len = find_event_len(bytes + at, size - at);

        event_start = bytes + at;
        event_end = event_start + len;
        if (!is_good(binlog_event_parse(&event, bytes + at, len, &format, &err), &err))
            break;
        if (!take_event(&event))
            break;
        at += len;
    }
    if (bytes)
        read_changes(bytes, size);
    free(bytes);
    return 0;
}
