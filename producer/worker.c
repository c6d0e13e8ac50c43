/* SPDX-License-Identifier: MIT */
#include "producer/worker.h"

#include "common/log.h"
#include "common/loop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How often an idle worker pings the database, for readiness and to notice its recovery. */
#define PING_MS 2000
#define COLLISION_BASE_MS 5
#define COLLISION_CAP_MS 500

enum rc worker_init(struct worker *worker, const struct worker_config *config, struct err *err)
{
    memset(worker, 0, sizeof(*worker));
    worker->config = *config;
    worker->collisions.base_ms = COLLISION_BASE_MS;
    worker->collisions.cap_ms = COLLISION_CAP_MS;
    worker->batch = calloc(config->entries_max, sizeof(struct queue_entry *));
    if (!worker->batch)
        return err_fail(err, RC_FATAL, 0, "no memory for %s", config->name);
    return RC_OK;
}

static void end_batch(struct worker *worker, enum queue_end end)
{
    const struct worker_config *config = &worker->config;

    for (size_t i = 0; i < worker->count; i++) {
        struct queue_entry *entry = worker->batch[i];

        if (end != QUEUE_DONE || !config->ops->keep || !config->ops->keep(config->ctx, entry))
            queue_finish(config->queue, config->shard, entry, end);
    }
    worker->count = 0;
    worker->losses = 0;
    worker->try_ms = 0;
    backoff_reset(&worker->collisions);
    config->ops->set(config->ctx, worker->batch, 0);
}

void worker_done(struct worker *worker)
{
    if (worker->count > 0)
        end_batch(worker, QUEUE_UNKNOWN);
    free(worker->batch);
    worker->batch = NULL;
}

static void fill_batch(struct worker *worker, int64_t now_ms)
{
    const struct worker_config *config = &worker->config;
    size_t room = SIZE_MAX;
    size_t weight = 0;

    while (worker->count < config->entries_max) {
        struct queue_entry *entry = queue_take(config->queue, config->shard, room, now_ms);

        if (!entry)
            break;
        worker->batch[worker->count++] = entry;
        weight += entry->weight;
        room = weight < config->weight_max ? config->weight_max - weight : 0;
    }
    if (worker->count > 0)
        config->ops->set(config->ctx, worker->batch, worker->count);
}

/* Removes the entries that queue_expire() has answered: their work is not repeated. */
static void drop_late(struct worker *worker)
{
    const struct worker_config *config = &worker->config;
    size_t count = worker->count;

    worker->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct queue_entry *entry = worker->batch[i];

        if (queue_answered(config->queue, entry))
            queue_finish(config->queue, config->shard, entry, QUEUE_UNKNOWN);
        else
            worker->batch[worker->count++] = entry;
    }
    if (worker->count < count)
        config->ops->set(config->ctx, worker->batch, worker->count);
}

static void note_success(struct worker *worker, int64_t now_ms)
{
    worker->losses = 0;
    queue_worked(worker->config.queue, now_ms);
}

/* The second attempt reconnects after an idle time-out or a restart of the server; only if it
 * fails, too, the database counts as down. */
static int64_t note_failure(struct worker *worker, int64_t now_ms, const struct err *err)
{
    const struct worker_config *config = &worker->config;

    if (worker->losses++ == 0 && !queue_is_unavailable(config->queue))
        return 0;
    queue_failed(config->queue, now_ms, config->rng(),
                 config->ops->more_failed && config->ops->more_failed(config->ctx), err);
    worker->try_ms = now_ms + queue_wait_ms(config->queue, now_ms);
    return worker->try_ms - now_ms;
}

static int64_t fail_worker(struct worker *worker, const struct err *err)
{
    log_error(LOG_ERROR, "role_failed", err, "role=serve worker=%s", worker->config.name);
    queue_close(worker->config.queue);
    end_batch(worker, QUEUE_UNKNOWN);
    stop_fail(worker->config.stop);
    return LOOP_END;
}

static int64_t handle_result(struct worker *worker, enum rc rc, bool finished, int64_t now_ms,
                             const struct err *err)
{
    const struct worker_config *config = &worker->config;

    switch (rc) {
    case RC_OK:
        note_success(worker, now_ms);
        if (finished) {
            if (config->ops->finished)
                config->ops->finished(config->ctx);
            end_batch(worker, QUEUE_DONE);
        }
        return 0;
    case RC_RETRY:
        if (!config->ops->collided || !config->ops->collided(config->ctx, err))
            return note_failure(worker, now_ms, err);
        note_success(worker, now_ms);
        worker->try_ms = now_ms + backoff_next_ms(&worker->collisions, config->rng());
        return worker->try_ms - now_ms;
    case RC_REJECT: /* not in the contract of attempt() */
    case RC_FATAL:
        return fail_worker(worker, err);
    }
    return LOOP_END;
}

static int64_t step_idle(struct worker *worker, int64_t now_ms)
{
    const struct worker_config *config = &worker->config;
    struct err err = {0};
    enum rc rc;

    if (!queue_is_unavailable(config->queue) && worker->losses == 0 && now_ms < worker->ping_ms)
        return worker->ping_ms - now_ms;
    if (!queue_may_try(config->queue, now_ms))
        return queue_wait_ms(config->queue, now_ms);
    worker->ping_ms = now_ms + PING_MS;
    rc = config->ops->ping(config->ctx, &err);
    switch (rc) {
    case RC_OK:
        note_success(worker, now_ms);
        return PING_MS;
    case RC_RETRY:
        return note_failure(worker, now_ms, &err);
    case RC_REJECT: /* not in the contract of ping() */
    case RC_FATAL:
        return fail_worker(worker, &err);
    }
    return LOOP_END;
}

int64_t worker_step(void *arg, int64_t now_ms)
{
    struct worker *worker = arg;
    struct err err = {0};
    bool finished = false;
    enum rc rc;

    if (worker->count == 0)
        fill_batch(worker, now_ms);
    else
        drop_late(worker);
    if (worker->count == 0)
        return step_idle(worker, now_ms);
    if (now_ms < worker->try_ms)
        return worker->try_ms - now_ms;
    if (!queue_may_try(worker->config.queue, now_ms))
        return queue_wait_ms(worker->config.queue, now_ms);
    worker->ping_ms = now_ms + PING_MS;
    rc = worker->config.ops->attempt(worker->config.ctx, &finished, &err);
    return handle_result(worker, rc, finished, now_ms, &err);
}
