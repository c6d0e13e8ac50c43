/* SPDX-License-Identifier: MIT */
/* Reads what outbox_columns.h needs to know about a table from information_schema, and checks its
 * engine. */
#ifndef OUTBOX_RELAY_BINLOG_OUTBOX_COLUMNS_MYSQL_H
#define OUTBOX_RELAY_BINLOG_OUTBOX_COLUMNS_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/binlog/outbox_columns.h"

/* Replaces the definition by that of schema.table, as it is now: rows of the log may be of an
 * earlier one. RC_REJECT: there is no such table, or the account has no privilege on it. After a
 * failure the definition is empty. */
enum rc outbox_columns_read(struct db *db, const char *schema, const char *table,
                            struct outbox_definition *definition, struct err *err);

/* Checks that the table takes part in transactions: rows of any other one are in the log also if
 * the transaction of their writer is rolled back (but not those of BLACKHOLE). RC_REJECT: err names
 * the engine. */
enum rc outbox_columns_check_engine(struct db *db, const char *schema, const char *table,
                                    struct err *err);

#endif
