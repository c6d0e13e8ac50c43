/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry_command.h"

#include "common/log.h"
#include "common/loop.h"
#include "common/os.h"
#include "outbox/lease/lease_mysql.h"
#include "outbox/retry/clients/client_watch.h"
#include "outbox/retry/dispatcher.h"
#include "outbox/retry/handlers/handler_list.h"
#include "outbox/retry/lease_renewer.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_metrics.h"
#include "outbox/retry/shard_leases.h"
#include "outbox/retry/store/live_clients_mysql.h"
#include "outbox/retry/store/retry_mysql.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A clean stop finishes within this part of admin.stop_timeout_ms. */
#define STOP_PART_NUMERATOR 3
#define STOP_PART_DENOMINATOR 4
#define STOP_PAUSE_MS 2

enum { LOOP_DISPATCHER, LOOP_LEASE_RENEWER, LOOP_LEASES, LOOP_CLIENTS, LOOPS };

struct retry {
    const struct role_env *env;
    struct handler_list handlers;
    struct pool pool;
    struct dispatcher dispatcher;
    struct lease_renewer renewer;
    struct shard_leases leases;
    struct pool_worker *workers;
    struct store poll_store;
    struct store renew_store;
    struct store client_store;
    struct clients *clients;
    struct client_watch client_watch;
    struct lease_mysql lease_stores[RETRY_HANDLERS_MAX]; /* on one connection */
    char lease_groups[RETRY_HANDLERS_MAX][SHARD_LEASES_GROUP_SIZE];
    const char *shard_names[RETRY_HANDLERS_MAX][TASK_SHARDS];
    struct loop loops[LOOPS];
    struct loop *worker_loops;
};

static void wake_dispatcher(void *ctx)
{
    struct retry *retry = ctx;

    loop_wake(&retry->loops[LOOP_DISPATCHER]);
}

static void wake_worker(void *ctx, size_t worker)
{
    struct retry *retry = ctx;

    loop_wake(&retry->worker_loops[worker]);
}

static int64_t time_ms(void *ctx)
{
    (void)ctx;
    return os_now_ms();
}

static enum rc open_engines(struct retry *retry, struct err *err)
{
    const struct role_env *env = retry->env;
    bool compare_and_set = strcmp(env->settings->retry.claim, "compare_and_set") == 0;
    struct retry_store store;
    enum rc rc =
        retry_mysql_open(&retry->poll_store, env->settings, env->instance, compare_and_set, err);

    if (rc == RC_OK)
        rc = retry_mysql_open(&retry->renew_store, env->settings, env->instance, compare_and_set,
                              err);
    if (rc != RC_OK)
        return rc;
    store = retry_mysql_ops(&retry->poll_store);
    rc = dispatcher_init(&retry->dispatcher, &retry->pool, &store, os_random_u64(), err);
    if (rc != RC_OK)
        return rc;
    store = retry_mysql_ops(&retry->renew_store);
    return lease_renewer_init(&retry->renewer, &retry->pool, &store, os_random_u64(), err);
}

static enum rc open_client_watch(struct retry *retry, struct err *err)
{
    const struct settings *settings = retry->env->settings;
    struct client_ops ops;
    enum rc rc = store_open(&retry->client_store, settings, retry->env->instance, false, err);

    if (rc != RC_OK)
        return rc;
    ops = live_clients_ops(&retry->client_store);
    client_watch_init(&retry->client_watch, retry->clients, &ops, settings->retry.http_hosts,
                      os_random_u64());
    return RC_OK;
}

static enum rc open_lease_store(struct retry *retry, size_t handler, struct err *err)
{
    const struct role_env *env = retry->env;
    const struct lease_claim claim = {
        .owner = env->instance,
        .role = RETRY_ROLE,
        .group = retry->lease_groups[handler],
        .weight = env->settings->retry.weight,
        .lanes = retry->shard_names[handler],
        .lane_count = pool_shares(&retry->pool) ? TASK_SHARDS : 0,
        .with = handler > 0 ? &retry->lease_stores[0] : NULL,
    };

    shard_leases_group(&retry->pool, handler, retry->lease_groups[handler]);
    for (unsigned i = 0; i < TASK_SHARDS; i++)
        retry->shard_names[handler][i] = pool_shard(&retry->pool, handler, i)->name;
    return lease_mysql_open(&retry->lease_stores[handler], &claim, env->settings, err);
}

static enum rc open_leases(struct retry *retry, struct err *err)
{
    struct lease_store stores[RETRY_HANDLERS_MAX];

    for (size_t i = 0; i < retry->handlers.handlers.count; i++) {
        enum rc rc = open_lease_store(retry, i, err);

        if (rc != RC_OK)
            return rc;
        stores[i] = lease_mysql_ops(&retry->lease_stores[i]);
    }
    return shard_leases_init(&retry->leases, &retry->pool, retry->env->instance, stores,
                             os_random_u64(), err);
}

static enum rc open_loops(struct retry *retry, struct err *err)
{
    struct stop *stop = retry->env->stop;
    size_t count = retry->pool.workers;
    enum rc rc = loop_init(&retry->loops[LOOP_DISPATCHER], "retry-poll", dispatcher_step,
                           &retry->dispatcher, stop, err);

    if (rc == RC_OK)
        rc = loop_init(&retry->loops[LOOP_LEASE_RENEWER], "retry-renew", lease_renewer_step,
                       &retry->renewer, stop, err);
    if (rc == RC_OK)
        rc = loop_init(&retry->loops[LOOP_LEASES], "retry-lease", shard_leases_step, &retry->leases,
                       stop, err);
    if (rc == RC_OK)
        rc = loop_init(&retry->loops[LOOP_CLIENTS], "retry-clients", client_watch_step,
                       &retry->client_watch, stop, err);
    retry->workers = calloc(count + 1, sizeof(*retry->workers));
    retry->worker_loops = calloc(count + 1, sizeof(*retry->worker_loops));
    if (!retry->workers || !retry->worker_loops)
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu workers", count);
    for (size_t i = 0; i < count; i++)
        retry->worker_loops[i].wakeup.fd = -1;
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        retry->workers[i] = (struct pool_worker){&retry->pool, i};
        rc = loop_init(&retry->worker_loops[i], "retry-work", pool_worker_step, &retry->workers[i],
                       stop, err);
    }
    return rc;
}

static void retry_close(void *role)
{
    struct retry *retry = role;

    if (!retry)
        return;
    for (size_t i = 0; retry->worker_loops && i < retry->pool.workers; i++)
        loop_done(&retry->worker_loops[i]);
    for (size_t i = 0; i < LOOPS; i++)
        loop_done(&retry->loops[i]);
    free(retry->worker_loops);
    free(retry->workers);
    for (size_t i = RETRY_HANDLERS_MAX; i-- > 0;)
        lease_mysql_close(&retry->lease_stores[i]);
    shard_leases_done(&retry->leases);
    client_watch_done(&retry->client_watch);
    store_close(&retry->client_store);
    lease_renewer_done(&retry->renewer);
    dispatcher_done(&retry->dispatcher);
    retry_mysql_close(&retry->renew_store);
    retry_mysql_close(&retry->poll_store);
    pool_done(&retry->pool);
    handler_list_close(&retry->handlers);
    clients_close(retry->clients);
    free(retry);
}

static enum rc open_parts(struct retry *retry, struct err *err)
{
    const struct role_env *env = retry->env;
    struct retry_handler_env handler_env = {
        .settings = env->settings,
        .stop = env->stop,
        .instance = env->instance,
        .workers = env->settings->retry.threads > 0 ? (size_t)env->settings->retry.threads : 1,
    };
    enum rc rc = clients_open(&retry->clients, err);

    handler_env.clients = retry->clients;
    if (rc == RC_OK)
        rc = handler_list_open(&retry->handlers, env->handlers, &handler_env, err);
    if (rc == RC_OK)
        rc = pool_init(&retry->pool, env->settings, &retry->handlers.handlers, err);
    if (rc != RC_OK)
        return rc;
    retry->pool.clients = retry->clients;
    retry->pool.wake_dispatcher = wake_dispatcher;
    retry->pool.wake_worker = wake_worker;
    retry->pool.wake_ctx = retry;
    retry->pool.time_ms = time_ms;
    rc = open_engines(retry, err);
    if (rc == RC_OK)
        rc = open_client_watch(retry, err);
    if (rc == RC_OK)
        rc = open_leases(retry, err);
    if (rc == RC_OK)
        rc = open_loops(retry, err);
    return rc;
}

static enum rc retry_open(void **role, const struct role_env *env, struct err *err)
{
    struct retry *retry = calloc(1, sizeof(*retry));
    enum rc rc;

    if (!retry)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    retry->env = env;
    for (size_t i = 0; i < LOOPS; i++)
        retry->loops[i].wakeup.fd = -1;
    rc = open_parts(retry, err);
    if (rc == RC_OK && retry->pool.workers <= 1)
        log_event(LOG_WARN, "scenes_not_isolated",
                  "threads=%zu text=\"a slow scene delays all others\" hint=\"retry.threads = 2 or "
                  "more\"",
                  retry->pool.workers);
    if (rc == RC_OK)
        *role = retry;
    else
        retry_close(retry);
    return rc;
}

static void join_workers(struct retry *retry)
{
    for (size_t i = 0; i < retry->pool.workers; i++)
        loop_join(&retry->worker_loops[i]);
}

static void join_loops(struct retry *retry)
{
    for (size_t i = 0; i < LOOPS; i++)
        loop_join(&retry->loops[i]);
}

static enum rc retry_start(void *role, struct err *err)
{
    struct retry *retry = role;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < LOOPS && rc == RC_OK; i++)
        rc = loop_start(&retry->loops[i], err);
    for (size_t i = 0; i < retry->pool.workers && rc == RC_OK; i++)
        rc = loop_start(&retry->worker_loops[i], err);
    if (rc != RC_OK) {
        stop_request(retry->env->stop);
        join_loops(retry);
        join_workers(retry);
    }
    return rc;
}

/* Every process reports tasks that no process runs. */
static void health_of_handlers(struct retry *retry, int64_t stale_ms, struct health *health)
{
    struct pool_unserved unserved;

    pthread_mutex_lock(&retry->pool.lock);
    unserved = retry->pool.unserved;
    pthread_mutex_unlock(&retry->pool.lock);
    if (unserved.age_ms > stale_ms)
        health_bad(health, "handlers",
                   "a task of the scene %s has waited for %" PRId64
                   " ms, and no live process runs its handler %s: see retry.handlers",
                   unserved.scene, unserved.age_ms, unserved.handler);
    else
        health_good(health, "handlers");
}

static void retry_health(void *role, struct health *health)
{
    static const char *const names[POOL_CALLS] = {
        [POOL_SCENES] = "scenes",     [POOL_LOOK] = "looking",     [POOL_CLAIM] = "claiming",
        [POOL_FINISH] = "write-back", [POOL_BEAT] = "leases",      [POOL_RESCUE] = "rescue",
        [POOL_DEPTHS] = "counting",   [POOL_EXPIRE] = "deadlines", [POOL_FORGET] = "done tasks"};
    struct retry *retry = role;
    int64_t age_ms = atomic_load(&retry->pool.oldest_age);
    int64_t stale_ms = retry->env->settings->admin.stale_ms;
    struct err err;

    if (shard_leases_failing(&retry->leases, &err))
        health_bad(health, "shards", "%s", err.text);
    else
        health_good(health, "shards");
    for (size_t i = 0; i < POOL_CALLS; i++)
        if (condition_read(&retry->pool.conditions[i], &err))
            health_bad(health, names[i], "%s", err.text);
    if (condition_read(&retry->client_watch.reading, &err))
        health_bad(health, "clients", "%s", err.text);
    if (condition_read(&retry->pool.clock, &err))
        health_bad(health, "database clock", "%s", err.text);
    if (age_ms > stale_ms)
        health_bad(health, "age",
                   "the oldest task that could run has been due for %" PRId64
                   " ms, admin.stale_ms is %" PRId64,
                   age_ms, stale_ms);
    else
        health_good(health, "age");
    health_of_handlers(retry, stale_ms, health);
}

/* One thread runs the dispatcher and the renewer while workers end their attempts: tasks that have
 * not begun return to the table, finished ones are written. */
static void finish_tasks(struct retry *retry, int64_t until_ms)
{
    int64_t now_ms = os_now_ms();
    struct stop pause;

    if (stop_init(&pause, NULL) != RC_OK)
        return;
    dispatcher_leave(&retry->dispatcher);
    while (now_ms < until_ms && !dispatcher_left(&retry->dispatcher)) {
        dispatcher_step(&retry->dispatcher, now_ms);
        lease_renewer_step(&retry->renewer, now_ms);
        if (!dispatcher_left(&retry->dispatcher))
            stop_wait(&pause, STOP_PAUSE_MS);
        now_ms = os_now_ms();
    }
    stop_done(&pause);
    if (!dispatcher_left(&retry->dispatcher))
        log_event(LOG_WARN, "stopped_early",
                  "tasks=%zu text=\"they are tried again when their leases have expired\"",
                  retry->pool.slot_count - retry->dispatcher.slots.free_count);
}

static void retry_join(void *role)
{
    struct retry *retry = role;
    int64_t until_ms = os_now_ms() + retry->env->settings->admin.stop_timeout_ms /
                                         STOP_PART_DENOMINATOR * STOP_PART_NUMERATOR;

    join_loops(retry);
    finish_tasks(retry, until_ms);
    shard_leases_release(&retry->leases);
    join_workers(retry);
}

const struct role retry_role = {
    .name = "retry",
    .about = "Runs the tasks of retry_task by the rules of their scenes, and tries failed ones "
             "again. Several processes share the work. With an ACTION it shows and changes tasks, "
             "scenes and groups; `tallybox retry ACTION --help` has the options of the actions.",
    .register_metrics = retry_metrics_register,
    .open = retry_open,
    .start = retry_start,
    .health = retry_health,
    .join = retry_join,
    .close = retry_close,
    .sections = "mysql,sink,kafka,retry,relay",
    .beats = true,
};
