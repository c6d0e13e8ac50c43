/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/position_store_mysql.h"

#include "common/config/lane_texts.h"
#include "outbox/lease/lease_mysql.h"
#include "outbox/relay/fallback/lost_log.h"
#include "outbox/relay/stream/position_mysql.h"
#include "outbox/relay/stream/published_kind_mysql.h"
#include "outbox/relay/stream/seq_ranges.h"
#include "outbox/relay/stream/table_cut_mysql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bounds the wait for a row that another session locks; the server's default is 50 s. */
#define LOCK_WAIT_S 2

/* wait_timeout of the sessions: when the process freezes while a position is saved, the server ends
 * the session and releases the lock on the lease row, so that another relay can take the lane. */
#define SILENT_MS_MAX 15000

/* Of one row of relay_published: even single seqs that are far apart fit into a packet. */
#define ENTRY_SEQS_MAX 50000

/* Of one row of relay_published_id: 160 KB of UUIDs, and 640 KB of the longest ids. */
#define ENTRY_IDS_MAX 10000

/* Entries that are deleted at once when the table was emptied. */
#define FORGET_ENTRIES_MAX 200

enum column {
    COLUMN_BY_GTID,
    COLUMN_GTIDS,
    COLUMN_FILE,
    COLUMN_OFFSET,
    COLUMN_GTID,
    COLUMN_ROWS_DONE,
    COLUMN_TIME,
    COLUMN_SERVER,
    COLUMN_EPOCH,
    COLUMN_PRESENT,
};

static void put_sql(struct position_session *session, const char *sql)
{
    buf_text_put(&session->sql, sql);
}

static void put_text(struct position_session *session, const char *text)
{
    db_put_text(session->db, &session->sql, text, strlen(text));
}

/* The identity of the server of the connection. MariaDB has no server_uuid. */
static const char *identity_of(const struct position_session *session)
{
    return db_server_kind(session->db) == DB_MARIADB ? "CONCAT('mariadb-', @@GLOBAL.server_id)"
                                                     : "@@GLOBAL.server_uuid";
}

/* Within the calls that follow the server ends a silent session soon. If it has ended it before,
 * the first statement finds that out, and the second one connects again. */
static enum rc connect_session(struct position_store_mysql *store, struct position_session *session,
                               struct err *err)
{
    enum rc rc;

    if (store->origin)
        origin_mysql_renew(store->origin, session->db, &session->term);
    rc = db_run(session->db, store->set_up, err);
    buf_reset(&session->sql);
    return rc == RC_RETRY ? db_run(session->db, store->set_up, err) : rc;
}

/* A silent session that is in no transaction may stay. */
static void end_calls(struct position_session *session)
{
    db_run(session->db, "SET SESSION wait_timeout = DEFAULT", NULL);
}

static void reset_position(struct stream_position *position)
{
    buf_reset(&position->before);
    position->by_gtid = false;
    position->file[0] = position->gtid[0] = '\0';
    position->offset = position->rows_done = 0;
    position->time_s = 0;
    position->epoch = 0;
    position->server[0] = '\0';
    position->from_table = position->moved = false;
}

/* moved: the position that was saved on another server, or NULL. */
static void note_server(struct position_store_mysql *store, const char *server,
                        const struct stream_position *moved, const char *saved)
{
    pthread_mutex_lock(&store->lock);
    snprintf(store->server, sizeof(store->server), "%s", server);
    buf_reset(&store->moved_before);
    if (moved)
        buf_put(&store->moved_before, moved->before.data, moved->before.len);
    snprintf(store->moved_from, sizeof(store->moved_from), "%s",
             moved && !store->moved_before.failed ? saved : "");
    pthread_mutex_unlock(&store->lock);
}

struct loading {
    struct position_store_mysql *store;
    struct stream_position *position;
    bool found;
    bool refused; /* this process may not go on at the position */
    char saved[POSITION_SERVER_SIZE];
};

/* The lane goes on from its table, so the place in a log is none any more. */
static void take_from_table(struct loading *loading, const char *present)
{
    loading->refused = !loading->store->may_go_on;
    if (loading->refused)
        return;
    loading->position->from_table = true;
    note_server(loading->store, present, NULL, "");
}

static const char *text_in(const struct db_row *row, enum column column)
{
    return row->columns[column] ? row->columns[column] : "";
}

static enum rc take_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct loading *loading = ctx;
    struct stream_position *position = loading->position;
    const char *saved = text_in(row, COLUMN_SERVER);
    const char *present = text_in(row, COLUMN_PRESENT);

    position->by_gtid = db_column_i64(row, COLUMN_BY_GTID) != 0;
    position->offset = db_column_u64(row, COLUMN_OFFSET);
    position->rows_done = db_column_u64(row, COLUMN_ROWS_DONE);
    position->time_s = db_column_i64(row, COLUMN_TIME);
    snprintf(position->file, sizeof(position->file), "%s", text_in(row, COLUMN_FILE));
    snprintf(position->gtid, sizeof(position->gtid), "%s", text_in(row, COLUMN_GTID));
    if (row->columns[COLUMN_GTIDS])
        buf_put(&position->before, row->columns[COLUMN_GTIDS], row->lengths[COLUMN_GTIDS]);
    if (position->before.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the GTIDs");
    position->epoch = db_column_i64(row, COLUMN_EPOCH);
    snprintf(position->server, sizeof(position->server), "%s", present);
    snprintf(loading->saved, sizeof(loading->saved), "%s", saved);
    loading->found = true;
    if (strcmp(saved, POSITION_FROM_TABLE) == 0) {
        take_from_table(loading, present);
        return RC_OK;
    }
    position->moved = strcmp(saved, present) != 0;
    loading->refused = !position->by_gtid && position->moved;
    if (!loading->refused)
        note_server(loading->store, present, position->moved ? position : NULL, saved);
    return RC_OK;
}

static enum rc refuse_position(const struct loading *loading, struct err *err)
{
    const struct stream_position *position = loading->position;
    const char *lane = loading->store->lane;
    char ways[LOST_LOG_TEXT_SIZE];

    lost_log_put_ways(
        ways, lane,
        table_cut_mysql_find_obstacle(loading->store->reader.db, loading->store->own, true));
    /* The names may be long, and the text is cut at its end. */
    if (strcmp(loading->saved, POSITION_FROM_TABLE) == 0)
        return err_fail(err, RC_FATAL, 0,
                        "%s: a relay began to let the lane go on from its table, because the "
                        "server had purged its log, and this one may not (lane.%s.from_table, "
                        "exactly_once, keep_ms, columns)",
                        ways, lane);
    return err_fail(err, RC_FATAL, 0,
                    "%s, or connect to server %.64s, whose log has file %.80s and offset %" PRIu64
                    ": this is %.64s",
                    ways, loading->saved, position->file, position->offset, position->server);
}

static enum rc select_position(struct position_store_mysql *store, struct stream_position *position,
                               bool *found, struct err *err)
{
    struct position_session *reader = &store->reader;
    struct loading loading = {.store = store, .position = position};
    enum rc rc = connect_session(store, reader, err);

    if (rc != RC_OK)
        return rc;
    put_sql(reader, "SELECT by_gtid, gtids, file, file_offset, gtid, rows_done, "
                    "TIMESTAMPDIFF(SECOND, '1970-01-01', committed_at), server, epoch, ");
    put_sql(reader, identity_of(reader));
    put_sql(reader, " FROM relay_position WHERE lane = ");
    put_text(reader, store->table);
    rc = db_query_buf(reader->db, &reader->sql, take_row, &loading, err);
    *found = rc == RC_OK && loading.found && !loading.refused;
    return rc == RC_OK && loading.refused ? refuse_position(&loading, err) : rc;
}

static enum rc take_identity(void *ctx, const struct db_row *row, struct err *err)
{
    char *server = ctx;

    (void)err;
    snprintf(server, POSITION_SERVER_SIZE, "%s", text_in(row, 0));
    return RC_OK;
}

static enum rc read_identity(struct position_store_mysql *store, char server[POSITION_SERVER_SIZE],
                             struct err *err)
{
    struct position_session *reader = &store->reader;

    buf_reset(&reader->sql);
    put_sql(reader, "SELECT ");
    put_sql(reader, identity_of(reader));
    return db_query_buf(reader->db, &reader->sql, take_identity, server, err);
}

static void accept_database(void *ctx)
{
    struct position_store_mysql *store = ctx;

    if (store->origin)
        origin_mysql_begin(store->origin);
}

static enum rc load_position(void *ctx, struct stream_position *position, bool *found,
                             struct err *err)
{
    struct position_store_mysql *store = ctx;
    enum rc rc;

    *found = false;
    reset_position(position);
    rc = select_position(store, position, found, err);
    if (rc == RC_OK && !*found)
        rc = read_identity(store, position->server, err);
    if (rc == RC_OK)
        end_calls(&store->reader);
    if (rc == RC_OK)
        return RC_OK;
    reset_position(position);
    err_wrap(err, "reading the position of lane %s", store->lane);
    return rc;
}

static enum rc read_kind(void *ctx, enum published_kind *kind, struct err *err)
{
    struct position_store_mysql *store = ctx;
    struct position_session *reader = &store->reader;
    const struct published_names names = {store->table, store->id, "created_at"};
    struct cleaner_table table = {0};
    struct id_column id = {0};
    enum rc rc = connect_session(store, reader, err);

    *kind = PUBLISHED_BY_NOTHING;
    if (rc == RC_OK)
        rc = published_kind_mysql_read(reader->db, &reader->sql, &names, &table, &id, err);
    if (rc != RC_OK)
        return rc;
    end_calls(reader);
    *kind = published_kind_choose(table.has_seq, table.has_id, store->keep_ids_max);
    return RC_OK;
}

/* Under the lock. */
static bool is_as_loaded_elsewhere(const struct position_store_mysql *store,
                                   const struct stream_position *position)
{
    const struct buf *now = &position->before;
    const struct buf *then = &store->moved_before;

    if (!store->moved_from[0] || !position->by_gtid || now->len != then->len)
        return false;
    return now->len == 0 ||
           (now->data && then->data && memcmp(now->data, then->data, now->len) == 0);
}

static void put_server(struct position_store_mysql *store, const struct stream_position *position)
{
    char server[POSITION_SERVER_SIZE];

    pthread_mutex_lock(&store->lock);
    if (is_as_loaded_elsewhere(store, position))
        memcpy(server, store->moved_from, sizeof(server));
    else
        memcpy(server, store->server, sizeof(server));
    pthread_mutex_unlock(&store->lock);
    if (server[0])
        put_text(&store->saver, server);
    else
        put_sql(&store->saver, identity_of(&store->saver));
}

static enum rc upsert_position(struct position_store_mysql *store,
                               const struct stream_position *position, int64_t epoch,
                               struct err *err)
{
    struct position_session *saver = &store->saver;
    const struct buf *before = &position->before;

    buf_reset(&saver->sql);
    put_sql(saver, "INSERT INTO relay_position (lane, epoch, by_gtid, gtids, file, file_offset, "
                   "gtid, rows_done, server, committed_at, saved_at) VALUES (");
    put_text(saver, store->table);
    buf_print(&saver->sql, ", %" PRId64 ", %d, ", epoch, position->by_gtid ? 1 : 0);
    db_put_text(saver->db, &saver->sql, before->data ? before->data : "", before->len);
    put_sql(saver, ", ");
    put_text(saver, position->file);
    buf_print(&saver->sql, ", %" PRIu64 ", ", position->offset);
    put_text(saver, position->gtid);
    buf_print(&saver->sql, ", %" PRIu64 ", ", position->rows_done);
    put_server(store, position);
    if (position->time_s > 0)
        buf_print(&saver->sql, ", FROM_UNIXTIME(%" PRId64 ")", position->time_s);
    else
        put_sql(saver, ", NULL");
    put_sql(saver, ", UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE epoch = VALUES(epoch), "
                   "by_gtid = VALUES(by_gtid), gtids = VALUES(gtids), file = VALUES(file), "
                   "file_offset = VALUES(file_offset), gtid = VALUES(gtid), "
                   "rows_done = VALUES(rows_done), server = VALUES(server), "
                   "committed_at = VALUES(committed_at), saved_at = VALUES(saved_at)");
    return db_exec_buf(saver->db, &saver->sql, NULL, err);
}

/* Inserts store->ranges, the lowest of which is first_seq. */
static enum rc insert_ranges(struct position_store_mysql *store, int64_t first_seq, struct err *err)
{
    struct position_session *saver = &store->saver;

    buf_reset(&saver->sql);
    put_sql(saver, "INSERT INTO relay_published (lane, first_seq, seqs) VALUES (");
    put_text(saver, store->table);
    buf_print(&saver->sql, ", %" PRId64 ", ", first_seq);
    db_put_bytes(saver->db, &saver->sql, store->ranges.data, store->ranges.len);
    put_sql(saver, ")");
    return db_exec_buf(saver->db, &saver->sql, NULL, err);
}

static enum rc insert_seqs(struct position_store_mysql *store, const int64_t *seqs, size_t count,
                           struct err *err)
{
    buf_reset(&store->ranges);
    seq_ranges_put(&store->ranges, seqs, count);
    if (store->ranges.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the seqs of %zu rows", count);
    return insert_ranges(store, seqs[0], err);
}

static enum rc insert_ids(struct position_store_mysql *store, const struct published_id *ids,
                          size_t count, struct err *err)
{
    struct position_session *saver = &store->saver;

    buf_reset(&store->ranges);
    published_ids_put(&store->ranges, ids, count);
    if (store->ranges.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the ids of %zu rows", count);
    buf_reset(&saver->sql);
    put_sql(saver, "INSERT INTO relay_published_id (lane, id_count, ids) VALUES (");
    put_text(saver, store->table);
    buf_print(&saver->sql, ", %zu, ", count);
    db_put_bytes(saver->db, &saver->sql, store->ranges.data, store->ranges.len);
    put_sql(saver, ")");
    return db_exec_buf(saver->db, &saver->sql, NULL, err);
}

static enum rc insert_rows(struct position_store_mysql *store, const struct done_rows *rows,
                           struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t at = 0; at < rows->seq_count && rc == RC_OK; at += ENTRY_SEQS_MAX) {
        size_t left = rows->seq_count - at;

        rc =
            insert_seqs(store, rows->seqs + at, left < ENTRY_SEQS_MAX ? left : ENTRY_SEQS_MAX, err);
    }
    for (size_t at = 0; at < rows->id_count && rc == RC_OK; at += ENTRY_IDS_MAX) {
        size_t left = rows->id_count - at;

        rc = insert_ids(store, rows->ids + at, left < ENTRY_IDS_MAX ? left : ENTRY_IDS_MAX, err);
    }
    return rc;
}

/* Deletes a piece of the lane's entries, if the lease is held: the next holder has entries of rows
 * behind the statement that emptied the table. */
static enum rc delete_entries(struct position_store_mysql *store, const char *entries,
                              int64_t epoch, uint64_t *count, bool *fenced, struct err *err)
{
    struct position_session *saver = &store->saver;
    enum rc rc = db_begin(saver->db, err);

    *count = 0;
    if (rc != RC_OK)
        return rc;
    rc = lease_mysql_check(saver->db, &saver->sql, store->table, store->owner, epoch, true, fenced,
                           err);
    if (rc == RC_OK && !*fenced) {
        buf_reset(&saver->sql);
        put_sql(saver, "DELETE FROM ");
        put_sql(saver, entries);
        put_sql(saver, " WHERE lane = ");
        put_text(saver, store->table);
        buf_print(&saver->sql, " ORDER BY number LIMIT %d", FORGET_ENTRIES_MAX);
        rc = db_exec_buf(saver->db, &saver->sql, count, err);
    }
    if (rc == RC_OK && !*fenced)
        return db_commit(saver->db, err);
    db_rollback(saver->db);
    return rc;
}

/* In pieces, each with the lease row locked for a short time only. The entries are of rows that are
 * in the table no more, so it does not matter that the position behind that is saved later: until
 * then the next holder reads the statement again. */
static enum rc forget_entries(struct position_store_mysql *store, int64_t epoch, bool *fenced,
                              struct err *err)
{
    static const char *const tables[] = {"relay_published", "relay_published_id"};
    /* Without keep_ids_max the account may lack the privilege on the table of ids. */
    const size_t table_count = store->keep_ids_max > 0 ? 2 : 1;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < table_count && rc == RC_OK && !*fenced; i++) {
        uint64_t count;

        do {
            rc = delete_entries(store, tables[i], epoch, &count, fenced, err);
        } while (rc == RC_OK && !*fenced && count == FORGET_ENTRIES_MAX);
    }
    if (rc != RC_OK)
        err_wrap(err, "forgetting the published rows of a table that was emptied");
    return rc;
}

static enum rc write_position(struct position_store_mysql *store,
                              const struct stream_position *position, const struct done_rows *rows,
                              int64_t epoch, bool *fenced, struct err *err)
{
    struct db *db = store->saver.db;
    enum rc rc;

    if (position->before.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the GTIDs");
    rc = connect_session(store, &store->saver, err);
    if (rc == RC_OK && rows->emptied)
        rc = forget_entries(store, epoch, fenced, err);
    if (rc == RC_OK && !*fenced)
        rc = db_begin(db, err);
    if (rc != RC_OK || *fenced)
        return rc;
    rc = lease_mysql_check(db, &store->saver.sql, store->table, store->owner, epoch, true, fenced,
                           err);
    if (rc == RC_OK && !*fenced)
        rc = upsert_position(store, position, epoch, err);
    if (rc == RC_OK && !*fenced)
        rc = insert_rows(store, rows, err);
    if (rc == RC_OK && !*fenced)
        return db_commit(db, err);
    db_rollback(db);
    return rc;
}

static enum rc save_position(void *ctx, const struct stream_position *position,
                             const struct done_rows *rows, int64_t epoch, bool *fenced,
                             struct err *err)
{
    struct position_store_mysql *store = ctx;
    enum rc rc;

    assert(epoch > 0);
    *fenced = false;
    rc = write_position(store, position, rows, epoch, fenced, err);
    if (rc == RC_OK)
        end_calls(&store->saver);
    if (rc != RC_OK)
        err_wrap(err, "saving the position of lane %s", store->lane);
    return rc;
}

static enum rc check_log(void *ctx, const struct stream_position *position, struct err *err)
{
    struct position_store_mysql *store = ctx;
    enum rc rc = connect_session(store, &store->reader, err);

    if (rc == RC_OK)
        rc = position_mysql_check_written(store->reader.db, position, err);
    if (rc == RC_OK)
        end_calls(&store->reader);
    if (rc != RC_OK)
        err_wrap(err, "checking the position of lane %s", store->lane);
    return rc;
}

static enum rc find_risk(void *ctx, const struct stream_position *position, struct err *risk,
                         struct err *err)
{
    struct position_store_mysql *store = ctx;
    enum rc rc = connect_session(store, &store->saver, err);

    if (rc == RC_OK)
        rc = position_mysql_find_risk(store->saver.db, position, risk, err);
    if (rc == RC_OK)
        end_calls(&store->saver);
    return rc;
}

/* A locking read waits for uncommitted rows, and finds the latest committed ones, whatever index it
 * uses: a table may have no column seq. */
static enum rc check_table_is_empty(struct position_store_mysql *store, struct err *err)
{
    struct position_session *reader = &store->reader;
    char ways[LOST_LOG_TEXT_SIZE];
    int64_t one = 0;
    bool found = false;
    enum rc rc;

    buf_reset(&reader->sql);
    put_sql(reader, "SELECT 1 FROM ");
    db_put_name(&reader->sql, store->table);
    put_sql(reader, " LIMIT 1 LOCK IN SHARE MODE");
    if (reader->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_number(reader->db, buf_text(&reader->sql), &one, &found, err);
    if (rc != RC_OK || !found)
        return rc;
    lost_log_put_first_ways(ways, store->lane,
                            table_cut_mysql_find_obstacle(store->reader.db, store->own, false));
    return err_fail(err, RC_FATAL, 0, "table %s has rows that may not be published yet: %s",
                    store->table, ways);
}

/* Invariant: the end of the log is read before the table. A transaction before that end has written
 * its rows and locks them, or has committed them, so the check finds it even if the server does not
 * show its rows yet. A transaction behind the end is read from the log. All statements have to run
 * in one session: a new one may be on another server. */
static enum rc find_end(struct position_store_mysql *store, struct stream_position *position,
                        struct err *err)
{
    struct position_session *reader = &store->reader;
    char server[POSITION_SERVER_SIZE] = "";
    enum rc rc = connect_session(store, reader, err);
    uint64_t session = db_session(reader->db);

    if (rc == RC_OK)
        rc = position_mysql_check_log(reader->db, err);
    if (rc == RC_OK)
        rc = position_mysql_read_begin(reader->db, position, err);
    if (rc == RC_OK)
        rc = read_identity(store, server, err);
    if (rc == RC_OK)
        rc = check_table_is_empty(store, err);
    if (rc == RC_OK && db_session(reader->db) != session)
        rc = err_fail(err, RC_RETRY, 0, "the connection was lost meanwhile");
    if (rc != RC_OK)
        return rc;
    snprintf(position->server, sizeof(position->server), "%s", server);
    note_server(store, server, NULL, "");
    return RC_OK;
}

static enum rc begin_position(void *ctx, struct stream_position *position, struct err *err)
{
    struct position_store_mysql *store = ctx;
    enum rc rc;

    reset_position(position);
    rc = find_end(store, position, err);
    if (rc == RC_OK)
        end_calls(&store->reader);
    if (rc == RC_OK)
        return RC_OK;
    reset_position(position);
    err_wrap(err, "finding where lane %s begins", store->lane);
    return rc;
}

struct holder {
    bool holds;
    char owner[129];
    int64_t left_ms;
    int64_t epoch;
};

static enum rc take_holder(void *ctx, const struct db_row *row, struct err *err)
{
    struct holder *holder = ctx;

    (void)err;
    snprintf(holder->owner, sizeof(holder->owner), "%s", text_in(row, 0));
    holder->left_ms = db_column_i64(row, 1);
    holder->epoch = db_column_i64(row, 2);
    holder->holds = holder->owner[0] && holder->left_ms >= 0;
    return RC_OK;
}

/* Locks the lease row until the COMMIT and gives it a new epoch: a relay that was frozen until its
 * lease expired can save no position any more, and what is saved under this epoch is later than the
 * position of the lane in Kafka (exact/takeover.h). Without a row no relay has ever held the lane,
 * and the first one gets the same epoch, 1. */
static enum rc take_free_lease(struct position_store_mysql *store, int64_t *epoch, struct err *err)
{
    struct position_session *saver = &store->saver;
    struct holder holder = {0};
    enum rc rc;

    buf_reset(&saver->sql);
    put_sql(saver, "SELECT owner, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), lease_until) DIV "
                   "1000, epoch FROM relay_lease WHERE lane = ");
    put_text(saver, store->table);
    put_sql(saver, " FOR UPDATE");
    rc = db_query_buf(saver->db, &saver->sql, take_holder, &holder, err);
    *epoch = holder.epoch + 1;
    if (rc == RC_OK && holder.holds)
        return err_fail(err, RC_REJECT, 0,
                        "relay %s holds the lane, for %" PRId64 " ms from now: stop all relays "
                        "that read it, and wait until the lease is over",
                        holder.owner, holder.left_ms);
    if (rc != RC_OK)
        return rc;
    buf_reset(&saver->sql);
    put_sql(saver, "UPDATE relay_lease SET owner = '', epoch = epoch + 1 WHERE lane = ");
    put_text(saver, store->table);
    return db_exec_buf(saver->db, &saver->sql, NULL, err);
}

/* Of a lane without a lease row no source is set. */
static enum rc set_source(struct position_store_mysql *store, struct err *err)
{
    struct position_session *saver = &store->saver;

    buf_reset(&saver->sql);
    put_sql(saver, "UPDATE relay_lease SET source = '" LANE_SOURCE_BINLOG "' WHERE lane = ");
    put_text(saver, store->table);
    return db_exec_buf(saver->db, &saver->sql, NULL, err);
}

static enum rc check_no_position(struct position_store_mysql *store, bool may_replace,
                                 bool *replaced, struct err *err)
{
    struct position_session *saver = &store->saver;
    int64_t age_s = 0;
    enum rc rc;

    buf_reset(&saver->sql);
    put_sql(saver, "SELECT TIMESTAMPDIFF(SECOND, saved_at, UTC_TIMESTAMP(3)) FROM relay_position "
                   "WHERE lane = ");
    put_text(saver, store->table);
    put_sql(saver, " FOR UPDATE");
    if (saver->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_number(saver->db, buf_text(&saver->sql), &age_s, replaced, err);
    if (rc != RC_OK || !*replaced || may_replace)
        return rc;
    return err_fail(err, RC_REJECT, 0,
                    "the lane has a position, saved %" PRId64 " s ago, and a relay goes on there; "
                    "with --replace-position rows that were committed since then are not "
                    "published",
                    age_s);
}

/* Of a table without seq it cannot be saved which rows are published. */
static enum rc find_cut(struct position_store_mysql *store, struct table_cut *cut, struct err *err)
{
    struct db *db = store->reader.db;
    bool has_seq = false;
    enum rc rc = table_cut_mysql_has_seq(db, store->table, &has_seq, err);

    if (rc == RC_OK && has_seq)
        return table_cut_mysql_make(db, store->table, cut, err);
    if (rc == RC_OK)
        rc = position_mysql_check_log(db, err);
    if (rc == RC_OK)
        rc = position_mysql_read_begin(db, &cut->position, err);
    return rc;
}

/* The rows that the table has so far are saved as published, so that the lane deletes them. */
static enum rc write_cut(struct position_store_mysql *store, const struct table_cut *cut,
                         int64_t epoch, struct err *err)
{
    enum rc rc = upsert_position(store, &cut->position, epoch, err);

    if (rc != RC_OK || cut->high_seq <= 0)
        return rc;
    buf_reset(&store->ranges);
    seq_ranges_put_one(&store->ranges, cut->low_seq > 0 ? cut->low_seq : 1, cut->high_seq);
    if (store->ranges.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a range");
    return insert_ranges(store, cut->low_seq > 0 ? cut->low_seq : 1, err);
}

/* Rows without a seq are not published by a command that reads the table. */
static enum rc find_unknown_rows(struct position_store_mysql *store, bool *unknown, struct err *err)
{
    struct position_session *reader = &store->reader;
    bool has_seq = false;
    int64_t any = 0;
    enum rc rc = table_cut_mysql_has_seq(reader->db, store->table, &has_seq, err);

    *unknown = false;
    if (rc != RC_OK || !has_seq)
        return rc;
    buf_reset(&reader->sql);
    put_sql(reader, "SELECT EXISTS (SELECT 1 FROM ");
    db_put_name(&reader->sql, store->table);
    put_sql(reader, ")");
    rc = db_number(reader->db, buf_text(&reader->sql), &any, NULL, err);
    *unknown = rc == RC_OK && any != 0;
    return rc;
}

/* The lease row is locked while the reader's connection makes the cut, for longer than a silent
 * session of a relay may be. */
static enum rc write_begin(struct position_store_mysql *store, bool may_replace, bool at_end,
                           struct position_begun *begun, struct err *err)
{
    struct db *db = store->saver.db;
    struct table_cut cut = {.position = begun->position};
    int64_t epoch = 0;
    enum rc rc = connect_session(store, &store->saver, err);

    end_calls(&store->saver);
    if (rc == RC_OK)
        rc = db_begin(db, err);
    if (rc != RC_OK)
        return rc;
    rc = take_free_lease(store, &epoch, err);
    if (rc == RC_OK)
        rc = check_no_position(store, may_replace, &begun->replaced, err);
    if (rc == RC_OK)
        rc = set_source(store, err);
    if (rc == RC_OK && at_end)
        rc = find_cut(store, &cut, err);
    begun->position = cut.position;
    if (rc == RC_OK)
        rc = at_end ? write_cut(store, &cut, epoch, err)
                    : upsert_position(store, &begun->position, epoch, err);
    if (rc == RC_OK)
        return db_commit(db, err);
    db_rollback(db);
    return rc;
}

enum rc position_store_mysql_begin_at_end(struct position_store_mysql *store, bool may_replace,
                                          struct position_begun *begun, struct err *err)
{
    enum rc rc;

    reset_position(&begun->position);
    begun->replaced = begun->unknown = false;
    rc = write_begin(store, may_replace, true, begun, err);
    if (rc != RC_OK)
        err_wrap(err, "writing where lane %s begins", store->lane);
    return rc;
}

enum rc position_store_mysql_begin_at(struct position_store_mysql *store, bool may_replace,
                                      struct position_begun *begun, struct err *err)
{
    enum rc rc;

    begun->replaced = false;
    rc = find_unknown_rows(store, &begun->unknown, err);
    if (rc == RC_OK)
        rc = write_begin(store, may_replace, false, begun, err);
    if (rc != RC_OK)
        err_wrap(err, "writing where lane %s begins", store->lane);
    return rc;
}

enum rc position_store_mysql_check_free(struct position_store_mysql *store, struct err *err)
{
    int64_t epoch = 0;
    struct db *db = store->saver.db;
    enum rc rc = connect_session(store, &store->saver, err);

    if (rc == RC_OK)
        rc = db_begin(db, err);
    if (rc != RC_OK)
        return rc;
    rc = take_free_lease(store, &epoch, err);
    if (rc == RC_OK)
        return db_commit(db, err);
    db_rollback(db);
    return rc;
}

enum rc position_store_mysql_open(struct position_store_mysql *store,
                                  const struct lane_settings *lane, const char *owner,
                                  struct origin_mysql *origin, const struct settings *settings,
                                  struct err *err)
{
    int64_t silent_ms = settings->relay.lease_ms / 3;
    enum rc rc;

    memset(store, 0, sizeof(*store));
    pthread_mutex_init(&store->lock, NULL);
    store->own = lane;
    store->lane = lane->name;
    store->table = lane->table;
    store->owner = owner;
    store->keep_ids_max = lane->keep_ids_max;
    settings_lane_column(lane, "id", store->id);
    store->origin = origin;
    if (silent_ms > SILENT_MS_MAX)
        silent_ms = SILENT_MS_MAX;
    snprintf(store->set_up, sizeof(store->set_up),
             "SET SESSION innodb_lock_wait_timeout = %d, wait_timeout = %" PRId64, LOCK_WAIT_S,
             silent_ms >= 1000 ? silent_ms / 1000 : 1);
    rc = db_open(&store->reader.db, &settings->mysql, err);
    if (rc == RC_OK)
        rc = db_open(&store->saver.db, &settings->mysql, err);
    if (rc == RC_OK && origin) {
        origin_mysql_guard(origin, store->reader.db);
        origin_mysql_guard(origin, store->saver.db);
    }
    return rc;
}

void position_store_mysql_let_go_on(struct position_store_mysql *store)
{
    store->may_go_on = true;
}

void position_store_mysql_close(struct position_store_mysql *store)
{
    if (!store->lane)
        return;
    db_close(store->reader.db);
    db_close(store->saver.db);
    buf_done(&store->reader.sql);
    buf_done(&store->saver.sql);
    buf_done(&store->ranges);
    buf_done(&store->moved_before);
    pthread_mutex_destroy(&store->lock);
    store->lane = NULL;
}

struct position_store position_store_mysql_ops(struct position_store_mysql *store)
{
    return (struct position_store){
        .ctx = store,
        .accept = accept_database,
        .load = load_position,
        .kind = read_kind,
        .save = save_position,
        .begin = begin_position,
        .check_log = check_log,
        .find_risk = find_risk,
    };
}
