/* SPDX-License-Identifier: MIT */
/* Reads the positions of lanes that read the binary log, and how much of the log the server keeps
 * before and behind them. Needs SELECT on relay_position, and for the log REPLICATION CLIENT
 * (MariaDB: BINLOG MONITOR). One thread. */
#ifndef CONSUMER_STATUS_STATUS_LOG_MYSQL_H
#define CONSUMER_STATUS_STATUS_LOG_MYSQL_H

#include "common/db/db.h"
#include "consumer/status/status.h"

#include <stdbool.h>

/* Fills the positions of the lanes that are is_stream, each with its fault. has_schema: of the
 * database. db is connected. */
void status_log_mysql_fill(struct status *status, struct db *db, bool has_schema);

#endif
