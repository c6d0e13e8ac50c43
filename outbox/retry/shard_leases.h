/* SPDX-License-Identifier: MIT */
/* Leases for each handler that this process runs a share of the handler's shards. The processes
 * that run a handler compete for its shards, so no process holds tasks that it cannot run. If
 * retry.shards fixes the shards, nothing is leased, and the process only announces which handlers
 * it runs. One thread with a connection of its own calls all functions, except
 * shard_leases_failing(). */
#ifndef OUTBOX_RETRY_SHARD_LEASES_H
#define OUTBOX_RETRY_SHARD_LEASES_H

#include "common/condition.h"
#include "common/err.h"
#include "outbox/lease/lease_ops.h"
#include "outbox/lease/leases.h"
#include "outbox/retry/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
