/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_keeper.h"

#include "common/hash.h"
#include "outbox/relay/deleter.h"
#include "outbox/relay/exact/takeover.h"

#include <assert.h>
#include <stdlib.h>
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

enum rc stream_keeper_save_rows(struct stream_keeper *keeper, size_t rows_max, bool with_ids,
                                struct err *err)
{
    keeper->seqs = calloc(rows_max, sizeof(*keeper->seqs));
    keeper->done = calloc(rows_max, sizeof(*keeper->done));
    if (!keeper->seqs || !keeper->done)
        return err_fail(err, RC_FATAL, 0, "no memory for the seqs of %zu rows", rows_max);
    if (with_ids) {
        keeper->ids = calloc(rows_max, sizeof(*keeper->ids));
        keeper->done_ids = calloc(rows_max, sizeof(*keeper->done_ids));
        if (!keeper->ids || !keeper->done_ids)
            return err_fail(err, RC_FATAL, 0, "no memory for the ids of %zu rows", rows_max);
    }
    keeper->done_max = rows_max;
    return RC_OK;
}

void stream_keeper_done(struct stream_keeper *keeper)
{
    if (!keeper->lane)
        return;
    buf_done(&keeper->position.before);
    buf_done(&keeper->offered.before);
    free(keeper->seqs);
    free(keeper->done);
    free(keeper->ids);
    free(keeper->done_ids);
    pthread_mutex_destroy(&keeper->lock);
    condition_done(&keeper->log_kept);
    keeper->lane = NULL;
}

void stream_keeper_begin(struct stream_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->begins++;
    keeper->settled = keeper->offers;
    keeper->done_count = keeper->done_offered = 0;
    keeper->done_id_count = keeper->done_ids_offered = 0;
    keeper->done_emptied = false;
    pthread_mutex_unlock(&keeper->lock);
}

static size_t count_room(const struct stream_keeper *keeper)
{
    return keeper->done_max - keeper->done_count - keeper->done_id_count;
}

bool stream_keeper_has_room(struct stream_keeper *keeper, size_t count)
{
    bool has_room;

    assert(count <= keeper->done_max);
    pthread_mutex_lock(&keeper->lock);
    has_room = count_room(keeper) >= count;
    /* The last offer is saved, also if it was dropped in a gap of the lease. */
    if (!has_room) {
        keeper->at_once = true;
        if (keeper->settled > keeper->saved)
            keeper->settled = keeper->saved;
    }
    pthread_mutex_unlock(&keeper->lock);
    if (!has_room)
        lane_wake(keeper->lane, LANE_DELETER);
    return has_room;
}

void stream_keeper_add(struct stream_keeper *keeper, const int64_t *seqs,
                       const struct published_id *ids, size_t count)
{
    pthread_mutex_lock(&keeper->lock);
    assert(count_room(keeper) >= count);
    assert(!ids || keeper->done_ids);
    for (size_t i = 0; i < count; i++) {
        if (seqs[i] > 0)
            keeper->done[keeper->done_count++] = seqs[i];
        else if (ids && published_id_is_set(&ids[i]))
            keeper->done_ids[keeper->done_id_count++] = ids[i];
    }
    pthread_mutex_unlock(&keeper->lock);
}

void stream_keeper_note_emptied(struct stream_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->done_count = keeper->done_offered = 0;
    keeper->done_id_count = keeper->done_ids_offered = 0;
    keeper->done_emptied = true;
    pthread_mutex_unlock(&keeper->lock);
}

bool stream_keeper_offer(struct stream_keeper *keeper, const struct stream_position *position,
                         int64_t row, int64_t epoch, bool at_once)
{
    bool is_due = at_once;
    bool was_settled;
    bool copied;

    pthread_mutex_lock(&keeper->lock);
    /* The keeper may sleep until a position without rows is due, which this one replaces. */
    is_due = is_due || (row > keeper->saved_row && keeper->offered_row <= keeper->saved_row);
    copied = stream_position_copy(&keeper->offered, position);
    if (!copied) {
        keeper->done_count = keeper->done_offered;
        keeper->done_id_count = keeper->done_ids_offered;
    }
    if (copied) {
        keeper->done_offered = keeper->done_count;
        keeper->done_ids_offered = keeper->done_id_count;
        keeper->offered_row = row;
        keeper->offered_epoch = epoch;
        keeper->at_once = at_once;
        /* The keeper may rest, and has to find out when this one is due. */
        was_settled = keeper->settled == keeper->offers;
        keeper->offers++;
        is_due = is_due || was_settled || row - keeper->saved_row >= KEEPER_SAVE_ROWS;
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

/* What was being saved is saved. */
static void settle_saved(struct stream_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->saved = keeper->saving;
    keeper->saved_row = keeper->position_row;
    if (keeper->settled < keeper->saved)
        keeper->settled = keeper->saved;
    pthread_mutex_unlock(&keeper->lock);
    if (keeper->lane->takeover)
        takeover_note_saved(keeper->lane->takeover, &keeper->position, keeper->position_row);
    if (keeper->emptied)
        atomic_fetch_add(&keeper->lane->emptied, 1);
    keeper->saving = 0;
    keeper->seq_count = keeper->id_count = 0;
    keeper->emptied = false;
    lane_wake(keeper->lane, LANE_READER);
}

/* The lease is lost: the reader need not wait for the offers made under it. They are kept, because
 * the same lease may be renewed, and a later position then needs the seqs of this one. */
static void settle_lost(struct stream_keeper *keeper)
{
    bool is_new;

    pthread_mutex_lock(&keeper->lock);
    is_new = keeper->settled != keeper->offers && keeper->saving_begins == keeper->begins;
    if (is_new)
        keeper->settled = keeper->offers;
    pthread_mutex_unlock(&keeper->lock);
    if (is_new)
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

/* Takes the rows that were added, and leaves empty lists for the next ones. */
static void take_rows(struct stream_keeper *keeper)
{
    int64_t *seqs = keeper->seqs;
    struct published_id *ids = keeper->ids;

    keeper->ids = keeper->done_ids;
    keeper->id_count = keeper->done_id_count;
    keeper->done_ids = ids;
    keeper->done_id_count = keeper->done_ids_offered = 0;
    keeper->seqs = keeper->done;
    keeper->seq_count = keeper->done_count;
    keeper->done = seqs;
    keeper->done_count = keeper->done_offered = 0;
    keeper->emptied = keeper->done_emptied;
    keeper->done_emptied = false;
}

/* Takes the offered position if there is one to be saved. Returns whether one is being saved now;
 * *wait_ms: when the next one is due. That of a lost lease is due at once: it is dropped. */
static bool take_offer(struct stream_keeper *keeper, int64_t epoch_now, int64_t now_ms,
                       int64_t *wait_ms)
{
    int64_t due_ms;

    *wait_ms = lane_rest_ms(keeper->lane, now_ms);
    pthread_mutex_lock(&keeper->lock);
    due_ms = keeper->saved_ms +
             (keeper->offered_row > keeper->saved_row ? KEEPER_SAVE_MS : KEEPER_SAVE_IDLE_MS);
    if (keeper->saving_begins != keeper->begins)
        keeper->saving = 0;
    if (keeper->saving == 0 && keeper->settled != keeper->offers) {
        bool is_due = keeper->at_once || now_ms >= due_ms ||
                      keeper->offered_row - keeper->saved_row >= KEEPER_SAVE_ROWS ||
                      keeper->offered_epoch != epoch_now ||
                      atomic_load(&keeper->lane->lease.draining);

        if (!is_due) {
            *wait_ms = due_ms - now_ms;
        } else if (stream_position_copy(&keeper->position, &keeper->offered)) {
            keeper->saving = keeper->offers;
            keeper->saving_begins = keeper->begins;
            keeper->position_row = keeper->offered_row;
            keeper->position_epoch = keeper->offered_epoch;
            take_rows(keeper);
        } else {
            *wait_ms = LANE_WAIT_MS; /* no memory */
        }
    }
    pthread_mutex_unlock(&keeper->lock);
    /* The second time they are sorted already. */
    if (keeper->saving != 0)
        keeper->seq_count = deleter_sort_seqs(keeper->seqs, keeper->seq_count);
    return keeper->saving != 0;
}

static int64_t record_failure(struct stream_keeper *keeper, int64_t now_ms, const struct err *err)
{
    int64_t wait_ms = backoff_next_ms(&keeper->backoff, rng_next(&keeper->rng));

    condition_fail(&keeper->lane->deleting, now_ms, err);
    keeper->wait_until_ms = now_ms + wait_ms;
    return wait_ms;
}

/* A position that could not be saved is tried again as it is, so that its seqs need no place beside
 * those of a later one. */
static int64_t save_position(struct stream_keeper *keeper, int64_t epoch_now, int64_t now_ms)
{
    struct err err = {0};
    struct done_rows rows;
    bool fenced = false;
    int64_t wait_ms;
    enum rc rc;

    if (now_ms < keeper->wait_until_ms && epoch_now != 0)
        return keeper->wait_until_ms - now_ms;
    if (!take_offer(keeper, epoch_now, now_ms, &wait_ms))
        return wait_ms;
    /* The next holder begins at the position that was saved before. */
    if (keeper->position_epoch != epoch_now) {
        settle_lost(keeper);
        condition_ok(&keeper->lane->deleting, now_ms);
        keeper->wait_until_ms = 0;
        return lane_rest_ms(keeper->lane, now_ms);
    }
    rows = (struct done_rows){keeper->seqs, keeper->seq_count, keeper->ids, keeper->id_count,
                              keeper->emptied};
    rc = keeper->positions.save(keeper->positions.ctx, &keeper->position, &rows,
                                keeper->position_epoch, &fenced, &err);
    if (rc != RC_OK)
        return record_failure(keeper, now_ms, &err);
    condition_ok(&keeper->lane->deleting, now_ms);
    backoff_reset(&keeper->backoff);
    keeper->saved_ms = now_ms;
    if (fenced)
        settle_lost(keeper);
    else
        settle_saved(keeper);
    return fenced ? LANE_WAIT_MS : 0;
}

static void note_risk(struct stream_keeper *keeper, const struct err *risk, int64_t now_ms)
{
    metric_set(&keeper->lane->metrics->log_expires, risk->text[0] != '\0');
    if (risk->text[0])
        condition_fail(&keeper->log_kept, now_ms, risk);
    else
        condition_ok(&keeper->log_kept, now_ms);
}

/* Without an answer the check stays as it was: reading the log is what counts. A lane that another
 * process reads is checked there. Returns in how many ms the next check is due. */
static int64_t check_log(struct stream_keeper *keeper, int64_t epoch_now, int64_t now_ms)
{
    struct position_store *positions = &keeper->positions;
    struct err risk = {0};

    if (epoch_now == 0 || keeper->saved_ms == 0) {
        note_risk(keeper, &risk, now_ms);
        keeper->checked_ms = now_ms;
        return KEEPER_CHECK_MS;
    }
    if (!positions->find_risk)
        return KEEPER_CHECK_MS;
    if (now_ms - keeper->checked_ms < KEEPER_CHECK_MS)
        return keeper->checked_ms + KEEPER_CHECK_MS - now_ms;
    keeper->checked_ms = now_ms;
    if (positions->find_risk(positions->ctx, &keeper->position, &risk, NULL) != RC_OK)
        return KEEPER_CHECK_MS;
    note_risk(keeper, &risk, now_ms);
    return KEEPER_CHECK_MS;
}

int64_t stream_keeper_step(void *arg, int64_t now_ms)
{
    struct stream_keeper *keeper = arg;
    int64_t save_ms;
    int64_t check_ms;
    int64_t move_ms;

    return_acked_rows(keeper->lane);
    save_ms = save_position(keeper, lane_epoch(keeper->lane, now_ms), now_ms);
    check_ms = check_log(keeper, lane_epoch_now(keeper->lane, now_ms), now_ms);
    move_ms = diverter_step(&keeper->diverter, lane_epoch_now(keeper->lane, now_ms), now_ms);
    if (check_ms < save_ms)
        save_ms = check_ms;
    return save_ms < move_ms ? save_ms : move_ms;
}
