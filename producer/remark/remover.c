/* SPDX-License-Identifier: MIT */
#include "producer/remark/remover.h"

#include "common/backoff.h"
#include "common/condition.h"
#include "producer/serve_metrics.h"
#include "producer/worker.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 1000    /* between two searches that found nothing */
#define OLDEST_MS 10000 /* between two measurements for the metric */
#define PAUSE_MS 5      /* between two statements, so that other work gets the server, too */
#define FAIL_BASE_MS 500
#define FAIL_CAP_MS 30000
/* A tombstone that is under way is waited for in growing steps. */
#define WAIT_MS_MIN 200
#define WAIT_MS_MAX 60000

/* The next step of the removal that is claimed. */
enum stage {
    STAGE_CLAIM,
    STAGE_CLOSE,
    STAGE_STATES,
    STAGE_COUNT,
    STAGE_TALLY,
    STAGE_LASTS,
    STAGE_FINISH
};

struct remover {
    struct remover_config config;
    struct worker worker;
    struct removal_request *request; /* NULL: none */
    bool votes_asked; /* by the request or ping that is under way: the sink has worked */
    enum stage stage;
    struct removal removal; /* that is claimed, unless the stage is STAGE_CLAIM */
    enum removal_kind kind; /* of the last claim */
    int64_t claimed_ms;
    int64_t next_ms;    /* the next step is not earlier */
    int64_t oldest_ms;  /* the next measurement */
    int64_t refused_ms; /* until then the last refusal is reported */
    bool failed;        /* the last step */
    struct backoff failures;
    struct condition waits;
};

static void set_request(void *ctx, struct queue_entry **entries, size_t count)
{
    struct remover *remover = ctx;

    remover->request = count > 0 ? (struct removal_request *)entries[0] : NULL;
}

/* A remark that was removed whole has left only the mark of its content: the request that is sent
 * again gets the same answer. */
static enum rc find_removed(struct remover *remover, int64_t id, bool *found, struct err *err)
{
    const struct vote_store *votes = remover->config.close.store;
    struct vote_count_row count = {.content_id = id};
    enum rc rc = votes->read_deleted(votes->ctx, &count, 1, err);

    *found = count.deleted;
    return rc;
}

static enum rc delete_remark(struct remover *remover, struct removal_request *request,
                             struct err *err)
{
    const struct removal_store *store = remover->config.store;
    int64_t item_id = 0;
    bool found = false;
    bool now;
    enum rc rc = store->mark(store->ctx, request->id, &found, &item_id, err);

    remover->votes_asked = rc == RC_OK;
    if (rc == RC_OK && found && remover->config.pages)
        page_cache_drop_item(remover->config.pages, item_id);
    if (rc == RC_OK && found)
        rc = close_content(&remover->config.close, request->id, &now, err);
    else if (rc == RC_OK)
        rc = find_removed(remover, request->id, &found, err);
    request->end = found ? REMOVAL_DONE : REMOVAL_NOT_FOUND;
    return rc;
}

/* Votes are taken whatever is wrong with the sink: a fault that an operator must correct is waited
 * for, too. It does not end the process. */
static enum rc wait_for_operator(enum rc rc)
{
    return rc == RC_FATAL ? RC_RETRY : rc;
}

static enum rc attempt_request(void *ctx, bool *finished, struct err *err)
{
    struct remover *remover = ctx;
    struct removal_request *request = remover->request;
    enum rc rc = delete_remark(remover, request, err);

    if (rc == RC_REJECT) {
        request->end = REMOVAL_REFUSED;
        request->err = *err;
        rc = RC_OK;
    }
    *finished = rc == RC_OK;
    remover->next_ms = 0;
    return wait_for_operator(rc);
}

static enum rc ping_database(void *ctx, struct err *err)
{
    struct remover *remover = ctx;
    const struct removal_store *store = remover->config.store;
    const struct vote_store *votes = remover->config.close.store;
    enum rc rc = store->ping(store->ctx, err);

    remover->votes_asked = rc == RC_OK;
    return wait_for_operator(rc == RC_OK ? votes->ping(votes->ctx, err) : rc);
}

static bool votes_failed(void *ctx)
{
    return ((const struct remover *)ctx)->votes_asked;
}

static bool has_collided(void *ctx, const struct err *err)
{
    const struct removal_store *store = ((struct remover *)ctx)->config.store;

    return store->collided(store->ctx, err);
}

static const struct worker_ops ops = {
    .set = set_request,
    .attempt = attempt_request,
    .ping = ping_database,
    .collided = has_collided,
    .more_failed = votes_failed,
};

static enum rc measure_oldest(struct remover *remover, int64_t now_ms, struct err *err)
{
    int64_t oldest_ms = 0;

    if (now_ms < remover->oldest_ms)
        return RC_OK;
    for (size_t kind = 0; kind < REMOVAL_KINDS; kind++) {
        const struct removal_marks *marks = remover->config.marks[kind];
        int64_t age_ms = 0;
        enum rc rc = marks ? marks->oldest(marks->ctx, &age_ms, err) : RC_OK;

        if (rc != RC_OK)
            return rc;
        oldest_ms = age_ms > oldest_ms ? age_ms : oldest_ms;
    }
    remover->oldest_ms = now_ms + OLDEST_MS;
    metric_set(&serve_removal_oldest_age, oldest_ms / 1000);
    return RC_OK;
}

/* The kinds take turns, so that many removals of one kind do not delay the other. */
static enum rc claim_content(struct remover *remover, int64_t now_ms, int64_t *wait_ms,
                             struct err *err)
{
    bool found = false;
    enum rc rc = measure_oldest(remover, now_ms, err);

    for (size_t i = 0; rc == RC_OK && !found && i < REMOVAL_KINDS; i++) {
        const struct removal_marks *marks;

        remover->kind = (remover->kind + 1) % REMOVAL_KINDS;
        marks = remover->config.marks[remover->kind];
        if (marks)
            rc = marks->claim(marks->ctx, REMOVER_CLAIM_MS, &remover->removal, &found, err);
    }
    if (rc != RC_OK)
        return rc;
    *wait_ms = found ? 0 : LOOK_MS;
    remover->claimed_ms = now_ms;
    remover->stage = found ? STAGE_CLOSE : STAGE_CLAIM;
    return RC_OK;
}

static enum rc put_off(struct remover *remover, int64_t wait_ms, struct err *err)
{
    const struct removal_marks *marks = remover->config.marks[remover->kind];

    return marks->put_off(marks->ctx, remover->removal.content_id, wait_ms, err);
}

/* A removal of many rows takes longer than the claim. */
static enum rc keep_claim(struct remover *remover, int64_t now_ms, struct err *err)
{
    enum rc rc;

    if (now_ms - remover->claimed_ms < REMOVER_CLAIM_MS / 2)
        return RC_OK;
    rc = put_off(remover, REMOVER_CLAIM_MS, err);
    if (rc == RC_OK)
        remover->claimed_ms = now_ms;
    return rc;
}

static void end_stage(struct remover *remover, bool ended)
{
    static const enum stage next[] = {
        [STAGE_CLOSE] = STAGE_STATES, [STAGE_STATES] = STAGE_COUNT, [STAGE_COUNT] = STAGE_TALLY,
        [STAGE_TALLY] = STAGE_LASTS,  [STAGE_LASTS] = STAGE_FINISH, [STAGE_FINISH] = STAGE_CLAIM,
    };

    if (ended)
        remover->stage = next[remover->stage];
}

/* The consumer may be far behind, and its votes before the tombstone still use vote_last. */
static enum rc await_tally(struct remover *remover, struct err *err)
{
    const struct removal_store *store = remover->config.store;
    int64_t wait_ms = remover->removal.age_ms / 4;
    bool ended = false;
    enum rc rc = store->is_ended(store->ctx, remover->removal.content_id, &ended, err);

    end_stage(remover, rc == RC_OK && ended);
    if (rc != RC_OK || ended)
        return rc;
    wait_ms = wait_ms < WAIT_MS_MIN ? WAIT_MS_MIN : wait_ms;
    wait_ms = wait_ms > WAIT_MS_MAX ? WAIT_MS_MAX : wait_ms;
    rc = put_off(remover, wait_ms, err);
    if (rc == RC_OK)
        remover->stage = STAGE_CLAIM;
    return rc;
}

static enum rc remove_rows(struct remover *remover, struct err *err)
{
    const struct removal_store *store = remover->config.store;
    const struct removal_marks *marks = remover->config.marks[remover->kind];
    const struct vote_store *votes = remover->config.close.store;
    int64_t id = remover->removal.content_id;
    size_t count = 0;
    bool now;
    enum rc rc = RC_OK;

    assert(remover->stage != STAGE_CLAIM && remover->stage != STAGE_TALLY);
    switch (remover->stage) {
    case STAGE_CLOSE:
        rc = close_content(&remover->config.close, id, &now, err);
        break;
    case STAGE_STATES:
        rc = votes->delete_states(votes->ctx, id, REMOVER_BATCH_ROWS, &count, err);
        break;
    case STAGE_COUNT:
        rc = votes->delete_count(votes->ctx, id, err);
        break;
    case STAGE_LASTS:
        rc = store->delete_lasts(store->ctx, id, REMOVER_BATCH_ROWS, &count, err);
        break;
    case STAGE_FINISH:
        rc = marks->finish(marks->ctx, id, err);
        if (rc == RC_OK)
            metric_add(&serve_removals, 1);
        break;
    case STAGE_CLAIM:
    case STAGE_TALLY:
        break;
    }
    end_stage(remover, rc == RC_OK && count < REMOVER_BATCH_ROWS);
    return rc;
}

static enum rc run_stage(struct remover *remover, int64_t now_ms, struct err *err)
{
    enum rc rc = keep_claim(remover, now_ms, err);

    if (rc != RC_OK)
        return rc;
    return remover->stage == STAGE_TALLY ? await_tally(remover, err) : remove_rows(remover, err);
}

/* A content that a database refuses to remove does not delay the others: it is claimed again when
 * the claim has passed. */
static void leave_refused(struct remover *remover, int64_t now_ms, struct err *err)
{
    if (remover->stage != STAGE_CLAIM)
        err_wrap(err, "%s %" PRId64 " is not removed",
                 remover->kind == REMOVAL_REMARKS ? "remark" : "content",
                 remover->removal.content_id);
    remover->stage = STAGE_CLAIM;
    remover->refused_ms = now_ms + INT64_C(2) * REMOVER_CLAIM_MS;
}

enum rc remover_open(struct remover **out, const struct remover_config *config, struct err *err)
{
    struct remover *remover = calloc(1, sizeof(*remover));
    const struct worker_config worker = {
        .name = "remover",
        .queue = config->queue,
        .shard = 0,
        .entries_max = 1,
        .weight_max = 1,
        .ops = &ops,
        .ctx = remover,
        .rng = config->rng,
        .stop = config->stop,
    };
    enum rc rc;

    *out = NULL;
    if (!remover)
        return err_fail(err, RC_FATAL, 0, "no memory for the removal of remarks");
    remover->config = *config;
    remover->failures.base_ms = FAIL_BASE_MS;
    remover->failures.cap_ms = FAIL_CAP_MS;
    rc = worker_init(&remover->worker, &worker, err);
    if (rc != RC_OK) {
        free(remover);
        return rc;
    }
    condition_init(&remover->waits, CONDITION_WORK, "what=removals role=serve");
    *out = remover;
    return RC_OK;
}

void remover_close(struct remover *remover)
{
    if (!remover)
        return;
    worker_done(&remover->worker);
    condition_done(&remover->waits);
    free(remover);
}

int64_t remover_step_removal(struct remover *remover, int64_t now_ms)
{
    struct err err = {0};
    int64_t wait_ms = PAUSE_MS;
    enum rc rc;

    if (now_ms < remover->next_ms)
        return remover->next_ms - now_ms;
    if (remover->stage == STAGE_CLAIM)
        rc = claim_content(remover, now_ms, &wait_ms, &err);
    else
        rc = run_stage(remover, now_ms, &err);
    if (rc == RC_OK) {
        backoff_reset(&remover->failures);
        if (now_ms >= remover->refused_ms)
            condition_ok(&remover->waits, now_ms);
    } else if (rc != RC_RETRY || remover->failed) {
        if (rc == RC_REJECT)
            leave_refused(remover, now_ms, &err);
        condition_fail(&remover->waits, now_ms, &err);
        wait_ms = backoff_next_ms(&remover->failures, remover->config.rng());
    } /* else: a collision, or the connection was lost; the second attempt tells */
    remover->failed = rc != RC_OK;
    remover->next_ms = now_ms + wait_ms;
    return wait_ms;
}

int64_t remover_step(void *arg, int64_t now_ms)
{
    struct remover *remover = arg;
    int64_t request_ms = worker_step(&remover->worker, now_ms);
    int64_t removal_ms;

    if (request_ms < 0)
        return request_ms;
    removal_ms = remover_step_removal(remover, now_ms);
    return request_ms < removal_ms ? request_ms : removal_ms;
}

bool remover_waits(struct remover *remover, struct err *err)
{
    return condition_read(&remover->waits, err);
}
