/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/rows.h"

#include "outbox/relay/binlog/expand.h"

#include <inttypes.h>
#include <stdio.h>

static enum rc fail_rows(struct err *err, const struct binlog_rows *rows, const char *what)
{
    const struct binlog_table *table = rows->table;

    return err_fail(err, RC_FATAL, 0, "binlog: the rows of %.*s.%.*s %s", (int)table->schema_len,
                    table->schema, (int)table->name_len, table->name, what);
}

static size_t count_bits(const uint8_t *bits, size_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += bits[i / 8] >> i % 8 & 1;
    return found;
}

/* Version 2 has room for more data in front of the columns. */
static bool has_extra(uint8_t type)
{
    return type == BINLOG_WRITE_ROWS || type == BINLOG_WRITE_ROWS_COMPRESSED;
}

static bool is_compressed(uint8_t type)
{
    return type == BINLOG_WRITE_ROWS_COMPRESSED || type == BINLOG_WRITE_ROWS_COMPRESSED_1;
}

static bool inserts_rows(uint8_t type)
{
    return type == BINLOG_WRITE_ROWS || type == BINLOG_WRITE_ROWS_1 || is_compressed(type);
}

/* Takes what stands in front of the rows. */
static enum rc take_head(struct binlog_rows *rows, const struct binlog_event *event,
                         struct cursor *cursor, struct err *err)
{
    uint64_t id = cursor_le(cursor, BINLOG_TABLE_ID_SIZE);
    size_t count = rows->table->column_count;

    if (cursor->bad || id != rows->table->id)
        return fail_rows(err, rows, "have the id of another table");
    cursor_u16(cursor); /* flags */
    if (has_extra(event->type)) {
        uint16_t extra = cursor_u16(cursor); /* with its own two bytes */

        if (extra < 2)
            return fail_rows(err, rows, "have extra data of an impossible length");
        cursor_take(cursor, (size_t)extra - 2);
    }
    if (cursor_packed(cursor) != count || cursor->bad)
        return fail_rows(err, rows, "have another number of columns than their table");
    rows->present = cursor_take(cursor, (count + 7) / 8);
    if (!rows->present)
        return fail_rows(err, rows, "are cut off");
    rows->present_count = count_bits(rows->present, count);
    return RC_OK;
}

enum rc binlog_rows_begin(struct binlog_rows *rows, const struct binlog_table *table,
                          const struct binlog_column *columns, const bool *is_unsigned,
                          const struct binlog_event *event, struct buf *expanded, struct err *err)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);
    enum rc rc;

    *rows = (struct binlog_rows){.table = table, .columns = columns, .is_unsigned = is_unsigned};
    if (!inserts_rows(event->type))
        return fail_rows(err, rows, "come in an event that inserts nothing");
    rc = take_head(rows, event, &cursor, err);
    if (rc == RC_OK && is_compressed(event->type)) {
        rc = binlog_expand(expanded, cursor, err);
        cursor = cursor_of(expanded->data, expanded->len);
    }
    rows->left = cursor;
    return rc;
}

static bool is_unsigned(const struct binlog_rows *rows, size_t column)
{
    return rows->is_unsigned ? rows->is_unsigned[column] : rows->columns[column].is_unsigned;
}

static enum rc fail_value(struct err *err, const struct binlog_rows *rows, size_t column)
{
    char what[96];

    snprintf(what, sizeof(what), "cannot be read: column %zu has type %u, in row %" PRIu64,
             column + 1, rows->columns[column].type, rows->number);
    return fail_rows(err, rows, what);
}

enum rc binlog_rows_next(struct binlog_rows *rows, struct binlog_value *values, bool *found,
                         struct err *err)
{
    const uint8_t *nulls;
    size_t present = 0;

    *found = cursor_left(&rows->left) > 0;
    if (!*found)
        return rows->left.bad ? fail_rows(err, rows, "are cut off") : RC_OK;
    rows->number++;
    nulls = cursor_take(&rows->left, (rows->present_count + 7) / 8);
    /* A row without a byte would never end. */
    if (!nulls || rows->present_count == 0)
        return fail_rows(err, rows, "are cut off");
    for (size_t i = 0; i < rows->table->column_count; i++) {
        if (!(rows->present[i / 8] >> i % 8 & 1)) {
            values[i].kind = VALUE_ABSENT;
            continue;
        }
        if (nulls[present / 8] >> present % 8 & 1)
            values[i].kind = VALUE_NULL;
        else if (!binlog_value_take(&values[i], &rows->left, &rows->columns[i],
                                    is_unsigned(rows, i)))
            return fail_value(err, rows, i);
        present++;
    }
    return RC_OK;
}
