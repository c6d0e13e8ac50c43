/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/finish_mysql.h"

#include "common/text.h"
#include "outbox/retry/policy/order.h"
#include "outbox/retry/store/wake_mysql.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Changes in one statement, at most. */
#define CHANGES_AT_ONCE 500

/* A statement with callbacks ends at about this many bytes. */
#define CALLBACKS_BYTES ((size_t)1 << 20)

_Static_assert(CHANGES_AT_ONCE <= STORE_IDS_MAX, "one list of ids for one statement");

struct change {
    const struct task_update *update;
    size_t place; /* among the updates */
    enum task_written written;
    struct order_key key; /* "": none */
    char group[TASK_NAME_SIZE];
    enum retry_owner origin;
};

/* Longer than any wait, and within the range of DATETIME. */
#define DELAY_MS_MAX (INT64_C(100) * 366 * 86400 * 1000)
#define REASON_BYTES_MAX (TASK_REASON_SIZE - 1)

struct finishing {
    struct change changes[RETRY_UPDATES_MAX]; /* by id */
    size_t count;
    const struct change *picked[RETRY_UPDATES_MAX];
    struct order_key keys[RETRY_UPDATES_MAX];
};

static int compare_changes(const void *one, const void *other)
{
    const struct change *a = one;
    const struct change *b = other;

    return (a->update->id > b->update->id) - (a->update->id < b->update->id);
}

static void list_changes(struct finishing *finishing, const struct task_update *updates,
                         size_t count)
{
    memset(finishing->changes, 0, count * sizeof(finishing->changes[0]));
    for (size_t i = 0; i < count; i++) {
        finishing->changes[i].update = &updates[i];
        finishing->changes[i].place = i;
        finishing->changes[i].written = TASK_LOST;
    }
    finishing->count = count;
    qsort(finishing->changes, count, sizeof(finishing->changes[0]), compare_changes);
}

static struct change *find_change(struct finishing *finishing, int64_t id)
{
    const struct task_update like = {.id = id};
    const struct change key = {.update = &like};

    return bsearch(&key, finishing->changes, finishing->count, sizeof(finishing->changes[0]),
                   compare_changes);
}

/* Invariant Q3: only a running task that has the epoch of its update is changed. */
static enum rc locked_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct change *change = find_change(ctx, db_column_i64(row, 0));

    (void)err;
    if (!change || db_column_i64(row, 1) != change->update->epoch ||
        db_column_i64(row, 2) != TASK_RUNNING)
        return RC_OK;
    change->written = TASK_WRITTEN;
    if (row->columns[3] && row->lengths[3] < sizeof(change->key.hash))
        memcpy(change->key.hash, row->columns[3], row->lengths[3]);
    if (row->lengths[4] < sizeof(change->group))
        memcpy(change->group, row->columns[4], row->lengths[4]);
    if (!retry_owner_read(row->columns[5], row->lengths[5], &change->origin))
        change->origin = OWNER_CLIENT;
    return RC_OK;
}

/* Locks in the order of ids, as all transactions that lock several tasks. */
static enum rc lock_tasks(struct store *store, struct err *err)
{
    struct finishing *finishing = store->finishing;
    enum rc rc = RC_OK;

    for (size_t done = 0; done < finishing->count && rc == RC_OK;) {
        int64_t ids[STORE_IDS_MAX];
        size_t count = 0;

        while (count < STORE_IDS_MAX && done < finishing->count)
            ids[count++] = finishing->changes[done++].update->id;
        store_put(store,
                  "SELECT id, epoch, state, HEX(order_hash), task_group, origin FROM retry_task "
                  "FORCE INDEX (PRIMARY) WHERE id ");
        store_put_ids(&store->sql, ids, count);
        store_put(store, " FOR UPDATE");
        rc = store_query(store, locked_on_row, finishing, err);
    }
    return rc;
}

static enum rc version_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct change *change = find_change(ctx, db_column_i64(row, 0));

    (void)err;
    if (change && db_column_i64(row, 1) != change->update->scene_version)
        change->written = TASK_OUTDATED;
    return RC_OK;
}

/* Invariant Q10: a task that ran, or whose deadline passed, under another version of its scene is
 * not exhausted. The tasks are locked. */
static enum rc compare_scenes(struct store *store, struct err *err)
{
    struct finishing *finishing = store->finishing;
    enum rc rc = RC_OK;

    for (size_t next = 0; next < finishing->count && rc == RC_OK;) {
        int64_t ids[STORE_IDS_MAX];
        size_t count = 0;

        for (; count < STORE_IDS_MAX && next < finishing->count; next++) {
            const struct change *change = &finishing->changes[next];

            if (change->written == TASK_WRITTEN && task_end_exhausts(change->update->end))
                ids[count++] = change->update->id;
        }
        if (count == 0)
            return RC_OK;
        store_put(store, "SELECT t.id, " STORE_SCENE_VERSION
                         " FROM retry_task t FORCE INDEX (PRIMARY) WHERE t.id ");
        store_put_ids(&store->sql, ids, count);
        rc = store_query(store, version_on_row, finishing, err);
    }
    return rc;
}

static void put_ids(struct store *store, const struct change *const *changes, size_t count)
{
    int64_t ids[CHANGES_AT_ONCE];

    for (size_t i = 0; i < count; i++)
        ids[i] = changes[i]->update->id;
    store_put_ids(&store->sql, ids, count);
}

/* A JSON text of at most bytes_max; a byte that is not UTF-8 becomes '?', because the servers
 * would refuse the whole statement. */
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

static int64_t delay_us(const struct task_update *update)
{
    int64_t delay_ms = update->delay_ms < DELAY_MS_MAX ? update->delay_ms : DELAY_MS_MAX;

    return delay_ms > 0 ? delay_ms * 1000 : 0;
}

/* Appends when the task will be exhausted, from now, or null. */
static void put_exhausts_us(struct buf *json, const struct task_update *update)
{
    if (update->exhausts_in_ms < 0 || update->exhausts_in_ms > DELAY_MS_MAX)
        buf_text_put(json, "null");
    else
        buf_i64(json, update->exhausts_in_ms * 1000);
}

/* Appends how long a done task or a duplicate is kept, or null. */
static void put_keep_us(struct buf *json, const struct task_update *update)
{
    if ((update->end != TASK_END_DONE && update->end != TASK_END_DUPLICATE) ||
        update->keep_ms <= 0 || update->keep_ms > DELAY_MS_MAX)
        buf_text_put(json, "null");
    else
        buf_i64(json, update->keep_ms * 1000);
}

/* Appends how long its idempotency key is refused, or null. */
static void put_dedup_us(struct buf *json, const struct task_update *update)
{
    if (update->dedup_ms <= 0 || update->dedup_ms > DELAY_MS_MAX)
        buf_text_put(json, "null");
    else
        buf_i64(json, update->dedup_ms * 1000);
}

/* The updates as a table l of id, attempts, delay_us, exhausts_us, keep_us, dedup_us, reason_class
 * and reason, joined with the tasks t by their ids. */
static void put_join(struct store *store, const struct change *const *changes, size_t count)
{
    struct buf *json = &store->json;

    buf_reset(json);
    for (size_t i = 0; i < count; i++) {
        const struct task_update *update = changes[i]->update;

        buf_print(json, "%s[%lld,%lld,%lld,", i > 0 ? "," : "[", (long long)update->id,
                  (long long)update->attempts, (long long)delay_us(update));
        put_exhausts_us(json, update);
        buf_char(json, ',');
        put_keep_us(json, update);
        buf_char(json, ',');
        put_dedup_us(json, update);
        buf_char(json, ',');
        put_json(json, update->reason_class ? update->reason_class : "", 32);
        buf_char(json, ',');
        put_json(json, update->reason ? update->reason : "", REASON_BYTES_MAX);
        buf_char(json, ']');
    }
    buf_char(json, ']');
    store->sql.failed = store->sql.failed || json->failed;
    store_put(store, "JSON_TABLE(");
    db_put_text(store->db, &store->sql, json->data, json->len);
    store_put(store,
              ", '$[*]' COLUMNS (id BIGINT PATH '$[0]', attempts INT PATH '$[1]', "
              "delay_us BIGINT PATH '$[2]', exhausts_us BIGINT PATH '$[3]', "
              "keep_us BIGINT PATH '$[4]', dedup_us BIGINT PATH '$[5]', "
              "reason_class VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PATH '$[6]', "
              "reason VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[7]')) AS l "
              "STRAIGHT_JOIN retry_task t FORCE INDEX (PRIMARY) ON t.id = l.id");
}

static enum rc delete_attempts(struct store *store, const struct change *const *changes,
                               size_t count, struct err *err)
{
    store_put(store, "DELETE a FROM retry_attempt AS a FORCE INDEX (ix_retry_attempt_task) "
                     "WHERE a.task_id ");
    put_ids(store, changes, count);
    return store_exec(store, NULL, err);
}

static enum rc insert_attempts(struct store *store, const struct change *const *changes,
                               size_t count, struct err *err)
{
    store_put(store, "INSERT INTO retry_attempt (task_id, attempted_at, owner, step, took_ms, "
                     "outcome, reason_class, reason) SELECT t.id, UTC_TIMESTAMP(3) - INTERVAL "
                     "l.took_ms * 1000 MICROSECOND, RTRIM(t.owner), t.step, l.took_ms, l.outcome, "
                     "l.reason_class, l.reason FROM JSON_TABLE(");
    buf_reset(&store->json);
    for (size_t i = 0; i < count; i++) {
        const struct task_update *update = changes[i]->update;

        buf_print(&store->json, "%s[%lld,%lld,", i > 0 ? "," : "[", (long long)update->id,
                  (long long)(update->took_ms > 0 ? update->took_ms : 0));
        put_json(&store->json, update->outcome, 16);
        buf_char(&store->json, ',');
        put_json(&store->json, update->reason_class ? update->reason_class : "", 32);
        buf_char(&store->json, ',');
        put_json(&store->json, update->reason ? update->reason : "", REASON_BYTES_MAX);
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

static void put_callback(struct store *store, const struct change *change)
{
    const struct task_update *update = change->update;

    store_put(store, "(");
    store_put_text(store, change->group);
    store_put(store, ", ");
    store_put_text(store, retry_owner_name(change->origin));
    store_put(store, ", ");
    store_put_text(store, update->callback_scene);
    store_put(store, ", ");
    store_put_text(store, update->callback_handler);
    buf_print(&store->sql, ", 'callback/%lld/%s', ", (long long)update->id,
              update->end == TASK_END_DONE ? "done" : "exhausted");
    db_put_bytes(store->db, &store->sql, update->callback_params,
                 update->callback_params ? strlen(update->callback_params) : 0);
    store_put(store, ", 'application/json', ");
    if (update->traceparent)
        store_put_text(store, update->traceparent);
    else
        store_put(store, "NULL");
    buf_print(&store->sql, ", %lld)", (long long)update->id);
}

/* Callbacks carry parameters: a statement ends at CALLBACKS_BYTES. */
static enum rc insert_callbacks(struct store *store, const struct change *const *changes,
                                size_t count, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t next = 0; next < count && rc == RC_OK;) {
        store_put(store,
                  "INSERT INTO retry_task (task_group, origin, scene, handler, idempotency_key, "
                  "params, params_type, traceparent, parent_id) VALUES ");
        put_callback(store, changes[next++]);
        while (next < count && store->sql.len < CALLBACKS_BYTES) {
            store_put(store, ", ");
            put_callback(store, changes[next++]);
        }
        store_put(store, " ON DUPLICATE KEY UPDATE id = id");
        rc = store_exec(store, NULL, err);
    }
    return rc;
}

static enum rc insert_history(struct store *store, const struct change *const *changes,
                              size_t count, const char *outcome, struct err *err)
{
    store_put(
        store,
        "INSERT INTO retry_task_history (id, task_group, scene, handler, ordering_key, "
        "idempotency_key, biz_no, options, params, params_type, traceparent, state, attempts, "
        "next_at, "
        "reason_class, reason, owner, epoch, lease_until, parent_id, step, step_result, "
        "origin, created_at, updated_at, keep_until, dedup_until, dedup_hash, outcome, ended_at) "
        "SELECT t.id, t.task_group, "
        "t.scene, "
        "t.handler, t.ordering_key, t.idempotency_key, t.biz_no, t.options, t.params, "
        "t.params_type, t.traceparent, t.state, l.attempts, t.next_at, "
        "IF(l.reason_class = '', t.reason_class, l.reason_class), "
        "IF(l.reason = '', t.reason, l.reason), RTRIM(t.owner), t.epoch, t.lease_until, "
        "t.parent_id, t.step, t.step_result, t.origin, t.created_at, UTC_TIMESTAMP(3), "
        "UTC_TIMESTAMP(3) + INTERVAL l.keep_us MICROSECOND, "
        "UTC_TIMESTAMP(3) + INTERVAL l.dedup_us MICROSECOND, "
        "IF(l.dedup_us IS NULL, NULL, t.task_hash), ");
    store_put_text(store, outcome);
    store_put(store, ", UTC_TIMESTAMP(3) FROM ");
    put_join(store, changes, count);
    /* The task may have been requeued before, and the history still has the row of its first
     * end. */
    store_put(store, " ON DUPLICATE KEY UPDATE state = VALUES(state), attempts = VALUES(attempts), "
                     "reason_class = VALUES(reason_class), reason = VALUES(reason), "
                     "owner = VALUES(owner), epoch = VALUES(epoch), step = VALUES(step), "
                     "updated_at = VALUES(updated_at), keep_until = VALUES(keep_until), "
                     "dedup_until = VALUES(dedup_until), dedup_hash = VALUES(dedup_hash), "
                     "outcome = VALUES(outcome), "
                     "ended_at = VALUES(ended_at)");
    return store_exec(store, NULL, err);
}

static enum rc insert_done(struct store *store, const struct change *const *changes, size_t count,
                           struct err *err)
{
    return insert_history(store, changes, count, "done", err);
}

static enum rc insert_exhausted(struct store *store, const struct change *const *changes,
                                size_t count, struct err *err)
{
    return insert_history(store, changes, count, "exhausted", err);
}

static enum rc insert_duplicates(struct store *store, const struct change *const *changes,
                                 size_t count, struct err *err)
{
    return insert_history(store, changes, count, "cancelled", err);
}

static enum rc delete_tasks(struct store *store, const struct change *const *changes, size_t count,
                            struct err *err)
{
    store_put(store, "DELETE t FROM retry_task AS t FORCE INDEX (PRIMARY) WHERE t.id ");
    put_ids(store, changes, count);
    return store_exec(store, NULL, err);
}

/* What no longer runs; the reason stays where the update has none. */
#define NOT_RUNNING                                                                     \
    "t.owner = " STORE_NO_OWNER ", t.lease_until = " STORE_NO_LEASE ", t.updated_at = " \
    "UTC_TIMESTAMP(3)"
#define FAILED                                                                             \
    NOT_RUNNING                                                                            \
    ", t.attempts = l.attempts, t.reason_class = IF(l.reason_class = '', t.reason_class, " \
    "l.reason_class), t.reason = IF(l.reason = '', t.reason, l.reason)"

static enum rc update_tasks(struct store *store, const struct change *const *changes, size_t count,
                            const char *assignments, struct err *err)
{
    store_put(store, "UPDATE ");
    put_join(store, changes, count);
    store_put(store, " SET ");
    store_put(store, assignments);
    return store_exec(store, NULL, err);
}

static enum rc update_again(struct store *store, const struct change *const *changes, size_t count,
                            struct err *err)
{
    return update_tasks(
        store, changes, count,
        "t.state = 0, t.next_at = UTC_TIMESTAMP(3) + INTERVAL l.delay_us MICROSECOND, "
        "t.waited = 1, t.exhausts_at = UTC_TIMESTAMP(3) + INTERVAL l.exhausts_us "
        "MICROSECOND, " FAILED,
        err);
}

static enum rc update_back(struct store *store, const struct change *const *changes, size_t count,
                           struct err *err)
{
    store_put(store, "UPDATE retry_task AS t FORCE INDEX (PRIMARY) SET t.state = 0, " NOT_RUNNING
                     " WHERE t.id ");
    put_ids(store, changes, count);
    return store_exec(store, NULL, err);
}

static enum rc update_step(struct store *store, const struct change *const *changes, size_t count,
                           struct err *err)
{
    enum rc rc = RC_OK;

    /* One by one: a step's update may be large. */
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        const struct task_update *update = changes[i]->update;

        buf_print(&store->sql,
                  "UPDATE retry_task AS t FORCE INDEX (PRIMARY) SET t.state = 0, "
                  "t.step = t.step + 1, t.attempts = %lld, t.next_at = UTC_TIMESTAMP(3), "
                  "t.exhausts_at = NULL, "
                  "t.step_result = ",
                  (long long)update->attempts);
        db_put_bytes(store->db, &store->sql, update->step_result, update->step_result_len);
        buf_print(&store->sql, ", " NOT_RUNNING " WHERE t.id = %lld", (long long)update->id);
        rc = store_exec(store, NULL, err);
    }
    return rc;
}

/* next_at of a blocked or parked task is the time since which it blocks its key. */
static enum rc update_blocked(struct store *store, const struct change *const *changes,
                              size_t count, struct err *err)
{
    return update_tasks(store, changes, count, "t.state = 3, t.next_at = UTC_TIMESTAMP(3), " FAILED,
                        err);
}

static enum rc update_parked(struct store *store, const struct change *const *changes, size_t count,
                             struct err *err)
{
    return update_tasks(store, changes, count,
                        "t.state = 4, t.next_at = UTC_TIMESTAMP(3), t.params = NULL, "
                        "t.step_result = NULL, " FAILED,
                        err);
}

typedef bool (*change_is)(const struct change *change);
typedef enum rc (*change_write)(struct store *store, const struct change *const *changes,
                                size_t count, struct err *err);

/* Writes the changes that `is` selects, a bounded number per statement. */
static enum rc write_matching(struct store *store, change_is is, change_write write,
                              struct err *err)
{
    struct finishing *finishing = store->finishing;
    size_t count = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < finishing->count; i++) {
        if (finishing->changes[i].written == TASK_WRITTEN && is(&finishing->changes[i]))
            finishing->picked[count++] = &finishing->changes[i];
    }
    for (size_t done = 0; done < count && rc == RC_OK; done += CHANGES_AT_ONCE)
        rc = write(store, finishing->picked + done,
                   count - done < CHANGES_AT_ONCE ? count - done : CHANGES_AT_ONCE, err);
    return rc;
}

static bool is_kept(const struct change *change)
{
    return change->update->end == TASK_END_DONE && change->update->keep;
}

static bool is_dropped(const struct change *change)
{
    return change->update->end == TASK_END_DONE && !change->update->keep;
}

/* An attempt at the first claim has none before it. */
static bool has_attempts(const struct change *change)
{
    return is_dropped(change) && change->update->epoch > 1;
}

static bool has_attempt(const struct change *change)
{
    return change->update->outcome && change->update->end != TASK_END_BACK && !is_dropped(change);
}

static bool has_callback(const struct change *change)
{
    return change->update->callback_scene != NULL;
}

static bool is_again(const struct change *change)
{
    return change->update->end == TASK_END_AGAIN;
}

static bool is_back(const struct change *change)
{
    return change->update->end == TASK_END_BACK;
}

static bool is_step(const struct change *change)
{
    return change->update->end == TASK_END_STEP;
}

static bool is_blocked(const struct change *change)
{
    return change->update->end == TASK_END_BLOCK;
}

static bool is_parked(const struct change *change)
{
    return change->update->end == TASK_END_PARK;
}

static bool is_over(const struct change *change)
{
    return change->update->end == TASK_END_PARK || change->update->end == TASK_END_SKIP;
}

static bool is_duplicate(const struct change *change)
{
    return change->update->end == TASK_END_DUPLICATE;
}

static bool is_gone(const struct change *change)
{
    return change->update->end == TASK_END_DONE || change->update->end == TASK_END_SKIP ||
           is_duplicate(change);
}

static enum rc write_changes(struct store *store, struct err *err)
{
    static const struct {
        change_is is;
        change_write write;
    } steps[] = {
        {has_attempts, delete_attempts},  {has_attempt, insert_attempts},
        {has_callback, insert_callbacks}, {is_kept, insert_done},
        {is_over, insert_exhausted},      {is_duplicate, insert_duplicates},
        {is_gone, delete_tasks},          {is_again, update_again},
        {is_back, update_back},           {is_step, update_step},
        {is_blocked, update_blocked},     {is_parked, update_parked},
    };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && rc == RC_OK; i++)
        rc = write_matching(store, steps[i].is, steps[i].write, err);
    return rc;
}

/* Wakes the next task of the key even if this task waits again: a task with a smaller id may have
 * been inserted later and must run first. */
static enum rc wake_next_tasks(struct store *store, struct err *err)
{
    struct finishing *finishing = store->finishing;
    size_t count = 0;

    for (size_t i = 0; i < finishing->count; i++) {
        const struct change *change = &finishing->changes[i];

        if (change->written == TASK_WRITTEN && change->key.hash[0] != '\0' && !is_blocked(change) &&
            !is_parked(change))
            finishing->keys[count++] = change->key;
    }
    return wake_keys(store->db, finishing->keys, count, err);
}

/* Of such tasks nothing stays, and no other task waits for them. All have one epoch, so that one
 * condition checks their leases. */
static bool are_dropped(const struct finishing *finishing)
{
    for (size_t i = 0; i < finishing->count; i++) {
        const struct change *change = &finishing->changes[i];

        if (!is_dropped(change) || has_callback(change) || change->update->ordered ||
            change->update->epoch != finishing->changes[0].update->epoch)
            return false;
    }
    return finishing->count > 0;
}

/* Deletes the tasks without reading them first. Invariant Q3 holds by the conditions; *all: every
 * task met them. In the order of their ids, as lock_tasks(). */
static enum rc delete_dropped(struct store *store, bool *all, struct err *err)
{
    struct finishing *finishing = store->finishing;
    uint64_t deleted = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < finishing->count; i++)
        finishing->picked[i] = &finishing->changes[i];
    for (size_t done = 0; done < finishing->count && rc == RC_OK; done += CHANGES_AT_ONCE) {
        size_t left = finishing->count - done;
        uint64_t affected = 0;

        buf_print(&store->sql,
                  "DELETE t FROM retry_task AS t FORCE INDEX (PRIMARY) WHERE t.state = 1 AND "
                  "t.epoch = %lld AND t.order_hash IS NULL AND t.id ",
                  (long long)finishing->changes[0].update->epoch);
        put_ids(store, finishing->picked + done, left < CHANGES_AT_ONCE ? left : CHANGES_AT_ONCE);
        rc = store_exec(store, &affected, err);
        deleted += affected;
    }
    *all = deleted == finishing->count;
    return rc;
}

/* *all is false if a lease was lost, or if a task has a key after all: then nothing is changed. */
static enum rc finish_dropped(struct store *store, bool *all, struct err *err)
{
    struct finishing *finishing = store->finishing;
    enum rc rc = store_begin(store, err);

    if (rc != RC_OK)
        return rc;
    rc = delete_dropped(store, all, err);
    if (rc == RC_OK && !*all) {
        db_rollback(store->db);
        return RC_OK;
    }
    for (size_t i = 0; i < finishing->count; i++)
        finishing->changes[i].written = TASK_WRITTEN;
    if (rc == RC_OK)
        rc = write_matching(store, has_attempts, delete_attempts, err);
    return store_end(store, rc, err);
}

static enum rc finish_each(struct store *store, struct err *err)
{
    enum rc rc = store_begin(store, err);

    if (rc != RC_OK)
        return rc;
    rc = lock_tasks(store, err);
    if (rc == RC_OK)
        rc = compare_scenes(store, err);
    if (rc == RC_OK)
        rc = write_changes(store, err);
    if (rc == RC_OK)
        rc = wake_next_tasks(store, err);
    return store_end(store, rc, err);
}

enum rc finish_open(struct finishing **finishing, struct err *err)
{
    *finishing = calloc(1, sizeof(**finishing));
    return *finishing ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory to finish tasks");
}

void finish_close(struct finishing *finishing)
{
    free(finishing);
}

enum rc finish_tasks(struct store *store, const struct task_update *updates, size_t count,
                     enum task_written *written, struct err *err)
{
    struct finishing *finishing = store->finishing;
    bool all = false;
    enum rc rc = RC_OK;

    assert(count <= RETRY_UPDATES_MAX);
    list_changes(finishing, updates, count);
    if (are_dropped(finishing))
        rc = finish_dropped(store, &all, err);
    if (rc == RC_OK && !all)
        rc = finish_each(store, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        written[finishing->changes[i].place] = finishing->changes[i].written;
    return rc;
}

struct forgotten {
    int64_t ids[STORE_IDS_MAX];
    size_t count;
};

static enum rc forgotten_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct forgotten *forgotten = ctx;

    (void)err;
    forgotten->ids[forgotten->count++] = db_column_i64(row, 0);
    return RC_OK;
}

#define KEPT_LONG_ENOUGH "keep_until <= UTC_TIMESTAMP(3)"

static enum rc find_kept(struct store *store, size_t rows_max, struct forgotten *forgotten,
                         struct err *err)
{
    forgotten->count = 0;
    buf_print(&store->sql,
              "SELECT id FROM retry_task_history FORCE INDEX (ix_retry_task_history_keep) "
              "WHERE " KEPT_LONG_ENOUGH " ORDER BY keep_until LIMIT %zu",
              rows_max);
    return store_query(store, forgotten_on_row, forgotten, err);
}

/* Those that another process deletes just now are left to it. */
static enum rc lock_kept(struct store *store, struct forgotten *forgotten, struct err *err)
{
    store_put(store,
              "SELECT id FROM retry_task_history FORCE INDEX (PRIMARY) WHERE " KEPT_LONG_ENOUGH
              " AND id ");
    store_put_ids(&store->sql, forgotten->ids, forgotten->count);
    store_put(store, store->compare_and_set ? " FOR UPDATE" : " FOR UPDATE SKIP LOCKED");
    forgotten->count = 0;
    return store_query(store, forgotten_on_row, forgotten, err);
}

static enum rc delete_kept(struct store *store, struct forgotten *forgotten, struct err *err)
{
    enum rc rc = lock_kept(store, forgotten, err);

    if (rc != RC_OK || forgotten->count == 0)
        return rc;
    store_put(store, "DELETE a FROM retry_attempt AS a FORCE INDEX (ix_retry_attempt_task) "
                     "WHERE a.task_id ");
    store_put_ids(&store->sql, forgotten->ids, forgotten->count);
    rc = store_exec(store, NULL, err);
    if (rc != RC_OK)
        return rc;
    store_put(store, "DELETE h FROM retry_task_history AS h FORCE INDEX (PRIMARY) WHERE h.id ");
    store_put_ids(&store->sql, forgotten->ids, forgotten->count);
    return store_exec(store, NULL, err);
}

enum rc finish_forget_done(struct store *store, size_t rows_max, size_t *count, struct err *err)
{
    struct forgotten forgotten = {.count = 0};
    enum rc rc = store_ready(store, err);

    *count = 0;
    if (rows_max > STORE_IDS_MAX)
        rows_max = STORE_IDS_MAX;
    if (rc == RC_OK)
        rc = find_kept(store, rows_max, &forgotten, err);
    if (rc != RC_OK || forgotten.count == 0)
        return rc;
    rc = store_begin(store, err);
    if (rc != RC_OK)
        return rc;
    rc = store_end(store, delete_kept(store, &forgotten, err), err);
    if (rc == RC_OK)
        *count = forgotten.count;
    return rc;
}
