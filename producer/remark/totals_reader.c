/* SPDX-License-Identifier: MIT */
#include "producer/remark/totals_reader.h"

#include "producer/worker.h"

#include <assert.h>
#include <stdlib.h>

/* Requests in one read: a statement has a part for each voter, which the server plans by itself. */
#define READ_REQUESTS_MAX 16

struct totals_reader {
    struct totals_reader_config config;
    struct worker worker;
    struct totals_request *requests[READ_REQUESTS_MAX]; /* of the next read */
    size_t count;
    struct totals_row *rows[TOTALS_READ_ROWS_MAX]; /* of all these requests */
};

static void set_request(void *ctx, struct queue_entry **entries, size_t count)
{
    struct totals_reader *reader = ctx;

    reader->count = count;
    for (size_t i = 0; i < count; i++)
        reader->requests[i] = (struct totals_request *)entries[i];
}

static size_t gather_rows(struct totals_reader *reader)
{
    int64_t now_ms = reader->config.clock_ms();
    size_t count = 0;

    for (size_t i = 0; i < reader->count; i++) {
        struct totals_request *request = reader->requests[i];

        assert(count + request->count <= TOTALS_READ_ROWS_MAX);
        request->read_ms = now_ms;
        for (size_t k = 0; k < request->count; k++) {
            request->rows[k].voter_id = request->voter_id;
            reader->rows[count++] = &request->rows[k];
        }
    }
    return count;
}

static enum rc read_requests(void *ctx, bool *finished, struct err *err)
{
    struct totals_reader *reader = ctx;
    const struct totals_store *store = reader->config.store;
    enum rc rc = store->read(store->ctx, reader->rows, gather_rows(reader), err);

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
    .attempt = read_requests,
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
        .entries_max = READ_REQUESTS_MAX,
        .weight_max = TOTALS_READ_ROWS_MAX,
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
