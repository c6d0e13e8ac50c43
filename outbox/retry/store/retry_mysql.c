/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/retry_mysql.h"

#include "outbox/retry/group.h"
#include "outbox/retry/store/parts_mysql.h"

#include <string.h>

/* Nothing here waits for long on purpose; who meets a lock that stays comes again later. */
#define LOCK_WAIT "SET SESSION innodb_lock_wait_timeout = 2"

/* A process that freezes in a transaction keeps its locks so long, and what others wait for. */
#define LET_GO "SET SESSION wait_timeout = 15"

enum rc store_ready(struct retry_mysql *store, struct err *err)
{
    enum rc rc = db_connect(store->db, err);

    buf_reset(&store->sql);
    if (rc != RC_OK || store->session == db_session(store->db))
        return rc;
    rc = db_run(store->db, LOCK_WAIT, err);
    if (rc == RC_OK)
        store->session = db_session(store->db);
    return rc;
}

enum rc store_begin(struct retry_mysql *store, struct err *err)
{
    enum rc rc = store_ready(store, err);

    if (rc == RC_OK && store->begun != db_session(store->db)) {
        rc = db_run(store->db, LET_GO, err);
        if (rc == RC_OK)
            store->begun = db_session(store->db);
    }
    return rc == RC_OK ? db_begin(store->db, err) : rc;
}

enum rc store_end(struct retry_mysql *store, enum rc rc, struct err *err)
{
    if (rc == RC_OK)
        return db_commit(store->db, err);
    db_rollback(store->db);
    return rc;
}

void store_put(struct retry_mysql *store, const char *sql)
{
    buf_text_put(&store->sql, sql);
}

void store_put_text(struct retry_mysql *store, const char *text)
{
    db_put_text(store->db, &store->sql, text, text ? strlen(text) : 0);
}

void store_put_later(struct retry_mysql *store, int64_t delay_ms)
{
    buf_print(&store->sql, "UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND",
              (long long)delay_ms * 1000);
}

#define OWNER_SIZE_MAX 9

/* As the column is made: see schema/migrate/0006_retry.sql. */
void store_put_class(struct retry_mysql *store, const struct task_class *class)
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

enum rc store_exec(struct retry_mysql *store, uint64_t *affected, struct err *err)
{
    enum rc rc = db_exec_buf(store->db, &store->sql, affected, err);

    buf_reset(&store->sql);
    return rc;
}

enum rc store_query(struct retry_mysql *store, db_on_row on_row, void *ctx, struct err *err)
{
    enum rc rc = db_query_buf(store->db, &store->sql, on_row, ctx, err);

    buf_reset(&store->sql);
    return rc;
}

static enum rc seam_look(void *ctx, retry_on_class on_class, void *on_class_ctx, struct err *err)
{
    return look_classes(ctx, on_class, on_class_ctx, err);
}

static enum rc seam_scenes(void *ctx, retry_on_scene on_scene, void *on_scene_ctx,
                           struct scene_change *change, struct err *err)
{
    return look_scenes(ctx, on_scene, on_scene_ctx, change, err);
}

static enum rc seam_record(void *ctx, int64_t change, struct err *err)
{
    return look_record(ctx, change, err);
}

static enum rc seam_groups(void *ctx, retry_on_group on_group, void *on_group_ctx, struct err *err)
{
    struct retry_mysql *store = ctx;
    enum rc rc = store_ready(store, err);

    return rc == RC_OK ? retry_group_each(store->db, NULL, on_group, on_group_ctx, err) : rc;
}

static enum rc seam_claim(void *ctx, const struct task_class *class, size_t rows_max,
                          int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                          struct err *err)
{
    return claim_tasks(ctx, class, rows_max, lease_ms, on_task, on_task_ctx, full, err);
}

static enum rc seam_claim_expired(void *ctx, const struct task_age *age, size_t rows_max,
                                  int64_t lease_ms, retry_on_task on_task, void *on_task_ctx,
                                  bool *full, struct err *err)
{
    return claim_expired_tasks(ctx, age, rows_max, lease_ms, on_task, on_task_ctx, full, err);
}

static enum rc seam_finish(void *ctx, const struct task_result *results, size_t count, bool *lost,
                           struct err *err)
{
    return finish_tasks(ctx, results, count, lost, err);
}

static enum rc seam_beat(void *ctx, const int64_t *ids, const int64_t *epochs, size_t count,
                         int64_t lease_ms, bool *lost, struct err *err)
{
    return hold_beat(ctx, ids, epochs, count, lease_ms, lost, err);
}

static enum rc seam_rescue(void *ctx, size_t rows_max, size_t *count, size_t *shortened,
                           struct err *err)
{
    return hold_rescue(ctx, rows_max, count, shortened, err);
}

static enum rc seam_handlers(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                             void *on_handler_ctx, struct err *err)
{
    return look_handlers(ctx, lease_ms, on_handler, on_handler_ctx, err);
}

static enum rc seam_depths(void *ctx, retry_on_depth on_depth, void *on_depth_ctx, struct err *err)
{
    return look_depths(ctx, on_depth, on_depth_ctx, err);
}

enum rc retry_mysql_open(struct retry_mysql *store, const struct settings *settings,
                         const char *owner, bool compare_and_set, struct err *err)
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
        retry_mysql_close(store);
    return rc;
}

void retry_mysql_close(struct retry_mysql *store)
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

struct retry_store retry_mysql_seam(struct retry_mysql *store)
{
    return (struct retry_store){
        .ctx = store,
        .look = seam_look,
        .scenes = seam_scenes,
        .record = seam_record,
        .claim = seam_claim,
        .claim_expired = seam_claim_expired,
        .finish = seam_finish,
        .beat = seam_beat,
        .rescue = seam_rescue,
        .handlers = seam_handlers,
        .depths = seam_depths,
        .groups = seam_groups,
    };
}
