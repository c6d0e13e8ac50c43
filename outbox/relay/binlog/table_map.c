/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/table_map.h"

#include "outbox/relay/binlog/cursor.h"

#include <string.h>

/* Optional metadata: type, packed length, value. The others are not needed: character sets come
 * from information_schema, because MINIMAL has none. */
enum metadata_type {
    METADATA_SIGNS = 1,
    METADATA_NAMES = 4,
};

static enum rc fail_table(struct err *err, const struct binlog_table *table, const char *what)
{
    return err_fail(err, RC_FATAL, 0, "binlog: the table map of %.*s.%.*s %s",
                    (int)table->schema_len, table->schema ? table->schema : "",
                    (int)table->name_len, table->name ? table->name : "", what);
}

/* Two bytes, the first of which has two bits of the length in it when the type is a CHAR of more
 * than 255 bytes. */
static void set_string(struct binlog_column *column, uint8_t first, uint8_t second)
{
    if ((first & 0x30) != 0x30) {
        column->meta = (uint16_t)(second | ((first & 0x30) ^ 0x30) << 4);
        column->type = first | 0x30;
        return;
    }
    column->type = first;
    column->meta = second;
}

/* False: no server writes such a type into a table map. */
static bool take_meta(struct binlog_column *column, struct cursor *cursor)
{
    uint8_t first;

    switch (column->type) {
    case COLUMN_FLOAT:
    case COLUMN_DOUBLE:
    case COLUMN_TINY_BLOB:
    case COLUMN_MEDIUM_BLOB:
    case COLUMN_LONG_BLOB:
    case COLUMN_BLOB:
    case COLUMN_BLOB_COMPRESSED:
    case COLUMN_GEOMETRY:
    case COLUMN_JSON:
    case COLUMN_VECTOR:
    case COLUMN_TIMESTAMP2:
    case COLUMN_DATETIME2:
    case COLUMN_TIME2:
        column->meta = cursor_u8(cursor);
        return true;
    case COLUMN_VARCHAR:
    case COLUMN_VARCHAR_COMPRESSED:
    case COLUMN_VAR_STRING:
        column->meta = cursor_u16(cursor);
        return true;
    case COLUMN_BIT:
        first = cursor_u8(cursor);
        column->meta = (uint16_t)(cursor_u8(cursor) * 8 + first);
        return true;
    case COLUMN_DECIMAL:
        column->meta = (uint16_t)cursor_be(cursor, 2);
        return true;
    case COLUMN_STRING:
    case COLUMN_ENUM:
    case COLUMN_SET:
        first = cursor_u8(cursor);
        set_string(column, first, cursor_u8(cursor));
        return column->type == COLUMN_STRING || column->type == COLUMN_ENUM ||
               column->type == COLUMN_SET;
    default:
        return column->type <= COLUMN_NEWDATE;
    }
}

static bool is_number(const struct binlog_column *column)
{
    switch (column->type) {
    case COLUMN_TINY:
    case COLUMN_SHORT:
    case COLUMN_INT24:
    case COLUMN_LONG:
    case COLUMN_LONGLONG:
    case COLUMN_FLOAT:
    case COLUMN_DOUBLE:
    case COLUMN_DECIMAL:
    case COLUMN_YEAR:
        return true;
    default:
        return false;
    }
}

/* A bit for each column that is a number, the highest first. */
static void take_signs(struct binlog_table *table, struct binlog_column *columns,
                       struct cursor *value)
{
    size_t number = 0;
    uint8_t bits = 0;

    for (size_t i = 0; i < table->column_count; i++) {
        if (!is_number(&columns[i]))
            continue;
        if (number++ % 8 == 0)
            bits = cursor_u8(value);
        columns[i].is_unsigned = (bits & 0x80) != 0;
        bits = (uint8_t)(bits << 1);
    }
    table->signs = !value->bad;
}

static void take_names(struct binlog_table *table, struct binlog_column *columns,
                       struct cursor *value)
{
    for (size_t i = 0; i < table->column_count; i++)
        columns[i].name = cursor_text(value, &columns[i].name_len);
    table->names = !value->bad;
}

static enum rc take_metadata(struct binlog_table *table, struct binlog_column *columns,
                             struct cursor *cursor, struct err *err)
{
    while (cursor_left(cursor) > 0) {
        uint8_t type = cursor_u8(cursor);
        struct cursor value = cursor_part(cursor, cursor_packed(cursor));

        if (type == METADATA_SIGNS)
            take_signs(table, columns, &value);
        else if (type == METADATA_NAMES)
            take_names(table, columns, &value);
        if (cursor->bad || value.bad)
            return fail_table(err, table, "has metadata that is cut off");
    }
    return RC_OK;
}

static enum rc take_types(struct binlog_table *table, struct binlog_column *columns,
                          struct cursor *cursor, struct err *err)
{
    const uint8_t *types = cursor_take(cursor, table->column_count);
    struct cursor meta = cursor_part(cursor, cursor_packed(cursor));
    const uint8_t *nullable = cursor_take(cursor, (table->column_count + 7) / 8);

    if (cursor->bad)
        return fail_table(err, table, "is cut off");
    for (size_t i = 0; i < table->column_count; i++) {
        columns[i] = (struct binlog_column){.type = types[i]};
        columns[i].nullable = (nullable[i / 8] >> i % 8 & 1) != 0;
        if (!take_meta(&columns[i], &meta))
            return err_fail(err, RC_FATAL, 0,
                            "binlog: column %zu of %.*s.%.*s has the unknown type %u", i + 1,
                            (int)table->schema_len, table->schema, (int)table->name_len,
                            table->name, columns[i].type);
    }
    if (meta.bad || cursor_left(&meta) > 0)
        return fail_table(err, table, "has metadata of another length than its types need");
    return RC_OK;
}

static const char *take_name(struct cursor *cursor, size_t *len)
{
    const char *name;

    *len = cursor_u8(cursor);
    name = (const char *)cursor_take(cursor, *len);
    cursor_u8(cursor); /* ends it */
    if (!name)
        *len = 0;
    return name;
}

static void take_head(struct binlog_table *table, struct cursor *cursor)
{
    memset(table, 0, sizeof(*table));
    table->id = cursor_le(cursor, BINLOG_TABLE_ID_SIZE);
    cursor_u16(cursor); /* flags */
    table->schema = take_name(cursor, &table->schema_len);
    table->name = take_name(cursor, &table->name_len);
}

enum rc binlog_table_parse_name(struct binlog_table *table, const struct binlog_event *event,
                                struct err *err)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);

    take_head(table, &cursor);
    return cursor.bad ? fail_table(err, table, "is cut off") : RC_OK;
}

enum rc binlog_table_parse(struct binlog_table *table, struct binlog_column *columns,
                           size_t columns_max, const struct binlog_event *event, struct err *err)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);
    uint64_t count;
    enum rc rc;

    take_head(table, &cursor);
    count = cursor_packed(&cursor);
    if (cursor.bad)
        return fail_table(err, table, "is cut off");
    if (count > columns_max)
        return fail_table(err, table, "has more columns than a table can have");
    table->column_count = (size_t)count;
    rc = take_types(table, columns, &cursor, err);
    return rc == RC_OK ? take_metadata(table, columns, &cursor, err) : rc;
}
