/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/outbox_columns_mysql.h"

#include "common/buf.h"

#include <string.h>

enum column { COLUMN_NAME, COLUMN_DATA_TYPE, COLUMN_WHOLE_TYPE, COLUMN_CHARSET, COLUMN_BYTES };

static enum rc add_column(void *ctx, const struct db_row *row, struct err *err)
{
    return outbox_definition_add(ctx, row->columns[COLUMN_NAME], row->columns[COLUMN_DATA_TYPE],
                                 row->columns[COLUMN_WHOLE_TYPE], row->columns[COLUMN_CHARSET],
                                 db_column_u64(row, COLUMN_BYTES), err);
}

enum rc outbox_columns_read(struct db *db, const char *schema, const char *table,
                            struct outbox_definition *definition, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    outbox_definition_done(definition);
    buf_text_put(&sql, "SELECT column_name, data_type, column_type, character_set_name, "
                       "character_octet_length FROM information_schema.columns WHERE "
                       "table_schema = ");
    db_put_text(db, &sql, schema, strlen(schema));
    buf_text_put(&sql, " AND table_name = ");
    db_put_text(db, &sql, table, strlen(table));
    buf_text_put(&sql, " ORDER BY ordinal_position");
    rc = db_query_buf(db, &sql, add_column, definition, err);
    buf_done(&sql);
    if (rc == RC_OK && definition->count == 0)
        rc = err_fail(err, RC_REJECT, 0,
                      "there is no table %s.%s, or the account has no privilege on it", schema,
                      table);
    if (rc != RC_OK)
        outbox_definition_done(definition);
    return rc;
}
