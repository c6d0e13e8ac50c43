/* SPDX-License-Identifier: MIT */
/* What the steps of one retry process share. A slot holds a claimed task and moves through the
 * queues:
 *
 *     dispatcher --queue (fair_queue.h)--> worker --done--> dispatcher
 *
 * The dispatcher fills a slot at the claim and empties it when the update of its task is written;
 * between queue and done a worker owns it. The lock guards the fields that the lease renewer uses
 * at the same time: which task the slot holds, and until when the lease is valid. Without workers
 * the dispatcher runs the tasks itself. */
#ifndef OUTBOX_RETRY_POOL_H
#define OUTBOX_RETRY_POOL_H

#include "common/backoff.h"
#include "common/buf.h"
#include "common/condition.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/lease/leases.h"
#include "outbox/retry/fair_queue.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/retry_ops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long a waiting step sleeps if it is not woken. */
#define POOL_WAIT_MS 100

#define POOL_SHARD_NAME_SIZE (TASK_HANDLER_SIZE + 10)

struct kind;
struct destination;

struct slot {
    /* Under the pool's lock. */
    struct fair_task fair; /* first */
    int64_t id;            /* 0: empty */
    int64_t epoch;
    atomic_llong
        valid_until_ms; /* by our own clock; 0: lost. A handler reads it without the lock */
    int64_t renew_at_ms;
    int64_t lease_ms;
    bool lost;
    bool writing; /* its update is being written: a missing row proves nothing */

    /* Used by the owner of the slot: the dispatcher or a worker. */
    const struct retry_handler *handler;
    void *opened;
    const atomic_bool *breaker_open; /* set: its destination fails, and it is not tried now */
    struct retry_job job;
    struct buf bytes; /* that job points to */
    struct attempt_result attempt_result;
    struct buf result;
    int64_t took_ms;
    bool tried;           /* the handler was run */
    bool paid;            /* its claim took a token of its scene's rate */
    bool stale;           /* its scene has changed since this process read it */
    bool waited;          /* struct task_row; first_wait does not concern it */
    bool waits_first;     /* it is put off for first_wait of its scene, */
    int64_t duplicate_of; /* struct task_row; 0: it is none */
    int64_t first_ms;     /* to this time of the database's clock, since 1970 */
    int64_t expires_ms;   /* by our own clock: from then on it is not begun; INT64_MAX: never */

    /* The dispatcher's. */
    struct kind *kind;
    struct destination *destination;
    int64_t scene_version; /* when it was claimed */
    int64_t attempts;      /* that failed before */
    int64_t made_ms;
    int64_t due_ms;            /* since when it could run, by our own clock */
    int64_t database_ahead_ms; /* of our own clock */
    bool probe;                /* of a half-open breaker */
    bool commit_unknown;       /* of an earlier write-back */
    unsigned refusals;         /* of its write-back */
    struct task_update update; /* to be written back; points into the slot */
    struct buf callback;
    char reason[TASK_REASON_SIZE];
    struct slot *next; /* in a chain of the index, or of free slots */
};

/* The calls of the store that may fail; each has a condition in struct pool. */
enum pool_call {
    POOL_SCENES,
    POOL_LOOK,
    POOL_CLAIM,
    POOL_FINISH,
    POOL_BEAT,
    POOL_RESCUE,
    POOL_DEPTHS,
    POOL_EXPIRE,
    POOL_FORGET
};
#define POOL_CALLS 9

/* What due tasks wait for although the database answers; each has a condition in struct pool, of
 * which one line a minute reminds. */
enum pool_wait {
    POOL_WAIT_HANDLER, /* no live process runs it */
    POOL_WAIT_GROUP,   /* is disabled, or does not exist */
    POOL_WAIT_SCENE,   /* its row cannot be read */
    POOL_WAIT_KINDS    /* there are more than this process can hold */
};
#define POOL_WAITS 4

/* Tasks that are due and that no live process runs; the one that waits for the longest time. */
struct pool_unserved {
    int64_t age_ms; /* 0: there is none */
    char handler[TASK_HANDLER_SIZE];
    char scene[TASK_NAME_SIZE];
};

struct pool {
    const struct settings *settings;
    const struct retry_handlers *handlers;
    struct clients *clients; /* NULL: none */
    size_t workers;
    void (*wake_dispatcher)(void *ctx);
    void (*wake_worker)(void *ctx, size_t worker);
    void *wake_ctx;
    int64_t (*time_ms)(void *ctx); /* now, also in the middle of a step; NULL: as it began */
    void *time_ctx;
    int64_t attempt_ms_max; /* of struct retry_job */

    struct slot *slots;
    size_t slot_count;

    pthread_mutex_t lock; /* guards all below, and the first part of every slot */
    struct fair_queue queue;
    struct slot **done; /* by the workers */
    size_t done_count;
    bool *idle;            /* by worker: it waits to be woken */
    bool dispatcher_waits; /* and so does the dispatcher */

    /* TASK_SHARDS for each of the handlers, in their order: a lease is for the tasks of one handler
     * in one shard. Invariant Q6: those of a handler that does not run here are never held. */
    struct leased *shards;
    char (*shard_names)[POOL_SHARD_NAME_SIZE];
    atomic_bool leaving;     /* claim nothing more, return tasks that have not begun */
    atomic_llong oldest_age; /* ms that the oldest task is due which we could run */
    struct condition conditions[POOL_CALLS]; /* MySQL, as each kind of call finds it */
    struct condition clock;                  /* fails after leases that ended implausibly late */
    struct condition destinations;           /* fails while a circuit breaker is open */
    struct condition waits[POOL_WAITS];
    struct pool_unserved unserved;
};

/* workers: threads that will play them; 0: the dispatcher does. RC_FATAL: no memory, or a setting
 * of [retry] is wrong. settings and handlers are borrowed for the pool's life. No shard is held yet
 * but those that retry.shards fixes. */
enum rc pool_init(struct pool *pool, const struct settings *settings,
                  const struct retry_handlers *handlers, struct err *err);
void pool_done(struct pool *pool);

/* Reads the setting retry.shards: which shards this process works on, "0-7,12". A bit for each
 * shard of the list. RC_FATAL: text is no list. */
enum rc pool_parse_shards(unsigned *bits, const char *text, struct err *err);

/* The time now, in the middle of a step that began at now_ms. */
int64_t pool_now(const struct pool *pool, int64_t now_ms);

/* True: retry.shards is "auto", and leases decide. */
bool pool_shares(const struct pool *pool);
/* handler: its place among pool->handlers. */
struct leased *pool_shard(const struct pool *pool, size_t handler, unsigned shard);
bool pool_holds(const struct pool *pool, size_t handler, unsigned shard, int64_t now_ms);
unsigned pool_held(const struct pool *pool, size_t handler, int64_t now_ms);

/* The dispatcher's: the task in the slot waits for a worker from now on; pool_wake() when there are
 * no more. destination: see fair_queue.h. */
void pool_queue(struct pool *pool, struct slot *slot, struct fair_scene *scene,
                const void *destination);
void pool_wake(struct pool *pool, size_t count);
/* Takes at most count slots whose tasks the workers have finished. */
size_t pool_take_done(struct pool *pool, struct slot **slots, size_t count);
/* Takes a queued slot that no worker has begun, or NULL. */
struct slot *pool_take_queued(struct pool *pool);
/* Calls on_slot for each queued slot that no worker has begun. If it returns true, the dispatcher
 * owns the slot again, and it is added to taken, which has room for all. Returns their number.
 * on_slot runs under the lock. */
typedef bool (*pool_on_slot)(void *ctx, struct slot *slot);
size_t pool_each_queued(struct pool *pool, pool_on_slot on_slot, void *ctx, struct slot **taken);
/* Called before the dispatcher sleeps: false when a worker has finished a task already. */
bool pool_may_sleep(struct pool *pool);

/* Under the lock: sets until when the lease of the task in the slot is believed and when it is
 * lengthened. It lasts lease_ms from a statement that was sent at sent_ms. */
void pool_set_lease(struct slot *slot, int64_t sent_ms, int64_t lease_ms);

/* Called by a worker: returns the next slot, or NULL, after which the worker is woken when there
 * is one. */
struct slot *pool_take(struct pool *pool, size_t worker);
void pool_give(struct pool *pool, struct slot *slot);

/* A thread that runs claimed tasks one after the other while their leases are valid; the
 * dispatcher's thread if there are no workers. */
struct pool_worker {
    struct pool *pool;
    size_t number;
};

/* A loop_step. */
int64_t pool_worker_step(void *worker, int64_t now_ms);

/* Runs one task. Returns false if none waits. */
bool pool_worker_run_one(struct pool_worker *worker, int64_t now_ms);

/* When each call to the store is made again: after a failure not before its backoff has passed. The
 * call's condition in the pool reports the failure to the log and to readiness. The dispatcher's.
 */
struct pool_calls {
    struct pool *pool;
    uint64_t *rng;
    int64_t at_ms[POOL_CALLS]; /* earliest time of the next call */
    struct backoff backoffs[POOL_CALLS];
};

/* pool and rng, the state of rng_next(), are borrowed. */
void pool_calls_init(struct pool_calls *calls, struct pool *pool, uint64_t *rng);

/* The call failed: calls->at_ms[call] is the end of its backoff. */
void pool_call_failed(struct pool_calls *calls, enum pool_call call, enum rc rc,
                      const struct err *err, int64_t now_ms);
void pool_call_worked(struct pool_calls *calls, enum pool_call call, int64_t now_ms);

#endif
