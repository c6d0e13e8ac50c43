/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_reader.h"

#include "common/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000
/* Wait after RC_FATAL, a failure that an operator must end. */
#define FATAL_WAIT_MS 3000

/* A position is noted after this time, and so often that the window holds half of the marks. */
#define MARK_MS 100

/* How long after a row was left the stream is read again for it. The diverter moves some hundred
 * rows meanwhile. */
#define LEFT_WAIT_MS 200

static void release_row(struct stream_reader *reader, int64_t row, enum seqs_kind kind)
{
    reader->with_others--;
    if (kind == SEQS_DONE) {
        row_progress_end(&reader->progress, row);
        return;
    }
    row_progress_return(&reader->progress, row);
    if (kind == SEQS_REREAD && row < reader->reread_from)
        reader->reread_from = row;
}

static void release_block_rows(struct stream_reader *reader, struct seqs *block, int64_t now_ms)
{
    if (block->kind == SEQS_LEFT && !reader->has_left) {
        reader->has_left = true;
        reader->left_ms = now_ms;
    }
    for (size_t i = 0; i < block->count; i++)
        release_row(reader, block->list[i], block->kind);
    block->count = 0;
    block->kind = SEQS_DONE;
    ring_give(&reader->lane->empty_blocks, block);
}

/* Takes batches before blocks, as take_returned() of reader.c. */
static void take_returned(struct stream_reader *reader, int64_t now_ms)
{
    struct lane *lane = reader->lane;
    struct relay_batch *batch;
    struct seqs *block;
    bool any = false;

    while ((batch = ring_take(&lane->empty_batches))) {
        reader->with_sender--;
        stream_pump_give(reader->pump, &reader->batches[batch - lane->batches]);
    }
    while ((block = ring_take(&lane->dropped_blocks))) {
        release_block_rows(reader, block, now_ms);
        any = true;
    }
    while ((block = ring_take(&lane->deleted_blocks))) {
        release_block_rows(reader, block, now_ms);
        any = true;
    }
    if (any)
        lane_wake(lane, LANE_SENDER);
}

/* The lane is current while it waits at the end of the stream and all rows are done. While rows
 * come one after the other, it was current when the stream was at its end last before the lowest
 * row that is not done. */
static void update_metrics(struct stream_reader *reader, int64_t now_ms)
{
    struct relay_metrics *metrics = reader->lane->metrics;
    bool is_done = reader->progress.low > reader->progress.read;

    if (reader->end_ms > 0 && reader->progress.low > reader->end_row) {
        reader->current_ms = reader->end_ms;
        reader->end_ms = 0;
    }
    if (reader->at_end && is_done)
        reader->current_ms = now_ms;
    metric_set(&metrics->in_window, (int64_t)reader->with_others);
    metric_set(&metrics->rows, reader->progress.read + 1 - reader->progress.low);
    metric_set(&metrics->oldest_age, now_ms - reader->current_ms);
}

static int64_t record_failure(struct stream_reader *reader, int64_t now_ms, enum rc rc,
                              const struct err *err)
{
    int64_t wait_ms = FATAL_WAIT_MS;

    condition_fail(&reader->lane->reading, now_ms, err);
    if (rc != RC_FATAL)
        wait_ms = backoff_next_ms(&reader->backoff, rng_next(&reader->rng));
    reader->retry_ms = now_ms + wait_ms;
    return wait_ms < LANE_WAIT_MS ? wait_ms : LANE_WAIT_MS;
}

/* Swaps, so that the memory of both is used again. */
static void swap_positions(struct stream_position *a, struct stream_position *b)
{
    struct stream_position position = *a;

    *a = *b;
    *b = position;
}

/* Marks the position behind the last batch, if that is due or at_once. */
static void mark_position(struct stream_reader *reader, bool at_once, int64_t now_ms)
{
    const int64_t rows_per_mark = (int64_t)(reader->progress.rows_max / (PROGRESS_MARKS_MAX / 2));
    struct stream_position *mark;

    if (!reader->has_passed)
        return;
    if (!at_once && now_ms - reader->mark_ms < MARK_MS &&
        reader->progress.read - reader->mark_row < rows_per_mark)
        return;
    mark = row_progress_mark(&reader->progress);
    if (mark)
        swap_positions(mark, &reader->passed);
    reader->has_passed = false;
    reader->mark_row = reader->progress.read;
    reader->mark_ms = now_ms;
}

static void stop_reading(struct stream_reader *reader, int64_t now_ms)
{
    mark_position(reader, true, now_ms);
    if (reader->reads)
        stream_pump_close(reader->pump);
    reader->reads = false;
    reader->at_end = false;
    reader->end_ms = 0;
}

/* Reads the position of the lane, or where the log ends now if it has none. That one is saved
 * before a row is sent: a lane that is killed must not begin further behind. */
static enum rc load_position(struct stream_reader *reader, int64_t epoch, struct err *err)
{
    struct stream_position *start = row_progress_begin(&reader->progress);
    struct position_store *positions = &reader->positions;
    bool found = false;
    enum rc rc;

    stream_keeper_begin(reader->keeper);
    reader->added = reader->progress.read;
    rc = positions->load(positions->ctx, start, &found, err);
    if (rc == RC_OK && !found)
        rc = positions->begin(positions->ctx, start, err);
    if (rc == RC_OK &&
        !stream_keeper_offer(reader->keeper, start, reader->progress.read, epoch, true))
        rc = err_fail(err, RC_FATAL, 0, "no memory for a position");
    return rc;
}

/* Whether the position is saved at which the lane begins. If the keeper dropped it, because the
 * lease had a gap or another process has taken it, it is offered again. */
static bool first_is_saved(struct stream_reader *reader, int64_t epoch, int64_t now_ms)
{
    const struct progress_mark *first = &reader->progress.marks[0];

    if (stream_keeper_is_saved(reader->keeper))
        return true;
    if (stream_keeper_is_settled(reader->keeper)) {
        stream_keeper_offer(reader->keeper, &first->position, first->row, epoch, true);
        reader->retry_ms = now_ms + LANE_WAIT_MS;
    }
    return false;
}

static int64_t begin_reading(struct stream_reader *reader, int64_t epoch, int64_t now_ms)
{
    struct lane *lane = reader->lane;
    struct err err = {0};
    enum rc rc;

    if (now_ms < reader->retry_ms)
        return LANE_WAIT_MS;
    if (reader->begun_epoch != epoch) {
        rc = load_position(reader, epoch, &err);
        if (rc != RC_OK)
            return record_failure(reader, now_ms, rc, &err);
        reader->begun_epoch = epoch;
    }
    if (!first_is_saved(reader, epoch, now_ms))
        return LANE_WAIT_MS;
    reader->epoch = epoch;
    reader->scan++;
    atomic_store(&lane->scan, (long long)reader->scan);
    atomic_store(&lane->from_start, false);
    /* The epoch may be that of before: rows have returned in a gap of the lease. */
    reader->reread_from = reader->progress.low;
    reader->has_left = false;
    reader->mark_row = reader->progress.read;
    reader->mark_ms = now_ms;
    reader->current_ms = now_ms;
    return 0;
}

/* Adds the seqs of the rows up to this one to the keeper. */
static void add_seqs(struct stream_reader *reader, int64_t row)
{
    const int64_t rows_max = (int64_t)reader->progress.rows_max;

    for (int64_t from = reader->added + 1; from <= row;) {
        int64_t at = from & (rows_max - 1);
        int64_t count = row + 1 - from < rows_max - at ? row + 1 - from : rows_max - at;

        stream_keeper_add(reader->keeper, reader->seqs + at, (size_t)count);
        from += count;
    }
}

/* Returns false when the keeper has no room for the seqs of rows that are done. */
static bool offer_position(struct stream_reader *reader, int64_t now_ms)
{
    const struct row_progress *progress = &reader->progress;
    const struct stream_position *reached;
    int64_t row;

    /* Without this lease nothing can be saved. */
    if (reader->begun_epoch == 0 || lane_epoch(reader->lane, now_ms) != reader->begun_epoch)
        return true;
    if (reader->seqs &&
        !stream_keeper_has_room(reader->keeper, (size_t)(progress->low - 1 - reader->added)))
        return false;
    reached = row_progress_reached(&reader->progress);
    if (!reached)
        return true;
    row = progress->marks[0].row;
    if (reader->seqs)
        add_seqs(reader, row);
    /* Without memory a later position is offered. */
    if (stream_keeper_offer(reader->keeper, reached, row, reader->begun_epoch, false))
        reader->added = row;
    return true;
}

/* Ends reading under the old lease. Once every row and batch has returned and the last position is
 * saved, begins under the new one, if this process has one. A lease that goes on after a gap has
 * its epoch still, and so the lane goes on behind the rows that are done. */
static int64_t change_lease(struct stream_reader *reader, int64_t epoch, int64_t now_ms)
{
    struct lane *lane = reader->lane;

    if (reader->epoch != 0) {
        stop_reading(reader, now_ms);
        reader->epoch = 0;
        reader->retry_ms = 0;
    }
    if (reader->with_others > 0 || reader->with_sender > 0) {
        lane_wake(lane, LANE_SENDER);
        lane_wake(lane, LANE_DELETER);
        return LANE_WAIT_MS;
    }
    if (epoch == 0) {
        if (!offer_position(reader, now_ms))
            return LANE_WAIT_MS;
        if (!stream_keeper_is_settled(reader->keeper)) {
            lane_wake(lane, LANE_DELETER);
            return LANE_WAIT_MS;
        }
        metric_set(&lane->metrics->rows, 0);
        metric_set(&lane->metrics->oldest_age, 0);
        condition_ok(&lane->reading, now_ms);
        atomic_store(&lane->lease.idle, true);
        return LANE_WAIT_MS;
    }
    atomic_store(&lane->lease.idle, false);
    return begin_reading(reader, epoch, now_ms);
}

/* Tells the pump to read from the last position that is not behind `row`. */
static enum rc read_from(struct stream_reader *reader, int64_t row, struct err *err)
{
    enum rc rc = stream_pump_read(reader->pump, row_progress_rewind(&reader->progress, row), err);

    reader->reads = rc == RC_OK;
    reader->at_end = false;
    reader->end_ms = 0;
    reader->has_passed = false;
    reader->mark_row = reader->progress.read;
    return rc;
}

/* Invariant R6: all batches have returned, so the sender handles no row of an older full scan after
 * this. */
static void begin_full_scan(struct stream_reader *reader)
{
    reader->scan++;
    atomic_store(&reader->lane->scan, (long long)reader->scan);
    reader->has_left = false;
    reader->reread_from = reader->progress.low;
}

/* Whether a full scan is due. It has to wait until every batch has returned. */
static bool full_scan_is_due(struct stream_reader *reader, int64_t now_ms)
{
    bool requested = atomic_load(&reader->lane->full_scan_requested);

    if (!reader->has_left) {
        if (requested)
            atomic_store(&reader->lane->full_scan_requested, false);
        return false;
    }
    return requested || now_ms - reader->left_ms >= LEFT_WAIT_MS;
}

/* Opens the stream again where that is needed: rows were returned, a full scan begins, or the
 * stream has failed. */
static enum rc rewind_stream(struct stream_reader *reader, struct err *err)
{
    int64_t row = reader->reread_from;

    if (atomic_exchange(&reader->lane->from_start, false)) {
        begin_full_scan(reader);
        row = reader->reread_from;
    }
    if (row == INT64_MAX && reader->reads)
        return RC_OK;
    if (row > reader->progress.read + 1)
        row = reader->progress.read + 1;
    reader->reread_from = INT64_MAX;
    return read_from(reader, row, err);
}

/* Numbers the rows of a batch and keeps those that are to be passed on. */
static void number_rows(struct stream_reader *reader, struct relay_batch *batch)
{
    size_t kept = 0;

    for (size_t i = 0; i < batch->count; i++) {
        bool is_wanted;
        int64_t number;

        is_wanted = row_progress_take(&reader->progress, &number);
        if (reader->seqs)
            reader->seqs[(size_t)number & (reader->progress.rows_max - 1)] =
                batch->rows[i].table_seq;
        if (!is_wanted)
            continue;
        batch->rows[kept] = batch->rows[i];
        batch->rows[kept].seq = number;
        batch->rows[kept].epoch = reader->epoch;
        kept++;
    }
    batch->count = kept;
    reader->with_others += kept;
}

static void pass_batch(struct stream_reader *reader, struct pump_batch *batch, int64_t now_ms)
{
    struct relay_batch *rows = batch->rows;

    number_rows(reader, rows);
    swap_positions(&reader->passed, &batch->after);
    reader->has_passed = true;
    mark_position(reader, false, now_ms);
    reader->at_end = batch->at_end;
    if (batch->at_end && reader->end_ms == 0) {
        reader->end_ms = now_ms;
        reader->end_row = reader->progress.read;
    }
    if (rows->count == 0) {
        stream_pump_give(reader->pump, batch);
        return;
    }
    rows->epoch = reader->epoch;
    rows->scan = reader->scan;
    rows->next = 0;
    reader->with_sender++;
    ring_give(&reader->lane->filled_batches, rows);
    lane_wake(reader->lane, LANE_SENDER);
}

/* How many rows may be read now. The seqs of rows that the keeper does not have yet need places,
 * too. */
static size_t reading_room(const struct stream_reader *reader)
{
    const struct row_progress *progress = &reader->progress;

    if (!reader->seqs)
        return row_progress_room(progress);
    return progress->rows_max - (size_t)(progress->read - reader->added);
}

static int64_t pass_batches(struct stream_reader *reader, int64_t now_ms)
{
    struct pump_batch *batch;

    while ((batch = stream_pump_peek(reader->pump)) && reading_room(reader) >= batch->rows->count) {
        condition_ok(&reader->lane->reading, now_ms);
        backoff_reset(&reader->backoff);
        pass_batch(reader, stream_pump_take(reader->pump), now_ms);
    }
    return LANE_WAIT_MS;
}

void stream_reader_done(struct stream_reader *reader)
{
    if (!reader->lane)
        return;
    free(reader->seqs);
    row_progress_done(&reader->progress);
    buf_done(&reader->passed.before);
    for (size_t i = 0; i < LANE_BATCHES; i++)
        buf_done(&reader->batches[i].after.before);
    reader->lane = NULL;
}

enum rc stream_reader_init(struct stream_reader *reader, struct lane *lane,
                           struct stream_pump *pump, struct stream_keeper *keeper,
                           const struct position_store *positions, uint64_t seed, struct err *err)
{
    size_t window = (size_t)lane->settings->relay.window_rows_max;

    memset(reader, 0, sizeof(*reader));
    reader->lane = lane;
    reader->pump = pump;
    reader->keeper = keeper;
    reader->positions = *positions;
    reader->rng = seed;
    reader->reread_from = INT64_MAX;
    reader->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    while (ring_take(&lane->empty_batches))
        continue;
    for (size_t i = 0; i < LANE_BATCHES; i++) {
        struct relay_batch *rows = &lane->batches[i];

        /* Each batch fits into the window. */
        if (rows->rows_max > window)
            rows->rows_max = window;
        reader->batches[i].rows = rows;
        stream_pump_give(pump, &reader->batches[i]);
    }
    if (row_progress_init(&reader->progress, window, err) != RC_OK)
        return RC_FATAL;
    if (lane->own->keep_ms < 0)
        return RC_OK;
    reader->seqs = calloc(reader->progress.rows_max, sizeof(*reader->seqs));
    if (reader->seqs && stream_keeper_save_seqs(keeper, reader->progress.rows_max, err) == RC_OK)
        return RC_OK;
    stream_reader_done(reader);
    return err_fail(err, RC_FATAL, 0, "no memory for the seqs of %zu rows", window);
}

static int64_t step_reading(struct stream_reader *reader, int64_t now_ms)
{
    struct err err = {0};
    enum rc rc = RC_OK;

    if (stream_pump_failed(reader->pump, &rc, &err)) {
        reader->reads = reader->at_end = false;
        return record_failure(reader, now_ms, rc, &err);
    }
    if (now_ms < reader->retry_ms)
        return LANE_WAIT_MS;
    if (full_scan_is_due(reader, now_ms)) {
        if (reader->with_sender > 0)
            return LANE_WAIT_MS;
        atomic_store(&reader->lane->full_scan_requested, false);
        begin_full_scan(reader);
        /* As in reader.c: a row in flight without a batch may have been left meanwhile. */
        take_returned(reader, now_ms);
    }
    rc = rewind_stream(reader, &err);
    if (rc != RC_OK)
        return record_failure(reader, now_ms, rc, &err);
    return pass_batches(reader, now_ms);
}

int64_t stream_reader_step(void *arg, int64_t now_ms)
{
    struct stream_reader *reader = arg;
    struct lane *lane = reader->lane;
    bool holding = lane_grant_hold(reader->lane);
    int64_t epoch = atomic_load(&lane->lease.draining) ? 0 : lane_epoch(lane, now_ms);
    int64_t wait_ms = LANE_WAIT_MS;

    take_returned(reader, now_ms);
    mark_position(reader, false, now_ms);
    offer_position(reader, now_ms);
    if (epoch == 0 || epoch != reader->epoch)
        return change_lease(reader, holding ? 0 : epoch, now_ms);
    if (!holding)
        wait_ms = step_reading(reader, now_ms);
    update_metrics(reader, now_ms);
    return wait_ms;
}
