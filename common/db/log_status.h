/* SPDX-License-Identifier: MIT */
/* The status of the binary log of a server: where it ends, and which databases it lacks. Any
 * thread, with its own db. */
#ifndef COMMON_DB_LOG_STATUS_H
#define COMMON_DB_LOG_STATUS_H

#include "common/db/db.h"
#include "common/err.h"

#include <stdbool.h>

/* Columns of the row of db_log_ask_status(). */
enum { DB_LOG_FILE, DB_LOG_OFFSET, DB_LOG_DO_DB, DB_LOG_IGNORE_DB };

/* Runs SHOW BINARY LOG STATUS, which has another name before MySQL 8.4. There is no row without a
 * binary log. Needs REPLICATION CLIENT (MariaDB: BINLOG MONITOR). */
enum rc db_log_ask_status(struct db *db, db_on_row on_row, void *ctx, struct err *err);

/* Whether binlog_do_db or binlog_ignore_db keeps the rows of the connection's database out of the
 * log. False, too, if the account lacks REPLICATION CLIENT: it cannot be known then. */
enum rc db_log_lacks_database(struct db *db, bool *lacks, struct err *err);

#endif
