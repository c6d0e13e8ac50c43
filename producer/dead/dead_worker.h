/* SPDX-License-Identifier: MIT */
/* Shows, replays and drops dead records for the API: the worker of a queue of its own, so that
 * nothing else waits for a long replay. An action on many records is done in transactions of one
 * page each, and is left after the page in which its deadline passed: what was done stays done, and
 * the same request continues. A request belongs to the thread that makes it until it is queued. */
#ifndef PRODUCER_DEAD_DEAD_WORKER_H
#define PRODUCER_DEAD_DEAD_WORKER_H

#include "common/buf.h"
#include "common/err.h"
#include "common/loop.h"
#include "consumer/dead/dead_admin.h"
#include "producer/http/request_json.h"
#include "producer/queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dead_worker_kind {
    DEAD_WORKER_LIST,
    DEAD_WORKER_SHOW,
    DEAD_WORKER_ONE,  /* replays or drops one record */
    DEAD_WORKER_MANY, /* those that a filter selects */
};

/* entry.weight is 1. After QUEUE_DONE either failed is set and fault has the reason, or body has
 * the answer as JSON. */
struct dead_worker_request {
    struct queue_entry entry; /* first */
    enum dead_worker_kind kind;
    struct dead_filter filter; /* of DEAD_WORKER_LIST, as the next ones */
    bool decided;
    int64_t after;
    size_t rows_max;
    int64_t id;                       /* of DEAD_WORKER_SHOW and DEAD_WORKER_ONE */
    struct dead_operation *operation; /* of the last two kinds, without on_result; borrowed */
    bool dry_run;                     /* of DEAD_WORKER_MANY: only counts */
    struct buf body;
    bool failed;
    struct request_fault fault;
};

struct dead_worker_config {
    struct queue *queue;              /* of one shard */
    const struct dead_admin_ops *ops; /* borrowed until the close */
    uint64_t (*rng)(void);            /* os_random_u64() */
    struct stop *stop;                /* of the process */
};

struct dead_worker;

/* RC_FATAL: no memory. */
enum rc dead_worker_open(struct dead_worker **worker, const struct dead_worker_config *config,
                         struct err *err);
void dead_worker_close(struct dead_worker *worker);

/* A loop_step. */
int64_t dead_worker_step(void *worker, int64_t now_ms);

#endif
