/* SPDX-License-Identifier: MIT */
/* One page of a list of remarks: its place as a cursor that clients send back, and the static part
 * of its remarks as JSON, to which an answer adds the totals. A page is built by one thread and
 * does not change afterwards, so that any number of threads may read it. */
#ifndef PRODUCER_REMARK_REMARK_PAGE_H
#define PRODUCER_REMARK_REMARK_PAGE_H

#include "common/buf.h"
#include "common/err.h"
#include "producer/producer_ops.h"
#include "producer/remark/remark_ops.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REMARK_PAGE_ROWS_MAX 100
#define REMARK_PAGE_ROWS_DEFAULT 20
#define REMARK_CURSOR_SIZE 96

/* A page ends before the remark that would make its JSON longer, without the totals; but it has one
 * remark at least, which may be as long. So a client with a hundred remarks of the longest texts
 * does not make the process hold 80 MB for each answer. */
#define REMARK_PAGE_BYTES_MAX ((size_t)1 << 20)

/* Writes the cursor of a place that is not the first page. */
void remark_cursor_write(const struct remark_place *place, char cursor[REMARK_CURSOR_SIZE]);

/* Reads a cursor. False: it is not one of this item and this order. */
bool remark_cursor_read(const char *cursor, int64_t item_id, enum remark_sort sort,
                        struct remark_place *place);

/* What an answer says of a recommended list. */
struct remark_list {
    bool building;    /* there is no list yet */
    size_t count;     /* remarks in it */
    uint64_t version; /* equal lists have equal versions */
    int64_t window;   /* the finished roll-up that its votes are of */
};

/* Whether pages by votes can be made as of a finished roll-up, after reading the numbers *seen:
 * each remark keeps the votes of two roll-ups. */
bool remark_window_is_kept(int64_t window, const struct remark_windows *seen);

struct remark_page_row {
    int64_t id;
    int64_t votes;  /* as of the last roll-up */
    int64_t listed; /* see listed_count */
    size_t end;     /* of the remark in json */
};

struct remark_page {
    atomic_uint holders;
    struct remark_place place;
    size_t rows_max;
    bool expired; /* the cursor is older than the votes of two roll-ups; there are no remarks */
    struct remark_windows windows; /* REMARK_VOTES: the roll-ups when it was read */
    int64_t loaded_ms;
    size_t count;
    struct buf json;
    struct remark_place next;
    bool has_next;

    /* REMARK_RECOMMENDED: the list, and how many of its remarks the page has: `listed` of so many
     * rows. Those of them that were removed since the list was built are not in the page. */
    struct remark_list list;
    size_t listed_count;

    struct remark_page_row rows[]; /* rows_max */
};

/* An empty page with one holder, or NULL: no memory. */
struct remark_page *remark_page_new(const struct remark_place *place, size_t rows_max);
void remark_page_hold(struct remark_page *page);
/* Frees the page with its last holder; NULL is accepted. */
void remark_page_release(struct remark_page *page);

/* Removes the remarks, to build the page again. */
void remark_page_clear(struct remark_page *page);

/* Adds a remark behind the others. One more than rows_max, or than REMARK_PAGE_BYTES_MAX has room
 * for, only tells that there is a next page; those behind it are ignored. RC_FATAL: no memory. */
enum rc remark_page_add(struct remark_page *page, const struct remark_row *row, struct err *err);

/* Gives back the memory that was reserved for further remarks. */
void remark_page_trim(struct remark_page *page);

/* The bytes of memory that the page takes. */
size_t remark_page_bytes(const struct remark_page *page);

/* How current the totals of an answer are. */
struct remark_totals {
    const struct totals_row *rows; /* one per remark; NULL: those of the last roll-up */
    int64_t voter_id;              /* 0: the votes of no voter are shown */
    int64_t age_ms;                /* of the totals; -1: unknown */
    bool stale;                    /* the database cannot be read: the page may be old, too */
};

/* Appends the answer to a request for the page. */
void remark_page_put(struct buf *out, const struct remark_page *page,
                     const struct remark_totals *totals);

#endif
