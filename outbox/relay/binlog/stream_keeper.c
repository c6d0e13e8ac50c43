/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/stream_keeper.h"

#include "common/hash.h"

#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

void stream_keeper_init(struct stream_keeper *keeper, struct lane *lane,
                        const struct position_store *positions,
                        const struct diverter_ops *diverter_ops, uint64_t seed)
{
    memset(keeper, 0, sizeof(*keeper));
    keeper->lane = lane;
    keeper->positions = *positions;
    keeper->rng = seed;
    keeper->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    pthread_mutex_init(&keeper->lock, NULL);
    condition_init(&keeper->log_kept, CONDITION_CHECK, "check=log_kept role=relay lane=%s",
                   lane->name);
    diverter_init(&keeper->diverter, lane, diverter_ops, ~seed);
}

void stream_keeper_done(struct stream_keeper *keeper)
{
    if (!keeper->lane)
        return;
    buf_done(&keeper->position.before);
    buf_done(&keeper->offered.before);
    pthread_mutex_destroy(&keeper->lock);
    condition_done(&keeper->log_kept);
    keeper->lane = NULL;
}

bool stream_keeper_offer(struct stream_keeper *keeper, const struct stream_position *position,
                         int64_t row, int64_t epoch, bool at_once)
{
    bool is_due = at_once;
    bool copied;

    pthread_mutex_lock(&keeper->lock);
    copied = stream_position_copy(&keeper->offered, position);
    if (copied) {
        keeper->offered_row = row;
        keeper->offered_epoch = epoch;
        keeper->at_once = at_once;
        keeper->offers++;
        is_due = is_due || row - keeper->saved_row >= KEEPER_SAVE_ROWS;
    }
    pthread_mutex_unlock(&keeper->lock);
    if (is_due)
        lane_wake(keeper->lane, LANE_DELETER);
    return copied;
}

bool stream_keeper_is_saved(struct stream_keeper *keeper)
{
    bool saved;

    pthread_mutex_lock(&keeper->lock);
    saved = keeper->saved == keeper->offers;
    pthread_mutex_unlock(&keeper->lock);
    return saved;
}

bool stream_keeper_is_settled(struct stream_keeper *keeper)
{
    bool settled;

    pthread_mutex_lock(&keeper->lock);
    settled = keeper->settled == keeper->offers;
    pthread_mutex_unlock(&keeper->lock);
    return settled;
}

static void settle_offer(struct stream_keeper *keeper, uint64_t offer, int64_t row, bool saved)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->settled = offer;
    if (saved) {
        keeper->saved = offer;
        keeper->saved_row = row;
    }
    pthread_mutex_unlock(&keeper->lock);
    lane_wake(keeper->lane, LANE_READER);
}

/* Acknowledged rows are done: nothing has to be deleted. */
static void return_acked_rows(struct lane *lane)
{
    struct seqs *block;
    bool any = false;

    while ((block = ring_take(&lane->acked_blocks))) {
        ring_give(&lane->deleted_blocks, block);
        any = true;
    }
    if (any)
        lane_wake(lane, LANE_READER);
}

/* Copies the offered position if there is one to be saved. Returns its number, or 0. *wait_ms: when
 * it is due. */
static uint64_t take_offer(struct stream_keeper *keeper, int64_t now_ms, int64_t *row,
                           int64_t *epoch, int64_t *wait_ms)
{
    uint64_t offer = 0;
    int64_t due_ms;

    *wait_ms = LANE_WAIT_MS;
    pthread_mutex_lock(&keeper->lock);
    due_ms = keeper->saved_ms +
             (keeper->offered_row > keeper->saved_row ? KEEPER_SAVE_MS : KEEPER_SAVE_IDLE_MS);
    if (keeper->settled != keeper->offers) {
        bool is_due = keeper->at_once || now_ms >= due_ms ||
                      keeper->offered_row - keeper->saved_row >= KEEPER_SAVE_ROWS ||
                      atomic_load(&keeper->lane->lease.draining);

        *row = keeper->offered_row;
        *epoch = keeper->offered_epoch;
        if (!is_due)
            *wait_ms = due_ms - now_ms;
        else if (stream_position_copy(&keeper->position, &keeper->offered))
            offer = keeper->offers;
    }
    pthread_mutex_unlock(&keeper->lock);
    return offer;
}

static int64_t record_failure(struct stream_keeper *keeper, int64_t now_ms, const struct err *err)
{
    int64_t wait_ms = backoff_next_ms(&keeper->backoff, rng_next(&keeper->rng));

    condition_fail(&keeper->lane->deleting, now_ms, err);
    keeper->wait_until_ms = now_ms + wait_ms;
    return wait_ms;
}

static int64_t save_position(struct stream_keeper *keeper, int64_t epoch_now, int64_t now_ms)
{
    struct err err = {0};
    bool fenced = false;
    int64_t row = 0;
    int64_t epoch = 0;
    int64_t wait_ms;
    uint64_t offer;
    enum rc rc;

    if (now_ms < keeper->wait_until_ms && epoch_now != 0)
        return keeper->wait_until_ms - now_ms;
    offer = take_offer(keeper, now_ms, &row, &epoch, &wait_ms);
    if (offer == 0)
        return wait_ms;
    /* The next holder begins at the position that was saved before. */
    if (epoch != epoch_now) {
        settle_offer(keeper, offer, row, false);
        condition_ok(&keeper->lane->deleting, now_ms);
        keeper->wait_until_ms = 0;
        return 0;
    }
    rc = keeper->positions.save(keeper->positions.ctx, &keeper->position, epoch, &fenced, &err);
    if (rc != RC_OK)
        return record_failure(keeper, now_ms, &err);
    condition_ok(&keeper->lane->deleting, now_ms);
    backoff_reset(&keeper->backoff);
    keeper->saved_ms = now_ms;
    settle_offer(keeper, offer, row, !fenced);
    return 0;
}

/* Without an answer the check stays as it was: reading the log is what counts. A lane that another
 * process reads is checked there. */
static void check_log(struct stream_keeper *keeper, int64_t epoch_now, int64_t now_ms)
{
    struct position_store *positions = &keeper->positions;
    struct err risk = {0};

    if (epoch_now == 0 || keeper->saved_ms == 0) {
        condition_ok(&keeper->log_kept, now_ms);
        keeper->checked_ms = now_ms;
        return;
    }
    if (!positions->find_risk || now_ms - keeper->checked_ms < KEEPER_CHECK_MS)
        return;
    keeper->checked_ms = now_ms;
    if (positions->find_risk(positions->ctx, &keeper->position, &risk, NULL) != RC_OK)
        return;
    if (risk.text[0])
        condition_fail(&keeper->log_kept, now_ms, &risk);
    else
        condition_ok(&keeper->log_kept, now_ms);
}

int64_t stream_keeper_step(void *arg, int64_t now_ms)
{
    struct stream_keeper *keeper = arg;
    int64_t save_ms;
    int64_t move_ms;

    return_acked_rows(keeper->lane);
    save_ms = save_position(keeper, lane_epoch(keeper->lane, now_ms), now_ms);
    check_log(keeper, lane_epoch_now(keeper->lane, now_ms), now_ms);
    move_ms = diverter_step(&keeper->diverter, lane_epoch_now(keeper->lane, now_ms), now_ms);
    return save_ms < move_ms ? save_ms : move_ms;
}
