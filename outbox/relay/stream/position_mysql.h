/* SPDX-License-Identifier: MIT */
/* Positions in the binary log of a server. One thread at a time. */
#ifndef OUTBOX_RELAY_STREAM_POSITION_MYSQL_H
#define OUTBOX_RELAY_STREAM_POSITION_MYSQL_H

#include "common/db/binlog_link.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/stream/stream_ops.h"

/* Checks that the log of the server has the whole rows of all transactions, by log_bin,
 * binlog_format, binlog_row_image, db_cluster_bypasses_log() and, for the database of the
 * connection, db_log_lacks_database(). The variables are global: a session that the administrator
 * lets set its own ones is found when its statements are read (change_stream.h). Needs no
 * privilege, except as the last two. RC_FATAL: err names what is wrong and what to set. */
enum rc position_mysql_check_log(struct db *db, struct err *err);

/* Connects db and writes where the log of its server ends now: by GTID where the server has them,
 * else by file and offset. RC_FATAL: the account has no privilege, or the server, found without
 * GTIDs, writes no log. */
enum rc position_mysql_read_end(struct db *db, struct stream_position *end, struct err *err);

/* The same for a lane that begins there. RC_RETRY, too: no stream opens at this end, before the
 * server begins its next file. */
enum rc position_mysql_read_begin(struct db *db, struct stream_position *end, struct err *err);

/* Checks that the log of the server has been written up to this position or further, even if its
 * beginning was deleted since. RC_REJECT: it has not. Privileges as position_mysql_read_end(). */
enum rc position_mysql_check_written(struct db *db, const struct stream_position *position,
                                     struct err *err);

/* The same of a position up to which the server has sent its log. On MariaDB domains of which the
 * server has nothing any more may be missing, unless it has nothing at all: a replica that takes
 * its place need not have them, and FLUSH BINARY LOGS DELETE_DOMAIN_ID forgets them. */
enum rc position_mysql_check_sent(struct db *db, const struct stream_position *position,
                                  struct err *err);

/* Writes into risk why the log at the position is deleted, or will be soon; else an empty text. The
 * position is of this server. Needs REPLICATION CLIENT, on MariaDB BINLOG MONITOR. */
enum rc position_mysql_find_risk(struct db *db, const struct stream_position *position,
                                 struct err *risk, struct err *err);

/* Opens a link at a position, to the database of origin unless that is NULL. how: all but the
 * place, which is ignored there. As for binlog_link_open(); RC_REJECT also for a text that is no
 * set of GTIDs. */
enum rc position_mysql_open(struct binlog_link **link, const struct mysql_settings *settings,
                            struct origin_mysql *origin, enum db_kind kind,
                            const struct stream_position *from, const struct binlog_start *how,
                            struct err *err);

#endif
