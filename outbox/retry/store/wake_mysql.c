/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/wake_mysql.h"

#include "outbox/retry/store/store_mysql.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_AT_ONCE 500
/* Each turn but the last one means that somebody else ended the very task that was to be woken. */
#define TURNS_MAX 100

struct looking {
    struct order_ahead *ahead;
    size_t count;
};

static enum rc looking_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct looking *looking = ctx;
    uint64_t place = db_column_u64(row, 0);
    struct order_ahead *ahead;

    (void)err;
    if (place == 0 || place > looking->count)
        return RC_OK;
    ahead = &looking->ahead[place - 1];
    ahead->busy.id = db_column_i64(row, 1);
    ahead->busy.state = (enum task_state)db_column_i64(row, 2);
    ahead->waiting.id = db_column_i64(row, 3);
    ahead->waiting.state = TASK_WAITING;
    ahead->queued.id = db_column_i64(row, 4);
    ahead->queued.state = TASK_QUEUED;
    return RC_OK;
}

/* The whole index is named in ORDER BY, because MySQL reads and sorts all tasks of the key when
 * only the id is. */
static void put_first(struct buf *sql, enum task_state state)
{
    buf_print(sql,
              "(SELECT t.id FROM retry_task t FORCE INDEX (ix_retry_task_order) "
              "WHERE t.order_hash = UNHEX(k.h) AND t.state = %d "
              "ORDER BY t.order_hash, t.state, t.id LIMIT 1)",
              (int)state);
}

static enum rc look(struct db *db, struct buf *sql, const struct order_key *keys, size_t count,
                    struct order_ahead *ahead, struct err *err)
{
    struct looking looking = {ahead, count};

    memset(ahead, 0, count * sizeof(*ahead));
    buf_reset(sql);
    buf_text_put(sql, "SELECT k.n, b.id, b.state, ");
    put_first(sql, TASK_WAITING);
    buf_text_put(sql, ", ");
    put_first(sql, TASK_QUEUED);
    buf_text_put(sql, " FROM JSON_TABLE('[");
    for (size_t i = 0; i < count; i++)
        buf_print(sql, "%s\"%s\"", i > 0 ? "," : "", keys[i].hash);
    buf_text_put(sql, "]', '$[*]' COLUMNS (n FOR ORDINALITY, h CHAR(64) PATH '$')) AS k "
                      "LEFT JOIN retry_task b FORCE INDEX (uq_retry_task_busy) "
                      "ON b.busy_hash = UNHEX(k.h)");
    return db_query_buf(db, sql, looking_on_row, &looking, err);
}

enum rc wake_look(struct db *db, const struct order_key *keys, size_t count,
                  struct order_ahead *ahead, struct err *err)
{
    struct buf sql = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i += KEYS_AT_ONCE) {
        size_t some = count - i < KEYS_AT_ONCE ? count - i : KEYS_AT_ONCE;

        rc = look(db, &sql, keys + i, some, ahead + i, err);
    }
    buf_done(&sql);
    return rc;
}

/* The keys at hand. */
struct waking {
    struct db *db;
    struct buf sql;
    struct order_key keys[KEYS_AT_ONCE]; /* that are not settled */
    struct order_ahead ahead[KEYS_AT_ONCE];
    struct order_row heads[KEYS_AT_ONCE];
    int64_t ids[KEYS_AT_ONCE];
    size_t count;
};

static int64_t *ids_of_heads(struct waking *waking, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < waking->count; i++) {
        waking->heads[i] = (struct order_row){0};
        if (waking->ahead[i].busy.id == 0)
            waking->heads[i] = order_head(&waking->ahead[i]);
        if (waking->heads[i].id > 0)
            waking->ids[(*count)++] = waking->heads[i].id;
    }
    return waking->ids;
}

static enum rc locked_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct waking *waking = ctx;
    int64_t id = db_column_i64(row, 0);

    (void)err;
    for (size_t i = 0; i < waking->count; i++) {
        if (waking->heads[i].id != id)
            continue;
        waking->heads[i].state = (enum task_state)db_column_i64(row, 1);
        waking->heads[i].held = true;
    }
    return RC_OK;
}

/* Somebody may have ended the head since it was read, and did not wake the next one, because what
 * we end was still there for him: so the head is locked, also where it waits already. */
static enum rc heads_lock(struct waking *waking, struct err *err)
{
    size_t count;
    const int64_t *ids = ids_of_heads(waking, &count);

    if (count == 0)
        return RC_OK;
    buf_reset(&waking->sql);
    buf_text_put(&waking->sql, "SELECT id, state FROM retry_task FORCE INDEX (PRIMARY) WHERE id ");
    store_put_ids(&waking->sql, ids, count);
    buf_text_put(&waking->sql, " FOR UPDATE");
    return db_query_buf(waking->db, &waking->sql, locked_on_row, waking, err);
}

static enum rc heads_wake(struct waking *waking, struct err *err)
{
    size_t count = 0;

    for (size_t i = 0; i < waking->count; i++) {
        if (waking->heads[i].held && waking->heads[i].state == TASK_QUEUED)
            waking->ids[count++] = waking->heads[i].id;
    }
    if (count == 0)
        return RC_OK;
    buf_reset(&waking->sql);
    buf_text_put(&waking->sql,
                 "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 0, "
                 "next_at = UTC_TIMESTAMP(3), updated_at = UTC_TIMESTAMP(3) WHERE id ");
    store_put_ids(&waking->sql, waking->ids, count);
    return db_exec_buf(waking->db, &waking->sql, NULL, err);
}

/* Keeps the keys whose head is not what it was. */
static void keep_unsettled(struct waking *waking)
{
    size_t kept = 0;

    for (size_t i = 0; i < waking->count; i++) {
        const struct order_row *head = &waking->heads[i];

        if (head->id == 0 ||
            (head->held && (head->state == TASK_QUEUED || head->state == TASK_WAITING)))
            continue;
        waking->keys[kept++] = waking->keys[i];
    }
    waking->count = kept;
}

static enum rc wake_some(struct waking *waking, struct err *err)
{
    enum rc rc = RC_OK;

    for (int turn = 0; turn < TURNS_MAX && rc == RC_OK && waking->count > 0; turn++) {
        rc = look(waking->db, &waking->sql, waking->keys, waking->count, waking->ahead, err);
        if (rc == RC_OK)
            rc = heads_lock(waking, err);
        if (rc == RC_OK)
            rc = heads_wake(waking, err);
        if (rc == RC_OK)
            keep_unsettled(waking);
    }
    if (rc != RC_OK || waking->count == 0)
        return rc;
    db_rollback(waking->db);
    return err_fail(err, RC_RETRY, 0, "%zu keys changed all the time", waking->count);
}

enum rc wake_keys(struct db *db, const struct order_key *keys, size_t count, struct err *err)
{
    struct waking *waking;
    enum rc rc = RC_OK;

    if (count == 0)
        return RC_OK;
    waking = calloc(1, sizeof(*waking));
    if (!waking)
        return err_fail(err, RC_FATAL, 0, "no memory to wake tasks");
    waking->db = db;
    for (size_t i = 0; i < count && rc == RC_OK; i += KEYS_AT_ONCE) {
        waking->count = count - i < KEYS_AT_ONCE ? count - i : KEYS_AT_ONCE;
        memcpy(waking->keys, keys + i, waking->count * sizeof(*keys));
        rc = wake_some(waking, err);
    }
    buf_done(&waking->sql);
    free(waking);
    return rc;
}
