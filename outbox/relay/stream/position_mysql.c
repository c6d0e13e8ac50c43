/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/position_mysql.h"

#include "common/db/cluster.h"
#include "common/db/log_status.h"
#include "outbox/relay/binlog/gtid_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* An operator is told so long before a file expires, or for half of the time that files are kept.
 */
#define EXPIRY_MARGIN_S INT64_C(21600)

static const char log_variables_sql[] = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', "
                                        "'binlog_format', 'binlog_row_image')";

/* A server that does not have a variable has no other value than the one that is needed. */
static enum rc check_variable(void *ctx, const struct db_row *row, struct err *err)
{
    static const struct {
        const char *name;
        const char *value;
        const char *why;
    } needed[] = {
        {"log_bin", "ON", "the server writes no binary log"},
        {"binlog_format", "ROW", "rows may be missing in the binary log"},
        {"binlog_row_image", "FULL", "columns may be missing in the binary log"},
    };
    const char *value = row->columns[1] ? row->columns[1] : "";

    (void)ctx;
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (strcmp(row->columns[0], needed[i].name) == 0 && strcmp(value, needed[i].value) != 0)
            return err_fail(err, RC_FATAL, 0,
                            "%s = %s, so %s: set %s = %s in the configuration of the server, and "
                            "let the writers connect again",
                            needed[i].name, value, needed[i].why, needed[i].name, needed[i].value);
    return RC_OK;
}

enum rc position_mysql_check_log(struct db *db, struct err *err)
{
    bool lacks = false;
    enum rc rc =
        db_query(db, log_variables_sql, sizeof(log_variables_sql) - 1, check_variable, NULL, err);

    if (rc == RC_OK)
        rc = db_cluster_bypasses_log(db, &lacks, err);
    if (rc == RC_OK && lacks)
        return err_fail(err, RC_FATAL, 0,
                        "the server takes rows of another server, which its binary log lacks: set "
                        "%s = ON in its configuration, or read the log of the primary server",
                        db_server_kind(db) == DB_MARIADB ? "log_slave_updates"
                                                         : "log_replica_updates");
    if (rc == RC_OK)
        rc = db_log_lacks_database(db, &lacks, err);
    if (rc == RC_OK && lacks)
        return err_fail(err, RC_FATAL, 0,
                        "a filter keeps the database out of the binary log of the server: take it "
                        "out of binlog_ignore_db, or add it to binlog_do_db");
    return rc;
}

static enum rc take_place(void *ctx, const struct db_row *row, struct err *err)
{
    struct stream_position *end = ctx;

    (void)err;
    snprintf(end->file, sizeof(end->file), "%s", row->columns[DB_LOG_FILE]);
    end->offset = db_column_u64(row, DB_LOG_OFFSET);
    return RC_OK;
}

static enum rc read_place(struct db *db, struct stream_position *end, struct err *err)
{
    enum rc rc;

    end->by_gtid = false;
    end->file[0] = '\0';
    rc = db_log_ask_status(db, take_place, end, err);
    if (rc == RC_OK && !end->file[0])
        return err_fail(err, RC_FATAL, 0, "the server writes no binary log: log_bin is off");
    return rc;
}

static enum rc take_gtids(void *ctx, const struct db_row *row, struct err *err)
{
    struct stream_position *end = ctx;

    (void)err;
    buf_put(&end->before, row->columns[0], row->lengths[0]);
    return RC_OK;
}

static enum rc read_gtids(struct db *db, const char *sql, struct stream_position *end,
                          struct err *err)
{
    end->by_gtid = true;
    return db_query(db, sql, strlen(sql), take_gtids, end, err);
}

/* Connects db, too. */
static enum rc read_clock(struct db *db, struct stream_position *end, struct err *err)
{
    return db_number(db, "SELECT UNIX_TIMESTAMP()", &end->time_s, NULL, err);
}

enum rc position_mysql_read_end(struct db *db, struct stream_position *end, struct err *err)
{
    int64_t has_gtids = 0;
    enum rc rc = read_clock(db, end, err);

    buf_reset(&end->before);
    end->rows_done = 0;
    if (rc != RC_OK)
        return rc;
    if (db_server_kind(db) == DB_MARIADB)
        return read_gtids(db, "SELECT @@GLOBAL.gtid_binlog_pos", end, err);
    rc = db_number(db, "SELECT @@GLOBAL.gtid_mode = 'ON'", &has_gtids, NULL, err);
    if (rc != RC_OK)
        return rc;
    return has_gtids ? read_gtids(db, "SELECT @@GLOBAL.gtid_executed", end, err)
                     : read_place(db, end, err);
}

enum rc position_mysql_read_begin(struct db *db, struct stream_position *end, struct err *err)
{
    enum rc rc = position_mysql_read_end(db, end, err);

    if (rc == RC_OK && end->before.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the GTIDs");
    if (rc == RC_OK && !stream_position_opens(end))
        return err_fail(err, RC_RETRY, 0,
                        "file %s of the binary log is larger than 4 GiB, and without GTIDs no lane "
                        "can begin at its end: run FLUSH BINARY LOGS, or wait for the next file",
                        end->file);
    return rc;
}

static enum rc check_mysql_gtids(struct db *db, const struct stream_position *position,
                                 struct err *err)
{
    struct buf sql = {0};
    int64_t has_all = 0;
    enum rc rc = db_connect(db, err);

    if (rc != RC_OK)
        return rc;
    buf_text_put(&sql, "SELECT GTID_SUBSET(");
    db_put_text(db, &sql, position->before.data ? position->before.data : "", position->before.len);
    buf_text_put(&sql, ", @@GLOBAL.gtid_executed)");
    rc = sql.failed ? err_fail(err, RC_FATAL, 0, "no memory for a statement")
                    : db_number(db, buf_text(&sql), &has_all, NULL, err);
    buf_done(&sql);
    if (rc == RC_OK && has_all != 1)
        return err_fail(err, RC_REJECT, 0, "@@gtid_executed lacks GTIDs of the position");
    return rc;
}

/* may_lack: domains of which `all` has nothing may be missing, unless it is empty. */
static bool has_domains(const struct gtid_set *all, const struct gtid_set *set, bool may_lack)
{
    for (size_t i = 0; i < set->domain_count; i++) {
        size_t at = 0;

        while (at < all->domain_count && all->domains[at].domain != set->domains[i].domain)
            at++;
        if (at == all->domain_count && may_lack && at > 0)
            continue;
        if (at == all->domain_count || all->domains[at].sequence < set->domains[i].sequence)
            return false;
    }
    return true;
}

static enum rc check_mariadb_gtids(struct db *db, const struct stream_position *position,
                                   bool may_lack, struct err *err)
{
    struct stream_position end = {0};
    struct gtid_set all = {0};
    struct gtid_set set = {0};
    struct buf text = {0};
    enum rc rc = read_gtids(db, "SELECT @@GLOBAL.gtid_binlog_pos", &end, err);

    buf_put(&text, position->before.data, position->before.len);
    if (rc == RC_OK && (text.failed || end.before.failed))
        rc = err_fail(err, RC_FATAL, 0, "no memory for the GTIDs");
    if (rc == RC_OK)
        rc = gtid_set_parse_mariadb(&all, buf_text(&end.before), err);
    if (rc == RC_OK)
        rc = gtid_set_parse_mariadb(&set, buf_text(&text), err);
    if (rc == RC_OK && !has_domains(&all, &set, may_lack))
        rc = err_fail(err, RC_REJECT, 0, "@@gtid_binlog_pos lacks GTIDs of the position");
    gtid_set_done(&set);
    gtid_set_done(&all);
    buf_done(&text);
    buf_done(&end.before);
    return rc;
}

static enum rc check_place(struct db *db, const struct stream_position *position, struct err *err)
{
    struct stream_position end = {0};
    enum rc rc = read_place(db, &end, err);

    if (rc != RC_OK ||
        stream_place_compare(position->file, position->offset, end.file, end.offset) <= 0)
        return rc;
    return err_fail(err, RC_REJECT, 0, "the binary log ends before the position");
}

static enum rc check_written(struct db *db, const struct stream_position *position, bool may_lack,
                             struct err *err)
{
    if (!position->by_gtid)
        return check_place(db, position, err);
    return db_server_kind(db) == DB_MARIADB ? check_mariadb_gtids(db, position, may_lack, err)
                                            : check_mysql_gtids(db, position, err);
}

enum rc position_mysql_check_written(struct db *db, const struct stream_position *position,
                                     struct err *err)
{
    return check_written(db, position, false, err);
}

enum rc position_mysql_check_sent(struct db *db, const struct stream_position *position,
                                  struct err *err)
{
    return check_written(db, position, true, err);
}

/* The files of the log, the oldest one first. */
struct log_files {
    const char *file;
    size_t count;
    size_t number; /* of the file, from 1; 0: it is not there */
};

static enum rc take_file(void *ctx, const struct db_row *row, struct err *err)
{
    struct log_files *files = ctx;

    (void)err;
    files->count++;
    if (strcmp(row->columns[0], files->file) == 0)
        files->number = files->count;
    return RC_OK;
}

/* The server deletes a file when its last event is older than the expiry. That event is not older
 * than the position. */
static enum rc judge_expiry(struct db *db, const struct stream_position *position, struct err *risk,
                            struct err *err)
{
    int64_t expire_s = 0;
    int64_t now_s = 0;
    int64_t margin_s;
    int64_t left_s;
    enum rc rc = db_number(db, "SELECT @@GLOBAL.binlog_expire_logs_seconds", &expire_s, NULL, err);

    if (rc == RC_OK)
        rc = db_number(db, "SELECT UNIX_TIMESTAMP()", &now_s, NULL, err);
    if (rc != RC_OK || expire_s == 0 || position->time_s == 0)
        return rc;
    margin_s = expire_s / 2 < EXPIRY_MARGIN_S ? expire_s / 2 : EXPIRY_MARGIN_S;
    left_s = position->time_s + expire_s - now_s;
    if (left_s < margin_s)
        err_set(risk,
                "the position is in %.80s, the oldest file of the binary log, which the server may "
                "delete in %" PRId64 " s: let the lane read on, or raise "
                "binlog_expire_logs_seconds = %" PRId64,
                position->file, left_s > 0 ? left_s : 0, expire_s);
    return RC_OK;
}

enum rc position_mysql_find_risk(struct db *db, const struct stream_position *position,
                                 struct err *risk, struct err *err)
{
    static const char sql[] = "SHOW BINARY LOGS";
    struct log_files files = {.file = position->file};
    enum rc rc = RC_OK;

    risk->text[0] = '\0';
    if (!position->file[0])
        return RC_OK;
    rc = db_query(db, sql, sizeof(sql) - 1, take_file, &files, err);
    if (rc != RC_OK)
        return rc;
    if (files.number == 0)
        err_set(risk,
                "the server has deleted %.80s of the binary log, to which the position belongs",
                position->file);
    else if (files.number == 1 && files.count > 1)
        return judge_expiry(db, position, risk, err);
    return RC_OK;
}

enum rc position_mysql_open(struct binlog_link **link, const struct mysql_settings *settings,
                            struct origin_mysql *origin, enum db_kind kind,
                            const struct stream_position *from, const struct binlog_start *how,
                            struct err *err)
{
    struct binlog_start start = *how;
    struct gtid_set set = {0};
    struct buf text = {0};
    struct buf bytes = {0};
    enum rc rc = RC_OK;

    buf_put(&text, from->before.data, from->before.len);
    start.file = from->by_gtid ? NULL : from->file;
    start.offset = from->offset;
    start.gtid_text = from->by_gtid ? buf_text(&text) : NULL;
    if (from->by_gtid && kind == DB_MYSQL)
        rc = gtid_set_parse_mysql(&set, buf_text(&text), err);
    gtid_set_put_bytes(&set, &bytes);
    start.gtid_bytes = bytes.data;
    start.gtid_bytes_len = bytes.len;
    if (rc == RC_OK && (bytes.failed || text.failed || from->before.failed))
        rc = err_fail(err, RC_FATAL, 0, "no memory for a position");
    if (rc == RC_OK)
        rc = binlog_link_open(link, settings, &start, origin ? origin_mysql_compare : NULL, origin,
                              err);
    gtid_set_done(&set);
    buf_done(&text);
    buf_done(&bytes);
    return rc;
}
