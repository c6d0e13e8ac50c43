/* SPDX-License-Identifier: MIT */
#include "outbox/retry/lease_renewer.h"

#include "common/buf.h"
#include "common/hash.h"
#include "common/log.h"
#include "outbox/retry/retry_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tasks that are claimed while the renewer waits have leases of a second or more: they are renewed
 * in time. */
#define TICK_MS 200

#define BACKOFF_BASE_MS 50
#define BACKOFF_CAP_MS 500

enum rc lease_renewer_init(struct lease_renewer *renewer, struct pool *pool,
                           const struct retry_store *store, uint64_t seed, struct err *err)
{
    memset(renewer, 0, sizeof(*renewer));
    renewer->pool = pool;
    renewer->store = *store;
    renewer->rng = seed;
    renewer->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    renewer->ids = calloc(RETRY_UPDATES_MAX, sizeof(*renewer->ids));
    renewer->epochs = calloc(RETRY_UPDATES_MAX, sizeof(*renewer->epochs));
    renewer->places = calloc(RETRY_UPDATES_MAX, sizeof(*renewer->places));
    renewer->lost = calloc(RETRY_UPDATES_MAX, sizeof(*renewer->lost));
    if (renewer->ids && renewer->epochs && renewer->places && renewer->lost)
        return RC_OK;
    lease_renewer_done(renewer);
    return err_fail(err, RC_FATAL, 0, "out of memory for %d leases", RETRY_UPDATES_MAX);
}

void lease_renewer_done(struct lease_renewer *renewer)
{
    free(renewer->ids);
    free(renewer->epochs);
    free(renewer->places);
    free(renewer->lost);
    memset(renewer, 0, sizeof(*renewer));
}

/* Gathers the leases that are due and have the same length as the first of them. */
static void gather_due_leases(struct lease_renewer *renewer, int64_t now_ms)
{
    struct pool *pool = renewer->pool;

    renewer->count = 0;
    renewer->next_ms = INT64_MAX;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < pool->slot_count && renewer->count < RETRY_UPDATES_MAX; i++) {
        const struct slot *slot = &pool->slots[i];

        if (slot->id == 0 || slot->lost)
            continue;
        if (slot->renew_at_ms > now_ms) {
            if (slot->renew_at_ms < renewer->next_ms)
                renewer->next_ms = slot->renew_at_ms;
            continue;
        }
        if (renewer->count > 0 && slot->lease_ms != renewer->lease_ms) {
            renewer->next_ms = now_ms;
            continue;
        }
        renewer->lease_ms = slot->lease_ms;
        renewer->ids[renewer->count] = slot->id;
        renewer->epochs[renewer->count] = slot->epoch;
        renewer->places[renewer->count++] = i;
    }
    if (renewer->count == RETRY_UPDATES_MAX)
        renewer->next_ms = now_ms;
    pthread_mutex_unlock(&pool->lock);
}

/* A slot may hold another task by now. sent_ms is from before the statement. */
static void note_leases(struct lease_renewer *renewer, int64_t sent_ms)
{
    struct pool *pool = renewer->pool;
    int64_t lost = 0;

    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < renewer->count; i++) {
        struct slot *slot = &pool->slots[renewer->places[i]];

        if (slot->id != renewer->ids[i] || slot->epoch != renewer->epochs[i])
            continue;
        if (renewer->lost[i] && slot->writing)
            continue;
        slot->lost = renewer->lost[i];
        lost += renewer->lost[i];
        if (slot->lost)
            atomic_store(&slot->valid_until_ms, 0);
        else
            pool_set_lease(slot, sent_ms, renewer->lease_ms);
    }
    pthread_mutex_unlock(&pool->lock);
    metric_add(&retry_lost, lost);
}

int64_t lease_renewer_step(void *arg, int64_t now_ms)
{
    struct lease_renewer *renewer = arg;
    struct condition *renewal = &renewer->pool->conditions[POOL_BEAT];
    struct err err = {0};

    gather_due_leases(renewer, now_ms);
    if (renewer->count > 0) {
        memset(renewer->lost, 0, renewer->count * sizeof(*renewer->lost));
        if (renewer->store.renew(renewer->store.ctx, renewer->ids, renewer->epochs, renewer->count,
                                 renewer->lease_ms, renewer->lost, &err) != RC_OK) {
            condition_fail(renewal, now_ms, &err);
            return backoff_next_ms(&renewer->backoff, rng_next(&renewer->rng));
        }
        note_leases(renewer, now_ms);
        condition_ok(renewal, now_ms);
        backoff_reset(&renewer->backoff);
    }
    if (renewer->next_ms <= now_ms)
        return 0;
    return renewer->next_ms - now_ms < TICK_MS ? renewer->next_ms - now_ms : TICK_MS;
}

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
