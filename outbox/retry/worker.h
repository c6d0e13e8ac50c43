/* SPDX-License-Identifier: MIT */
/* Runs claimed tasks, one after the other, while they are ours. A thread for each worker; the
 * poller's where there is none. */
#ifndef OUTBOX_RETRY_WORKER_H
#define OUTBOX_RETRY_WORKER_H

#include "outbox/retry/pool.h"

struct worker {
    struct pool *pool;
    size_t number;
};

/* A loop_step. */
int64_t worker_step(void *worker, int64_t now_ms);

/* One task, if there is one: false when there is none. */
bool worker_run_one(struct worker *worker, int64_t now_ms);

#endif
