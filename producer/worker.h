/* SPDX-License-Identifier: MIT */
/* Takes requests from one shard of a queue and processes them through ops; it repeats them while
 * the database cannot be reached and their deadlines have not passed. Decides when to try, when to
 * wait, and when the database counts as down. worker_step() is the step of one thread
 * (common/loop.h). */
#ifndef PRODUCER_WORKER_H
#define PRODUCER_WORKER_H

#include "common/backoff.h"
#include "common/err.h"
#include "common/loop.h"
#include "producer/queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct worker_ops {
    /* entries[0..count) are the batch from now on; count may be 0. Entries that have left the batch
     * must not be used again. */
    void (*set)(void *ctx, struct queue_entry **entries, size_t count);
    /* One transaction. RC_OK: some progress; *finished: the whole batch is done. RC_RETRY: none,
     * and a repetition is harmless. RC_FATAL: as RC_RETRY, but an operator must act. */
    enum rc (*attempt)(void *ctx, bool *finished, struct err *err);
    /* Right before the finished requests are answered; may be NULL. */
    void (*finished)(void *ctx);
    /* After finished(), for each entry. True: it is answered later, and leaves the batch; the ops
     * end it with queue_finish(). NULL: never. */
    bool (*keep)(void *ctx, struct queue_entry *entry);
    /* RC_OK: the database can be reached and would do the work. */
    enum rc (*ping)(void *ctx, struct err *err);
    /* After RC_RETRY. True: another transaction was in the way. False: the database cannot be
     * reached or takes no work. NULL: always false. */
    bool (*collided)(void *ctx, const struct err *err);
    /* After RC_RETRY. True: queue_config.dep_more failed, and dep had worked. NULL: always false.
     */
    bool (*more_failed)(void *ctx);
};

struct worker_config {
    const char *name; /* in the log */
    struct queue *queue;
    size_t shard;
    size_t entries_max; /* of a batch */
    size_t weight_max;  /* of a batch; a heavier entry is a batch of its own */
    const struct worker_ops *ops;
    void *ctx;
    uint64_t (*rng)(void);
    struct stop *stop; /* of the process; RC_FATAL fails it */
};

struct worker {
    struct worker_config config;
    struct queue_entry **batch;
    size_t count;
    unsigned losses;           /* attempts in a row that did not reach the database */
    struct backoff collisions; /* with other transactions */
    int64_t try_ms;            /* the next attempt is not earlier */
    int64_t ping_ms;           /* the next ping while idle */
};

/* RC_FATAL: no memory. */
enum rc worker_init(struct worker *worker, const struct worker_config *config, struct err *err);
/* Answers the entries of the batch with QUEUE_UNKNOWN. */
void worker_done(struct worker *worker);

/* A loop_step. */
int64_t worker_step(void *worker, int64_t now_ms);

#endif
