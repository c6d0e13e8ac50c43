/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/ends_mysql.h"

#include "common/utf8.h"
#include "outbox/retry/store/ids_mysql.h"
#include "outbox/retry/store/parts_mysql.h"

#include <string.h>

/* Later than anybody waits, and within what a DATETIME holds. */
#define DELAY_MS_MAX (INT64_C(100) * 366 * 86400 * 1000)
#define REASON_BYTES_MAX (TASK_REASON_SIZE - 1)

_Static_assert(ENDS_AT_ONCE <= IDS_AT_ONCE, "one list of ids for one statement");

static void put_ids(struct retry_mysql *store, const struct ending *const *endings, size_t count)
{
    int64_t ids[ENDS_AT_ONCE];

    for (size_t i = 0; i < count; i++)
        ids[i] = endings[i]->result->id;
    ids_put(&store->sql, ids, count);
}

/* A JSON text of at most bytes_max; what is no UTF-8 becomes '?', because the servers would refuse
 * the whole statement. */
static void put_json(struct buf *json, const char *text, size_t bytes_max)
{
    size_t len = strlen(text);

    buf_char(json, '"');
    for (size_t i = 0, step; i < len; i += step) {
        unsigned char c = (unsigned char)text[i];
        size_t size = utf8_len(text + i);

        step = size > 0 ? size : 1;
        if (i + step > bytes_max)
            break;
        if (c == '"' || c == '\\')
            buf_char(json, '\\');
        if (c < 0x20)
            buf_print(json, "\\u%04x", c);
        else if (size == 0)
            buf_char(json, '?');
        else
            buf_put(json, text + i, step);
    }
    buf_char(json, '"');
}

static int64_t delay_us(const struct task_result *result)
{
    int64_t delay_ms = result->delay_ms < DELAY_MS_MAX ? result->delay_ms : DELAY_MS_MAX;

    return delay_ms > 0 ? delay_ms * 1000 : 0;
}

/* The results as a table l of id, attempts, delay_us, reason_class and reason, and behind it the
 * tasks t, found by their ids. */
static void put_join(struct retry_mysql *store, const struct ending *const *endings, size_t count)
{
    struct buf *json = &store->json;

    buf_reset(json);
    for (size_t i = 0; i < count; i++) {
        const struct task_result *result = endings[i]->result;

        buf_print(json, "%s[%lld,%lld,%lld,", i > 0 ? "," : "[", (long long)result->id,
                  (long long)result->attempts, (long long)delay_us(result));
        put_json(json, result->reason_class ? result->reason_class : "", 32);
        buf_char(json, ',');
        put_json(json, result->reason ? result->reason : "", REASON_BYTES_MAX);
        buf_char(json, ']');
    }
    buf_char(json, ']');
    store->sql.failed = store->sql.failed || json->failed;
    store_put(store, "JSON_TABLE(");
    db_put_text(store->db, &store->sql, json->data, json->len);
    store_put(store,
              ", '$[*]' COLUMNS (id BIGINT PATH '$[0]', attempts INT PATH '$[1]', "
              "delay_us BIGINT PATH '$[2]', "
              "reason_class VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]', "
              "reason VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[4]')) AS l "
              "STRAIGHT_JOIN retry_task t FORCE INDEX (PRIMARY) ON t.id = l.id");
}

enum rc ends_forget_attempts(struct retry_mysql *store, const struct ending *const *endings,
                             size_t count, struct err *err)
{
    store_put(store, "DELETE a FROM retry_attempt AS a FORCE INDEX (ix_retry_attempt_task) "
                     "WHERE a.task_id ");
    put_ids(store, endings, count);
    return store_exec(store, NULL, err);
}

enum rc ends_note_attempts(struct retry_mysql *store, const struct ending *const *endings,
                           size_t count, struct err *err)
{
    store_put(store, "INSERT INTO retry_attempt (task_id, attempted_at, owner, step, took_ms, "
                     "outcome, reason_class, reason) SELECT t.id, UTC_TIMESTAMP(3) - INTERVAL "
                     "l.took_ms * 1000 MICROSECOND, t.owner, t.step, l.took_ms, l.outcome, "
                     "l.reason_class, l.reason FROM JSON_TABLE(");
    buf_reset(&store->json);
    for (size_t i = 0; i < count; i++) {
        const struct task_result *result = endings[i]->result;

        buf_print(&store->json, "%s[%lld,%lld,", i > 0 ? "," : "[", (long long)result->id,
                  (long long)(result->took_ms > 0 ? result->took_ms : 0));
        put_json(&store->json, result->outcome, 16);
        buf_char(&store->json, ',');
        put_json(&store->json, result->reason_class ? result->reason_class : "", 32);
        buf_char(&store->json, ',');
        put_json(&store->json, result->reason ? result->reason : "", REASON_BYTES_MAX);
        buf_char(&store->json, ']');
    }
    buf_char(&store->json, ']');
    store->sql.failed = store->sql.failed || store->json.failed;
    db_put_text(store->db, &store->sql, store->json.data, store->json.len);
    store_put(store,
              ", '$[*]' COLUMNS (id BIGINT PATH '$[0]', took_ms BIGINT PATH '$[1]', "
              "outcome VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PATH '$[2]', "
              "reason_class VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]', "
              "reason VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[4]')) AS l "
              "STRAIGHT_JOIN retry_task t FORCE INDEX (PRIMARY) ON t.id = l.id");
    return store_exec(store, NULL, err);
}

enum rc ends_call_back(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                       struct err *err)
{
    store_put(store, "INSERT INTO retry_task (task_group, origin, scene, handler, idempotency_key, "
                     "params, params_type, parent_id) VALUES ");
    for (size_t i = 0; i < count; i++) {
        const struct task_result *result = endings[i]->result;

        store_put(store, i > 0 ? ", (" : "(");
        store_put_text(store, endings[i]->group);
        store_put(store, ", ");
        store_put_text(store, retry_owner_name(endings[i]->origin));
        store_put(store, ", ");
        store_put_text(store, result->callback_scene);
        store_put(store, ", ");
        store_put_text(store, result->callback_handler);
        buf_print(&store->sql, ", 'callback/%lld/%s', ", (long long)result->id,
                  result->end == TASK_END_DONE ? "done" : "exhausted");
        db_put_bytes(store->db, &store->sql, result->callback_params,
                     result->callback_params ? strlen(result->callback_params) : 0);
        buf_print(&store->sql, ", 'application/json', %lld)", (long long)result->id);
    }
    store_put(store, " ON DUPLICATE KEY UPDATE id = id");
    return store_exec(store, NULL, err);
}

static enum rc keep(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                    const char *outcome, struct err *err)
{
    store_put(
        store,
        "INSERT INTO retry_task_history (id, task_group, scene, handler, ordering_key, "
        "idempotency_key, biz_no, options, params, params_type, state, attempts, next_at, "
        "reason_class, reason, owner, epoch, lease_until, parent_id, step, step_result, "
        "origin, created_at, updated_at, outcome, ended_at) SELECT t.id, t.task_group, t.scene, "
        "t.handler, t.ordering_key, t.idempotency_key, t.biz_no, t.options, t.params, "
        "t.params_type, t.state, l.attempts, t.next_at, "
        "IF(l.reason_class = '', t.reason_class, l.reason_class), "
        "IF(l.reason = '', t.reason, l.reason), t.owner, t.epoch, t.lease_until, "
        "t.parent_id, t.step, t.step_result, t.origin, t.created_at, UTC_TIMESTAMP(3), ");
    store_put_text(store, outcome);
    store_put(store, ", UTC_TIMESTAMP(3) FROM ");
    put_join(store, endings, count);
    /* Somebody may have let it run once more and left the row of its first end there. */
    store_put(store, " ON DUPLICATE KEY UPDATE state = VALUES(state), attempts = VALUES(attempts), "
                     "reason_class = VALUES(reason_class), reason = VALUES(reason), "
                     "owner = VALUES(owner), epoch = VALUES(epoch), step = VALUES(step), "
                     "updated_at = VALUES(updated_at), outcome = VALUES(outcome), "
                     "ended_at = VALUES(ended_at)");
    return store_exec(store, NULL, err);
}

enum rc ends_keep_done(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                       struct err *err)
{
    return keep(store, endings, count, "done", err);
}

enum rc ends_keep_exhausted(struct retry_mysql *store, const struct ending *const *endings,
                            size_t count, struct err *err)
{
    return keep(store, endings, count, "exhausted", err);
}

enum rc ends_delete(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                    struct err *err)
{
    store_put(store, "DELETE t FROM retry_task AS t FORCE INDEX (PRIMARY) WHERE t.id ");
    put_ids(store, endings, count);
    return store_exec(store, NULL, err);
}

/* What no longer runs; the reason stays where the result has none. */
#define NOT_RUNNING "t.owner = '', t.lease_until = NULL, t.updated_at = UTC_TIMESTAMP(3)"
#define FAILED                                                                             \
    NOT_RUNNING                                                                            \
    ", t.attempts = l.attempts, t.reason_class = IF(l.reason_class = '', t.reason_class, " \
    "l.reason_class), t.reason = IF(l.reason = '', t.reason, l.reason)"

static enum rc change(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                      const char *assignments, struct err *err)
{
    store_put(store, "UPDATE ");
    put_join(store, endings, count);
    store_put(store, " SET ");
    store_put(store, assignments);
    return store_exec(store, NULL, err);
}

enum rc ends_again(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                   struct err *err)
{
    return change(
        store, endings, count,
        "t.state = 0, t.next_at = UTC_TIMESTAMP(3) + INTERVAL l.delay_us MICROSECOND, " FAILED,
        err);
}

enum rc ends_back(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                  struct err *err)
{
    store_put(store, "UPDATE retry_task AS t FORCE INDEX (PRIMARY) SET t.state = 0, " NOT_RUNNING
                     " WHERE t.id ");
    put_ids(store, endings, count);
    return store_exec(store, NULL, err);
}

enum rc ends_step(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                  struct err *err)
{
    enum rc rc = RC_OK;

    /* One by one: a step's result may be large. */
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        const struct task_result *result = endings[i]->result;

        buf_print(&store->sql,
                  "UPDATE retry_task AS t FORCE INDEX (PRIMARY) SET t.state = 0, "
                  "t.step = t.step + 1, t.attempts = %lld, t.next_at = UTC_TIMESTAMP(3), "
                  "t.step_result = ",
                  (long long)result->attempts);
        db_put_bytes(store->db, &store->sql, result->step_result, result->step_result_len);
        buf_print(&store->sql, ", " NOT_RUNNING " WHERE t.id = %lld", (long long)result->id);
        rc = store_exec(store, NULL, err);
    }
    return rc;
}

/* Of a task that stands in its key's way, next_at is since when. */
enum rc ends_block(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                   struct err *err)
{
    return change(store, endings, count, "t.state = 3, t.next_at = UTC_TIMESTAMP(3), " FAILED, err);
}

enum rc ends_park(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                  struct err *err)
{
    return change(store, endings, count,
                  "t.state = 4, t.next_at = UTC_TIMESTAMP(3), t.params = NULL, "
                  "t.step_result = NULL, " FAILED,
                  err);
}
