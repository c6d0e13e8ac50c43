/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/adopt_log_mysql.h"

#include "common/db/db.h"
#include "common/os.h"
#include "outbox/relay/binlog/gtid_set.h"
#include "outbox/relay/stream/position_mysql.h"
#include "outbox/relay/stream/stream_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEARTBEAT_MS 2000
#define SILENCE_MS 300000 /* a server may have to search its log for the first GTID */

/* The log ends at its present end, and rows are only counted. */
static enum rc open_stream(struct adopt_log *log, const struct settings *settings,
                           const char *table, bool annotated, struct err *err)
{
    const struct stream_mysql_options options = {
        .mysql = &settings->mysql,
        .schema = settings->mysql.database,
        .table = table,
        .server_id = (uint32_t)os_random_u64() | STREAM_OWN_SERVER_IDS,
        .heartbeat_ms = HEARTBEAT_MS,
        .silence_ms = SILENCE_MS,
        .until_end = true,
        .annotated = annotated,
    };
    enum rc rc = stream_mysql_make(&log->stream, &options, err);

    if (rc == RC_OK)
        log->log = stream_mysql_log(log->stream);
    return rc;
}

enum rc adopt_log_open(struct adopt_log *log, const struct settings *settings, const char *table,
                       bool mariadb, bool annotated, struct err *err)
{
    enum rc rc;

    memset(log, 0, sizeof(*log));
    rc = db_open(&log->db, &settings->mysql, err);
    if (rc == RC_OK)
        rc = db_connect(log->db, err);
    if (rc == RC_OK && (db_server_kind(log->db) == DB_MARIADB) != mariadb)
        rc = err_fail(err, RC_REJECT, 0,
                      "the connector is for %s, but the server of [mysql] is %s: connect to the "
                      "server of the connector",
                      mariadb ? "MariaDB" : "MySQL", mariadb ? "MySQL" : "MariaDB");
    if (rc == RC_OK)
        rc = position_mysql_check_log(log->db, err);
    return rc == RC_OK ? open_stream(log, settings, table, annotated, err) : rc;
}

static enum rc take_type(void *ctx, const struct db_row *row, struct err *err)
{
    (void)err;
    snprintf(ctx, COLUMN_TYPE_SIZE, "%s", row->columns[0] ? row->columns[0] : "");
    return RC_OK;
}

enum rc adopt_log_column_type(struct adopt_log *log, const char *table, const char *column,
                              char type[COLUMN_TYPE_SIZE], struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    type[0] = '\0';
    buf_text_put(&sql, "SELECT LOWER(data_type) FROM information_schema.columns WHERE "
                       "table_schema = DATABASE() AND table_name = ");
    db_put_text(log->db, &sql, table, strlen(table));
    buf_text_put(&sql, " AND column_name = ");
    db_put_text(log->db, &sql, column, strlen(column));
    rc = db_query_buf(log->db, &sql, take_type, type, err);
    buf_done(&sql);
    return rc;
}

void adopt_log_close(struct adopt_log *log)
{
    stream_mysql_free(log->stream);
    db_close(log->db);
    memset(log, 0, sizeof(*log));
}

/* Asks a question whose answer is 1 for yes. */
static enum rc ask(struct adopt_log *log, const char *before, const char *text, const char *behind,
                   bool *yes, struct err *err)
{
    struct buf sql = {0};
    int64_t one = 0;
    enum rc rc;

    buf_text_put(&sql, before);
    db_put_text(log->db, &sql, text, strlen(text));
    buf_text_put(&sql, behind);
    rc = sql.failed ? err_fail(err, RC_FATAL, 0, "no memory for a statement")
                    : db_number(log->db, buf_text(&sql), &one, NULL, err);
    *yes = one == 1;
    buf_done(&sql);
    return rc;
}

static enum rc check_mysql_gtids(struct adopt_log *log, const char *gtids, struct err *err)
{
    bool executed = false;
    bool purged = true;
    enum rc rc =
        ask(log, "SELECT GTID_SUBSET(", gtids, ", @@GLOBAL.gtid_executed)", &executed, err);

    if (rc == RC_OK)
        rc = ask(log, "SELECT NOT GTID_SUBSET(@@GLOBAL.gtid_purged, ", gtids, ")", &purged, err);
    if (rc == RC_OK && !executed)
        return err_fail(err, RC_REJECT, 0,
                        "the server does not have all transactions of the offset: it is the offset "
                        "of another server, or this one has lost transactions");
    if (rc == RC_OK && purged)
        return err_fail(err, RC_REJECT, 0,
                        "the server has deleted the log of transactions that the connector has not "
                        "read: the connector cannot continue there either; `tallybox lanes begin "
                        "LANE` begins at the end of the log, without the rows in between: compare "
                        "the table with the topic");
    return rc;
}

struct files {
    const char *wanted;
    uint64_t bytes; /* of the file */
    bool found;
};

static enum rc take_file(void *ctx, const struct db_row *row, struct err *err)
{
    struct files *files = ctx;

    (void)err;
    if (strcmp(row->columns[0], files->wanted) != 0)
        return RC_OK;
    files->found = true;
    files->bytes = db_column_u64(row, 1);
    return RC_OK;
}

/* A place in a file is one of this server's log only. */
static enum rc check_place(struct adopt_log *log, const struct connect_offset *offset,
                           struct err *err)
{
    static const char sql[] = "SHOW BINARY LOGS";
    struct files files = {.wanted = offset->file};
    int64_t server_id = 0;
    enum rc rc = db_number(log->db, "SELECT @@GLOBAL.server_id", &server_id, NULL, err);

    if (rc == RC_OK && offset->server_id > 0 && offset->server_id != (uint64_t)server_id)
        return err_fail(err, RC_REJECT, 0,
                        "the offset is a place in the log of the server with server_id %" PRIu64
                        ", but this one has %" PRId64 ": connect to that server",
                        offset->server_id, server_id);
    if (rc == RC_OK)
        rc = db_query(log->db, sql, sizeof(sql) - 1, take_file, &files, err);
    if (rc == RC_OK && !files.found)
        return err_fail(
            err, RC_REJECT, 0,
            "the server has no file %.80s in its log: it has deleted it, or the offset "
            "is of another server; `tallybox lanes begin LANE` begins at the end of the "
            "log, without the rows in between: compare the table with the topic",
            offset->file);
    if (rc == RC_OK && files.bytes > UINT32_MAX)
        return err_fail(err, RC_REJECT, 0,
                        "file %.80s of the log has more than 4 GiB, and offsets have places modulo "
                        "4 GiB: which of them is not known. Run FLUSH BINARY LOGS, start the "
                        "connector, let it publish one more row, and stop it again",
                        offset->file);
    if (rc == RC_OK && files.bytes < offset->pos)
        return err_fail(err, RC_REJECT, 0,
                        "file %.80s of the log ends before offset %" PRIu64
                        ": it is the offset of another server, or this one has lost transactions",
                        offset->file, offset->pos);
    return rc;
}

static enum rc take_gtids(void *ctx, const struct db_row *row, struct err *err)
{
    struct buf *gtids = ctx;

    (void)err;
    for (const char *at = row->columns[0] ? row->columns[0] : ""; *at; at++)
        if (*at != '\n')
            buf_char(gtids, *at);
    return RC_OK;
}

static enum rc parse_gtids(struct gtid_set *set, const char *gtids, bool mariadb, struct err *err)
{
    enum rc rc =
        mariadb ? gtid_set_parse_mariadb(set, gtids, err) : gtid_set_parse_mysql(set, gtids, err);

    if (rc == RC_REJECT)
        err_wrap(err, "the \"gtids\" of the offset");
    return rc;
}

/* MariaDB ignores a domain that it does not have, and would send the others from their begin. */
static enum rc check_mariadb_gtids(struct adopt_log *log, const struct gtid_set *wanted,
                                   struct err *err)
{
    static const char sql[] = "SELECT @@GLOBAL.gtid_binlog_pos";
    struct gtid_set present = {0};
    struct buf text = {0};
    enum rc rc = db_query(log->db, sql, sizeof(sql) - 1, take_gtids, &text, err);

    if (rc == RC_OK)
        rc = gtid_set_parse_mariadb(&present, buf_text(&text), err);
    for (size_t i = 0; i < wanted->domain_count && rc == RC_OK; i++) {
        const struct gtid_domain *last = &wanted->domains[i];
        const struct binlog_gtid gtid = {.mariadb = true,
                                         .domain = last->domain,
                                         .server_id = last->server_id,
                                         .sequence = last->sequence};

        if (!gtid_set_has(&present, &gtid))
            rc = err_fail(err, RC_REJECT, 0,
                          "the log of the server does not have transaction %" PRIu32 "-%" PRIu32
                          "-%" PRIu64 " of the offset: it is the offset of another server, or this "
                          "one has lost transactions",
                          last->domain, last->server_id, last->sequence);
    }
    gtid_set_done(&present);
    buf_done(&text);
    return rc;
}

/* A server that had GTIDs once tells those, and the connector keeps them, but it goes on by file
 * and position, as everything else there. */
static enum rc choose_start(struct adopt_log *log, struct connect_offset *offset, struct err *err)
{
    int64_t has_gtids = 0;
    enum rc rc = db_number(log->db, "SELECT @@GLOBAL.gtid_mode = 'ON'", &has_gtids, NULL, err);

    if (rc != RC_OK || has_gtids)
        return rc;
    offset->by_gtid = false;
    if (!offset->file[0] || offset->pos == 0)
        return err_fail(err, RC_REJECT, 0,
                        "the offset has neither file nor pos, and the server has gtid_mode other "
                        "than ON: it is the offset of another server");
    return RC_OK;
}

enum rc adopt_log_check_offset(struct adopt_log *log, struct connect_offset *offset,
                               struct err *err)
{
    bool mariadb = db_server_kind(log->db) == DB_MARIADB;
    struct gtid_set set = {0};
    enum rc rc = RC_OK;

    if (offset->by_gtid && !mariadb)
        rc = choose_start(log, offset, err);
    if (rc != RC_OK)
        return rc;
    if (!offset->by_gtid)
        return check_place(log, offset, err);
    rc = parse_gtids(&set, buf_text(&offset->gtids), mariadb, err);
    if (rc == RC_OK)
        rc = mariadb ? check_mariadb_gtids(log, &set, err)
                     : check_mysql_gtids(log, buf_text(&offset->gtids), err);
    gtid_set_done(&set);
    return rc;
}

enum rc adopt_log_note_server(struct adopt_log *log, struct connect_offset *offset, struct err *err)
{
    static const char sql[] = "SELECT @@GLOBAL.gtid_executed";
    int64_t server_id = 0;
    enum rc rc = db_number(log->db, "SELECT @@GLOBAL.server_id", &server_id, NULL, err);

    offset->server_id = (uint64_t)server_id;
    if (rc == RC_OK && !offset->by_gtid && offset->pos > UINT32_MAX)
        return err_fail(err, RC_REJECT, 0,
                        "the lane is beyond 4 GiB in file %.80s of the log, where no offset can be "
                        "without GTIDs: run FLUSH BINARY LOGS, start the relay until it has "
                        "published one more row, stop it, and run this again",
                        offset->file);
    if (rc == RC_OK && !offset->by_gtid && db_server_kind(log->db) == DB_MYSQL)
        rc = db_query(log->db, sql, sizeof(sql) - 1, take_gtids, &offset->gtids, err);
    return rc;
}

enum rc adopt_log_explain(const struct adopt_log *log, enum rc rc, struct err *err)
{
    enum binlog_refusal refusal =
        rc != RC_OK && log->stream ? stream_mysql_refusal(log->stream) : BINLOG_REFUSAL_NONE;
    struct err why = *err;

    if (refusal == BINLOG_REFUSAL_PURGED)
        return err_fail(err, RC_REJECT, why.code,
                        "the server has deleted its log at the offset, and the connector cannot "
                        "continue there either; `tallybox lanes begin LANE` begins at the end of "
                        "the log, without the rows in between: compare the table with the topic: "
                        "%s",
                        why.text);
    if (refusal == BINLOG_REFUSAL_AHEAD)
        return err_fail(err, RC_REJECT, why.code,
                        "the offset is of another server, or this one has lost transactions: %s",
                        why.text);
    return rc;
}
