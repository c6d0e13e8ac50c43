/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/store_mysql.h"

#include "outbox/retry/retry.h"
#include "outbox/retry/store/claim_mysql.h"
#include "outbox/retry/store/finish_mysql.h"
#include "outbox/retry/store/look_mysql.h"

#include <assert.h>
#include <string.h>

/* Lock waits are short: a statement that meets a long lock fails and is repeated later. */
#define LOCK_WAIT "SET SESSION innodb_lock_wait_timeout = 2"

/* A process that freezes in a transaction keeps its locks so long, and what others wait for. */
#define LET_GO "SET SESSION wait_timeout = 15"

enum rc store_ready(struct store *store, struct err *err)
{
    buf_reset(&store->sql);
    return db_set_up_session(store->db, &store->session, LOCK_WAIT, err);
}

enum rc store_begin(struct store *store, struct err *err)
{
    enum rc rc = store_ready(store, err);

    if (rc == RC_OK)
        rc = db_set_up_session(store->db, &store->begun, LET_GO, err);
    return rc == RC_OK ? db_begin(store->db, err) : rc;
}

enum rc store_end(struct store *store, enum rc rc, struct err *err)
{
    if (rc == RC_OK)
        return db_commit(store->db, err);
    db_rollback(store->db);
    return rc;
}

void store_put(struct store *store, const char *sql)
{
    buf_text_put(&store->sql, sql);
}

void store_put_text(struct store *store, const char *text)
{
    db_put_text(store->db, &store->sql, text, text ? strlen(text) : 0);
}

void store_put_later(struct store *store, int64_t delay_ms)
{
    buf_print(&store->sql, "UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND",
              (long long)delay_ms * 1000);
}

#define OWNER_SIZE_MAX 9

/* As the column is made: see schema/migrate/0006_retry.sql. */
void store_put_class(struct store *store, const struct task_class *class)
{
    const char *parts[] = {class->handler, class->group, class->scene,
                           retry_owner_name(class->origin)};
    char name[TASK_HANDLER_SIZE + 2 * TASK_NAME_SIZE + OWNER_SIZE_MAX + 1];
    size_t len = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t part_len = strlen(parts[i]) + 1;

        memcpy(name + len, parts[i], part_len);
        len += part_len;
    }
    name[len++] = "0123456789ABCDEF"[class->shard % TASK_SHARDS];
    db_put_bytes(store->db, &store->sql, name, len);
}

enum rc store_exec(struct store *store, uint64_t *affected, struct err *err)
{
    enum rc rc = db_exec_buf(store->db, &store->sql, affected, err);

    buf_reset(&store->sql);
    return rc;
}

enum rc store_query(struct store *store, db_on_row on_row, void *ctx, struct err *err)
{
    enum rc rc = db_query_buf(store->db, &store->sql, on_row, ctx, err);

    buf_reset(&store->sql);
    return rc;
}

void store_put_ids(struct buf *sql, const int64_t *ids, size_t count)
{
    assert(count > 0 && count <= STORE_IDS_MAX);
    buf_text_put(sql, "IN (");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(sql, ',');
        buf_i64(sql, ids[i]);
    }
    buf_char(sql, ')');
}

static enum rc ops_look(void *ctx, retry_on_class on_class, void *on_class_ctx, struct err *err)
{
    return look_classes(ctx, on_class, on_class_ctx, err);
}

static enum rc ops_scenes(void *ctx, retry_on_scene on_scene, void *on_scene_ctx,
                          struct scene_change *change, struct err *err)
{
    return look_scenes(ctx, on_scene, on_scene_ctx, change, err);
}

static enum rc ops_record(void *ctx, int64_t change, struct err *err)
{
    return look_record(ctx, change, err);
}

static enum rc ops_groups(void *ctx, retry_on_group on_group, void *on_group_ctx, struct err *err)
{
    struct store *store = ctx;
    enum rc rc = store_ready(store, err);

    return rc == RC_OK ? retry_group_each(store->db, NULL, on_group, on_group_ctx, err) : rc;
}

static enum rc ops_claim(void *ctx, const struct task_class *class, size_t rows_max,
                         int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                         struct err *err)
{
    return claim_tasks(ctx, class, rows_max, lease_ms, on_task, on_task_ctx, full, err);
}

static enum rc ops_claim_expired(void *ctx, const struct task_age *age, size_t rows_max,
                                 int64_t lease_ms, retry_on_task on_task, void *on_task_ctx,
                                 bool *full, struct err *err)
{
    return claim_expired_tasks(ctx, age, rows_max, lease_ms, on_task, on_task_ctx, full, err);
}

static enum rc ops_finish(void *ctx, const struct task_update *updates, size_t count, bool *lost,
                          struct err *err)
{
    return finish_tasks(ctx, updates, count, lost, err);
}

static enum rc ops_renew(void *ctx, const int64_t *ids, const int64_t *epochs, size_t count,
                         int64_t lease_ms, bool *lost, struct err *err)
{
    return claim_renew_leases(ctx, ids, epochs, count, lease_ms, lost, err);
}

static enum rc ops_rescue(void *ctx, size_t rows_max, size_t *count, size_t *shortened,
                          struct err *err)
{
    return claim_rescue_expired(ctx, rows_max, count, shortened, err);
}

static enum rc ops_forget(void *ctx, size_t rows_max, size_t *count, struct err *err)
{
    return finish_forget_done(ctx, rows_max, count, err);
}

static enum rc ops_handlers(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                            void *on_handler_ctx, struct err *err)
{
    return look_handlers(ctx, lease_ms, on_handler, on_handler_ctx, err);
}

static enum rc ops_depths(void *ctx, retry_on_depth on_depth, void *on_depth_ctx, struct err *err)
{
    return look_depths(ctx, on_depth, on_depth_ctx, err);
}

enum rc store_open(struct store *store, const struct settings *settings, const char *owner,
                   bool compare_and_set, struct err *err)
{
    enum rc rc;

    memset(store, 0, sizeof(*store));
    store->owner = owner;
    store->compare_and_set = compare_and_set;
    rc = claim_open(&store->claim, err);
    if (rc == RC_OK)
        rc = finish_open(&store->finishing, err);
    if (rc == RC_OK)
        rc = db_open(&store->db, &settings->mysql, err);
    if (rc != RC_OK)
        store_close(store);
    return rc;
}

void store_close(struct store *store)
{
    for (size_t i = 0; i < TASK_STATES; i++)
        walk_close(store->walks[i]);
    finish_close(store->finishing);
    claim_close(store->claim);
    db_close(store->db);
    buf_done(&store->json);
    buf_done(&store->sql);
    memset(store, 0, sizeof(*store));
}

struct retry_store store_ops(struct store *store)
{
    return (struct retry_store){
        .ctx = store,
        .look = ops_look,
        .scenes = ops_scenes,
        .record = ops_record,
        .claim = ops_claim,
        .claim_expired = ops_claim_expired,
        .finish = ops_finish,
        .renew = ops_renew,
        .rescue = ops_rescue,
        .forget = ops_forget,
        .handlers = ops_handlers,
        .depths = ops_depths,
        .groups = ops_groups,
    };
}
