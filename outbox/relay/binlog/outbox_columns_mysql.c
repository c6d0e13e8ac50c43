/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/outbox_columns_mysql.h"

#include "common/buf.h"

#include <string.h>

enum column {
    COLUMN_NAME,
    COLUMN_DATA_TYPE,
    COLUMN_WHOLE_TYPE,
    COLUMN_CHARSET,
    COLUMN_BYTES,
    COLUMN_SCHEMA,
    COLUMN_TABLE,
};

struct definition_read {
    const char *schema;
    const char *table;
    struct outbox_definition *definition;
};

/* The log has names as the server writes them. With another case no row of the table would be
 * found there. */
static enum rc add_column(void *ctx, const struct db_row *row, struct err *err)
{
    const struct definition_read *read = ctx;

    if (strcmp(row->columns[COLUMN_SCHEMA], read->schema) != 0 ||
        strcmp(row->columns[COLUMN_TABLE], read->table) != 0)
        return err_fail(err, RC_REJECT, 0,
                        "the server writes the table %s.%s as %s.%s (lower_case_table_names): use "
                        "these names in the settings",
                        read->schema, read->table, row->columns[COLUMN_SCHEMA],
                        row->columns[COLUMN_TABLE]);
    return outbox_definition_add(read->definition, row->columns[COLUMN_NAME],
                                 row->columns[COLUMN_DATA_TYPE], row->columns[COLUMN_WHOLE_TYPE],
                                 row->columns[COLUMN_CHARSET], db_column_u64(row, COLUMN_BYTES),
                                 err);
}

enum rc outbox_columns_read(struct db *db, const char *schema, const char *table,
                            struct outbox_definition *definition, struct err *err)
{
    struct definition_read read = {schema, table, definition};
    struct buf sql = {0};
    enum rc rc;

    outbox_definition_done(definition);
    buf_text_put(
        &sql,
        "SELECT column_name, data_type, column_type, character_set_name, "
        "character_octet_length, table_schema, table_name FROM information_schema.columns WHERE "
        "table_schema = ");
    db_put_text(db, &sql, schema, strlen(schema));
    buf_text_put(&sql, " AND table_name = ");
    db_put_text(db, &sql, table, strlen(table));
    buf_text_put(&sql, " ORDER BY ordinal_position");
    rc = db_query_buf(db, &sql, add_column, &read, err);
    buf_done(&sql);
    if (rc == RC_OK && definition->count == 0)
        rc = err_fail(err, RC_REJECT, 0,
                      "there is no table %s.%s, or the account has no privilege on it", schema,
                      table);
    if (rc != RC_OK)
        outbox_definition_done(definition);
    return rc;
}

static enum rc refuse_engine(void *ctx, const struct db_row *row, struct err *err)
{
    (void)ctx;
    return err_fail(err, RC_REJECT, 0,
                    "its engine is %s, so its rows are in the binary log also if the transaction "
                    "is rolled back: use ALTER TABLE ... ENGINE = InnoDB",
                    row->columns[0]);
}

enum rc outbox_columns_check_engine(struct db *db, const char *schema, const char *table,
                                    struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(&sql, "SELECT t.engine FROM information_schema.tables t JOIN "
                       "information_schema.engines e ON e.engine = t.engine WHERE e.transactions = "
                       "'NO' AND e.engine <> 'BLACKHOLE' AND t.table_schema = ");
    db_put_text(db, &sql, schema, strlen(schema));
    buf_text_put(&sql, " AND t.table_name = ");
    db_put_text(db, &sql, table, strlen(table));
    rc = db_query_buf(db, &sql, refuse_engine, NULL, err);
    buf_done(&sql);
    return rc;
}
