/* SPDX-License-Identifier: MIT */
#include "producer/serve_tries.h"

#include "common/loop.h"
#include "common/os.h"
#include "outbox/retry/first_tries_role.h"
#include "producer/producer_mysql.h"
#include "producer/serve_metrics.h"
#include "producer/task/try_intake.h"

#include <stdlib.h>
#include <string.h>

#define BREAKER_BASE_MS 100
#define BREAKER_CAP_MS 2000

struct serve_tries {
    struct queue *queue;
    struct producer_mysql *store; /* checks the tasks */
    struct first_tries_role *role;
    struct try_intake *intake;
    struct loop loop;
};

static void wake_loop(void *ctx)
{
    struct serve_tries *tries = ctx;

    loop_wake(&tries->loop);
}

static void wake_intake(void *ctx, size_t shard)
{
    (void)shard;
    wake_loop(ctx);
}

static void end_try(void *ctx, void *owner, const struct first_try_result *result)
{
    const struct serve_tries *tries = ctx;

    try_intake_on_end(tries->intake, owner, result);
}

/* A request waits for its transaction and for the try. */
static enum rc open_queue(struct serve_tries *tries, const struct settings *settings,
                          struct err *err)
{
    const struct queue_config config = {
        .shards = 1,
        .weight_max = (size_t)settings->api.queue_votes_max,
        .timeout_ms = settings->api.request_timeout_ms + settings->api.try_timeout_ms,
        .breaker_base_ms = BREAKER_BASE_MS,
        .breaker_cap_ms = BREAKER_CAP_MS,
        .wake = wake_intake,
        .wake_ctx = tries,
        .waiting = &serve_queue_tries,
        .name = "tries",
        .dep = "mysql",
    };

    return queue_open(&tries->queue, &config, err);
}

static enum rc open_role(struct serve_tries *tries, const struct role_env *env, struct stop *stop,
                         struct err *err)
{
    const struct first_tries_role_config config = {
        .settings = env->settings,
        .handlers = env->handlers,
        .stop = stop,
        .instance = env->instance,
        .on_end = end_try,
        .ctx = tries,
        .wake = wake_loop,
    };

    return first_tries_role_open(&tries->role, &config, err);
}

static enum rc open_intake(struct serve_tries *tries, const struct role_env *env,
                           const struct retry_handlers *handlers, struct err *err)
{
    const struct try_intake_config config = {
        .queue = tries->queue,
        .store = producer_mysql_tasks(tries->store),
        .tries = first_tries_role_ops(tries->role),
        .tries_max = (size_t)env->settings->api.try_max,
        .handlers = handlers,
        .clock_ms = os_now_ms,
        .rng = os_random_u64,
        .stop = env->stop,
    };

    return try_intake_open(&tries->intake, &config, err);
}

enum rc serve_tries_open(struct serve_tries **out, const struct role_env *env,
                         const struct retry_handlers *handlers, struct stop *stop, struct err *err)
{
    const struct settings *settings = env->settings;
    struct serve_tries *tries;
    enum rc rc;

    *out = NULL;
    if (settings->api.try_max == 0 || strcmp(settings->api.tasks, "on") != 0 || !env->handlers)
        return RC_OK;
    tries = calloc(1, sizeof(*tries));
    if (!tries)
        return err_fail(err, RC_FATAL, 0, "no memory to try tasks first");
    rc = open_queue(tries, settings, err);
    if (rc == RC_OK)
        rc = producer_mysql_open(&tries->store, &settings->mysql, 0, 0, err);
    if (rc == RC_OK)
        rc = open_role(tries, env, stop, err);
    if (rc == RC_OK)
        rc = open_intake(tries, env, handlers, err);
    if (rc == RC_OK)
        rc = loop_init(&tries->loop, "try", try_intake_step, tries->intake, stop, err);
    if (rc != RC_OK)
        serve_tries_close(tries);
    else
        *out = tries;
    return rc;
}

void serve_tries_close(struct serve_tries *tries)
{
    if (!tries)
        return;
    loop_done(&tries->loop);
    try_intake_close(tries->intake);
    first_tries_role_close(tries->role);
    producer_mysql_close(tries->store);
    queue_free(tries->queue);
    free(tries);
}

struct queue *serve_tries_queue(struct serve_tries *tries)
{
    return tries->queue;
}

enum rc serve_tries_start(struct serve_tries *tries, struct err *err)
{
    enum rc rc = first_tries_role_start(tries->role, err);

    return rc == RC_OK ? loop_start(&tries->loop, err) : rc;
}

void serve_tries_refuse(struct serve_tries *tries)
{
    queue_close(tries->queue);
    queue_drop(tries->queue);
}

/* A try alone needs no statement now; its result is written after the stop. */
void serve_tries_interrupt(struct serve_tries *tries)
{
    if (atomic_load(&tries->loop.busy_ms) == 0)
        return;
    producer_mysql_interrupt(tries->store);
    first_tries_role_interrupt(tries->role);
}

void serve_tries_join(struct serve_tries *tries, int64_t until_ms)
{
    if (!tries)
        return;
    loop_join(&tries->loop);
    first_tries_role_join(tries->role, until_ms);
    try_intake_close(tries->intake);
    tries->intake = NULL;
}
