/* SPDX-License-Identifier: MIT */
#include "producer/remark/page_cache.h"

#include "common/hash.h"
#include "producer/serve_metrics.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>

#define ROWS 20
#define FRESH_MS 60000
#define STALE_MS 600000

struct waiting {
    struct page_waiter waiter; /* first */
    int calls;
    struct remark_page *page;
    const void *why;
};

static void on_done(struct page_waiter *waiter, struct remark_page *page, const void *why)
{
    struct waiting *waiting = (struct waiting *)waiter;

    waiting->calls++;
    waiting->page = page;
    waiting->why = why;
}

static struct page_cache *open_cache(size_t bytes_max)
{
    const struct page_cache_config config = {
        .bytes_max = bytes_max,
        .fresh_ms = FRESH_MS,
        .stale_ms = STALE_MS,
        .hash_start = HASH_START,
    };
    struct page_cache *cache;
    struct err err;

    assert_int_equal(page_cache_open(&cache, &config, &err), RC_OK);
    return cache;
}

static struct remark_place first_page(int64_t item_id)
{
    return (struct remark_place){.item_id = item_id};
}

static enum page_found find(struct page_cache *cache, int64_t item_id, int64_t now_ms,
                            struct waiting *waiting, struct remark_page **page,
                            struct page_load **load)
{
    struct remark_place place = first_page(item_id);

    waiting->waiter.done = on_done;
    return page_cache_find(cache, &place, ROWS, now_ms, &waiting->waiter, page, load);
}

/* The page of an item, with one remark; the caller holds it. */
static struct remark_page *read_page(int64_t item_id, int64_t now_ms)
{
    struct remark_place place = first_page(item_id);
    struct remark_page *page = remark_page_new(&place, ROWS);
    const struct remark_row row = {
        .id = item_id * 10, .item_id = item_id, .header = "", .user_name = "", .user_face = ""};
    struct err err;

    assert_non_null(page);
    page->loaded_ms = now_ms;
    assert_int_equal(remark_page_add(page, &row, &err), RC_OK);
    return page;
}

static void load(struct page_cache *cache, int64_t item_id, int64_t now_ms)
{
    struct waiting waiting = {0};
    struct remark_page *page;
    struct page_load *load;

    assert_int_equal(find(cache, item_id, now_ms, &waiting, &page, &load), PAGE_LOAD);
    page = read_page(item_id, now_ms);
    page_cache_loaded(cache, load, page);
    remark_page_release(page);
}

static bool is_fresh(struct page_cache *cache, int64_t item_id, int64_t now_ms)
{
    struct waiting waiting = {0};
    struct remark_page *page;
    struct page_load *load;

    switch (find(cache, item_id, now_ms, &waiting, &page, &load)) {
    case PAGE_FRESH:
        assert_int_equal(page->rows[0].id, item_id * 10);
        remark_page_release(page);
        return true;
    case PAGE_LOAD:
        page_cache_failed(cache, load, NULL);
        return false;
    case PAGE_WAIT:
        fail_msg("nothing reads this page");
    }
    return false;
}

static void a_page_is_used_until_it_is_no_longer_fresh(void **state)
{
    struct page_cache *cache = open_cache(1 << 20);

    (void)state;
    load(cache, 1, 1000);
    assert_true(is_fresh(cache, 1, 1000));
    assert_true(is_fresh(cache, 1, 1000 + FRESH_MS));
    assert_false(is_fresh(cache, 1, 1001 + FRESH_MS));
    assert_false(is_fresh(cache, 2, 1000));
    page_cache_free(cache);
}

static void an_old_page_stands_in_up_to_its_bound(void **state)
{
    struct remark_place place = first_page(1);
    struct page_cache *cache = open_cache(1 << 20);
    struct remark_page *page;

    (void)state;
    load(cache, 1, 0);
    page = page_cache_stale(cache, &place, ROWS, STALE_MS);
    assert_non_null(page);
    remark_page_release(page);
    assert_null(page_cache_stale(cache, &place, ROWS, STALE_MS + 1));
    assert_null(page_cache_stale(cache, &place, ROWS - 1, 0));
    page_cache_free(cache);
}

static void one_request_reads_and_the_others_get_its_page(void **state)
{
    struct page_cache *cache = open_cache(1 << 20);
    struct waiting waiting[5] = {0};
    struct remark_page *page;
    struct page_load *load;
    struct page_load *none;

    (void)state;
    assert_int_equal(find(cache, 1, 0, &waiting[0], &page, &load), PAGE_LOAD);
    for (int i = 1; i < 5; i++)
        assert_int_equal(find(cache, 1, 0, &waiting[i], &page, &none), PAGE_WAIT);
    page = read_page(1, 0);
    page_cache_loaded(cache, load, page);
    assert_int_equal(waiting[0].calls, 0);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(waiting[i].calls, 1);
        assert_ptr_equal(waiting[i].page, page);
        remark_page_release(page);
    }
    remark_page_release(page);
    assert_true(is_fresh(cache, 1, 0));
    page_cache_free(cache);
}

static void a_read_that_failed_is_told_to_all_and_tried_by_the_next(void **state)
{
    struct page_cache *cache = open_cache(1 << 20);
    struct waiting waiting[2] = {0};
    struct remark_page *page;
    struct page_load *load;
    struct page_load *none;

    (void)state;
    assert_int_equal(find(cache, 1, 0, &waiting[0], &page, &load), PAGE_LOAD);
    assert_int_equal(find(cache, 1, 0, &waiting[1], &page, &none), PAGE_WAIT);
    page_cache_failed(cache, load, "full");
    assert_int_equal(waiting[1].calls, 1);
    assert_null(waiting[1].page);
    assert_string_equal(waiting[1].why, "full");
    assert_false(is_fresh(cache, 1, 0));
    page_cache_free(cache);
}

/* Invariant: a request that came after a write does not get what was read before it. */
static void a_write_drops_the_pages_of_its_item_and_reads_under_way(void **state)
{
    struct page_cache *cache = open_cache(1 << 20);
    struct waiting waiting[3] = {0};
    struct remark_page *page;
    struct page_load *before;
    struct page_load *after;

    (void)state;
    load(cache, 1, 0);
    load(cache, 2, 0);
    page_cache_drop_item(cache, 1);
    assert_true(is_fresh(cache, 2, 0));
    assert_int_equal(find(cache, 1, 0, &waiting[0], &page, &before), PAGE_LOAD);
    assert_int_equal(find(cache, 1, 0, &waiting[1], &page, &after), PAGE_WAIT);
    page_cache_drop_item(cache, 1);
    assert_int_equal(find(cache, 1, 0, &waiting[2], &page, &after), PAGE_LOAD);
    page = read_page(1, 0);
    page_cache_loaded(cache, before, page);
    assert_ptr_equal(waiting[1].page, page);
    remark_page_release(page);
    remark_page_release(page);
    assert_int_equal(find(cache, 1, 0, &waiting[0], &page, &before), PAGE_WAIT);
    page_cache_failed(cache, after, NULL);
    assert_int_equal(waiting[0].calls, 1);
    page_cache_free(cache);
}

static void the_page_that_was_not_used_longest_is_dropped(void **state)
{
    struct remark_page *page = read_page(1, 0);
    size_t bytes = remark_page_bytes(page);
    struct page_cache *cache = open_cache(3 * bytes + bytes / 2);

    (void)state;
    remark_page_release(page);
    for (int64_t item = 1; item <= 3; item++)
        load(cache, item, 0);
    assert_true(is_fresh(cache, 1, 0));
    load(cache, 4, 0);
    assert_true(is_fresh(cache, 1, 0));
    assert_false(is_fresh(cache, 2, 0));
    assert_true(is_fresh(cache, 3, 0));
    assert_true(is_fresh(cache, 4, 0));
    page_cache_free(cache);
}

static void totals_are_used_up_to_the_age_that_is_asked_for(void **state)
{
    struct page_cache *cache = open_cache(1 << 20);
    struct totals_row rows[1] = {{.votes = 5}};
    struct waiting waiting = {0};
    struct remark_page *page;
    struct page_load *load_of_page;

    (void)state;
    load(cache, 1, 1000);
    assert_int_equal(find(cache, 1, 1000, &waiting, &page, &load_of_page), PAGE_FRESH);
    assert_int_equal(page_cache_totals(cache, page, 500, 1000, rows), -1);
    page_cache_put_totals(cache, page, rows, 1000);
    rows[0].votes = 4;
    page_cache_put_totals(cache, page, rows, 900); /* an older answer comes later */
    rows[0].votes = 0;
    assert_int_equal(page_cache_totals(cache, page, 500, 1500, rows), 500);
    assert_int_equal(rows[0].votes, 5);
    assert_int_equal(page_cache_totals(cache, page, 500, 1501, rows), -1);
    page_cache_drop_item(cache, 1);
    assert_int_equal(page_cache_totals(cache, page, 500, 1500, rows), -1);
    page_cache_put_totals(cache, page, rows, 2000); /* of a page that is not kept any more */
    remark_page_release(page);
    page_cache_free(cache);
}

static struct remark_place place_after(int64_t item_id, int64_t id)
{
    return (struct remark_place){.item_id = item_id, .after = true, .id = id};
}

static void load_empty(struct page_cache *cache, const struct remark_place *place, size_t rows_max)
{
    struct waiting waiting = {0};
    struct remark_page *page;
    struct page_load *load;

    waiting.waiter.done = on_done;
    assert_int_equal(page_cache_find(cache, place, rows_max, 0, &waiting.waiter, &page, &load),
                     PAGE_LOAD);
    page = remark_page_new(place, rows_max);
    assert_non_null(page);
    page_cache_loaded(cache, load, page);
    remark_page_release(page);
}

static bool is_kept(struct page_cache *cache, const struct remark_place *place)
{
    struct remark_page *page = page_cache_stale(cache, place, ROWS, 0);

    remark_page_release(page);
    return page != NULL;
}

/* A client may make up the cursors of one item. */
static void the_pages_of_one_item_are_not_compared_with_each_other(void **state)
{
    enum { PAGES = 4000 };
    struct page_cache *cache = open_cache((size_t)64 << 20);
    struct remark_place other = first_page(2);
    struct totals_row rows[1];
    struct remark_place place;

    (void)state;
    load_empty(cache, &other, ROWS);
    for (int64_t id = 1; id <= PAGES; id++) {
        place = place_after(1, id);
        load_empty(cache, &place, ROWS);
    }
    for (int64_t id = 1; id <= PAGES; id++) {
        struct remark_page *page;

        place = place_after(1, id);
        page = page_cache_stale(cache, &place, ROWS, 0);
        assert_non_null(page);
        page_cache_put_totals(cache, page, rows, 1);
        remark_page_release(page);
    }
    assert_in_range(page_cache_compared(cache), 2 * PAGES, 6 * PAGES);
    page_cache_drop_item(cache, 1);
    for (int64_t id = 1; id <= PAGES; id++) {
        place = place_after(1, id);
        assert_false(is_kept(cache, &place));
    }
    assert_true(is_kept(cache, &other));
    page_cache_free(cache);
    assert_int_equal(metric_value(&serve_page_cache_bytes), 0);
}

/* Pages are kept, dropped for others, dropped with their item and replaced, in any order: those
 * that are left are the ones used last, and the bytes are theirs. */
static void pages_and_their_bytes_follow_a_model(void **state)
{
    enum { ITEMS = 5, IDS = 8 };
    struct page_cache *cache = open_cache((size_t)64 << 20);
    bool kept[ITEMS][IDS] = {{false}};
    int64_t one_page;
    uint64_t rng = 1;
    int64_t count = 0;

    (void)state;
    load_empty(cache, &(struct remark_place){.item_id = 1000}, ROWS);
    one_page = metric_value(&serve_page_cache_bytes);
    page_cache_drop_item(cache, 1000);
    for (int step = 0; step < 5000; step++) {
        int64_t item = (int64_t)(rng_next(&rng) % ITEMS);
        int64_t id = (int64_t)(rng_next(&rng) % IDS);
        struct remark_place place = place_after(item, id);

        if (rng_next(&rng) % 20 == 0) {
            page_cache_drop_item(cache, item);
            for (int i = 0; i < IDS; i++) {
                count -= kept[item][i];
                kept[item][i] = false;
            }
        } else if (!kept[item][id]) {
            load_empty(cache, &place, ROWS);
            kept[item][id] = true;
            count++;
        }
        assert_int_equal(is_kept(cache, &place), kept[item][id]);
        assert_int_equal(metric_value(&serve_page_cache_bytes), count * one_page);
    }
    page_cache_free(cache);
    cache = open_cache((size_t)(10 * one_page));
    for (int64_t id = 1; id <= 100; id++) {
        struct remark_place place = place_after(id % 3, id);
        struct remark_place oldest = place_after((id - 10) % 3, id - 10);

        load_empty(cache, &place, ROWS);
        assert_true(is_kept(cache, &place));
        assert_true(id <= 10 || !is_kept(cache, &oldest));
        assert_int_equal(metric_value(&serve_page_cache_bytes), (id < 10 ? id : 10) * one_page);
    }
    page_cache_free(cache);
}

static void load_by_votes(struct page_cache *cache, const struct remark_place *place,
                          int64_t window, const struct remark_windows *seen)
{
    struct waiting waiting = {0};
    struct remark_page *page;
    struct page_load *load;

    waiting.waiter.done = on_done;
    assert_int_equal(page_cache_find(cache, place, ROWS, 0, &waiting.waiter, &page, &load),
                     PAGE_LOAD);
    page = remark_page_new(place, ROWS);
    assert_non_null(page);
    page->next.window = window;
    page->windows = *seen;
    page->expired = !remark_window_is_kept(window, seen);
    page_cache_loaded(cache, load, page);
    remark_page_release(page);
}

/* Otherwise the first page would give the same cursor until it is no longer fresh. */
static void a_cursor_that_expired_drops_the_pages_that_gave_it(void **state)
{
    struct remark_place first = {.item_id = 1, .sort = REMARK_VOTES};
    struct remark_place other = {.item_id = 2, .sort = REMARK_VOTES};
    struct remark_place newest = first_page(1);
    struct remark_place old = {
        .item_id = 1, .sort = REMARK_VOTES, .after = true, .id = 5, .window = 7};
    struct remark_place forged = {
        .item_id = 1, .sort = REMARK_VOTES, .after = true, .id = 5, .window = 1};
    struct page_cache *cache = open_cache(1 << 20);

    (void)state;
    load_by_votes(cache, &first, 7, &(struct remark_windows){7, 7});
    load_by_votes(cache, &other, 7, &(struct remark_windows){7, 7});
    load_empty(cache, &newest, ROWS);
    load_by_votes(cache, &forged, 1, &(struct remark_windows){8, 8});
    assert_true(is_kept(cache, &first));
    load_by_votes(cache, &old, 7, &(struct remark_windows){8, 9});
    assert_false(is_kept(cache, &old));
    assert_false(is_kept(cache, &first));
    assert_true(is_kept(cache, &newest));
    assert_true(is_kept(cache, &other));
    load_by_votes(cache, &first, 8, &(struct remark_windows){8, 9});
    load_by_votes(cache, &forged, 1, &(struct remark_windows){8, 9});
    assert_true(is_kept(cache, &first));
    page_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_used_until_it_is_no_longer_fresh),
        cmocka_unit_test(an_old_page_stands_in_up_to_its_bound),
        cmocka_unit_test(one_request_reads_and_the_others_get_its_page),
        cmocka_unit_test(a_read_that_failed_is_told_to_all_and_tried_by_the_next),
        cmocka_unit_test(a_write_drops_the_pages_of_its_item_and_reads_under_way),
        cmocka_unit_test(the_page_that_was_not_used_longest_is_dropped),
        cmocka_unit_test(totals_are_used_up_to_the_age_that_is_asked_for),
        cmocka_unit_test(the_pages_of_one_item_are_not_compared_with_each_other),
        cmocka_unit_test(pages_and_their_bytes_follow_a_model),
        cmocka_unit_test(a_cursor_that_expired_drops_the_pages_that_gave_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
