/* SPDX-License-Identifier: MIT */
#include "outbox/relay/mover.h"

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

void mover_init(struct mover *mover, struct lane *lane, const struct deleter_seam *seam,
                uint64_t dice)
{
    memset(mover, 0, sizeof(*mover));
    mover->lane = lane;
    mover->seam = *seam;
    mover->dice = dice;
    mover->rows_max = MOVER_ROWS_MAX;
    mover->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
}

static int64_t failed(struct mover *mover, int64_t now_ms, const struct err *err)
{
    int64_t wait_ms = backoff_next_ms(&mover->backoff, dice_next(&mover->dice));

    note_set(&mover->lane->moving, now_ms, err);
    mover->wait_until_ms = now_ms + wait_ms;
    return wait_ms;
}

static void worked(struct mover *mover, int64_t now_ms)
{
    note_clear(&mover->lane->moving, now_ms);
    backoff_reset(&mover->backoff);
}

/* Without the lease, or when it ends: whoever has it next begins with the keys as the database has
 * them and with the first row of the table. */
static int64_t give_up(struct mover *mover, int64_t now_ms)
{
    stopped_void(&mover->lane->stopped);
    worked(mover, now_ms);
    mover->wait_until_ms = 0;
    lane_wake(mover->lane, LANE_SENDER);
    return LANE_WAIT_MS;
}

static enum rc on_key(void *ctx, const char *ordering_key, struct err *err)
{
    struct mover *mover = ctx;

    if (stopped_put(&mover->lane->stopped, ordering_key))
        return RC_OK;
    atomic_store(&mover->lane->stopped.too_many, true);
    return err_fail(err, RC_REJECT, 0, "too many keys");
}

/* The lease was taken, so whoever had it before moves nothing any more: what is in the retry lane
 * now only gets less, but by our own doing. */
static int64_t load(struct mover *mover, int64_t epoch, int64_t now_ms)
{
    struct stopped *stopped = &mover->lane->stopped;
    struct err err = {0};
    enum rc rc;

    if (!stopped_load_begin(stopped)) {
        lane_wake(mover->lane, LANE_SENDER);
        return LANE_WAIT_MS;
    }
    atomic_store(&stopped->too_many, false);
    rc = mover->seam.load_keys(mover->seam.ctx, stopped->count_max + 1, on_key, mover, &err);
    lane_wake(mover->lane, LANE_SENDER);
    if (atomic_load(&stopped->too_many)) {
        mover->wait_until_ms = now_ms + TOO_MANY_MS;
        return TOO_MANY_MS;
    }
    if (rc != RC_OK)
        return failed(mover, now_ms, &err);
    worked(mover, now_ms);
    stopped_load_end(stopped, epoch);
    return 0;
}

static int64_t move(struct mover *mover, const struct relay_move *moves, size_t count,
                    int64_t epoch, int64_t now_ms)
{
    struct lane *lane = mover->lane;
    struct err err = {0};
    bool fenced = false;
    enum rc rc = mover->seam.move_rows(mover->seam.ctx, moves, count, epoch, &fenced, &err);

    if (rc == RC_OK && fenced) {
        log_event(LOG_WARN, "moves_given_up", "lane=%s reason=fenced", lane->name);
        return give_up(mover, now_ms);
    }
    if (rc != RC_OK && atomic_load(&lane->lease.leaving))
        return give_up(mover, now_ms);
    if (rc != RC_OK)
        return failed(mover, now_ms, &err);
    worked(mover, now_ms);
    metric_add(&lane->metrics->moved, (int64_t)count);
    stopped_moved(&lane->stopped, count);
    lane_wake(lane, LANE_SENDER);
    return 0;
}

static int64_t ask(struct mover *mover, int64_t now_ms)
{
    struct lane *lane = mover->lane;
    struct err err = {0};
    bool waiting = false;
    uint64_t asked;
    size_t count =
        stopped_question(&lane->stopped, &mover->cursor, mover->keys, MOVER_KEYS_MAX, &asked);
    size_t all = atomic_load(&lane->stopped.count);
    int64_t wait_ms = ASK_MS;
    enum rc rc;

    if (count > 0 && all > count)
        wait_ms = ASK_MS * (int64_t)count / (int64_t)all;
    if (wait_ms < ASK_MS_MIN)
        wait_ms = ASK_MS_MIN;
    mover->ask_at_ms = now_ms + wait_ms;
    if (count == 0)
        return wait_ms;
    rc = mover->seam.keys_left(mover->seam.ctx, mover->keys, count, &err);
    if (rc != RC_OK)
        return failed(mover, now_ms, &err);
    worked(mover, now_ms);
    for (size_t i = 0; i < count; i++) {
        if (!mover->keys[i].left)
            waiting = stopped_answer(&lane->stopped, mover->keys[i].key, asked) || waiting;
    }
    if (waiting)
        lane_sweep(lane);
    lane_wake(lane, LANE_SENDER);
    return wait_ms;
}

int64_t mover_step(struct mover *mover, int64_t epoch, int64_t now_ms)
{
    struct stopped *stopped = &mover->lane->stopped;
    int64_t known = atomic_load(&stopped->epoch);
    const struct relay_move *moves;
    size_t count;

    if (epoch == 0 || (known != 0 && known != epoch))
        return give_up(mover, now_ms);
    if (now_ms < mover->wait_until_ms)
        return mover->wait_until_ms - now_ms;
    if (known == 0)
        return load(mover, epoch, now_ms);
    moves = stopped_moves(stopped, mover->rows_max, &count);
    if (count > 0 && (now_ms < mover->ask_at_ms || mover->ask_at_ms == 0))
        return move(mover, moves, count, epoch, now_ms);
    if (atomic_load(&stopped->count) == 0)
        return LANE_WAIT_MS;
    if (now_ms < mover->ask_at_ms)
        return mover->ask_at_ms - now_ms;
    return count > 0 ? (ask(mover, now_ms), 0) : ask(mover, now_ms);
}
