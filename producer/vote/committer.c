/* SPDX-License-Identifier: MIT */
#include "producer/vote/committer.h"

#include "producer/serve_metrics.h"
#include "producer/vote/vote.h"
#include "producer/worker.h"

#include <assert.h>
#include <stdlib.h>

struct committer {
    struct committer_config config;
    struct worker worker;
    struct vote_engine *engine;
    struct vote_item **items; /* of the requests: those without an outcome */
    size_t items_max;
    struct queue_entry **entries; /* the requests */
    size_t entry_count;
    struct vote_batch batch;
};

/* Items keep their state between the calls: done items stay done, and an item whose COMMIT was lost
 * keeps the number of that transaction. */
static void set_requests(void *ctx, struct queue_entry **entries, size_t count)
{
    struct committer *committer = ctx;
    size_t open = 0;

    committer->entries = entries;
    committer->entry_count = count;
    for (size_t i = 0; i < count; i++) {
        struct committer_request *request = (struct committer_request *)entries[i];

        for (size_t n = 0; n < request->count; n++) {
            if (request->items[n].outcome == VOTE_OPEN) {
                assert(open < committer->items_max);
                committer->items[open++] = &request->items[n];
            }
        }
    }
    if (open > 0)
        vote_batch_start(&committer->batch, committer->items, open);
    else
        committer->batch = (struct vote_batch){0};
}

static enum rc try_commit(void *ctx, bool *finished, struct err *err)
{
    struct committer *committer = ctx;
    int64_t start_us = committer->config.clock_us();
    enum rc rc = RC_OK;

    if (!vote_batch_finished(&committer->batch))
        rc = vote_engine_step(committer->engine, &committer->batch, err);
    if (rc == RC_OK)
        metric_observe_us(&serve_commit_seconds, committer->config.clock_us() - start_us);
    *finished = vote_batch_finished(&committer->batch);
    return rc;
}

static void count_outcomes(void *ctx)
{
    struct committer *committer = ctx;
    int64_t changed = 0;
    int64_t unchanged = 0;
    int64_t refused = 0;
    int64_t deleted = 0;

    for (size_t i = 0; i < committer->entry_count; i++) {
        const struct committer_request *request =
            (const struct committer_request *)committer->entries[i];

        for (size_t n = 0; n < request->count; n++) {
            const struct vote_item *item = &request->items[n];

            refused += item->outcome == VOTE_REFUSED;
            deleted += item->outcome == VOTE_DELETED;
            changed += item->outcome == VOTE_DONE && item->changed;
            unchanged += item->outcome == VOTE_DONE && !item->changed;
        }
    }
    metric_add(&serve_votes_changed, changed);
    metric_add(&serve_votes_unchanged, unchanged);
    metric_add(&serve_votes_deleted, deleted);
    metric_add(&serve_votes_failed, refused);
}

static enum rc ping_database(void *ctx, struct err *err)
{
    const struct vote_store *store = ((struct committer *)ctx)->config.store;

    return store->ping(store->ctx, err);
}

static bool has_collided(void *ctx, const struct err *err)
{
    const struct vote_store *store = ((struct committer *)ctx)->config.store;

    return store->collided(store->ctx, err);
}

static const struct worker_ops ops = {
    .set = set_requests,
    .attempt = try_commit,
    .finished = count_outcomes,
    .ping = ping_database,
    .collided = has_collided,
};

static enum rc open_parts(struct committer *committer, struct err *err)
{
    const struct committer_config *config = &committer->config;
    struct vote_engine_config engine = {
        .store = config->store,
        .items_max = committer->items_max,
        .lane_count = config->lane_count,
        .rng_bytes = config->rng_bytes,
    };
    struct worker_config worker = {
        .name = "committer",
        .queue = config->queue,
        .shard = config->shard,
        .entries_max = committer->items_max,
        .weight_max = config->batch_votes_max,
        .ops = &ops,
        .ctx = committer,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    committer->items = calloc(committer->items_max, sizeof(struct vote_item *));
    if (!committer->items)
        return err_fail(err, RC_FATAL, 0, "no memory for a committer");
    rc = vote_engine_open(&committer->engine, &engine, err);
    return rc == RC_OK ? worker_init(&committer->worker, &worker, err) : rc;
}

enum rc committer_open(struct committer **out, const struct committer_config *config,
                       struct err *err)
{
    struct committer *committer = calloc(1, sizeof(*committer));
    enum rc rc;

    *out = NULL;
    if (!committer)
        return err_fail(err, RC_FATAL, 0, "no memory for a committer");
    committer->config = *config;
    committer->items_max = config->batch_votes_max > COMMITTER_REQUEST_VOTES_MAX
                               ? config->batch_votes_max
                               : COMMITTER_REQUEST_VOTES_MAX;
    rc = open_parts(committer, err);
    if (rc != RC_OK)
        committer_close(committer);
    else
        *out = committer;
    return rc;
}

void committer_close(struct committer *committer)
{
    if (!committer)
        return;
    if (committer->worker.batch)
        worker_done(&committer->worker);
    vote_engine_close(committer->engine);
    free(committer->items);
    free(committer);
}

int64_t committer_step(void *arg, int64_t now_ms)
{
    struct committer *committer = arg;

    return worker_step(&committer->worker, now_ms);
}

/* The finalizer of MurmurHash3, so that consecutive ids spread over the shards. */
static uint64_t mix_content(uint64_t value)
{
    value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
    value = (value ^ value >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

size_t committer_shard_of(const struct vote_item *items, size_t count, size_t shard_count)
{
    for (size_t i = 1; i < count; i++) {
        if (items[i].content_id != items[0].content_id)
            return SIZE_MAX;
    }
    return (size_t)(mix_content((uint64_t)items[0].content_id) % shard_count);
}
