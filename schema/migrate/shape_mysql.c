/* SPDX-License-Identifier: MIT */
#include "schema/migrate/shape_mysql.h"

#include "common/buf.h"

#include <stdio.h>
#include <string.h>

#define ROWS_MAX 20000 /* far more than a server allows columns and index parts in our tables */

struct reading {
    struct db *db;
    struct shape *actual;
    struct shape_item index; /* the index under way */
};

static const char *get_text(const struct db_row *row, size_t column)
{
    return row->columns[column] ? row->columns[column] : "";
}

static enum rc on_table_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct reading *reading = ctx;
    char text[SHAPE_TEXT_SIZE];

    /* A view has no engine. It must not pass for a table. */
    shape_table_text(row->columns[1] ? row->columns[1] : "none", get_text(row, 2), text);
    return shape_put(reading->actual, SHAPE_TABLE, get_text(row, 0), NULL, text, err);
}

/* MySQL reports whether a default is an expression; MariaDB writes SQL: 'text', 5, NULL, f(x). */
static void copy_default(struct db *db, const char *text, bool is_expression,
                         struct shape_column *column)
{
    size_t len = text ? strlen(text) : 0;
    bool quoted = len >= 2 && text[0] == '\'' && text[len - 1] == '\'';
    bool number = len > 0 && strspn(text, "-.0123456789") == len;

    if (!text || (db_server_kind(db) == DB_MARIADB && strcmp(text, "NULL") == 0))
        return;
    column->standard_kind = SHAPE_DEFAULT_LITERAL;
    if (is_expression || (db_server_kind(db) == DB_MARIADB && !quoted && !number))
        column->standard_kind = SHAPE_DEFAULT_EXPRESSION;
    if (db_server_kind(db) == DB_MARIADB && quoted)
        snprintf(column->standard, sizeof(column->standard), "%.*s", (int)(len - 2), text + 1);
    else
        snprintf(column->standard, sizeof(column->standard), "%s", text);
}

/* The words of information_schema.columns.extra, in lower case. */
static void copy_extra(const char *extra, struct shape_column *column)
{
    column->auto_increment = strstr(extra, "auto_increment") != NULL;
    column->on_update = strstr(extra, "on update") != NULL;
    if (strstr(extra, "stored generated") || strstr(extra, "virtual generated"))
        snprintf(column->generated, sizeof(column->generated), "%s",
                 strstr(extra, "stored") ? "stored" : "virtual");
}

static enum rc on_column_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct reading *reading = ctx;
    struct shape_column column = {0};
    const char *extra = get_text(row, 6);
    char text[SHAPE_TEXT_SIZE];

    snprintf(column.type, sizeof(column.type), "%s", get_text(row, 2));
    snprintf(column.collation, sizeof(column.collation), "%s", get_text(row, 5));
    column.nullable = strcmp(get_text(row, 3), "YES") == 0;
    copy_default(reading->db, row->columns[4], strstr(extra, "default_generated") != NULL, &column);
    copy_extra(extra, &column);
    shape_column_text(&column, text);
    return shape_put(reading->actual, SHAPE_COLUMN, get_text(row, 0), get_text(row, 1), text, err);
}

/* One row per part of an index; the index is written again with each, a little longer. */
static enum rc on_index_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct reading *reading = ctx;
    struct shape_item *index = &reading->index;
    const char *table = get_text(row, 0);
    const char *name = get_text(row, 1);

    if (strcmp(index->table, table) != 0 || strcmp(index->name, name) != 0) {
        snprintf(index->table, sizeof(index->table), "%s", table);
        snprintf(index->name, sizeof(index->name), "%s", name);
        index->text[0] = '\0';
    }
    /* A part without a column is an expression, which MySQL has. */
    shape_index_part(index->text, strcmp(name, "PRIMARY") == 0, db_column_i64(row, 2) == 0,
                     row->columns[3] ? row->columns[3] : "expression", row->columns[4],
                     strcmp(get_text(row, 5), "D") == 0);
    return shape_put(reading->actual, SHAPE_INDEX, table, name, index->text, err);
}

/* WHERE <prefix>table_name is one of the tables of expected. */
static void put_where(struct db *db, struct buf *sql, const struct shape *expected)
{
    bool first = true;

    buf_text_put(sql, " WHERE t.table_schema = DATABASE() AND t.table_name IN (");
    for (size_t i = 0; i < expected->count; i++) {
        const struct shape_item *item = &expected->items[i];

        if (item->kind != SHAPE_TABLE)
            continue;
        if (!first)
            buf_char(sql, ',');
        db_put_text(db, sql, item->table, strlen(item->table));
        first = false;
    }
    buf_text_put(sql, first ? "NULL)" : ")");
}

struct look {
    const char *select;
    const char *order;
    db_on_row on_row;
};

static const struct look looks[] = {
    {"SELECT t.table_name, t.engine, (SELECT CONCAT(MIN(p.partition_method), '(', "
     "MIN(p.partition_expression), ')') FROM information_schema.partitions p WHERE "
     "p.table_schema = t.table_schema AND p.table_name = t.table_name AND "
     "p.partition_name IS NOT NULL) FROM information_schema.tables t",
     "1", on_table_row},
    {"SELECT t.table_name, t.column_name, t.column_type, t.is_nullable, t.column_default, "
     "t.collation_name, LOWER(t.extra) FROM information_schema.columns t",
     "1, t.ordinal_position", on_column_row},
    {"SELECT t.table_name, t.index_name, t.non_unique, t.column_name, t.sub_part, t.collation "
     "FROM information_schema.statistics t",
     "1, 2, t.seq_in_index", on_index_row},
};

enum rc shape_mysql_read(struct db *db, const struct shape *expected, struct shape *actual,
                         struct err *err)
{
    struct reading reading = {.db = db, .actual = actual};
    struct buf sql = {0};
    enum rc rc = db_connect(db, err);

    for (size_t i = 0; rc == RC_OK && i < sizeof(looks) / sizeof(looks[0]); i++) {
        buf_reset(&sql);
        buf_text_put(&sql, looks[i].select);
        put_where(db, &sql, expected);
        buf_print(&sql, " ORDER BY %s LIMIT %d", looks[i].order, ROWS_MAX);
        rc = db_query_buf(db, &sql, looks[i].on_row, &reading, err);
    }
    buf_done(&sql);
    return rc;
}

enum rc shape_mysql_exists(struct db *db, enum shape_kind kind, const char *table, const char *name,
                           bool *exists, struct err *err)
{
    static const char *const views[] = {
        [SHAPE_TABLE] = "tables", [SHAPE_COLUMN] = "columns", [SHAPE_INDEX] = "statistics"};
    static const char *const columns[] = {
        [SHAPE_TABLE] = NULL, [SHAPE_COLUMN] = "column_name", [SHAPE_INDEX] = "index_name"};
    struct buf sql = {0};
    int64_t count = 0;
    enum rc rc;

    buf_print(&sql,
              "SELECT COUNT(*) FROM information_schema.%s WHERE table_schema = DATABASE() AND "
              "table_name = ",
              views[kind]);
    db_put_text(db, &sql, table, strlen(table));
    if (columns[kind]) {
        buf_print(&sql, " AND %s = ", columns[kind]);
        db_put_text(db, &sql, name, strlen(name));
    }
    rc = sql.failed ? err_fail(err, RC_FATAL, 0, "out of memory")
                    : db_number(db, buf_text(&sql), &count, NULL, err);
    *exists = count > 0;
    buf_done(&sql);
    return rc;
}
