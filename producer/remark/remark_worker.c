/* SPDX-License-Identifier: MIT */
#include "producer/remark/remark_worker.h"

#include "common/condition.h"
#include "common/log.h"
#include "producer/worker.h"

#include <inttypes.h>
#include <stdlib.h>

/* A page is read again when a roll-up began or ended meanwhile, which happens once in minutes. */
#define READS_MAX 4
#define LOG_AGAIN_MS 60000

struct remark_worker {
    struct remark_worker_config config;
    struct worker base;
    struct remark_request *request; /* NULL: none */
    unsigned losses;                /* attempts for this request that the database did not answer */
    struct reasons reasons;         /* why pages could not be read */
};

static enum rc add_row(void *ctx, const struct remark_row *row, struct err *err)
{
    return remark_page_add(ctx, row, err);
}

/* The two numbers are input: a person may have changed or restored the row of rollup_state. */
static enum rc check_windows(const struct remark_windows *seen, struct err *err)
{
    if (seen->started == seen->finished || seen->started == seen->finished + 1)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "rollup_state.started_window is %" PRId64 ", but finished_window is %" PRId64
                    ": lists by votes wait until tallybox rollup has ended a roll-up",
                    seen->started, seen->finished);
}

/* Chooses the view of the votes from what the last read saw. Returns whether the page must be read
 * again: false if that read had the right view, or if the cursor is too old (page->expired). */
static bool choose_view(struct remark_page *page, struct remark_query *query,
                        const struct remark_windows *seen)
{
    int64_t window = page->place.after ? page->place.window : seen->finished;
    bool as_of = seen->started > window;
    bool right = query->as_of ? query->window == window : !as_of;

    page->next.window = window;
    page->windows = *seen;
    if (!remark_window_is_kept(window, seen)) {
        remark_page_clear(page);
        page->expired = true;
        return false;
    }
    query->as_of = as_of;
    query->window = window;
    return !right;
}

static enum rc load_listed(const struct remark_store *store, struct remark_page *page,
                           struct err *err)
{
    int64_t ids[REMARK_PAGE_ROWS_MAX];

    for (size_t i = 0; i < page->listed_count; i++)
        ids[i] = page->rows[i].listed;
    remark_page_clear(page);
    return store->read_listed(store->ctx, page->place.item_id, ids, page->listed_count, add_row,
                              page, err);
}

enum rc remark_worker_load(const struct remark_store *store, struct remark_page *page,
                           struct err *err)
{
    struct remark_query query = {.place = page->place, .rows_max = page->rows_max + 1};

    if (page->place.sort == REMARK_RECOMMENDED)
        return load_listed(store, page, err);
    for (int reads = 0; reads < READS_MAX; reads++) {
        struct remark_windows seen = {0};
        enum rc rc;

        remark_page_clear(page);
        rc = store->read_page(store->ctx, &query, add_row, page, &seen, err);
        if (rc != RC_OK || page->place.sort == REMARK_NEWEST)
            return rc;
        rc = check_windows(&seen, err);
        if (rc != RC_OK || !choose_view(page, &query, &seen))
            return rc;
    }
    return err_fail(err, RC_REJECT, 0, "roll-ups begin and end faster than a page is read");
}

static void set_request(void *ctx, struct queue_entry **entries, size_t count)
{
    struct remark_worker *worker = ctx;

    worker->request = count > 0 ? (struct remark_request *)entries[0] : NULL;
    worker->losses = 0;
}

/* Votes are taken whatever is wrong with the sink: a fault that an operator must correct is waited
 * for, too. It does not end the process. */
static enum rc wait_for_operator(enum rc rc)
{
    return rc == RC_FATAL ? RC_RETRY : rc;
}

static enum rc insert_remark(struct remark_worker *worker, struct remark_write *write,
                             struct err *err)
{
    const struct remark_store *store = worker->config.store;
    int64_t item_id = write->values.numbers[REMARK_ITEM_ID];
    struct remark_insertion end = {0};
    bool without_id = write->id == 0;
    enum rc rc = store->insert(store->ctx, &write->values, &write->id, &end, err);

    if (rc == RC_RETRY && end.unknown && without_id) {
        write->end = REMARK_UNKNOWN;
        rc = RC_OK;
    } else if (end.deleted) {
        write->end = REMARK_DELETED;
    } else if (end.existed) {
        write->end = end.item_id == item_id ? REMARK_EXISTED : REMARK_TAKEN;
    } else {
        write->end = REMARK_WRITTEN;
    }
    page_cache_drop_item(worker->config.pages, item_id);
    return rc;
}

static enum rc update_remark(struct remark_worker *worker, struct remark_write *write,
                             struct err *err)
{
    const struct remark_store *store = worker->config.store;
    int64_t item_id = 0;
    bool found = false;
    enum rc rc = store->update(store->ctx, write->id, &write->values, &found, &item_id, err);

    write->end = found ? REMARK_WRITTEN : REMARK_NOT_FOUND;
    if (rc == RC_OK && found)
        page_cache_drop_item(worker->config.pages, item_id);
    return rc;
}

static enum rc write_request(struct remark_worker *worker, bool *finished, struct err *err)
{
    struct remark_write *write = worker->request->write;
    enum rc rc =
        write->update ? update_remark(worker, write, err) : insert_remark(worker, write, err);

    if (rc == RC_REJECT) {
        write->end = REMARK_REFUSED;
        write->err = *err;
        rc = RC_OK;
    }
    *finished = rc == RC_OK;
    return wait_for_operator(rc);
}

/* Whether the database answers, but not the query of this page: it takes longer than the time-out.
 * The first loss may be that of an idle connection. */
static bool is_slow_page(struct remark_worker *worker, const struct err *err)
{
    const struct remark_store *store = worker->config.store;
    struct err ping_err;

    if (store->collided(store->ctx, err) || ++worker->losses < 2)
        return false;
    return store->ping(store->ctx, &ping_err) == RC_OK;
}

/* Ends this request alone: no breaker opens, which would refuse all others. */
static void refuse_page(struct remark_worker *worker, const struct err *err)
{
    int64_t now_ms = worker->config.clock_ms();

    worker->request->not_read = true;
    worker->request->err = *err;
    remark_page_clear(worker->request->page);
    if (reasons_add(&worker->reasons, err->text, now_ms, LOG_AGAIN_MS))
        log_error(LOG_WARN, "page_not_read", err, "role=serve");
}

static enum rc attempt_request(void *ctx, bool *finished, struct err *err)
{
    struct remark_worker *worker = ctx;
    struct remark_page *page = worker->request->page;
    enum rc rc;

    if (!page)
        return write_request(worker, finished, err);

    page->loaded_ms = worker->config.clock_ms();
    rc = remark_worker_load(worker->config.store, page, err);
    if (rc == RC_OK)
        remark_page_trim(page);
    if (rc == RC_REJECT || (rc == RC_RETRY && is_slow_page(worker, err))) {
        refuse_page(worker, err);
        rc = RC_OK;
    }
    *finished = rc == RC_OK;
    return wait_for_operator(rc);
}

static enum rc ping_database(void *ctx, struct err *err)
{
    const struct remark_store *store = ((struct remark_worker *)ctx)->config.store;

    return wait_for_operator(store->ping(store->ctx, err));
}

static bool collided(void *ctx, const struct err *err)
{
    const struct remark_store *store = ((struct remark_worker *)ctx)->config.store;

    return store->collided(store->ctx, err);
}

static const struct worker_ops ops = {
    .set = set_request,
    .attempt = attempt_request,
    .ping = ping_database,
    .collided = collided,
};

enum rc remark_worker_open(struct remark_worker **out, const struct remark_worker_config *config,
                           struct err *err)
{
    struct remark_worker *worker = calloc(1, sizeof(*worker));
    const struct worker_config base = {
        .name = "remark worker",
        .queue = config->queue,
        .shard = config->shard,
        .entries_max = 1,
        .weight_max = REMARK_PAGE_ROWS_MAX,
        .ops = &ops,
        .ctx = worker,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    *out = NULL;
    if (!worker)
        return err_fail(err, RC_FATAL, 0, "no memory for a worker of remarks");
    worker->config = *config;
    rc = worker_init(&worker->base, &base, err);
    if (rc != RC_OK)
        free(worker);
    else
        *out = worker;
    return rc;
}

void remark_worker_close(struct remark_worker *worker)
{
    if (!worker)
        return;
    worker_done(&worker->base);
    free(worker);
}

int64_t remark_worker_step(void *arg, int64_t now_ms)
{
    return worker_step(&((struct remark_worker *)arg)->base, now_ms);
}
