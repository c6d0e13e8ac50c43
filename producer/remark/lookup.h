/* SPDX-License-Identifier: MIT */
/* Reads totals, and one voter's votes, for the API: a worker of the read queue. What is committed
 * is what is read. Requests belong to any thread until they are queued. */
#ifndef PRODUCER_REMARK_LOOKUP_H
#define PRODUCER_REMARK_LOOKUP_H

#include "common/err.h"
#include "common/stop.h"
#include "producer/queue.h"
#include "producer/remark/lookup_ops.h"

#include <stddef.h>
#include <stdint.h>

/* Contents in one request. */
#define LOOKUP_REQUEST_CONTENTS_MAX 200

/* entry.weight is count. After QUEUE_DONE rows are filled. */
struct lookup_request {
    struct queue_entry entry; /* first */
    int64_t voter_id;         /* 0: nobody's votes */
    size_t count;
    struct lookup_row *rows;
};

struct lookup_config {
    struct queue *queue;
    size_t shard;
    const struct lookup_store *store;
    uint64_t (*rng)(void); /* os_random_u64() */
    struct stop *stop;     /* of the process */
};

struct looker;

/* RC_FATAL: no memory. */
enum rc looker_open(struct looker **looker, const struct lookup_config *config, struct err *err);
void looker_close(struct looker *looker);

/* A loop_step. */
int64_t looker_step(void *looker, int64_t now_ms);

#endif
