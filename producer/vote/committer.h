/* SPDX-License-Identifier: MIT */
/* Group commit: votes that wait at the same time share one transaction, and each is answered after
 * its COMMIT. A committer is one worker of the vote queue with a vote engine; several committers
 * share the queue by shards. A request belongs to the thread that makes it until it is queued. */
#ifndef PRODUCER_VOTE_COMMITTER_H
#define PRODUCER_VOTE_COMMITTER_H

#include "common/err.h"
#include "common/loop.h"
#include "producer/producer_ops.h"
#include "producer/queue.h"

#include <stddef.h>
#include <stdint.h>

/* Votes in one request. */
#define COMMITTER_REQUEST_VOTES_MAX 1000

/* entry.weight is count. After QUEUE_DONE every item has its outcome. */
struct committer_request {
    struct queue_entry entry; /* first */
    struct vote_item *items;
    size_t count;
};

struct committer_config {
    struct queue *queue;
    size_t shard;
    const struct vote_store *store;
    size_t batch_votes_max;
    size_t lane_count;
    void (*rng_bytes)(void *bytes, size_t len); /* os_random() */
    uint64_t (*rng)(void);                      /* os_random_u64() */
    int64_t (*clock_us)(void);                  /* os_now_us() */
    struct stop *stop;                          /* of the process */
};

struct committer;

/* RC_FATAL: no memory. */
enum rc committer_open(struct committer **committer, const struct committer_config *config,
                       struct err *err);
void committer_close(struct committer *committer);

/* A loop_step. */
int64_t committer_step(void *committer, int64_t now_ms);

/* The shard, of shard_count, of a request. Single votes for one content go to the same committer
 * and share its transactions instead of waiting for each other's row lock. SIZE_MAX: the votes are
 * for several contents, and any shard will do. */
size_t committer_shard_of(const struct vote_item *items, size_t count, size_t shard_count);

#endif
