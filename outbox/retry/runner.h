/* SPDX-License-Identifier: MIT */
/* Runs claimed tasks, one after the other, while they are ours. A thread for each worker; the
 * poller's where there is none. */
#ifndef OUTBOX_RETRY_RUNNER_H
#define OUTBOX_RETRY_RUNNER_H

#include "outbox/retry/pool.h"

struct runner {
    struct pool *pool;
    size_t number;
};

/* A loop_step. */
int64_t runner_step(void *runner, int64_t now_ms);

/* One task, if there is one: false when there is none. */
bool runner_run_one(struct runner *runner, int64_t now_ms);

#endif
