/* SPDX-License-Identifier: MIT */
#include "outbox/retry/keeper.h"

#include "common/hash.h"
#include "outbox/retry/retry_metrics.h"

#include <stdlib.h>
#include <string.h>

/* Tasks claimed meanwhile have a lease of a second or more: they are seen in time. */
#define TICK_MS 200

#define BACKOFF_BASE_MS 50
#define BACKOFF_CAP_MS 500

enum rc keeper_init(struct keeper *keeper, struct pool *pool, const struct retry_store *store,
                    uint64_t dice, struct err *err)
{
    memset(keeper, 0, sizeof(*keeper));
    keeper->pool = pool;
    keeper->store = *store;
    keeper->dice = dice;
    keeper->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    keeper->ids = calloc(RETRY_RESULTS_MAX, sizeof(*keeper->ids));
    keeper->epochs = calloc(RETRY_RESULTS_MAX, sizeof(*keeper->epochs));
    keeper->places = calloc(RETRY_RESULTS_MAX, sizeof(*keeper->places));
    keeper->lost = calloc(RETRY_RESULTS_MAX, sizeof(*keeper->lost));
    if (keeper->ids && keeper->epochs && keeper->places && keeper->lost)
        return RC_OK;
    keeper_done(keeper);
    return err_fail(err, RC_FATAL, 0, "out of memory for %d leases", RETRY_RESULTS_MAX);
}

void keeper_done(struct keeper *keeper)
{
    free(keeper->ids);
    free(keeper->epochs);
    free(keeper->places);
    free(keeper->lost);
    memset(keeper, 0, sizeof(*keeper));
}

/* Those that are due and last as long as the first of them. */
static void gather(struct keeper *keeper, int64_t now_ms)
{
    struct pool *pool = keeper->pool;

    keeper->count = 0;
    keeper->next_ms = INT64_MAX;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < pool->slot_count && keeper->count < RETRY_RESULTS_MAX; i++) {
        const struct slot *slot = &pool->slots[i];

        if (slot->id == 0 || slot->lost)
            continue;
        if (slot->beat_at_ms > now_ms) {
            if (slot->beat_at_ms < keeper->next_ms)
                keeper->next_ms = slot->beat_at_ms;
            continue;
        }
        if (keeper->count > 0 && slot->lease_ms != keeper->lease_ms) {
            keeper->next_ms = now_ms;
            continue;
        }
        keeper->lease_ms = slot->lease_ms;
        keeper->ids[keeper->count] = slot->id;
        keeper->epochs[keeper->count] = slot->epoch;
        keeper->places[keeper->count++] = i;
    }
    if (keeper->count == RETRY_RESULTS_MAX)
        keeper->next_ms = now_ms;
    pthread_mutex_unlock(&pool->lock);
}

/* A slot may hold another task by now. sent_ms is from before the statement. */
static void note_leases(struct keeper *keeper, int64_t sent_ms)
{
    struct pool *pool = keeper->pool;
    int64_t lost = 0;

    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < keeper->count; i++) {
        struct slot *slot = &pool->slots[keeper->places[i]];

        if (slot->id != keeper->ids[i] || slot->epoch != keeper->epochs[i])
            continue;
        if (keeper->lost[i] && slot->writing)
            continue;
        slot->lost = keeper->lost[i];
        lost += keeper->lost[i];
        if (slot->lost)
            atomic_store(&slot->valid_until_ms, 0);
        else
            pool_set_lease(slot, sent_ms, keeper->lease_ms);
    }
    pthread_mutex_unlock(&pool->lock);
    metric_add(&retry_lost, lost);
}

int64_t keeper_step(void *arg, int64_t now_ms)
{
    struct keeper *keeper = arg;
    struct note *note = &keeper->pool->notes[POOL_BEAT];
    struct err err = {0};

    gather(keeper, now_ms);
    if (keeper->count > 0) {
        memset(keeper->lost, 0, keeper->count * sizeof(*keeper->lost));
        if (keeper->store.beat(keeper->store.ctx, keeper->ids, keeper->epochs, keeper->count,
                               keeper->lease_ms, keeper->lost, &err) != RC_OK) {
            note_set(note, now_ms, &err);
            return backoff_next_ms(&keeper->backoff, dice_next(&keeper->dice));
        }
        note_leases(keeper, now_ms);
        note_clear(note, now_ms);
        backoff_reset(&keeper->backoff);
    }
    if (keeper->next_ms <= now_ms)
        return 0;
    return keeper->next_ms - now_ms < TICK_MS ? keeper->next_ms - now_ms : TICK_MS;
}
