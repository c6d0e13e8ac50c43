/* SPDX-License-Identifier: MIT */
#include "consumer/status/status_log_mysql.h"

#include "common/buf.h"
#include "common/text.h"
#include "consumer/status/status_mysql.h"

#include <stdio.h>
#include <string.h>

#define TEXT_OF(number) #number
#define DIGITS_OF(number) TEXT_OF(number)

/* A set of many sources has line ends on MySQL. */
#define ONE_LINE(text) "REPLACE(" text ", '\n', '')"

enum column {
    COLUMN_BY_GTID,
    COLUMN_GTIDS,
    COLUMN_GTIDS_LEN,
    COLUMN_FILE,
    COLUMN_OFFSET,
    COLUMN_SAVED,
    COLUMN_BEHIND,
    COLUMN_SAME_SERVER,
    COLUMN_AT_END,
    COLUMN_FROM_TABLE,
};

/* An age in ms that a clock which was set back cannot make negative. */
static int64_t age_or_unknown(const struct db_row *row, size_t column)
{
    int64_t age_ms = db_column_i64(row, column);

    if (!row->columns[column])
        return STATUS_UNKNOWN;
    return age_ms > 0 ? age_ms : 0;
}

static enum rc position_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_position *position = ctx;
    size_t gtids_len = (size_t)db_column_u64(row, COLUMN_GTIDS_LEN);

    (void)err;
    position->found = true;
    position->by_gtid = db_column_i64(row, COLUMN_BY_GTID) != 0;
    snprintf(position->gtids, sizeof(position->gtids), "%s",
             row->columns[COLUMN_GTIDS] ? row->columns[COLUMN_GTIDS] : "");
    text_cut(position->gtids, sizeof(position->gtids), gtids_len);
    /* Of another server they mean nothing. */
    if (row->columns[COLUMN_FILE] && db_column_i64(row, COLUMN_SAME_SERVER) != 0) {
        snprintf(position->file, sizeof(position->file), "%s", row->columns[COLUMN_FILE]);
        position->offset = db_column_i64(row, COLUMN_OFFSET);
    }
    position->saved_ms = age_or_unknown(row, COLUMN_SAVED);
    position->behind_ms = age_or_unknown(row, COLUMN_BEHIND);
    position->from_table = db_column_i64(row, COLUMN_FROM_TABLE) != 0;
    if (db_column_i64(row, COLUMN_AT_END) != 0)
        position->behind_ms = 0;
    return RC_OK;
}

static enum rc read_position(struct status_lane *lane, struct db *db, struct err *err)
{
    bool is_mariadb = db_server_kind(db) == DB_MARIADB;
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(
        &sql,
        "SELECT by_gtid, LEFT(" ONE_LINE("gtids") ", " DIGITS_OF(
            STATUS_GTIDS_SIZE) "), CHAR_LENGTH(" ONE_LINE("gtids") "), file, file_offset, "
                                                                   "TIMESTAMPDIFF(MICROSECOND, "
                                                                   "saved_at, UTC_TIMESTAMP(3)) "
                                                                   "DIV 1000, "
                                                                   "TIMESTAMPDIFF(MICROSECOND, "
                                                                   "committed_at, "
                                                                   "UTC_TIMESTAMP(3)) DIV 1000, "
                                                                   "server = ");
    buf_text_put(&sql, is_mariadb ? "CONCAT('mariadb-', @@GLOBAL.server_id), by_gtid AND gtids = "
                                    "@@GLOBAL.gtid_binlog_pos"
                                  : "@@GLOBAL.server_uuid, by_gtid AND " ONE_LINE(
                                        "gtids") " = " ONE_LINE("@@GLOBAL.gtid_executed"));
    buf_text_put(&sql, ", server = 'from-table' FROM relay_position WHERE lane = ");
    db_put_text(db, &sql, lane->table, strlen(lane->table));
    rc = db_query_buf(db, &sql, position_on_row, &lane->position, err);
    buf_done(&sql);
    return rc;
}

/* The files of the log come with the oldest one first. */
static enum rc file_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status *status = ctx;
    int64_t bytes = db_column_i64(row, 1);

    (void)err;
    for (size_t i = 0; i < status->lane_count; i++) {
        struct status_position *position = &status->lanes[i].position;

        if (!position->file[0])
            continue;
        if (strcmp(row->columns[0], position->file) == 0) {
            position->is_oldest_file = position->kept_bytes == 0;
            position->kept_bytes += position->offset;
            position->behind_bytes = bytes > position->offset ? bytes - position->offset : 0;
        } else if (position->behind_bytes != STATUS_UNKNOWN) {
            position->behind_bytes += bytes;
        } else {
            position->kept_bytes += bytes;
        }
    }
    return RC_OK;
}

static void fill_files(struct status *status, struct db *db)
{
    static const char files_sql[] = "SHOW BINARY LOGS";
    static const char expire_sql[] = "SELECT @@GLOBAL.binlog_expire_logs_seconds * 1000";
    struct err err = {0};
    enum rc rc = db_number(db, expire_sql, &status->log_expire_ms, NULL, &err);

    if (rc != RC_OK)
        status->log_expire_ms = STATUS_UNKNOWN;
    rc = db_query(db, files_sql, sizeof(files_sql) - 1, file_on_row, status, &err);
    if (rc != RC_OK)
        status_fail(&status->log_fault, rc, &err);
    for (size_t i = 0; i < status->lane_count && rc == RC_OK; i++) {
        struct status_position *position = &status->lanes[i].position;

        position->is_purged = position->file[0] && position->behind_bytes == STATUS_UNKNOWN;
        if (position->file[0] && position->behind_bytes == 0)
            position->behind_ms = 0;
    }
}

void status_log_mysql_fill(struct status *status, struct db *db, bool has_schema)
{
    bool has_files = false;

    status->log_expire_ms = STATUS_UNKNOWN;
    for (size_t i = 0; i < status->lane_count; i++) {
        struct status_lane *lane = &status->lanes[i];
        struct status_position *position = &lane->position;
        struct err err = {0};

        position->saved_ms = position->behind_ms = position->behind_bytes = STATUS_UNKNOWN;
        if (!lane->is_stream || lane->fault.rc != RC_OK)
            continue;
        status_mysql_set_fault(&position->fault, has_schema, read_position(lane, db, &err), &err);
        has_files = has_files || position->file[0];
    }
    if (has_files)
        fill_files(status, db);
}
