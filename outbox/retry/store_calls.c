/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store_calls.h"

#include "common/hash.h"

#include <string.h>

#define BACKOFF_BASE_MS 20
#define BACKOFF_CAP_MS 5000
/* After RC_FATAL, which an operator must resolve, the wait is at least this long. */
#define FATAL_WAIT_MS 3000

void store_calls_init(struct store_calls *calls, struct pool *pool, uint64_t *rng)
{
    memset(calls, 0, sizeof(*calls));
    calls->pool = pool;
    calls->rng = rng;
    for (size_t i = 0; i < POOL_CALLS; i++)
        calls->backoffs[i] = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
}

void store_calls_failed(struct store_calls *calls, enum pool_call call, enum rc rc,
                        const struct err *err, int64_t now_ms)
{
    int64_t wait_ms = backoff_next_ms(&calls->backoffs[call], rng_next(calls->rng));

    condition_fail(&calls->pool->conditions[call], now_ms, err);
    if (rc == RC_FATAL && wait_ms < FATAL_WAIT_MS)
        wait_ms = FATAL_WAIT_MS;
    calls->at_ms[call] = now_ms + wait_ms;
}

void store_calls_worked(struct store_calls *calls, enum pool_call call, int64_t now_ms)
{
    condition_ok(&calls->pool->conditions[call], now_ms);
    backoff_reset(&calls->backoffs[call]);
}
