/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/commits.h"

#include "common/hash.h"
#include "outbox/relay/deleter.h"
#include "outbox/relay/stream/seq_ranges.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* Rows between the saved position and the last one that is handled, in windows. The keeper has room
 * for the seqs of as many. */
#define UNSAVED_WINDOWS ((size_t)2)

/* And in rows. A row has up to 12 digits in the record even if the seqs are far apart, and a topic
 * accepts records of 1 MiB by default. */
#define UNSAVED_ROWS_MAX 50000

static void swap_records(struct position_record *a, struct position_record *b)
{
    struct position_record record = *a;

    *a = *b;
    *b = record;
}

bool commits_is_on(const struct commits *commits)
{
    return commits->lane != NULL;
}

bool commits_has_producer(const struct commits *commits)
{
    return commits->lane &&
           (commits->failing || commits->broker.claimed(commits->broker.ctx) != BROKER_UNCLAIMED);
}

void commits_end_lease(struct commits *commits)
{
    commits->failing = false;
}

bool commits_take_replaced(struct commits *commits)
{
    bool replaced = commits->replaced;

    commits->replaced = false;
    return replaced;
}

bool commits_is_fenced(const struct commits *commits)
{
    return commits->lane && commits->broker.claimed(commits->broker.ctx) == BROKER_FENCED;
}

bool commits_has_rows(const struct commits *commits)
{
    return commits->lane && (commits->handled > commits->committed_row || commits->unknown);
}

bool commits_end_for_all(struct commits *commits)
{
    if (!commits->lane || commits->sent == 0)
        return false;
    commits->wants_end = true;
    return true;
}

static size_t key_bit(uint64_t key)
{
    return (size_t)(key % COMMITS_KEY_BITS);
}

/* Invariant R20. */
bool commits_end_for_key(struct commits *commits, uint64_t key)
{
    size_t bit = key_bit(key);

    return (commits->keys[bit / 64] >> (bit % 64) & 1) != 0 && commits_end_for_all(commits);
}

/* The last row whose seq is saved. That of the keeper may be of an earlier begin. */
static int64_t find_saved_row(struct commits *commits)
{
    int64_t saved = takeover_saved_row(commits->takeover);

    if (saved > commits->seqs_row)
        commits->seqs_row = saved;
    return commits->seqs_row;
}

static bool is_at_end(const struct commits *commits, int64_t now_ms)
{
    if (!commits_has_rows(commits))
        return false;
    if (commits->wants_end)
        return true;
    return commits->handled == commits->after_row &&
           (commits->sent >= COMMITS_ROWS_MAX ||
            now_ms - commits->begun_ms >=
                (commits->sent >= COMMITS_BUSY_ROWS ? COMMITS_BUSY_AGE_MS : COMMITS_AGE_MS));
}

bool commits_may_handle(struct commits *commits, int64_t row, int64_t now_ms)
{
    const int64_t unsaved_max = commits->unsaved_max;

    if (is_at_end(commits, now_ms))
        return false;
    if (row - commits->seqs_row < unsaved_max || row - find_saved_row(commits) < unsaved_max)
        return true;
    /* The rows have to be done before the keeper can save a position behind them. */
    commits->wants_end = true;
    return false;
}

void commits_name_move(struct commits *commits, struct relay_move *move)
{
    if (!commits->lane)
        return;
    move->term = commits->committed.first;
}

void commits_add_key(struct commits *commits, uint64_t key)
{
    size_t bit = key_bit(key);

    commits->keys[bit / 64] |= (uint64_t)1 << (bit % 64);
    commits->sent++;
}

void commits_pass_row(struct commits *commits, const struct relay_row *row, int64_t now_ms)
{
    assert(row->seq > commits->handled);
    if (commits->handled == commits->committed_row)
        commits->begun_ms = now_ms;
    commits->handled = row->seq;
    commits->seqs[(size_t)row->seq & (commits->seqs_max - 1)] = row->table_seq;
}

/* Rows behind a position, which stays because no stream opens at those behind it. */
#define FAR_ROWS_MAX 10000

void commits_end_batch(struct commits *commits, struct relay_batch *batch)
{
    assert(batch->after && batch->after_row >= commits->handled);
    if (stream_position_opens(batch->after) ||
        batch->after_row - commits->after_row > FAR_ROWS_MAX) {
        stream_position_swap(&commits->after, batch->after);
        commits->after_row = batch->after_row;
    }
    /* Rows at the end of the batch that were not passed on were handled before. */
    commits->handled = batch->after_row;
    commits->emptied_row = batch->emptied_row;
}

void commits_hold(struct commits *commits, struct seqs *block)
{
    commits->held[commits->held_count++] = block;
}

void commits_hold_moved(struct commits *commits, struct seqs *block, int64_t row)
{
    block->list[block->count++] = row;
    commits->held_moved++;
}

static void empty_transaction(struct commits *commits)
{
    if (commits->sent > 0)
        memset(commits->keys, 0, sizeof(commits->keys));
    commits->sent = 0;
    commits->wants_end = false;
}

void commits_forget_sent(struct commits *commits)
{
    /* What it holds, if anything, was moved. */
    assert(commits->held_count == 0 || commits->held_moved > 0);
    empty_transaction(commits);
}

/* The position of `committed` is that of the rows that are sent next. Without memory for it nothing
 * is sent under this lease. */
static void go_back(struct commits *commits)
{
    const struct position_record *committed = &commits->committed;

    commits->handled = commits->committed_row;
    commits->after_row = commits->committed_row - (int64_t)committed->rows;
    if (!stream_position_copy(&commits->after, &committed->position))
        commits->epoch = 0;
}

void commits_give_up(struct commits *commits)
{
    struct lane *lane = commits->lane;

    /* The rows may be committed: the reader must not read them again before that is known. */
    if (commits->unknown) {
        atomic_store(&commits->takeover->reload, true);
        commits->epoch = 0;
    }
    for (size_t i = 0; i < commits->held_count; i++) {
        commits->held[i]->kind = SEQS_REREAD;
        ring_give(&lane->dropped_blocks, commits->held[i]);
    }
    if (commits->held_count > 0)
        lane_wake(lane, LANE_READER);
    commits->held_count = commits->held_moved = 0;
    commits->unknown = false;
    empty_transaction(commits);
    go_back(commits);
}

static void pass_held_rows(struct commits *commits)
{
    struct lane *lane = commits->lane;
    size_t rows = 0;

    for (size_t i = 0; i < commits->held_count; i++) {
        rows += commits->held[i]->count;
        ring_give(&lane->acked_blocks, commits->held[i]);
    }
    metric_add(&lane->metrics->published, (int64_t)(rows - commits->held_moved));
    commits->held_count = commits->held_moved = 0;
    if (rows > 0)
        lane_wake(lane, LANE_DELETER);
}

static void take_commit(struct commits *commits, int64_t now_ms)
{
    swap_records(&commits->committed, &commits->next);
    commits->committed_row = commits->handled;
    commits->committed_ms = now_ms;
    commits->unknown = false;
    empty_transaction(commits);
    pass_held_rows(commits);
}

static enum commits_result record_failure(struct commits *commits, int64_t now_ms,
                                          const struct err *err)
{
    condition_fail(&commits->lane->sending, now_ms, err);
    commits->failing = true;
    commits->retry_ms = now_ms + backoff_next_ms(&commits->backoff, rng_next(&commits->rng));
    return COMMITS_FAILED;
}

/* The reader holds no row, and neither does the sender. */
static void begin_lane(struct commits *commits, int64_t epoch, int64_t row, int64_t now_ms)
{
    assert(commits->held_count == 0 && commits->sent == 0);
    swap_records(&commits->committed, &commits->next);
    commits->epoch = epoch;
    memcpy(commits->server, commits->committed.position.server, sizeof(commits->server));
    commits->unknown = false;
    commits->committed_row = row + (int64_t)commits->committed.rows;
    commits->committed_ms = now_ms;
    commits->begin_row = commits->seqs_row = row;
    /* Before a row is sent the keeper has forgotten what this record says. */
    commits->emptied_row = -1;
    takeover_begin_saved(&commits->committed);
    memset(commits->seqs, 0, commits->seqs_max * sizeof(*commits->seqs));
    go_back(commits);
}

static void reset_producer(struct commits *commits)
{
    commits->broker.reset(commits->broker.ctx);
    commits->replaced = true;
}

static enum rc claim_lane(struct commits *commits, int64_t epoch, bool *found, struct err *err)
{
    struct broker *broker = &commits->broker;
    enum rc rc;

    position_record_reset(&commits->next);
    commits->replaced = true;
    *found = false;
    rc = broker->claim(broker->ctx, epoch, &commits->next, found, err);
    if (rc == RC_OK && *found && commits->next.number > commits->number)
        commits->number = commits->next.number;
    return rc;
}

/* A failure of WRITE may be a success whose answer is lost: the reader begins again with READ. */
static enum rc write_first_record(struct commits *commits, int64_t epoch, int64_t row,
                                  int64_t now_ms, struct err *err)
{
    struct broker *broker = &commits->broker;
    enum rc rc = RC_RETRY;

    assert(commits->next.position.by_gtid || commits->next.position.file[0]);
    commits->next.number = ++commits->number;
    commits->next.first = commits->number;
    commits->next.row = (uint64_t)row + commits->next.rows;
    if (broker->claimed(broker->ctx) == BROKER_CLAIMED)
        rc = broker->commit(broker->ctx, &commits->next, err);
    else
        err_set(err, "the producer was replaced before the first position was written");
    if (rc == RC_OK)
        begin_lane(commits, epoch, row, now_ms);
    else
        reset_producer(commits);
    return rc;
}

/* What the lane is doing. */
struct commits_state {
    int64_t epoch;   /* of the lease that is held now */
    bool has_flight; /* rows are in flight, or wait to be moved into the retry queue */
    bool is_idle;    /* and no row waits to be sent */
    bool is_ending;  /* the lease drains */
};

/* Answers the reader's request if there is one; COMMITS_SEND: there is none. */
static enum commits_result answer_request(struct commits *commits,
                                          const struct commits_state *state, int64_t now_ms,
                                          struct err *err)
{
    enum takeover_order order;
    uint64_t number = 0;
    int64_t row = 0;
    bool found = false;
    bool is_late;
    enum rc rc = RC_RETRY;

    if (now_ms < commits->retry_ms)
        return COMMITS_SEND;
    order = takeover_peek(commits->takeover, &commits->next, &row, &number);
    if (order == TAKEOVER_NOTHING)
        return COMMITS_SEND;
    /* The reader has decided under a lease that is over: it asks again under the next one. */
    is_late = state->epoch == 0 || state->is_ending ||
              (order == TAKEOVER_WRITE && commits->next.epoch != state->epoch);
    if (is_late) {
        err_set(err, "the lease of the lane has changed");
    } else if (order == TAKEOVER_READ) {
        commits->epoch = 0;
        reset_producer(commits);
        rc = claim_lane(commits, state->epoch, &found, err);
    } else {
        rc = write_first_record(commits, state->epoch, row, now_ms, err);
    }
    takeover_answer(commits->takeover, number,
                    rc == RC_OK && commits->epoch != 0 ? &commits->committed : &commits->next,
                    found, rc, err);
    lane_wake(commits->lane, LANE_READER);
    if (rc == RC_OK)
        backoff_reset(&commits->backoff);
    return rc == RC_OK || is_late ? COMMITS_WAIT : record_failure(commits, now_ms, err);
}

/* After a reset of the producer: which record is the last one? */
static enum commits_result claim_again(struct commits *commits, int64_t now_ms, struct err *err)
{
    struct position_record attempt = {0};
    enum commits_result result = COMMITS_FENCED;
    bool found = false;
    enum rc rc;

    if (now_ms < commits->retry_ms)
        return COMMITS_WAIT;
    swap_records(&attempt, &commits->next);
    rc = claim_lane(commits, commits->epoch, &found, err);
    if (rc == RC_OK) {
        backoff_reset(&commits->backoff);
        if (found && commits->unknown && position_record_is_same(&commits->next, &attempt))
            result = COMMITS_SEND;
        else if (found && position_record_is_same(&commits->next, &commits->committed))
            result = commits->unknown ? COMMITS_ABORTED : COMMITS_SEND;
    }
    swap_records(&attempt, &commits->next);
    position_record_done(&attempt);
    if (rc != RC_OK)
        return record_failure(commits, now_ms, err);
    if (result == COMMITS_FENCED)
        err_set(err, "the last position of the lane in Kafka was written by another process");
    if (result == COMMITS_SEND && commits->unknown)
        take_commit(commits, now_ms);
    if (result == COMMITS_ABORTED) {
        commits->unknown = false;
        err_set(err, "the transaction was aborted");
    }
    return result;
}

static void write_seqs(struct commits *commits)
{
    int64_t from = find_saved_row(commits) + 1;
    size_t count = 0;

    /* A position of the keeper right behind this row may still be before the statement. */
    commits->next.emptied = commits->emptied_row >= 0 && from - 1 <= commits->emptied_row;
    if (commits->next.emptied)
        from = commits->emptied_row + 1;
    buf_reset(&commits->next.seqs);
    if (commits->lane->own->keep_ms < 0)
        return;
    assert(commits->handled - from < (int64_t)commits->seqs_max);
    for (int64_t row = from; row <= commits->handled; row++) {
        int64_t seq = commits->seqs[(size_t)row & (commits->seqs_max - 1)];

        if (seq > 0)
            commits->sorted[count++] = seq;
    }
    count = deleter_sort_seqs(commits->sorted, count);
    seq_ranges_put(&commits->next.seqs, commits->sorted, count);
}

/* A position that the keeper has saved behind all rows moves without rows. */
static bool take_saved_position(struct commits *commits)
{
    int64_t row = 0;

    if (find_saved_row(commits) < commits->handled)
        return false;
    if (!takeover_copy_saved(commits->takeover, &commits->after, &row) || row < commits->handled)
        return false;
    commits->after_row = commits->handled = row;
    return true;
}

static bool make_record(struct commits *commits)
{
    struct position_record *next = &commits->next;

    next->epoch = commits->epoch;
    next->number = ++commits->number;
    next->maker = commits->takeover->maker;
    next->first = commits->committed.first;
    next->row = (uint64_t)commits->handled;
    memcpy(next->terms, commits->committed.terms, sizeof(next->terms));
    next->term_count = commits->committed.term_count;
    /* Terms are kept for the tasks of their moves. */
    if (diverted_keys_are_none(&commits->lane->diverted, commits->epoch))
        next->term_count = 0;
    /* Rows are sent after the first position was saved. */
    next->begun = false;
    next->saved = commits->committed.saved;
    next->saved_by_gtid = commits->committed.saved_by_gtid;
    takeover_put_saved(commits->takeover, next, commits->begin_row);
    next->rows = (uint64_t)(commits->handled - commits->after_row);
    write_seqs(commits);
    if (!stream_position_copy(&next->position, &commits->after) || next->seqs.failed)
        return false;
    /* The positions of the stream have none. */
    memcpy(next->position.server, commits->server, sizeof(commits->server));
    return true;
}

/* Whether the answer was lost or not: the next claim tells what has happened. */
static enum commits_result commit(struct commits *commits, struct seqs **acks, int64_t now_ms,
                                  struct err *err)
{
    struct broker *broker = &commits->broker;
    enum rc rc;

    if (*acks && (*acks)->count > 0) {
        commits_hold(commits, *acks);
        *acks = NULL;
    }
    if (!make_record(commits)) {
        err_set(err, "no memory for the position of the lane");
        return record_failure(commits, now_ms, err);
    }
    rc = broker->commit(broker->ctx, &commits->next, err);
    if (rc == RC_OK) {
        take_commit(commits, now_ms);
        return COMMITS_SEND;
    }
    commits->unknown = true;
    reset_producer(commits);
    return rc == RC_REJECT ? COMMITS_FENCED : record_failure(commits, now_ms, err);
}

static struct commits_state find_state(const struct commits *commits,
                                       const struct commits_input *input, int64_t now_ms)
{
    struct lane *lane = commits->lane;
    bool waits = input->has_flight || diverted_keys_has_moves(&lane->diverted);

    return (struct commits_state){
        .epoch = lane_epoch_now(lane, now_ms),
        .has_flight = waits,
        .is_idle = !waits && !input->has_batch && ring_count(&lane->filled_batches) == 0,
        .is_ending = atomic_load(&lane->lease.draining),
    };
}

static bool is_due(const struct commits *commits, const struct commits_state *state, int64_t now_ms)
{
    if (is_at_end(commits, now_ms))
        return true;
    return state->is_idle && commits_has_rows(commits) &&
           (state->is_ending || now_ms - commits->begun_ms >= COMMITS_IDLE_MS);
}

static enum commits_result run_step(struct commits *commits, const struct commits_input *input,
                                    int64_t now_ms, struct err *err)
{
    const struct commits_state state = find_state(commits, input, now_ms);
    struct broker *broker = &commits->broker;

    if (!state.has_flight && !commits_has_rows(commits)) {
        enum commits_result result = answer_request(commits, &state, now_ms, err);

        if (result != COMMITS_SEND)
            return result;
    }
    if (commits->epoch == 0 || commits->epoch != state.epoch)
        return COMMITS_WAIT;
    switch (broker->claimed(broker->ctx)) {
    case BROKER_CLAIMED:
        break;
    case BROKER_UNCLAIMED:
        if (!state.is_ending)
            return claim_again(commits, now_ms, err);
        err_set(err, "the lane ends without a producer");
        return COMMITS_ABORTED;
    case BROKER_FENCED:
        err_set(err, "another process has made a producer with the transactional id of this lane");
        return COMMITS_FENCED;
    }
    if (is_due(commits, &state, now_ms))
        return state.has_flight ? COMMITS_WAIT : commit(commits, input->acks, now_ms, err);
    if (state.is_idle && !commits_has_rows(commits) &&
        now_ms - commits->committed_ms >= COMMITS_POSITION_MS && take_saved_position(commits))
        return commit(commits, input->acks, now_ms, err);
    return COMMITS_SEND;
}

enum commits_result commits_step(struct commits *commits, const struct commits_input *input,
                                 int64_t now_ms, struct err *err)
{
    enum commits_result result = run_step(commits, input, now_ms, err);

    if (result != COMMITS_SEND || !commits->failing)
        return result;
    commits->failing = false;
    if (!input->breaker_open)
        condition_ok(&commits->lane->sending, now_ms);
    return result;
}

int64_t commits_wait_ms(const struct commits *commits, int64_t wait_ms, int64_t now_ms)
{
    int64_t due_ms = commits->begun_ms + COMMITS_IDLE_MS;

    if (!commits_has_rows(commits) || now_ms + wait_ms <= due_ms)
        return wait_ms;
    return due_ms > now_ms ? due_ms - now_ms : 1;
}

enum rc commits_init(struct commits *commits, struct lane *lane, const struct broker *broker,
                     uint64_t seed, struct err *err)
{
    size_t window = (size_t)lane->settings->relay.window_rows_max;
    /* A position can be saved between two batches only. */
    int64_t unsaved_max = 2 * lane->settings->relay.read_rows_max;

    if (unsaved_max < UNSAVED_ROWS_MAX)
        unsaved_max = UNSAVED_ROWS_MAX;
    memset(commits, 0, sizeof(*commits));
    if (!lane->takeover)
        return RC_OK;
    assert(broker->claim && broker->claimed && broker->commit);
    commits->broker = *broker;
    commits->takeover = lane->takeover;
    commits->takeover->maker = seed;
    commits->rng = seed;
    commits->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    commits->seqs_max = 2;
    while (commits->seqs_max < 2 * UNSAVED_WINDOWS * window)
        commits->seqs_max *= 2;
    commits->unsaved_max = (int64_t)commits->seqs_max / 2;
    if (lane->own->keep_ms >= 0 && commits->unsaved_max > unsaved_max)
        commits->unsaved_max = unsaved_max;
    commits->seqs = calloc(commits->seqs_max, sizeof(*commits->seqs));
    commits->sorted = calloc(commits->seqs_max, sizeof(*commits->sorted));
    commits->held = calloc(lane->block_count, sizeof(struct seqs *));
    commits->lane = lane;
    if (commits->seqs && commits->sorted && commits->held)
        return RC_OK;
    commits_done(commits);
    return err_fail(err, RC_FATAL, 0, "no memory for the transactions of lane %s", lane->name);
}

void commits_done(struct commits *commits)
{
    if (!commits->lane)
        return;
    position_record_done(&commits->committed);
    position_record_done(&commits->next);
    buf_done(&commits->after.before);
    free(commits->seqs);
    free(commits->sorted);
    free(commits->held);
    commits->lane = NULL;
}
