/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/live_clients_mysql.h"

#include "common/hash.h"
#include "outbox/retry/clients/client.h"
#include "outbox/retry/store/client_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct client_query {
    enum rc (*on_client)(void *ctx, const struct live_client *client, struct err *err);
    void *ctx;
};

static enum rc client_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct client_query *client_query = ctx;
    const struct live_client client = {
        .group = row->columns[0],
        .address = row->columns[1],
        .route = row->columns[2],
        .told_version = row->columns[3],
        .config_version = row->columns[4],
        .takes_pushes = db_column_i64(row, 5) != 0 && retry_list_allows(row->columns[6], "http") &&
                        retry_list_allows(row->columns[7], RETRY_CONFIG_SCENE),
    };

    return client_query->on_client(client_query->ctx, &client, err);
}

/* The configuration's version is computed once per group. */
static enum rc ops_each(void *ctx,
                        enum rc (*on_client)(void *client_ctx, const struct live_client *client,
                                             struct err *err),
                        void *client_ctx, struct err *err)
{
    struct client_query client_query = {on_client, client_ctx};
    struct store *store = ctx;
    enum rc rc = store_ready(store, err);

    if (rc != RC_OK)
        return rc;
    buf_print(&store->sql,
              "SELECT c.task_group, c.address, v.route, c.config_version, v.config, v.takes, "
              "v.handlers, v.scenes FROM (SELECT g.name, g.route, g.handlers, g.scenes, "
              "g.enabled AND (g.init_scene <> '" RETRY_INIT_REFUSE "' OR EXISTS (SELECT 1 FROM "
              "retry_scene s WHERE s.task_group = g.name AND s.scene = '" RETRY_CONFIG_SCENE
              "')) AS takes, " CLIENT_CONFIG_VERSION
              " AS config FROM retry_group g WHERE g.owner = 'client' AND g.name IN (SELECT "
              "task_group FROM retry_client WHERE " CLIENT_IS_LIVE
              ")) v JOIN retry_client c ON c.task_group = v.name WHERE " CLIENT_IS_LIVE
              " ORDER BY c.task_group, c.address LIMIT %d",
              RETRY_CLIENTS_MAX + 1);
    return store_query(store, client_on_row, &client_query, err);
}

/* Two processes meet at the row: only one of them finds the version that was told before. */
static enum rc mark_told(struct store *store, const struct client_push *push, uint64_t *affected,
                         struct err *err)
{
    store_put(store, "UPDATE retry_client SET config_version = ");
    store_put_text(store, push->config_version);
    store_put(store, " WHERE task_group = ");
    store_put_text(store, push->group);
    store_put(store, " AND address = ");
    store_put_text(store, push->address);
    store_put(store, " AND config_version = ");
    store_put_text(store, push->told_version);
    return store_exec(store, affected, err);
}

/* The task of a push and what it points to. */
struct push_task {
    char options[RETRY_CLIENT_ADDRESS_SIZE + 64];
    char params[RETRY_NAME_BYTES_MAX + RETRY_CONFIG_VERSION_SIZE + 64];
    char key[RETRY_CONFIG_VERSION_SIZE + 32];
};

/* The address has no character that JSON escapes: see http_url_read(). */
static struct retry_new_task make_task(struct push_task *texts, const struct client_push *push)
{
    struct retry_new_task task = {
        .group = push->group,
        .scene = RETRY_CONFIG_SCENE,
        .handler = "http",
        .idempotency_key = texts->key,
        .options = texts->options,
        .params = texts->params,
    };

    snprintf(texts->options, sizeof(texts->options), "{\"url\":\"%s" RETRY_CONFIG_PATH "\"}",
             push->address);
    snprintf(texts->params, sizeof(texts->params), "{\"group\":\"%s\",\"version\":\"%s\"}",
             push->group, push->config_version);
    snprintf(texts->key, sizeof(texts->key), "%s/%016" PRIx64, push->config_version,
             hash_fnv1a(HASH_START, push->address, strlen(push->address)));
    task.params_len = strlen(texts->params);
    return task;
}

/* tasks and texts have room for count of them. */
static enum rc push_all(struct store *store, const struct client_push *pushes, size_t count,
                        struct retry_new_task *tasks, struct push_task *texts, size_t *pushed,
                        struct err *err)
{
    size_t made = 0;
    enum rc rc = store_begin(store, err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        uint64_t affected = 0;

        rc = mark_told(store, &pushes[i], &affected, err);
        if (rc == RC_OK && affected > 0) {
            tasks[made] = make_task(&texts[made], &pushes[i]);
            made++;
        }
    }
    if (rc == RC_OK && made > 0)
        rc = retry_append(store->db, tasks, made, NULL, err);
    rc = store_end(store, rc, err);
    *pushed = rc == RC_OK ? made : 0;
    return rc;
}

static enum rc ops_push(void *ctx, const struct client_push *pushes, size_t count, size_t *pushed,
                        struct err *err)
{
    struct retry_new_task *tasks = calloc(count, sizeof(*tasks));
    struct push_task *texts = calloc(count, sizeof(*texts));
    enum rc rc;

    *pushed = 0;
    if (tasks && texts)
        rc = push_all(ctx, pushes, count, tasks, texts, pushed, err);
    else
        rc = err_fail(err, RC_RETRY, 0, "no memory for %zu pushes", count);
    free(texts);
    free(tasks);
    return rc;
}

static enum rc ops_forget(void *ctx, size_t rows_max, size_t *count, struct err *err)
{
    struct store *store = ctx;
    uint64_t affected = 0;
    enum rc rc = store_ready(store, err);

    if (rc != RC_OK)
        return rc;
    buf_print(&store->sql,
              "DELETE FROM retry_client WHERE last_beat_at < UTC_TIMESTAMP(3) - INTERVAL %d SECOND "
              "ORDER BY last_beat_at LIMIT %zu",
              RETRY_CLIENT_KEPT_MS / 1000, rows_max);
    rc = store_exec(store, &affected, err);
    *count = (size_t)affected;
    return rc;
}

struct client_ops live_clients_ops(struct store *store)
{
    return (struct client_ops){
        .ctx = store, .each = ops_each, .push = ops_push, .forget = ops_forget};
}
