/* SPDX-License-Identifier: MIT */
#include "schema/migrate/statement.h"

#include "schema/migrate/sql_token.h"

#include <stdbool.h>

enum rc statement_next(const char **at, const char *end, struct statement *statement,
                       struct err *err)
{
    struct sql_scan scan = {*at, end};
    struct sql_token token;
    const char *last = NULL;
    enum rc rc;

    statement->sql = *at;
    statement->len = 0;
    while ((rc = sql_token_next(&scan, &token, err)) == RC_OK) {
        bool ends = token.kind == SQL_END || sql_token_is(&token, ";");

        if (ends && (last || token.kind == SQL_END))
            break;
        if (ends)
            continue;
        if (!last) {
            statement->sql = token.at;
            if (sql_token_is(&token, "DELIMITER"))
                return err_fail(err, RC_FATAL, 0,
                                "DELIMITER is a word of the mysql client and not supported: only "
                                "semicolons end a statement");
        }
        last = token.at + token.len;
    }
    if (last)
        statement->len = (size_t)(last - statement->sql);
    *at = scan.at;
    return rc;
}
