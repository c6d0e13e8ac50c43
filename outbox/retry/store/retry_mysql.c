/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/retry_mysql.h"

#include "outbox/retry/retry.h"
#include "outbox/retry/store/claim_mysql.h"
#include "outbox/retry/store/finish_mysql.h"
#include "outbox/retry/store/look_mysql.h"
#include "outbox/retry/store/make_mysql.h"

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

static enum rc ops_make(void *ctx, const struct retry_new_task *task, int64_t lease_ms,
                        retry_on_task on_task, void *on_task_ctx, struct retry_ticket *ticket,
                        struct err *err)
{
    return make_task(ctx, task, lease_ms, on_task, on_task_ctx, ticket, err);
}

static enum rc ops_finish(void *ctx, const struct task_update *updates, size_t count,
                          enum task_written *written, struct err *err)
{
    return finish_tasks(ctx, updates, count, written, err);
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

enum rc retry_mysql_open(struct store *store, const struct settings *settings, const char *owner,
                         bool compare_and_set, struct err *err)
{
    enum rc rc = store_open(store, settings, owner, compare_and_set, err);

    if (rc == RC_OK)
        rc = claim_open(&store->claim, err);
    if (rc == RC_OK)
        rc = finish_open(&store->finishing, err);
    if (rc != RC_OK)
        retry_mysql_close(store);
    return rc;
}

void retry_mysql_close(struct store *store)
{
    for (size_t i = 0; i < TASK_STATES; i++)
        walk_close(store->walks[i]);
    finish_close(store->finishing);
    claim_close(store->claim);
    store_close(store);
}

struct retry_store retry_mysql_ops(struct store *store)
{
    return (struct retry_store){
        .ctx = store,
        .look = ops_look,
        .scenes = ops_scenes,
        .record = ops_record,
        .claim = ops_claim,
        .claim_expired = ops_claim_expired,
        .make = ops_make,
        .finish = ops_finish,
        .renew = ops_renew,
        .rescue = ops_rescue,
        .forget = ops_forget,
        .handlers = ops_handlers,
        .depths = ops_depths,
        .groups = ops_groups,
    };
}
