/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/scene_mysql.h"

#include "common/buf.h"
#include "outbox/retry/store/audit_mysql.h"

#include <inttypes.h>
#include <string.h>

struct scene_query {
    enum rc (*on_scene)(void *ctx, const struct scene_row *row, struct err *err);
    void *ctx;
};

static enum rc scene_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct scene_query *scene_query = ctx;
    struct scene_row scene = {
        .group = row->columns[0],
        .scene = row->columns[1],
        .policy = row->columns[2],
        .options = row->columns[3],
        .paused = db_column_i64(row, 4) != 0,
        .version = db_column_i64(row, 5),
    };

    return scene_query->on_scene(scene_query->ctx, &scene, err);
}

static void put_text(struct db *db, struct buf *sql, const char *text)
{
    if (text && *text)
        db_put_text(db, sql, text, strlen(text));
    else
        buf_text_put(sql, "NULL");
}

static void put_name(struct db *db, struct buf *sql, const char *words, const char *name)
{
    buf_text_put(sql, words);
    db_put_text(db, sql, name, strlen(name));
}

enum rc scene_mysql_each(struct db *db, const char *group, const char *scene,
                         enum rc (*on_scene)(void *ctx, const struct scene_row *row,
                                             struct err *err),
                         void *ctx, struct err *err)
{
    struct scene_query scene_query = {on_scene, ctx};
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(&sql,
                 "SELECT RTRIM(task_group), RTRIM(scene), policy, options, paused, version FROM "
                 "retry_scene WHERE 1");
    if (group)
        put_name(db, &sql, " AND task_group = ", group);
    if (scene)
        put_name(db, &sql, " AND scene = ", scene);
    buf_print(&sql, " ORDER BY task_group, scene LIMIT %d", RETRY_SCENES_MAX);
    rc = db_query_buf(db, &sql, scene_on_row, &scene_query, err);
    buf_done(&sql);
    return rc;
}

static enum rc run_sql(struct db *db, struct buf *sql, uint64_t *affected, struct err *err)
{
    enum rc rc = db_exec_buf(db, sql, affected, err);

    buf_done(sql);
    return rc;
}

/* The row of the change number stays locked until the transaction ends: changes of all scenes
 * commit in the order of their numbers, so that a process that sees a change has seen all earlier
 * ones. */
static enum rc count_change(struct db *db, struct err *err)
{
    enum rc rc = db_begin(db, err);

    if (rc == RC_OK)
        rc = db_run(db,
                    "INSERT INTO retry_scene_change (name, number) VALUES ('retry_scene', 1) ON "
                    "DUPLICATE KEY UPDATE number = number + 1",
                    err);
    return rc;
}

/* Gives a scene without a row one that can be changed, with the policy that it had from its group.
 * Refuses the row with which the table would exceed RETRY_SCENES_MAX, because every retry process
 * would stop. Invariant: the number of rows does not change before COMMIT, because all commands
 * lock the same row in count_change() first. */
static enum rc make_row(struct db *db, const char *group, const char *scene, struct err *err)
{
    struct buf sql = {0};
    uint64_t affected = 0;
    int64_t rows = 0;
    enum rc rc;

    put_name(db, &sql,
             "INSERT IGNORE INTO retry_scene (task_group, scene, version, policy) SELECT ", group);
    put_name(db, &sql, ", ", scene);
    buf_text_put(&sql, ", 0, (SELECT IF(g.init_scene IN ('', '" RETRY_INIT_STANDARD
                       "', '" RETRY_INIT_REFUSE "'), NULL, g.init_scene) FROM retry_group g "
                       "WHERE g.owner = 'client'");
    put_name(db, &sql, " AND g.name = ", group);
    buf_text_put(&sql, ")");
    rc = run_sql(db, &sql, &affected, err);
    if (rc == RC_OK && affected > 0)
        rc = db_number(db, "SELECT COUNT(*) FROM retry_scene", &rows, NULL, err);
    if (rc != RC_OK || rows <= RETRY_SCENES_MAX)
        return rc;
    return err_fail(err, RC_FATAL, 0,
                    "retry_scene has %lld rows, and retry processes begin no task with more than "
                    "%d: nothing was changed; delete rows that are no longer needed first (DELETE "
                    "FROM retry_scene WHERE task_group = GROUP AND scene = SCENE)",
                    (long long)rows - 1, RETRY_SCENES_MAX);
}

/* A change that changes nothing does not count. */
static enum rc end_change(struct db *db, enum rc rc, struct scene_outcome *outcome, struct err *err)
{
    outcome->changed = outcome->changed && rc == RC_OK;
    if (outcome->changed)
        return db_commit(db, err);
    db_rollback(db);
    return rc;
}

#define VERSION_COLUMNS                                                                           \
    "INSERT INTO retry_scene_version (task_group, scene, version, policy, options, paused, "      \
    "changed_at, changed_by, why) SELECT s.task_group, s.scene, s.version, s.policy, s.options, " \
    "s.paused, s.updated_at, "

/* Stores the row that is about to be replaced, unless a command has made and stored it. */
static enum rc keep_replaced(struct db *db, const struct scene_target *target, struct err *err)
{
    struct buf sql = {0};

    buf_text_put(&sql, VERSION_COLUMNS "'', '' FROM retry_scene s WHERE s.version > 0");
    put_name(db, &sql, " AND s.task_group = ", target->group);
    put_name(db, &sql, " AND s.scene = ", target->scene);
    buf_text_put(&sql, " AND NOT EXISTS (SELECT 1 FROM retry_scene_version v WHERE v.task_group = "
                       "s.task_group AND v.scene = s.scene AND v.version = s.version AND v.policy "
                       "<=> s.policy AND v.options <=> s.options AND v.paused = s.paused)");
    return run_sql(db, &sql, NULL, err);
}

/* Stores the new row, in the transaction of the change. */
static enum rc keep_new(struct db *db, const struct scene_target *target, struct err *err)
{
    struct buf sql = {0};

    buf_print(&sql,
              VERSION_COLUMNS "COALESCE(a.acted_by, ''), COALESCE(a.why, '') FROM retry_scene s "
                              "LEFT JOIN retry_audit a ON a.id = %" PRId64,
              target->audit_id);
    put_name(db, &sql, " WHERE s.task_group = ", target->group);
    put_name(db, &sql, " AND s.scene = ", target->scene);
    return run_sql(db, &sql, NULL, err);
}

static enum rc read_version(struct db *db, const struct scene_target *target, int64_t *version,
                            struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    put_name(db, &sql, "SELECT version FROM retry_scene WHERE task_group = ", target->group);
    put_name(db, &sql, " AND scene = ", target->scene);
    buf_text_put(&sql, " FOR UPDATE");
    rc = sql.failed ? err_fail(err, RC_FATAL, 0, "no memory to read a scene")
                    : db_number(db, buf_text(&sql), version, NULL, err);
    buf_done(&sql);
    return rc;
}

/* The row stays locked until the transaction ends. */
static enum rc begin_change(struct db *db, const struct scene_target *target, bool make,
                            struct scene_outcome *outcome, struct err *err)
{
    enum rc rc = count_change(db, err);

    *outcome = (struct scene_outcome){.version = 0};
    if (rc == RC_OK)
        rc = keep_replaced(db, target, err);
    if (rc == RC_OK && make)
        rc = make_row(db, target->group, target->scene, err);
    return rc == RC_OK ? read_version(db, target, &outcome->version, err) : rc;
}

/* Runs the UPDATE of a change that has begun, and ends it. A change that is based on another
 * version is undone, unless the row was so already: its answer may have been lost. */
static enum rc run_change(struct db *db, const struct scene_target *target, struct buf *sql,
                          struct scene_outcome *outcome, struct err *err)
{
    uint64_t affected = 0;
    enum rc rc = run_sql(db, sql, &affected, err);

    outcome->outdated =
        rc == RC_OK && affected > 0 && target->based_on && *target->based_on != outcome->version;
    outcome->changed = affected > 0 && !outcome->outdated;
    if (rc == RC_OK && outcome->changed) {
        outcome->version++;
        rc = keep_new(db, target, err);
    }
    if (rc == RC_OK && outcome->changed)
        rc = audit_mysql_add(db, target->audit_id, 1, err);
    return end_change(db, rc, outcome, err);
}

enum rc scene_mysql_pause(struct db *db, const struct scene_target *target, bool paused,
                          struct scene_outcome *outcome, struct err *err)
{
    struct buf sql = {0};
    enum rc rc = begin_change(db, target, paused, outcome, err);

    if (rc != RC_OK)
        return end_change(db, rc, outcome, err);
    buf_print(&sql,
              "UPDATE retry_scene SET paused = %d, version = version + 1, updated_at = "
              "UTC_TIMESTAMP(3)",
              paused);
    put_name(db, &sql, " WHERE task_group = ", target->group);
    put_name(db, &sql, " AND scene = ", target->scene);
    buf_print(&sql, " AND paused <> %d", paused);
    return run_change(db, target, &sql, outcome, err);
}

static void put_set(struct db *db, struct buf *sql, const char *column, const char *text)
{
    buf_print(sql, ", %s = ", column);
    if (text)
        put_text(db, sql, text);
    else
        buf_text_put(sql, column);
}

static void put_differs(struct db *db, struct buf *sql, const char *column, const char *text)
{
    if (!text)
        return;
    buf_print(sql, " OR NOT %s <=> ", column);
    put_text(db, sql, text);
}

enum rc scene_mysql_set(struct db *db, const struct scene_target *target, const char *policy,
                        const char *options, struct scene_outcome *outcome, struct err *err)
{
    struct buf sql = {0};
    enum rc rc = begin_change(db, target, true, outcome, err);

    if (rc != RC_OK)
        return end_change(db, rc, outcome, err);
    buf_text_put(&sql, "UPDATE retry_scene SET version = version + 1, updated_at = "
                       "UTC_TIMESTAMP(3)");
    put_set(db, &sql, "policy", policy);
    put_set(db, &sql, "options", options);
    put_name(db, &sql, " WHERE task_group = ", target->group);
    put_name(db, &sql, " AND scene = ", target->scene);
    buf_text_put(&sql, " AND (version = 0");
    put_differs(db, &sql, "policy", policy);
    put_differs(db, &sql, "options", options);
    buf_char(&sql, ')');
    return run_change(db, target, &sql, outcome, err);
}

struct version_query {
    enum rc (*on_version)(void *ctx, const struct scene_version *version, struct err *err);
    void *ctx;
};

static enum rc version_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct version_query *version_query = ctx;
    const struct scene_version version = {
        .version = db_column_i64(row, 0),
        .policy = row->columns[1],
        .options = row->columns[2],
        .paused = db_column_i64(row, 3) != 0,
        .at_ms = db_column_i64(row, 4),
        .by = row->columns[5],
        .why = row->columns[6],
        .policy_changed = db_column_i64(row, 7) != 0,
        .options_changed = db_column_i64(row, 8) != 0,
        .paused_changed = db_column_i64(row, 9) != 0,
        .first = db_column_i64(row, 10) != 0,
    };

    return version_query->on_version(version_query->ctx, &version, err);
}

enum rc scene_mysql_versions(struct db *db, const char *group, const char *scene, int64_t only,
                             size_t rows_max,
                             enum rc (*on_version)(void *ctx, const struct scene_version *version,
                                                   struct err *err),
                             void *ctx, struct err *err)
{
    struct version_query version_query = {on_version, ctx};
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(
        &sql,
        "SELECT version, policy, options, paused, at_ms, changed_by, why, "
        "nth = 1 OR policy_changed, nth = 1 OR options_changed, nth = 1 OR paused_changed, nth = 1 "
        "FROM (SELECT number, version, policy, options, paused, TIMESTAMPDIFF("
        "MICROSECOND, '1970-01-01', changed_at) DIV 1000 AS at_ms, changed_by, why, "
        "ROW_NUMBER() OVER w AS nth, NOT policy <=> LAG(policy) OVER w AS policy_changed, "
        "NOT options <=> LAG(options) OVER w AS options_changed, "
        "NOT paused <=> LAG(paused) OVER w AS paused_changed FROM retry_scene_version");
    put_name(db, &sql, " WHERE task_group = ", group);
    put_name(db, &sql, " AND scene = ", scene);
    buf_text_put(&sql, " WINDOW w AS (ORDER BY number)) v");
    if (only > 0)
        buf_print(&sql, " WHERE version = %" PRId64, only);
    buf_print(&sql, " ORDER BY number DESC LIMIT %zu", rows_max);
    rc = db_query_buf(db, &sql, version_on_row, &version_query, err);
    buf_done(&sql);
    return rc;
}

enum rc scene_mysql_change(struct db *db, int64_t *change, struct err *err)
{
    *change = 0;
    return db_number(db, "SELECT number FROM retry_scene_change WHERE name = 'retry_scene'", change,
                     NULL, err);
}

struct process_query {
    scene_on_process on_process;
    void *ctx;
};

static enum rc process_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct process_query *process_query = ctx;

    (void)err;
    process_query->on_process(process_query->ctx, row->columns[0], db_column_i64(row, 1) != 0);
    return RC_OK;
}

/* A recorded change number above the current one was written before the tables were restored. A
 * heartbeat far in the future was written before the clock was set back, and counts as expired. */
static enum rc each_process(void *ctx, int64_t change, scene_on_process on_process,
                            void *on_process_ctx, struct err *err)
{
    struct db *db = ctx;
    struct process_query process_query = {on_process, on_process_ctx};
    struct buf sql = {0};
    enum rc rc;

    buf_print(&sql,
              "SELECT i.name, i.scene_change BETWEEN %lld AND c.number FROM instance i "
              "LEFT JOIN retry_scene_change c ON c.name = 'retry_scene' WHERE i.role = '" RETRY_ROLE
              "' AND i.seen_at > UTC_TIMESTAMP(3) - INTERVAL i.lease_ms * 1000 MICROSECOND "
              "AND i.seen_at < UTC_TIMESTAMP(3) + INTERVAL i.lease_ms * 2000 MICROSECOND "
              "ORDER BY i.name LIMIT %d",
              (long long)change, SCENE_PROCESSES_MAX);
    rc = db_query_buf(db, &sql, process_on_row, &process_query, err);
    buf_done(&sql);
    return rc;
}

struct scene_processes scene_mysql_processes(struct db *db)
{
    return (struct scene_processes){.ctx = db, .each = each_process};
}
