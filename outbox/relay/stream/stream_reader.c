/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_reader.h"

#include "common/hash.h"
#include "common/log.h"
#include "outbox/relay/exact/takeover.h"
#include "outbox/relay/fallback/lost_log.h"
#include "outbox/relay/stream/seq_ranges.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000
/* Wait after RC_FATAL, a failure that an operator must end. */
#define FATAL_WAIT_MS 3000

/* A position is noted after this time, and so often that the window holds half of the marks. */
#define MARK_MS 100

/* Wait after the fallback has refused: it has read the whole table to find that out. */
#define REFUSED_WAIT_MS 30000

/* The seqs of so many windows of rows may be lost when a process is killed: those in the window,
 * those that wait in the keeper, and those that it saves. */
#define UNSAVED_WINDOWS 3

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

/* Whether the lane waits at the end of the stream and all rows are done. */
static bool is_current(const struct stream_reader *reader)
{
    return reader->at_end && reader->progress.low > reader->progress.read;
}

/* The lane is current while it waits at the end of the stream and all rows are done. While rows
 * come one after the other, it was current when the stream was at its end last before the lowest
 * row that is not done. */
static void update_metrics(struct stream_reader *reader, int64_t now_ms)
{
    struct relay_metrics *metrics = reader->lane->metrics;

    if (reader->end_ms > 0 && reader->progress.low > reader->end_row) {
        reader->current_ms = reader->end_ms;
        reader->end_ms = 0;
    }
    if (is_current(reader))
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
        stream_position_swap(mark, &reader->passed);
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

/* The lane holds no row, and begins with what the next database knows. */
static void accept_database(struct stream_reader *reader)
{
    if (reader->positions.accept)
        reader->positions.accept(reader->positions.ctx);
}

/* The cleaner of this lease deletes rows of this kind. */
static enum rc read_kind(struct stream_reader *reader, struct err *err)
{
    struct position_store *positions = &reader->positions;

    return reader->seqs ? positions->kind(positions->ctx, &reader->kind, err) : RC_OK;
}

static void begin_keeper(struct stream_reader *reader)
{
    stream_keeper_begin(reader->keeper);
    reader->added = reader->progress.read;
    reader->emptied_row = -1;
    reader->tell_emptied = false;
    reader->has_read = false;
}

static void leave_log(struct stream_reader *reader, int64_t epoch)
{
    reader->place = READER_LEAVES_LOG;
    reader->place_epoch = epoch;
    reader->hurried = false;
}

/* Reads the position of the lane, or where the log ends now if it has none. That one is saved
 * before a row is sent: a lane that is killed must not begin further behind. */
static enum rc load_position(struct stream_reader *reader, int64_t epoch, struct err *err)
{
    struct stream_position *start = row_progress_begin(&reader->progress);
    struct position_store *positions = &reader->positions;
    bool found = false;
    enum rc rc;

    begin_keeper(reader);
    accept_database(reader);
    rc = positions->load(positions->ctx, start, &found, err);
    if (rc == RC_OK)
        rc = read_kind(reader, err);
    if (rc == RC_OK && found && start->from_table) {
        leave_log(reader, epoch);
        return RC_OK;
    }
    if (rc == RC_OK && !found)
        rc = positions->begin(positions->ctx, start, err);
    if (rc == RC_OK &&
        !stream_keeper_offer(reader->keeper, start, reader->progress.read, epoch, true))
        rc = err_fail(err, RC_FATAL, 0, "no memory for a position");
    return rc;
}

/* The seqs of rows that are done, and that relay_published may not have. More than fit were
 * recorded only by a process with a larger window. */
static enum rc add_record_seqs(struct stream_reader *reader, struct err *err)
{
    const struct buf *seqs = &reader->record.seqs;
    struct seq_ranges from = {.data = seqs->data, .len = seqs->len};
    struct seq_range range;
    size_t count = 1;
    size_t left = reader->keeper->done_max;
    enum rc rc = RC_OK;

    while (rc == RC_OK && count > 0 && left > 0) {
        rc = seq_ranges_read(&from, &range, 1, left, &count, err);
        for (int64_t seq = range.from; rc == RC_OK && count > 0 && seq <= range.to; seq++) {
            stream_keeper_add(reader->keeper, &seq, NULL, 1);
            left--;
        }
    }
    return rc;
}

/* The sender has written the first position. */
static enum rc use_record(struct stream_reader *reader, int64_t epoch, struct err *err)
{
    struct stream_position *start = row_progress_begin(&reader->progress);
    enum rc rc = RC_OK;

    begin_keeper(reader);
    if (reader->record.emptied)
        stream_keeper_note_emptied(reader->keeper);
    if (!stream_position_copy(start, &reader->record.position))
        return err_fail(err, RC_FATAL, 0, "no memory for a position");
    if (reader->seqs && reader->kind == PUBLISHED_BY_SEQ)
        rc = add_record_seqs(reader, err);
    if (rc == RC_OK &&
        !stream_keeper_offer(reader->keeper, start, reader->progress.read, epoch, true))
        rc = err_fail(err, RC_FATAL, 0, "no memory for a position");
    row_progress_skip(&reader->progress, reader->record.rows);
    return rc;
}

/* Why the rows of the table cannot be published from it, or NULL. */
static const char *find_obstacle(const struct stream_reader *reader, bool has_position)
{
    return lost_log_obstacle(reader->lane->own, !reader->seqs || reader->kind == PUBLISHED_BY_SEQ,
                             has_position);
}

/* A server that has lost transactions gives their GTIDs and places to others, so it may have all of
 * them later, and yet the lane must not go on there. */
static enum rc check_log(struct stream_reader *reader, struct err *err)
{
    const struct position_store *positions = &reader->positions;
    const char *lane = reader->lane->name;
    char ways[LOST_LOG_TEXT_SIZE];
    enum rc rc = RC_OK;

    if (!reader->log_went_back && positions->check_log)
        rc = positions->check_log(positions->ctx, &reader->record.position, err);
    if (rc == RC_REJECT)
        reader->log_went_back = true;
    if (!reader->log_went_back)
        return rc;
    lost_log_put_ways(ways, lane, find_obstacle(reader, true));
    return err_fail(err, RC_FATAL, 0,
                    "the server lacks transactions before the position of lane %s in Kafka: they "
                    "are lost, or it lags behind. If it lags, start the relay again later. Else "
                    "stop its relays, and %s",
                    lane, ways);
}

/* The window has to hold the rows behind the position that are done. */
static enum rc check_record(struct stream_reader *reader, struct err *err)
{
    const struct position_record *record = &reader->record;

    if (record->rows > reader->progress.rows_max)
        return err_fail(err, RC_FATAL, 0,
                        "the position of lane %s in Kafka has %" PRIu64 " published rows behind "
                        "it: set relay.window_rows_max to that number or more, as it was when they "
                        "were published",
                        reader->lane->name, record->rows);
    return check_log(reader, err);
}

/* Decides where the lane begins, when the sender has read what is in Kafka. */
static enum rc choose_record(struct stream_reader *reader, bool found_record, int64_t epoch,
                             struct err *err)
{
    struct takeover *takeover = reader->lane->takeover;
    struct position_store *positions = &reader->positions;
    struct stream_position saved = {0};
    struct takeover_facts facts = {.lane = reader->lane->name,
                                   .epoch = epoch,
                                   .maker = takeover->maker,
                                   .found = found_record,
                                   .saved = &saved};
    enum takeover_choice choice = TAKEOVER_BEGIN;
    enum rc rc = positions->load(positions->ctx, &saved, &facts.saved_found, err);

    if (rc == RC_OK)
        rc = read_kind(reader, err);
    facts.obstacle = find_obstacle(reader, facts.saved_found);
    if (rc == RC_OK)
        rc = takeover_choose(&reader->record, &facts, &choice, err);
    buf_done(&saved.before);
    if (rc == RC_OK && choice == TAKEOVER_USE_RECORD)
        rc = check_record(reader, err);
    if (rc == RC_OK && choice == TAKEOVER_BEGIN)
        rc = positions->begin(positions->ctx, &reader->record.position, err);
    if (rc == RC_OK)
        rc = takeover_ask_write(takeover, &reader->record, reader->progress.high, err);
    return rc;
}

/* One step of a lane that publishes exactly once. The sender logs what fails in Kafka. */
static int64_t take_over(struct stream_reader *reader, int64_t epoch, int64_t now_ms)
{
    struct lane *lane = reader->lane;
    struct err err = {0};
    bool found = false;
    enum rc answer = RC_OK;
    enum rc rc = RC_OK;

    /* Until the record of this lease is written, no position is offered to the keeper under it. */
    if (reader->takeover == READER_ASKS || reader->takeover_epoch != epoch) {
        reader->begun_epoch = 0;
        reader->takeover_epoch = epoch;
        reader->takeover = READER_READS;
        /* Other connections of the lane are made while the sender reads. */
        accept_database(reader);
        atomic_store(&lane->takeover->reload, false);
        takeover_ask_read(lane->takeover);
        lane_wake(lane, LANE_SENDER);
        return LANE_WAIT_MS;
    }
    if (!takeover_take_answer(lane->takeover, &reader->record, &found, &answer, &err))
        return LANE_WAIT_MS;
    if (answer != RC_OK) {
        reader->takeover = READER_ASKS;
        reader->retry_ms = now_ms + LANE_WAIT_MS;
        return LANE_WAIT_MS;
    }
    if (reader->takeover == READER_READS) {
        rc = choose_record(reader, found, epoch, &err);
        reader->takeover = READER_WRITES;
        lane_wake(lane, LANE_SENDER);
    } else {
        rc = use_record(reader, epoch, &err);
        reader->begun_epoch = epoch;
        reader->takeover = READER_HAS_POSITION;
    }
    if (rc == RC_OK)
        return 0;
    reader->begun_epoch = 0;
    reader->takeover = READER_ASKS;
    return record_failure(reader, now_ms, rc, &err);
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
    if (lane->takeover &&
        (reader->takeover != READER_HAS_POSITION || reader->takeover_epoch != epoch))
        return take_over(reader, epoch, now_ms);
    if (reader->begun_epoch != epoch) {
        rc = load_position(reader, epoch, &err);
        if (rc != RC_OK)
            return record_failure(reader, now_ms, rc, &err);
        if (reader->place != READER_IN_LOG) {
            reader->current_ms = now_ms;
            return 0;
        }
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

/* The rows before the table was emptied need not be added: they are in it no more. What an earlier
 * statement has removed is forgotten with what the last one has. */
static void tell_emptied(struct stream_reader *reader)
{
    stream_keeper_note_emptied(reader->keeper);
    if (reader->added < reader->emptied_row)
        reader->added = reader->emptied_row;
}

/* Adds the rows up to this one to the keeper. */
static void add_rows(struct stream_reader *reader, int64_t row)
{
    const int64_t rows_max = (int64_t)reader->progress.rows_max;
    bool by_id = reader->ids && reader->kind == PUBLISHED_BY_ID;

    for (int64_t from = reader->added + 1; from <= row;) {
        int64_t at = from & (rows_max - 1);
        int64_t count = row + 1 - from < rows_max - at ? row + 1 - from : rows_max - at;

        stream_keeper_add(reader->keeper, reader->seqs + at, by_id ? reader->ids + at : NULL,
                          (size_t)count);
        from += count;
    }
}

/* Returns false when the keeper has no room for the rows that are done. */
static bool offer_position(struct stream_reader *reader, int64_t now_ms)
{
    const struct row_progress *progress = &reader->progress;
    const struct stream_position *reached;
    bool tells;
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
    /* Such a position is behind the statement, see pass_batch(). */
    tells = reader->tell_emptied && row >= reader->emptied_row;
    if (tells)
        tell_emptied(reader);
    if (reader->seqs)
        add_rows(reader, row);
    /* Without memory a later position is offered. */
    if (!stream_keeper_offer(reader->keeper, reached, row, reader->begun_epoch, false))
        return true;
    reader->added = row;
    if (tells)
        reader->tell_emptied = false;
    return true;
}

/* Returns false while the fallback still works under an earlier lease. */
static bool return_to_log(struct stream_reader *reader)
{
    if (reader->place == READER_IN_TABLE && !reader->fallback.cancel(reader->fallback.ctx))
        return false;
    reader->place = READER_IN_LOG;
    return true;
}

/* Whether the keeper has saved all that is done. Nothing was offered of a lane that has left the
 * log under an earlier lease. */
static bool all_is_saved(struct stream_reader *reader, int64_t epoch, int64_t now_ms)
{
    const struct progress_mark *first = &reader->progress.marks[0];

    if (reader->begun_epoch != epoch)
        return true;
    if (!offer_position(reader, now_ms))
        return false;
    if (stream_keeper_is_saved(reader->keeper))
        return true;
    if (!reader->hurried || stream_keeper_is_settled(reader->keeper))
        reader->hurried =
            stream_keeper_offer(reader->keeper, &first->position, first->row, epoch, true);
    return false;
}

/* The bound of the rows that are published and not saved as published. */
static int64_t count_unsaved(const struct stream_reader *reader, int64_t epoch)
{
    const struct row_progress *progress = &reader->progress;

    if (reader->begun_epoch == epoch && reader->has_read && reader->added >= progress->high)
        return 0;
    return (int64_t)progress->rows_max * UNSAVED_WINDOWS;
}

/* One step while the lane leaves the log, and goes on from its table. The position in the database
 * is the fallback's then: nothing is offered until the lane begins again. */
static int64_t go_on_from_table(struct stream_reader *reader, int64_t epoch, int64_t now_ms)
{
    struct lane *lane = reader->lane;
    struct err err = {0};
    enum rc rc = RC_OK;

    if (reader->place == READER_LEAVES_LOG) {
        if (reader->with_others > 0 || reader->with_sender > 0) {
            lane_wake(lane, LANE_SENDER);
            lane_wake(lane, LANE_DELETER);
            return LANE_WAIT_MS;
        }
        if (!all_is_saved(reader, epoch, now_ms))
            return LANE_WAIT_MS;
        reader->fallback.begin(reader->fallback.ctx, epoch, count_unsaved(reader, epoch));
        reader->place = READER_IN_TABLE;
        reader->epoch = reader->begun_epoch = 0;
        return LANE_WAIT_MS;
    }
    if (!reader->fallback.ended(reader->fallback.ctx, &rc, &err))
        return LANE_WAIT_MS;
    reader->place = READER_IN_LOG;
    if (rc == RC_OK) {
        condition_ok(&lane->reading, now_ms);
        lane_begin_again(lane);
        return 0;
    }
    record_failure(reader, now_ms, rc, &err);
    if (rc == RC_FATAL)
        reader->retry_ms = now_ms + REFUSED_WAIT_MS;
    return LANE_WAIT_MS;
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
        reader->takeover = READER_ASKS;
    }
    if (!return_to_log(reader))
        return LANE_WAIT_MS;
    if (reader->with_others > 0 || reader->with_sender > 0) {
        lane_wake(lane, LANE_SENDER);
        lane_wake(lane, LANE_DELETER);
        return LANE_WAIT_MS;
    }
    if (epoch == 0) {
        reader->retry_ms = 0;
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
        return lane_rest_ms(lane, now_ms);
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

/* Notes what the keeper saves of a row, for it may be done long after the batch is used again. */
static void note_row(struct stream_reader *reader, int64_t number, const struct relay_row *row)
{
    const struct lane *lane = reader->lane;
    size_t at = (size_t)number & (reader->progress.rows_max - 1);

    reader->seqs[at] = reader->kind == PUBLISHED_BY_SEQ ? row->table_seq : 0;
    if (!reader->ids || reader->kind != PUBLISHED_BY_ID)
        return;
    if (published_id_set(&reader->ids[at], row->id) || reader->told)
        return;
    log_event(LOG_WARN, "rows_not_removed",
              "lane=%s table=%s text=\"an id is empty or longer than %d bytes\"", lane->name,
              lane->own->table, PUBLISHED_ID_BYTES_MAX);
    reader->told = true;
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
            note_row(reader, number, &batch->rows[i]);
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

/* The first time that the statement is read under this lease. */
static void note_emptied(struct stream_reader *reader)
{
    const struct lane *lane = reader->lane;

    if (reader->progress.read <= reader->emptied_row)
        return;
    reader->emptied_row = reader->progress.read;
    reader->tell_emptied = true;
    log_event(
        LOG_INFO, "table_emptied",
        "lane=%s table=%s text=\"by TRUNCATE or DROP TABLE: the seqs and ids of its published "
        "rows are forgotten, and rows before it in the log are published\"",
        lane->name, lane->own->table);
}

/* One at which no stream opens is left out, as long as there is room for the rows behind it. */
static bool may_pass(const struct stream_reader *reader, const struct stream_position *position)
{
    return stream_position_opens(position) ||
           reader->progress.read - reader->mark_row > (int64_t)(reader->progress.rows_max / 2);
}

static void pass_batch(struct stream_reader *reader, struct pump_batch *batch, int64_t now_ms)
{
    struct relay_batch *rows = batch->rows;

    reader->has_read = true;
    number_rows(reader, rows);
    if (batch->emptied)
        note_emptied(reader);
    rows->emptied_row = reader->emptied_row;
    reader->has_passed = may_pass(reader, &batch->after);
    if (reader->has_passed && reader->lane->takeover && rows->count > 0)
        reader->has_passed = stream_position_copy(&reader->passed, &batch->after);
    else if (reader->has_passed)
        stream_position_swap(&reader->passed, &batch->after);
    rows->after = reader->lane->takeover ? &batch->after : NULL;
    rows->after_row = reader->progress.read;
    /* Invariant: the mark of emptied_row is behind the statement. */
    mark_position(reader, batch->emptied, now_ms);
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

/* How many rows may be read now. The seqs and ids of rows that the keeper does not have yet need
 * places, too. */
static size_t reading_room(const struct stream_reader *reader)
{
    const struct row_progress *progress = &reader->progress;

    if (!reader->seqs)
        return row_progress_room(progress);
    return progress->rows_max - (size_t)(progress->read - reader->added);
}

/* Whether only a batch, a request of another step or the lease gives the reader work. The step
 * before has offered the last position. */
static bool may_rest(const struct stream_reader *reader)
{
    return is_current(reader) && !reader->has_passed && !reader->has_left &&
           reader->with_others == 0 && reader->with_sender == 0;
}

static int64_t pass_batches(struct stream_reader *reader, int64_t now_ms)
{
    struct pump_batch *batch = stream_pump_peek(reader->pump);

    if (!batch && may_rest(reader))
        return lane_rest_ms(reader->lane, now_ms);
    /* Until this batch came. The reader may have slept for long. */
    if (is_current(reader))
        reader->current_ms = now_ms;
    while ((batch = stream_pump_peek(reader->pump)) && reading_room(reader) >= batch->rows->count) {
        condition_ok(&reader->lane->reading, now_ms);
        backoff_reset(&reader->backoff);
        pass_batch(reader, stream_pump_take(reader->pump), now_ms);
    }
    reader->at_end &= !batch; /* one that waits for room is not published */
    return LANE_WAIT_MS;
}

void stream_reader_done(struct stream_reader *reader)
{
    if (!reader->lane)
        return;
    free(reader->seqs);
    free(reader->ids);
    row_progress_done(&reader->progress);
    buf_done(&reader->passed.before);
    position_record_done(&reader->record);
    for (size_t i = 0; i < LANE_BATCHES; i++)
        buf_done(&reader->batches[i].after.before);
    reader->lane = NULL;
}

enum rc stream_reader_init(struct stream_reader *reader, struct lane *lane,
                           struct stream_pump *pump, struct stream_keeper *keeper,
                           const struct position_store *positions, uint64_t seed, struct err *err)
{
    size_t window = (size_t)lane->settings->relay.window_rows_max;
    bool with_ids = lane->own->keep_ids_max > 0;

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
    if (with_ids)
        reader->ids = calloc(reader->progress.rows_max, sizeof(*reader->ids));
    /* A record in Kafka may have the seqs of as many rows (exact/commits.h). */
    if (reader->seqs && (reader->ids || !with_ids) &&
        stream_keeper_save_rows(keeper, (lane->takeover ? 2 : 1) * reader->progress.rows_max,
                                with_ids, err) == RC_OK)
        return RC_OK;
    stream_reader_done(reader);
    return err_fail(err, RC_FATAL, 0, "no memory for the seqs and ids of %zu rows", window);
}

void stream_reader_use_fallback(struct stream_reader *reader, const struct fallback_ops *fallback)
{
    reader->fallback = *fallback;
}

static int64_t step_reading(struct stream_reader *reader, int64_t now_ms)
{
    struct err err = {0};
    bool purged = false;
    enum rc rc = RC_OK;

    if (stream_pump_failed(reader->pump, &rc, &purged, &err)) {
        reader->reads = reader->at_end = false;
        if (purged && reader->fallback.begin) {
            stop_reading(reader, now_ms);
            leave_log(reader, reader->epoch);
            return 0;
        }
        /* The log may be gone when it is opened again. */
        mark_position(reader, true, now_ms);
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
    /* Whether a commit, or a move, was done is not known: nothing is read before Kafka tells.
     * Behind the rows that were returned then, which are not to be sent in the same term again. */
    if (lane->takeover && atomic_exchange(&lane->takeover->reload, false)) {
        if (reader->epoch != 0)
            stop_reading(reader, now_ms);
        reader->epoch = 0;
        reader->takeover = READER_ASKS;
    }
    mark_position(reader, false, now_ms);
    offer_position(reader, now_ms);
    if (reader->place != READER_IN_LOG && epoch == reader->place_epoch) {
        wait_ms = holding ? wait_ms : go_on_from_table(reader, epoch, now_ms);
        update_metrics(reader, now_ms);
        return wait_ms;
    }
    if (epoch == 0 || epoch != reader->epoch)
        return change_lease(reader, holding ? 0 : epoch, now_ms);
    if (!holding)
        wait_ms = step_reading(reader, now_ms);
    update_metrics(reader, now_ms);
    return wait_ms;
}
