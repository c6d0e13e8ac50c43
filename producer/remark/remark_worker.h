/* SPDX-License-Identifier: MIT */
/* Reads pages of remarks and writes remarks for the API: a worker of the queue of remarks. Decides
 * with which view of the votes a page is read, when a cursor is too old, and which write may be
 * repeated.
 *
 * A list that is sorted by votes shows the votes as of one finished roll-up, so that no remark is
 * twice in it or missing although votes change. The cursor carries the number of that roll-up. It
 * can be used until the roll-up after the next one begins to write: each remark keeps the votes of
 * two roll-ups (consumer/rollup/rollup.h, invariant C12).
 *
 * A request belongs to the thread that makes it until it is queued. */
#ifndef PRODUCER_REMARK_REMARK_WORKER_H
#define PRODUCER_REMARK_REMARK_WORKER_H

#include "common/err.h"
#include "common/loop.h"
#include "producer/queue.h"
#include "producer/remark/page_cache.h"
#include "producer/remark/remark_ops.h"
#include "producer/remark/remark_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A remark to write. The values are those of the caller until the request is released. */
struct remark_write {
    struct remark_values values;
    bool update; /* of the row with the id; false: insert one */
    int64_t id;  /* insert: 0 lets the database choose */

    /* After QUEUE_DONE. */
    enum {
        REMARK_WRITTEN,
        REMARK_EXISTED,   /* insert: a row with the id was there before, of the same item */
        REMARK_DELETED,   /* insert: the remark with the id was deleted */
        REMARK_TAKEN,     /* insert: the id is that of a remark of another item */
        REMARK_NOT_FOUND, /* update */
        REMARK_UNKNOWN,   /* insert: the answer to the COMMIT was lost, and no id was given */
        REMARK_REFUSED,   /* by the database, for the reason in err */
    } end;
    struct err err;
};

/* entry.weight is the page's rows_max, or 1. After QUEUE_DONE the page is filled or not_read, or
 * the write has its end. */
struct remark_request {
    struct queue_entry entry; /* first */
    struct remark_page *page; /* NULL: a write */
    struct remark_write *write;
    bool not_read;  /* this page cannot be read now, although the database answers others */
    struct err err; /* why not */
};

struct remark_worker_config {
    struct queue *queue;
    size_t shard;
    const struct remark_store *store; /* borrowed until the close */
    struct page_cache *pages;         /* forgets the pages of an item that was written */
    int64_t (*clock_ms)(void);        /* os_now_ms() */
    uint64_t (*rng)(void);            /* os_random_u64() */
    struct stop *stop;                /* of the process */
};

struct remark_worker;

/* RC_FATAL: no memory. */
enum rc remark_worker_open(struct remark_worker **worker, const struct remark_worker_config *config,
                           struct err *err);
void remark_worker_close(struct remark_worker *worker);

/* A loop_step. */
int64_t remark_worker_step(void *worker, int64_t now_ms);

/* Fills the page from the store, as the worker does: for its tests. RC_RETRY: try again later.
 * RC_REJECT: the database answers, but this page cannot be read now. */
enum rc remark_worker_load(const struct remark_store *store, struct remark_page *page,
                           struct err *err);

#endif
