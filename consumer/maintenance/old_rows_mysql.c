/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/old_rows_mysql.h"

#include "common/config/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A dead record may have megabytes, and the server writes all of it to its logs when it is
 * deleted. */
#define DEAD_ROWS_MAX 100
#define PROGRESS_ROWS_MAX 100
/* The params of a task may be as large. An attempt has one sentence. */
#define TASK_ROWS_MAX 100
#define ATTEMPT_ROWS_MAX 1000
/* With an IN list of 1000 values MariaDB makes a temporary table and locks in no order. */
#define CHANGE_ROWS_MAX 500

struct table {
    const char *name;
    const char *key;
    const char *time; /* the column that tells the age of a row */
};

static const struct table tables[] = {
    [HOUSEKEEP_INSTANCES] = {"instance", "name, role", "seen_at"},
    [HOUSEKEEP_PROGRESS] = {"consumer_progress", "consumer_group, topic, partition_id",
                            "updated_at"},
    [HOUSEKEEP_DEAD] = {"dead_record", "id", "created_at"},
    [HOUSEKEEP_HISTORY] = {"dead_history", "id", "decided_at"},
    [HOUSEKEEP_TASKS] = {"retry_task_history", "id", "ended_at"},
    [HOUSEKEEP_ATTEMPTS] = {"retry_attempt", "id", "attempted_at"},
    [HOUSEKEEP_AUDIT] = {"retry_audit", "id", "acted_at"},
    [HOUSEKEEP_CHANGES] = {"recommended_change", "item_id", "changed_at"},
    [HOUSEKEEP_EXPIRED_REMARKS] = {"remark FORCE INDEX (ix_remark_removal)", "deleted_at",
                                   "deleted_at"},
    [HOUSEKEEP_EXPIRED_CONTENTS] = {"deleted_content FORCE INDEX (ix_deleted_content_removal)",
                                    "deleted_at", "deleted_at"},
};

static void put_text(const struct old_rows *rows, const char *text)
{
    db_put_text(rows->db, rows->sql, text, strlen(text));
}

/* The progress of the configured group and topics is not deleted: a topic may be silent for
 * long. */
static void put_not_configured(const struct old_rows *rows)
{
    char topics[SETTING_LIST_SIZE];
    char *rest = NULL;
    const char *before = " AND topic IN (";

    snprintf(topics, sizeof(topics), "%s", rows->topics);
    buf_text_put(rows->sql, " AND NOT (consumer_group = ");
    put_text(rows, rows->group);
    for (char *topic = strtok_r(topics, ", ", &rest); topic; topic = strtok_r(NULL, ", ", &rest)) {
        buf_text_put(rows->sql, before);
        put_text(rows, topic);
        before = ", ";
    }
    buf_text_put(rows->sql, "))");
}

static void put_old(const struct old_rows *rows, enum housekeep_kind kind, int64_t days)
{
    buf_print(rows->sql, "%s < UTC_TIMESTAMP(3) - INTERVAL %" PRId64 " DAY", tables[kind].time,
              days);
    if (kind == HOUSEKEEP_PROGRESS)
        put_not_configured(rows);
    if (kind == HOUSEKEEP_EXPIRED_REMARKS || kind == HOUSEKEEP_EXPIRED_CONTENTS)
        buf_text_put(rows->sql, " AND remove_after IS NULL");
    if (kind == HOUSEKEEP_EXPIRED_CONTENTS)
        buf_text_put(rows->sql, " AND closed_at IS NULL");
}

/* Selects by age, oldest first, on the index of the time. Excludes the history of a task that still
 * has a row in retry_task or whose idempotency key is still refused, and the attempts at a task
 * that exists or is in the history. The joins read primary keys; with NOT EXISTS MariaDB may read
 * the whole table first. */
static void put_select_tasks(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                             uint64_t max)
{
    bool tasks = kind == HOUSEKEEP_TASKS;

    buf_text_put(rows->sql, tasks ? "SELECT o.id FROM retry_task_history o "
                                    "FORCE INDEX (ix_retry_task_history_ended) "
                                    "LEFT JOIN retry_task t ON t.id = o.id"
                                  : "SELECT o.id FROM retry_attempt o "
                                    "FORCE INDEX (ix_retry_attempt_at) "
                                    "LEFT JOIN retry_task t ON t.id = o.task_id "
                                    "LEFT JOIN retry_task_history h ON h.id = o.task_id");
    buf_text_put(rows->sql, " WHERE o.");
    put_old(rows, kind, days);
    buf_print(rows->sql, " AND t.id IS NULL%s ORDER BY o.%s LIMIT %" PRIu64,
              tasks ? " AND COALESCE(o.dedup_until <= UTC_TIMESTAMP(3), TRUE)"
                    : " AND h.id IS NULL",
              tables[kind].time, max);
}

static void put_select(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                       uint64_t max)
{
    const struct table *table = &tables[kind];

    if (kind == HOUSEKEEP_TASKS || kind == HOUSEKEEP_ATTEMPTS) {
        put_select_tasks(rows, kind, days, max);
        return;
    }
    buf_print(rows->sql, "SELECT %s FROM %s WHERE ", table->key, table->name);
    put_old(rows, kind, days);
    buf_print(rows->sql, " ORDER BY %s LIMIT %" PRIu64, table->key, max);
}

static enum rc run_sql(const struct old_rows *rows, uint64_t *count, struct err *err)
{
    return db_exec_buf(rows->db, rows->sql, count, err);
}

struct delete_work {
    const struct old_rows *rows;
    int64_t days;
    uint64_t count;
};

/* Deletes by key: a scan would lock the rows of all partitions while batches are applied. */
static enum rc progress_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct delete_work *work = ctx;
    const struct old_rows *rows = work->rows;
    uint64_t affected = 0;
    enum rc rc;

    buf_reset(rows->sql);
    buf_text_put(rows->sql, "DELETE FROM consumer_progress WHERE consumer_group = ");
    put_text(rows, row->columns[0]);
    buf_text_put(rows->sql, " AND topic = ");
    put_text(rows, row->columns[1]);
    buf_print(rows->sql, " AND partition_id = %" PRId64 " AND ", db_column_i64(row, 2));
    put_old(rows, HOUSEKEEP_PROGRESS, work->days);
    rc = run_sql(rows, &affected, err);
    work->count += affected;
    return rc;
}

static enum rc delete_progress(const struct old_rows *rows, int64_t days, uint64_t *count,
                               struct err *err)
{
    struct delete_work work = {.rows = rows, .days = days};
    enum rc rc;

    buf_reset(rows->sql);
    put_select(rows, HOUSEKEEP_PROGRESS, days, PROGRESS_ROWS_MAX);
    rc = db_query_buf(rows->db, rows->sql, progress_on_row, &work, err);
    *count = work.count;
    return rc;
}

/* Ids grow with time, so the old records come first. */
static enum rc delete_dead(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                           uint64_t *count, struct err *err)
{
    int64_t last_id = 0;
    bool found = false;
    enum rc rc;

    buf_reset(rows->sql);
    buf_text_put(rows->sql, "SELECT MAX(id) FROM (");
    put_select(rows, kind, days, DEAD_ROWS_MAX);
    buf_text_put(rows->sql, ") some");
    if (rows->sql->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_number(rows->db, buf_text(rows->sql), &last_id, &found, err);
    if (rc != RC_OK || !found)
        return rc;
    buf_reset(rows->sql);
    buf_print(rows->sql, "DELETE FROM %s WHERE id <= %" PRId64 " AND ", tables[kind].name, last_id);
    put_old(rows, kind, days);
    return run_sql(rows, count, err);
}

static enum rc id_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct buf *ids = ctx;

    (void)err;
    if (ids->len > 0)
        buf_char(ids, ',');
    buf_i64(ids, db_column_i64(row, 0));
    return RC_OK;
}

/* Selects without locks and deletes by primary key, so that processes that end tasks do not
 * wait. */
static enum rc delete_tasks(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                            size_t rows_max, uint64_t *count, struct err *err)
{
    size_t max = kind == HOUSEKEEP_TASKS ? TASK_ROWS_MAX : ATTEMPT_ROWS_MAX;
    struct buf ids = {0};
    enum rc rc;

    buf_reset(rows->sql);
    put_select(rows, kind, days, rows_max < max ? rows_max : max);
    rc = db_query_buf(rows->db, rows->sql, id_on_row, &ids, err);
    if (rc == RC_OK && ids.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for a statement");
    if (rc == RC_OK && ids.len > 0) {
        buf_reset(rows->sql);
        buf_print(rows->sql, "DELETE FROM %s WHERE id IN (%s)", tables[kind].name, buf_text(&ids));
        rc = run_sql(rows, count, err);
    }
    buf_done(&ids);
    return rc;
}

static enum rc delete_instances(const struct old_rows *rows, int64_t days, size_t rows_max,
                                uint64_t *count, struct err *err)
{
    buf_reset(rows->sql);
    buf_text_put(rows->sql, "DELETE FROM instance WHERE ");
    put_old(rows, HOUSEKEEP_INSTANCES, days);
    buf_print(rows->sql, " ORDER BY name, role LIMIT %zu", rows_max);
    return run_sql(rows, count, err);
}

/* Selects without locks, oldest first, and deletes by primary key in its order: a process of serve
 * that announces the same items locks them in that order, too. An item that was announced since it
 * was selected stays. */
static enum rc delete_changes(const struct old_rows *rows, int64_t days, size_t rows_max,
                              uint64_t *count, struct err *err)
{
    struct buf ids = {0};
    enum rc rc;

    buf_reset(rows->sql);
    buf_text_put(rows->sql, "SELECT item_id FROM (SELECT item_id FROM recommended_change "
                            "FORCE INDEX (ix_recommended_change_at) WHERE ");
    put_old(rows, HOUSEKEEP_CHANGES, days);
    buf_print(rows->sql, " ORDER BY changed_at LIMIT %zu) old ORDER BY item_id",
              rows_max < CHANGE_ROWS_MAX ? rows_max : CHANGE_ROWS_MAX);
    rc = db_query_buf(rows->db, rows->sql, id_on_row, &ids, err);
    if (rc == RC_OK && ids.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for a statement");
    if (rc == RC_OK && ids.len > 0) {
        buf_reset(rows->sql);
        buf_text_put(rows->sql, "DELETE FROM recommended_change WHERE item_id IN (");
        buf_text_put(rows->sql, buf_text(&ids));
        buf_text_put(rows->sql, ") AND ");
        put_old(rows, HOUSEKEEP_CHANGES, days);
        rc = run_sql(rows, count, err);
    }
    buf_done(&ids);
    return rc;
}

/* The rows are a range of the index. A mark that another process or an application has set stays:
 * a repetition marks other rows or none. */
static enum rc mark_expired(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                            size_t rows_max, uint64_t *count, struct err *err)
{
    buf_reset(rows->sql);
    buf_text_put(rows->sql, "UPDATE ");
    buf_text_put(rows->sql, tables[kind].name);
    buf_text_put(rows->sql, " SET remove_after = UTC_TIMESTAMP(3), removal_at = UTC_TIMESTAMP(3) "
                            "WHERE ");
    put_old(rows, kind, days);
    buf_print(rows->sql, " ORDER BY deleted_at LIMIT %zu", rows_max);
    return run_sql(rows, count, err);
}

enum rc old_rows_delete(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                        size_t rows_max, uint64_t *count, struct err *err)
{
    *count = 0;
    switch (kind) {
    case HOUSEKEEP_INSTANCES:
        return delete_instances(rows, days, rows_max, count, err);
    case HOUSEKEEP_PROGRESS:
        return delete_progress(rows, days, count, err);
    case HOUSEKEEP_DEAD:
    case HOUSEKEEP_HISTORY:
    case HOUSEKEEP_AUDIT:
        return delete_dead(rows, kind, days, count, err);
    case HOUSEKEEP_TASKS:
    case HOUSEKEEP_ATTEMPTS:
        return delete_tasks(rows, kind, days, rows_max, count, err);
    case HOUSEKEEP_CHANGES:
        return delete_changes(rows, days, rows_max, count, err);
    case HOUSEKEEP_EXPIRED_REMARKS:
    case HOUSEKEEP_EXPIRED_CONTENTS:
        return mark_expired(rows, kind, days, rows_max, count, err);
    case HOUSEKEEP_KINDS:
        break;
    }
    abort();
}

enum rc old_rows_count(const struct old_rows *rows, enum housekeep_kind kind, int64_t days,
                       uint64_t max, uint64_t *count, struct err *err)
{
    int64_t number = 0;
    enum rc rc;

    buf_reset(rows->sql);
    buf_text_put(rows->sql, "SELECT COUNT(*) FROM (");
    put_select(rows, kind, days, max);
    buf_text_put(rows->sql, ") some");
    if (rows->sql->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_number(rows->db, buf_text(rows->sql), &number, NULL, err);
    *count = (uint64_t)number;
    return rc;
}
