/* SPDX-License-Identifier: MIT */
/* What the remover needs of the two databases, beside the ops of votes (producer_ops.h). One
 * thread at a time uses the ops of one store. RC_RETRY: try again later, a repetition is harmless;
 * RC_REJECT: the database refuses it; RC_FATAL: an operator must act. */
#ifndef PRODUCER_REMARK_REMOVAL_OPS_H
#define PRODUCER_REMARK_REMOVAL_OPS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A deleted content that is being removed. */
struct removal {
    int64_t content_id; /* the id of the remark, if it is one */
    int64_t age_ms;     /* since the removal was asked for, when it was claimed */
};

/* Where removals are marked. */
enum removal_kind {
    REMOVAL_REMARKS,  /* in remark, in the sink: deleted remarks */
    REMOVAL_CONTENTS, /* in deleted_content, beside the votes: contents that an application deleted
                       */
    REMOVAL_KINDS,
};

/* The marks of one kind. Each op is a transaction of its own. */
struct removal_marks {
    void *ctx;

    /* Takes the content whose remove_after passed first, by moving that time claim_ms ahead: if
     * this process ends, another one takes it then. *found: there was one. */
    enum rc (*claim)(void *ctx, int64_t claim_ms, struct removal *removal, bool *found,
                     struct err *err);

    /* Moves remove_after to wait_ms from now, if the content is marked. */
    enum rc (*put_off)(void *ctx, int64_t id, int64_t wait_ms, struct err *err);

    /* Nothing is left to remove: deletes the remark, if it is marked, or ends the mark of the
     * content. */
    enum rc (*finish)(void *ctx, int64_t id, struct err *err);

    /* *age_ms: how long ago the removal was asked for that has waited longest; 0: none waits. */
    enum rc (*oldest)(void *ctx, int64_t *age_ms, struct err *err);
};

/* The sink. Each op is a transaction of its own. */
struct removal_store {
    void *ctx;

    /* RC_OK: remarks can be read. */
    enum rc (*ping)(void *ctx, struct err *err);

    /* Sets deleted_at and remove_after to the present unless they are set. *found: there is such a
     * remark; *item_id: its item. */
    enum rc (*mark)(void *ctx, int64_t id, bool *found, int64_t *item_id, struct err *err);

    /* *ended: the consumer has applied the tombstone of the content. */
    enum rc (*is_ended)(void *ctx, int64_t content_id, bool *ended, struct err *err);

    /* Deletes at most rows_max rows of vote_last of the content, in the order of the primary key;
     * *count tells how many. */
    enum rc (*delete_lasts)(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                            struct err *err);

    /* After RC_RETRY. True: a collision with another transaction. */
    bool (*collided)(void *ctx, const struct err *err);
};

#endif
