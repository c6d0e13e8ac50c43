/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/published_kind_mysql.h"

#include <stdio.h>
#include <string.h>

struct columns_query {
    struct db *db;
    struct buf *sql;
    const struct published_names *names;
    struct id_column *id;
};

static void put_sql(struct columns_query *query, const char *sql)
{
    buf_text_put(query->sql, sql);
}

static void put_text(struct columns_query *query, const char *text)
{
    db_put_text(query->db, query->sql, text, strlen(text));
}

static enum rc take_table(void *ctx, const struct db_row *row, struct err *err)
{
    struct cleaner_table *table = ctx;

    table->has_seq = db_column_i64(row, 0) == 1 && db_column_i64(row, 1) == 1;
    table->has_created_at = db_column_i64(row, 2) == 1;
    if (db_column_i64(row, 3) > 0)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "there is no such table, or the account lacks SELECT on it");
}

static enum rc select_columns(struct columns_query *query, struct cleaner_table *table,
                              struct err *err)
{
    buf_reset(query->sql);
    put_sql(query, "SELECT SUM(column_key = 'PRI'), SUM(column_key = 'PRI' AND column_name = "
                   "'seq'), SUM(data_type IN ('datetime', 'timestamp') AND column_name = ");
    put_text(query, query->names->created_at);
    put_sql(query,
            "), COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND "
            "table_name = ");
    put_text(query, query->names->table);
    return db_query_buf(query->db, query->sql, take_table, table, err);
}

/* Returns whether ids of this type are equal when their bytes in the log are. */
static bool choose_type(struct id_column *id, const char *data_type, const char *column_type)
{
    static const char *const numbers[] = {"tinyint", "smallint", "mediumint", "int", "bigint"};

    id->type = ID_TEXT;
    if (strcmp(data_type, "char") == 0 || strcmp(data_type, "varchar") == 0)
        return true;
    id->type = ID_BYTES_AS_THEY_ARE;
    if (strcmp(data_type, "binary") == 0 || strcmp(data_type, "varbinary") == 0)
        return true;
    id->type = strstr(column_type, "unsigned") ? ID_UNSIGNED : ID_SIGNED;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(data_type, numbers[i]) == 0)
            return true;
    return false;
}

struct id_finding {
    struct id_column *id;
    bool found;
};

static enum rc take_id(void *ctx, const struct db_row *row, struct err *err)
{
    struct id_finding *finding = ctx;
    struct id_column *id = finding->id;

    (void)err;
    finding->found = row->columns[0] && choose_type(id, row->columns[1], row->columns[2]);
    snprintf(id->index, sizeof(id->index), "%s", row->columns[0] ? row->columns[0] : "");
    snprintf(id->charset, sizeof(id->charset), "%s", row->columns[3] ? row->columns[3] : "");
    snprintf(id->collation, sizeof(id->collation), "%s", row->columns[4] ? row->columns[4] : "");
    return RC_OK;
}

/* An index with another name (db_put_name()) is as none: rows_not_removed tells it. Two rows of a
 * table have the same id only if a unique index lets them, in its collation. */
static enum rc select_id(struct columns_query *query, struct cleaner_table *table, struct err *err)
{
    struct id_finding finding = {.id = query->id};
    enum rc rc;

    buf_reset(query->sql);
    put_sql(query, "SELECT (SELECT index_name FROM information_schema.statistics WHERE "
                   "table_schema = DATABASE() AND table_name = ");
    put_text(query, query->names->table);
    put_sql(query, " AND non_unique = 0 AND index_name REGEXP '^[A-Za-z0-9_]+$' GROUP BY "
                   "index_name HAVING COUNT(*) = 1 AND "
                   "MAX(sub_part IS NULL AND column_name = ");
    put_text(query, query->names->id);
    put_sql(query, ") = 1 ORDER BY index_name = 'PRIMARY' DESC, index_name LIMIT 1), data_type, "
                   "column_type, character_set_name, collation_name FROM "
                   "information_schema.columns WHERE table_schema = DATABASE() AND table_name = ");
    put_text(query, query->names->table);
    put_sql(query, " AND column_name = ");
    put_text(query, query->names->id);
    rc = db_query_buf(query->db, query->sql, take_id, &finding, err);
    table->has_id = rc == RC_OK && finding.found;
    return rc;
}

enum rc published_kind_mysql_read(struct db *db, struct buf *sql,
                                  const struct published_names *names, struct cleaner_table *table,
                                  struct id_column *id, struct err *err)
{
    struct columns_query query = {db, sql, names, id};
    enum rc rc = db_connect(db, err);

    memset(table, 0, sizeof(*table));
    if (rc == RC_OK)
        rc = select_columns(&query, table, err);
    if (rc == RC_OK)
        rc = select_id(&query, table, err);
    if (rc != RC_OK)
        err_wrap(err, "reading the columns of %s", names->table);
    return rc;
}
