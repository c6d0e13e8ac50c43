/* SPDX-License-Identifier: MIT */
#include "producer/remark/remark_reader.h"

#include "producer/worker.h"

#include <assert.h>
#include <stdlib.h>

/* A page is read again when a roll-up began or ended meanwhile, which happens once in minutes. */
#define READS_MAX 4

struct remark_reader {
    struct remark_reader_config config;
    struct worker worker;
    struct remark_request *request; /* NULL: none */
};

static enum rc add_row(void *ctx, const struct remark_row *row, struct err *err)
{
    return remark_page_add(ctx, row, err);
}

/* Chooses the view of the votes from what the last read saw. False: that read had the right view,
 * or the cursor is too old, and page->expired tells which. */
static bool choose_view(struct remark_page *page, struct remark_query *query,
                        const struct remark_windows *seen)
{
    bool at_work = seen->started > seen->finished;
    int64_t window = page->place.after ? page->place.window : seen->finished;
    bool as_of = seen->started > window;
    bool right = query->as_of ? query->window == window : !as_of;

    assert(seen->started == seen->finished || seen->started == seen->finished + 1);
    page->next.window = window;
    if (window != seen->finished && (at_work || window != seen->finished - 1)) {
        remark_page_clear(page);
        page->expired = true;
        return false;
    }
    query->as_of = as_of;
    query->window = window;
    return !right;
}

enum rc remark_reader_load(const struct remark_store *store, struct remark_page *page,
                           struct err *err)
{
    struct remark_query query = {.place = page->place, .rows_max = page->rows_max + 1};

    for (int reads = 0; reads < READS_MAX; reads++) {
        struct remark_windows seen = {0};
        enum rc rc;

        remark_page_clear(page);
        rc = store->read_page(store->ctx, &query, add_row, page, &seen, err);
        if (rc != RC_OK)
            return rc;
        if (page->place.sort == REMARK_NEWEST || !choose_view(page, &query, &seen))
            return RC_OK;
    }
    return err_fail(err, RC_RETRY, 0, "roll-ups begin and end faster than a page is read");
}

static void set_request(void *ctx, struct queue_entry **entries, size_t count)
{
    struct remark_reader *reader = ctx;

    reader->request = count > 0 ? (struct remark_request *)entries[0] : NULL;
}

static enum rc read_request(void *ctx, bool *finished, struct err *err)
{
    struct remark_reader *reader = ctx;
    struct remark_page *page = reader->request->page;
    enum rc rc;

    page->loaded_ms = reader->config.clock_ms();
    rc = remark_reader_load(reader->config.store, page, err);
    *finished = rc == RC_OK;
    return rc;
}

static enum rc ping_database(void *ctx, struct err *err)
{
    const struct remark_store *store = ((struct remark_reader *)ctx)->config.store;

    return store->ping(store->ctx, err);
}

/* A read without locks collides with no other transaction. */
static const struct worker_ops ops = {
    .set = set_request,
    .attempt = read_request,
    .ping = ping_database,
};

enum rc remark_reader_open(struct remark_reader **out, const struct remark_reader_config *config,
                           struct err *err)
{
    struct remark_reader *reader = calloc(1, sizeof(*reader));
    struct worker_config worker = {
        .name = "remark reader",
        .queue = config->queue,
        .shard = config->shard,
        .entries_max = 1,
        .weight_max = REMARK_PAGE_ROWS_MAX,
        .ops = &ops,
        .ctx = reader,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    *out = NULL;
    if (!reader)
        return err_fail(err, RC_FATAL, 0, "no memory for a reader of remarks");
    reader->config = *config;
    rc = worker_init(&reader->worker, &worker, err);
    if (rc != RC_OK)
        free(reader);
    else
        *out = reader;
    return rc;
}

void remark_reader_close(struct remark_reader *reader)
{
    if (!reader)
        return;
    worker_done(&reader->worker);
    free(reader);
}

int64_t remark_reader_step(void *arg, int64_t now_ms)
{
    return worker_step(&((struct remark_reader *)arg)->worker, now_ms);
}
