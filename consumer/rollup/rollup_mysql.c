/* SPDX-License-Identifier: MIT */
#include "consumer/rollup/rollup_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "consumer/singleton_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of the row in rollup_state. */
#define NAME "remark"

#define MS_OF(time) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " time ") DIV 1000"

struct rollup_mysql {
    struct db *db;
    struct buf sql; /* scratch memory for one statement */
    struct singleton_mysql singleton;
    uint64_t lease_session; /* in which the lease was taken */
    struct rollup_store store;
};

static void put_time(struct buf *sql, int64_t ms)
{
    buf_print(sql, "(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL %" PRId64 " MICROSECOND)",
              ms * 1000);
}

static enum rc query_sql(struct rollup_mysql *mysql, db_on_row on_row, void *ctx, struct err *err)
{
    return db_query_buf(mysql->db, &mysql->sql, on_row, ctx, err);
}

struct state_reader {
    struct rollup_state *state;
    bool found;
};

static enum rc state_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct state_reader *reader = ctx;
    struct rollup_state *state = reader->state;

    (void)err;
    state->now_ms = db_column_i64(row, 0);
    state->rolled_until_ms = db_column_i64(row, 1);
    state->finished_ms = db_column_i64(row, 2);
    state->lease_until_ms = db_column_i64(row, 3);
    state->epoch = db_column_i64(row, 4);
    snprintf(state->owner, sizeof(state->owner), "%s", row->columns[5] ? row->columns[5] : "");
    state->finished_window = db_column_i64(row, 6);
    state->started_window = db_column_i64(row, 7);
    reader->found = true;
    return RC_OK;
}

static enum rc read_state(struct rollup_mysql *mysql, struct state_reader *reader, struct err *err)
{
    buf_reset(&mysql->sql);
    buf_text_put(&mysql->sql,
                 "SELECT " MS_OF("UTC_TIMESTAMP(3)") ", " MS_OF("rolled_until") ", " MS_OF(
                     "finished_at") ", " MS_OF("lease_until") ", epoch, owner, finished_window, "
                                                              "started_window FROM rollup_state "
                                                              "WHERE name = '" NAME "'");
    return query_sql(mysql, state_on_row, reader, err);
}

static enum rc store_read_state(void *ctx, struct rollup_state *state, struct err *err)
{
    struct rollup_mysql *mysql = ctx;
    struct state_reader reader = {.state = state};
    enum rc rc = read_state(mysql, &reader, err);

    if (rc != RC_OK || reader.found)
        return rc;
    rc = db_run(mysql->db,
                "INSERT INTO rollup_state (name, rolled_until, finished_at, owner, epoch, "
                "lease_until) VALUES ('" NAME "', '1970-01-01', NULL, '', 0, '1970-01-01') "
                "ON DUPLICATE KEY UPDATE name = rollup_state.name",
                err);
    if (rc == RC_OK)
        rc = read_state(mysql, &reader, err);
    if (rc == RC_OK && !reader.found)
        rc = err_fail(err, RC_RETRY, 0, "the row " NAME " of rollup_state was deleted meanwhile");
    return rc;
}

static enum rc store_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                          struct err *err)
{
    struct rollup_mysql *mysql = ctx;
    enum rc rc = singleton_mysql_take(&mysql->singleton, lease, taken, err);

    if (rc == RC_OK && *taken)
        mysql->lease_session = db_session(mysql->db);
    return rc;
}

/* In a transaction, which cannot move to another session. */
static bool is_session_of_lease(const struct rollup_mysql *mysql)
{
    return db_session(mysql->db) == mysql->lease_session;
}

struct row_page {
    struct rollup_row *rows;
    size_t count;
};

static enum rc page_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct row_page *page = ctx;

    (void)err;
    page->rows[page->count++] = (struct rollup_row){
        .place = {.changed_ms = db_column_i64(row, 0), .content_id = db_column_i64(row, 1)},
        .votes = db_column_i64(row, 2),
        .seq = db_column_i64(row, 3),
        .remark_seq = row->columns[4] ? db_column_i64(row, 4) : ROLLUP_NO_REMARK,
    };
    return RC_OK;
}

/* Neither server makes ranges of (a, b) > (x, y), so the condition is written out. The index
 * includes the primary key, so rows arrive in order and no row is read in vain. */
static enum rc store_read(void *ctx, const struct rollup_place *after, int64_t until_ms,
                          struct rollup_row *rows, size_t max, size_t *count, struct err *err)
{
    struct rollup_mysql *mysql = ctx;
    struct buf *sql = &mysql->sql;
    struct row_page page = {.rows = rows};
    enum rc rc;

    buf_reset(sql);
    buf_text_put(sql, "SELECT " MS_OF("t.changed_at") ", t.content_id, t.votes, t.seq, r.votes_seq "
                                                      "FROM vote_tally t "
                                                      "FORCE INDEX (ix_vote_tally_changed) "
                                                      "LEFT JOIN remark r ON r.id = t.content_id "
                                                      "WHERE (t.changed_at > ");
    put_time(sql, after->changed_ms);
    buf_text_put(sql, " AND t.changed_at <= ");
    put_time(sql, until_ms);
    buf_text_put(sql, ") OR (t.changed_at = ");
    put_time(sql, after->changed_ms);
    buf_print(sql, " AND t.content_id > %" PRId64 ") ORDER BY t.changed_at, t.content_id LIMIT %zu",
              after->content_id, max);
    rc = query_sql(mysql, page_on_row, &page, err);
    *count = page.count;
    return rc;
}

static enum rc due_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct row_page *page = ctx;

    (void)err;
    page->rows[page->count++] = (struct rollup_row){
        .place = {.content_id = db_column_i64(row, 0)},
        .votes = db_column_i64(row, 1),
        .seq = db_column_i64(row, 2),
        .remark_seq = db_column_i64(row, 3),
        .due = true,
    };
    return RC_OK;
}

static enum rc store_read_due(void *ctx, int64_t after_id, struct rollup_row *rows, size_t max,
                              size_t *count, struct err *err)
{
    struct rollup_mysql *mysql = ctx;
    struct row_page page = {.rows = rows};
    enum rc rc;

    buf_reset(&mysql->sql);
    buf_print(&mysql->sql,
              "SELECT r.id, COALESCE(t.votes, 0), COALESCE(t.seq, 0), r.votes_seq FROM remark r "
              "FORCE INDEX (ix_remark_rollup_due) LEFT JOIN vote_tally t ON t.content_id = r.id "
              "WHERE r.rollup_due = 1 AND r.id > %" PRId64 " ORDER BY r.id LIMIT %zu",
              after_id, max);
    rc = query_sql(mysql, due_on_row, &page, err);
    *count = page.count;
    return rc;
}

/* The rows travel as JSON, the one form of a table of values that both servers can join. A join
 * with vote_tally would lock its rows against the appliers.
 *
 * Invariant C12: votes_before is assigned first, from the columns that the assignments after it
 * change. Both servers assign from left to right, test_lists.Pages checks it. */
static enum rc update_remarks(struct rollup_mysql *mysql, int64_t window,
                              const struct rollup_row *rows, size_t count, uint64_t *changed,
                              struct err *err)
{
    struct buf *sql = &mysql->sql;

    buf_reset(sql);
    buf_text_put(sql, "UPDATE JSON_TABLE('[");
    for (size_t i = 0; i < count; i++) {
        buf_text_put(sql, i > 0 ? ",[" : "[");
        buf_i64(sql, rows[i].place.content_id);
        buf_char(sql, ',');
        buf_i64(sql, rows[i].votes);
        buf_char(sql, ',');
        buf_i64(sql, rows[i].seq);
        buf_char(sql, ']');
    }
    buf_print(sql,
              "]', '$[*]' COLUMNS (id BIGINT PATH '$[0]', votes BIGINT PATH '$[1]', "
              "seq BIGINT PATH '$[2]')) t STRAIGHT_JOIN remark r ON r.id = t.id "
              "SET r.votes_before = IF(r.votes_window = %" PRId64 ", r.votes_before, r.votes), "
              "r.votes = t.votes, r.votes_seq = t.seq, r.votes_window = %" PRId64
              " WHERE r.votes_seq < t.seq",
              window, window);
    return singleton_mysql_run(&mysql->singleton, changed, err);
}

static enum rc mark_remarks(struct rollup_mysql *mysql, const struct rollup_row *rows, size_t count,
                            struct err *err)
{
    struct buf *sql = &mysql->sql;
    size_t due = 0;

    buf_reset(sql);
    buf_text_put(sql, "UPDATE remark SET rollup_due = NULL WHERE id IN (");
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].due)
            continue;
        if (due++ > 0)
            buf_char(sql, ',');
        buf_i64(sql, rows[i].place.content_id);
    }
    buf_char(sql, ')');
    return due > 0 ? singleton_mysql_run(&mysql->singleton, NULL, err) : RC_OK;
}

/* The lease is renewed last, so that its time begins near the COMMIT. */
static enum rc renew_lease(struct rollup_mysql *mysql, const struct singleton_lease *lease,
                           const struct rollup_progress *progress, struct err *err)
{
    struct buf *sql = &mysql->sql;

    buf_reset(sql);
    buf_text_put(sql, "UPDATE rollup_state SET ");
    singleton_mysql_put_lease(&mysql->singleton, lease);
    buf_text_put(sql, ", rolled_until = ");
    put_time(sql, progress->rolled_until_ms);
    buf_print(sql, ", started_window = %" PRId64 " WHERE name = '" NAME "'", progress->window);
    return singleton_mysql_run(&mysql->singleton, NULL, err);
}

static enum rc write_in_transaction(struct rollup_mysql *mysql, const struct singleton_lease *lease,
                                    const struct rollup_progress *progress,
                                    const struct rollup_row *rows, size_t count, uint64_t *changed,
                                    bool *held, struct err *err)
{
    enum rc rc = singleton_mysql_check(&mysql->singleton, lease, held, err);

    *held = *held && is_session_of_lease(mysql);
    if (rc != RC_OK || !*held)
        return rc;
    if (count > 0)
        rc = update_remarks(mysql, progress->window, rows, count, changed, err);
    if (rc == RC_OK)
        rc = mark_remarks(mysql, rows, count, err);
    if (rc == RC_OK)
        rc = renew_lease(mysql, lease, progress, err);
    return rc;
}

static enum rc store_write(void *ctx, const struct singleton_lease *lease,
                           const struct rollup_progress *progress, const struct rollup_row *rows,
                           size_t count, uint64_t *changed, bool *held, struct err *err)
{
    struct rollup_mysql *mysql = ctx;
    enum rc rc = singleton_mysql_begin(&mysql->singleton, err);

    *changed = 0;
    if (rc != RC_OK)
        return rc;
    rc = write_in_transaction(mysql, lease, progress, rows, count, changed, held, err);
    if (rc == RC_OK && *held)
        return db_commit(mysql->db, err);
    db_rollback(mysql->db);
    return rc;
}

static enum rc finish_in_transaction(struct rollup_mysql *mysql,
                                     const struct singleton_lease *lease,
                                     const struct rollup_progress *progress, bool *held,
                                     struct err *err)
{
    struct buf *sql = &mysql->sql;
    enum rc rc = singleton_mysql_check_end(&mysql->singleton, lease, held, err);

    *held = *held && is_session_of_lease(mysql);
    if (rc != RC_OK || !*held)
        return rc;
    buf_reset(sql);
    buf_text_put(sql, "UPDATE rollup_state SET " SINGLETON_MYSQL_FINISHED ", rolled_until = ");
    put_time(sql, progress->rolled_until_ms);
    buf_print(sql, ", started_window = %" PRId64 ", finished_window = %" PRId64, progress->window,
              progress->window);
    singleton_mysql_put_where(&mysql->singleton, lease);
    return singleton_mysql_run(&mysql->singleton, NULL, err);
}

static enum rc store_finish(void *ctx, const struct singleton_lease *lease,
                            const struct rollup_progress *progress, bool *held, struct err *err)
{
    struct rollup_mysql *mysql = ctx;
    enum rc rc = singleton_mysql_begin(&mysql->singleton, err);

    if (rc != RC_OK)
        return rc;
    rc = finish_in_transaction(mysql, lease, progress, held, err);
    if (rc == RC_OK && *held)
        return db_commit(mysql->db, err);
    db_rollback(mysql->db);
    return rc;
}

static void store_release(void *ctx, const struct singleton_lease *lease)
{
    struct rollup_mysql *mysql = ctx;

    singleton_mysql_release(&mysql->singleton, lease);
}

enum rc rollup_mysql_open(struct rollup_mysql **out, const struct mysql_settings *settings,
                          struct err *err)
{
    struct rollup_mysql *mysql = calloc(1, sizeof(*mysql));
    enum rc rc;

    if (!mysql)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    mysql->store = (struct rollup_store){
        .ctx = mysql,
        .read_state = store_read_state,
        .take = store_take,
        .read = store_read,
        .read_due = store_read_due,
        .write = store_write,
        .finish = store_finish,
        .release = store_release,
    };
    rc = db_open(&mysql->db, settings, err);
    mysql->singleton = (struct singleton_mysql){
        .db = mysql->db, .sql = &mysql->sql, .table = "rollup_state", .name = NAME};
    if (rc == RC_OK)
        *out = mysql;
    else
        rollup_mysql_close(mysql);
    return rc;
}

void rollup_mysql_close(struct rollup_mysql *mysql)
{
    if (!mysql)
        return;
    db_close(mysql->db);
    buf_done(&mysql->sql);
    free(mysql);
}

const struct rollup_store *rollup_mysql_store(const struct rollup_mysql *mysql)
{
    return &mysql->store;
}
