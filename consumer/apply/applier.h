/* SPDX-License-Identifier: MIT */
/* The applying step: takes jobs, does them in their order, gives them back. Decides which small
 * batches of several partitions share a transaction, when to try again and what an error means for
 * the partition. applier_step() is the loop of one thread (common/loop.h); the fetching step is on
 * the other side of both rings.
 *
 * Batches are together for one try only. Whatever keeps it from its COMMIT, each is then applied
 * alone, so that what is wrong with one partition does not become wrong with another. */
#ifndef CONSUMER_APPLY_APPLIER_H
#define CONSUMER_APPLY_APPLIER_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "common/ring.h"
#include "consumer/apply/apply.h"
#include "consumer/ingest/job.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct applier_config {
    const struct sink *sink;
    const char *owner; /* this process, in consumer_progress */
    size_t batch_rows_max;
    const _Atomic int64_t *dead_max; /* see apply_limit_dead(); NULL: no limit */
    bool keep_lasts;                 /* see apply_keep_lasts() */
    size_t jobs_max;                 /* in each ring */
    uint64_t (*rng)(void);
    int64_t (*clock_us)(void);
    void (*wake_fetch)(void *ctx); /* there is something in done */
    void *wake_ctx;
    void (*on_kept)(void *ctx); /* something is held since a COMMIT; NULL: nobody asks */
    void *kept_ctx;
};

struct applier {
    struct applier_config config;
    struct ring given;
    struct ring done;
    struct apply apply;
    /* In hand, from hand_at on: being tried, or waiting for room in done. */
    struct job *hand[APPLY_GROUP_MAX];
    size_t hand_at;
    size_t hand_end;
    size_t finished; /* so many of them have their end */
    struct backoff backoff;
    int64_t retry_ms;
    int64_t ping_ms;        /* look after the database, when idle */
    uint64_t session;       /* of the sink, as last seen */
    atomic_uint reconnects; /* how often it changed; for the fetching step */
    struct condition database;
    bool failed; /* RC_FATAL: the step has ended; the reason is in database */
};

/* RC_FATAL: no memory. */
enum rc applier_init(struct applier *applier, const struct applier_config *config, struct err *err);
/* Jobs that are still inside are the fetching step's to release. */
void applier_done(struct applier *applier);

/* A loop_step. */
int64_t applier_step(void *applier, int64_t now_ms);

#endif
