/* SPDX-License-Identifier: MIT */
#include "producer/http/api_page.h"

#include "common/id.h"
#include "common/os.h"
#include "producer/http/api_answer.h"
#include "producer/remark/page_cache.h"
#include "producer/remark/recommended.h"
#include "producer/remark/remark_page.h"
#include "producer/serve_metrics.h"

#include <stddef.h>
#include <string.h>

/* The first part: from the place of a page to the page. */
struct page_call {
    struct api_pending pending; /* first; the read of the page, if this call does it */
    struct page_waiter waiter;  /* for the read of another call */
    const struct api_config *config;
    struct api_page page; /* its list is held */
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
static bool answer_old_totals(struct api_pending *pending, const struct api_failure *failure)
{
    struct page_totals_call *call = (struct page_totals_call *)pending;
    const struct settings *settings = call->config->settings;
    struct totals_row rows[REMARK_PAGE_ROWS_MAX] = {0};
    struct remark_totals totals = {.stale = true};

    (void)failure;
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
        call->rows[i].content_id = page->rows[i].id;
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
        page_cache_stale(call->config->pages, &call->page.place, call->page.rows_max, os_now_ms());

    if (page)
        continue_page(call->pending.http, call->config, page, call->page.voter_id, true);
    return page != NULL;
}

static void on_loaded(struct page_waiter *waiter, struct remark_page *page, const void *why)
{
    struct page_call *call =
        (struct page_call *)((char *)waiter - offsetof(struct page_call, waiter));

    if (page)
        continue_page(call->pending.http, call->config, page, call->page.voter_id,
                      call->page.stale);
    else if (!continue_stale(call))
        api_answer_failure(call->pending.http, why, NULL);
    api_pending_free(&call->pending);
}

/* The database answers, but not this page. */
static void answer_not_read(struct page_call *call)
{
    const struct api_failure failure = {
        .verdict = QUEUE_TAKEN, .end = QUEUE_DONE, .err = &call->pending.request.remarks.err};
    struct page_load *load = call->load;

    call->load = NULL;
    page_cache_failed(call->config->pages, load, &failure);
    if (!continue_stale(call))
        api_answer_failure(call->pending.http, &failure, NULL);
}

static void answer_loaded(struct api_pending *pending)
{
    struct page_call *call = (struct page_call *)pending;
    struct remark_page *page = pending->request.remarks.page;
    struct page_load *load = call->load;

    if (pending->request.remarks.not_read) {
        answer_not_read(call);
        return;
    }
    call->load = NULL;
    page_cache_loaded(call->config->pages, load, page);
    remark_page_hold(page);
    continue_page(pending->http, call->config, page, call->page.voter_id, call->page.stale);
}

static bool answer_not_loaded(struct api_pending *pending, const struct api_failure *failure)
{
    struct page_call *call = (struct page_call *)pending;
    struct page_load *load = call->load;

    call->load = NULL;
    page_cache_failed(call->config->pages, load, failure);
    return continue_stale(call);
}

static void free_page_call(struct api_pending *pending)
{
    remark_page_release(pending->request.remarks.page);
    recommended_list_release(((struct page_call *)pending)->page.list);
}

static const struct api_pending_kind page_kind = {
    .answer = answer_loaded,
    .done = free_page_call,
    .stand_in = answer_not_loaded,
};

/* The remarks of the list from place.id on. */
static void set_list(struct remark_page *page, const struct recommended_list *list)
{
    size_t start = (size_t)page->place.id;
    size_t left = start < list->count ? list->count - start : 0;

    page->list = (struct remark_list){
        .count = list->count,
        .version = list->version,
        .window = list->window,
    };
    page->listed_count = left < page->rows_max ? left : page->rows_max;
    for (size_t i = 0; i < page->listed_count; i++)
        page->rows[i].listed = list->ids[list->count - left + i];
}

/* Reads the page, for this call and for the ones that wait for it. */
static void load_page(struct page_call *call)
{
    struct queue *queue = call->config->remarks;
    struct remark_page *page = remark_page_new(&call->page.place, call->page.rows_max);

    metric_add(&serve_pages_read, 1);
    if (!page) {
        const struct api_failure failure = {.verdict = QUEUE_TAKEN, .end = QUEUE_DONE};

        page_cache_failed(call->config->pages, call->load, &failure);
        api_answer_no_memory(call->pending.http);
        api_pending_free(&call->pending);
        return;
    }
    if (call->page.list)
        set_list(page, call->page.list);
    call->pending.request.remarks.page = page;
    call->pending.request.entry.weight = call->page.rows_max;
    api_pending_put(&call->pending, queue, queue_shard_least(queue));
}

/* Decimal digits, where id_parse_number() has no 0. */
static bool parse_number(const char *text, int64_t *number)
{
    size_t zeros = strspn(text, "0");

    if (zeros == 0 || text[zeros] != '\0')
        return id_parse_number(text, strlen(text), number);
    *number = 0;
    return true;
}

bool api_page_read_number(const struct api_call *call, enum api_parameter parameter, int64_t min,
                          int64_t max, int64_t missing, int64_t *number)
{
    const char *text = call->parameters[parameter];
    struct request_fault fault;

    *number = missing;
    if (!text || (parse_number(text, number) && *number >= min && *number <= max))
        return true;
    request_fault_set(&fault, REQUEST_FAULT_OUT_OF_RANGE, "%s must be a number, %lld to %lld",
                      api_parameter_name(parameter), (long long)min, (long long)max);
    request_fault_at(&fault, api_parameter_name(parameter));
    api_answer_fault(call->http, &fault, 0);
    return false;
}

/* A page without remarks needs no read. */
static void answer_empty(struct http_request *http, const struct api_page *wanted, bool building)
{
    const struct remark_totals totals = {.stale = wanted->stale};
    struct remark_page *page = remark_page_new(&wanted->place, 1);

    if (!page) {
        api_answer_no_memory(http);
        return;
    }
    page->list.building = building;
    if (wanted->list)
        set_list(page, wanted->list);
    answer_page(http, page, &totals);
    remark_page_release(page);
}

void api_page_answer(const struct api_config *config, struct http_request *http,
                     const struct api_page *wanted)
{
    bool listed = wanted->place.sort == REMARK_RECOMMENDED;
    struct remark_page *page;
    struct page_call *call;
    struct page_load *load;

    if (listed && (!wanted->list || wanted->place.id >= (int64_t)wanted->list->count)) {
        answer_empty(http, wanted, !wanted->list);
        return;
    }
    call = api_pending_make(http, &page_kind, sizeof(*call));
    if (!call)
        return;
    call->waiter.done = on_loaded;
    call->config = config;
    call->page = *wanted;
    if (wanted->list)
        recommended_list_hold(wanted->list);
    switch (page_cache_find(config->pages, &wanted->place, wanted->rows_max, os_now_ms(),
                            &call->waiter, &page, &load)) {
    case PAGE_FRESH:
        metric_add(&serve_pages_kept, 1);
        continue_page(http, config, page, wanted->voter_id, wanted->stale);
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
