/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/lane_hold_mysql.h"

#include "common/os.h"
#include "outbox/lease/lease_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A relay is asked for so long, and how often the command looks. A relay sees it within two seconds
 * (leases.c). */
#define ASK_S 10
#define ASK_POLL_MS 100

/* It is renewed after this part of its length. */
#define RENEW_PART 4

struct holder {
    char owner[LEASE_OWNER_SIZE];
    int64_t epoch;
    int64_t left_ms;
};

static void put_text(struct lane_hold *hold, struct buf *sql, const char *text)
{
    db_put_text(hold->db, sql, text, strlen(text));
}

static enum rc run_sql(struct lane_hold *hold, struct buf *sql, struct err *err)
{
    enum rc rc = db_exec_buf(hold->db, sql, NULL, err);

    buf_reset(sql);
    return rc;
}

static enum rc take_holder(void *ctx, const struct db_row *row, struct err *err)
{
    struct holder *holder = ctx;

    (void)err;
    snprintf(holder->owner, sizeof(holder->owner), "%s", row->columns[0] ? row->columns[0] : "");
    holder->epoch = db_column_i64(row, 1);
    holder->left_ms = db_column_i64(row, 2);
    return RC_OK;
}

static void put_lease_end(struct buf *sql, int64_t lease_ms)
{
    buf_print(sql, "lease_until = UTC_TIMESTAMP(3) + INTERVAL %" PRId64 " MICROSECOND",
              lease_ms * 1000);
}

/* Locks the row until the COMMIT. */
static enum rc check_free(struct lane_hold *hold, struct buf *sql, struct err *err)
{
    struct holder holder = {0};
    enum rc rc;

    buf_text_put(sql, "SELECT owner, epoch, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), "
                      "lease_until) DIV 1000 FROM relay_lease WHERE lane = ");
    put_text(hold, sql, hold->table);
    buf_text_put(sql, " FOR UPDATE");
    rc = db_query_buf(hold->db, sql, take_holder, &holder, err);
    buf_reset(sql);
    hold->epoch = holder.epoch + 1;
    if (rc != RC_OK || !holder.owner[0] || holder.left_ms < 0)
        return rc;
    return err_fail(err, RC_REJECT, 0,
                    "relay %s holds the lane, for %" PRId64 " ms from now, and has not released it "
                    "yet: wait longer with --wait, or stop the relay",
                    holder.owner, holder.left_ms);
}

static enum rc write_lease(struct lane_hold *hold, struct buf *sql, struct err *err)
{
    enum rc rc = db_begin(hold->db, err);

    if (rc != RC_OK)
        return rc;
    rc = check_free(hold, sql, err);
    buf_reset(sql);
    buf_text_put(sql, "UPDATE relay_lease SET owner = ");
    put_text(hold, sql, hold->owner);
    buf_print(sql,
              ", epoch = %" PRId64 ", lease_ms = %" PRId64 ", diverted_keys = 0, "
              "diverted_reason = '', wanted_until = NULL, ",
              hold->epoch, hold->lease_ms);
    put_lease_end(sql, hold->lease_ms);
    buf_text_put(sql, " WHERE lane = ");
    put_text(hold, sql, hold->table);
    if (rc == RC_OK)
        rc = run_sql(hold, sql, err);
    if (rc == RC_OK)
        return db_commit(hold->db, err);
    buf_reset(sql);
    db_rollback(hold->db);
    return rc;
}

/* The name of a lock has at most 64 characters and is valid in all databases of the server. */
static void put_lock_name(struct lane_hold *hold, struct buf *sql)
{
    buf_text_put(sql, "CONCAT('tallybox/', LEFT(SHA2(CONCAT(DATABASE(), '/', ");
    put_text(hold, sql, hold->table);
    buf_text_put(sql, "), 256), 40))");
}

enum rc lane_hold_take_lock(struct lane_hold *hold, struct db *db, const char *table,
                            int64_t lease_ms, int64_t now_ms, struct err *err)
{
    struct buf sql = {0};
    int64_t got = 0;
    enum rc rc = db_connect(db, err);

    memset(hold, 0, sizeof(*hold));
    hold->db = db;
    hold->table = table;
    hold->lease_ms = lease_ms;
    hold->renewed_ms = now_ms;
    buf_text_put(&sql, "SELECT GET_LOCK(");
    put_lock_name(hold, &sql);
    buf_text_put(&sql, ", 0)");
    if (rc == RC_OK)
        rc = db_number(db, buf_text(&sql), &got, NULL, err);
    buf_done(&sql);
    hold->session = db_session(db);
    if (rc == RC_OK && got != 1)
        rc = err_fail(
            err, RC_REJECT, 0,
            "another command publishes rows of table %s, or changes the source of its lane", table);
    if (rc != RC_OK)
        hold->table = NULL;
    return rc;
}

/* A killed command asks no more after ASK_S. */
static enum rc ask_for_lease(struct lane_hold *hold, struct buf *sql, bool asks, struct err *err)
{
    if (asks)
        buf_print(sql,
                  "UPDATE relay_lease SET wanted_until = UTC_TIMESTAMP(3) + INTERVAL %d SECOND "
                  "WHERE lane = ",
                  ASK_S);
    else
        buf_text_put(sql, "UPDATE relay_lease SET wanted_until = NULL WHERE lane = ");
    put_text(hold, sql, hold->table);
    return run_sql(hold, sql, err);
}

static enum rc wait_for_lease(struct lane_hold *hold, struct buf *sql,
                              const struct lane_hold_wait *wait, struct err *err)
{
    for (;;) {
        struct err why = {0};
        enum rc rc = ask_for_lease(hold, sql, true, err);

        if (rc != RC_OK)
            return rc;
        hold->renewed_ms = os_now_ms();
        rc = write_lease(hold, sql, &why);
        if (rc == RC_OK)
            return RC_OK;
        if (rc == RC_REJECT && os_now_ms() < wait->until_ms) {
            if (!stop_wait(wait->stop, ASK_POLL_MS))
                continue;
            rc = err_fail(&why, RC_RETRY, 0, "ended by a signal");
        }
        ask_for_lease(hold, sql, false, NULL);
        if (err)
            *err = why;
        return rc;
    }
}

/* After a failure the lock ends with the session. */
enum rc lane_hold_take_lease(struct lane_hold *hold, struct db *db, const char *table,
                             int64_t lease_ms, const struct lane_hold_wait *wait, struct err *err)
{
    struct buf sql = {0};
    enum rc rc = lane_hold_take_lock(hold, db, table, lease_ms, os_now_ms(), err);

    if (rc != RC_OK)
        return rc;
    snprintf(hold->owner, sizeof(hold->owner), "command-%ld-%016" PRIx64, os_pid(),
             os_random_u64());
    buf_text_put(&sql, "INSERT IGNORE INTO relay_lease (lane, owner, epoch, lease_until) VALUES (");
    put_text(hold, &sql, table);
    buf_text_put(&sql, ", '', 0, UTC_TIMESTAMP(3))");
    rc = run_sql(hold, &sql, err);
    if (rc == RC_OK)
        rc = wait_for_lease(hold, &sql, wait, err);
    buf_done(&sql);
    if (rc != RC_OK) {
        db_disconnect(db);
        hold->table = NULL;
    }
    return rc;
}

enum rc lane_hold_set_source(struct lane_hold *hold, const char *source, struct err *err)
{
    struct buf sql = {0};
    bool fenced = false;
    enum rc rc;

    buf_text_put(&sql, "UPDATE relay_lease SET source = ");
    put_text(hold, &sql, source);
    buf_text_put(&sql, " WHERE lane = ");
    put_text(hold, &sql, hold->table);
    buf_text_put(&sql, " AND owner = ");
    put_text(hold, &sql, hold->owner);
    buf_print(&sql, " AND epoch = %" PRId64, hold->epoch);
    rc = run_sql(hold, &sql, err);
    if (rc == RC_OK)
        rc = lease_mysql_check(hold->db, &sql, hold->table, hold->owner, hold->epoch, false,
                               &fenced, err);
    buf_done(&sql);
    if (rc == RC_OK && fenced)
        return err_fail(err, RC_RETRY, 0, "a relay has taken the lane meanwhile");
    return rc;
}

static enum rc renew_lease(struct lane_hold *hold, struct buf *sql, struct err *err)
{
    bool fenced = false;
    enum rc rc;

    buf_text_put(sql, "UPDATE relay_lease SET ");
    put_lease_end(sql, hold->lease_ms);
    buf_text_put(sql, " WHERE lane = ");
    put_text(hold, sql, hold->table);
    buf_text_put(sql, " AND owner = ");
    put_text(hold, sql, hold->owner);
    buf_print(sql, " AND epoch = %" PRId64, hold->epoch);
    rc = run_sql(hold, sql, err);
    if (rc == RC_OK)
        rc = lease_mysql_check(hold->db, sql, hold->table, hold->owner, hold->epoch, false, &fenced,
                               err);
    if (rc == RC_OK && fenced)
        return err_fail(err, RC_RETRY, 0, "a relay has taken the lane meanwhile");
    return rc;
}

/* Any statement shows whether the session is still there. */
static enum rc check_lock(struct lane_hold *hold, struct err *err)
{
    enum rc rc = db_run(hold->db, "DO 0", err);

    /* A statement connects again, and its session has no lock. */
    if (rc == RC_OK && db_session(hold->db) != hold->session)
        return err_fail(err, RC_RETRY, 0,
                        "the connection was lost, and with it the lock that "
                        "keeps a second command from publishing the same rows");
    return rc;
}

void lane_hold_use_lease(struct lane_hold *hold, const char *owner, int64_t epoch,
                         bool (*is_held)(void *ctx), void *ctx)
{
    snprintf(hold->owner, sizeof(hold->owner), "%s", owner);
    hold->epoch = epoch;
    hold->is_held = is_held;
    hold->ctx = ctx;
}

enum rc lane_hold_keep(struct lane_hold *hold, int64_t now_ms, struct err *err)
{
    bool renews = hold->epoch != 0 && !hold->is_held;
    struct buf sql = {0};
    enum rc rc;

    if (hold->is_held && !hold->is_held(hold->ctx))
        return err_fail(err, RC_RETRY, 0, "the lease of the lane was lost");
    if (now_ms - hold->renewed_ms < hold->lease_ms / RENEW_PART)
        return RC_OK;
    /* Another relay may have taken it and lost it again. */
    if (renews && now_ms - hold->renewed_ms > hold->lease_ms)
        return err_fail(err, RC_RETRY, 0, "the lease of the lane was not renewed in time");
    rc = check_lock(hold, err);
    if (rc == RC_OK && renews)
        rc = renew_lease(hold, &sql, err);
    buf_done(&sql);
    if (rc == RC_OK)
        hold->renewed_ms = now_ms;
    return rc;
}

void lane_hold_release(struct lane_hold *hold)
{
    struct buf sql = {0};

    if (!hold->table)
        return;
    if (hold->epoch != 0 && !hold->is_held && db_connect(hold->db, NULL) == RC_OK) {
        buf_text_put(&sql, "UPDATE relay_lease SET owner = '' WHERE lane = ");
        put_text(hold, &sql, hold->table);
        buf_text_put(&sql, " AND owner = ");
        put_text(hold, &sql, hold->owner);
        run_sql(hold, &sql, NULL);
    }
    buf_done(&sql);
    db_disconnect(hold->db);
    hold->table = NULL;
}
