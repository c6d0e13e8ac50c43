/* SPDX-License-Identifier: MIT */
#include "producer/http/api_routes.h"

#include "common/id.h"
#include "common/os.h"
#include "producer/http/api_answer.h"
#include "producer/remark/page_cache.h"
#include "producer/remark/remark_page.h"
#include "producer/serve_metrics.h"

#include <stdlib.h>
#include <string.h>

/* GET /v1/remarks, from its parameters to its page. */
struct page_call {
    struct api_pending pending; /* first; the read of the page, if this call does it */
    struct page_waiter waiter;  /* for the read of another call */
    const struct api_config *config;
    struct remark_place place;
    size_t rows_max;
    int64_t voter_id; /* 0: none */
    struct page_load *load;
};

/* The second part: a page that waits for its totals. */
struct page_totals_call {
    struct api_pending pending; /* first */
    const struct api_config *config;
    struct remark_page *page;
    bool stale; /* the page stands in for one that could not be read */
    struct totals_row rows[REMARK_PAGE_ROWS_MAX];
};

static void answer_expired(struct http_request *http)
{
    api_answer_bad(http, REQUEST_FAULT_EXPIRED, "cursor",
                   "the votes were rolled up since this list was begun, and the next roll-up is at "
                   "work; read the list from its first page");
}

static void answer_page(struct http_request *http, const struct remark_page *page,
                        const struct remark_totals *totals)
{
    struct buf body = {0};

    remark_page_put(&body, page, totals);
    if (totals->stale)
        metric_add(&serve_pages_stale, 1);
    api_answer(http, 200, &body);
    buf_done(&body);
}

static void answer_page_totals(struct api_pending *pending)
{
    struct page_totals_call *call = (struct page_totals_call *)pending;
    const struct remark_totals totals = {
        .rows = call->rows,
        .voter_id = pending->request.totals.voter_id,
        .stale = call->stale,
    };

    page_cache_put_totals(call->config->pages, call->page, call->rows,
                          pending->request.totals.read_ms);
    answer_page(pending->http, call->page, &totals);
}

static void free_page_totals(struct api_pending *pending)
{
    remark_page_release(((struct page_totals_call *)pending)->page);
}

/* The totals cannot be read. The last ones stand in for them, or those of the last roll-up; nothing
 * stands in for the votes of a voter. The rows may still be written by the worker. */
static bool answer_old_totals(struct api_pending *pending)
{
    struct page_totals_call *call = (struct page_totals_call *)pending;
    const struct settings *settings = call->config->settings;
    struct totals_row rows[REMARK_PAGE_ROWS_MAX] = {0};
    struct remark_totals totals = {.stale = true};

    if (pending->request.totals.voter_id > 0)
        return false;
    totals.age_ms = page_cache_totals(call->config->pages, call->page, settings->api.page_stale_ms,
                                      os_now_ms(), rows);
    totals.rows = totals.age_ms >= 0 ? rows : NULL;
    answer_page(pending->http, call->page, &totals);
    return true;
}

static const struct api_pending_kind page_totals_kind = {
    .answer = answer_page_totals,
    .done = free_page_totals,
    .stand_in = answer_old_totals,
};

/* A page without remarks needs no totals; others get those from memory, if the setting allows their
 * age and no voter is asked for. */
static bool answer_kept_totals(struct http_request *http, const struct api_config *config,
                               const struct remark_page *page, int64_t voter_id, bool stale)
{
    int64_t age_max_ms = config->settings->api.totals_max_age_ms;
    struct totals_row rows[REMARK_PAGE_ROWS_MAX] = {0};
    struct remark_totals totals = {.rows = rows, .stale = stale};

    if (page->count > 0) {
        if (voter_id > 0 || age_max_ms == 0 || stale)
            return false;
        totals.age_ms = page_cache_totals(config->pages, page, age_max_ms, os_now_ms(), rows);
        if (totals.age_ms < 0)
            return false;
    }
    answer_page(http, page, &totals);
    return true;
}

/* Answers the page, now or when its totals are read. Takes over a hold on the page. */
static void continue_page(struct http_request *http, const struct api_config *config,
                          struct remark_page *page, int64_t voter_id, bool stale)
{
    struct page_totals_call *call;

    if (page->expired) {
        answer_expired(http);
        remark_page_release(page);
        return;
    }
    if (answer_kept_totals(http, config, page, voter_id, stale)) {
        remark_page_release(page);
        return;
    }
    call = api_pending_make(http, &page_totals_kind, sizeof(*call));
    if (!call) {
        remark_page_release(page);
        return;
    }
    call->config = config;
    call->page = page;
    call->stale = stale;
    for (size_t i = 0; i < page->count; i++)
        call->rows[i].content_id = page->ids[i];
    call->pending.request.totals.voter_id = voter_id;
    call->pending.request.totals.count = page->count;
    call->pending.request.totals.rows = call->rows;
    call->pending.request.entry.weight = page->count;
    api_pending_put(&call->pending, config->reads, queue_shard_least(config->reads));
}

/* The page cannot be read. */
static bool continue_stale(const struct page_call *call)
{
    struct remark_page *page =
        page_cache_stale(call->config->pages, &call->place, call->rows_max, os_now_ms());

    if (page)
        continue_page(call->pending.http, call->config, page, call->voter_id, true);
    return page != NULL;
}

static void on_loaded(struct page_waiter *waiter, struct remark_page *page)
{
    struct page_call *call =
        (struct page_call *)((char *)waiter - offsetof(struct page_call, waiter));

    if (page)
        continue_page(call->pending.http, call->config, page, call->voter_id, false);
    else if (!continue_stale(call))
        api_answer_unavailable(call->pending.http);
    api_pending_free(&call->pending);
}

static void answer_loaded(struct api_pending *pending)
{
    struct page_call *call = (struct page_call *)pending;
    struct remark_page *page = pending->request.remarks.page;
    struct page_load *load = call->load;

    call->load = NULL;
    page_cache_loaded(call->config->pages, load, page);
    remark_page_hold(page);
    continue_page(pending->http, call->config, page, call->voter_id, false);
}

static bool answer_not_loaded(struct api_pending *pending)
{
    struct page_call *call = (struct page_call *)pending;
    struct page_load *load = call->load;

    call->load = NULL;
    page_cache_failed(call->config->pages, load);
    return continue_stale(call);
}

static void free_page_call(struct api_pending *pending)
{
    remark_page_release(pending->request.remarks.page);
}

static const struct api_pending_kind page_kind = {
    .answer = answer_loaded,
    .done = free_page_call,
    .stand_in = answer_not_loaded,
};

/* Reads the page, for this call and for the ones that wait for it. */
static void load_page(struct page_call *call)
{
    struct queue *queue = call->config->remarks;
    struct remark_page *page = remark_page_new(&call->place, call->rows_max);

    metric_add(&serve_pages_read, 1);
    if (!page) {
        page_cache_failed(call->config->pages, call->load);
        api_answer_no_memory(call->pending.http);
        api_pending_free(&call->pending);
        return;
    }
    call->pending.request.remarks.page = page;
    call->pending.request.entry.weight = call->rows_max;
    api_pending_put(&call->pending, queue, queue_shard_least(queue));
}

static bool read_number(const struct api_call *call, enum api_parameter parameter, int64_t min,
                        int64_t max, int64_t missing, int64_t *number)
{
    const char *text = call->parameters[parameter];
    struct request_fault fault;

    *number = missing;
    if (!text || (id_parse_number(text, strlen(text), number) && *number >= min && *number <= max))
        return true;
    request_fault_set(&fault, REQUEST_FAULT_OUT_OF_RANGE, "%s must be a number, %lld to %lld",
                      api_parameter_name(parameter), (long long)min, (long long)max);
    request_fault_at(&fault, api_parameter_name(parameter));
    api_answer_fault(call->http, &fault, 0);
    return false;
}

static bool read_sort(const struct api_call *call, enum remark_sort *sort)
{
    const char *text = call->parameters[API_SORT];

    *sort = text && strcmp(text, "votes") == 0 ? REMARK_VOTES : REMARK_NEWEST;
    if (!text || *sort == REMARK_VOTES || strcmp(text, "newest") == 0)
        return true;
    api_answer_bad(call->http, REQUEST_FAULT_OUT_OF_RANGE, "sort", "sort must be newest or votes");
    return false;
}

static bool read_place(const struct api_call *call, struct remark_place *place, size_t *rows_max,
                       int64_t *voter_id)
{
    const char *cursor = call->parameters[API_CURSOR];
    int64_t limit;

    *place = (struct remark_place){0};
    if (!read_number(call, API_ITEM_ID, 1, INT64_MAX, 0, &place->item_id) ||
        !read_number(call, API_PAGE_LIMIT, 1, REMARK_PAGE_ROWS_MAX, REMARK_PAGE_ROWS_DEFAULT,
                     &limit) ||
        !read_number(call, API_VOTER_ID, 1, INT64_MAX, 0, voter_id) ||
        !read_sort(call, &place->sort))
        return false;
    *rows_max = (size_t)limit;
    if (!cursor || remark_cursor_read(cursor, place->item_id, place->sort, place))
        return true;
    api_answer_bad(call->http, REQUEST_FAULT_OUT_OF_RANGE, "cursor",
                   "the cursor is not the `next` of a page of this itemId and sort");
    return false;
}

void api_get_remarks(const struct api_config *config, const struct api_call *api_call)
{
    struct remark_page *page;
    struct remark_place place;
    struct page_call *call;
    struct page_load *load;
    int64_t voter_id;
    size_t rows_max;

    if (!read_place(api_call, &place, &rows_max, &voter_id))
        return;
    call = api_pending_make(api_call->http, &page_kind, sizeof(*call));
    if (!call)
        return;
    call->waiter.done = on_loaded;
    call->config = config;
    call->place = place;
    call->rows_max = rows_max;
    call->voter_id = voter_id;
    switch (page_cache_find(config->pages, &place, rows_max, os_now_ms(), &call->waiter, &page,
                            &load)) {
    case PAGE_FRESH:
        metric_add(&serve_pages_kept, 1);
        continue_page(api_call->http, config, page, voter_id, false);
        api_pending_free(&call->pending);
        break;
    case PAGE_LOAD:
        call->load = load;
        load_page(call);
        break;
    case PAGE_WAIT:
        metric_add(&serve_pages_shared, 1);
        break;
    }
}
