/* SPDX-License-Identifier: MIT */
#include "outbox/relay/retirer_mysql.h"

#include "outbox/relay/moves_mysql.h"
#include "outbox/relay/seq_mysql.h"

#include <string.h>

/* From this length on a run is deleted as a range, which is two to three times as fast. */
#define RUN_MIN 200

/* Somebody who locks a published row must not hold up all others for the server's 50 s. */
#define LOCK_WAIT "SET SESSION innodb_lock_wait_timeout = 2"

static enum rc set_up(struct retirer_mysql *retirer, struct err *err)
{
    enum rc rc;

    origin_mysql_renew(retirer->origin, retirer->db, &retirer->turn);
    rc = db_connect(retirer->db, err);
    if (rc != RC_OK || retirer->session == db_session(retirer->db))
        return rc;
    rc = db_run(retirer->db, LOCK_WAIT, err);
    if (rc == RC_OK)
        retirer->session = db_session(retirer->db);
    return rc;
}

/* Asked before, not in the deletion itself: there the servers would lock the lease's row, and the
 * lease could not be kept meanwhile. A deletion that comes too late does no harm, since its rows
 * are in Kafka whoever holds the lane; the fence keeps a relay that was away for long from going
 * on as if nothing had happened. */
static enum rc look_at_lease(struct retirer_mysql *retirer, int64_t epoch, bool *fenced,
                             struct err *err)
{
    struct buf *sql = &retirer->sql;
    int64_t now = 0;
    bool found = false;
    enum rc rc;

    buf_reset(sql);
    buf_text_put(sql, "SELECT epoch FROM relay_lease WHERE lane = ");
    db_put_text(retirer->db, sql, retirer->lane, strlen(retirer->lane));
    buf_text_put(sql, " AND owner = ");
    db_put_text(retirer->db, sql, retirer->owner, strlen(retirer->owner));
    rc = db_number(retirer->db, buf_text(sql), &now, &found, err);
    *fenced = rc == RC_OK && (!found || now != epoch);
    return rc;
}

static enum rc run(struct retirer_mysql *retirer, struct err *err)
{
    if (retirer->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the statement");
    return db_exec(retirer->db, retirer->sql.data, retirer->sql.len, NULL, err);
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
static enum rc delete_runs(struct retirer_mysql *retirer, const struct seq_range *ranges,
                           size_t count, struct err *err)
{
    struct buf *sql = &retirer->sql;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        if (!is_long(&ranges[i]))
            continue;
        buf_reset(sql);
        buf_text_put(sql, "DELETE FROM ");
        db_put_name(sql, retirer->lane);
        buf_text_put(sql, " WHERE seq >= ");
        buf_i64(sql, ranges[i].from);
        buf_text_put(sql, " AND seq < ");
        buf_i64(sql, ranges[i].to);
        rc = run(retirer, err);
    }
    return rc;
}

/* All other rows. */
static enum rc delete_single(struct retirer_mysql *retirer, const struct seq_range *ranges,
                             size_t count, struct err *err)
{
    struct seq_range single[RETIRER_RANGES_MAX];

    for (size_t i = 0; i < count; i++) {
        single[i] = ranges[i];
        if (is_long(&ranges[i]))
            single[i].from = ranges[i].to;
    }
    buf_reset(&retirer->sql);
    buf_text_put(&retirer->sql, "DELETE o FROM ");
    seq_put_join(&retirer->sql, retirer->lane, single, count);
    return run(retirer, err);
}

static enum rc retirer_delete(void *ctx, const struct seq_range *ranges, size_t count,
                              int64_t epoch, bool *fenced, struct err *err)
{
    struct retirer_mysql *retirer = ctx;
    enum rc rc = set_up(retirer, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = look_at_lease(retirer, epoch, fenced, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_runs(retirer, ranges, count, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_single(retirer, ranges, count, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting from %s", retirer->lane);
    return rc;
}

static enum rc retirer_move(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                            bool *fenced, struct err *err)
{
    struct retirer_mysql *retirer = ctx;
    enum rc rc = set_up(retirer, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = moves_make_tasks(retirer, moves, count, epoch, fenced, err);
    if (rc != RC_OK)
        err_wrap(err, "moving rows of %s into the retry lane", retirer->lane);
    return rc;
}

static enum rc retirer_load_keys(void *ctx, size_t keys_max, retirer_on_key on_key,
                                 void *on_key_ctx, struct err *err)
{
    struct retirer_mysql *retirer = ctx;
    enum rc rc = set_up(retirer, err);

    if (rc == RC_OK)
        rc = moves_load_keys(retirer, keys_max, on_key, on_key_ctx, err);
    if (rc != RC_OK)
        err_wrap(err, "asking which keys of %s are in the retry lane", retirer->lane);
    return rc;
}

static enum rc retirer_keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    struct retirer_mysql *retirer = ctx;
    enum rc rc = set_up(retirer, err);

    if (rc == RC_OK)
        rc = moves_keys_left(retirer, keys, count, err);
    if (rc != RC_OK)
        err_wrap(err, "asking which keys of %s are in the retry lane", retirer->lane);
    return rc;
}

enum rc retirer_mysql_open(struct retirer_mysql *retirer, const char *lane, const char *owner,
                           struct origin_mysql *origin, const struct settings *settings,
                           struct err *err)
{
    enum rc rc;

    memset(retirer, 0, sizeof(*retirer));
    retirer->lane = lane;
    retirer->owner = owner;
    retirer->origin = origin;
    retirer->source = settings->relay.source;
    retirer->lease_ms = settings->relay.lease_ms;
    rc = db_open(&retirer->db, &settings->mysql, err);
    if (rc == RC_OK)
        origin_mysql_guard(origin, retirer->db);
    return rc;
}

void retirer_mysql_close(struct retirer_mysql *retirer)
{
    db_close(retirer->db);
    retirer->db = NULL;
    buf_done(&retirer->sql);
    buf_done(&retirer->options);
}

struct retirer_seam retirer_mysql_seam(struct retirer_mysql *retirer)
{
    return (struct retirer_seam){
        .ctx = retirer,
        .delete_ranges = retirer_delete,
        .move_rows = retirer_move,
        .load_keys = retirer_load_keys,
        .keys_left = retirer_keys_left,
    };
}
