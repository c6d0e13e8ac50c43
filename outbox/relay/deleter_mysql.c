/* SPDX-License-Identifier: MIT */
#include "outbox/relay/deleter_mysql.h"

#include "outbox/relay/moves_mysql.h"
#include "outbox/relay/seq_mysql.h"

#include <string.h>

/* From this length on a run is deleted as a range, which is two to three times as fast. */
#define RUN_MIN 200

/* Somebody who locks a published row must not hold up all others for the server's 50 s. */
#define LOCK_WAIT "SET SESSION innodb_lock_wait_timeout = 2"

static enum rc set_up(struct deleter_mysql *deleter, struct err *err)
{
    enum rc rc;

    origin_mysql_renew(deleter->origin, deleter->db, &deleter->turn);
    rc = db_connect(deleter->db, err);
    if (rc != RC_OK || deleter->session == db_session(deleter->db))
        return rc;
    rc = db_run(deleter->db, LOCK_WAIT, err);
    if (rc == RC_OK)
        deleter->session = db_session(deleter->db);
    return rc;
}

/* Asked before, not in the deletion itself: there the servers would lock the lease's row, and the
 * lease could not be kept meanwhile. A deletion that comes too late does no harm, since its rows
 * are in Kafka whoever holds the lane; the fence keeps a relay that was away for long from going
 * on as if nothing had happened. */
static enum rc look_at_lease(struct deleter_mysql *deleter, int64_t epoch, bool *fenced,
                             struct err *err)
{
    struct buf *sql = &deleter->sql;
    int64_t now = 0;
    bool found = false;
    enum rc rc;

    buf_reset(sql);
    buf_text_put(sql, "SELECT epoch FROM relay_lease WHERE lane = ");
    db_put_text(deleter->db, sql, deleter->lane, strlen(deleter->lane));
    buf_text_put(sql, " AND owner = ");
    db_put_text(deleter->db, sql, deleter->owner, strlen(deleter->owner));
    rc = db_number(deleter->db, buf_text(sql), &now, &found, err);
    *fenced = rc == RC_OK && (!found || now != epoch);
    return rc;
}

static enum rc run(struct deleter_mysql *deleter, struct err *err)
{
    if (deleter->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the statement");
    return db_exec(deleter->db, deleter->sql.data, deleter->sql.len, NULL, err);
}

static bool is_long(const struct seq_range *range)
{
    return range->to - range->from + 1 >= RUN_MIN;
}

/* A deletion must not wait for writers: one of them may keep its transaction open for hours.
 *
 * Both servers lock the record behind a range, too, and that may be a row not committed yet. So a
 * range ends before its last row, which is still there. One range in one statement is always read
 * from the primary key; several of them, or a list of values, may be found by reading the whole
 * table, locking its other rows on the way. */
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
        db_put_name(sql, deleter->lane);
        buf_text_put(sql, " WHERE seq >= ");
        buf_i64(sql, ranges[i].from);
        buf_text_put(sql, " AND seq < ");
        buf_i64(sql, ranges[i].to);
        rc = run(deleter, err);
    }
    return rc;
}

/* All other rows. */
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
    seq_put_join(&deleter->sql, deleter->lane, single, count);
    return run(deleter, err);
}

static enum rc deleter_delete(void *ctx, const struct seq_range *ranges, size_t count,
                              int64_t epoch, bool *fenced, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = set_up(deleter, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = look_at_lease(deleter, epoch, fenced, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_runs(deleter, ranges, count, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_single(deleter, ranges, count, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting from %s", deleter->lane);
    return rc;
}

static enum rc deleter_move(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                            bool *fenced, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = set_up(deleter, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = moves_make_tasks(deleter, moves, count, epoch, fenced, err);
    if (rc != RC_OK)
        err_wrap(err, "moving rows of %s into the retry lane", deleter->lane);
    return rc;
}

static enum rc deleter_load_keys(void *ctx, size_t keys_max, deleter_on_key on_key,
                                 void *on_key_ctx, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = set_up(deleter, err);

    if (rc == RC_OK)
        rc = moves_load_keys(deleter, keys_max, on_key, on_key_ctx, err);
    if (rc != RC_OK)
        err_wrap(err, "asking which keys of %s are in the retry lane", deleter->lane);
    return rc;
}

static enum rc deleter_keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = set_up(deleter, err);

    if (rc == RC_OK)
        rc = moves_keys_left(deleter, keys, count, err);
    if (rc != RC_OK)
        err_wrap(err, "asking which keys of %s are in the retry lane", deleter->lane);
    return rc;
}

enum rc deleter_mysql_open(struct deleter_mysql *deleter, const char *lane, const char *owner,
                           struct origin_mysql *origin, const struct settings *settings,
                           struct err *err)
{
    enum rc rc;

    memset(deleter, 0, sizeof(*deleter));
    deleter->lane = lane;
    deleter->owner = owner;
    deleter->origin = origin;
    deleter->source = settings->relay.source;
    deleter->lease_ms = settings->relay.lease_ms;
    rc = db_open(&deleter->db, &settings->mysql, err);
    if (rc == RC_OK)
        origin_mysql_guard(origin, deleter->db);
    return rc;
}

void deleter_mysql_close(struct deleter_mysql *deleter)
{
    db_close(deleter->db);
    deleter->db = NULL;
    buf_done(&deleter->sql);
    buf_done(&deleter->options);
}

struct deleter_seam deleter_mysql_seam(struct deleter_mysql *deleter)
{
    return (struct deleter_seam){
        .ctx = deleter,
        .delete_ranges = deleter_delete,
        .move_rows = deleter_move,
        .load_keys = deleter_load_keys,
        .keys_left = deleter_keys_left,
    };
}
