/* SPDX-License-Identifier: MIT */
#include "producer/remark/lookup.h"

#include "producer/worker.h"

#include <stdlib.h>

struct looker {
    struct lookup_config config;
    struct worker worker;
    struct lookup_request *request; /* in hand, or NULL */
};

static void hand_set(void *ctx, struct queue_entry **entries, size_t count)
{
    struct looker *looker = ctx;

    looker->request = count > 0 ? (struct lookup_request *)entries[0] : NULL;
}

static enum rc hand_attempt(void *ctx, bool *finished, struct err *err)
{
    struct looker *looker = ctx;
    const struct lookup_store *store = looker->config.store;
    struct lookup_request *request = looker->request;
    enum rc rc = store->read(store->ctx, request->voter_id, request->rows, request->count, err);

    *finished = rc == RC_OK;
    return rc;
}

static void hand_finished(void *ctx)
{
    (void)ctx;
}

static enum rc database_ping(void *ctx, struct err *err)
{
    const struct lookup_store *store = ((struct looker *)ctx)->config.store;

    return store->ping(store->ctx, err);
}

/* A plain read locks nothing. */
static bool database_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    (void)err;
    return false;
}

static const struct worker_ops ops = {
    .set = hand_set,
    .attempt = hand_attempt,
    .finished = hand_finished,
    .ping = database_ping,
    .collided = database_collided,
};

enum rc looker_open(struct looker **out, const struct lookup_config *config, struct err *err)
{
    struct looker *looker = calloc(1, sizeof(*looker));
    struct worker_config worker = {
        .name = "looker",
        .queue = config->queue,
        .shard = config->shard,
        .entries_max = 1,
        .weight_max = LOOKUP_REQUEST_CONTENTS_MAX,
        .ops = &ops,
        .ctx = looker,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    *out = NULL;
    if (!looker)
        return err_fail(err, RC_FATAL, 0, "no memory for a reader of totals");
    looker->config = *config;
    rc = worker_init(&looker->worker, &worker, err);
    if (rc != RC_OK)
        free(looker);
    else
        *out = looker;
    return rc;
}

void looker_close(struct looker *looker)
{
    if (!looker)
        return;
    worker_done(&looker->worker);
    free(looker);
}

int64_t looker_step(void *arg, int64_t now_ms)
{
    struct looker *looker = arg;

    return worker_step(&looker->worker, now_ms);
}
