/* SPDX-License-Identifier: MIT */
/* The rows of remark that lists show, the place of a page in a list, the values that a client
 * writes into a row, and the ops for both. One thread at a time uses the ops of one store.
 * RC_RETRY: try again later; RC_FATAL: an operator must act. */
#ifndef PRODUCER_REMARK_REMARK_OPS_H
#define PRODUCER_REMARK_REMARK_OPS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of remark. The texts are UTF-8 and borrowed for the call that has the row. */
struct remark_row {
    int64_t id;
    int64_t item_id;
    int64_t consumer_id;
    int64_t order_id;
    int64_t score;
    int64_t status;
    int64_t created_ms; /* in ms since 1970 */
    int64_t votes;      /* as of the last finished roll-up */
    const char *header;
    const char *content; /* NULL: none; as images */
    const char *images;
    const char *user_name;
    const char *user_face;
};

enum remark_sort {
    REMARK_NEWEST, /* by id, the highest first */
    REMARK_VOTES,  /* by rolled-up votes, then by id, the highest first */
    /* As a recommended list has them (recommended.h). The place has its version as `votes`, its
     * roll-up as `window` and the position of the first remark as `id`. */
    REMARK_RECOMMENDED,
};

/* Where a page begins. All fields are 0 where a comment does not say otherwise. */
struct remark_place {
    int64_t item_id;
    enum remark_sort sort;
    bool after;     /* the page follows the remark below; false: it is the first page */
    int64_t id;     /* of the last remark of the page before */
    int64_t votes;  /* REMARK_VOTES: its votes */
    int64_t window; /* REMARK_VOTES: the finished roll-up that the votes are of */
};

/* Roll-ups, by their numbers. */
struct remark_windows {
    int64_t finished; /* the last one that ended */
    int64_t started;  /* the last one that wrote; finished + 1 while one is at work */
};

struct remark_query {
    struct remark_place place;
    size_t rows_max;
    /* REMARK_VOTES: votes are those as of this roll-up, also of remarks that the next one wrote.
     * False: votes are read as they stand. */
    bool as_of;
    int64_t window;
};

/* What a client may write. */
enum remark_field {
    REMARK_ITEM_ID,
    REMARK_CONSUMER_ID,
    REMARK_ORDER_ID,
    REMARK_SCORE,
    REMARK_STATUS,
    REMARK_NUMBERS, /* the fields before this one are numbers, those after it texts */
    REMARK_HEADER = REMARK_NUMBERS,
    REMARK_CONTENT,
    REMARK_IMAGES,
    REMARK_USER_NAME,
    REMARK_USER_FACE,
    REMARK_FIELDS,
};

/* The values of a row. */
struct remark_values {
    unsigned given; /* bits 1 << enum remark_field */
    int64_t numbers[REMARK_NUMBERS];
    const char *texts[REMARK_FIELDS]; /* UTF-8; NULL: SQL NULL */
};

/* What an insertion found. */
struct remark_insertion {
    bool existed;
    int64_t item_id;
    bool deleted;
    bool unknown;
};

typedef enum rc (*remark_on_row)(void *ctx, const struct remark_row *row, struct err *err);

struct remark_store {
    void *ctx;

    /* RC_OK: remarks can be read. */
    enum rc (*ping)(void *ctx, struct err *err);

    /* Calls on_row for the remarks of a page, in their order; REMARK_VOTES: fills *windows, too.
     * All of it is one view of the data; the windows of a page without remarks may be later ones.
     * What on_row returns other than RC_OK ends the call. */
    enum rc (*read_page)(void *ctx, const struct remark_query *query, remark_on_row on_row,
                         void *row_ctx, struct remark_windows *windows, struct err *err);

    /* Calls on_row for those of the remarks that a recommended list of the item may show, in the
     * order of ids[]. */
    enum rc (*read_listed)(void *ctx, int64_t item_id, const int64_t *ids, size_t count,
                           remark_on_row on_row, void *row_ctx, struct err *err);

    /* Inserts a row in a transaction of its own. *id: its id, or 0: the next free one, which is
     * returned. end->existed: there was a row with this id; it is unchanged, and end->item_id is
     * its item.
     * end->deleted: the remark with this id was deleted, and may have been removed; nothing is
     * inserted. RC_RETRY with end->unknown: the answer to the COMMIT was lost, and without an id a
     * repetition could make a second row. RC_REJECT: the database refuses the values. */
    enum rc (*insert)(void *ctx, const struct remark_values *values, int64_t *id,
                      struct remark_insertion *end, struct err *err);

    /* Updates the given fields of a row. *found: there is one that is not deleted; *item_id: its
     * item. */
    enum rc (*update)(void *ctx, int64_t id, const struct remark_values *values, bool *found,
                      int64_t *item_id, struct err *err);

    /* After RC_RETRY of a write. True: a collision with another transaction. */
    bool (*collided)(void *ctx, const struct err *err);
};

#endif
