/* SPDX-License-Identifier: MIT */
#include "outbox/relay/deleter_mysql.h"

#include "outbox/lease/lease_mysql.h"
#include "outbox/relay/source_mysql.h"

#include <string.h>

/* Shortest run of seqs that is deleted as a range: two to three times as fast (measured). */
#define RUN_MIN 200

/* Bounds the wait for a published row that another session locks; the server's default is 50 s. */
#define LOCK_WAIT "SET SESSION innodb_lock_wait_timeout = 2"

static enum rc run_sql(struct deleter_mysql *deleter, struct err *err)
{
    return db_exec_buf(deleter->db, &deleter->sql, NULL, err);
}

static bool is_long(const struct seq_range *range)
{
    return range->to - range->from + 1 >= RUN_MIN;
}

/* Deletes the long ranges, each without its last row.
 *
 * Invariant: a deletion never waits for a writer, which may keep its transaction open for hours.
 * Both servers also lock the record behind a range, and that may be an uncommitted row. So the
 * range ends before its last row, which still exists. A statement with one range always reads the
 * primary key; with several ranges or a list of values the server may scan the table and lock its
 * other rows. */
static enum rc delete_runs(struct deleter_mysql *deleter, const struct seq_range *ranges,
                           size_t count, struct err *err)
{
    struct buf *sql = &deleter->sql;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        if (!is_long(&ranges[i]))
            continue;
        buf_reset(sql);
        buf_text_put(sql, "DELETE FROM ");
        db_put_name(sql, deleter->table);
        buf_text_put(sql, " WHERE seq >= ");
        buf_i64(sql, ranges[i].from);
        buf_text_put(sql, " AND seq < ");
        buf_i64(sql, ranges[i].to);
        rc = run_sql(deleter, err);
    }
    return rc;
}

/* Deletes the rows that delete_runs() left: short ranges, and the last row of each long one. */
static enum rc delete_single(struct deleter_mysql *deleter, const struct seq_range *ranges,
                             size_t count, struct err *err)
{
    struct seq_range single[DELETER_RANGES_MAX];

    for (size_t i = 0; i < count; i++) {
        single[i] = ranges[i];
        if (is_long(&ranges[i]))
            single[i].from = ranges[i].to;
    }
    buf_reset(&deleter->sql);
    buf_text_put(&deleter->sql, "DELETE o FROM ");
    source_mysql_put_join(&deleter->sql, deleter->table, single, count);
    return run_sql(deleter, err);
}

static enum rc delete_ranges(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = deleter_mysql_connect(deleter, err);

    *fenced = false;
    if (rc == RC_OK)
        /* Before the deletion, not within it: the servers would lock the lease row there, and the
         * lease could not be renewed meanwhile. A deletion after the lease was lost is harmless,
         * since its rows are in Kafka whichever instance holds the lane; the fence stops a relay
         * that was suspended for long. */
        rc = lease_mysql_check(deleter->db, &deleter->sql, deleter->table, deleter->owner, epoch,
                               false, fenced, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_runs(deleter, ranges, count, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_single(deleter, ranges, count, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting from %s", deleter->table);
    return rc;
}

enum rc deleter_mysql_open(struct deleter_mysql *deleter, const struct lane_settings *lane,
                           const char *owner, struct origin_mysql *origin,
                           const struct settings *settings, struct err *err)
{
    enum rc rc;

    memset(deleter, 0, sizeof(*deleter));
    deleter->table = lane->table;
    deleter->owner = owner;
    deleter->origin = origin;
    rc = db_open(&deleter->db, &settings->mysql, err);
    if (rc == RC_OK)
        origin_mysql_guard(origin, deleter->db);
    return rc;
}

enum rc deleter_mysql_connect(struct deleter_mysql *deleter, struct err *err)
{
    enum rc rc;

    origin_mysql_renew(deleter->origin, deleter->db, &deleter->term);
    rc = db_connect(deleter->db, err);
    if (rc != RC_OK || deleter->session == db_session(deleter->db))
        return rc;
    rc = db_run(deleter->db, LOCK_WAIT, err);
    if (rc == RC_OK)
        deleter->session = db_session(deleter->db);
    return rc;
}

void deleter_mysql_close(struct deleter_mysql *deleter)
{
    db_close(deleter->db);
    deleter->db = NULL;
    buf_done(&deleter->sql);
}

struct deleter_ops deleter_mysql_ops(struct deleter_mysql *deleter)
{
    return (struct deleter_ops){
        .ctx = deleter,
        .delete_ranges = delete_ranges,
    };
}
