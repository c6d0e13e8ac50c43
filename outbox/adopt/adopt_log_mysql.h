/* SPDX-License-Identifier: MIT */
/* The binary log of a lane's server for offset_finder.h, and what has to be true of an offset
 * before the log is read. Main thread of a command. */
#ifndef OUTBOX_ADOPT_ADOPT_LOG_MYSQL_H
#define OUTBOX_ADOPT_ADOPT_LOG_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/adopt/connect_offset.h"
#include "outbox/adopt/offset_finder.h"

#include <stdbool.h>

struct adopt_log {
    struct db *db;
    struct stream_mysql *stream;
    struct stream_log log;
};

/* Connects. annotated: the connector counts the texts of statements (include.query). Settings are
 * borrowed until adopt_log_close(). RC_REJECT: the server is none for this connector. Close it
 * after a failure, too. */
enum rc adopt_log_open(struct adopt_log *log, const struct settings *settings, const char *table,
                       bool mariadb, bool annotated, struct err *err);

#define COLUMN_TYPE_SIZE 65

/* Writes the type of a column of the table, as "json"; "" if there is no such column. */
enum rc adopt_log_column_type(struct adopt_log *log, const char *table, const char *column,
                              char type[COLUMN_TYPE_SIZE], struct err *err);

/* Accepts a zeroed one. */
void adopt_log_close(struct adopt_log *log);

/* Whether the offset can be one of this server. It loses by_gtid on one without GTIDs. RC_REJECT:
 * it cannot, or the server has deleted the log at it. */
enum rc adopt_log_check_offset(struct adopt_log *log, struct connect_offset *offset,
                               struct err *err);

/* Writes the server's @@server_id into the offset, and the GTIDs that it tells although it has none
 * any more: the connector compares those of its history of schemas with them. */
enum rc adopt_log_note_server(struct adopt_log *log, struct connect_offset *offset,
                              struct err *err);

/* Says in err, which has the reason of a failed stream, what to do. */
enum rc adopt_log_explain(const struct adopt_log *log, enum rc rc, struct err *err);

#endif
