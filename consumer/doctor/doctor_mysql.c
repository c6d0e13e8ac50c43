/* SPDX-License-Identifier: MIT */
#include "consumer/doctor/doctor_mysql.h"

#include "common/db/db.h"
#include "common/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS_MAX 3000
#define QUERY_MS_MAX 5000

static const char variables_sql[] =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', "
    "'sync_binlog', 'log_bin', 'binlog_format', 'read_only', 'super_read_only', "
    "'innodb_read_only', 'max_allowed_packet', 'version')";

static bool is_on(const char *value)
{
    return strcmp(value, "ON") == 0 || strcmp(value, "1") == 0;
}

static enum rc on_variable(void *ctx, const struct db_row *row, struct err *err)
{
    struct doctor_database *database = ctx;
    const char *name = row->columns[0];
    const char *value = row->columns[1] ? row->columns[1] : "";

    (void)err;
    if (strcmp(name, "innodb_flush_log_at_trx_commit") == 0)
        database->flush_log_at_commit = strtoll(value, NULL, 10);
    else if (strcmp(name, "sync_binlog") == 0)
        database->sync_binlog = strtoll(value, NULL, 10);
    else if (strcmp(name, "log_bin") == 0)
        database->has_binlog = is_on(value);
    else if (strcmp(name, "binlog_format") == 0)
        snprintf(database->binlog_format, sizeof(database->binlog_format), "%s", value);
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
    database->packet_bytes_max = DOCTOR_UNKNOWN;
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

static int64_t find_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void doctor_mysql_fill(struct doctor_database *database, const struct mysql_settings *settings)
{
    struct mysql_settings quick = *settings;
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
    database->no_database = rc != RC_OK && err->code == DB_NO_SUCH_DATABASE;
    database->login_refused =
        rc != RC_OK && (err->code == DB_ACCESS_DENIED || err->code == DB_ACCESS_DENIED_NO_PASSWORD);
    database->rc = rc;
    db_close(db);
}
