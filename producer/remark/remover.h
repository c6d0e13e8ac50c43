/* SPDX-License-Identifier: MIT */
/* Deletes remarks and removes their votes. A request marks the remark in the sink, so that no list
 * shows it, and closes its content, so that no later vote counts; then it is answered. The rest is
 * done in the background, in bounded batches, by whichever process claims the remark: vote_state,
 * vote_count, then, once the consumer has applied the tombstone, vote_last and the remark itself.
 * The votes of a content that an application has deleted in its own tables go in the same steps,
 * once its row of deleted_content is marked, and the row stays.
 *
 * Invariant P6: no row of a content's votes is removed before its mark and its tombstone have
 * committed, and neither vote_last nor the remark before its tally has ended. Every step may be
 * repeated, also by two processes at the same time: a mark whose process was killed is finished by
 * another one.
 *
 * remover_step() is the step of one thread. A request belongs to the thread that makes it until it
 * is queued. */
#ifndef PRODUCER_REMARK_REMOVER_H
#define PRODUCER_REMARK_REMOVER_H

#include "common/err.h"
#include "common/loop.h"
#include "producer/queue.h"
#include "producer/remark/page_cache.h"
#include "producer/remark/removal_ops.h"
#include "producer/vote/close_content.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows that one statement deletes. */
#define REMOVER_BATCH_ROWS 1000
/* A process that is silent for so long has lost the remark to another one. */
#define REMOVER_CLAIM_MS 15000

enum removal_end {
    REMOVAL_DONE,      /* the remark is marked, and its content is closed; or it was before */
    REMOVAL_NOT_FOUND, /* there never was such a remark */
    REMOVAL_REFUSED,   /* by a database, for the reason in err */
};

/* entry.weight is 1. After QUEUE_DONE the request has its end. */
struct removal_request {
    struct queue_entry entry; /* first */
    int64_t id;
    enum removal_end end;
    struct err err;
};

struct remover_config {
    struct queue *queue;               /* of one shard */
    const struct removal_store *store; /* borrowed until the close, as marks and close.store */
    const struct removal_marks *marks[REMOVAL_KINDS]; /* NULL: there are none of the kind */
    struct close_content close;
    struct page_cache *pages; /* forgets the pages of the item; NULL: none */
    uint64_t (*rng)(void);    /* os_random_u64() */
    struct stop *stop;        /* of the process */
};

struct remover;

/* RC_FATAL: no memory. */
enum rc remover_open(struct remover **remover, const struct remover_config *config,
                     struct err *err);
void remover_close(struct remover *remover);

/* A loop_step. */
int64_t remover_step(void *remover, int64_t now_ms);

/* Removes in the background only, as remover_step() does without requests. */
int64_t remover_step_removal(struct remover *remover, int64_t now_ms);

/* Whether removals wait because a database does not do its part; err (may be NULL) tells why. Any
 * thread. */
bool remover_waits(struct remover *remover, struct err *err);

#endif
