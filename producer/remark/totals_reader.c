/* SPDX-License-Identifier: MIT */
#include "producer/remark/totals_reader.h"

#include "producer/worker.h"

#include <stdlib.h>

struct totals_reader {
    struct totals_reader_config config;
    struct worker worker;
    struct totals_request *request; /* NULL: none */
};

static void set_request(void *ctx, struct queue_entry **entries, size_t count)
{
    struct totals_reader *reader = ctx;

    reader->request = count > 0 ? (struct totals_request *)entries[0] : NULL;
}

static enum rc read_request(void *ctx, bool *finished, struct err *err)
{
    struct totals_reader *reader = ctx;
    const struct totals_store *store = reader->config.store;
    struct totals_request *request = reader->request;
    enum rc rc;

    request->read_ms = reader->config.clock_ms();
    rc = store->read(store->ctx, request->voter_id, request->rows, request->count, err);
    *finished = rc == RC_OK;
    return rc;
}

static enum rc ping_database(void *ctx, struct err *err)
{
    const struct totals_store *store = ((struct totals_reader *)ctx)->config.store;

    return store->ping(store->ctx, err);
}

/* A read without locks collides with no other transaction. */
static const struct worker_ops ops = {
    .set = set_request,
    .attempt = read_request,
    .ping = ping_database,
};

enum rc totals_reader_open(struct totals_reader **out, const struct totals_reader_config *config,
                           struct err *err)
{
    struct totals_reader *reader = calloc(1, sizeof(*reader));
    struct worker_config worker = {
        .name = "totals_reader",
        .queue = config->queue,
        .shard = config->shard,
        .entries_max = 1,
        .weight_max = TOTALS_REQUEST_CONTENTS_MAX,
        .ops = &ops,
        .ctx = reader,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    *out = NULL;
    if (!reader)
        return err_fail(err, RC_FATAL, 0, "no memory for a reader of totals");
    reader->config = *config;
    rc = worker_init(&reader->worker, &worker, err);
    if (rc != RC_OK)
        free(reader);
    else
        *out = reader;
    return rc;
}

void totals_reader_close(struct totals_reader *reader)
{
    if (!reader)
        return;
    worker_done(&reader->worker);
    free(reader);
}

int64_t totals_reader_step(void *arg, int64_t now_ms)
{
    return worker_step(&((struct totals_reader *)arg)->worker, now_ms);
}
