/* SPDX-License-Identifier: MIT */
#include "outbox/retry/shard_leases.h"

#include "common/hash.h"
#include "common/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shard_leases_group(const struct pool *pool, size_t handler,
                        char group[SHARD_LEASES_GROUP_SIZE])
{
    snprintf(group, SHARD_LEASES_GROUP_SIZE, "%s:%.*s", pool_shares(pool) ? "retry" : "retry-fixed",
             TASK_HANDLER_SIZE - 1, pool->handlers->list[handler]->name);
}

static void init_set(struct shard_set *set, struct pool *pool, size_t handler, const char *name,
                     const struct lease_store *store, uint64_t seed)
{
    set->handler = handler;
    leases_init(&set->leases, "retry", "shard", name, store, pool->settings->retry.lease_ms, seed);
    /* There are many of them: the log has their number instead. */
    set->leases.level = LOG_DEBUG;
    for (unsigned i = 0; pool_shares(pool) && i < TASK_SHARDS; i++) {
        struct leased *shard = pool_shard(pool, handler, i);

        shard->wake = pool->wake_dispatcher;
        shard->ctx = pool->wake_ctx;
        leases_add(&set->leases, shard);
    }
}

enum rc shard_leases_init(struct shard_leases *leases, struct pool *pool, const char *name,
                          const struct lease_store *stores, uint64_t seed, struct err *err)
{
    const struct retry_handlers *handlers = pool->handlers;

    memset(leases, 0, sizeof(*leases));
    leases->pool = pool;
    leases->sets = calloc(handlers->count + 1, sizeof(*leases->sets));
    if (!leases->sets)
        return err_fail(err, RC_FATAL, 0, "out of memory for the leases of shards");
    for (size_t i = 0; i < handlers->count; i++)
        if (handlers->opened[i])
            init_set(&leases->sets[leases->count++], pool, i, name, &stores[i], rng_next(&seed));
    return RC_OK;
}

void shard_leases_done(struct shard_leases *leases)
{
    for (size_t i = 0; i < leases->count; i++)
        leases_done(&leases->sets[i].leases);
    free(leases->sets);
    memset(leases, 0, sizeof(*leases));
}

static void log_held_shards(const struct shard_leases *leases, struct shard_set *set,
                            int64_t now_ms)
{
    unsigned held = pool_held(leases->pool, set->handler, now_ms);

    if (held == set->held)
        return;
    set->held = held;
    log_event(LOG_INFO, "shards_leased", "handler=%s held=%u of=%d instances=%zu",
              leases->pool->handlers->list[set->handler]->name, held, TASK_SHARDS,
              set->leases.instances);
}

int64_t shard_leases_step(void *arg, int64_t now_ms)
{
    struct shard_leases *leases = arg;
    int64_t next_ms = INT64_MAX;

    for (size_t i = 0; i < leases->count; i++) {
        struct shard_set *set = &leases->sets[i];

        if (now_ms >= set->due_ms) {
            /* The lease starts to run before its statement is sent. */
            int64_t from_ms = pool_now(leases->pool, now_ms);

            set->due_ms = from_ms + leases_step(&set->leases, from_ms);
            log_held_shards(leases, set, from_ms);
        }
        if (set->due_ms < next_ms)
            next_ms = set->due_ms;
    }
    if (leases->count == 0)
        return POOL_WAIT_MS;
    now_ms = pool_now(leases->pool, now_ms);
    return next_ms > now_ms ? next_ms - now_ms : 1;
}

void shard_leases_release(struct shard_leases *leases)
{
    for (size_t i = 0; i < leases->count; i++)
        leases_release(&leases->sets[i].leases);
}

bool shard_leases_failing(struct shard_leases *leases, struct err *err)
{
    for (size_t i = 0; i < leases->count; i++)
        if (leases_failing(&leases->sets[i].leases, err))
            return true;
    return false;
}
