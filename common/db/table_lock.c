/* SPDX-License-Identifier: MIT */
#include "common/db/table_lock.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define SHORT_WAITS \
    "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1, wait_timeout = 2"

static enum rc take_waits(void *ctx, const struct db_row *row, struct err *err)
{
    struct session_waits *waits = ctx;

    (void)err;
    waits->metadata_s = db_column_i64(row, 0);
    waits->row_s = db_column_i64(row, 1);
    waits->idle_s = db_column_i64(row, 2);
    return RC_OK;
}

/* A failure ends the session, because a lost answer leaves open which waits it has. */
static enum rc shorten_waits(struct db *db, struct session_waits *before, struct err *err)
{
    static const char read[] = "SELECT @@SESSION.lock_wait_timeout, "
                               "@@SESSION.innodb_lock_wait_timeout, @@SESSION.wait_timeout";
    enum rc rc = db_query(db, read, strlen(read), take_waits, before, err);

    if (rc != RC_OK)
        return rc;
    db_keep_session(db, true);
    rc = db_run(db, SHORT_WAITS, err);
    if (rc == RC_OK)
        return RC_OK;
    db_keep_session(db, false);
    db_disconnect(db);
    return rc;
}

static void restore_waits(struct db *db, const struct session_waits *before)
{
    struct buf sql = {0};
    enum rc rc;

    buf_print(&sql,
              "SET SESSION lock_wait_timeout = %" PRId64 ", innodb_lock_wait_timeout = %" PRId64
              ", wait_timeout = %" PRId64,
              before->metadata_s, before->row_s, before->idle_s);
    rc = db_exec_buf(db, &sql, NULL, NULL);
    buf_done(&sql);
    db_keep_session(db, false);
    if (rc != RC_OK)
        db_disconnect(db);
}

enum rc table_lock_take(struct table_lock *lock, struct db *db, const char *table, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    assert(!db_in_transaction(db));
    lock->db = NULL;
    rc = shorten_waits(db, &lock->before, err);
    if (rc != RC_OK)
        return rc;
    buf_text_put(&sql, "LOCK TABLES ");
    db_put_name(&sql, table);
    buf_text_put(&sql, " WRITE");
    rc = db_exec_buf(db, &sql, NULL, err);
    buf_done(&sql);
    if (rc == RC_OK)
        lock->db = db;
    else
        restore_waits(db, &lock->before);
    return rc;
}

enum rc table_lock_release(struct table_lock *lock, struct err *err)
{
    struct db *db = lock->db;
    enum rc rc;

    if (!db)
        return RC_OK;
    lock->db = NULL;
    rc = db_run(db, "UNLOCK TABLES", err);
    if (rc == RC_OK) {
        restore_waits(db, &lock->before);
        return RC_OK;
    }
    err_wrap(err, "unlocking a table");
    /* The end of the session unlocks it, and the short waits end with it. */
    db_keep_session(db, false);
    db_disconnect(db);
    return rc;
}

static enum rc count_row(void *ctx, const struct db_row *row, struct err *err)
{
    int64_t *count = ctx;

    (void)row, (void)err;
    (*count)++;
    return RC_OK;
}

enum rc table_lock_count_prepared(struct db *db, int64_t *count, struct err *err)
{
    static const char sql[] = "XA RECOVER";

    *count = 0;
    return db_query(db, sql, strlen(sql), count_row, count, err);
}

enum rc table_lock_alter(struct db *db, const struct buf *sql, struct err *err)
{
    struct session_waits before;
    enum rc rc;

    assert(!db_in_transaction(db));
    rc = shorten_waits(db, &before, err);
    if (rc != RC_OK)
        return rc;
    rc = db_exec_buf(db, sql, NULL, err);
    restore_waits(db, &before);
    return rc;
}
