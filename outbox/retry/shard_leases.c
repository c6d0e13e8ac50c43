/* SPDX-License-Identifier: MIT */
#include "outbox/retry/shard_leases.h"

#include "common/buf.h"
#include "common/hash.h"
#include "common/log.h"
#include "outbox/retry/retry_metrics.h"

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
    leases_log_less(&set->leases);
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
    condition_init(&leases->store_state, CONDITION_DEPENDENCY,
                   "dep=mysql role=retry reason=cannot_renew_leases");
    condition_init(&leases->clock, CONDITION_CHECK, "check=database_clock role=retry what=shards");
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
    condition_done(&leases->store_state);
    condition_done(&leases->clock);
    free(leases->sets);
    memset(leases, 0, sizeof(*leases));
}

/* Writes one line with the shards of all handlers if any number of them has changed. */
static void log_held_shards(const struct shard_leases *leases, int64_t now_ms)
{
    struct buf handlers = {0};
    size_t instances = 0;
    bool changed = false;

    for (size_t i = 0; i < leases->count; i++) {
        struct shard_set *set = &leases->sets[i];
        unsigned held = pool_held(leases->pool, set->handler, now_ms);

        changed |= held != set->held;
        set->held = held;
        if (set->leases.instances > instances)
            instances = set->leases.instances;
        buf_print(&handlers, "%s%s:%u", i > 0 ? "," : "",
                  leases->pool->handlers->list[set->handler]->name, held);
    }
    if (changed)
        log_event(LOG_INFO, "shards_leased", "handlers=%s of=%d instances=%zu", buf_text(&handlers),
                  TASK_SHARDS, instances);
    buf_done(&handlers);
}

/* One outage makes the steps of all sets fail: the conditions of all of them are one condition. */
static void note_conditions(struct shard_leases *leases, int64_t now_ms)
{
    struct err store_err;
    struct err clock_err;
    bool store_fails = false;
    bool clock_fails = false;

    for (size_t i = 0; i < leases->count; i++) {
        struct leases *set = &leases->sets[i].leases;

        store_fails = store_fails || condition_read(&set->store_state, &store_err);
        clock_fails = clock_fails || condition_read(&set->clock, &clock_err);
    }
    if (store_fails)
        condition_fail(&leases->store_state, now_ms, &store_err);
    else
        condition_ok(&leases->store_state, now_ms);
    if (clock_fails)
        condition_fail(&leases->clock, now_ms, &clock_err);
    else
        condition_ok(&leases->clock, now_ms);
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
        }
        if (set->due_ms < next_ms)
            next_ms = set->due_ms;
    }
    if (leases->count == 0)
        return POOL_WAIT_MS;
    now_ms = pool_now(leases->pool, now_ms);
    note_conditions(leases, now_ms);
    log_held_shards(leases, now_ms);
    return next_ms > now_ms ? next_ms - now_ms : 1;
}

void shard_leases_release(struct shard_leases *leases)
{
    for (size_t i = 0; i < leases->count; i++)
        leases_release(&leases->sets[i].leases);
}

bool shard_leases_failing(struct shard_leases *leases, struct err *err)
{
    return condition_read(&leases->store_state, err) || condition_read(&leases->clock, err);
}
