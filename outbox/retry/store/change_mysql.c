/* SPDX-License-Identifier: MIT */
#include "outbox/retry/change.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/retry/store/audit_mysql.h"
#include "outbox/retry/store/scene_mysql.h"

#include <inttypes.h>
#include <string.h>

/* A number as text, for constants of SQL. */
#define TEXT_OF(number) TEXT(number)
#define TEXT(number) #number

static enum rc begin_audit(struct db *db, struct retry_change *change, struct err *err)
{
    struct buf what = {0};
    struct audit_entry entry = {
        .by = change->by,
        .via = change->via,
        .action = retry_change_name(change->kind),
        .group = change->group,
        .scene = change->scene,
        .why = change->why,
    };
    enum rc rc;

    if (change->audit_id != 0)
        return RC_OK;
    retry_change_describe(change, &what);
    entry.what = buf_text(&what);
    rc = audit_mysql_begin(db, &entry, &change->audit_id, err);
    if (rc != RC_OK)
        err_wrap(err, "the audit cannot be written, nothing was changed");
    buf_done(&what);
    return rc;
}

static enum rc change_scene(struct db *db, const struct retry_change *change,
                            struct retry_changed *result, struct err *err)
{
    const struct scene_target target = {
        .group = change->group,
        .scene = change->scene,
        .audit_id = change->audit_id,
        .based_on = change->has_version ? &change->version : NULL,
    };
    struct scene_outcome outcome = {.changed = false};
    enum rc rc =
        change->kind == CHANGE_SCENE_SET
            ? scene_mysql_set(db, &target, change->policy, change->options, &outcome, err)
            : scene_mysql_pause(db, &target, change->kind == CHANGE_SCENE_PAUSE, &outcome, err);

    *result = (struct retry_changed){outcome.changed, outcome.outdated, outcome.version};
    return rc;
}

static enum rc read_group_version(struct db *db, const char *name, int64_t *version,
                                  struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    *version = 0;
    buf_text_put(&sql, "SELECT version FROM retry_group WHERE name = ");
    db_put_text(db, &sql, name, strlen(name));
    buf_text_put(&sql, " FOR UPDATE");
    rc = sql.failed ? err_fail(err, RC_FATAL, 0, "no memory to read a group")
                    : db_number(db, buf_text(&sql), version, NULL, err);
    buf_done(&sql);
    return rc;
}

static enum rc write_group(struct db *db, const struct retry_change *change, bool *changed,
                           struct err *err)
{
    if (change->kind == CHANGE_GROUP_SET)
        return retry_group_set(db, change->group, &change->values, changed, err);
    return retry_group_enable(db, change->group, change->kind == CHANGE_GROUP_ENABLE, changed, err);
}

/* In a transaction. A change that is based on another version is undone by the caller, unless the
 * row was so already: its answer may have been lost. */
static enum rc change_group(struct db *db, const struct retry_change *change,
                            struct retry_changed *result, struct err *err)
{
    bool changed = false;
    enum rc rc = write_group(db, change, &changed, err);

    if (rc == RC_OK)
        rc = read_group_version(db, change->group, &result->version, err);
    if (rc != RC_OK || !changed)
        return rc;
    /* Read after the change: before it, another change might have come in between. */
    result->outdated = change->has_version && change->version != result->version - 1;
    result->changed = !result->outdated;
    if (result->changed)
        return audit_mysql_add(db, change->audit_id, 1, err);
    result->version--;
    return RC_OK;
}

static enum rc change_group_at_once(struct db *db, const struct retry_change *change,
                                    struct retry_changed *result, struct err *err)
{
    enum rc rc = db_begin(db, err);

    if (rc == RC_OK)
        rc = change_group(db, change, result, err);
    if (rc == RC_OK && result->changed)
        return db_commit(db, err);
    db_rollback(db);
    return rc;
}

enum rc retry_change_make(struct db *db, struct retry_change *change, struct retry_changed *result,
                          struct err *err)
{
    enum rc rc = begin_audit(db, change, err);

    *result = (struct retry_changed){.changed = false};
    if (rc != RC_OK)
        return rc;
    rc = change->scene ? change_scene(db, change, result, err)
                       : change_group_at_once(db, change, result, err);
    /* A change counts itself; for a refused or needless one the row says 0. */
    if (rc == RC_REJECT || (rc == RC_OK && !result->changed))
        audit_mysql_add(db, change->audit_id, 0, NULL);
    return rc;
}

struct view_query {
    retry_on_scene_view on_scene;
    void *ctx;
};

static enum rc view_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct view_query *query = ctx;
    struct err fault = {0};
    struct retry_scene_view view = {
        .group = row->columns[0],
        .scene = row->columns[1],
        .policy = row->columns[2],
        .options = row->columns[3],
        .paused = db_column_i64(row, 4) != 0,
        .version = db_column_i64(row, 5),
        .fault = fault.text,
    };

    retry_scene_find_fault(view.policy, view.options, &fault);
    return query->on_scene(query->ctx, &view, err);
}

static void put_condition(struct db *db, struct buf *sql, const char *words, const char *name)
{
    if (!name)
        return;
    buf_text_put(sql, words);
    db_put_text(db, sql, name, strlen(name));
}

enum rc retry_scenes_find(struct db *db, const struct retry_scene_filter *filter, size_t rows_max,
                          retry_on_scene_view on_scene, void *ctx, struct err *err)
{
    struct view_query query = {on_scene, ctx};
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(&sql, "SELECT RTRIM(task_group), RTRIM(scene), policy, options, paused, version "
                       "FROM retry_scene FORCE INDEX (PRIMARY) WHERE 1");
    put_condition(db, &sql, " AND task_group = ", filter->group);
    put_condition(db, &sql, " AND scene = ", filter->scene);
    if (filter->after_group) {
        put_condition(db, &sql, " AND task_group >= ", filter->after_group);
        put_condition(db, &sql, " AND (task_group > ", filter->after_group);
        put_condition(db, &sql, " OR scene > ", filter->after_scene);
        buf_char(&sql, ')');
    }
    buf_print(&sql, " ORDER BY task_group, scene LIMIT %zu", rows_max);
    rc = db_query_buf(db, &sql, view_on_row, &query, err);
    buf_done(&sql);
    return rc;
}

/* The states as retry_task.age_state has them. */
static const int counted[] = {TASK_RUNNING, TASK_QUEUED, TASK_BLOCKED, TASK_PARKED};

#define COUNTED (sizeof(counted) / sizeof(counted[0]))

static enum rc counts_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    (void)err;
    *(struct retry_scene_counts *)ctx = (struct retry_scene_counts){
        .active = db_column_i64(row, 0),
        .queued = db_column_i64(row, 1),
        .blocked = db_column_i64(row, 2),
        .parked = db_column_i64(row, 3),
    };
    return RC_OK;
}

enum rc retry_scene_count(struct db *db, const char *group, const char *scene,
                          struct retry_scene_counts *counts, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    *counts = (struct retry_scene_counts){0};
    for (size_t i = 0; i < COUNTED; i++) {
        buf_text_put(&sql, i == 0 ? "SELECT " : ", ");
        buf_text_put(&sql, "(SELECT COUNT(*) FROM (SELECT 1 FROM retry_task FORCE INDEX "
                           "(ix_retry_task_age)");
        put_condition(db, &sql, " WHERE task_group = ", group);
        put_condition(db, &sql, " AND scene = ", scene);
        buf_print(&sql, " AND age_state = %d LIMIT " TEXT_OF(RETRY_SCENE_COUNT_MAX) ") few)",
                  counted[i]);
    }
    rc = db_query_buf(db, &sql, counts_on_row, counts, err);
    buf_done(&sql);
    return rc;
}
