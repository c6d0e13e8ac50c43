/* SPDX-License-Identifier: MIT */
#include "producer/task/task_mysql.h"

#include "common/db/db.h"

#include <stdlib.h>

struct task_mysql {
    struct db *db;
    struct task_store ops;
};

/* Reads no table: an installation without the retry queue may lack the privileges on its tables. */
static enum rc store_ping(void *ctx, struct err *err)
{
    return db_run(((struct task_mysql *)ctx)->db, "DO 0", err);
}

static enum rc store_room(void *ctx, const char *group, const char *scene,
                          const char *const *handlers, size_t handler_count,
                          struct retry_room *room, struct buf *options, struct err *err)
{
    return retry_room(((struct task_mysql *)ctx)->db, group, scene, handlers, handler_count, room,
                      options, err);
}

struct finding {
    struct retry_group *group;
    bool *found;
};

static enum rc on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    const struct finding *finding = ctx;

    (void)err;
    *finding->group = *group;
    *finding->found = true;
    return RC_OK;
}

static enum rc store_group(void *ctx, const char *name, struct retry_group *group, bool *found,
                           struct err *err)
{
    struct finding finding = {group, found};

    *found = false;
    return retry_group_each(((struct task_mysql *)ctx)->db, name, on_group, &finding, err);
}

static enum rc store_append(void *ctx, const struct retry_new_task *tasks, size_t count,
                            struct retry_ticket *tickets, struct err *err)
{
    struct db *db = ((struct task_mysql *)ctx)->db;
    enum rc rc = db_begin(db, err);

    if (rc == RC_OK)
        rc = retry_append(db, tasks, count, tickets, err);
    if (rc == RC_OK)
        rc = db_commit(db, err);
    if (db_in_transaction(db))
        db_rollback(db);
    return rc;
}

static enum rc store_find(void *ctx, bool ended, const struct retry_filter *filter, bool whole,
                          size_t rows_max, retry_on_view on_view, void *view_ctx,
                          struct retry_page *page, struct err *err)
{
    return retry_find(((struct task_mysql *)ctx)->db, ended, filter, whole, rows_max, on_view,
                      view_ctx, page, err);
}

static enum rc store_attempts(void *ctx, int64_t task_id,
                              enum rc (*on_attempt)(void *attempt_ctx,
                                                    const struct retry_attempt_view *attempt,
                                                    struct err *err),
                              void *attempt_ctx, struct err *err)
{
    return retry_attempts(((struct task_mysql *)ctx)->db, task_id, on_attempt, attempt_ctx, err);
}

static bool store_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == DB_DEADLOCK || err->code == DB_LOCK_TIMEOUT;
}

enum rc task_mysql_open(struct task_mysql **out, const struct mysql_settings *settings,
                        struct err *err)
{
    struct task_mysql *store = calloc(1, sizeof(*store));
    enum rc rc;

    *out = NULL;
    if (!store)
        return err_fail(err, RC_FATAL, 0, "no memory for a database connection");
    rc = db_open(&store->db, settings, err);
    if (rc != RC_OK) {
        free(store);
        return rc;
    }
    store->ops = (struct task_store){
        .ctx = store,
        .ping = store_ping,
        .room = store_room,
        .group = store_group,
        .append = store_append,
        .find = store_find,
        .attempts = store_attempts,
        .collided = store_collided,
    };
    *out = store;
    return RC_OK;
}

void task_mysql_close(struct task_mysql *store)
{
    if (!store)
        return;
    db_close(store->db);
    free(store);
}

const struct task_store *task_mysql_ops(const struct task_mysql *store)
{
    return &store->ops;
}

void task_mysql_interrupt(struct task_mysql *store)
{
    db_interrupt(store->db);
}
