/* SPDX-License-Identifier: MIT */
/* Reads pages of remarks for the API: a worker of the queue of remarks. Decides with which view of
 * the votes a page is read, and when a cursor is too old.
 *
 * A list that is sorted by votes shows the votes as of one finished roll-up, so that no remark is
 * twice in it or missing although votes change. The cursor carries the number of that roll-up. It
 * can be used until the roll-up after the next one begins to write: each remark keeps the votes of
 * two roll-ups (consumer/rollup/rollup.h, invariant C12).
 *
 * A request belongs to the thread that makes it until it is queued. */
#ifndef PRODUCER_REMARK_REMARK_READER_H
#define PRODUCER_REMARK_REMARK_READER_H

#include "common/err.h"
#include "common/loop.h"
#include "producer/queue.h"
#include "producer/remark/remark_ops.h"
#include "producer/remark/remark_page.h"

#include <stddef.h>
#include <stdint.h>

/* entry.weight is the page's rows_max. After QUEUE_DONE the page is filled. */
struct remark_request {
    struct queue_entry entry; /* first */
    struct remark_page *page;
};

struct remark_reader_config {
    struct queue *queue;
    size_t shard;
    const struct remark_store *store; /* borrowed until the close */
    int64_t (*clock_ms)(void);        /* os_now_ms() */
    uint64_t (*rng)(void);            /* os_random_u64() */
    struct stop *stop;                /* of the process */
};

struct remark_reader;

/* RC_FATAL: no memory. */
enum rc remark_reader_open(struct remark_reader **reader, const struct remark_reader_config *config,
                           struct err *err);
void remark_reader_close(struct remark_reader *reader);

/* A loop_step. */
int64_t remark_reader_step(void *reader, int64_t now_ms);

/* Fills the page from the store, as the reader does: for its tests. RC_RETRY: try again later. */
enum rc remark_reader_load(const struct remark_store *store, struct remark_page *page,
                           struct err *err);

#endif
