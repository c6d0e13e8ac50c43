/* SPDX-License-Identifier: MIT */
#include "producer/remark/page_cache.h"

#include "common/hash.h"
#include "producer/serve_metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS ((size_t)1 << 14)

/* The pages of one item: they are dropped together. It exists while it has pages or loads. */
struct page_item {
    int64_t item_id;
    struct page_item *next; /* in its bucket */
    struct kept_page *pages;
    struct page_load *loads;
};

/* A page that is kept, with the totals that were read last. */
struct kept_page {
    struct remark_page *page;
    struct page_item *item;
    struct kept_page *next; /* in its bucket */
    struct kept_page **at;  /* what points to it there */
    struct kept_page *next_of_item;
    struct kept_page **at_of_item;
    struct kept_page *newer;
    struct kept_page *older;
    int64_t totals_ms; /* when the totals were read; 0: never */
    int64_t totals[];  /* of page->count remarks */
};

/* A page that is being read. */
struct page_load {
    struct page_item *item;
    struct page_load *next; /* in its bucket */
    struct page_load **at;
    struct page_load *next_of_item;
    struct page_load **at_of_item;
    struct remark_place place;
    size_t rows_max;
    bool dropped; /* its item was written: in no list any more */
    struct page_waiter *waiters;
};

/* Pages and loads are in the bucket of their whole place: clients choose places, and one item may
 * have any number of them. Items are in the bucket of their id. */
struct bucket {
    struct kept_page *pages;
    struct page_load *loads;
    struct page_item *items;
};

struct page_cache {
    struct page_cache_config config;
    pthread_mutex_t lock; /* of everything below, of kept pages, of items and of loads */
    size_t bytes;
    uint64_t compared;        /* places, by all look-ups */
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

static uint64_t hash_number(uint64_t hash, int64_t number)
{
    return hash_bytes(hash, &number, sizeof(number));
}

/* The first hash is secret, so that no client can choose places of one bucket. */
static struct bucket *find_bucket(struct page_cache *cache, const struct remark_place *place,
                                  size_t rows_max)
{
    uint64_t hash = hash_number(cache->config.hash_start, place->item_id);

    hash = hash_number(hash, (int64_t)place->sort * 2 + place->after);
    hash = hash_number(hash, place->id);
    hash = hash_number(hash, place->votes);
    hash = hash_number(hash, place->window);
    return &cache->buckets[hash_number(hash, (int64_t)rows_max) % BUCKETS];
}

/* *at is the item, or NULL where it would be added. */
static struct page_item **find_item(struct page_cache *cache, int64_t item_id)
{
    uint64_t hash = hash_number(cache->config.hash_start, item_id);
    struct page_item **at = &cache->buckets[hash % BUCKETS].items;

    while (*at && (*at)->item_id != item_id)
        at = &(*at)->next;
    return at;
}

/* Returns the item, which may be new, or NULL: no memory. */
static struct page_item *make_item(struct page_cache *cache, int64_t item_id)
{
    struct page_item **at = find_item(cache, item_id);

    if (*at)
        return *at;
    *at = calloc(1, sizeof(**at));
    if (*at)
        (*at)->item_id = item_id;
    return *at;
}

/* Frees an item that has neither pages nor loads. */
static void clean_item(struct page_cache *cache, struct page_item *item)
{
    struct page_item **at;

    if (item->pages || item->loads)
        return;
    at = find_item(cache, item->item_id);
    *at = item->next;
    free(item);
}

/* The share of the item is that of one with a single page. */
static size_t count_bytes(const struct kept_page *kept)
{
    return sizeof(*kept) + sizeof(*kept->item) + kept->page->count * sizeof(kept->totals[0]) +
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

/* The item stays, also if this was its last page. */
static void remove_page(struct page_cache *cache, struct kept_page *kept)
{
    *kept->at = kept->next;
    if (kept->next)
        kept->next->at = kept->at;
    *kept->at_of_item = kept->next_of_item;
    if (kept->next_of_item)
        kept->next_of_item->at_of_item = kept->at_of_item;
    unlink_use(cache, kept);
    cache->bytes -= count_bytes(kept);
    metric_set(&serve_page_cache_bytes, (int64_t)cache->bytes);
    remark_page_release(kept->page);
    free(kept);
}

static void forget_page(struct page_cache *cache, struct kept_page *kept)
{
    struct page_item *item = kept->item;

    remove_page(cache, kept);
    clean_item(cache, item);
}

void page_cache_free(struct page_cache *cache)
{
    if (!cache)
        return;
    for (struct kept_page *kept = cache->oldest, *newer; kept; kept = newer) {
        newer = kept->newer;
        forget_page(cache, kept);
    }
    for (size_t i = 0; i < BUCKETS; i++)
        assert(!cache->buckets[i].loads && !cache->buckets[i].items);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* NULL: it is not kept. */
static struct kept_page *find_kept(struct page_cache *cache, const struct remark_place *place,
                                   size_t rows_max)
{
    struct kept_page *kept = find_bucket(cache, place, rows_max)->pages;

    while (kept && !is_place(&kept->page->place, kept->page->rows_max, place, rows_max)) {
        cache->compared++;
        kept = kept->next;
    }
    cache->compared += kept != NULL;
    return kept;
}

/* Returns a page that is no older than age_ms, as the last to be dropped, or NULL. */
static struct kept_page *find_page(struct page_cache *cache, const struct remark_place *place,
                                   size_t rows_max, int64_t age_ms, int64_t now_ms)
{
    struct kept_page *kept = find_kept(cache, place, rows_max);

    if (!kept || now_ms - kept->page->loaded_ms > age_ms)
        return NULL;
    unlink_use(cache, kept);
    link_use(cache, kept);
    return kept;
}

static void link_load(struct bucket *bucket, struct page_item *item, struct page_load *load)
{
    load->item = item;
    load->at = &bucket->loads;
    load->next = bucket->loads;
    if (load->next)
        load->next->at = &load->next;
    bucket->loads = load;
    load->at_of_item = &item->loads;
    load->next_of_item = item->loads;
    if (load->next_of_item)
        load->next_of_item->at_of_item = &load->next_of_item;
    item->loads = load;
}

/* The item stays, also if this was its last load. */
static void unlink_load(struct page_load *load)
{
    *load->at = load->next;
    if (load->next)
        load->next->at = load->at;
    *load->at_of_item = load->next_of_item;
    if (load->next_of_item)
        load->next_of_item->at_of_item = load->at_of_item;
}

/* NULL: no memory. */
static struct page_load *begin_load(struct page_cache *cache, const struct remark_place *place,
                                    size_t rows_max)
{
    struct page_load *load = calloc(1, sizeof(*load));
    struct page_item *item = load ? make_item(cache, place->item_id) : NULL;

    if (!item) {
        free(load);
        return NULL;
    }
    load->place = *place;
    load->rows_max = rows_max;
    link_load(find_bucket(cache, place, rows_max), item, load);
    return load;
}

/* Lets the waiter wait for a load of the page, or begins one. */
static enum page_found join_load(struct page_cache *cache, const struct remark_place *place,
                                 size_t rows_max, struct page_waiter *waiter,
                                 struct page_load **load)
{
    struct page_load *other = find_bucket(cache, place, rows_max)->loads;

    for (; other; other = other->next) {
        cache->compared++;
        if (!is_place(&other->place, other->rows_max, place, rows_max))
            continue;
        waiter->next = other->waiters;
        other->waiters = waiter;
        return PAGE_WAIT;
    }
    *load = begin_load(cache, place, rows_max);
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
        found = join_load(cache, place, rows_max, waiter, load);
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

static void link_page(struct bucket *bucket, struct page_item *item, struct kept_page *kept)
{
    kept->item = item;
    kept->at = &bucket->pages;
    kept->next = bucket->pages;
    if (kept->next)
        kept->next->at = &kept->next;
    bucket->pages = kept;
    kept->at_of_item = &item->pages;
    kept->next_of_item = item->pages;
    if (kept->next_of_item)
        kept->next_of_item->at_of_item = &kept->next_of_item;
    item->pages = kept;
}

/* Without memory the page is not kept. */
static void keep_page(struct page_cache *cache, struct page_item *item, struct remark_page *page)
{
    struct kept_page *kept = calloc(1, sizeof(*kept) + page->count * sizeof(kept->totals[0]));
    struct kept_page *before = find_kept(cache, &page->place, page->rows_max);

    if (before)
        remove_page(cache, before);
    if (!kept)
        return;
    kept->page = page;
    remark_page_hold(page);
    link_page(find_bucket(cache, &page->place, page->rows_max), item, kept);
    link_use(cache, kept);
    cache->bytes += count_bytes(kept);
    for (struct kept_page *oldest = cache->oldest, *newer;
         cache->bytes > cache->config.bytes_max && oldest != kept; oldest = newer) {
        newer = oldest->newer;
        forget_page(cache, oldest);
    }
    metric_set(&serve_page_cache_bytes, (int64_t)cache->bytes);
}

/* The item stays. */
static void drop_expired(struct page_item *item, struct page_cache *cache,
                         const struct remark_windows *windows)
{
    struct kept_page *next;

    for (struct kept_page *kept = item->pages; kept; kept = next) {
        const struct remark_page *page = kept->page;

        next = kept->next_of_item;
        if (page->place.sort == REMARK_VOTES && !remark_window_is_kept(page->next.window, windows))
            remove_page(cache, kept);
    }
}

/* The waiters are called without the lock: they use the cache. */
static void end_load(struct page_cache *cache, struct page_load *load, struct remark_page *page,
                     const void *why)
{
    struct page_waiter *waiter;

    if (!load)
        return;
    pthread_mutex_lock(&cache->lock);
    if (!load->dropped) {
        unlink_load(load);
        if (page && page->expired)
            drop_expired(load->item, cache, &page->windows);
        else if (page)
            keep_page(cache, load->item, page);
        clean_item(cache, load->item);
    }
    waiter = load->waiters;
    pthread_mutex_unlock(&cache->lock);
    free(load);
    while (waiter) {
        struct page_waiter *next = waiter->next;

        if (page)
            remark_page_hold(page);
        waiter->done(waiter, page, why);
        waiter = next;
    }
}

void page_cache_loaded(struct page_cache *cache, struct page_load *load, struct remark_page *page)
{
    end_load(cache, load, page, NULL);
}

void page_cache_failed(struct page_cache *cache, struct page_load *load, const void *why)
{
    end_load(cache, load, NULL, why);
}

void page_cache_drop_item(struct page_cache *cache, int64_t item_id)
{
    struct page_item *item;

    pthread_mutex_lock(&cache->lock);
    item = *find_item(cache, item_id);
    if (item) {
        for (struct kept_page *kept = item->pages, *next; kept; kept = next) {
            next = kept->next_of_item;
            remove_page(cache, kept);
        }
        while (item->loads) {
            item->loads->dropped = true;
            unlink_load(item->loads);
        }
        clean_item(cache, item);
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
    kept = find_kept(cache, &page->place, page->rows_max);
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
    kept = find_kept(cache, &page->place, page->rows_max);
    if (kept && kept->page == page && kept->totals_ms > 0 && now_ms >= kept->totals_ms &&
        now_ms - kept->totals_ms <= age_max_ms) {
        age_ms = now_ms - kept->totals_ms;
        for (size_t i = 0; i < page->count; i++)
            rows[i].votes = kept->totals[i];
    }
    pthread_mutex_unlock(&cache->lock);
    return age_ms;
}

uint64_t page_cache_compared(struct page_cache *cache)
{
    uint64_t compared;

    pthread_mutex_lock(&cache->lock);
    compared = cache->compared;
    pthread_mutex_unlock(&cache->lock);
    return compared;
}
