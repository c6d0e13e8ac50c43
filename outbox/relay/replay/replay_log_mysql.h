/* SPDX-License-Identifier: MIT */
/* The adapter that reads the binary log for a replay: its files, how far the lane has published it,
 * and the stream of the lane's rows, all from one database (origin_mysql.h). Requires REPLICATION
 * SLAVE and, for SHOW BINARY LOGS, REPLICATION CLIENT or on MariaDB BINLOG MONITOR, and SELECT on
 * the table and relay_position. One thread. */
#ifndef OUTBOX_RELAY_REPLAY_REPLAY_LOG_MYSQL_H
#define OUTBOX_RELAY_REPLAY_REPLAY_LOG_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/binlog/gtid_set.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/replay/replay_ops.h"
#include "outbox/relay/stream/position_store_mysql.h"
#include "outbox/relay/stream/stream_mysql.h"

#include <stddef.h>
#include <stdint.h>

struct replay_log_mysql {
    const struct lane_settings *lane;
    const struct settings *settings;
    struct origin_mysql *origin;
    struct db *db;
    uint32_t server_id; /* of its streams, not that of the lane's */
    struct stream_columns columns;
    struct stream_mysql *stream;
    struct position_store_mysql positions;
    struct stream_position published; /* by the lane */
    struct gtid_set published_gtids;
    char (*files)[BINLOG_FILE_SIZE]; /* the oldest one first */
    size_t file_count;
    size_t file_size; /* of the array */
    uint64_t last_bytes;
};

struct replay_log_facts {
    int64_t now_ms;                    /* the clock of the database, since 1970 */
    char server[POSITION_SERVER_SIZE]; /* its identity */
    struct replay_log_at end; /* of what the lane has published, or of the log; offset: any */
};

/* Borrows everything until replay_log_mysql_close(); db is guarded by origin. batch_bytes: of the
 * batches that the rows have to fit into. RC_FATAL: no memory. Close it after a failure, too. */
enum rc replay_log_mysql_open(struct replay_log_mysql *log, const struct lane_settings *lane,
                              const struct settings *settings, struct origin_mysql *origin,
                              struct db *db, size_t batch_bytes, struct err *err);

/* Accepts a zeroed one. */
void replay_log_mysql_close(struct replay_log_mysql *log);

/* Reads how far the lane has published the log, and then the files and the facts. RC_REJECT: the
 * lane has no position. */
enum rc replay_log_mysql_look(struct replay_log_mysql *log, struct replay_log_facts *facts,
                              struct err *err);

/* Checks that a place of an earlier replay is one in this log. RC_REJECT: it is in that of another
 * server, or the file is deleted. After replay_log_mysql_look(). */
enum rc replay_log_mysql_check_place(const struct replay_log_mysql *log,
                                     const struct replay_log_place *place, struct err *err);

/* Says in err, which has the reason of a failed stream, what to do. */
void replay_log_mysql_explain(const struct replay_log_mysql *log, struct err *err);

/* The ops are valid while log is open. */
struct replay_log_ops replay_log_mysql_ops(struct replay_log_mysql *log);

#endif
