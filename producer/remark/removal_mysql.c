/* SPDX-License-Identifier: MIT */
#include "producer/remark/removal_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_TEXT_SIZE 32 /* a DATETIME(3) as text, and the end */

#define AGE_MS(since) "TIMESTAMPDIFF(MICROSECOND, " since ", UTC_TIMESTAMP(3)) DIV 1000"

/* The words of the statements on one table of marks. */
struct marks_table {
    const char *select_due; /* id, remove_after, age in ms */
    const char *set_time;   /* the time of remove_after follows, in ms from now, then: */
    const char *where_id;
    const char *finish; /* the id follows */
    const char *oldest;
};

static const struct marks_table marks_tables[] = {
    [REMOVAL_REMARKS] =
        {.select_due = "SELECT id, remove_after, " AGE_MS(
             "COALESCE(removal_at, deleted_at)") " FROM remark FORCE INDEX (ix_remark_removal) "
                                                 "WHERE remove_after <= UTC_TIMESTAMP(3) "
                                                 "AND deleted_at IS NOT NULL ORDER BY remove_after "
                                                 "LIMIT 1",
         .set_time = "UPDATE remark SET remove_after = UTC_TIMESTAMP(3) + INTERVAL ",
         .where_id = " * 1000 MICROSECOND WHERE deleted_at IS NOT NULL AND id = ",
         .finish = "DELETE FROM remark WHERE deleted_at IS NOT NULL AND id = ",
         .oldest = "SELECT COALESCE(" AGE_MS(
             "MIN(COALESCE(removal_at, deleted_at))") ", 0) FROM remark FORCE INDEX "
                                                      "(ix_remark_removal) WHERE remove_after IS "
                                                      "NOT NULL"},
    [REMOVAL_CONTENTS] =
        {.select_due = "SELECT content_id, remove_after, " AGE_MS(
             "COALESCE(removal_at, deleted_at)") " FROM deleted_content FORCE INDEX "
                                                 "(ix_deleted_content_removal) WHERE remove_after "
                                                 "<= "
                                                 "UTC_TIMESTAMP(3) ORDER BY remove_after LIMIT 1",
         .set_time = "UPDATE deleted_content SET remove_after = UTC_TIMESTAMP(3) + INTERVAL ",
         .where_id = " * 1000 MICROSECOND WHERE remove_after IS NOT NULL AND content_id = ",
         .finish = "UPDATE deleted_content SET remove_after = NULL WHERE content_id = ",
         .oldest = "SELECT COALESCE(" AGE_MS(
             "MIN(COALESCE(removal_at, deleted_at))") ", 0) FROM deleted_content FORCE INDEX "
                                                      "(ix_deleted_content_removal) "
                                                      "WHERE remove_after IS NOT NULL"},
};

struct marks {
    struct db *db;
    struct buf *sql;
    const struct marks_table *table;
    struct removal_marks ops;
};

struct removal_mysql {
    struct db *db;
    struct buf sql; /* keeps its memory */
    struct removal_store ops;
    struct marks marks[REMOVAL_KINDS];
};

static enum rc store_ping(void *ctx, struct err *err)
{
    return db_run(((struct removal_mysql *)ctx)->db, "SELECT deleted_at FROM remark WHERE id = 0",
                  err);
}

static enum rc store_mark(void *ctx, int64_t id, bool *found, int64_t *item_id, struct err *err)
{
    struct removal_mysql *store = ctx;
    enum rc rc;

    *found = false;
    buf_reset(&store->sql);
    buf_print(&store->sql,
              "UPDATE remark SET deleted_at = COALESCE(deleted_at, UTC_TIMESTAMP(3)), remove_after "
              "= COALESCE(remove_after, UTC_TIMESTAMP(3)) WHERE id = %" PRId64,
              id);
    rc = db_exec_buf(store->db, &store->sql, NULL, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&store->sql);
    buf_print(&store->sql, "SELECT item_id FROM remark WHERE id = %" PRId64, id);
    return db_number(store->db, buf_text(&store->sql), item_id, found, err);
}

static enum rc store_is_ended(void *ctx, int64_t content_id, bool *ended, struct err *err)
{
    struct removal_mysql *store = ctx;
    int64_t count = 0;
    enum rc rc;

    buf_reset(&store->sql);
    buf_print(&store->sql,
              "SELECT COUNT(*) FROM vote_tally WHERE content_id = %" PRId64
              " AND ended_at IS NOT NULL",
              content_id);
    rc = db_number(store->db, buf_text(&store->sql), &count, NULL, err);
    *ended = count > 0;
    return rc;
}

/* The rows of a content are a range of the primary key. */
static enum rc store_delete_lasts(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                                  struct err *err)
{
    struct removal_mysql *store = ctx;
    uint64_t affected = 0;
    enum rc rc;

    buf_reset(&store->sql);
    buf_print(&store->sql,
              "DELETE FROM vote_last WHERE content_id = %" PRId64 " ORDER BY voter_id LIMIT %zu",
              content_id, rows_max);
    rc = db_exec_buf(store->db, &store->sql, &affected, err);
    *count = (size_t)affected;
    return rc;
}

static bool store_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == DB_DEADLOCK || err->code == DB_LOCK_TIMEOUT;
}

struct due {
    struct removal removal;
    char remove_after[TIME_TEXT_SIZE];
    bool found;
};

static enum rc on_due_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct due *due = ctx;

    (void)err;
    due->found = true;
    due->removal.content_id = db_column_i64(row, 0);
    due->removal.age_ms = db_column_i64(row, 2);
    snprintf(due->remove_after, sizeof(due->remove_after), "%s", row->columns[1]);
    return RC_OK;
}

static void build_put_off(const struct marks *marks, int64_t id, int64_t wait_ms)
{
    buf_reset(marks->sql);
    buf_text_put(marks->sql, marks->table->set_time);
    buf_i64(marks->sql, wait_ms);
    buf_text_put(marks->sql, marks->table->where_id);
    buf_i64(marks->sql, id);
}

/* The UPDATE compares the time that was read: of two processes one gets the content. */
static enum rc marks_claim(void *ctx, int64_t claim_ms, struct removal *removal, bool *found,
                           struct err *err)
{
    const struct marks *marks = ctx;
    struct due due = {.found = false};
    uint64_t affected = 0;
    enum rc rc;

    *found = false;
    buf_reset(marks->sql);
    buf_text_put(marks->sql, marks->table->select_due);
    rc = db_query_buf(marks->db, marks->sql, on_due_row, &due, err);
    if (rc != RC_OK || !due.found)
        return rc;
    build_put_off(marks, due.removal.content_id, claim_ms);
    buf_text_put(marks->sql, " AND remove_after = ");
    db_put_text(marks->db, marks->sql, due.remove_after, strlen(due.remove_after));
    rc = db_exec_buf(marks->db, marks->sql, &affected, err);
    *found = affected > 0;
    *removal = due.removal;
    return rc;
}

static enum rc marks_put_off(void *ctx, int64_t id, int64_t wait_ms, struct err *err)
{
    const struct marks *marks = ctx;

    build_put_off(marks, id, wait_ms);
    return db_exec_buf(marks->db, marks->sql, NULL, err);
}

static enum rc marks_finish(void *ctx, int64_t id, struct err *err)
{
    const struct marks *marks = ctx;

    buf_reset(marks->sql);
    buf_text_put(marks->sql, marks->table->finish);
    buf_i64(marks->sql, id);
    return db_exec_buf(marks->db, marks->sql, NULL, err);
}

static enum rc marks_oldest(void *ctx, int64_t *age_ms, struct err *err)
{
    const struct marks *marks = ctx;

    return db_number(marks->db, marks->table->oldest, age_ms, NULL, err);
}

static void init_marks(struct removal_mysql *store, enum removal_kind kind, struct db *db)
{
    struct marks *marks = &store->marks[kind];

    *marks = (struct marks){
        .db = db,
        .sql = &store->sql,
        .table = &marks_tables[kind],
        .ops = {marks, marks_claim, marks_put_off, marks_finish, marks_oldest},
    };
}

enum rc removal_mysql_open(struct removal_mysql **out, const struct mysql_settings *settings,
                           struct db *votes_db, struct err *err)
{
    struct removal_mysql *store = calloc(1, sizeof(*store));
    enum rc rc;

    *out = NULL;
    if (!store)
        return err_fail(err, RC_FATAL, 0, "no memory for a database connection");
    rc = db_open(&store->db, settings, err);
    if (rc != RC_OK) {
        free(store);
        return rc;
    }
    store->ops = (struct removal_store){
        .ctx = store,
        .ping = store_ping,
        .mark = store_mark,
        .is_ended = store_is_ended,
        .delete_lasts = store_delete_lasts,
        .collided = store_collided,
    };
    init_marks(store, REMOVAL_REMARKS, store->db);
    init_marks(store, REMOVAL_CONTENTS, votes_db);
    *out = store;
    return RC_OK;
}

void removal_mysql_close(struct removal_mysql *store)
{
    if (!store)
        return;
    db_close(store->db);
    buf_done(&store->sql);
    free(store);
}

const struct removal_store *removal_mysql_store(const struct removal_mysql *store)
{
    return &store->ops;
}

const struct removal_marks *removal_mysql_marks(const struct removal_mysql *store,
                                                enum removal_kind kind)
{
    return &store->marks[kind].ops;
}

void removal_mysql_interrupt(struct removal_mysql *store)
{
    db_interrupt(store->db);
}
