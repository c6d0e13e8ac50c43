/* SPDX-License-Identifier: MIT */
/* A bounded queue of requests for the threads that use the database: first in, first out in each
 * shard, one worker per shard. Decides which requests are accepted, which have waited too long, and
 * whether the database can be used (one circuit breaker for all shards). Any thread; no function
 * blocks. */
#ifndef PRODUCER_QUEUE_H
#define PRODUCER_QUEUE_H

#include "common/err.h"
#include "common/metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

/* How a request ended. */
enum queue_end {
    QUEUE_DONE,    /* processed; the answer is in the request */
    QUEUE_LATE,    /* its deadline passed before a worker began: nothing was done */
    QUEUE_UNKNOWN, /* its deadline passed after a worker began: it may have been done */
    QUEUE_CLOSED,  /* the process stops before a worker began: nothing was done */
};

/* Part of a request. `answer` is called exactly once, by a worker, queue_expire() or queue_drop();
 * unless the end is QUEUE_DONE a worker may still be writing into the request, so `answer` must not
 * read what the worker writes. `release` is called afterwards, when no thread uses the request. */
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
    /* Called without a lock when an empty shard gets an entry; may be NULL. */
    void (*wake)(void *ctx, size_t shard);
    void *wake_ctx;
    struct metric *waiting; /* gauge of the weight that waits, or NULL */
    const char *name;       /* for the log; static, as dep */
    const char *dep;        /* what the workers use: "mysql" or "sink" */
    const char *dep_more;   /* the other one, if they use both; NULL: they do not */
};

/* The breaker is open at first: the first worker that reaches the database closes it. RC_FATAL: no
 * memory. */
enum rc queue_open(struct queue **queue, const struct queue_config *config, struct err *err);
/* No entry may wait or be processed. */
void queue_free(struct queue *queue);

enum queue_verdict { QUEUE_TAKEN, QUEUE_FULL, QUEUE_UNAVAILABLE, QUEUE_STOPPING };

/* QUEUE_TAKEN: the queue owns the entry; otherwise the caller keeps it. *wait_ms: how long to wait
 * before the next try, for QUEUE_FULL and QUEUE_UNAVAILABLE. */
enum queue_verdict queue_put(struct queue *queue, size_t shard, struct queue_entry *entry,
                             int64_t now_ms, int64_t *wait_ms);

/* The shard with the least weight that waits or is being processed. */
size_t queue_shard_least(struct queue *queue);

/* For workers: takes the next entry of the shard if it weighs no more than room, else NULL. The
 * worker returns it with queue_finish(). Entries past their deadline are answered first. */
struct queue_entry *queue_take(struct queue *queue, size_t shard, size_t room, int64_t now_ms);

/* Whether queue_expire() has answered an entry that a worker has taken. */
bool queue_answered(struct queue *queue, struct queue_entry *entry);

/* Answers the entry unless it has been answered, and releases it. */
void queue_finish(struct queue *queue, size_t shard, struct queue_entry *entry, enum queue_end end);

/* Answers the entries past their deadline. Returns in how many ms to call it again. One thread. */
int64_t queue_expire(struct queue *queue, int64_t now_ms);

/* queue_close() accepts no more entries. queue_drop() answers all waiting ones with
 * QUEUE_CLOSED. */
void queue_close(struct queue *queue);
void queue_drop(struct queue *queue);

/* The weight that waits; whether no entry waits or is processed; whether the queue is full. */
size_t queue_waiting(struct queue *queue);
bool queue_idle(struct queue *queue);
bool queue_is_full(struct queue *queue);

/* The circuit breaker, for workers: whether a worker may use the database now, and how long until
 * then. After a true the worker must report one of the two outcomes. */
bool queue_may_try(struct queue *queue, int64_t now_ms);
int64_t queue_wait_ms(struct queue *queue, int64_t now_ms);
void queue_worked(struct queue *queue, int64_t now_ms);
/* more: it was dep_more that failed, after dep had worked. */
void queue_failed(struct queue *queue, int64_t now_ms, uint64_t rng, bool more,
                  const struct err *err);
bool queue_is_unavailable(struct queue *queue);
/* Whether a worker has reported an outcome yet: until then requests are refused, although nothing
 * is known to be wrong. */
bool queue_was_tried(struct queue *queue);

#endif
