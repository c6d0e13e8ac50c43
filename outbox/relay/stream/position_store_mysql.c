/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/position_store_mysql.h"

#include "outbox/lease/lease_mysql.h"
#include "outbox/relay/stream/position_mysql.h"
#include "outbox/relay/stream/seq_ranges.h"

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

enum column {
    COLUMN_BY_GTID,
    COLUMN_GTIDS,
    COLUMN_FILE,
    COLUMN_OFFSET,
    COLUMN_GTID,
    COLUMN_ROWS_DONE,
    COLUMN_TIME,
    COLUMN_SERVER,
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
}

static void note_server(struct position_store_mysql *store, const char *server)
{
    pthread_mutex_lock(&store->lock);
    snprintf(store->server, sizeof(store->server), "%s", server);
    pthread_mutex_unlock(&store->lock);
}

struct loading {
    struct position_store_mysql *store;
    struct stream_position *position;
    bool found;
};

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
    if (!position->by_gtid && strcmp(saved, present) != 0)
        return err_fail(
            err, RC_FATAL, 0,
            "file %.80s and offset %" PRIu64 " belong to the binary log of server "
            "%.64s, but this is server %.64s: connect to that server again, or say "
            "that all rows are published with `tallybox lanes begin %s --replace-position`",
            position->file, position->offset, saved, present, loading->store->lane);
    note_server(loading->store, present);
    loading->found = true;
    return RC_OK;
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
                    "TIMESTAMPDIFF(SECOND, '1970-01-01', committed_at), server, ");
    put_sql(reader, identity_of(reader));
    put_sql(reader, " FROM relay_position WHERE lane = ");
    put_text(reader, store->table);
    rc = db_query_buf(reader->db, &reader->sql, take_row, &loading, err);
    *found = rc == RC_OK && loading.found;
    return rc;
}

static enum rc load_position(void *ctx, struct stream_position *position, bool *found,
                             struct err *err)
{
    struct position_store_mysql *store = ctx;
    enum rc rc;

    *found = false;
    reset_position(position);
    /* The lane holds no row, and begins with what this database knows. */
    if (store->origin)
        origin_mysql_begin(store->origin);
    rc = select_position(store, position, found, err);
    if (rc == RC_OK)
        end_calls(&store->reader);
    if (rc == RC_OK)
        return RC_OK;
    reset_position(position);
    err_wrap(err, "reading the position of lane %s", store->lane);
    return rc;
}

static void put_server(struct position_store_mysql *store)
{
    char server[POSITION_SERVER_SIZE];

    pthread_mutex_lock(&store->lock);
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
    put_server(store);
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

static enum rc insert_seqs(struct position_store_mysql *store, const int64_t *seqs, size_t count,
                           struct err *err)
{
    struct position_session *saver = &store->saver;

    buf_reset(&store->ranges);
    seq_ranges_put(&store->ranges, seqs, count);
    if (store->ranges.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the seqs of %zu rows", count);
    buf_reset(&saver->sql);
    put_sql(saver, "INSERT INTO relay_published (lane, first_seq, seqs) VALUES (");
    put_text(saver, store->table);
    buf_print(&saver->sql, ", %" PRId64 ", ", seqs[0]);
    db_put_bytes(saver->db, &saver->sql, store->ranges.data, store->ranges.len);
    put_sql(saver, ")");
    return db_exec_buf(saver->db, &saver->sql, NULL, err);
}

static enum rc insert_all_seqs(struct position_store_mysql *store, const int64_t *seqs,
                               size_t count, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t at = 0; at < count && rc == RC_OK; at += ENTRY_SEQS_MAX)
        rc = insert_seqs(store, seqs + at,
                         count - at < ENTRY_SEQS_MAX ? count - at : ENTRY_SEQS_MAX, err);
    return rc;
}

static enum rc write_position(struct position_store_mysql *store,
                              const struct stream_position *position, const int64_t *seqs,
                              size_t seq_count, int64_t epoch, bool *fenced, struct err *err)
{
    struct db *db = store->saver.db;
    enum rc rc;

    if (position->before.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the GTIDs");
    rc = connect_session(store, &store->saver, err);
    if (rc == RC_OK)
        rc = db_begin(db, err);
    if (rc != RC_OK)
        return rc;
    rc = lease_mysql_check(db, &store->saver.sql, store->table, store->owner, epoch, true, fenced,
                           err);
    if (rc == RC_OK && !*fenced)
        rc = upsert_position(store, position, epoch, err);
    if (rc == RC_OK && !*fenced)
        rc = insert_all_seqs(store, seqs, seq_count, err);
    if (rc == RC_OK && !*fenced)
        return db_commit(db, err);
    db_rollback(db);
    return rc;
}

static enum rc save_position(void *ctx, const struct stream_position *position, const int64_t *seqs,
                             size_t seq_count, int64_t epoch, bool *fenced, struct err *err)
{
    struct position_store_mysql *store = ctx;
    enum rc rc;

    assert(epoch > 0);
    *fenced = false;
    rc = write_position(store, position, seqs, seq_count, epoch, fenced, err);
    if (rc == RC_OK)
        end_calls(&store->saver);
    if (rc != RC_OK)
        err_wrap(err, "saving the position of lane %s", store->lane);
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

/* A locking read waits for uncommitted rows, and finds the latest committed ones, whatever index it
 * uses: a table may have no column seq. */
static enum rc check_table_is_empty(struct position_store_mysql *store, struct err *err)
{
    struct position_session *reader = &store->reader;
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
    return err_fail(err, RC_FATAL, 0,
                    "table %s has rows that may not be published yet: let a table lane publish "
                    "them first (source = table), or say that they are published with `tallybox "
                    "lanes begin %s`",
                    store->table, store->lane);
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
        rc = position_mysql_read_end(reader->db, position, err);
    if (rc == RC_OK && position->before.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for the GTIDs");
    if (rc == RC_OK)
        rc = read_identity(store, server, err);
    if (rc == RC_OK)
        rc = check_table_is_empty(store, err);
    if (rc == RC_OK && db_session(reader->db) != session)
        rc = err_fail(err, RC_RETRY, 0, "the connection was lost meanwhile");
    if (rc == RC_OK)
        note_server(store, server);
    return rc;
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
};

static enum rc take_holder(void *ctx, const struct db_row *row, struct err *err)
{
    struct holder *holder = ctx;

    (void)err;
    snprintf(holder->owner, sizeof(holder->owner), "%s", text_in(row, 0));
    holder->left_ms = db_column_i64(row, 1);
    holder->holds = holder->owner[0] && holder->left_ms >= 0;
    return RC_OK;
}

/* Locks the lease row until the COMMIT and gives it a new epoch: a relay that was frozen until its
 * lease expired can save no position any more. Without a row no relay has ever held the lane. */
static enum rc take_free_lease(struct position_store_mysql *store, struct err *err)
{
    struct position_session *saver = &store->saver;
    struct holder holder = {0};
    enum rc rc;

    buf_reset(&saver->sql);
    put_sql(saver, "SELECT owner, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), lease_until) DIV "
                   "1000 FROM relay_lease WHERE lane = ");
    put_text(saver, store->table);
    put_sql(saver, " FOR UPDATE");
    rc = db_query_buf(saver->db, &saver->sql, take_holder, &holder, err);
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

static enum rc write_end(struct position_store_mysql *store, bool may_replace,
                         struct position_begun *begun, struct err *err)
{
    struct db *db = store->saver.db;
    enum rc rc = connect_session(store, &store->saver, err);

    if (rc == RC_OK)
        rc = db_begin(db, err);
    if (rc != RC_OK)
        return rc;
    rc = take_free_lease(store, err);
    if (rc == RC_OK)
        rc = check_no_position(store, may_replace, &begun->replaced, err);
    if (rc == RC_OK)
        rc = position_mysql_check_log(db, err);
    if (rc == RC_OK)
        rc = position_mysql_read_end(db, &begun->position, err);
    if (rc == RC_OK && begun->position.before.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for the GTIDs");
    if (rc == RC_OK)
        rc = upsert_position(store, &begun->position, 0, err);
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
    begun->replaced = false;
    rc = write_end(store, may_replace, begun, err);
    if (rc != RC_OK)
        err_wrap(err, "writing where lane %s begins", store->lane);
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
    store->lane = lane->name;
    store->table = lane->table;
    store->owner = owner;
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

void position_store_mysql_close(struct position_store_mysql *store)
{
    if (!store->lane)
        return;
    db_close(store->reader.db);
    db_close(store->saver.db);
    buf_done(&store->reader.sql);
    buf_done(&store->saver.sql);
    buf_done(&store->ranges);
    pthread_mutex_destroy(&store->lock);
    store->lane = NULL;
}

struct position_store position_store_mysql_ops(struct position_store_mysql *store)
{
    return (struct position_store){
        .ctx = store,
        .load = load_position,
        .save = save_position,
        .begin = begin_position,
        .find_risk = find_risk,
    };
}
