/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/task_admin_mysql.h"

#include "common/buf.h"
#include "outbox/retry/callback.h"
#include "outbox/retry/store/audit_mysql.h"
#include "outbox/retry/store/store_mysql.h"
#include "outbox/retry/store/wake_mysql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAMES_OF_IT "task_group, scene, handler, ordering_key, idempotency_key, biz_no"
#define WHAT_IT_DOES NAMES_OF_IT ", options, params, params_type, traceparent, origin"
#define HISTORY_COLUMNS                                                             \
    "id, " WHAT_IT_DOES ", state, attempts, next_at, reason_class, reason, epoch, " \
    "parent_id, step, step_result, created_at, updated_at"

/* Back to the beginning, as if nothing had failed. */
#define FRESH                                                                       \
    "state = 0, attempts = 0, waited = 1, next_at = UTC_TIMESTAMP(3), age_from = "  \
    "UTC_TIMESTAMP(3), "                                                            \
    "exhausts_at = NULL, owner = " STORE_NO_OWNER ", lease_until = " STORE_NO_LEASE \
    ", updated_at = UTC_TIMESTAMP(3)"

/* One action under its locks: each result has the state of its task, or that there is no such
 * task. */
struct action_run {
    struct db *db;
    const struct task_admin_order *order;
    struct task_admin_result *results;
    size_t count;
    struct order_key hashes[TASK_ADMIN_ROWS_MAX]; /* of the tasks; "": no order */
    struct order_key wakes[TASK_ADMIN_ROWS_MAX];
    size_t wake_count;
    struct buf sql;
    struct callback_target target; /* of the callback of a cancelled task, as the next ones */
    struct buf callback;
    struct buf names; /* its group, origin and traceparent, each with a zero byte */
};

static enum rc run_sql(struct action_run *action_run, uint64_t *affected, struct err *err)
{
    return db_exec_buf(action_run->db, &action_run->sql, affected, err);
}

static struct task_admin_result *find_result(struct action_run *action_run, int64_t id,
                                             size_t *index)
{
    for (*index = 0; *index < action_run->count; ++*index)
        if (action_run->results[*index].id == id)
            return &action_run->results[*index];
    return NULL;
}

static enum rc lock_tasks(struct action_run *action_run, const char *select, db_on_row on_row,
                          struct err *err)
{
    int64_t ids[TASK_ADMIN_ROWS_MAX];

    for (size_t i = 0; i < action_run->count; i++)
        ids[i] = action_run->results[i].id;
    buf_reset(&action_run->sql);
    buf_text_put(&action_run->sql, select);
    store_put_ids(&action_run->sql, ids, action_run->count);
    buf_text_put(&action_run->sql, " FOR UPDATE");
    return db_query_buf(action_run->db, &action_run->sql, on_row, action_run, err);
}

static enum rc task_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct action_run *action_run = ctx;
    size_t index;
    struct task_admin_result *result = find_result(action_run, db_column_i64(row, 0), &index);

    (void)err;
    if (!result)
        return RC_OK;
    result->outcome = TASK_ADMIN_UNFIT;
    result->state = (enum task_state)db_column_i64(row, 1);
    if (row->columns[2])
        snprintf(action_run->hashes[index].hash, sizeof(action_run->hashes[index].hash), "%s",
                 row->columns[2]);
    return RC_OK;
}

static enum rc ended_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct action_run *action_run = ctx;
    size_t index;
    struct task_admin_result *result = find_result(action_run, db_column_i64(row, 0), &index);

    (void)err;
    if (result && result->outcome == TASK_ADMIN_UNKNOWN) {
        result->outcome = TASK_ADMIN_ENDED;
        result->other = db_column_i64(row, 1);
        snprintf(result->ended, sizeof(result->ended), "%s", row->columns[2]);
    }
    return RC_OK;
}

/* Finds which of the missing tasks are in the history. */
static enum rc find_ended(struct action_run *action_run, struct err *err)
{
    bool missing = false;

    for (size_t i = 0; i < action_run->count; i++)
        missing = missing || action_run->results[i].outcome == TASK_ADMIN_UNKNOWN;
    if (!missing)
        return RC_OK;
    buf_reset(&action_run->sql);
    buf_text_put(&action_run->sql,
                 "SELECT id, requeued_as, outcome FROM retry_task_history WHERE id IN (0");
    for (size_t i = 0; i < action_run->count; i++)
        if (action_run->results[i].outcome == TASK_ADMIN_UNKNOWN)
            buf_print(&action_run->sql, ",%" PRId64, action_run->results[i].id);
    buf_char(&action_run->sql, ')');
    return db_query_buf(action_run->db, &action_run->sql, ended_on_row, action_run, err);
}

static void note_key(struct action_run *action_run, size_t index)
{
    if (action_run->hashes[index].hash[0])
        action_run->wakes[action_run->wake_count++] = action_run->hashes[index];
}

static enum rc reset_task(struct action_run *action_run, size_t index, struct err *err)
{
    buf_reset(&action_run->sql);
    buf_print(&action_run->sql, "UPDATE retry_task SET " FRESH " WHERE id = %" PRId64,
              action_run->results[index].id);
    note_key(action_run, index);
    return run_sql(action_run, NULL, err);
}

static enum rc hasten_task(struct action_run *action_run, size_t index, struct err *err)
{
    buf_reset(&action_run->sql);
    buf_print(
        &action_run->sql,
        "UPDATE retry_task SET next_at = LEAST(next_at, UTC_TIMESTAMP(3)), waited = 1 WHERE id = "
        "%" PRId64,
        action_run->results[index].id);
    return run_sql(action_run, NULL, err);
}

static enum rc delete_task(struct action_run *action_run, size_t index, struct err *err)
{
    buf_reset(&action_run->sql);
    buf_print(&action_run->sql, "DELETE FROM retry_task WHERE id = %" PRId64,
              action_run->results[index].id);
    note_key(action_run, index);
    return run_sql(action_run, NULL, err);
}

/* Reads what the callback of a task is, if its scene asks for one. */
static enum rc cancelled_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct action_run *action_run = ctx;
    const char *why = action_run->order->why;
    const struct callback_task task = {
        .id = db_column_i64(row, 0),
        .group = row->columns[1],
        .scene = row->columns[2],
        .ordering_key = row->columns[3],
        .idempotency_key = row->columns[4],
        .biz_no = row->columns[5],
        .outcome = "cancelled",
        .attempts = db_column_i64(row, 6),
        .reason_class = row->columns[7],
        .reason = why && why[0] ? why : row->columns[8],
        .by = action_run->order->by,
        .params = row->columns[9],
        .params_len = row->lengths[9],
        .params_type = row->columns[10],
        .result = row->columns[11],
        .result_len = row->lengths[11],
    };

    callback_target_find(row->columns[14], "on_cancelled", &action_run->target);
    if (!action_run->target.scene[0])
        return RC_OK;
    callback_put(&action_run->callback, &task);
    buf_put(&action_run->names, row->columns[1], row->lengths[1] + 1);
    buf_put(&action_run->names, row->columns[12], row->lengths[12] + 1);
    if (row->columns[13])
        buf_put(&action_run->names, row->columns[13], row->lengths[13] + 1);
    if (action_run->callback.failed || action_run->names.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the callback of a task");
    return RC_OK;
}

static void put_text(struct action_run *action_run, const char *text)
{
    db_put_text(action_run->db, &action_run->sql, text, strlen(text));
}

static void put_callback(struct action_run *action_run, int64_t id)
{
    const char *group = action_run->names.data;
    const char *origin = group + strlen(group) + 1;
    const char *trace = origin + strlen(origin) + 1;
    struct buf *sql = &action_run->sql;

    buf_text_put(sql, "INSERT INTO retry_task (task_group, origin, scene, handler, "
                      "idempotency_key, params, parent_id, traceparent) VALUES (");
    put_text(action_run, group);
    buf_text_put(sql, ", ");
    put_text(action_run, origin);
    buf_text_put(sql, ", ");
    put_text(action_run, action_run->target.scene);
    buf_text_put(sql, ", ");
    put_text(action_run, action_run->target.handler);
    buf_print(sql, ", 'callback/%" PRId64 "/cancelled', ", id);
    db_put_bytes(action_run->db, sql, action_run->callback.data, action_run->callback.len);
    buf_print(sql, ", %" PRId64 ", ", id);
    if (trace < group + action_run->names.len)
        put_text(action_run, trace);
    else
        buf_text_put(sql, "NULL");
    buf_text_put(sql, ") ON DUPLICATE KEY UPDATE id = retry_task.id");
}

#define SCENE_POLICY "IF(s.scene IS NULL, g.init_scene, s.policy)"

/* Makes the callback of a task that is cancelled. Invariant Q12: in the same transaction. */
static enum rc call_back(struct action_run *action_run, int64_t id, struct err *err)
{
    enum rc rc;

    memset(&action_run->target, 0, sizeof(action_run->target));
    buf_reset(&action_run->callback);
    buf_reset(&action_run->names);
    buf_reset(&action_run->sql);
    buf_print(&action_run->sql,
              "SELECT t.id, t.task_group, t.scene, t.ordering_key, COALESCE(t.idempotency_key, "
              "LOWER(HEX(t.task_hash))), t.biz_no, t.attempts, t.reason_class, t.reason, t.params, "
              "t.params_type, t.step_result, t.origin, t.traceparent, " SCENE_POLICY
              " FROM retry_task t FORCE INDEX (PRIMARY) LEFT JOIN retry_scene s "
              "ON s.task_group = t.task_group AND s.scene = t.scene "
              "LEFT JOIN retry_group g ON g.name = t.task_group AND g.owner = 'client' "
              "WHERE t.id = %" PRId64 " AND " SCENE_POLICY " LIKE '%%on_cancelled%%'",
              id);
    rc = db_query_buf(action_run->db, &action_run->sql, cancelled_on_row, action_run, err);
    if (rc != RC_OK || !action_run->target.scene[0])
        return rc;
    buf_reset(&action_run->sql);
    put_callback(action_run, id);
    return run_sql(action_run, NULL, err);
}

/* A process that still runs the task finds no row to update. */
static enum rc cancel_task(struct action_run *action_run, size_t index, struct err *err)
{
    const char *by = action_run->order->by;
    enum rc rc = call_back(action_run, action_run->results[index].id, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(&action_run->sql);
    buf_text_put(&action_run->sql,
                 "INSERT INTO retry_task_history (" HISTORY_COLUMNS ", lease_until, owner, "
                 "outcome, ended_at) SELECT " HISTORY_COLUMNS
                 ", IF(state = 1, lease_until, NULL), ");
    db_put_text(action_run->db, &action_run->sql, by, strlen(by));
    buf_print(&action_run->sql,
              ", 'cancelled', UTC_TIMESTAMP(3) FROM retry_task WHERE id = %" PRId64,
              action_run->results[index].id);
    rc = run_sql(action_run, NULL, err);
    return rc == RC_OK ? delete_task(action_run, index, err) : rc;
}

static bool is_waiting(enum task_state state)
{
    return state == TASK_WAITING || state == TASK_QUEUED;
}

/* Applies the action to a task by its state; the outcome stays TASK_ADMIN_UNFIT if it has no
 * effect on that state. */
static enum rc act_on_task(struct action_run *action_run, size_t index, struct err *err)
{
    struct task_admin_result *result = &action_run->results[index];
    enum task_admin_action action = action_run->order->action;
    enum task_state state = result->state;
    enum rc rc;

    if (state == TASK_RUNNING && !(action == TASK_ADMIN_CANCEL && action_run->order->force)) {
        result->outcome = TASK_ADMIN_RUNNING;
        return RC_OK;
    }
    if ((action == TASK_ADMIN_CANCEL && state != TASK_PARKED) ||
        (action == TASK_ADMIN_SKIP && state == TASK_BLOCKED))
        rc = cancel_task(action_run, index, err);
    else if (action == TASK_ADMIN_RUN_NOW && state == TASK_WAITING)
        rc = hasten_task(action_run, index, err);
    else if (state == TASK_BLOCKED && action != TASK_ADMIN_CANCEL)
        rc = reset_task(action_run, index, err);
    else if (state == TASK_PARKED && (action == TASK_ADMIN_UNPARK || action == TASK_ADMIN_SKIP))
        rc = delete_task(action_run, index, err);
    else {
        if (is_waiting(state) && (action == TASK_ADMIN_UNPARK || action == TASK_ADMIN_SKIP))
            result->outcome = TASK_ADMIN_WAS_SO;
        return RC_OK;
    }
    if (rc == RC_OK)
        result->outcome = TASK_ADMIN_DID;
    return rc;
}

static enum rc act_on_tasks(struct action_run *action_run, struct err *err)
{
    unsigned states = action_run->order->states;
    enum rc rc =
        lock_tasks(action_run,
                   "SELECT id, state, HEX(order_hash) FROM retry_task FORCE INDEX (PRIMARY) "
                   "WHERE id ",
                   task_on_row, err);

    for (size_t i = 0; rc == RC_OK && i < action_run->count; i++) {
        const struct task_admin_result *result = &action_run->results[i];

        if (result->outcome == TASK_ADMIN_UNKNOWN ||
            (states != 0 && (states & 1U << result->state) == 0))
            continue;
        rc = act_on_task(action_run, i, err);
    }
    if (rc == RC_OK)
        rc = wake_keys(action_run->db, action_run->wakes, action_run->wake_count, err);
    return rc == RC_OK ? find_ended(action_run, err) : rc;
}

static enum rc history_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct action_run *action_run = ctx;
    size_t index;
    struct task_admin_result *result = find_result(action_run, db_column_i64(row, 0), &index);

    (void)err;
    if (!result)
        return RC_OK;
    result->other = db_column_i64(row, 1);
    result->outcome = result->other != 0 ? TASK_ADMIN_WAS_SO : TASK_ADMIN_UNFIT;
    return RC_OK;
}

struct active {
    int64_t id;
    int64_t parent_id;
};

static enum rc active_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct active *active = ctx;

    (void)err;
    active->id = db_column_i64(row, 0);
    active->parent_id = db_column_i64(row, 1);
    return RC_OK;
}

/* Options and params of the new task: those of the ended one, or corrected ones. */
static void put_content(struct action_run *action_run)
{
    const struct task_admin_edit *content = action_run->order->content;
    struct buf *sql = &action_run->sql;

    if (!content || !content->options)
        buf_text_put(sql, "options, ");
    else if (content->options[0])
        put_text(action_run, content->options);
    else
        buf_text_put(sql, "NULL");
    if (content && content->options)
        buf_text_put(sql, ", ");
    if (content && content->params)
        db_put_bytes(action_run->db, sql, content->params, content->params_len);
    else
        buf_text_put(sql, content && content->no_params ? "NULL" : "params");
}

/* Only one task may be active for the same work: another active task with the same hash replaces
 * this one. */
static enum rc requeue_ended(struct action_run *action_run, struct task_admin_result *result,
                             struct err *err)
{
    struct active active = {0};
    uint64_t affected = 0;
    enum rc rc;

    buf_reset(&action_run->sql);
    buf_text_put(&action_run->sql,
                 "INSERT INTO retry_task (" WHAT_IT_DOES
                 ", waited, parent_id, step, step_result) SELECT " NAMES_OF_IT ", ");
    put_content(action_run);
    buf_print(
        &action_run->sql,
        ", params_type, traceparent, origin, 1, id, step, step_result FROM retry_task_history "
        "WHERE id = %" PRId64 " ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(retry_task.id)",
        result->id);
    rc = run_sql(action_run, &affected, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&action_run->sql);
    buf_text_put(&action_run->sql,
                 "SELECT id, parent_id FROM retry_task WHERE id = LAST_INSERT_ID()");
    rc = db_query_buf(action_run->db, &action_run->sql, active_on_row, &active, err);
    if (rc != RC_OK)
        return rc;
    result->other = active.id;
    result->outcome =
        affected == 1 && active.parent_id == result->id ? TASK_ADMIN_DID : TASK_ADMIN_ACTIVE;
    if (result->outcome == TASK_ADMIN_ACTIVE)
        return RC_OK;
    buf_reset(&action_run->sql);
    buf_print(&action_run->sql,
              "UPDATE retry_task_history SET requeued_as = %" PRId64 " WHERE id = %" PRId64,
              active.id, result->id);
    return run_sql(action_run, NULL, err);
}

static enum rc act_on_history(struct action_run *action_run, struct err *err)
{
    enum rc rc =
        lock_tasks(action_run,
                   "SELECT id, requeued_as FROM retry_task_history FORCE INDEX (PRIMARY) WHERE "
                   "id ",
                   history_on_row, err);

    for (size_t i = 0; rc == RC_OK && i < action_run->count; i++)
        if (action_run->results[i].outcome == TASK_ADMIN_UNFIT)
            rc = requeue_ended(action_run, &action_run->results[i], err);
    return rc;
}

bool task_admin_is_left(enum task_admin_action action, const struct task_admin_result *result)
{
    switch (result->outcome) {
    case TASK_ADMIN_DID:
    case TASK_ADMIN_WAS_SO:
        return false;
    case TASK_ADMIN_ACTIVE:
    case TASK_ADMIN_RUNNING:
    case TASK_ADMIN_UNFIT:
    case TASK_ADMIN_UNKNOWN:
        return true;
    case TASK_ADMIN_ENDED:
        break;
    }
    /* A key that was unparked may have had any end since. Skipped are a blocked task, which is
     * cancelled then, and a parked one, whose task is exhausted. */
    if (action == TASK_ADMIN_CANCEL)
        return strcmp(result->ended, "cancelled") != 0;
    if (action == TASK_ADMIN_SKIP)
        return strcmp(result->ended, "done") == 0;
    return action != TASK_ADMIN_UNPARK;
}

enum rc task_admin_mysql_now(struct db *db, int64_t *now_ms, struct err *err)
{
    return db_number(db,
                     "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
                     now_ms, NULL, err);
}

static uint64_t count_done(const struct action_run *action_run)
{
    uint64_t count = 0;

    for (size_t i = 0; i < action_run->count; i++)
        count += action_run->results[i].outcome == TASK_ADMIN_DID;
    return count;
}

enum rc task_admin_mysql_act(struct db *db, const struct task_admin_order *order,
                             const int64_t *ids, size_t count, struct task_admin_result *results,
                             struct err *err)
{
    struct action_run action_run = {.db = db, .order = order, .results = results, .count = count};
    enum rc rc = db_begin(db, err);

    assert(count > 0 && count <= TASK_ADMIN_ROWS_MAX);
    for (size_t i = 0; i < count; i++)
        results[i] = (struct task_admin_result){.id = ids[i], .outcome = TASK_ADMIN_UNKNOWN};
    if (rc == RC_OK)
        rc = order->action == TASK_ADMIN_REQUEUE ? act_on_history(&action_run, err)
                                                 : act_on_tasks(&action_run, err);
    if (rc == RC_OK)
        rc = audit_mysql_add(db, order->audit_id, count_done(&action_run), err);
    if (rc == RC_OK)
        rc = db_commit(db, err);
    if (rc != RC_OK && db_in_transaction(db))
        db_rollback(db);
    buf_done(&action_run.sql);
    buf_done(&action_run.callback);
    buf_done(&action_run.names);
    return rc;
}

static enum rc edit_task(struct action_run *action_run, const struct task_admin_edit *edit,
                         struct err *err)
{
    buf_reset(&action_run->sql);
    buf_text_put(&action_run->sql, "UPDATE retry_task SET epoch = epoch + 1, updated_at = "
                                   "UTC_TIMESTAMP(3)");
    if (edit->options) {
        buf_text_put(&action_run->sql, ", options = ");
        if (edit->options[0])
            db_put_text(action_run->db, &action_run->sql, edit->options, strlen(edit->options));
        else
            buf_text_put(&action_run->sql, "NULL");
    }
    if (edit->no_params)
        buf_text_put(&action_run->sql, ", params = NULL");
    if (edit->params) {
        buf_text_put(&action_run->sql, ", params = ");
        db_put_bytes(action_run->db, &action_run->sql, edit->params, edit->params_len);
    }
    buf_print(&action_run->sql, " WHERE id = %" PRId64, edit->id);
    return run_sql(action_run, NULL, err);
}

/* What an edit must know of the locked task. */
struct edited_row {
    int64_t epoch;
    char task_hash[65]; /* before the edit; "": it has an idempotency key of its own */
};

static enum rc edited_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct edited_row *edited = ctx;

    (void)err;
    edited->epoch = db_column_i64(row, 0);
    snprintf(edited->task_hash, sizeof(edited->task_hash), "%s",
             row->columns[1] ? row->columns[1] : "");
    return RC_OK;
}

/* A task without an idempotency key was sent with the hash of what it does. It keeps that hash as
 * its key, so that a receiver that has done it once recognises it after the edit, too. A statement
 * of its own: the edit before it has found another active task that does the same. */
static enum rc keep_key(struct action_run *action_run, const struct edited_row *edited, int64_t id,
                        struct err *err)
{
    if (!edited->task_hash[0])
        return RC_OK;
    buf_reset(&action_run->sql);
    buf_text_put(&action_run->sql, "UPDATE retry_task SET idempotency_key = ");
    put_text(action_run, edited->task_hash);
    buf_print(&action_run->sql, " WHERE id = %" PRId64, id);
    return run_sql(action_run, NULL, err);
}

/* The task's history shows who changed what. */
static enum rc record_edit(struct action_run *action_run, const struct task_admin_edit *edit,
                           struct err *err)
{
    buf_reset(&action_run->sql);
    buf_text_put(&action_run->sql,
                 "INSERT INTO retry_attempt (task_id, attempted_at, owner, step, took_ms, outcome, "
                 "reason_class, reason) SELECT id, UTC_TIMESTAMP(3), ");
    db_put_text(action_run->db, &action_run->sql, edit->by, strlen(edit->by));
    buf_text_put(&action_run->sql, ", step, 0, 'edited', '', ");
    db_put_text(action_run->db, &action_run->sql, edit->what, strlen(edit->what));
    buf_print(&action_run->sql, " FROM retry_task WHERE id = %" PRId64, edit->id);
    return run_sql(action_run, NULL, err);
}

static enum rc edit_locked_task(struct action_run *action_run, const struct task_admin_edit *edit,
                                struct err *err)
{
    struct task_admin_result *result = action_run->results;
    struct edited_row edited = {0};
    enum rc rc =
        lock_tasks(action_run,
                   "SELECT id, state, HEX(order_hash) FROM retry_task FORCE INDEX (PRIMARY) "
                   "WHERE id ",
                   task_on_row, err);

    if (rc != RC_OK || result->outcome == TASK_ADMIN_UNKNOWN)
        return rc == RC_OK ? find_ended(action_run, err) : rc;
    if (result->state == TASK_RUNNING)
        result->outcome = TASK_ADMIN_RUNNING;
    if (result->state == TASK_RUNNING || result->state == TASK_PARKED)
        return RC_OK;
    buf_reset(&action_run->sql);
    buf_print(&action_run->sql,
              "SELECT epoch, IF(idempotency_key IS NULL, LOWER(HEX(task_hash)), NULL) FROM "
              "retry_task WHERE id = %" PRId64 " FOR UPDATE",
              edit->id);
    rc = db_query_buf(action_run->db, &action_run->sql, edited_on_row, &edited, err);
    if (rc == RC_OK && edited.epoch != edit->epoch)
        return err_fail(err, RC_RETRY, 0, "task %" PRId64 " was changed meanwhile", edit->id);
    if (rc == RC_OK)
        rc = edit_task(action_run, edit, err);
    if (rc == RC_OK)
        rc = keep_key(action_run, &edited, edit->id, err);
    if (rc == RC_OK)
        rc = record_edit(action_run, edit, err);
    result->outcome = TASK_ADMIN_DID;
    return rc;
}

enum rc task_admin_mysql_edit(struct db *db, const struct task_admin_edit *edit,
                              struct task_admin_result *result, struct err *err)
{
    struct action_run action_run = {.db = db, .results = result, .count = 1};
    enum rc rc = db_begin(db, err);

    assert(edit->options || edit->params || edit->no_params);
    assert(!edit->params || !edit->no_params);
    *result = (struct task_admin_result){.id = edit->id, .outcome = TASK_ADMIN_UNKNOWN};
    if (rc == RC_OK)
        rc = edit_locked_task(&action_run, edit, err);
    if (rc == RC_OK)
        rc = audit_mysql_add(db, edit->audit_id, count_done(&action_run), err);
    if (rc == RC_OK)
        rc = db_commit(db, err);
    if (rc != RC_OK && db_in_transaction(db))
        db_rollback(db);
    buf_done(&action_run.sql);
    return rc;
}
