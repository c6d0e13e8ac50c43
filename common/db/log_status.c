/* SPDX-License-Identifier: MIT */
#include "common/db/log_status.h"

#include "common/db/error.h"
#include "common/text.h"

#include <stdio.h>
#include <string.h>

#define NO_SUCH_STATEMENT 1064
#define DATABASE_SIZE 257 /* 64 characters of four bytes */

struct log_filter {
    char database[DATABASE_SIZE];
    bool lacks;
};

static enum rc take_database(void *ctx, const struct db_row *row, struct err *err)
{
    struct log_filter *filter = ctx;

    (void)err;
    snprintf(filter->database, sizeof(filter->database), "%s",
             row->columns[0] ? row->columns[0] : "");
    return RC_OK;
}

static const char *column_of(const struct db_row *row, size_t column)
{
    return row->count > column && row->columns[column] ? row->columns[column] : "";
}

static enum rc take_status(void *ctx, const struct db_row *row, struct err *err)
{
    struct log_filter *filter = ctx;
    const char *only = column_of(row, DB_LOG_DO_DB);

    (void)err;
    filter->lacks = (only[0] && !list_has(only, filter->database)) ||
                    list_has(column_of(row, DB_LOG_IGNORE_DB), filter->database);
    return RC_OK;
}

enum rc db_log_ask_status(struct db *db, db_on_row on_row, void *ctx, struct err *err)
{
    static const char *const statements[] = {"SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"};
    struct err own = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        rc = db_query(db, statements[i], strlen(statements[i]), on_row, ctx, &own);
        if (rc == RC_OK || own.code != NO_SUCH_STATEMENT)
            break;
    }
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}

/* No variable has the filters. */
enum rc db_log_lacks_database(struct db *db, bool *lacks, struct err *err)
{
    static const char database_sql[] = "SELECT DATABASE()";
    struct log_filter filter = {0};
    struct err own = {0};
    enum rc rc = db_query(db, database_sql, sizeof(database_sql) - 1, take_database, &filter, &own);

    if (rc == RC_OK)
        rc = db_log_ask_status(db, take_status, &filter, &own);
    *lacks = rc == RC_OK && filter.lacks;
    if (rc != RC_OK && db_error_lacks_privilege((unsigned)own.code))
        return RC_OK;
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}
