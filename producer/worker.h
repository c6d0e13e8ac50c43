/* SPDX-License-Identifier: MIT */
/* Takes requests out of one shard of a queue and has them worked on, again and again while the
 * database is away and they have time left. Decides when to try, when to wait, and when to say
 * that the database is away; what the work is, its owner says. A worker_step() is the loop of one
 * thread (common/loop.h). */
#ifndef PRODUCER_WORKER_H
#define PRODUCER_WORKER_H

#include "common/backoff.h"
#include "common/err.h"
#include "common/stop.h"
#include "producer/queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct worker_ops {
    /* The hand has changed: entries[0..count) are what is to be worked on next. Those that were in
     * it before and have left are not to be touched again. count may be 0. */
    void (*set)(void *ctx, struct queue_entry **entries, size_t count);
    /* One transaction. RC_OK: some progress; *finished: all of the hand is done. RC_RETRY: none, a
     * second try is harmless. RC_FATAL: as RC_RETRY, and people must act. */
    enum rc (*attempt)(void *ctx, bool *finished, struct err *err);
    /* Right before the finished requests are answered; may be NULL. */
    void (*finished)(void *ctx);
    /* Is the database there, and would it do the work? */
    enum rc (*ping)(void *ctx, struct err *err);
    /* After RC_RETRY. True: another transaction was in the way. False: the database cannot be
     * reached or takes no work. NULL: always false. */
    bool (*collided)(void *ctx, const struct err *err);
};

struct worker_config {
    const char *name; /* in the log */
    struct queue *queue;
    size_t shard;
    size_t entries_max; /* in the hand */
    size_t weight_max;  /* of the hand; a heavier entry goes alone */
    const struct worker_ops *ops;
    void *ctx;
    uint64_t (*rng)(void);
    struct stop *stop; /* of the process; RC_FATAL fails it */
};

struct worker {
    struct worker_config config;
    struct queue_entry **hand;
    size_t count;
    unsigned losses;           /* tries in a row that found the database away */
    struct backoff collisions; /* with other transactions */
    int64_t try_ms;            /* not before */
    int64_t ping_ms;           /* look after the database, when idle */
};

/* RC_FATAL: no memory. */
enum rc worker_init(struct worker *worker, const struct worker_config *config, struct err *err);
/* Answers what is still in the hand with QUEUE_UNKNOWN. */
void worker_done(struct worker *worker);

/* A loop_step. */
int64_t worker_step(void *worker, int64_t now_ms);

#endif
