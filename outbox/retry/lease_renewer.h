/* SPDX-License-Identifier: MIT */
/* Renews what a retry process holds. The lease renewer renews the leases of the tasks in flight
 * well before they end, and marks the tasks that another process has taken. The shard leases give
 * the process, for each handler that it runs, a share of the handler's shards. Each of the two has
 * its own thread and connection, so that a slow statement of the dispatcher cannot let leases
 * expire; shard_leases_failing() may be called by any thread. */
#ifndef OUTBOX_RETRY_LEASE_RENEWER_H
#define OUTBOX_RETRY_LEASE_RENEWER_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/lease/lease_ops.h"
#include "outbox/lease/leases.h"
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

/* The processes that run a handler compete for its shards; so no process holds tasks that it cannot
 * run. If retry.shards fixes the shards, nothing is leased, and the process only announces which
 * handlers it runs. */
#define SHARD_LEASES_GROUP_SIZE (TASK_HANDLER_SIZE + 16)

/* The shards of one handler. */
struct shard_set {
    size_t handler; /* its place among pool->handlers */
    struct leases leases;
    int64_t due_ms;
    unsigned held; /* as it was logged last */
};

/* All handlers use one database, so the conditions are those of all sets. */
struct shard_leases {
    struct pool *pool;
    struct shard_set *sets;
    size_t count;
    struct condition store_state; /* fails while the leases of a set cannot be renewed */
    struct condition clock;       /* fails while a lease of a set ends implausibly late */
};

/* The group of the processes that share the shards of a handler: "retry:HANDLER", or
 * "retry-fixed:HANDLER" where they are not shared. */
void shard_leases_group(const struct pool *pool, size_t handler,
                        char group[SHARD_LEASES_GROUP_SIZE]);

/* stores: one for each of pool->handlers; those of handlers that do not run here are not used.
 * name: of this instance. RC_FATAL: no memory. All is borrowed. */
enum rc shard_leases_init(struct shard_leases *leases, struct pool *pool, const char *name,
                          const struct lease_store *stores, uint64_t seed, struct err *err);
void shard_leases_done(struct shard_leases *leases);

/* A loop_step. */
int64_t shard_leases_step(void *leases, int64_t now_ms);

/* Gives all of them back, for a clean stop. */
void shard_leases_release(struct shard_leases *leases);

/* Returns whether the leases of a handler cannot be renewed or end implausibly, and the reason in
 * err then. Any thread. */
bool shard_leases_failing(struct shard_leases *leases, struct err *err);

#endif
