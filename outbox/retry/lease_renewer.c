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
