/* SPDX-License-Identifier: MIT */
/* The applying step: takes jobs, does them in their order and returns them. Decides which small
 * batches of several partitions share a transaction, when to try again, and what an error means for
 * the partition. applier_step() is the loop of one thread (common/loop.h); the fetching step is at
 * the other end of both rings.
 *
 * Batches share a transaction for one try only. If that try does not commit, each batch is applied
 * alone, so that a fault of one partition does not affect the others. */
#ifndef CONSUMER_APPLY_APPLIER_H
#define CONSUMER_APPLY_APPLIER_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "common/ring.h"
#include "consumer/apply/apply.h"
#include "consumer/ingest/batch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct applier_config {
    const struct sink *sink;
    const char *owner; /* the name of this process in consumer_progress */
    size_t batch_rows_max;
    const _Atomic int64_t *dead_max; /* see apply_limit_dead(); NULL: no limit */
    bool keep_lasts;                 /* see apply_keep_lasts() */
    size_t jobs_max;                 /* capacity of each ring */
    uint64_t (*rng)(void);
    int64_t (*clock_us)(void);
    void (*wake_fetch)(void *ctx); /* called when `done` has a job */
    void *wake_ctx;
    void (*on_held)(void *ctx); /* called after a COMMIT that held votes; may be NULL */
    void *held_ctx;
    /* One bit for each class of dead records that was logged; shared by the appliers of a process.
     * NULL: none is logged. */
    atomic_uint *dead_logged;
};

struct applier {
    struct applier_config config;
    struct ring given;
    struct ring done;
    struct apply apply;
    /* The current jobs, from job_at on: being tried, or waiting for room in `done`. */
    struct job *jobs[APPLY_GROUP_MAX];
    size_t job_at;
    size_t job_count;
    size_t finished; /* number of jobs that have their result */
    struct backoff backoff;
    int64_t retry_ms;
    int64_t ping_ms;        /* time of the next check of an idle applier */
    uint64_t session;       /* of the sink, the last value */
    atomic_uint reconnects; /* number of its changes; read by the fetching step */
    struct condition database;
    bool failed; /* RC_FATAL: the step has ended; database has the reason */
};

/* RC_FATAL: no memory. */
enum rc applier_init(struct applier *applier, const struct applier_config *config, struct err *err);
/* The fetching step releases the jobs that are still in the rings. */
void applier_done(struct applier *applier);

/* A loop_step. */
int64_t applier_step(void *applier, int64_t now_ms);

#endif
