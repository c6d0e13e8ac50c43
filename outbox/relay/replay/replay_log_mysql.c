/* SPDX-License-Identifier: MIT */
#include "outbox/relay/replay/replay_log_mysql.h"

#include "common/db/binlog_link.h"
#include "common/os.h"
#include "outbox/relay/binlog/event.h"
#include "outbox/relay/stream/position_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEARTBEAT_MS 2000
#define SILENCE_MS 30000

/* The first event of a file comes behind one or two that the server makes for the reader. */
#define FIRST_EVENTS_MAX 8

#define FILES_FIRST 64

static enum rc open_stream(struct replay_log_mysql *log, size_t batch_bytes, struct err *err)
{
    const struct settings *settings = log->settings;
    const struct stream_mysql_options options = {
        .mysql = &settings->mysql,
        .origin = log->origin,
        .schema = settings->mysql.database,
        .table = log->lane->table,
        .columns = log->columns.columns,
        .headers = log->columns.headers,
        .header_count = log->columns.header_count,
        .blank_is_null = log->columns.blank_is_null,
        .bounds = {.row_bytes_max = (uint64_t)settings->relay.row_bytes_max,
                   .batch_bytes_max = batch_bytes},
        .server_id = log->server_id,
        .heartbeat_ms = HEARTBEAT_MS,
        .silence_ms = SILENCE_MS,
        .until_end = true,
    };

    return stream_mysql_make(&log->stream, &options, err);
}

enum rc replay_log_mysql_open(struct replay_log_mysql *log, const struct lane_settings *lane,
                              const struct settings *settings, struct origin_mysql *origin,
                              struct db *db, size_t batch_bytes, struct err *err)
{
    enum rc rc;

    memset(log, 0, sizeof(*log));
    log->lane = lane;
    log->settings = settings;
    log->origin = origin;
    log->db = db;
    log->server_id = (uint32_t)os_random_u64() | STREAM_OWN_SERVER_IDS;
    stream_columns_choose(&log->columns, lane);
    rc = position_store_mysql_open(&log->positions, lane, "", NULL, settings, err);
    return rc == RC_OK ? open_stream(log, batch_bytes, err) : rc;
}

void replay_log_mysql_close(struct replay_log_mysql *log)
{
    if (!log->lane)
        return;
    stream_mysql_free(log->stream);
    position_store_mysql_close(&log->positions);
    buf_done(&log->published.before);
    gtid_set_done(&log->published_gtids);
    free(log->files);
    memset(log, 0, sizeof(*log));
}

static enum rc load_published(struct replay_log_mysql *log, struct err *err)
{
    const struct position_store store = position_store_mysql_ops(&log->positions);
    struct stream_position *published = &log->published;
    bool found = false;
    enum rc rc = store.load(store.ctx, published, &found, err);

    if (rc != RC_OK)
        return rc;
    if (!found)
        return err_fail(err, RC_REJECT, 0,
                        "lane %s has no position in the binary log: it has published nothing yet",
                        log->lane->name);
    if (!published->by_gtid)
        return RC_OK;
    return db_server_kind(log->db) == DB_MARIADB
               ? gtid_set_parse_mariadb(&log->published_gtids, buf_text(&published->before), err)
               : gtid_set_parse_mysql(&log->published_gtids, buf_text(&published->before), err);
}

static enum rc add_file(void *ctx, const struct db_row *row, struct err *err)
{
    struct replay_log_mysql *log = ctx;

    if (log->file_count == log->file_size) {
        size_t size = log->file_size > 0 ? 2 * log->file_size : FILES_FIRST;
        void *files = realloc(log->files, size * sizeof(log->files[0]));

        if (!files)
            return err_fail(err, RC_FATAL, 0, "no memory for the names of %zu files", size);
        log->files = files;
        log->file_size = size;
    }
    snprintf(log->files[log->file_count++], sizeof(log->files[0]), "%s", row->columns[0]);
    log->last_bytes = db_column_u64(row, 1);
    return RC_OK;
}

/* The server tells how long the last file is at this moment. */
static enum rc list_files(struct replay_log_mysql *log, struct err *err)
{
    static const char sql[] = "SHOW BINARY LOGS";
    enum rc rc;

    log->file_count = 0;
    rc = db_query(log->db, sql, sizeof(sql) - 1, add_file, log, err);
    if (rc == RC_OK && log->file_count == 0)
        return err_fail(err, RC_FATAL, 0, "the server has no binary log");
    return rc;
}

enum rc replay_log_mysql_look(struct replay_log_mysql *log, struct replay_log_facts *facts,
                              struct err *err)
{
    enum rc rc = db_read_clock(log->db, &facts->now_ms, err);

    if (rc == RC_OK)
        rc = load_published(log, err);
    if (rc == RC_OK)
        rc = list_files(log, err);
    if (rc != RC_OK)
        return rc;
    snprintf(facts->server, sizeof(facts->server), "%s", log->published.server);
    memcpy(facts->end.file, log->files[log->file_count - 1], sizeof(facts->end.file));
    facts->end.offset = log->last_bytes;
    if (!log->published.by_gtid) {
        memcpy(facts->end.file, log->published.file, sizeof(facts->end.file));
        facts->end.offset = log->published.offset;
    }
    return RC_OK;
}

enum rc replay_log_mysql_check_place(const struct replay_log_mysql *log,
                                     const struct replay_log_place *place, struct err *err)
{
    if (strcmp(place->server, log->published.server) != 0)
        return err_fail(err, RC_REJECT, 0,
                        "--after is a place in the log of server %s, and this is %s: begin again "
                        "with --from",
                        place->server, log->published.server);
    for (size_t i = 0; i < log->file_count; i++)
        if (strcmp(log->files[i], place->at.file) == 0)
            return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "the server has no file %.80s of --after in its log: it has deleted it; begin "
                    "again with --from",
                    place->at.file);
}

void replay_log_mysql_explain(const struct replay_log_mysql *log, struct err *err)
{
    if (log->stream && stream_mysql_refusal(log->stream) == BINLOG_REFUSAL_PURGED)
        err_wrap(err, "the server has deleted the log that comes next; begin again with a later "
                      "--from");
}

/* The format description event has the time of its file. */
static enum rc read_first_time(struct binlog_link *link, int64_t *begin_ms, struct err *err)
{
    const struct binlog_format format = {0};

    for (size_t i = 0; i < FIRST_EVENTS_MAX; i++) {
        struct binlog_event event;
        const void *bytes = NULL;
        size_t len = 0;
        enum rc rc = binlog_link_next(link, &bytes, &len, err);

        if (rc != RC_OK)
            return rc;
        if (!bytes)
            break;
        rc = binlog_event_parse(&event, bytes, len, &format, err);
        if (rc != RC_OK)
            return rc;
        *begin_ms = (int64_t)event.time_s * 1000;
        if (event.type == BINLOG_FORMAT)
            return RC_OK;
    }
    return err_fail(err, RC_FATAL, 0, "it does not begin with a format description event");
}

static enum rc read_file_begin(void *ctx, size_t number, int64_t *begin_ms, struct err *err)
{
    struct replay_log_mysql *log = ctx;
    struct stream_position from = {.offset = 4};
    const struct binlog_start how = {.server_id = log->server_id,
                                     .heartbeat_ms = HEARTBEAT_MS,
                                     .silence_ms = SILENCE_MS,
                                     .until_end = true};
    struct binlog_link *link = NULL;
    enum rc rc;

    memcpy(from.file, log->files[number], sizeof(from.file));
    rc = position_mysql_open(&link, &log->settings->mysql, log->origin, db_server_kind(log->db),
                             &from, &how, err);
    if (rc == RC_OK)
        rc = read_first_time(link, begin_ms, err);
    binlog_link_close(link);
    if (rc != RC_OK)
        err_wrap(err, "reading when file %.80s of the binary log was begun", from.file);
    return rc == RC_REJECT ? RC_FATAL : rc;
}

/* Transactions without a GTID are older than a position by GTID. */
static bool is_published(void *ctx, const struct stream_place *place)
{
    const struct replay_log_mysql *log = ctx;
    const struct stream_position *published = &log->published;

    if (published->by_gtid)
        return place->gtid->anonymous || gtid_set_has(&log->published_gtids, place->gtid);
    return stream_place_compare(place->file, place->begin, published->file, published->offset) < 0;
}

struct replay_log_ops replay_log_mysql_ops(struct replay_log_mysql *log)
{
    return (struct replay_log_ops){log, stream_mysql_log(log->stream), read_file_begin,
                                   is_published};
}
