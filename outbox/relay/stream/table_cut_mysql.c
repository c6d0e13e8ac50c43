/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/table_cut_mysql.h"

#include "common/db/table_lock.h"
#include "outbox/relay/fallback/lost_log.h"
#include "outbox/relay/stream/position_mysql.h"

#include <inttypes.h>
#include <string.h>

static enum rc take_key(void *ctx, const struct db_row *row, struct err *err)
{
    bool *has = ctx;

    (void)err;
    *has = db_column_i64(row, 0) == 1 && db_column_i64(row, 1) == 1;
    return RC_OK;
}

enum rc table_cut_mysql_has_seq(struct db *db, const char *table, bool *has, struct err *err)
{
    struct buf sql = {0};
    enum rc rc = db_connect(db, err);

    *has = true;
    if (rc != RC_OK)
        return rc;
    buf_text_put(&sql, "SELECT SUM(column_key = 'PRI'), SUM(column_key = 'PRI' AND column_name = "
                       "'seq') FROM information_schema.columns WHERE table_schema = DATABASE() "
                       "AND table_name = ");
    db_put_text(db, &sql, table, strlen(table));
    rc = db_query_buf(db, &sql, take_key, has, err);
    buf_done(&sql);
    if (rc == RC_OK)
        return RC_OK;
    *has = true;
    err_wrap(err, "reading the columns of %s", table);
    return rc;
}

const char *table_cut_mysql_find_obstacle(struct db *db, const struct lane_settings *lane,
                                          bool has_position)
{
    bool has_seq = true;

    if (db)
        table_cut_mysql_has_seq(db, lane->table, &has_seq, NULL);
    return lost_log_obstacle(lane, has_seq, has_position);
}

static enum rc lock_table(struct table_lock *lock, struct db *db, const char *table,
                          struct err *err)
{
    struct err own = {0};
    enum rc rc = table_lock_take(lock, db, table, &own);

    if (rc == RC_RETRY)
        return err_fail(err, rc, own.code,
                        "a transaction that has written into table %s is open, or the server "
                        "cannot be reached: %s",
                        table, own.text);
    if (rc != RC_OK)
        return err_fail(err, rc, own.code,
                        "locking table %s, which needs LOCK TABLES on its database (`tallybox "
                        "migrate grants`): %s",
                        table, own.text);
    return RC_OK;
}

/* A prepared transaction that has lost its session, as after a restart of the server, may be in the
 * log before the cut, with rows that cannot be seen yet. MySQL tells of it with XA_RECOVER_ADMIN
 * only; without, the error ends the connection, so it is asked before the table is locked. */
static enum rc check_no_prepared(struct db *db, struct err *err)
{
    int64_t count = 0;
    enum rc rc = table_lock_count_prepared(db, &count, NULL);

    if (rc != RC_OK || count == 0)
        return RC_OK;
    return err_fail(err, RC_RETRY, 0,
                    "the server has %" PRId64 " prepared XA transactions (XA RECOVER), whose rows "
                    "may be in the log and cannot be seen: end them by XA COMMIT or XA ROLLBACK",
                    count);
}

static enum rc take_seqs(void *ctx, const struct db_row *row, struct err *err)
{
    struct table_cut *cut = ctx;

    (void)err;
    cut->low_seq = db_column_i64(row, 0);
    cut->high_seq = db_column_i64(row, 1);
    return RC_OK;
}

static enum rc read_seqs(struct db *db, const char *table, struct table_cut *cut, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(&sql, "SELECT MIN(seq), MAX(seq) FROM ");
    db_put_name(&sql, table);
    rc = db_query_buf(db, &sql, take_seqs, cut, err);
    buf_done(&sql);
    return rc;
}

/* A READ lock would be granted only when no writer comes for a moment.
 *
 * Invariant: LOCK TABLES waits for each transaction that has written into the table and keeps later
 * ones out, and a transaction ends for it only after it is in the log and can be seen. So while the
 * lock is held the table has exactly the rows that are in the log before its end. */
enum rc table_cut_mysql_make(struct db *db, const char *table, struct table_cut *cut,
                             struct err *err)
{
    struct table_lock lock = {0};
    enum rc released;
    enum rc rc = check_no_prepared(db, err);

    cut->low_seq = cut->high_seq = 0;
    if (rc == RC_OK)
        rc = position_mysql_check_log(db, err);
    if (rc == RC_OK)
        rc = lock_table(&lock, db, table, err);
    if (rc == RC_OK)
        rc = position_mysql_read_begin(db, &cut->position, err);
    if (rc == RC_OK)
        rc = read_seqs(db, table, cut, err);
    released = table_lock_release(&lock, rc == RC_OK ? err : NULL);
    return rc == RC_OK ? released : rc;
}
