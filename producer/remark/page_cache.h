/* SPDX-License-Identifier: MIT */
/* The pages of remarks that the process has read, in bounded memory. Decides which pages are fresh,
 * which may stand in while the database is away, which are dropped for others, and which of several
 * requests for one page reads it: the others wait for its result. Any thread; no function blocks.
 */
#ifndef PRODUCER_REMARK_PAGE_CACHE_H
#define PRODUCER_REMARK_PAGE_CACHE_H

#include "common/err.h"
#include "producer/remark/remark_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_cache;

struct page_cache_config {
    size_t bytes_max; /* of pages; the page used last always fits */
    int64_t fresh_ms; /* a page is read again after this time */
    int64_t stale_ms; /* and may stand in for so long after it was read; >= fresh_ms */
    /* Random and secret: clients choose the places of pages, and must not choose places of one
     * bucket of the cache's table. */
    uint64_t hash_start;
    /* Called without a lock after page_cache_drop_item(); may be NULL. */
    void (*dropped)(void *ctx, int64_t item_id);
    void *dropped_ctx;
};

/* RC_FATAL: no memory. */
enum rc page_cache_open(struct page_cache **cache, const struct page_cache_config *config,
                        struct err *err);
/* No page may be loading. */
void page_cache_free(struct page_cache *cache);

/* A request that waits for a page which another request reads. `done` is called once, by the thread
 * that ends the load: with the page, which it holds, or with NULL when it could not be read and
 * what page_cache_failed() got as the reason, borrowed for the call. */
struct page_waiter {
    void (*done)(struct page_waiter *waiter, struct remark_page *page, const void *why);
    struct page_waiter *next; /* the cache's own */
};

enum page_found {
    PAGE_FRESH, /* *page is the page; the caller holds it */
    PAGE_LOAD,  /* the caller must read it and end the load */
    PAGE_WAIT,  /* another request reads it; the waiter's `done` will be called */
};

struct page_load;

/* Looks for the page of a place. PAGE_LOAD: *load is to be ended by page_cache_loaded() or
 * page_cache_failed(). When there was no memory for a load it is PAGE_LOAD with *load NULL. */
enum page_found page_cache_find(struct page_cache *cache, const struct remark_place *place,
                                size_t rows_max, int64_t now_ms, struct page_waiter *waiter,
                                struct remark_page **page, struct page_load **load);

/* Ends a load: the page is kept, unless its item was dropped since the load began, and the waiters
 * get it. load may be NULL. The caller keeps its own hold. A page that has expired drops the pages
 * of its item whose cursors have expired, too: who reads the first page again gets a cursor that
 * can be used. */
void page_cache_loaded(struct page_cache *cache, struct page_load *load, struct remark_page *page);
/* Ends a load that read nothing. why: for the waiters. */
void page_cache_failed(struct page_cache *cache, struct page_load *load, const void *why);

/* A page that was read no longer than stale_ms ago, or NULL; the caller holds it. */
struct remark_page *page_cache_stale(struct page_cache *cache, const struct remark_place *place,
                                     size_t rows_max, int64_t now_ms);

/* Drops all pages of an item: a remark of it was written. Loads that are under way are not kept,
 * and requests from now on do not wait for them. */
void page_cache_drop_item(struct page_cache *cache, int64_t item_id);

/* Keeps the totals of a page, one per remark, read at now_ms. */
void page_cache_put_totals(struct page_cache *cache, const struct remark_page *page,
                           const struct totals_row *rows, int64_t now_ms);

/* Fills the votes of rows[] from the totals that are no older than age_max_ms. Returns their age in
 * ms, or -1: there are none. */
int64_t page_cache_totals(struct page_cache *cache, const struct remark_page *page,
                          int64_t age_max_ms, int64_t now_ms, struct totals_row *rows);

/* How many places all look-ups have compared: for its tests. */
uint64_t page_cache_compared(struct page_cache *cache);

#endif
