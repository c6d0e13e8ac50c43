/* SPDX-License-Identifier: MIT */
#include "outbox/relay/diverter.h"

#include "common/hash.h"
#include "common/log.h"
#include "outbox/relay/exact/takeover.h"

#include <inttypes.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* Each key is queried at this interval. If the keys need several queries, these are sent in shorter
 * intervals, down to QUERY_MS_MIN. */
#define QUERY_MS 250
#define QUERY_MS_MIN 10

/* Wait before the keys are loaded again after there were too many. */
#define TOO_MANY_MS 1000

void diverter_init(struct diverter *diverter, struct lane *lane, const struct diverter_ops *ops,
                   uint64_t seed)
{
    memset(diverter, 0, sizeof(*diverter));
    diverter->lane = lane;
    diverter->ops = *ops;
    diverter->rng = seed;
    diverter->rows_max = DIVERTER_ROWS_MAX;
    diverter->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
}

static int64_t record_failure(struct diverter *diverter, int64_t now_ms, const struct err *err)
{
    int64_t wait_ms = backoff_next_ms(&diverter->backoff, rng_next(&diverter->rng));

    condition_fail(&diverter->lane->diverting, now_ms, err);
    diverter->wait_until_ms = now_ms + wait_ms;
    return wait_ms;
}

static void record_success(struct diverter *diverter, int64_t now_ms)
{
    condition_ok(&diverter->lane->diverting, now_ms);
    backoff_reset(&diverter->backoff);
}

/* The answer to the COMMIT of a move may be lost, so its row may have a task. In a lane that
 * publishes exactly once no commit of this term must pass the row: with the next term the task is
 * not published, and the row is moved again. */
static void begin_new_term(struct lane *lane)
{
    size_t count = 0;

    if (!lane->takeover || atomic_load(&lane->diverted.epoch) == 0)
        return;
    diverted_keys_moves(&lane->diverted, 1, &count);
    if (count > 0)
        atomic_store(&lane->takeover->reload, true);
}

/* The lease is lost or ends. The next holder loads the diverted keys from the database and reads
 * the table from its first row, so rows that were not moved need nothing else. */
static int64_t abandon_moves(struct diverter *diverter, int64_t epoch, int64_t now_ms)
{
    begin_new_term(diverter->lane);
    diverted_keys_invalidate(&diverter->lane->diverted);
    record_success(diverter, now_ms);
    diverter->wait_until_ms = 0;
    lane_wake(diverter->lane, LANE_SENDER);
    return epoch == 0 ? lane_rest_ms(diverter->lane, now_ms) : LANE_WAIT_MS;
}

static enum rc load_key(void *ctx, const char *ordering_key, struct err *err)
{
    struct diverter *diverter = ctx;

    if (diverted_keys_load_key(&diverter->lane->diverted, ordering_key))
        return RC_OK;
    atomic_store(&diverter->lane->diverted.too_many, true);
    return err_fail(err, RC_REJECT, 0, "too many keys");
}

/* The previous holder of the lease cannot move rows any more, because its epoch has changed. So
 * after this load, only this process adds keys of the lane to the retry queue. Invariant R8: the
 * sender sends nothing before the keys are loaded (mutant keys-not-loaded). */
static int64_t load_diverted_keys(struct diverter *diverter, int64_t epoch, int64_t now_ms)
{
    struct diverted_keys *diverted = &diverter->lane->diverted;
    struct err err = {0};
    enum rc rc;

    if (!diverted_keys_load_begin(diverted)) {
        lane_wake(diverter->lane, LANE_SENDER);
        return LANE_WAIT_MS;
    }
    atomic_store(&diverted->too_many, false);
    rc = diverter->ops.load_keys(diverter->ops.ctx, diverted->count_max + 1, load_key, diverter,
                                 &err);
    if (rc == RC_OK)
        diverted_keys_load_end(diverted, epoch);
    lane_wake(diverter->lane, LANE_SENDER);
    if (atomic_load(&diverted->too_many)) {
        diverter->wait_until_ms = now_ms + TOO_MANY_MS;
        return TOO_MANY_MS;
    }
    if (rc != RC_OK)
        return record_failure(diverter, now_ms, &err);
    record_success(diverter, now_ms);
    return 0;
}

static int64_t move_rows(struct diverter *diverter, const struct relay_move *moves, size_t count,
                         int64_t epoch, int64_t now_ms)
{
    struct lane *lane = diverter->lane;
    struct err err = {0};
    bool fenced = false;
    enum rc rc = diverter->ops.move_rows(diverter->ops.ctx, moves, count, epoch, &fenced, &err);

    if (rc == RC_OK && fenced) {
        log_event(LOG_WARN, "diversions_abandoned", "lane=%s reason=fenced", lane->name);
        return abandon_moves(diverter, epoch, now_ms);
    }
    if (rc != RC_OK && atomic_load(&lane->lease.draining))
        return abandon_moves(diverter, epoch, now_ms);
    if (rc != RC_OK)
        return record_failure(diverter, now_ms, &err);
    record_success(diverter, now_ms);
    metric_add(&lane->metrics->moved, (int64_t)count);
    diverted_keys_moved(&lane->diverted, count);
    lane_wake(lane, LANE_SENDER);
    return 0;
}

static int64_t query_keys_left(struct diverter *diverter, int64_t now_ms)
{
    struct lane *lane = diverter->lane;
    struct err err = {0};
    bool rows_left = false;
    uint64_t moved_at_query;
    size_t count = diverted_keys_list_moved(&lane->diverted, &diverter->cursor, diverter->keys,
                                            DIVERTER_KEYS_MAX, &moved_at_query);
    size_t all = atomic_load(&lane->diverted.count);
    int64_t wait_ms = QUERY_MS;
    enum rc rc;

    if (count > 0 && all > count)
        wait_ms = QUERY_MS * (int64_t)count / (int64_t)all;
    if (wait_ms < QUERY_MS_MIN)
        wait_ms = QUERY_MS_MIN;
    diverter->query_at_ms = now_ms + wait_ms;
    if (count == 0)
        return wait_ms;
    rc = diverter->ops.keys_left(diverter->ops.ctx, diverter->keys, count, &err);
    if (rc != RC_OK)
        return record_failure(diverter, now_ms, &err);
    record_success(diverter, now_ms);
    for (size_t i = 0; i < count; i++) {
        if (!diverter->keys[i].left)
            rows_left =
                diverted_keys_release_key(&lane->diverted, diverter->keys[i].key, moved_at_query) ||
                rows_left;
    }
    if (rows_left)
        lane_request_full_scan(lane);
    lane_wake(lane, LANE_SENDER);
    return wait_ms;
}

int64_t diverter_step(struct diverter *diverter, int64_t epoch, int64_t now_ms)
{
    struct diverted_keys *diverted = &diverter->lane->diverted;
    int64_t known = atomic_load(&diverted->epoch);
    const struct relay_move *moves;
    size_t count;

    if (epoch == 0 || (known != 0 && known != epoch))
        return abandon_moves(diverter, epoch, now_ms);
    if (now_ms < diverter->wait_until_ms)
        return diverter->wait_until_ms - now_ms;
    if (known == 0)
        return load_diverted_keys(diverter, epoch, now_ms);
    moves = diverted_keys_moves(diverted, diverter->rows_max, &count);
    if (count > 0 && (now_ms < diverter->query_at_ms || diverter->query_at_ms == 0))
        return move_rows(diverter, moves, count, epoch, now_ms);
    if (atomic_load(&diverted->count) == 0)
        return lane_rest_ms(diverter->lane, now_ms);
    if (now_ms < diverter->query_at_ms)
        return diverter->query_at_ms - now_ms;
    return count > 0 ? (query_keys_left(diverter, now_ms), 0) : query_keys_left(diverter, now_ms);
}
