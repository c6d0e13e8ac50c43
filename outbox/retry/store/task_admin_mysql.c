/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/task_admin_mysql.h"

#include "common/buf.h"
#include "outbox/retry/store/store_mysql.h"
#include "outbox/retry/store/wake_mysql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHAT_IT_DOES                                                                       \
    "task_group, scene, handler, ordering_key, idempotency_key, biz_no, options, params, " \
    "params_type, origin"
#define HISTORY_COLUMNS                                                                          \
    "id, " WHAT_IT_DOES ", state, attempts, next_at, reason_class, reason, epoch, lease_until, " \
    "parent_id, step, step_result, created_at, updated_at"

/* Back to the beginning, as if nothing had failed. */
#define FRESH                                                                            \
    "state = 0, attempts = 0, next_at = UTC_TIMESTAMP(3), age_from = UTC_TIMESTAMP(3), " \
    "owner = '', lease_until = NULL, updated_at = UTC_TIMESTAMP(3)"

/* What is done under the locks: each result has got its state, or that there is no such task. */
struct acting {
    struct db *db;
    const struct task_admin_order *order;
    struct task_admin_result *results;
    size_t count;
    struct order_key hashes[TASK_ADMIN_ROWS_MAX]; /* of the tasks; "": no order */
    struct order_key wakes[TASK_ADMIN_ROWS_MAX];
    size_t wake_count;
    struct buf sql;
};

static enum rc run(struct acting *acting, uint64_t *affected, struct err *err)
{
    return db_exec_buf(acting->db, &acting->sql, affected, err);
}

static struct task_admin_result *result_of(struct acting *acting, int64_t id, size_t *index)
{
    for (*index = 0; *index < acting->count; ++*index)
        if (acting->results[*index].id == id)
            return &acting->results[*index];
    return NULL;
}

static enum rc lock(struct acting *acting, const char *select, db_on_row on_row, struct err *err)
{
    int64_t ids[TASK_ADMIN_ROWS_MAX];

    for (size_t i = 0; i < acting->count; i++)
        ids[i] = acting->results[i].id;
    buf_reset(&acting->sql);
    buf_text_put(&acting->sql, select);
    store_put_ids(&acting->sql, ids, acting->count);
    buf_text_put(&acting->sql, " FOR UPDATE");
    return db_query_buf(acting->db, &acting->sql, on_row, acting, err);
}

static enum rc task_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct acting *acting = ctx;
    size_t index;
    struct task_admin_result *result = result_of(acting, db_column_i64(row, 0), &index);

    (void)err;
    if (!result)
        return RC_OK;
    result->outcome = TASK_ADMIN_UNFIT;
    result->state = (enum task_state)db_column_i64(row, 1);
    if (row->columns[2])
        snprintf(acting->hashes[index].hash, sizeof(acting->hashes[index].hash), "%s",
                 row->columns[2]);
    return RC_OK;
}

static enum rc ended_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct acting *acting = ctx;
    size_t index;
    struct task_admin_result *result = result_of(acting, db_column_i64(row, 0), &index);

    (void)err;
    if (result && result->outcome == TASK_ADMIN_UNKNOWN) {
        result->outcome = TASK_ADMIN_ENDED;
        result->other = db_column_i64(row, 1);
    }
    return RC_OK;
}

/* Which of those that are no tasks have been some. */
static enum rc ended_look(struct acting *acting, struct err *err)
{
    bool missing = false;

    for (size_t i = 0; i < acting->count; i++)
        missing = missing || acting->results[i].outcome == TASK_ADMIN_UNKNOWN;
    if (!missing)
        return RC_OK;
    buf_reset(&acting->sql);
    buf_text_put(&acting->sql, "SELECT id, requeued_as FROM retry_task_history WHERE id IN (0");
    for (size_t i = 0; i < acting->count; i++)
        if (acting->results[i].outcome == TASK_ADMIN_UNKNOWN)
            buf_print(&acting->sql, ",%" PRId64, acting->results[i].id);
    buf_char(&acting->sql, ')');
    return db_query_buf(acting->db, &acting->sql, ended_on_row, acting, err);
}

static void key_goes_on(struct acting *acting, size_t index)
{
    if (acting->hashes[index].hash[0])
        acting->wakes[acting->wake_count++] = acting->hashes[index];
}

static enum rc task_freshen(struct acting *acting, size_t index, struct err *err)
{
    buf_reset(&acting->sql);
    buf_print(&acting->sql, "UPDATE retry_task SET " FRESH " WHERE id = %" PRId64,
              acting->results[index].id);
    key_goes_on(acting, index);
    return run(acting, NULL, err);
}

static enum rc task_hasten(struct acting *acting, size_t index, struct err *err)
{
    buf_reset(&acting->sql);
    buf_print(&acting->sql,
              "UPDATE retry_task SET next_at = LEAST(next_at, UTC_TIMESTAMP(3)) WHERE id = "
              "%" PRId64,
              acting->results[index].id);
    return run(acting, NULL, err);
}

static enum rc task_delete(struct acting *acting, size_t index, struct err *err)
{
    buf_reset(&acting->sql);
    buf_print(&acting->sql, "DELETE FROM retry_task WHERE id = %" PRId64,
              acting->results[index].id);
    key_goes_on(acting, index);
    return run(acting, NULL, err);
}

/* An owner that is at work on it finds nothing that it could write to. */
static enum rc task_cancel(struct acting *acting, size_t index, struct err *err)
{
    const char *by = acting->order->by;
    enum rc rc;

    buf_reset(&acting->sql);
    buf_text_put(&acting->sql,
                 "INSERT INTO retry_task_history (" HISTORY_COLUMNS ", owner, outcome, ended_at) "
                 "SELECT " HISTORY_COLUMNS ", ");
    db_put_text(acting->db, &acting->sql, by, strlen(by));
    buf_print(&acting->sql, ", 'cancelled', UTC_TIMESTAMP(3) FROM retry_task WHERE id = %" PRId64,
              acting->results[index].id);
    rc = run(acting, NULL, err);
    return rc == RC_OK ? task_delete(acting, index, err) : rc;
}

static bool is_waiting(enum task_state state)
{
    return state == TASK_WAITING || state == TASK_QUEUED;
}

/* What the action does to a task in its state; the outcome stays TASK_ADMIN_UNFIT where that is
 * nothing. */
static enum rc task_act(struct acting *acting, size_t index, struct err *err)
{
    struct task_admin_result *result = &acting->results[index];
    enum task_admin_action action = acting->order->action;
    enum task_state state = result->state;
    enum rc rc;

    if (state == TASK_RUNNING && !(action == TASK_ADMIN_CANCEL && acting->order->force)) {
        result->outcome = TASK_ADMIN_RUNNING;
        return RC_OK;
    }
    if ((action == TASK_ADMIN_CANCEL && state != TASK_PARKED) ||
        (action == TASK_ADMIN_SKIP && state == TASK_BLOCKED))
        rc = task_cancel(acting, index, err);
    else if (action == TASK_ADMIN_RUN_NOW && state == TASK_WAITING)
        rc = task_hasten(acting, index, err);
    else if (state == TASK_BLOCKED && action != TASK_ADMIN_CANCEL)
        rc = task_freshen(acting, index, err);
    else if (state == TASK_PARKED && (action == TASK_ADMIN_UNPARK || action == TASK_ADMIN_SKIP))
        rc = task_delete(acting, index, err);
    else {
        if (is_waiting(state) && (action == TASK_ADMIN_UNPARK || action == TASK_ADMIN_SKIP))
            result->outcome = TASK_ADMIN_WAS_SO;
        return RC_OK;
    }
    if (rc == RC_OK)
        result->outcome = TASK_ADMIN_DID;
    return rc;
}

static enum rc tasks_act(struct acting *acting, struct err *err)
{
    unsigned states = acting->order->states;
    enum rc rc = lock(acting,
                      "SELECT id, state, HEX(order_hash) FROM retry_task FORCE INDEX (PRIMARY) "
                      "WHERE id ",
                      task_on_row, err);

    for (size_t i = 0; rc == RC_OK && i < acting->count; i++) {
        const struct task_admin_result *result = &acting->results[i];

        if (result->outcome == TASK_ADMIN_UNKNOWN ||
            (states != 0 && (states & 1U << result->state) == 0))
            continue;
        rc = task_act(acting, i, err);
    }
    if (rc == RC_OK)
        rc = wake_keys(acting->db, acting->wakes, acting->wake_count, err);
    return rc == RC_OK ? ended_look(acting, err) : rc;
}

static enum rc history_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct acting *acting = ctx;
    size_t index;
    struct task_admin_result *result = result_of(acting, db_column_i64(row, 0), &index);

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

/* One task may be active for what it does: if that is another one, it stands for this one too. */
static enum rc history_requeue(struct acting *acting, struct task_admin_result *result,
                               struct err *err)
{
    struct active active = {0};
    uint64_t affected = 0;
    enum rc rc;

    buf_reset(&acting->sql);
    buf_print(&acting->sql,
              "INSERT INTO retry_task (" WHAT_IT_DOES
              ", parent_id, step, step_result) SELECT " WHAT_IT_DOES
              ", id, step, step_result FROM retry_task_history WHERE id = %" PRId64
              " ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(retry_task.id)",
              result->id);
    rc = run(acting, &affected, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&acting->sql);
    buf_text_put(&acting->sql, "SELECT id, parent_id FROM retry_task WHERE id = LAST_INSERT_ID()");
    rc = db_query_buf(acting->db, &acting->sql, active_on_row, &active, err);
    if (rc != RC_OK)
        return rc;
    result->other = active.id;
    result->outcome =
        affected == 1 && active.parent_id == result->id ? TASK_ADMIN_DID : TASK_ADMIN_ACTIVE;
    if (result->outcome == TASK_ADMIN_ACTIVE)
        return RC_OK;
    buf_reset(&acting->sql);
    buf_print(&acting->sql,
              "UPDATE retry_task_history SET requeued_as = %" PRId64 " WHERE id = %" PRId64,
              active.id, result->id);
    return run(acting, NULL, err);
}

static enum rc history_act(struct acting *acting, struct err *err)
{
    enum rc rc = lock(acting,
                      "SELECT id, requeued_as FROM retry_task_history FORCE INDEX (PRIMARY) WHERE "
                      "id ",
                      history_on_row, err);

    for (size_t i = 0; rc == RC_OK && i < acting->count; i++)
        if (acting->results[i].outcome == TASK_ADMIN_UNFIT)
            rc = history_requeue(acting, &acting->results[i], err);
    return rc;
}

enum rc task_admin_mysql_act(struct db *db, const struct task_admin_order *order,
                             const int64_t *ids, size_t count, struct task_admin_result *results,
                             struct err *err)
{
    struct acting acting = {.db = db, .order = order, .results = results, .count = count};
    enum rc rc = db_begin(db, err);

    assert(count > 0 && count <= TASK_ADMIN_ROWS_MAX);
    for (size_t i = 0; i < count; i++)
        results[i] = (struct task_admin_result){.id = ids[i], .outcome = TASK_ADMIN_UNKNOWN};
    if (rc == RC_OK)
        rc = order->action == TASK_ADMIN_REQUEUE ? history_act(&acting, err)
                                                 : tasks_act(&acting, err);
    if (rc == RC_OK)
        rc = db_commit(db, err);
    if (rc != RC_OK && db_in_transaction(db))
        db_rollback(db);
    buf_done(&acting.sql);
    return rc;
}

static enum rc task_edit(struct acting *acting, const struct task_admin_edit *edit, struct err *err)
{
    buf_reset(&acting->sql);
    buf_text_put(&acting->sql, "UPDATE retry_task SET epoch = epoch + 1, updated_at = "
                               "UTC_TIMESTAMP(3)");
    if (edit->options) {
        buf_text_put(&acting->sql, ", options = ");
        if (edit->options[0])
            db_put_text(acting->db, &acting->sql, edit->options, strlen(edit->options));
        else
            buf_text_put(&acting->sql, "NULL");
    }
    if (edit->params) {
        buf_text_put(&acting->sql, ", params = ");
        db_put_bytes(acting->db, &acting->sql, edit->params, edit->params_len);
    }
    buf_print(&acting->sql, " WHERE id = %" PRId64, edit->id);
    return run(acting, NULL, err);
}

static enum rc edit_under_lock(struct acting *acting, const struct task_admin_edit *edit,
                               struct err *err)
{
    struct task_admin_result *result = acting->results;
    enum rc rc = lock(acting,
                      "SELECT id, state, HEX(order_hash) FROM retry_task FORCE INDEX (PRIMARY) "
                      "WHERE id ",
                      task_on_row, err);

    if (rc != RC_OK || result->outcome == TASK_ADMIN_UNKNOWN)
        return rc == RC_OK ? ended_look(acting, err) : rc;
    if (result->state == TASK_RUNNING)
        result->outcome = TASK_ADMIN_RUNNING;
    else if (result->state != TASK_PARKED) {
        rc = task_edit(acting, edit, err);
        result->outcome = TASK_ADMIN_DID;
    }
    return rc;
}

enum rc task_admin_mysql_edit(struct db *db, const struct task_admin_edit *edit,
                              struct task_admin_result *result, struct err *err)
{
    struct acting acting = {.db = db, .results = result, .count = 1};
    enum rc rc = db_begin(db, err);

    assert(edit->options || edit->params);
    *result = (struct task_admin_result){.id = edit->id, .outcome = TASK_ADMIN_UNKNOWN};
    if (rc == RC_OK)
        rc = edit_under_lock(&acting, edit, err);
    if (rc == RC_OK)
        rc = db_commit(db, err);
    if (rc != RC_OK && db_in_transaction(db))
        db_rollback(db);
    buf_done(&acting.sql);
    return rc;
}
