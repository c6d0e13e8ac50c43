/* SPDX-License-Identifier: MIT */
#include "outbox/lanes_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/lease/lease_ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writers that read the row queue behind this lock request and wait as long. */
#define LOCK_WAIT_S "1"

#define READ "SELECT lane_count, next_count, version FROM outbox_lanes WHERE id = 1"

struct row_query {
    struct lanes *lanes;
    bool found;
};

static enum rc take_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct row_query *query = ctx;

    (void)err;
    query->lanes->count = db_column_i64(row, 0);
    query->lanes->next = db_column_i64(row, 1);
    query->lanes->version = db_column_i64(row, 2);
    query->found = true;
    return RC_OK;
}

static enum rc read_row(struct db *db, const char *sql, struct lanes *lanes, struct err *err)
{
    struct row_query query = {lanes, false};
    enum rc rc = db_query(db, sql, strlen(sql), take_row, &query, err);

    if (rc == RC_OK && !query.found)
        return err_fail(err, RC_FATAL, 0,
                        "the row of outbox_lanes is missing: INSERT INTO outbox_lanes (id, "
                        "lane_count, next_count, version, changed_at) VALUES (1, N, 0, 1, "
                        "UTC_TIMESTAMP(3)), with N = api.lane_count of the writers");
    return rc;
}

enum rc lanes_read(struct db *db, struct lanes *lanes, struct err *err)
{
    return read_row(db, READ, lanes, err);
}

enum rc lanes_lock(struct db *db, struct lanes *lanes, struct err *err)
{
    return read_row(db, READ " LOCK IN SHARE MODE", lanes, err);
}

static enum rc mark_served(void *ctx, const struct db_row *row, struct err *err)
{
    bool *served = ctx;

    (void)err;
    for (size_t i = 0; i < LANES_MAX; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];

        outbox_lane_name(name, i);
        if (row->columns[0] && strcmp(row->columns[0], name) == 0)
            served[i] = true;
    }
    return RC_OK;
}

enum rc lanes_served(struct db *db, int64_t grace_ms, bool served[LANES_MAX], struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    memset(served, 0, LANES_MAX * sizeof(*served));
    buf_print(&sql,
              "SELECT lane FROM relay_lease WHERE lane LIKE 'outbox%%' AND lease_until > "
              "UTC_TIMESTAMP(3) - INTERVAL %" PRId64
              " MICROSECOND AND (lease_ms = 0 OR lease_until <= UTC_TIMESTAMP(3) + INTERVAL "
              "lease_ms * %d MICROSECOND) LIMIT 10000",
              grace_ms * 1000, LEASE_LENGTHS_MAX * 1000);
    rc = db_query_buf(db, &sql, mark_served, served, err);
    buf_done(&sql);
    return rc;
}

static enum rc run_statement(struct db *db, struct buf *sql, uint64_t *affected, struct err *err)
{
    enum rc rc = db_exec_buf(db, sql, affected, err);

    buf_done(sql);
    return rc;
}

enum rc lanes_begin(struct db *db, int64_t next, struct lanes *lanes, struct err *err)
{
    struct buf sql = {0};
    enum rc rc = db_run(db, "SET SESSION innodb_lock_wait_timeout = " LOCK_WAIT_S, err);

    if (rc == RC_OK)
        rc = db_begin(db, err);
    if (rc == RC_OK)
        rc = read_row(db, READ " FOR UPDATE", lanes, err);
    if (rc == RC_OK && lanes->next != next) {
        buf_print(&sql,
                  "UPDATE outbox_lanes SET next_count = %" PRId64
                  ", version = version + 1, changed_at = UTC_TIMESTAMP(3) WHERE id = 1",
                  next);
        rc = run_statement(db, &sql, NULL, err);
        lanes->next = next;
        lanes->version++;
    }
    if (rc == RC_OK)
        return db_commit(db, err);
    db_rollback(db);
    return rc;
}

enum rc lanes_fail_replaced(const struct lanes *now, struct err *err)
{
    if (now->next == 0)
        return err_fail(err, RC_REJECT, 0,
                        "another `tallybox lanes set` replaced this change: the number of lanes is "
                        "%" PRId64,
                        now->count);
    return err_fail(
        err, RC_REJECT, 0,
        "another `tallybox lanes set` replaced this change: the number of lanes is %" PRId64
        ", and a change to %" PRId64 " is under way",
        now->count, now->next);
}

enum rc lanes_finish(struct db *db, const struct lanes *change, struct err *err)
{
    struct lanes now;
    struct buf sql = {0};
    uint64_t affected = 0;
    enum rc rc;

    buf_print(
        &sql,
        "UPDATE outbox_lanes SET lane_count = next_count, next_count = 0, version = version + "
        "1, changed_at = UTC_TIMESTAMP(3) WHERE id = 1 AND next_count = %" PRId64
        " AND version = %" PRId64,
        change->next, change->version);
    rc = run_statement(db, &sql, &affected, err);
    if (rc != RC_OK || affected == 1)
        return rc;
    rc = lanes_read(db, &now, err);
    if (rc != RC_OK || (now.count == change->next && now.next == 0))
        return rc;
    return lanes_fail_replaced(&now, err);
}

enum rc lanes_undo(struct db *db, const struct lanes *change, struct lanes *now, struct err *err)
{
    struct buf sql = {0};
    uint64_t affected = 0;
    enum rc rc;

    buf_print(&sql,
              "UPDATE outbox_lanes SET next_count = 0, version = version + 1, changed_at = "
              "UTC_TIMESTAMP(3) WHERE id = 1 AND next_count = %" PRId64 " AND version = %" PRId64,
              change->next, change->version);
    rc = run_statement(db, &sql, &affected, err);
    if (rc != RC_OK)
        return rc;
    if (affected == 0)
        return lanes_read(db, now, err);
    *now = (struct lanes){.count = change->count, .version = change->version + 1};
    return RC_OK;
}

enum rc lanes_make_table(struct db *db, size_t lane, bool *made, struct err *err)
{
    char name[OUTBOX_LANE_NAME_SIZE];
    struct buf sql = {0};
    int64_t exists = 0;
    enum rc rc = db_connect(db, err);

    *made = false;
    if (rc != RC_OK)
        return rc;
    outbox_lane_name(name, lane);
    buf_text_put(&sql, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = "
                       "DATABASE() AND table_name = ");
    db_put_text(db, &sql, name, strlen(name));
    rc = db_number(db, buf_text(&sql), &exists, NULL, err);
    buf_reset(&sql);
    if (rc == RC_OK && exists == 0) {
        buf_text_put(&sql, "CREATE TABLE IF NOT EXISTS ");
        db_put_name(&sql, name);
        buf_text_put(&sql, " LIKE outbox");
        rc = db_run(db, buf_text(&sql), err);
        *made = rc == RC_OK;
        if (rc == RC_FATAL || rc == RC_REJECT)
            err_wrap(err, "the table %s is missing and this account cannot create it; run `%s`",
                     name, buf_text(&sql));
    }
    buf_done(&sql);
    return rc;
}

/* Appends the count of the lane's tasks. Their class is handler, group, scene and origin as the
 * relay stores them, separated by zero bytes. The index that begins with the state finds them
 * without reading other tasks. */
static void put_task_count(struct db *db, struct buf *sql, const char *lane)
{
    static const char handler[] = "kafka";
    static const char scene[] = "\0publish\0relay"; /* and the origin */
    struct buf class = {0};

    buf_put(&class, handler, sizeof(handler));
    buf_text_put(&class, lane);
    buf_put(&class, scene, sizeof(scene) - 1);
    buf_text_put(sql, "SELECT COUNT(*) FROM (");
    for (int state = 0; state <= 4; state++) {
        buf_text_put(sql, state > 0 ? " UNION ALL " : "");
        buf_print(sql,
                  "(SELECT id FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE state = %d AND "
                  "class >= CONCAT(",
                  state);
        db_put_bytes(db, sql, class.data, class.len);
        buf_text_put(sql, ", 0x00) AND class < CONCAT(");
        db_put_bytes(db, sql, class.data, class.len);
        buf_print(sql, ", 0x01) LIMIT %d)", LANES_LEFT_MAX);
    }
    buf_text_put(sql, ") tasks");
    sql->failed |= class.failed;
    buf_done(&class);
}

/* Invariant: rows are counted before tasks. The diverter moves a row into the retry queue in one
 * transaction, so in this order a moving row is counted at least once. */
enum rc lanes_left(struct db *db, size_t lane, struct lanes_left *left, struct err *err)
{
    char name[OUTBOX_LANE_NAME_SIZE];
    struct buf sql = {0};
    enum rc rc;

    memset(left, 0, sizeof(*left));
    outbox_lane_name(name, lane);
    buf_text_put(&sql, "SELECT COUNT(*) FROM (SELECT seq FROM ");
    db_put_name(&sql, name);
    buf_print(&sql, " LIMIT %d) waiting", LANES_LEFT_MAX);
    rc = db_number(db, buf_text(&sql), &left->rows, NULL, err);
    buf_reset(&sql);
    if (rc == RC_OK)
        rc = db_connect(db, err);
    if (rc == RC_OK) {
        put_task_count(db, &sql, name);
        rc = db_number(db, buf_text(&sql), &left->tasks, NULL, err);
    }
    buf_done(&sql);
    return rc;
}
