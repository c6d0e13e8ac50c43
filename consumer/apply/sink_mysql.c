/* SPDX-License-Identifier: MIT */
#include "consumer/apply/sink_mysql.h"

#include "common/buf.h"
#include "consumer/apply/sink_rows_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sink_mysql {
    struct db *db;
    struct buf sql; /* keeps its memory, unless a large dead record made it big */
    struct sink ops;
    const char *group;
    int64_t idle_ms;
    uint64_t session; /* the session whose wait_timeout is set */
};

/* A working consumer is never silent for long, inside or outside a transaction. If it freezes in a
 * transaction, the server releases its locks after this time and its successor can continue. */
#define SILENT_MS_MAX 15000

#define SQL_KEPT_BYTES ((size_t)2 << 20)

static enum rc run_sql(struct sink_mysql *sink, uint64_t *affected, struct err *err)
{
    return db_exec_buf(sink->db, &sink->sql, affected, err);
}

static void put_text(struct sink_mysql *sink, const char *text)
{
    db_put_text(sink->db, &sink->sql, text, strlen(text));
}

/* A write that changes no row: it also fails if the server is read-only. */
static enum rc sink_ping(void *ctx, struct err *err)
{
    struct sink_mysql *sink = ctx;

    return db_run(sink->db, "UPDATE vote_tally SET seq = seq WHERE content_id = 0", err);
}

static uint64_t sink_session(void *ctx)
{
    struct sink_mysql *sink = ctx;

    return db_session(sink->db);
}

/* The roll-up relies on this limit: a row of vote_tally with a changed_at is committed or rolled
 * back soon after that time. */
static enum rc set_up_session(struct sink_mysql *sink, struct err *err)
{
    int64_t silent_ms = sink->idle_ms < SILENT_MS_MAX ? sink->idle_ms : SILENT_MS_MAX;
    int64_t seconds = silent_ms / 1000 > 0 ? silent_ms / 1000 : 1;

    buf_reset(&sink->sql);
    buf_print(&sink->sql, "SET SESSION wait_timeout = %" PRId64, seconds);
    if (sink->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    return db_set_up_session(sink->db, &sink->session, buf_text(&sink->sql), err);
}

static enum rc sink_begin(void *ctx, struct err *err)
{
    struct sink_mysql *sink = ctx;
    enum rc rc = set_up_session(sink, err);

    return rc == RC_OK ? db_begin(sink->db, err) : rc;
}

static enum rc sink_commit(void *ctx, struct err *err)
{
    struct sink_mysql *sink = ctx;

    return db_commit(sink->db, err);
}

static void sink_rollback(void *ctx)
{
    struct sink_mysql *sink = ctx;

    if (db_in_transaction(sink->db))
        db_rollback(sink->db);
}

static void put_place_where(struct sink_mysql *sink, const struct place *place)
{
    buf_text_put(&sink->sql, " WHERE consumer_group = ");
    put_text(sink, sink->group);
    buf_text_put(&sink->sql, " AND topic = ");
    put_text(sink, place->topic);
    buf_print(&sink->sql, " AND partition_id = %" PRId32, place->partition);
}

static void put_place_values(struct sink_mysql *sink, const struct place *place)
{
    put_text(sink, sink->group);
    buf_char(&sink->sql, ',');
    put_text(sink, place->topic);
    buf_print(&sink->sql, ",%" PRId32, place->partition);
}

struct progress_reader {
    const struct place *places;
    struct progress_row *rows;
    size_t count;
    bool found; /* at least one of them */
};

static struct progress_row *find_progress_row(const struct progress_reader *reader,
                                              const char *topic, int64_t partition)
{
    for (size_t i = 0; i < reader->count; i++)
        if (reader->places[i].partition == partition && strcmp(reader->places[i].topic, topic) == 0)
            return &reader->rows[i];
    return NULL;
}

static enum rc on_progress_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct progress_reader *reader = ctx;
    struct progress_row *progress =
        find_progress_row(reader, row->columns[5], db_column_i64(row, 6));

    if (!progress)
        return err_fail(err, RC_FATAL, 0,
                        "the database returned the progress of %s/%s, which was not requested",
                        row->columns[5], row->columns[6]);
    reader->found = true;
    progress->found = true;
    progress->next_offset = db_column_i64(row, 0);
    progress->leader_epoch = (int32_t)db_column_i64(row, 1);
    progress->epoch = db_column_i64(row, 2);
    snprintf(progress->owner, sizeof(progress->owner), "%s", row->columns[3]);
    snprintf(progress->topic_id, sizeof(progress->topic_id), "%s", row->columns[4]);
    return RC_OK;
}

/* The shared lock prevents housekeeping from moving the beginning while this transaction writes. */
static enum rc sink_lock_log_begin(void *ctx, int64_t *begin_day, struct err *err)
{
    struct sink_mysql *sink = ctx;
    bool found = false;
    enum rc rc = db_number(sink->db,
                           "SELECT TO_DAYS(begin_date) - TO_DAYS('1970-01-01') FROM log_begin "
                           "WHERE name = 'vote_document' LOCK IN SHARE MODE",
                           begin_day, &found, err);

    if (rc != RC_OK || found)
        return rc;
    return err_fail(err, RC_FATAL, 0,
                    "log_begin has no row vote_document, so it is not known which months were "
                    "dropped: restore it, with begin_date 1970-01-01 if none ever was");
}

/* FORCE INDEX, because a scan of a small table would lock all of its rows. */
static enum rc sink_lock_progress(void *ctx, const struct place *places, struct progress_row *rows,
                                  size_t count, struct err *err)
{
    struct sink_mysql *sink = ctx;
    struct progress_reader reader = {places, rows, count, false};
    int64_t begin_day = 0;
    enum rc rc;

    buf_reset(&sink->sql);
    buf_text_put(&sink->sql, "SELECT next_offset, leader_epoch, epoch, owner, topic_id, topic, "
                             "partition_id FROM consumer_progress FORCE INDEX (PRIMARY) "
                             "WHERE consumer_group = ");
    put_text(sink, sink->group);
    for (size_t i = 0; i < count; i++) {
        rows[i].found = false;
        buf_text_put(&sink->sql, i == 0 ? " AND ((topic = " : " OR (topic = ");
        put_text(sink, places[i].topic);
        buf_print(&sink->sql, " AND partition_id = %" PRId32 ")", places[i].partition);
    }
    buf_text_put(&sink->sql, ") ORDER BY topic, partition_id FOR UPDATE");
    rc = db_query_buf(sink->db, &sink->sql, on_progress_row, &reader, err);
    if (rc == RC_OK && reader.found)
        rc = sink_lock_log_begin(sink, &begin_day, err);
    for (size_t i = 0; i < count; i++)
        rows[i].begin_day = begin_day;
    return rc;
}

static enum rc sink_make_progress(void *ctx, const struct place *place,
                                  struct progress_row *progress, struct err *err)
{
    struct sink_mysql *sink = ctx;
    enum rc rc;

    buf_reset(&sink->sql);
    buf_text_put(&sink->sql,
                 "INSERT IGNORE INTO consumer_progress (consumer_group, topic, partition_id, "
                 "next_offset, leader_epoch, topic_id, epoch, owner, updated_at) VALUES (");
    put_place_values(sink, place);
    buf_text_put(&sink->sql, ",-1,-1,'',0,'',UTC_TIMESTAMP(3))");
    rc = run_sql(sink, NULL, err);
    if (rc == RC_OK)
        rc = sink_lock_progress(ctx, place, progress, 1, err);
    if (rc == RC_OK && !progress->found)
        return err_fail(err, RC_RETRY, 0, "the progress of %s/%" PRId32 " was deleted meanwhile",
                        place->topic, place->partition);
    return rc;
}

static enum rc sink_own_progress(void *ctx, const struct place *place,
                                 const struct progress_row *progress, struct err *err)
{
    struct sink_mysql *sink = ctx;

    buf_reset(&sink->sql);
    buf_print(&sink->sql,
              "UPDATE consumer_progress SET epoch = %" PRId64 ", owner = ", progress->epoch);
    put_text(sink, progress->owner);
    buf_text_put(&sink->sql, ", topic_id = ");
    put_text(sink, progress->topic_id);
    buf_text_put(&sink->sql, ", updated_at = UTC_TIMESTAMP(3)");
    put_place_where(sink, place);
    return run_sql(sink, NULL, err);
}

static enum rc sink_move_progress(void *ctx, const struct place *places,
                                  const struct progress_row *rows, size_t count, struct err *err)
{
    struct sink_mysql *sink = ctx;

    buf_reset(&sink->sql);
    buf_text_put(&sink->sql,
                 "INSERT INTO consumer_progress (consumer_group, topic, partition_id, next_offset, "
                 "leader_epoch, topic_id, epoch, owner, updated_at) VALUES ");
    for (size_t i = 0; i < count; i++) {
        buf_text_put(&sink->sql, i == 0 ? "(" : ",(");
        put_place_values(sink, &places[i]);
        buf_print(&sink->sql, ",%" PRId64 ",%" PRId32 ",", rows[i].next_offset,
                  rows[i].leader_epoch);
        put_text(sink, rows[i].topic_id);
        buf_print(&sink->sql, ",%" PRId64 ",", rows[i].epoch);
        put_text(sink, rows[i].owner);
        buf_text_put(&sink->sql, ",UTC_TIMESTAMP(3))");
    }
    buf_text_put(&sink->sql,
                 " ON DUPLICATE KEY UPDATE next_offset = VALUES(next_offset), "
                 "leader_epoch = VALUES(leader_epoch), updated_at = VALUES(updated_at)");
    return run_sql(sink, NULL, err);
}

static enum rc sink_lock_tallies(void *ctx, struct tally_row *tallies, size_t count,
                                 struct err *err)
{
    struct sink_mysql *sink = ctx;

    return sink_rows_lock_tallies(sink->db, &sink->sql, tallies, count, err);
}

static enum rc sink_make_tallies(void *ctx, const struct tally_row *tallies, size_t count,
                                 struct err *err)
{
    struct sink_mysql *sink = ctx;

    return sink_rows_make_tallies(sink->db, &sink->sql, tallies, count, err);
}

static enum rc sink_write_tallies(void *ctx, const struct tally_row *tallies, size_t count,
                                  struct err *err)
{
    struct sink_mysql *sink = ctx;

    return sink_rows_write_tallies(sink->db, &sink->sql, tallies, count, err);
}

static enum rc sink_end_tallies(void *ctx, const struct tally_row *tallies, size_t count,
                                struct err *err)
{
    struct sink_mysql *sink = ctx;

    return sink_rows_end_tallies(sink->db, &sink->sql, tallies, count, err);
}

static enum rc sink_read_lasts(void *ctx, struct last_row *lasts, size_t count, struct err *err)
{
    struct sink_mysql *sink = ctx;

    return sink_rows_read_lasts(sink->db, &sink->sql, lasts, count, err);
}

static enum rc sink_write_lasts(void *ctx, const struct last_row *lasts, size_t count,
                                struct err *err)
{
    struct sink_mysql *sink = ctx;

    return sink_rows_write_lasts(sink->db, &sink->sql, lasts, count, err);
}

static enum rc sink_insert_votes(void *ctx, const struct vote_row *rows, size_t count,
                                 bool *duplicate, struct err *err)
{
    struct sink_mysql *sink = ctx;

    return sink_rows_insert_votes(sink->db, &sink->sql, rows, count, duplicate, err);
}

static enum rc sink_find_events(void *ctx, const struct vote_row *rows, size_t count,
                                void (*on_found)(void *found_ctx, const struct id *event_id),
                                void *found_ctx, struct err *err)
{
    struct sink_mysql *sink = ctx;

    return sink_rows_find_events(sink->db, &sink->sql, rows, count, on_found, found_ctx, err);
}

static void put_bytes(struct sink_mysql *sink, const void *bytes, size_t len)
{
    buf_char(&sink->sql, ',');
    db_put_bytes(sink->db, &sink->sql, bytes, len);
}

static void put_dead(struct sink_mysql *sink, const struct place *place,
                     const struct dead_row *dead)
{
    struct buf *sql = &sink->sql;

    buf_reset(sql);
    buf_text_put(sql,
                 "INSERT INTO dead_record (consumer_group, topic, partition_id, record_offset, "
                 "record_key, payload, headers, record_time, reason_class, reason, created_at) "
                 "VALUES (");
    put_place_values(sink, place);
    buf_print(sql, ",%" PRId64, dead->offset);
    put_bytes(sink, dead->key, dead->key_len);
    put_bytes(sink, dead->value, dead->value_len);
    buf_char(sql, ',');
    db_put_text(sink->db, sql, dead->headers, dead->headers_len);
    /* A record time before 1970 or after 9999-12-31 is stored as NULL. */
    if (dead->time_ms >= 0 && dead->time_ms < INT64_C(253402300800000))
        buf_print(sql,
                  ",TIMESTAMPADD(MICROSECOND, %" PRId64 ", TIMESTAMPADD(SECOND, %" PRId64
                  ", '1970-01-01'))",
                  dead->time_ms % 1000 * 1000, dead->time_ms / 1000);
    else
        buf_text_put(sql, ",NULL");
    buf_print(sql, ",'%s',", dead->reason_class);
    db_put_text(sink->db, sql, dead->reason, dead->reason_len);
    buf_text_put(sql, ",UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE id = id");
}

static enum rc compare_dead(struct sink_mysql *sink, const struct place *place,
                            const struct dead_row *dead, struct err *err)
{
    struct buf *sql = &sink->sql;
    int64_t same = 0;
    enum rc rc;

    buf_reset(sql);
    buf_text_put(sql, "SELECT COUNT(*) FROM dead_record");
    put_place_where(sink, place);
    buf_print(sql, " AND record_offset = %" PRId64 " AND payload <=> ", dead->offset);
    db_put_bytes(sink->db, sql, dead->value, dead->value_len);
    buf_text_put(sql, " AND record_key <=> ");
    db_put_bytes(sink->db, sql, dead->key, dead->key_len);
    rc = db_number(sink->db, buf_text(sql), &same, NULL, err);
    if (rc != RC_OK || same > 0)
        return rc;
    return err_fail(err, RC_REJECT, 0,
                    "dead_record already has another record of %s/%" PRId32 " at offset %" PRId64
                    ", of a deleted topic of that name; move that row away to continue",
                    place->topic, place->partition, dead->offset);
}

static enum rc sink_insert_dead(void *ctx, const struct place *place, const struct dead_row *dead,
                                int64_t *id, struct err *err)
{
    struct sink_mysql *sink = ctx;
    uint64_t packet_bytes_max = db_packet_bytes_max(sink->db);
    uint64_t affected = 0;
    enum rc rc;

    put_dead(sink, place, dead);
    if (!sink->sql.failed && packet_bytes_max > 0 && sink->sql.len + 1024 > packet_bytes_max)
        rc =
            err_fail(err, RC_REJECT, 0,
                     "the record at %s/%" PRId32 " offset %" PRId64
                     " cannot be stored in dead_record: the statement has %zu bytes, and the "
                     "server's max_allowed_packet is %" PRIu64 "; raise it",
                     place->topic, place->partition, dead->offset, sink->sql.len, packet_bytes_max);
    else
        rc = run_sql(sink, &affected, err);
    if (id)
        *id = 0;
    if (rc == RC_OK && affected == 0)
        rc = compare_dead(sink, place, dead, err);
    else if (rc == RC_OK && id)
        rc = db_number(sink->db, "SELECT LAST_INSERT_ID()", id, NULL, err);
    if (sink->sql.size > SQL_KEPT_BYTES)
        buf_done(&sink->sql);
    return rc;
}

struct held_reader {
    void (*on_content)(void *ctx, int64_t content_id);
    void *ctx;
};

/* A key that is not a number was accepted by `dead replay --ignore-key`, and holds no content. */
static enum rc on_held_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct held_reader *reader = ctx;
    int64_t content_id = db_column_i64(row, 0);

    (void)err;
    if (content_id > 0)
        reader->on_content(reader->ctx, content_id);
    return RC_OK;
}

static enum rc sink_read_held(void *ctx, const struct place *place,
                              void (*on_content)(void *content_ctx, int64_t content_id),
                              void *content_ctx, struct err *err)
{
    struct sink_mysql *sink = ctx;
    struct held_reader reader = {on_content, content_ctx};

    buf_reset(&sink->sql);
    buf_text_put(&sink->sql, "SELECT LEFT(record_key, 24) AS content FROM dead_record");
    put_place_where(sink, place);
    buf_text_put(&sink->sql, " AND reason_class IN ('" REASON_REFUSED "', '" REASON_BEHIND
                             "') GROUP BY content ORDER BY NULL");
    return db_query_buf(sink->db, &sink->sql, on_held_row, &reader, err);
}

static enum rc sink_count_dead(void *ctx, const struct place *place, int64_t max, int64_t *count,
                               struct err *err)
{
    struct sink_mysql *sink = ctx;

    buf_reset(&sink->sql);
    buf_text_put(&sink->sql, "SELECT COUNT(*) FROM (SELECT 1 FROM dead_record");
    put_place_where(sink, place);
    buf_print(&sink->sql, " LIMIT %" PRId64 ") kept", max);
    return db_number(sink->db, buf_text(&sink->sql), count, NULL, err);
}

enum rc sink_mysql_open(struct sink_mysql **out, const struct mysql_settings *settings,
                        const char *group, int64_t idle_ms, struct err *err)
{
    struct sink_mysql *sink = calloc(1, sizeof(*sink));
    enum rc rc;

    if (!sink)
        return err_fail(err, RC_FATAL, 0, "no memory for a database");
    sink->group = group;
    sink->idle_ms = idle_ms;
    sink->ops = (struct sink){
        .ctx = sink,
        .ping = sink_ping,
        .session = sink_session,
        .begin = sink_begin,
        .make_progress = sink_make_progress,
        .lock_progress = sink_lock_progress,
        .lock_log_begin = sink_lock_log_begin,
        .own_progress = sink_own_progress,
        .move_progress = sink_move_progress,
        .lock_tallies = sink_lock_tallies,
        .make_tallies = sink_make_tallies,
        .write_tallies = sink_write_tallies,
        .end_tallies = sink_end_tallies,
        .read_lasts = sink_read_lasts,
        .write_lasts = sink_write_lasts,
        .insert_votes = sink_insert_votes,
        .find_events = sink_find_events,
        .insert_dead = sink_insert_dead,
        .read_held = sink_read_held,
        .count_dead = sink_count_dead,
        .commit = sink_commit,
        .rollback = sink_rollback,
    };
    rc = db_open(&sink->db, settings, err);
    if (rc != RC_OK) {
        free(sink);
        return rc;
    }
    *out = sink;
    return RC_OK;
}

void sink_mysql_close(struct sink_mysql *sink)
{
    if (!sink)
        return;
    db_close(sink->db);
    buf_done(&sink->sql);
    free(sink);
}

const struct sink *sink_mysql_ops(struct sink_mysql *sink)
{
    return &sink->ops;
}

struct db *sink_mysql_db(struct sink_mysql *sink)
{
    return sink->db;
}
