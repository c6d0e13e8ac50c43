/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/wake_mysql.h"

#include "outbox/retry/store/store_mysql.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_AT_ONCE 500
/* Each further round means that another transaction ended the task that was to be woken. */
#define TURNS_MAX 100

struct ahead_query {
    struct order_ahead *ahead;
    size_t count;
};

static enum rc ahead_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct ahead_query *ahead_query = ctx;
    uint64_t place = db_column_u64(row, 0);
    struct order_ahead *ahead;

    (void)err;
    if (place == 0 || place > ahead_query->count)
        return RC_OK;
    ahead = &ahead_query->ahead[place - 1];
    ahead->busy.id = db_column_i64(row, 1);
    ahead->busy.state = (enum task_state)db_column_i64(row, 2);
    ahead->waiting.id = db_column_i64(row, 3);
    ahead->waiting.state = TASK_WAITING;
    ahead->queued.id = db_column_i64(row, 4);
    ahead->queued.state = TASK_QUEUED;
    return RC_OK;
}

/* The whole index is named in ORDER BY, because MySQL reads and sorts all tasks of the key when
 * only the id is. To age_state a waiting task and a running one are the same (1), so that a claim
 * does not change the index; of a key at most one task runs, and one row more is read. */
#define FIRST_WITH(age_state)                                           \
    "(SELECT t.id FROM retry_task t FORCE INDEX (ix_retry_task_order) " \
    "WHERE t.order_hash = UNHEX(k.h) AND t.age_state = " age_state      \
    " ORDER BY t.order_hash, t.age_state, t.id LIMIT 1)"
#define FIRST_WAITING FIRST_WITH("1 AND t.state = 0")
#define FIRST_QUEUED FIRST_WITH("2")

static enum rc find_ahead(struct db *db, struct buf *sql, const struct order_key *keys,
                          size_t count, struct order_ahead *ahead, struct err *err)
{
    struct ahead_query ahead_query = {ahead, count};

    memset(ahead, 0, count * sizeof(*ahead));
    buf_reset(sql);
    buf_text_put(sql, "SELECT k.n, b.id, b.state, " FIRST_WAITING ", " FIRST_QUEUED
                      " FROM JSON_TABLE('[");
    for (size_t i = 0; i < count; i++)
        buf_print(sql, "%s\"%s\"", i > 0 ? "," : "", keys[i].hash);
    buf_text_put(sql, "]', '$[*]' COLUMNS (n FOR ORDINALITY, h CHAR(64) PATH '$')) AS k "
                      "LEFT JOIN retry_task b FORCE INDEX (uq_retry_task_busy) "
                      "ON b.busy_hash = UNHEX(k.h)");
    return db_query_buf(db, sql, ahead_on_row, &ahead_query, err);
}

enum rc wake_look(struct db *db, const struct order_key *keys, size_t count,
                  struct order_ahead *ahead, struct err *err)
{
    struct buf sql = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i += KEYS_AT_ONCE) {
        size_t some = count - i < KEYS_AT_ONCE ? count - i : KEYS_AT_ONCE;

        rc = find_ahead(db, &sql, keys + i, some, ahead + i, err);
    }
    buf_done(&sql);
    return rc;
}

/* The keys of this round. */
struct wake_run {
    struct db *db;
    struct buf sql;
    struct order_key keys[KEYS_AT_ONCE]; /* that are not settled */
    struct order_ahead ahead[KEYS_AT_ONCE];
    struct order_task heads[KEYS_AT_ONCE];
    int64_t ids[KEYS_AT_ONCE];
    size_t count;
};

static int64_t *list_head_ids(struct wake_run *wake_run, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < wake_run->count; i++) {
        wake_run->heads[i] = (struct order_task){0};
        if (wake_run->ahead[i].busy.id == 0)
            wake_run->heads[i] = order_head(&wake_run->ahead[i]);
        if (wake_run->heads[i].id > 0)
            wake_run->ids[(*count)++] = wake_run->heads[i].id;
    }
    return wake_run->ids;
}

static enum rc locked_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct wake_run *wake_run = ctx;
    int64_t id = db_column_i64(row, 0);

    (void)err;
    for (size_t i = 0; i < wake_run->count; i++) {
        if (wake_run->heads[i].id != id)
            continue;
        wake_run->heads[i].state = (enum task_state)db_column_i64(row, 1);
        wake_run->heads[i].held = true;
    }
    return RC_OK;
}

/* Another transaction may have ended the head since it was read without waking the next task,
 * because this transaction's task was still there for it. Therefore the head is locked even if it
 * waits already. */
static enum rc lock_heads(struct wake_run *wake_run, struct err *err)
{
    size_t count;
    const int64_t *ids = list_head_ids(wake_run, &count);

    if (count == 0)
        return RC_OK;
    buf_reset(&wake_run->sql);
    buf_text_put(&wake_run->sql,
                 "SELECT id, state FROM retry_task FORCE INDEX (PRIMARY) WHERE id ");
    store_put_ids(&wake_run->sql, ids, count);
    buf_text_put(&wake_run->sql, " FOR UPDATE");
    return db_query_buf(wake_run->db, &wake_run->sql, locked_on_row, wake_run, err);
}

static enum rc wake_heads(struct wake_run *wake_run, struct err *err)
{
    size_t count = 0;

    for (size_t i = 0; i < wake_run->count; i++) {
        if (wake_run->heads[i].held && wake_run->heads[i].state == TASK_QUEUED)
            wake_run->ids[count++] = wake_run->heads[i].id;
    }
    if (count == 0)
        return RC_OK;
    buf_reset(&wake_run->sql);
    buf_text_put(&wake_run->sql,
                 "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 0, "
                 "next_at = UTC_TIMESTAMP(3), updated_at = UTC_TIMESTAMP(3) WHERE id ");
    store_put_ids(&wake_run->sql, wake_run->ids, count);
    return db_exec_buf(wake_run->db, &wake_run->sql, NULL, err);
}

/* Keeps the keys whose head has changed. */
static void keep_unsettled(struct wake_run *wake_run)
{
    size_t kept = 0;

    for (size_t i = 0; i < wake_run->count; i++) {
        const struct order_task *head = &wake_run->heads[i];

        if (head->id == 0 ||
            (head->held && (head->state == TASK_QUEUED || head->state == TASK_WAITING)))
            continue;
        wake_run->keys[kept++] = wake_run->keys[i];
    }
    wake_run->count = kept;
}

static enum rc wake_batch(struct wake_run *wake_run, struct err *err)
{
    enum rc rc = RC_OK;

    for (int turn = 0; turn < TURNS_MAX && rc == RC_OK && wake_run->count > 0; turn++) {
        rc = find_ahead(wake_run->db, &wake_run->sql, wake_run->keys, wake_run->count,
                        wake_run->ahead, err);
        if (rc == RC_OK)
            rc = lock_heads(wake_run, err);
        if (rc == RC_OK)
            rc = wake_heads(wake_run, err);
        if (rc == RC_OK)
            keep_unsettled(wake_run);
    }
    if (rc != RC_OK || wake_run->count == 0)
        return rc;
    db_rollback(wake_run->db);
    return err_fail(err, RC_RETRY, 0, "%zu keys changed all the time", wake_run->count);
}

enum rc wake_keys(struct db *db, const struct order_key *keys, size_t count, struct err *err)
{
    struct wake_run *wake_run;
    enum rc rc = RC_OK;

    if (count == 0)
        return RC_OK;
    wake_run = calloc(1, sizeof(*wake_run));
    if (!wake_run)
        return err_fail(err, RC_FATAL, 0, "no memory to wake tasks");
    wake_run->db = db;
    for (size_t i = 0; i < count && rc == RC_OK; i += KEYS_AT_ONCE) {
        wake_run->count = count - i < KEYS_AT_ONCE ? count - i : KEYS_AT_ONCE;
        memcpy(wake_run->keys, keys + i, wake_run->count * sizeof(*keys));
        rc = wake_batch(wake_run, err);
    }
    buf_done(&wake_run->sql);
    free(wake_run);
    return rc;
}
