/* SPDX-License-Identifier: MIT */
#include "producer/remark/page_cache.h"

#include "common/hash.h"
#include "producer/serve_metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Lists of pages, chosen by a hash of the item: all pages of an item are in one list. */
#define BUCKETS ((size_t)1 << 14)

/* A page that is kept, with the totals that were read last. */
struct kept_page {
    struct remark_page *page;
    struct kept_page *next; /* in its bucket */
    struct kept_page *newer;
    struct kept_page *older;
    int64_t totals_ms; /* when the totals were read; 0: never */
    int64_t totals[];  /* of page->count remarks */
};

/* A page that is being read. */
struct page_load {
    struct page_load *next; /* in its bucket */
    struct remark_place place;
    size_t rows_max;
    bool dropped; /* its item was written: not in the bucket any more */
    struct page_waiter *waiters;
};

struct bucket {
    struct kept_page *pages; /* the one found last comes first */
    struct page_load *loads;
};

struct page_cache {
    struct page_cache_config config;
    pthread_mutex_t lock; /* of everything below, of kept pages and of loads */
    size_t bytes;
    struct kept_page *newest; /* by their last use */
    struct kept_page *oldest;
    struct bucket buckets[];
};

enum rc page_cache_open(struct page_cache **out, const struct page_cache_config *config,
                        struct err *err)
{
    struct page_cache *cache = calloc(1, sizeof(*cache) + BUCKETS * sizeof(cache->buckets[0]));

    assert(config->stale_ms >= config->fresh_ms);
    *out = cache;
    if (!cache)
        return err_fail(err, RC_FATAL, 0, "no memory for the cache of pages");
    cache->config = *config;
    pthread_mutex_init(&cache->lock, NULL);
    return RC_OK;
}

static struct bucket *find_bucket(struct page_cache *cache, int64_t item_id)
{
    return &cache->buckets[hash_bytes(HASH_START, &item_id, sizeof(item_id)) % BUCKETS];
}

static size_t count_bytes(const struct kept_page *kept)
{
    return sizeof(*kept) + kept->page->count * sizeof(kept->totals[0]) +
           remark_page_bytes(kept->page);
}

static bool is_place(const struct remark_place *one, size_t one_rows,
                     const struct remark_place *other, size_t other_rows)
{
    return one->item_id == other->item_id && one->sort == other->sort &&
           one->after == other->after && one->id == other->id && one->votes == other->votes &&
           one->window == other->window && one_rows == other_rows;
}

static void unlink_use(struct page_cache *cache, struct kept_page *kept)
{
    *(kept->newer ? &kept->newer->older : &cache->newest) = kept->older;
    *(kept->older ? &kept->older->newer : &cache->oldest) = kept->newer;
}

static void link_use(struct page_cache *cache, struct kept_page *kept)
{
    kept->newer = NULL;
    kept->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = kept;
    cache->newest = kept;
}

/* Removes the page at its place in a bucket. */
static void remove_page(struct page_cache *cache, struct kept_page **at)
{
    struct kept_page *kept = *at;

    *at = kept->next;
    unlink_use(cache, kept);
    cache->bytes -= count_bytes(kept);
    metric_set(&serve_page_cache_bytes, (int64_t)cache->bytes);
    remark_page_release(kept->page);
    free(kept);
}

void page_cache_free(struct page_cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        assert(!cache->buckets[i].loads);
        while (cache->buckets[i].pages)
            remove_page(cache, &cache->buckets[i].pages);
    }
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* Returns a page that is no older than age_ms, as the first of its bucket and the last to be
 * dropped, or NULL. */
static struct kept_page *find_page(struct page_cache *cache, const struct remark_place *place,
                                   size_t rows_max, int64_t age_ms, int64_t now_ms)
{
    struct bucket *bucket = find_bucket(cache, place->item_id);
    struct kept_page **at = &bucket->pages;
    struct kept_page *kept;

    while (*at && !is_place(&(*at)->page->place, (*at)->page->rows_max, place, rows_max))
        at = &(*at)->next;
    kept = *at;
    if (!kept || now_ms - kept->page->loaded_ms > age_ms)
        return NULL;
    *at = kept->next;
    kept->next = bucket->pages;
    bucket->pages = kept;
    unlink_use(cache, kept);
    link_use(cache, kept);
    return kept;
}

/* Lets the waiter wait for a load of the page, or begins one. */
static enum page_found join_load(struct bucket *bucket, const struct remark_place *place,
                                 size_t rows_max, struct page_waiter *waiter,
                                 struct page_load **load)
{
    for (struct page_load *other = bucket->loads; other; other = other->next) {
        if (!is_place(&other->place, other->rows_max, place, rows_max))
            continue;
        waiter->next = other->waiters;
        other->waiters = waiter;
        return PAGE_WAIT;
    }
    *load = calloc(1, sizeof(**load));
    if (*load) {
        (*load)->place = *place;
        (*load)->rows_max = rows_max;
        (*load)->next = bucket->loads;
        bucket->loads = *load;
    }
    return PAGE_LOAD;
}

enum page_found page_cache_find(struct page_cache *cache, const struct remark_place *place,
                                size_t rows_max, int64_t now_ms, struct page_waiter *waiter,
                                struct remark_page **page, struct page_load **load)
{
    enum page_found found = PAGE_FRESH;
    struct kept_page *kept;

    *page = NULL;
    *load = NULL;
    pthread_mutex_lock(&cache->lock);
    kept = find_page(cache, place, rows_max, cache->config.fresh_ms, now_ms);
    if (kept) {
        *page = kept->page;
        remark_page_hold(*page);
    } else {
        found = join_load(find_bucket(cache, place->item_id), place, rows_max, waiter, load);
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

struct remark_page *page_cache_stale(struct page_cache *cache, const struct remark_place *place,
                                     size_t rows_max, int64_t now_ms)
{
    struct remark_page *page = NULL;
    struct kept_page *kept;

    pthread_mutex_lock(&cache->lock);
    kept = find_page(cache, place, rows_max, cache->config.stale_ms, now_ms);
    if (kept) {
        page = kept->page;
        remark_page_hold(page);
    }
    pthread_mutex_unlock(&cache->lock);
    return page;
}

static struct kept_page **find_kept(struct bucket *bucket, const struct remark_place *place,
                                    size_t rows_max)
{
    struct kept_page **at = &bucket->pages;

    while (*at && !is_place(&(*at)->page->place, (*at)->page->rows_max, place, rows_max))
        at = &(*at)->next;
    return at;
}

static void drop_oldest(struct page_cache *cache)
{
    const struct remark_page *page = cache->oldest->page;

    remove_page(cache,
                find_kept(find_bucket(cache, page->place.item_id), &page->place, page->rows_max));
}

/* Without memory the page is not kept. */
static void keep_page(struct page_cache *cache, struct remark_page *page)
{
    struct bucket *bucket = find_bucket(cache, page->place.item_id);
    struct kept_page *kept = calloc(1, sizeof(*kept) + page->count * sizeof(kept->totals[0]));
    struct kept_page **at = find_kept(bucket, &page->place, page->rows_max);

    if (*at)
        remove_page(cache, at);
    if (!kept)
        return;
    kept->page = page;
    remark_page_hold(page);
    kept->next = bucket->pages;
    bucket->pages = kept;
    link_use(cache, kept);
    cache->bytes += count_bytes(kept);
    while (cache->bytes > cache->config.bytes_max && cache->oldest != kept)
        drop_oldest(cache);
    metric_set(&serve_page_cache_bytes, (int64_t)cache->bytes);
}

static void unlink_load(struct bucket *bucket, const struct page_load *load)
{
    struct page_load **at = &bucket->loads;

    while (*at != load)
        at = &(*at)->next;
    *at = load->next;
}

/* The waiters are called without the lock: they use the cache. */
static void end_load(struct page_cache *cache, struct page_load *load, struct remark_page *page)
{
    struct page_waiter *waiter;

    if (!load)
        return;
    pthread_mutex_lock(&cache->lock);
    if (!load->dropped) {
        unlink_load(find_bucket(cache, load->place.item_id), load);
        if (page && !page->expired)
            keep_page(cache, page);
    }
    waiter = load->waiters;
    pthread_mutex_unlock(&cache->lock);
    free(load);
    while (waiter) {
        struct page_waiter *next = waiter->next;

        if (page)
            remark_page_hold(page);
        waiter->done(waiter, page);
        waiter = next;
    }
}

void page_cache_loaded(struct page_cache *cache, struct page_load *load, struct remark_page *page)
{
    end_load(cache, load, page);
}

void page_cache_failed(struct page_cache *cache, struct page_load *load)
{
    end_load(cache, load, NULL);
}

void page_cache_drop_item(struct page_cache *cache, int64_t item_id)
{
    struct bucket *bucket = find_bucket(cache, item_id);
    struct kept_page **page = &bucket->pages;
    struct page_load **load = &bucket->loads;

    pthread_mutex_lock(&cache->lock);
    while (*page) {
        if ((*page)->page->place.item_id == item_id)
            remove_page(cache, page);
        else
            page = &(*page)->next;
    }
    while (*load) {
        if ((*load)->place.item_id == item_id) {
            (*load)->dropped = true;
            *load = (*load)->next;
        } else {
            load = &(*load)->next;
        }
    }
    pthread_mutex_unlock(&cache->lock);
    if (cache->config.dropped)
        cache->config.dropped(cache->config.dropped_ctx, item_id);
}

void page_cache_put_totals(struct page_cache *cache, const struct remark_page *page,
                           const struct totals_row *rows, int64_t now_ms)
{
    struct kept_page *kept;

    pthread_mutex_lock(&cache->lock);
    kept = *find_kept(find_bucket(cache, page->place.item_id), &page->place, page->rows_max);
    if (kept && kept->page == page && kept->totals_ms <= now_ms) {
        kept->totals_ms = now_ms;
        for (size_t i = 0; i < page->count; i++)
            kept->totals[i] = rows[i].votes;
    }
    pthread_mutex_unlock(&cache->lock);
}

int64_t page_cache_totals(struct page_cache *cache, const struct remark_page *page,
                          int64_t age_max_ms, int64_t now_ms, struct totals_row *rows)
{
    const struct kept_page *kept;
    int64_t age_ms = -1;

    pthread_mutex_lock(&cache->lock);
    kept = *find_kept(find_bucket(cache, page->place.item_id), &page->place, page->rows_max);
    if (kept && kept->page == page && kept->totals_ms > 0 && now_ms >= kept->totals_ms &&
        now_ms - kept->totals_ms <= age_max_ms) {
        age_ms = now_ms - kept->totals_ms;
        for (size_t i = 0; i < page->count; i++)
            rows[i].votes = kept->totals[i];
    }
    pthread_mutex_unlock(&cache->lock);
    return age_ms;
}
