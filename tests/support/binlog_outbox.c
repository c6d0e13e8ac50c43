/* SPDX-License-Identifier: MIT */
/* tallybox-binlog-outbox OPTIONS FILE: the relay rows that the binary log has of an outbox table,
 * for the end-to-end tests. OPTIONS is a JSON object: host, port, user, schema, table and columns,
 * which has the column of each field, as {"id": "event_id"}; and headers, an array of columns that
 * become headers. FILE is a stream of the server's binary log.
 *
 * Prints a JSON array for each row: seq, created_ms, whether it is above the limits, and the bytes
 * of id, aggregatetype, aggregateid, type, payload, headers and the further columns in hexadecimal
 * digits or null. Exit code 1 with the reason for what cannot be made into a row. */
#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/relay/binlog/change_stream.h"
#include "outbox/relay/binlog/outbox_columns_mysql.h"
#include "tests/support/binlog_file.h"
#include "tests/support/options.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_BYTES_MAX 1000000

static const char *const field_names[OUTBOX_FIELDS] = {
    "seq", "id", "aggregatetype", "aggregateid", "type", "payload", "headers", "created_at"};

static struct mysql_settings settings;
static struct change_stream stream;
static struct outbox_definition definition;
static struct outbox_columns columns;
static const char *names[OUTBOX_FIELDS];
static uint64_t version;

static void put_bytes(struct buf *out, struct bytes bytes)
{
    buf_text_put(out, bytes.data ? ", \"" : ", null");
    if (!bytes.data)
        return;
    buf_hex(out, bytes.data, bytes.len);
    buf_char(out, '"');
}

static void print_row(const struct relay_row *row)
{
    const struct bytes fields[] = {row->id,   row->aggregate_type, row->aggregate_id,
                                   row->type, row->payload,        row->headers};
    struct bytes extras = row->extras;
    struct bytes value;
    const char *name;
    struct buf out = {0};

    buf_print(&out, "[%" PRId64 ", ", row->table_seq);
    if (row->created_ms == ROW_CREATED_UNKNOWN)
        buf_text_put(&out, "null");
    else
        buf_i64(&out, row->created_ms);
    buf_text_put(&out, row->oversize ? ", true" : ", false");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        put_bytes(&out, fields[i]);
    while (relay_extra_next(&extras, &name, &value))
        put_bytes(&out, value);
    printf("%s]\n", buf_text(&out));
    buf_done(&out);
}

static enum rc take_change(const struct change_stream *present, const struct change *change,
                           struct err *err)
{
    static const struct outbox_bounds bounds = {ROW_BYTES_MAX, ROW_BYTES_MAX};
    struct relay_row row;
    enum rc rc = RC_OK;

    if (change->kind != CHANGE_ROW)
        return RC_OK;
    if (present->table_version != version)
        rc = outbox_columns_resolve(&columns, &definition, &present->table, present->columns, names,
                                    err);
    version = present->table_version;
    if (rc == RC_OK)
        rc = outbox_columns_make_row(&columns, change->values, &bounds, &row, err);
    if (rc == RC_OK)
        print_row(&row);
    return rc;
}

static enum rc read_definition(const json_t *options, struct err *err)
{
    const json_t *headers = json_object_get(options, "headers");
    struct db *db = NULL;
    enum rc rc;

    snprintf(settings.host, sizeof(settings.host), "%s", text_of(options, "host"));
    snprintf(settings.user, sizeof(settings.user), "%s", text_of(options, "user"));
    snprintf(settings.tls, sizeof(settings.tls), "off");
    settings.port = json_integer_value(json_object_get(options, "port"));
    settings.connect_timeout_ms = settings.query_timeout_ms = 30000;
    for (size_t i = 0; i < OUTBOX_FIELDS; i++)
        names[i] =
            json_string_value(json_object_get(json_object_get(options, "columns"), field_names[i]));
    for (size_t i = 0; i < json_array_size(headers); i++) {
        const char *column = json_string_value(json_array_get(headers, i));

        outbox_columns_add_header(&columns, column, column);
    }
    rc = db_open(&db, &settings, err);
    if (rc == RC_OK)
        rc = outbox_columns_read(db, text_of(options, "schema"), text_of(options, "table"),
                                 &definition, err);
    db_close(db);
    return rc;
}

int main(int argc, char **argv)
{
    json_t *options = argc == 3 ? json_loads(argv[1], 0, NULL) : NULL;
    struct err err = {0};
    enum rc rc;

    if (!options) {
        fprintf(stderr, "usage: tallybox-binlog-outbox OPTIONS FILE\n");
        return 2;
    }
    rc = read_definition(options, &err);
    if (rc == RC_OK)
        rc = change_stream_init(&stream, text_of(options, "schema"), text_of(options, "table"),
                                BINLOG_FILE_EVENT_BYTES_MAX, &err);
    if (rc == RC_OK)
        rc = change_stream_begin(&stream, true, "", "", BINLOG_FILE_MAGIC_SIZE, 0, "", &err);
    if (rc == RC_OK)
        rc = binlog_file_read(argv[2], &stream, take_change, &err);
    if (rc != RC_OK)
        fprintf(stderr, "%s\n", err.text);
    change_stream_done(&stream);
    outbox_columns_done(&columns);
    outbox_definition_done(&definition);
    json_decref(options);
    return rc == RC_OK ? 0 : 1;
}
