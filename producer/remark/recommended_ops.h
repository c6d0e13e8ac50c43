/* SPDX-License-Identifier: MIT */
/* The order of a recommended list, and what its builder and its watcher need of the sink's
 * database. One thread at a time uses the ops of one store. RC_RETRY: try again later; RC_FATAL: an
 * operator must act.
 *
 * The rank of a remark is, in points,
 *
 *     votes * weights.votes + score * weights.score - age in days * weights.age
 *
 * with the votes as of the last finished roll-up, and the age at the end of that roll-up
 * (recommended_mysql.c has the expression). It is linear in the age, and computed exactly, so the
 * order of two remarks does not depend on the time: an item whose remarks have not changed need not
 * be ranked again. */
#ifndef PRODUCER_REMARK_RECOMMENDED_OPS_H
#define PRODUCER_REMARK_RECOMMENDED_OPS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Remarks in one list. */
#define RECOMMENDED_MAX 1000
/* Items in one call of newest() or announce(). */
#define RECOMMENDED_BATCH_MAX 500

/* Points. */
#define RANK_WEIGHT_MAX 1000000
struct rank_weights {
    int64_t votes; /* -RANK_WEIGHT_MAX..RANK_WEIGHT_MAX, as score and age */
    int64_t score;
    int64_t age; /* lost with each day */
};

static inline bool rank_weights_equal(const struct rank_weights *a, const struct rank_weights *b)
{
    return a->votes == b->votes && a->score == b->score && a->age == b->age;
}

/* What lists depend on beside the remarks of their items. Times are those of the clock of the
 * database, in ms since 1970. */
struct recommended_state {
    int64_t now_ms;
    int64_t finished;    /* number of the last roll-up that ended; 0: none has */
    int64_t started;     /* of the last one that wrote; finished + 1 while one is at work */
    int64_t finished_ms; /* when it ended; 0: none has */
    struct rank_weights weights;
    bool weights_stored; /* false: they are those of the settings */
};

/* Whether lists of the same remarks are equal: of the same roll-up and weights. */
static inline bool recommended_state_equal(const struct recommended_state *a,
                                           const struct recommended_state *b)
{
    return a->finished == b->finished && rank_weights_equal(&a->weights, &b->weights);
}

typedef void (*recommended_on_change)(void *ctx, int64_t item_id, int64_t changed_ms);

struct recommended_store {
    void *ctx;

    enum rc (*read_state)(void *ctx, struct recommended_state *state, struct err *err);

    /* Fills windows[] with the number of the roll-up that last wrote a remark of each item; 0: none
     * has. */
    enum rc (*newest)(void *ctx, const int64_t *items, size_t count, int64_t *windows,
                      struct err *err);

    /* Stores that remarks of the items were written, for the watchers of all processes. The writes
     * are committed. */
    enum rc (*announce)(void *ctx, const int64_t *items, size_t count, struct err *err);

    /* Calls on_change for the items that were announced within the last within_ms. */
    enum rc (*read_changes)(void *ctx, int64_t within_ms, recommended_on_change on_change,
                            void *change_ctx, struct err *err);

    /* Fills ids[] with the first max remarks of an item, ranked by the votes and the weights of
     * *with, and *seen with the state; both are one view of the data. If *seen has another
     * roll-up or other weights, the list is not right. */
    enum rc (*build)(void *ctx, int64_t item_id, const struct recommended_state *with, size_t max,
                     int64_t *ids, size_t *count, struct recommended_state *seen, struct err *err);
};

#endif
