/* SPDX-License-Identifier: MIT */
/* Decides when each call to the retry store is made again: after a failure not before its backoff
 * has passed. The call's condition in the pool reports the failure to the log and to readiness. The
 * dispatcher's thread. */
#ifndef OUTBOX_RETRY_STORE_CALLS_H
#define OUTBOX_RETRY_STORE_CALLS_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/retry/pool.h"

#include <stdint.h>

struct store_calls {
    struct pool *pool;
    uint64_t *rng;
    int64_t
        at_ms[POOL_CALLS]; /* earliest time of the next call, after a failure or by its interval */
    struct backoff backoffs[POOL_CALLS];
};

/* pool and rng, the state of rng_next(), are borrowed. */
void store_calls_init(struct store_calls *calls, struct pool *pool, uint64_t *rng);

/* The call failed: calls->at_ms[call] is the end of its backoff. */
void store_calls_failed(struct store_calls *calls, enum pool_call call, enum rc rc,
                        const struct err *err, int64_t now_ms);
void store_calls_worked(struct store_calls *calls, enum pool_call call, int64_t now_ms);

#endif
