/* SPDX-License-Identifier: MIT */
#include "outbox/relay/diverter.h"

#include "common/hash.h"
#include "common/log.h"

#include <inttypes.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* Every key is asked about so often. */
#define ASK_MS 250
#define ASK_MS_MIN 10

/* Too many keys to know them all: looked at again after this. */
#define TOO_MANY_MS 1000

void diverter_init(struct diverter *diverter, struct lane *lane, const struct deleter_ops *ops,
                   uint64_t seed)
{
    memset(diverter, 0, sizeof(*diverter));
    diverter->lane = lane;
    diverter->ops = *ops;
    diverter->rng = seed;
    diverter->rows_max = DIVERTER_ROWS_MAX;
    diverter->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
}

static int64_t failed(struct diverter *diverter, int64_t now_ms, const struct err *err)
{
    int64_t wait_ms = backoff_next_ms(&diverter->backoff, rng_next(&diverter->rng));

    condition_fail(&diverter->lane->diverting, now_ms, err);
    diverter->wait_until_ms = now_ms + wait_ms;
    return wait_ms;
}

static void worked(struct diverter *diverter, int64_t now_ms)
{
    condition_ok(&diverter->lane->diverting, now_ms);
    backoff_reset(&diverter->backoff);
}

/* Without the lease, or when it ends: whoever has it next begins with the keys as the database has
 * them and with the first row of the table. */
static int64_t give_up(struct diverter *diverter, int64_t now_ms)
{
    diverted_keys_void(&diverter->lane->diverted);
    worked(diverter, now_ms);
    diverter->wait_until_ms = 0;
    lane_wake(diverter->lane, LANE_SENDER);
    return LANE_WAIT_MS;
}

static enum rc on_key(void *ctx, const char *ordering_key, struct err *err)
{
    struct diverter *diverter = ctx;

    if (diverted_keys_put(&diverter->lane->diverted, ordering_key))
        return RC_OK;
    atomic_store(&diverter->lane->diverted.too_many, true);
    return err_fail(err, RC_REJECT, 0, "too many keys");
}

/* The lease was taken, so whoever had it before moves nothing any more: what is in the retry queue
 * now only gets less, but by our own doing. */
static int64_t load(struct diverter *diverter, int64_t epoch, int64_t now_ms)
{
    struct diverted_keys *diverted = &diverter->lane->diverted;
    struct err err = {0};
    enum rc rc;

    if (!diverted_keys_load_begin(diverted)) {
        lane_wake(diverter->lane, LANE_SENDER);
        return LANE_WAIT_MS;
    }
    atomic_store(&diverted->too_many, false);
    rc =
        diverter->ops.load_keys(diverter->ops.ctx, diverted->count_max + 1, on_key, diverter, &err);
    lane_wake(diverter->lane, LANE_SENDER);
    if (atomic_load(&diverted->too_many)) {
        diverter->wait_until_ms = now_ms + TOO_MANY_MS;
        return TOO_MANY_MS;
    }
    if (rc != RC_OK)
        return failed(diverter, now_ms, &err);
    worked(diverter, now_ms);
    diverted_keys_load_end(diverted, epoch);
    return 0;
}

static int64_t move(struct diverter *diverter, const struct relay_move *moves, size_t count,
                    int64_t epoch, int64_t now_ms)
{
    struct lane *lane = diverter->lane;
    struct err err = {0};
    bool fenced = false;
    enum rc rc = diverter->ops.move_rows(diverter->ops.ctx, moves, count, epoch, &fenced, &err);

    if (rc == RC_OK && fenced) {
        log_event(LOG_WARN, "diversions_abandoned", "lane=%s reason=fenced", lane->name);
        return give_up(diverter, now_ms);
    }
    if (rc != RC_OK && atomic_load(&lane->lease.draining))
        return give_up(diverter, now_ms);
    if (rc != RC_OK)
        return failed(diverter, now_ms, &err);
    worked(diverter, now_ms);
    metric_add(&lane->metrics->moved, (int64_t)count);
    diverted_keys_moved(&lane->diverted, count);
    lane_wake(lane, LANE_SENDER);
    return 0;
}

static int64_t ask(struct diverter *diverter, int64_t now_ms)
{
    struct lane *lane = diverter->lane;
    struct err err = {0};
    bool waiting = false;
    uint64_t asked;
    size_t count = diverted_keys_question(&lane->diverted, &diverter->cursor, diverter->keys,
                                          DIVERTER_KEYS_MAX, &asked);
    size_t all = atomic_load(&lane->diverted.count);
    int64_t wait_ms = ASK_MS;
    enum rc rc;

    if (count > 0 && all > count)
        wait_ms = ASK_MS * (int64_t)count / (int64_t)all;
    if (wait_ms < ASK_MS_MIN)
        wait_ms = ASK_MS_MIN;
    diverter->ask_at_ms = now_ms + wait_ms;
    if (count == 0)
        return wait_ms;
    rc = diverter->ops.keys_left(diverter->ops.ctx, diverter->keys, count, &err);
    if (rc != RC_OK)
        return failed(diverter, now_ms, &err);
    worked(diverter, now_ms);
    for (size_t i = 0; i < count; i++) {
        if (!diverter->keys[i].left)
            waiting =
                diverted_keys_answer(&lane->diverted, diverter->keys[i].key, asked) || waiting;
    }
    if (waiting)
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
        return give_up(diverter, now_ms);
    if (now_ms < diverter->wait_until_ms)
        return diverter->wait_until_ms - now_ms;
    if (known == 0)
        return load(diverter, epoch, now_ms);
    moves = diverted_keys_moves(diverted, diverter->rows_max, &count);
    if (count > 0 && (now_ms < diverter->ask_at_ms || diverter->ask_at_ms == 0))
        return move(diverter, moves, count, epoch, now_ms);
    if (atomic_load(&diverted->count) == 0)
        return LANE_WAIT_MS;
    if (now_ms < diverter->ask_at_ms)
        return diverter->ask_at_ms - now_ms;
    return count > 0 ? (ask(diverter, now_ms), 0) : ask(diverter, now_ms);
}
