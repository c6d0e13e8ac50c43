/* SPDX-License-Identifier: MIT */
/* Whether a filter of the server keeps a database out of its binary log. Any thread, with its own
 * db. */
#ifndef COMMON_DB_LOG_FILTER_H
#define COMMON_DB_LOG_FILTER_H

#include "common/db/db.h"
#include "common/err.h"

#include <stdbool.h>

/* Whether binlog_do_db or binlog_ignore_db keeps the rows of the connection's database out of the
 * log. False, too, if the account lacks REPLICATION CLIENT: it cannot be known then. */
enum rc db_log_lacks_database(struct db *db, bool *lacks, struct err *err);

#endif
