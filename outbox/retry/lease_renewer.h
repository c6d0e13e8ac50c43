/* SPDX-License-Identifier: MIT */
/* Renews the leases of the tasks in flight well before they end, and marks the tasks that another
 * process has taken. It has a thread and a connection of its own, so that a slow statement of the
 * dispatcher cannot let leases expire. */
#ifndef OUTBOX_RETRY_LEASE_RENEWER_H
#define OUTBOX_RETRY_LEASE_RENEWER_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lease_renewer {
    struct pool *pool;
    struct retry_store store; /* only its renew() */
    int64_t *ids;
    int64_t *epochs;
    size_t *places; /* of the slots */
    bool *lost;
    size_t count;
    int64_t lease_ms; /* of those gathered */
    int64_t next_ms;  /* when the next one is due, of those seen */
    struct backoff backoff;
    uint64_t rng;
};

/* RC_FATAL: no memory. pool and store are borrowed. seed: 64 random bits. */
enum rc lease_renewer_init(struct lease_renewer *renewer, struct pool *pool,
                           const struct retry_store *store, uint64_t seed, struct err *err);
void lease_renewer_done(struct lease_renewer *renewer);

/* A loop_step. */
int64_t lease_renewer_step(void *renewer, int64_t now_ms);

#endif
