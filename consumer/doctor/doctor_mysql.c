/* SPDX-License-Identifier: MIT */
#include "consumer/doctor/doctor_mysql.h"

#include "common/db/cluster.h"
#include "common/db/db.h"
#include "common/db/log_status.h"
#include "common/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS_MAX 3000
#define QUERY_MS_MAX 5000

static const char variables_sql[] =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', "
    "'sync_binlog', 'log_bin', 'binlog_format', 'read_only', 'super_read_only', "
    "'innodb_read_only', 'max_allowed_packet', 'version', 'binlog_row_image', "
    "'binlog_row_metadata', 'gtid_mode', 'binlog_expire_logs_seconds', 'server_id')";

static bool is_on(const char *value)
{
    return strcmp(value, "ON") == 0 || strcmp(value, "1") == 0;
}

static bool take_log_variable(struct doctor_database *database, const char *name, const char *value)
{
    const struct {
        const char *name;
        char *text;
        size_t size;
    } texts[] = {
        {"binlog_format", database->binlog_format, sizeof(database->binlog_format)},
        {"binlog_row_image", database->binlog_row_image, sizeof(database->binlog_row_image)},
        {"binlog_row_metadata", database->binlog_row_metadata,
         sizeof(database->binlog_row_metadata)},
        {"gtid_mode", database->gtid_mode, sizeof(database->gtid_mode)},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strcmp(name, texts[i].name) == 0) {
            snprintf(texts[i].text, texts[i].size, "%s", value);
            return true;
        }
    if (strcmp(name, "binlog_expire_logs_seconds") == 0)
        database->log_expire_s = strtoll(value, NULL, 10);
    else if (strcmp(name, "server_id") == 0)
        database->server_id = strtoll(value, NULL, 10);
    else
        return false;
    return true;
}

static enum rc on_variable(void *ctx, const struct db_row *row, struct err *err)
{
    struct doctor_database *database = ctx;
    const char *name = row->columns[0];
    const char *value = row->columns[1] ? row->columns[1] : "";

    (void)err;
    if (take_log_variable(database, name, value))
        return RC_OK;
    if (strcmp(name, "innodb_flush_log_at_trx_commit") == 0)
        database->flush_log_at_commit = strtoll(value, NULL, 10);
    else if (strcmp(name, "sync_binlog") == 0)
        database->sync_binlog = strtoll(value, NULL, 10);
    else if (strcmp(name, "log_bin") == 0)
        database->has_binlog = is_on(value);
    else if (strcmp(name, "max_allowed_packet") == 0)
        database->packet_bytes_max = strtoll(value, NULL, 10);
    else if (strcmp(name, "version") == 0)
        snprintf(database->version, sizeof(database->version), "%s", value);
    else
        database->is_read_only |= is_on(value);
    return RC_OK;
}

static enum rc read_variables(struct doctor_database *database, struct db *db, struct err *err)
{
    database->flush_log_at_commit = database->sync_binlog = DOCTOR_UNKNOWN;
    database->packet_bytes_max = database->log_expire_s = database->server_id = DOCTOR_UNKNOWN;
    database->is_mariadb = db_server_kind(db) == DB_MARIADB;
    return db_query(db, variables_sql, sizeof(variables_sql) - 1, on_variable, database, err);
}

/* The server read its clock at some time between the request and the answer. */
static enum rc read_clock(struct doctor_database *database, struct db *db, struct err *err)
{
    int64_t sent_ms = os_wall_ms();
    int64_t server_ms = 0;
    enum rc rc = db_number(db,
                           "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV "
                           "1000",
                           &server_ms, NULL, err);
    int64_t answered_ms = os_wall_ms();

    database->clock_error_ms = (answered_ms - sent_ms + 1) / 2;
    database->clock_ahead_ms = server_ms - (sent_ms + database->clock_error_ms);
    return rc;
}

static enum rc on_grant(void *ctx, const struct db_row *row, struct err *err)
{
    struct buf *grants = ctx;

    (void)err;
    if (row->columns[0]) {
        buf_put(grants, row->columns[0], row->lengths[0]);
        buf_char(grants, '\n');
    }
    return RC_OK;
}

/* The server quotes the names: `reader`@`%`,`writer`@`%`. */
static enum rc on_role(void *ctx, const struct db_row *row, struct err *err)
{
    struct buf *roles = ctx;

    (void)err;
    if (row->columns[0] && strcmp(row->columns[0], "NONE") != 0)
        buf_put(roles, row->columns[0], row->lengths[0]);
    return RC_OK;
}

/* MySQL expands roles only when they are named; MariaDB lists the grants of the current role. */
static enum rc read_grants(struct doctor_database *database, struct db *db, struct err *err)
{
    static const char role_sql[] = "SELECT CURRENT_ROLE()";
    struct buf sql = {0};
    enum rc rc = RC_OK;

    buf_text_put(&sql, "SHOW GRANTS");
    if (!database->is_mariadb) {
        size_t len;

        buf_text_put(&sql, " FOR CURRENT_USER() USING ");
        len = sql.len;
        rc = db_query(db, role_sql, sizeof(role_sql) - 1, on_role, &sql, err);
        if (sql.len == len)
            buf_cut(&sql, strlen("SHOW GRANTS"));
    }
    if (rc == RC_OK)
        rc = db_query_buf(db, &sql, on_grant, &database->grants, err);
    buf_done(&sql);
    return rc;
}

/* The account may have no privilege on the history; then all tables count. */
static void read_scope(struct doctor_database *database, struct db *db)
{
    int64_t left_out = 0;

    database->outbox_only =
        db_number(db,
                  "SELECT COUNT(*) FROM schema_history WHERE state = 'left_out' AND side = 'votes'",
                  &left_out, NULL, NULL) == RC_OK &&
        left_out > 0;
}

struct stream_table {
    struct doctor_database *database;
    size_t lane;
};

static enum rc on_stream_table(void *ctx, const struct db_row *row, struct err *err)
{
    const struct stream_table *table = ctx;
    struct doctor_database *database = table->database;

    (void)err;
    snprintf(database->engines[table->lane], sizeof(database->engines[0]), "%s",
             row->columns[0] ? row->columns[0] : "");
    database->is_partitioned[table->lane] = row->columns[1] && strstr(row->columns[1], "partition");
    database->has_seq[table->lane] = db_column_i64(row, 2) == 1;
    return RC_OK;
}

/* What a lane that reads the binary log needs of the server and its table. */
static enum rc read_streams(struct doctor_database *database, struct db *db,
                            const struct settings *settings, struct err *err)
{
    struct buf sql = {0};
    bool has_stream = false;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < settings->lane_count && rc == RC_OK; i++) {
        const struct lane_settings *lane = &settings->lanes[i];
        struct stream_table table = {database, i};

        if (strcmp(lane->source, LANE_SOURCE_BINLOG) != 0)
            continue;
        has_stream = true;
        buf_reset(&sql);
        buf_text_put(&sql, "SELECT engine, create_options, (SELECT SUM(column_key = 'PRI') = 1 AND "
                           "SUM(column_key = 'PRI' AND column_name = 'seq') = 1 AND "
                           "SUM(column_name = 'created_at' AND data_type IN ('datetime', "
                           "'timestamp')) = 1 FROM information_schema.columns "
                           "WHERE table_schema = DATABASE() AND table_name = ");
        db_put_text(db, &sql, lane->table, strlen(lane->table));
        buf_text_put(&sql, ") FROM information_schema.tables WHERE table_schema = DATABASE() AND "
                           "table_name = ");
        db_put_text(db, &sql, lane->table, strlen(lane->table));
        rc = db_query_buf(db, &sql, on_stream_table, &table, err);
    }
    if (rc == RC_OK && has_stream)
        rc = db_cluster_bypasses_log(db, &database->log_lacks_replicated, err);
    if (rc == RC_OK && has_stream)
        rc = db_log_lacks_database(db, &database->has_log_filter, err);
    buf_done(&sql);
    return rc;
}

/* Of the lanes whose tables the account sees. */
static enum rc check_tables(struct doctor_database *database, struct db *db,
                            const struct settings *settings, doctor_check_table check_table)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < settings->lane_count && rc == RC_OK; i++) {
        struct err why = {0};

        if (!database->engines[i][0])
            continue;
        rc = check_table(db, settings->mysql.database, &settings->lanes[i], &why);
        if (rc == RC_REJECT) {
            database->unreadable[i] = why;
            rc = RC_OK;
        } else if (rc != RC_OK) {
            database->err = why;
        }
    }
    return rc;
}

static int64_t find_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void doctor_mysql_fill(struct doctor_database *database, const struct mysql_settings *mysql,
                       const struct settings *settings, doctor_check_table check_table)
{
    struct mysql_settings quick = *mysql;
    struct err *err = &database->err;
    struct db *db = NULL;
    enum rc rc;

    quick.connect_timeout_ms = find_least(quick.connect_timeout_ms, CONNECT_MS_MAX);
    quick.query_timeout_ms = find_least(quick.query_timeout_ms, QUERY_MS_MAX);
    rc = db_open(&db, &quick, err);
    if (rc == RC_OK)
        rc = db_connect(db, err);
    if (rc == RC_OK)
        rc = read_variables(database, db, err);
    if (rc == RC_OK)
        rc = read_clock(database, db, err);
    if (rc == RC_OK)
        rc = read_grants(database, db, err);
    if (rc == RC_OK)
        read_scope(database, db);
    if (rc == RC_OK && mysql == &settings->mysql)
        rc = read_streams(database, db, settings, err);
    if (rc == RC_OK && mysql == &settings->mysql)
        rc = check_tables(database, db, settings, check_table);
    database->no_database = rc != RC_OK && err->code == DB_NO_SUCH_DATABASE;
    database->login_refused =
        rc != RC_OK && (err->code == DB_ACCESS_DENIED || err->code == DB_ACCESS_DENIED_NO_PASSWORD);
    database->rc = rc;
    db_close(db);
}
