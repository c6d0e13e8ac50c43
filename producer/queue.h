/* SPDX-License-Identifier: MIT */
/* Where requests wait for the threads that talk to the database: bounded, first come first served
 * in each shard, one worker per shard. Decides who gets in, who has waited too long, and whether
 * the database is there at all (one breaker for all shards). Any thread; nothing here blocks. */
#ifndef PRODUCER_QUEUE_H
#define PRODUCER_QUEUE_H

#include "common/err.h"
#include "common/metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

/* How it ended for the one who asked. */
enum queue_end {
    QUEUE_DONE,    /* worked on; the answer is in the request */
    QUEUE_LATE,    /* its time ran out before anybody began: nothing was done */
    QUEUE_UNKNOWN, /* begun, and its time ran out before the end: it may have been done */
    QUEUE_CLOSED,  /* the process stops, nobody had begun: nothing was done */
};

/* Stands in a request. `answer` is called exactly once, by a worker, the expirer or the closer;
 * with any end but QUEUE_DONE a worker may still be writing into the request, so it must not read
 * the worker's part. `release` is called after that, when nobody touches the request any more. */
struct queue_entry {
    size_t weight; /* votes or contents, >= 1 */
    void (*answer)(struct queue_entry *entry, enum queue_end end);
    void (*release)(struct queue_entry *entry);

    /* The queue's own. */
    int64_t deadline_ms;
    struct queue_entry *next;
    struct queue_entry *before;
    unsigned holders;
    bool answered;
};

struct queue_config {
    size_t shards;
    size_t weight_max;  /* that waits, in all shards together */
    int64_t timeout_ms; /* from queue_put() to the answer */
    int64_t breaker_base_ms;
    int64_t breaker_cap_ms;
    /* Called without a lock when a shard that was empty is no longer; may be NULL. */
    void (*wake)(void *ctx, size_t shard);
    void *wake_ctx;
    struct metric *waiting; /* gauge of the weight that waits, or NULL */
    const char *name;       /* for the log; static */
};

/* It opens with the breaker open and due: the first worker that reaches the database closes it. */
enum rc queue_open(struct queue **queue, const struct queue_config *config, struct err *err);
/* Nothing may wait or be worked on. */
void queue_free(struct queue *queue);

enum queue_verdict { QUEUE_TAKEN, QUEUE_FULL, QUEUE_AWAY, QUEUE_STOPPING };

/* Only QUEUE_TAKEN takes the entry over; else it stays the caller's. *wait_ms: when asking again
 * makes sense, for QUEUE_FULL and QUEUE_AWAY. */
enum queue_verdict queue_put(struct queue *queue, size_t shard, struct queue_entry *entry,
                             int64_t now_ms, int64_t *wait_ms);

/* The shard with the least that waits or is being worked on. */
size_t queue_shard_least(struct queue *queue);

/* Workers: the next entry of the shard if it weighs no more than room, else NULL. It must be given
 * back with queue_finish(). Late ones on the way are answered. */
struct queue_entry *queue_take(struct queue *queue, size_t shard, size_t room, int64_t now_ms);

/* Has its time run out in the worker's hands? The one who asked has his answer then. */
bool queue_answered(struct queue *queue, struct queue_entry *entry);

/* Answers, unless that happened, and lets go of the entry. */
void queue_finish(struct queue *queue, size_t shard, struct queue_entry *entry, enum queue_end end);

/* Answers everybody whose time is up. In how many ms to be called again. One thread. */
int64_t queue_expire(struct queue *queue, int64_t now_ms);

/* No more entries get in. queue_drop(): answers all that wait with QUEUE_CLOSED. */
void queue_close(struct queue *queue);
void queue_drop(struct queue *queue);

/* What waits, and what waits or is being worked on. */
size_t queue_waiting(struct queue *queue);
bool queue_idle(struct queue *queue);
bool queue_is_full(struct queue *queue);

/* The circuit breaker, for workers: whether a worker may use the database now, and how long until
 * then. After a true the worker must report one of the two outcomes. */
bool queue_may_try(struct queue *queue, int64_t now_ms);
int64_t queue_wait_ms(struct queue *queue, int64_t now_ms);
void queue_worked(struct queue *queue, int64_t now_ms);
void queue_failed(struct queue *queue, int64_t now_ms, uint64_t rng, const struct err *err);
bool queue_is_away(struct queue *queue);

#endif
