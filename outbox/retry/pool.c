/* SPDX-License-Identifier: MIT */
#include "outbox/retry/pool.h"

#include "common/hash.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS_AUTO "auto"

static void conditions_init(struct pool *pool)
{
    static const char *const reasons[POOL_CALLS] = {
        [POOL_SCENES] = "cannot_read_scenes", [POOL_LOOK] = "cannot_find_due_tasks",
        [POOL_CLAIM] = "cannot_claim",        [POOL_FINISH] = "cannot_write_back",
        [POOL_BEAT] = "cannot_renew_tasks",   [POOL_RESCUE] = "cannot_rescue",
        [POOL_DEPTHS] = "cannot_count",       [POOL_EXPIRE] = "cannot_expire",
        [POOL_FORGET] = "cannot_forget_done"};

    static const char *const waits[POOL_WAITS] = {
        [POOL_WAIT_HANDLER] = "what=handler role=retry reason=unserved",
        [POOL_WAIT_GROUP] = "what=group role=retry reason=closed",
        [POOL_WAIT_SCENE] = "what=scene role=retry reason=invalid",
        [POOL_WAIT_KINDS] = "what=kinds role=retry reason=too_many"};

    for (size_t i = 0; i < POOL_CALLS; i++)
        condition_init(&pool->conditions[i], CONDITION_DEPENDENCY, "dep=mysql role=retry reason=%s",
                       reasons[i]);
    condition_init(&pool->clock, CONDITION_CHECK, "check=database_clock role=retry");
    condition_init(&pool->destinations, CONDITION_REMINDER,
                   "dep=destination role=retry reason=breaker_open");
    for (size_t i = 0; i < POOL_WAITS; i++)
        condition_init(&pool->waits[i], CONDITION_REMINDER, "%s", waits[i]);
}

static void init_shard(struct pool *pool, size_t handler, unsigned number, bool fixed)
{
    size_t at = handler * TASK_SHARDS + number;
    struct leased *shard = &pool->shards[at];

    snprintf(pool->shard_names[at], POOL_SHARD_NAME_SIZE, "retry:%.*s:%u", TASK_HANDLER_SIZE - 1,
             pool->handlers->list[handler]->name, number);
    shard->name = pool->shard_names[at];
    shard->label = shard->name;
    atomic_init(&shard->idle, true);
    if (!fixed || !pool->handlers->opened[handler])
        return;
    atomic_init(&shard->epoch, 1);
    atomic_init(&shard->valid_until_ms, INT64_MAX);
}

/* Fixed shards need no lease: the setting assigns them to processes. */
static enum rc init_shards(struct pool *pool, struct err *err)
{
    size_t count = pool->handlers->count;
    unsigned fixed = 0;
    enum rc rc = RC_OK;

    assert(count <= RETRY_HANDLERS_MAX);
    if (!pool_shares(pool))
        rc = pool_parse_shards(&fixed, pool->settings->retry.shards, err);
    pool->shards = calloc(count * TASK_SHARDS + 1, sizeof(*pool->shards));
    pool->shard_names = calloc(count * TASK_SHARDS + 1, sizeof(*pool->shard_names));
    if (rc != RC_OK)
        return rc;
    if (!pool->shards || !pool->shard_names)
        return err_fail(err, RC_FATAL, 0, "out of memory for shards");
    for (size_t i = 0; i < count; i++)
        for (unsigned shard = 0; shard < TASK_SHARDS; shard++)
            init_shard(pool, i, shard, fixed >> shard & 1);
    return RC_OK;
}

/* The task is the first thing in its slot. */
static struct slot *get_slot(struct fair_task *task)
{
    return (struct slot *)(void *)task;
}

static void reset_outcome(struct slot *slot)
{
    memset(&slot->attempt_result, 0, sizeof(slot->attempt_result));
    slot->attempt_result.delay_ms = ATTEMPT_NO_DELAY;
    buf_reset(&slot->result);
    slot->attempt_result.result = &slot->result;
}

static void cut_task(struct slot *slot, const char *why)
{
    slot->attempt_result.end = ATTEMPT_CUT;
    err_set(&slot->attempt_result.err, "%s", why);
}

/* A step's result is stored for the next step and must not exceed RETRY_RESULT_BYTES_MAX. */
static void reject_result(struct slot *slot)
{
    slot->attempt_result.end = ATTEMPT_FAILED;
    slot->attempt_result.source = FAULT_SOURCE_PLAIN;
    slot->attempt_result.fault = FAULT_CLASS_REFUSED;
    err_set(&slot->attempt_result.err, "the result of step %lld has more than %zu bytes",
            (long long)slot->job.step, RETRY_RESULT_BYTES_MAX);
}

/* Invariant Q3: an attempt begins only before its lease ends. */
static void run_task(struct pool_worker *worker, struct slot *slot, int64_t now_ms)
{
    int64_t from_ms = pool_now(worker->pool, now_ms);

    slot->job.lease_until_ms = &slot->valid_until_ms;
    if (from_ms >= atomic_load(&slot->valid_until_ms)) {
        cut_task(slot, "its lease expired before it began");
        return;
    }
    if (from_ms >= slot->expires_ms) {
        cut_task(slot, "its deadline passed before it began");
        return;
    }
    if (atomic_load(slot->breaker_open) && !slot->probe) {
        cut_task(slot, "the circuit breaker of its destination is open");
        return;
    }
    slot->tried = true;
    slot->handler->run(slot->opened, worker->number, &slot->job, &slot->attempt_result);
    slot->took_ms = pool_now(worker->pool, now_ms) - from_ms;
    if (slot->attempt_result.end == ATTEMPT_DONE && slot->attempt_result.more_steps &&
        slot->result.failed)
        reject_result(slot);
}

enum rc pool_init(struct pool *pool, const struct settings *settings,
                  const struct retry_handlers *handlers, struct err *err)
{
    enum rc rc;

    memset(pool, 0, sizeof(*pool));
    pool->settings = settings;
    pool->handlers = handlers;
    pool->workers = (size_t)settings->retry.threads;
    pool->slot_count = (size_t)settings->retry.in_flight_max;
    pthread_mutex_init(&pool->lock, NULL);
    conditions_init(pool);
    rc = init_shards(pool, err);
    pool->slots = calloc(pool->slot_count, sizeof(*pool->slots));
    pool->done = calloc(pool->slot_count, sizeof(struct slot *));
    pool->idle = calloc(pool->workers + 1, sizeof(*pool->idle));
    if (rc == RC_OK && (!pool->slots || !pool->done || !pool->idle))
        rc = err_fail(err, RC_FATAL, 0, "out of memory for %zu tasks", pool->slot_count);
    if (rc == RC_OK)
        rc = fair_queue_init(&pool->queue, pool->slot_count, pool->workers > 0 ? pool->workers : 1,
                             err);
    for (size_t i = 0; rc == RC_OK && i < pool->slot_count; i++)
        buf_init(&pool->slots[i].result, RETRY_RESULT_BYTES_MAX);
    if (rc != RC_OK)
        pool_done(pool);
    return rc;
}

void pool_done(struct pool *pool)
{
    for (size_t i = 0; pool->slots && i < pool->slot_count; i++) {
        buf_done(&pool->slots[i].bytes);
        buf_done(&pool->slots[i].result);
        buf_done(&pool->slots[i].callback);
    }
    free(pool->slots);
    fair_queue_done(&pool->queue);
    free(pool->done);
    free(pool->idle);
    free(pool->shards);
    free(pool->shard_names);
    pool->shards = NULL;
    pool->shard_names = NULL;
    pool->slots = NULL;
    pool->done = NULL;
    pool->idle = NULL;
    for (size_t i = 0; i < POOL_CALLS; i++)
        condition_done(&pool->conditions[i]);
    condition_done(&pool->clock);
    condition_done(&pool->destinations);
    for (size_t i = 0; i < POOL_WAITS; i++)
        condition_done(&pool->waits[i]);
    pthread_mutex_destroy(&pool->lock);
}

enum rc pool_parse_shards(unsigned *bits, const char *text, struct err *err)
{
    if (retry_shards_read(bits, text))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "retry.shards = \"%.60s\": \"auto\" or a list of shards of 0..%d, like 0-7,12, "
                    "is expected",
                    text, TASK_SHARDS - 1);
}

int64_t pool_now(const struct pool *pool, int64_t now_ms)
{
    return pool->time_ms ? pool->time_ms(pool->time_ctx) : now_ms;
}

bool pool_shares(const struct pool *pool)
{
    return strcmp(pool->settings->retry.shards, SHARDS_AUTO) == 0;
}

struct leased *pool_shard(const struct pool *pool, size_t handler, unsigned shard)
{
    assert(handler < pool->handlers->count && shard < TASK_SHARDS);
    return &pool->shards[handler * TASK_SHARDS + shard];
}

bool pool_holds(const struct pool *pool, size_t handler, unsigned shard, int64_t now_ms)
{
    const struct leased *leased = pool_shard(pool, handler, shard);

    return leased_epoch(leased, now_ms) != 0 && !atomic_load(&leased->draining);
}

unsigned pool_held(const struct pool *pool, size_t handler, int64_t now_ms)
{
    unsigned held = 0;

    for (unsigned shard = 0; shard < TASK_SHARDS; shard++)
        held += pool_holds(pool, handler, shard, now_ms);
    return held;
}

void pool_queue(struct pool *pool, struct slot *slot, struct fair_scene *scene,
                const void *destination)
{
    pthread_mutex_lock(&pool->lock);
    fair_queue_put(&pool->queue, scene, destination, &slot->fair);
    pthread_mutex_unlock(&pool->lock);
}

/* Only idle workers are woken, so no worker is woken twice for one slot. */
void pool_wake(struct pool *pool, size_t count)
{
    for (size_t i = 0; i < pool->workers && count > 0; i++) {
        bool idle;

        pthread_mutex_lock(&pool->lock);
        idle = pool->idle[i];
        pool->idle[i] = false;
        pthread_mutex_unlock(&pool->lock);
        if (!idle)
            continue;
        count--;
        if (pool->wake_worker)
            pool->wake_worker(pool->wake_ctx, i);
    }
}

size_t pool_take_done(struct pool *pool, struct slot **slots, size_t count)
{
    pthread_mutex_lock(&pool->lock);
    if (count > pool->done_count)
        count = pool->done_count;
    memcpy(slots, pool->done, count * sizeof(struct slot *));
    memmove(pool->done, pool->done + count, (pool->done_count - count) * sizeof(struct slot *));
    pool->done_count -= count;
    pthread_mutex_unlock(&pool->lock);
    return count;
}

struct slot *pool_take_queued(struct pool *pool)
{
    struct fair_task *task;

    pthread_mutex_lock(&pool->lock);
    task = fair_queue_first(&pool->queue);
    if (task)
        fair_queue_remove(&pool->queue, task);
    pthread_mutex_unlock(&pool->lock);
    return task ? get_slot(task) : NULL;
}

size_t pool_each_queued(struct pool *pool, pool_on_slot on_slot, void *ctx, struct slot **taken)
{
    size_t count = 0;

    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < pool->slot_count && pool->queue.waiting > 0; i++) {
        struct slot *slot = &pool->slots[i];

        if (!slot->fair.waits || !on_slot(ctx, slot))
            continue;
        fair_queue_remove(&pool->queue, &slot->fair);
        taken[count++] = slot;
    }
    pthread_mutex_unlock(&pool->lock);
    return count;
}

bool pool_may_sleep(struct pool *pool)
{
    bool nothing;

    pthread_mutex_lock(&pool->lock);
    nothing = pool->done_count == 0;
    pool->dispatcher_waits = nothing;
    pthread_mutex_unlock(&pool->lock);
    return nothing;
}

/* An eighth of the lease stays unused: the process may pause between reading the clock and the
 * work. */
void pool_set_lease(struct slot *slot, int64_t sent_ms, int64_t lease_ms)
{
    slot->lease_ms = lease_ms;
    atomic_store(&slot->valid_until_ms, sent_ms + lease_ms - lease_ms / 8);
    slot->renew_at_ms = sent_ms + lease_ms / 3;
}

struct slot *pool_take(struct pool *pool, size_t worker)
{
    struct fair_task *task;

    pthread_mutex_lock(&pool->lock);
    task = fair_queue_take(&pool->queue);
    pool->idle[worker] = !task;
    pthread_mutex_unlock(&pool->lock);
    return task ? get_slot(task) : NULL;
}

void pool_give(struct pool *pool, struct slot *slot)
{
    bool waits;

    pthread_mutex_lock(&pool->lock);
    fair_queue_end(&pool->queue, &slot->fair);
    pool->done[pool->done_count++] = slot;
    waits = pool->dispatcher_waits;
    pool->dispatcher_waits = false;
    pthread_mutex_unlock(&pool->lock);
    if (waits && pool->wake_dispatcher)
        pool->wake_dispatcher(pool->wake_ctx);
}

bool pool_worker_run_one(struct pool_worker *worker, int64_t now_ms)
{
    struct slot *slot = pool_take(worker->pool, worker->number);

    if (!slot)
        return false;
    reset_outcome(slot);
    run_task(worker, slot, now_ms);
    pool_give(worker->pool, slot);
    return true;
}

int64_t pool_worker_step(void *arg, int64_t now_ms)
{
    return pool_worker_run_one(arg, now_ms) ? 0 : 10 * POOL_WAIT_MS;
}

#define BACKOFF_BASE_MS 20
#define BACKOFF_CAP_MS 5000
/* After RC_FATAL, which an operator must resolve, the wait is at least this long. */
#define FATAL_WAIT_MS 3000

void pool_calls_init(struct pool_calls *calls, struct pool *pool, uint64_t *rng)
{
    memset(calls, 0, sizeof(*calls));
    calls->pool = pool;
    calls->rng = rng;
    for (size_t i = 0; i < POOL_CALLS; i++)
        calls->backoffs[i] = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
}

void pool_call_failed(struct pool_calls *calls, enum pool_call call, enum rc rc,
                      const struct err *err, int64_t now_ms)
{
    int64_t wait_ms = backoff_next_ms(&calls->backoffs[call], rng_next(calls->rng));

    condition_fail(&calls->pool->conditions[call], now_ms, err);
    if (rc == RC_FATAL && wait_ms < FATAL_WAIT_MS)
        wait_ms = FATAL_WAIT_MS;
    calls->at_ms[call] = now_ms + wait_ms;
}

void pool_call_worked(struct pool_calls *calls, enum pool_call call, int64_t now_ms)
{
    condition_ok(&calls->pool->conditions[call], now_ms);
    backoff_reset(&calls->backoffs[call]);
}
