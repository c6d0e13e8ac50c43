/* SPDX-License-Identifier: MIT */
#include "outbox/retry/first_tries_role.h"

#include "common/db/db.h"
#include "common/log.h"
#include "common/os.h"
#include "outbox/retry/first_tries.h"
#include "outbox/retry/lease_renewer.h"
#include "outbox/retry/store/retry_mysql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_PAUSE_MS 2

struct first_tries_role {
    struct first_tries_role_config config;
    struct settings settings; /* of the pool */
    struct retry_handlers handlers;
    struct pool pool;
    struct store try_store;
    struct store renew_store;
    struct first_tries tries;
    struct lease_renewer renewer;
    struct loop renew_loop;
    struct pool_worker *workers;
    struct loop *worker_loops;
    struct first_try_ops ops;
};

static void wake_tries(void *ctx)
{
    struct first_tries_role *role = ctx;

    role->config.wake(role->config.ctx);
}

static void wake_worker(void *ctx, size_t worker)
{
    struct first_tries_role *role = ctx;

    loop_wake(&role->worker_loops[worker]);
}

static int64_t time_ms(void *ctx)
{
    (void)ctx;
    return os_now_ms();
}

/* One try has one slot and one thread. No shard is held: tasks are claimed by their ids. */
static void set_pool_settings(struct first_tries_role *role)
{
    role->settings = *role->config.settings;
    role->settings.retry.threads = role->settings.api.try_max;
    role->settings.retry.in_flight_max = role->settings.api.try_max;
    snprintf(role->settings.retry.shards, sizeof(role->settings.retry.shards), "auto");
}

static enum rc open_handlers(struct first_tries_role *role, struct err *err)
{
    const struct retry_handlers *table = role->config.handlers;
    struct retry_handler_env env = {
        .settings = role->config.settings,
        .stop = role->config.stop,
        .instance = role->config.instance,
        .workers = (size_t)role->config.settings->api.try_max,
        .all = &role->handlers,
    };

    role->handlers = (struct retry_handlers){.list = table->list, .count = table->count};
    role->handlers.opened = calloc(table->count + 1, sizeof(void *));
    if (!role->handlers.opened)
        return err_fail(err, RC_FATAL, 0, "no memory for %zu handlers", table->count);
    for (size_t i = 0; i < table->count; i++) {
        enum rc rc;

        if (!table->list[i]->tries_first)
            continue;
        env.self = table->list[i];
        rc = table->list[i]->open(&role->handlers.opened[i], &env, err);
        if (rc != RC_OK) {
            err_wrap(err, "handler %s", table->list[i]->name);
            return rc;
        }
    }
    return RC_OK;
}

static void close_handlers(struct first_tries_role *role)
{
    for (size_t i = role->handlers.count; role->handlers.opened && i-- > 0;)
        if (role->handlers.opened[i])
            role->handlers.list[i]->close(role->handlers.opened[i]);
    free(role->handlers.opened);
}

static enum rc open_pool(struct first_tries_role *role, struct err *err)
{
    enum rc rc = pool_init(&role->pool, &role->settings, &role->handlers, err);

    role->pool.wake_dispatcher = wake_tries;
    role->pool.wake_worker = wake_worker;
    role->pool.wake_ctx = role;
    role->pool.time_ms = time_ms;
    role->pool.attempt_ms_max = role->settings.api.try_timeout_ms;
    return rc;
}

static enum rc open_engines(struct first_tries_role *role, struct err *err)
{
    const struct settings *settings = role->config.settings;
    const char *instance = role->config.instance;
    bool compare_and_set = strcmp(settings->retry.claim, "compare_and_set") == 0;
    struct retry_store store;
    const struct first_tries_config config = {
        .pool = &role->pool,
        .store = &store,
        .on_end = role->config.on_end,
        .ctx = role->config.ctx,
        .seed = os_random_u64(),
    };
    enum rc rc = retry_mysql_open(&role->try_store, settings, instance, compare_and_set, err);

    if (rc == RC_OK)
        rc = retry_mysql_open(&role->renew_store, settings, instance, compare_and_set, err);
    if (rc != RC_OK)
        return rc;
    store = retry_mysql_ops(&role->try_store);
    rc = first_tries_init(&role->tries, &config, err);
    if (rc != RC_OK)
        return rc;
    store = retry_mysql_ops(&role->renew_store);
    return lease_renewer_init(&role->renewer, &role->pool, &store, os_random_u64(), err);
}

static enum rc open_loops(struct first_tries_role *role, struct err *err)
{
    size_t count = role->pool.workers;
    enum rc rc = loop_init(&role->renew_loop, "try-renew", lease_renewer_step, &role->renewer,
                           role->config.stop, err);

    role->workers = calloc(count, sizeof(*role->workers));
    role->worker_loops = calloc(count, sizeof(*role->worker_loops));
    if (!role->workers || !role->worker_loops)
        return err_fail(err, RC_FATAL, 0, "no memory for %zu threads", count);
    for (size_t i = 0; i < count; i++)
        role->worker_loops[i].wakeup.fd = -1;
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        role->workers[i] = (struct pool_worker){&role->pool, i};
        rc = loop_init(&role->worker_loops[i], "try-work", pool_worker_step, &role->workers[i],
                       role->config.stop, err);
    }
    return rc;
}

static enum rc make_task(void *ctx, const struct retry_new_task *task, void *owner,
                         struct first_try_result *result, int64_t now_ms, struct err *err)
{
    struct first_tries_role *role = ctx;

    return first_tries_make(&role->tries, task, owner, result, now_ms, err);
}

static int64_t step_tries(void *ctx, int64_t now_ms)
{
    struct first_tries_role *role = ctx;

    return first_tries_step(&role->tries, now_ms);
}

enum rc first_tries_role_open(struct first_tries_role **out,
                              const struct first_tries_role_config *config, struct err *err)
{
    struct first_tries_role *role = calloc(1, sizeof(*role));
    enum rc rc;

    *out = NULL;
    if (!role)
        return err_fail(err, RC_FATAL, 0, "no memory to try tasks first");
    role->config = *config;
    role->renew_loop.wakeup.fd = -1;
    role->ops = (struct first_try_ops){role, make_task, step_tries};
    set_pool_settings(role);
    rc = open_handlers(role, err);
    if (rc == RC_OK)
        rc = open_pool(role, err);
    if (rc == RC_OK)
        rc = open_engines(role, err);
    if (rc == RC_OK)
        rc = open_loops(role, err);
    if (rc != RC_OK)
        first_tries_role_close(role);
    else
        *out = role;
    return rc;
}

void first_tries_role_close(struct first_tries_role *role)
{
    if (!role)
        return;
    for (size_t i = 0; role->worker_loops && i < role->pool.workers; i++)
        loop_done(&role->worker_loops[i]);
    loop_done(&role->renew_loop);
    free(role->worker_loops);
    free(role->workers);
    lease_renewer_done(&role->renewer);
    first_tries_done(&role->tries);
    retry_mysql_close(&role->renew_store);
    retry_mysql_close(&role->try_store);
    if (role->pool.settings)
        pool_done(&role->pool);
    close_handlers(role);
    free(role);
}

const struct first_try_ops *first_tries_role_ops(struct first_tries_role *role)
{
    return &role->ops;
}

enum rc first_tries_role_start(struct first_tries_role *role, struct err *err)
{
    enum rc rc = loop_start(&role->renew_loop, err);

    for (size_t i = 0; i < role->pool.workers && rc == RC_OK; i++)
        rc = loop_start(&role->worker_loops[i], err);
    return rc;
}

/* This thread plays the parts of the caller's thread and of the renewer. */
static void finish_tries(struct first_tries_role *role, int64_t until_ms)
{
    int64_t now_ms = os_now_ms();
    struct stop pause;

    if (stop_init(&pause, NULL) != RC_OK)
        return;
    first_tries_leave(&role->tries);
    for (;;) {
        first_tries_step(&role->tries, now_ms);
        lease_renewer_step(&role->renewer, now_ms);
        now_ms = os_now_ms();
        if (now_ms >= until_ms || first_tries_left(&role->tries))
            break;
        stop_wait(&pause, STOP_PAUSE_MS);
    }
    stop_done(&pause);
    if (!first_tries_left(&role->tries))
        log_event(LOG_WARN, "stopped_early",
                  "tasks=%zu text=\"they are tried again when their leases have expired\"",
                  role->pool.slot_count - role->tries.slots.free_count);
}

void first_tries_role_join(struct first_tries_role *role, int64_t until_ms)
{
    if (!role)
        return;
    loop_join(&role->renew_loop);
    finish_tries(role, until_ms);
    for (size_t i = 0; i < role->pool.workers; i++)
        loop_join(&role->worker_loops[i]);
}

void first_tries_role_interrupt(struct first_tries_role *role)
{
    if (role)
        db_interrupt(role->try_store.db);
}
