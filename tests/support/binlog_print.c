/* SPDX-License-Identifier: MIT */
/* Reads a file of a server's binary log with the parser of the relay, for the end-to-end tests of
 * it: tallybox-binlog FILE SCHEMA.TABLE [UNSIGNED]
 *
 * Prints one JSON line for each row of the table, and one at the end with the number of events of
 * each type. UNSIGNED has a 1 for each unsigned column and a 0 for others, where the log does not
 * tell. Exit code 1 with the reason when something cannot be read. */
#include "common/buf.h"
#include "common/text.h"
#include "outbox/relay/binlog/event.h"
#include "outbox/relay/binlog/jsonb.h"
#include "outbox/relay/binlog/payload.h"
#include "outbox/relay/binlog/rows.h"
#include "outbox/relay/binlog/table_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC_SIZE 4

static struct binlog_format format;
static struct binlog_table table;
static struct binlog_column columns[BINLOG_COLUMNS_MAX];
static struct binlog_value values[BINLOG_COLUMNS_MAX];
static bool unsigned_columns[BINLOG_COLUMNS_MAX];
static bool has_unsigned;
static bool is_ours;
static uint64_t events[BINLOG_TYPES_MAX];
static uint64_t gtids;
static struct binlog_gtid last_gtid;
static const char *wanted;
static struct buf expanded;
static struct binlog_payload payload;

static void check_result(enum rc rc, const struct err *err)
{
    if (rc == RC_OK)
        return;
    fprintf(stderr, "tallybox-binlog: %s\n", err->text);
    exit(1);
}

static void put_value(struct buf *out, const struct binlog_value *value)
{
    switch (value->kind) {
    case VALUE_NULL:
        buf_text_put(out, "null");
        break;
    case VALUE_ABSENT:
        buf_text_put(out, "\"absent\"");
        break;
    case VALUE_SIGNED:
    case VALUE_INDEX:
    case VALUE_TIMESTAMP:
        buf_print(out, "\"%" PRId64 "\"", value->number);
        break;
    case VALUE_UNSIGNED:
        buf_print(out, "\"%" PRIu64 "\"", (uint64_t)value->number);
        break;
    case VALUE_FLOAT:
        buf_print(out, "\"%.9g\"", value->real);
        break;
    case VALUE_DOUBLE:
        buf_print(out, "\"%.17g\"", value->real);
        break;
    case VALUE_BYTES:
        buf_char(out, '"');
        buf_hex(out, value->bytes, value->len);
        buf_char(out, '"');
        break;
    case VALUE_DECIMAL:
    case VALUE_DATE:
    case VALUE_DATETIME:
    case VALUE_TIME:
        buf_print(out, "\"%.*s\"", (int)value->len, value->text);
        break;
    }
}

static void put_json(struct buf *out, const struct binlog_value *value)
{
    struct buf text = {0};

    if (!jsonb_put(&text, value->bytes, value->len)) {
        fprintf(stderr, "tallybox-binlog: a document cannot be read\n");
        exit(1);
    }
    json_text_put(out, buf_text(&text));
    buf_done(&text);
}

static void print_rows(const struct binlog_event *event)
{
    struct binlog_rows rows;
    struct buf out = {0};
    struct err err = {0};
    bool found = true;

    check_result(binlog_rows_begin(&rows, &table, columns, has_unsigned ? unsigned_columns : NULL,
                                   event, &expanded, &err),
                 &err);
    while (found) {
        check_result(binlog_rows_next(&rows, values, &found, &err), &err);
        if (!found)
            break;
        buf_reset(&out);
        for (size_t i = 0; i < table.column_count; i++) {
            buf_char(&out, i ? ',' : '[');
            if (columns[i].type == COLUMN_JSON && values[i].kind == VALUE_BYTES)
                put_json(&out, &values[i]);
            else
                put_value(&out, &values[i]);
        }
        printf("%s]\n", buf_text(&out));
    }
    buf_done(&out);
}

static void take_table(const struct binlog_event *event)
{
    char name[256];
    struct err err = {0};

    check_result(binlog_table_parse(&table, columns, BINLOG_COLUMNS_MAX, event, &err), &err);
    snprintf(name, sizeof(name), "%.*s.%.*s", (int)table.schema_len, table.schema,
             (int)table.name_len, table.name);
    is_ours = strcmp(name, wanted) == 0;
}

/* Any event but one that has others in it. */
static void take_plain(struct binlog_event *event)
{
    struct binlog_rotate rotate;
    struct binlog_query query;
    struct err err = {0};

    events[event->type]++;
    switch (event->type) {
    case BINLOG_FORMAT:
        check_result(binlog_format_parse(&format, event, &err), &err);
        break;
    case BINLOG_ROTATE:
        check_result(binlog_rotate_parse(&rotate, event, &err), &err);
        break;
    case BINLOG_QUERY:
    case BINLOG_QUERY_COMPRESSED:
        check_result(binlog_query_parse(&query, event, &expanded, &err), &err);
        break;
    case BINLOG_GTID:
    case BINLOG_GTID_TAGGED:
    case BINLOG_ANONYMOUS_GTID:
    case BINLOG_MARIADB_GTID:
        check_result(binlog_gtid_parse(&last_gtid, event, &err), &err);
        gtids++;
        break;
    case BINLOG_TABLE_MAP:
        take_table(event);
        break;
    case BINLOG_WRITE_ROWS_1:
    case BINLOG_WRITE_ROWS:
    case BINLOG_WRITE_ROWS_COMPRESSED_1:
    case BINLOG_WRITE_ROWS_COMPRESSED:
        if (is_ours)
            print_rows(event);
        break;
    default:
        break;
    }
}

/* A table map borrows from an event that is gone when the next one was taken. */
static uint8_t *kept;

static void take_inner(struct binlog_event *event)
{
    if (event->type == BINLOG_TABLE_MAP) {
        kept = realloc(kept, event->body_len);
        if (!kept)
            exit(1);
        memcpy(kept, event->body, event->body_len);
        event->body = kept;
    }
    take_plain(event);
}

static void take_event(const uint8_t *bytes, size_t len)
{
    struct binlog_event event;
    struct binlog_event inner;
    struct err err = {0};
    bool found = true;

    check_result(binlog_event_parse(&event, bytes, len, &format, &err), &err);
    if (event.type != BINLOG_TRANSACTION_PAYLOAD) {
        take_plain(&event);
        return;
    }
    events[event.type]++;
    check_result(binlog_payload_begin(&payload, &event, &err), &err);
    while (found) {
        check_result(binlog_payload_next(&payload, &inner, &found, &err), &err);
        if (found)
            take_inner(&inner);
    }
}

static void print_counts(void)
{
    struct buf out = {0};

    buf_text_put(&out, "{\"server\":");
    json_text_put(&out, format.server);
    buf_text_put(&out, ",\"gtid\":\"");
    if (last_gtid.mariadb)
        buf_print(&out, "%" PRIu32 "-%" PRIu32 "-", last_gtid.domain, last_gtid.server_id);
    else
        buf_hex(&out, last_gtid.uuid, sizeof(last_gtid.uuid));
    buf_print(&out, "%s%s%s%" PRIu64 "\"", last_gtid.mariadb ? "" : ":", last_gtid.tag,
              last_gtid.tag[0] ? ":" : "", last_gtid.sequence);
    buf_print(&out, ",\"signs\":%s,\"names\":%s,\"gtids\":%" PRIu64 ",\"events\":{",
              table.signs ? "true" : "false", table.names ? "true" : "false", gtids);
    for (unsigned type = 0, count = 0; type < BINLOG_TYPES_MAX; type++)
        if (events[type])
            buf_print(&out, "%s\"%u\":%" PRIu64, count++ ? "," : "", type, events[type]);
    printf("%s}}\n", buf_text(&out));
    buf_done(&out);
}

/* The whole file; it is small. */
static uint8_t *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long size;

    if (!file || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < MAGIC_SIZE) {
        fprintf(stderr, "tallybox-binlog: %s cannot be read\n", path);
        exit(1);
    }
    rewind(file);
    bytes = malloc((size_t)size);
    *len = bytes ? fread(bytes, 1, (size_t)size, file) : 0;
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    size_t len = 0;
    uint8_t *bytes;

    if (argc < 3) {
        fprintf(stderr, "usage: tallybox-binlog FILE SCHEMA.TABLE [UNSIGNED]\n");
        return 2;
    }
    wanted = argv[2];
    for (size_t i = 0; argc > 3 && argv[3][i] && i < BINLOG_COLUMNS_MAX; i++) {
        has_unsigned = true;
        unsigned_columns[i] = argv[3][i] == '1';
    }
    bytes = read_file(argv[1], &len);
    for (size_t at = MAGIC_SIZE; at + BINLOG_HEADER_SIZE <= len;) {
        struct cursor size = cursor_of(bytes + at + 9, 4);
        uint32_t next = cursor_u32(&size);

        /* The event that the server writes at this moment may not be whole. */
        if (next < BINLOG_HEADER_SIZE || next > len - at)
            break;
        take_event(bytes + at, next);
        at += next;
    }
    print_counts();
    buf_done(&expanded);
    binlog_payload_done(&payload);
    free(kept);
    free(bytes);
    return 0;
}
