/* SPDX-License-Identifier: MIT */
/* What the remover needs of the sink's database, beside the ops of votes (producer_ops.h). One
 * thread at a time uses the ops of one store. RC_RETRY: try again later, a repetition is harmless;
 * RC_REJECT: the database refuses it; RC_FATAL: an operator must act. */
#ifndef PRODUCER_REMARK_REMOVAL_OPS_H
#define PRODUCER_REMARK_REMOVAL_OPS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A deleted remark that is being removed. */
struct removal {
    int64_t content_id; /* the id of the remark */
    int64_t age_ms;     /* since it was deleted, when it was claimed */
};

/* Each op is a transaction of its own. */
struct removal_store {
    void *ctx;

    /* RC_OK: remarks can be read. */
    enum rc (*ping)(void *ctx, struct err *err);

    /* Sets deleted_at and remove_after to the present unless they are set. *found: there is such a
     * remark; *item_id: its item. */
    enum rc (*mark)(void *ctx, int64_t id, bool *found, int64_t *item_id, struct err *err);

    /* Takes the remark whose remove_after passed first, by moving that time claim_ms ahead: if this
     * process ends, another one takes the remark then. *found: there was one. */
    enum rc (*claim)(void *ctx, int64_t claim_ms, struct removal *removal, bool *found,
                     struct err *err);

    /* Moves remove_after to wait_ms from now. */
    enum rc (*put_off)(void *ctx, int64_t id, int64_t wait_ms, struct err *err);

    /* *ended: the consumer has applied the tombstone of the content. */
    enum rc (*is_ended)(void *ctx, int64_t content_id, bool *ended, struct err *err);

    /* Deletes at most rows_max rows of vote_last of the content, in the order of the primary key;
     * *count tells how many. */
    enum rc (*delete_lasts)(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                            struct err *err);

    /* Deletes the row of remark, if there is one that is marked. */
    enum rc (*delete_remark)(void *ctx, int64_t id, struct err *err);

    /* *age_ms: how long ago the remark was deleted that has waited longest; 0: none waits. */
    enum rc (*oldest)(void *ctx, int64_t *age_ms, struct err *err);

    /* After RC_RETRY. True: a collision with another transaction. */
    bool (*collided)(void *ctx, const struct err *err);
};

#endif
