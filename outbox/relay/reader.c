/* SPDX-License-Identifier: MIT */
#include "outbox/relay/reader.h"

#include "common/hash.h"
#include "common/log.h"

#include <inttypes.h>
#include <string.h>

/* The reader polls every poll_ms until this time after the last row, then every poll_idle_ms, or
 * every WATCHED_POLL_MS while it is told of each transaction that writes rows. */
#define BUSY_MS 1000
#define WATCHED_POLL_MS 1000

#define GAPS_PER_MS 100
#define GAPS_WAIT_MS_MAX 50
/* Interval of the queries for the metrics of the table, also of a lane whose lease is not held. */
#define LOOK_EVERY_MS 1000
#define LOOK_WITHOUT_LEASE_MS 5000
/* A read that passes many deleted rows is costly, so the reader then pauses for LOOK_PAUSE_FACTOR
 * times its duration. The pause is limited, because the server may have been slow for another
 * reason. The limit is below the default of admin.stale_ms: with a longer pause, a row that another
 * relay has published in the meantime would make this relay unready. */
#define LOOK_PAUSE_FACTOR 1000
#define LOOK_PAUSE_MS_MAX 30000
#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* A running cluster can be configured to accept writes on all its nodes. */
#define NODES_EVERY_MS 10000

/* Wait after RC_FATAL, a failure that an operator must end. */
#define FATAL_WAIT_MS 3000

/* While gaps are open, one part in GAP_SHARE of a batch is reserved for their rows. */
#define GAP_SHARE 8

/* Removes the rows of a block from the window and returns the block to the sender. If the rows have
 * to be read again, lowers reread_from to the lowest of them, otherwise *lowest. */
static void release_block_rows(struct reader *reader, struct seqs *block, int64_t *lowest)
{
    if (block->kind == SEQS_REREAD)
        lowest = &reader->reread_from;
    for (size_t i = 0; i < block->count; i++) {
        window_remove(&reader->window, block->list[i]);
        if (block->list[i] < *lowest)
            *lowest = block->list[i];
    }
    block->count = 0;
    block->kind = SEQS_DONE;
    ring_give(&reader->lane->empty_blocks, block);
}

/* Takes batches before blocks: the sender returns the blocks of a batch before the batch, so when
 * all batches have returned, every block that was filled from them is found here. */
static void take_returned(struct reader *reader)
{
    struct lane *lane = reader->lane;
    struct relay_batch *batch;
    struct seqs *block;
    int64_t deleted = INT64_MAX;
    bool any = false;

    while ((batch = ring_take(&lane->empty_batches)))
        reader->spare[reader->spare_count++] = batch;
    while ((block = ring_take(&lane->dropped_blocks))) {
        release_block_rows(reader, block, &reader->left_from);
        any = true;
    }
    while ((block = ring_take(&lane->deleted_blocks))) {
        release_block_rows(reader, block, &deleted);
        any = true;
    }
    if (any)
        lane_wake(lane, LANE_SENDER);
}

/* Invariant R6: all batches have returned, so the sender handles no row of an older full scan after
 * this (test_relay_moves). */
static void begin_full_scan(struct reader *reader)
{
    reader->scan++;
    atomic_store(&reader->lane->scan, (long long)reader->scan);
    reader->cursor = 0;
    reader->reread_from = INT64_MAX;
    reader->left_from = INT64_MAX;
    reader->scan_end = reader->high > 0 ? reader->high : 1;
}

/* The age grows with the local clock, also while the database cannot be read. */
static void update_age_metric(const struct reader *reader, int64_t now_ms)
{
    metric_set(&reader->lane->metrics->oldest_age,
               reader->has_rows ? now_ms - reader->oldest_ms : 0);
}

static enum rc read_oldest_and_newest(struct reader *reader, int64_t from, int64_t above,
                                      struct source_look *look, int64_t now_ms)
{
    enum rc rc = reader->source.look(reader->source.ctx, from, above, look, NULL);

    if (rc != RC_OK)
        return rc;
    if (look->oldest_seq != reader->oldest_seq)
        reader->oldest_seen_ms = now_ms;
    reader->oldest_seq = look->oldest_seq;
    reader->has_rows = look->oldest_seq > 0;
    reader->oldest_ms = now_ms - look->oldest_age_ms;
    /* If the creation time of the row is in the future, its age counts from when the reader first
     * saw the row. */
    if (reader->oldest_ms > reader->oldest_seen_ms)
        reader->oldest_ms = reader->oldest_seen_ms;
    return rc;
}

/* Returns the seq up to which each row was read, is in a gap, or was left in the table. A full scan
 * sets the cursor back, but the rows up to `high` were read before it. */
static int64_t read_up_to(const struct reader *reader)
{
    return reader->scan_end > 0 ? reader->high : reader->cursor;
}

/* Returns the lowest seq of a row that the reader knows of or has not read yet. */
static int64_t lowest_known(const struct reader *reader)
{
    int64_t from = reader->look_from;

    if (from > read_up_to(reader) + 1)
        from = read_up_to(reader) + 1;
    if (reader->gaps.count > 0 && reader->gaps.list[0].range.from < from)
        from = reader->gaps.list[0].range.from;
    return from;
}

static bool is_known(const struct reader *reader, int64_t seq)
{
    return seq > read_up_to(reader) || seq >= reader->left_from || seq >= reader->reread_from ||
           window_has(&reader->window, seq) || gaps_has(&reader->gaps, seq);
}

static void report_row_below_cursor(struct reader *reader, int64_t seq)
{
    log_event(LOG_WARN, "row_below_cursor",
              "lane=%s seq=%" PRId64 " cursor=%" PRId64 " text=\"the table was truncated, or a gap "
              "was closed too early: the lane is read from its lowest row\"",
              reader->lane->name, seq, reader->cursor);
    lane_request_full_scan(reader->lane);
}

static int64_t look_pause_ms(int64_t took_ms)
{
    return took_ms < LOOK_PAUSE_MS_MAX / LOOK_PAUSE_FACTOR ? LOOK_PAUSE_FACTOR * took_ms
                                                           : LOOK_PAUSE_MS_MAX;
}

/* Searches for rows below the cursor that were never read, when there is no row above it. A full
 * scan finds such rows by itself. oldest_seq is the lowest row from look_from on, or 0. */
static void look_for_restart(struct reader *reader, int64_t oldest_seq, int64_t now_ms)
{
    struct source_restart restart = {0};
    int64_t from_ms = lane_now(reader->lane, now_ms);
    bool low = now_ms >= reader->low_at_ms;
    struct err err;

    if (reader->high == 0 || reader->scan_end > 0)
        return;
    /* A failure is reported by the next poll. */
    if (reader->source.restart(reader->source.ctx, low ? lowest_known(reader) : 0, &restart,
                               NULL) != RC_OK)
        return;
    if (low)
        reader->low_at_ms = now_ms + look_pause_ms(lane_now(reader->lane, now_ms) - from_ms);
    if (restart.next_seq > 0 && restart.next_seq <= reader->high) {
        err_set(&err,
                "the next seq of table %s is %" PRId64 ", but seq %" PRId64
                " was read before: the table was truncated, or its AUTO_INCREMENT was lowered",
                reader->lane->name, restart.next_seq, reader->high);
        lane_origin_lost(reader->lane, &err);
    } else if (restart.low_seq > 0) {
        report_row_below_cursor(reader, restart.low_seq);
    } else if (oldest_seq > 0 && !is_known(reader, oldest_seq)) {
        report_row_below_cursor(reader, oldest_seq);
    }
}

/* Runs also while the sender holds the reader, because the age of the oldest row must grow. The
 * rows above the cursor were not read yet: their number is estimated from their seqs. */
static void update_row_metrics(struct reader *reader, int64_t now_ms)
{
    struct relay_metrics *metrics = reader->lane->metrics;
    struct source_look look = {0};
    int64_t above = read_up_to(reader);
    int64_t rows;

    metric_set(&metrics->open_gaps, (int64_t)reader->gaps.count);
    metric_set(&metrics->in_window, (int64_t)reader->window.count);
    update_age_metric(reader, now_ms);
    if (now_ms < reader->look_at_ms)
        return;
    reader->look_at_ms = now_ms + LOOK_EVERY_MS;
    /* A failure is reported by the next poll. */
    if (read_oldest_and_newest(reader, lowest_known(reader), above, &look, now_ms) != RC_OK)
        return;
    reader->look_from = look.oldest_seq > 0 ? look.oldest_seq : above + 1;
    rows = (int64_t)reader->window.count;
    if (look.newest_seq > above)
        rows += look.newest_seq - above;
    else if (rows == 0 && look.oldest_seq > 0)
        rows = 1;
    metric_set(&metrics->rows, rows);
    update_age_metric(reader, now_ms);
    if (look.newest_seq == 0)
        look_for_restart(reader, look.oldest_seq, now_ms);
}

static int64_t record_failure(struct reader *reader, int64_t now_ms, enum rc rc,
                              const struct err *err)
{
    int64_t wait_ms = FATAL_WAIT_MS;

    condition_fail(&reader->lane->reading, now_ms, err);
    if (rc != RC_FATAL)
        wait_ms = backoff_next_ms(&reader->backoff, rng_next(&reader->rng));
    reader->retry_ms = now_ms + wait_ms;
    return wait_ms < LOOK_EVERY_MS ? wait_ms : LOOK_EVERY_MS;
}

/* Accepts the database that the source is connected to now. That is safe because the lane holds no
 * row of another database. */
static enum rc begin_source(struct reader *reader, struct err *err)
{
    return reader->source.begin ? reader->source.begin(reader->source.ctx, err) : RC_OK;
}

/* Updates the metrics of a lane whose lease this process does not hold, because the holder may be
 * dead. The age is that of the last read: its holder publishes the row that was seen then, and a
 * row that is gone must not grow older. It grows while the table cannot be read. */
static void update_metrics_without_lease(struct reader *reader, int64_t now_ms)
{
    struct source_look look = {0};

    metric_set(&reader->lane->metrics->rows, 0);
    if (now_ms >= reader->look_at_ms) {
        int64_t from_ms = lane_now(reader->lane, now_ms);

        reader->look_at_ms = now_ms + LOOK_WITHOUT_LEASE_MS;
        if (read_oldest_and_newest(reader, 0, INT64_MAX, &look, now_ms) == RC_OK) {
            condition_ok(&reader->lane->reading, now_ms);
            update_age_metric(reader, now_ms);
            reader->age_grows = false;
            /* This read has no lower bound, so it may have passed many deleted rows. */
            reader->look_at_ms += look_pause_ms(lane_now(reader->lane, now_ms) - from_ms);
        } else {
            begin_source(reader, NULL);
            reader->age_grows = true;
        }
    }
    if (reader->age_grows)
        update_age_metric(reader, now_ms);
}

/* Ends reading under the old lease. Once every row and batch has returned, begins reading under the
 * new lease, if this process has one. */
static int64_t change_lease(struct reader *reader, int64_t epoch, int64_t now_ms)
{
    struct lane *lane = reader->lane;
    struct err err = {0};
    enum rc rc;

    if (reader->epoch != 0)
        reader->age_grows = true;
    reader->epoch = 0;
    if (reader->window.count > 0 || reader->spare_count < LANE_BATCHES) {
        lane_wake(lane, LANE_SENDER);
        lane_wake(lane, LANE_DELETER);
        return LANE_WAIT_MS;
    }
    if (epoch == 0) {
        update_metrics_without_lease(reader, now_ms);
        atomic_store(&lane->lease.idle, true);
        return LANE_WAIT_MS;
    }
    atomic_store(&lane->lease.idle, false);
    rc = begin_source(reader, &err);
    if (rc != RC_OK)
        return record_failure(reader, now_ms, rc, &err);
    gaps_clear(&reader->gaps);
    gap_closer_init(&reader->closer, lane->settings->relay.gap_wait_ms,
                    lane->settings->relay.gap_wait_multi_ms);
    reader->nodes_at_ms = now_ms;
    reader->high = 0;
    begin_full_scan(reader);
    reader->scan_end = 0;
    reader->full_scan_at_ms = now_ms + lane->settings->relay.full_scan_ms;
    reader->rows_next =
        1 + (size_t)(lane->settings->relay.read_bytes_max / lane->settings->relay.row_bytes_max);
    reader->look_at_ms = 0;
    reader->look_from = 0;
    reader->low_at_ms = now_ms;
    reader->epoch = epoch;
    return 0;
}

/* Sets the cursor below the lowest row to read again, so that it and all later rows are read in
 * order. Invariant R5 (mutant no-rewind). */
static void rewind_cursor(struct reader *reader)
{
    if (atomic_exchange(&reader->lane->from_start, false))
        begin_full_scan(reader);
    if (reader->reread_from == INT64_MAX)
        return;
    if (reader->cursor >= reader->reread_from)
        reader->cursor = reader->reread_from - 1;
    reader->reread_from = INT64_MAX;
}

/* Returns whether a full scan is due and has to wait until every batch has returned. Otherwise a
 * row of a diverted key could be left in the table after the full scan had skipped it, because it
 * was still in the window. */
static bool full_scan_must_wait(struct reader *reader, int64_t now_ms)
{
    if (reader->scan_end > 0 && reader->cursor >= reader->scan_end) {
        reader->scan_end = 0;
        reader->full_scan_at_ms = now_ms + reader->lane->settings->relay.full_scan_ms;
    }
    if (reader->scan_end > 0)
        return false;
    if (atomic_exchange(&reader->lane->full_scan_requested, false))
        reader->full_scan_at_ms = now_ms;
    if (now_ms < reader->full_scan_at_ms)
        return false;
    if (reader->spare_count < LANE_BATCHES)
        return true;
    begin_full_scan(reader);
    /* Rows may be in flight without a batch. If one of them is refused, the sender drops the row
     * and then reads the number of the scan: either this step gets the row back now, or the
     * sender reads the new number. */
    take_returned(reader);
    return false;
}

/* Invariant R2: under each lease this query succeeds before the first gap is closed
 * (test_relay_trouble). */
static enum rc query_nodes(struct reader *reader, int64_t now_ms, struct err *err)
{
    struct source_nodes nodes = {0};
    enum rc rc;

    if (!reader->source.nodes || now_ms < reader->nodes_at_ms)
        return RC_OK;
    rc = reader->source.nodes(reader->source.ctx, &nodes, err);
    if (rc != RC_OK)
        return rc;
    reader->nodes_at_ms = now_ms + NODES_EVERY_MS;
    reader->closer.several_nodes = nodes.what[0] != '\0';
    if (nodes.what[0] && !reader->nodes_logged)
        log_event(
            LOG_WARN, "several_writer_nodes",
            "lane=%s cluster=\"%s\" gap_wait_multi_ms=%" PRId64
            " text=\"transactions that are open on other nodes cannot be seen, so a gap stays open "
            "for gap_wait_multi_ms; write to one node only, and let the relay read there\"",
            reader->lane->name, nodes.what, reader->closer.gap_wait_multi_ms);
    reader->nodes_logged = nodes.what[0] != '\0';
    return RC_OK;
}

static enum rc close_gaps(struct reader *reader, int64_t now_ms, struct err *err)
{
    size_t closed = 0;
    enum rc rc =
        gap_closer_step(&reader->closer, &reader->gaps, &reader->source, now_ms, &closed, err);

    metric_add(&reader->lane->metrics->gaps_closed, (int64_t)closed);
    return rc;
}

/* Many open gaps make each poll expensive for the server, so the reader then polls less often. */
static int64_t idle_wait_ms(const struct reader *reader, int64_t now_ms)
{
    const struct settings *settings = reader->lane->settings;
    int64_t gaps_ms = (int64_t)(reader->gaps.count / GAPS_PER_MS);
    int64_t wait_ms = settings->relay.poll_ms;

    wait_ms += gaps_ms < GAPS_WAIT_MS_MAX ? gaps_ms : GAPS_WAIT_MS_MAX;
    if (now_ms - reader->busy_ms < BUSY_MS)
        return wait_ms;
    if (atomic_load(&reader->lane->watched))
        return WATCHED_POLL_MS;
    return wait_ms > settings->relay.poll_idle_ms ? wait_ms : settings->relay.poll_idle_ms;
}

struct poll {
    struct reader *reader;
    struct relay_batch *batch;
    size_t room;  /* rows that fit into the batch and the window */
    size_t seen;  /* rows that this statement returned */
    int64_t last; /* the last row that was added to the batch or skipped */
    bool cut;     /* a row did not fit */
    bool taken;   /* a row shows that another relay has taken the lane */
};

static bool collect_row(void *ctx, const struct relay_row *row)
{
    struct poll *poll = ctx;

    if (row->epoch != poll->reader->epoch) {
        poll->taken = true;
        return false;
    }
    poll->seen++;
    if (!window_has(&poll->reader->window, row->seq)) {
        if (poll->batch->count >= poll->room || !relay_batch_add(poll->batch, row)) {
            poll->cut = true;
            return false;
        }
    }
    poll->last = row->seq;
    return true;
}

/* Invariant R4: a row is used only if the lane's lease had the reader's epoch in the snapshot of
 * the row (mutant read-unfenced). After another relay has taken the lane, rows may be missing
 * because they were moved into the retry queue. A relay whose clock was stopped must not send their
 * successors. */
static enum rc read_ranges(struct poll *poll, const struct seq_range *ranges, size_t count,
                           size_t rows_max, struct err *err)
{
    const struct source *source = &poll->reader->source;
    enum rc rc;

    poll->seen = 0;
    poll->cut = false;
    rc = source->read(source->ctx, ranges, count, rows_max, collect_row, poll, err);
    if (rc == RC_OK && poll->taken)
        return err_fail(err, RC_RETRY, 0, "another relay has taken the lane");
    return rc;
}

/* Adapts the row limit of a statement to the size of rows: the server should not send many more
 * rows than fit into a batch. */
static void adapt_rows_next(struct reader *reader, const struct relay_batch *batch, size_t limit,
                            const struct poll *poll)
{
    size_t rows_max = (size_t)reader->lane->settings->relay.read_rows_max;
    size_t next = reader->rows_next;
    size_t fits;

    if (poll->cut && batch->count < poll->room)
        next = batch->count > 0 ? batch->count : 1;
    else if (poll->seen == limit && limit == next)
        next *= 2;
    if (batch->count > 0) {
        fits = batch->arena_size / (1 + batch->arena_used / batch->count);
        if (next > fits)
            next = fits;
    }
    if (next > rows_max)
        next = rows_max;
    reader->rows_next = next > 0 ? next : 1;
}

/* Reads the rows above the cursor. Sets *cursor to its new value if the poll succeeds. */
static enum rc read_new(struct poll *poll, int64_t *cursor, bool *more, struct err *err)
{
    struct reader *reader = poll->reader;
    const struct seq_range above = {reader->cursor + 1, INT64_MAX};
    size_t limit = reader->rows_next;
    size_t room = poll->room;
    enum rc rc;

    if (reader->gaps.count > 0)
        room -= room / GAP_SHARE > 0 ? room / GAP_SHARE : 1;
    if (limit > room)
        limit = room;
    *cursor = reader->cursor;
    *more = false;
    if (limit == 0)
        return RC_OK;
    poll->last = reader->cursor;
    rc = read_ranges(poll, &above, 1, limit, err);
    if (rc != RC_OK)
        return rc;
    *cursor = poll->last;
    *more = poll->cut || poll->seen == limit;
    /* No row is above. Rows that commit up to `high` later lie in gaps. */
    if (!*more && reader->high > *cursor)
        *cursor = reader->high;
    adapt_rows_next(reader, poll->batch, limit, poll);
    return RC_OK;
}

/* Reads one chunk of gaps. If a row does not fit, the rows above it must not be sent before it:
 * they are dropped, and the chunk is read again into the empty batch. */
static enum rc read_gap_chunk(struct poll *poll, const struct seq_range *ranges, size_t count,
                              bool *cut, struct err *err)
{
    size_t before = poll->batch->count;
    /* Merged gaps may contain rows of the window. These are skipped, so they must not use up the
     * limit. */
    size_t limit = poll->room + poll->reader->window.count + 1;
    enum rc rc = read_ranges(poll, ranges, count, limit, err);

    if (rc != RC_OK || !poll->cut)
        return rc;
    *cut = true;
    if (before == 0)
        return RC_OK;
    relay_batch_reset(poll->batch);
    return read_ranges(poll, ranges, count, limit, err);
}

/* Reads all open gaps at or below the old cursor, from the highest to the lowest. Sets *cut when
 * rows that were read before were dropped. */
static enum rc read_gaps(struct poll *poll, bool *cut, struct err *err)
{
    const struct reader *reader = poll->reader;
    struct seq_range ranges[READER_RANGES_MAX];
    size_t end = reader->gaps.count;
    enum rc rc = RC_OK;

    *cut = false;
    while (end > 0 && rc == RC_OK) {
        size_t count =
            gaps_ranges_down(&reader->gaps, end, reader->cursor, ranges, reader->ranges_max, &end);

        if (count > 0)
            rc = read_gap_chunk(poll, ranges, count, cut, err);
    }
    return rc;
}

static void log_merged_gaps(struct reader *reader, bool merged)
{
    if (merged && !reader->merge_logged)
        log_event(LOG_WARN, "gaps_merged",
                  "lane=%s gaps_max=%zu text=\"more missing seqs than relay.gaps_max: reading gets "
                  "slower, no row is lost\"",
                  reader->lane->name, reader->gaps.count_max);
    reader->merge_logged = reader->merge_logged || merged;
}

/* Records the rows of a poll that succeeded in window, gaps and cursor. */
static void take_rows(struct reader *reader, const struct relay_batch *batch, int64_t cursor,
                      int64_t now_ms)
{
    bool merged = false;

    for (size_t i = 0; i < batch->count; i++) {
        int64_t seq = batch->rows[i].seq;

        window_add(&reader->window, seq);
        if (seq < reader->look_from)
            reader->look_from = seq;
        if (seq <= reader->high) {
            if (gaps_remove(&reader->gaps, seq))
                metric_add(&reader->lane->metrics->gaps_found, 1);
            continue;
        }
        if (seq > reader->high + 1)
            merged |= gaps_add(&reader->gaps, reader->high + 1, seq - 1, now_ms);
        reader->high = seq;
    }
    reader->cursor = cursor;
    log_merged_gaps(reader, merged);
    if (reader->gaps.count < reader->gaps.count_max / 2)
        reader->merge_logged = false;
}

/* Runs one poll: reads rows into batch, and updates cursor, gaps and window if all statements
 * succeeded. The batch then holds the rows to send, possibly none. Sets *more when the next poll
 * should follow at once. */
static enum rc poll_table(struct reader *reader, struct relay_batch *batch, int64_t now_ms,
                          bool *more, struct err *err)
{
    struct poll poll = {
        .reader = reader,
        .batch = batch,
        .room = reader->window.count_max - reader->window.count,
    };
    int64_t cursor;
    bool cut;
    enum rc rc;

    relay_batch_reset(batch);
    if (poll.room > batch->rows_max)
        poll.room = batch->rows_max;
    rc = read_new(&poll, &cursor, more, err);
    if (rc == RC_OK)
        rc = read_gaps(&poll, &cut, err);
    if (rc != RC_OK) {
        relay_batch_reset(batch);
        return rc;
    }
    if (cut) {
        cursor = reader->cursor;
        *more = true;
    }
    relay_batch_sort(batch);
    /* The present time, not that of the step's begin, is first_ms of new gaps: the gap closer
     * compares it with the times of queries that other lanes have sent. */
    take_rows(reader, batch, cursor, lane_now(reader->lane, now_ms));
    return RC_OK;
}

static void pass_batch(struct reader *reader, struct relay_batch *batch, int64_t now_ms)
{
    batch->epoch = reader->epoch;
    batch->scan = reader->scan;
    reader->spare_count--;
    reader->busy_ms = now_ms;
    ring_give(&reader->lane->filled_batches, batch);
    lane_wake(reader->lane, LANE_SENDER);
}

static int64_t read_batch(struct reader *reader, int64_t now_ms)
{
    struct relay_batch *batch;
    struct err err = {0};
    bool more;
    enum rc rc;

    if (reader->spare_count == 0 || reader->window.count == reader->window.count_max)
        return LANE_WAIT_MS;
    /* A transaction is told of before its rows can be seen. */
    if (atomic_exchange(&reader->lane->written, false))
        reader->busy_ms = now_ms;
    batch = reader->spare[reader->spare_count - 1];
    rc = poll_table(reader, batch, now_ms, &more, &err);
    if (rc == RC_OK && batch->count > 0)
        pass_batch(reader, batch, now_ms);
    if (rc == RC_OK)
        rc = query_nodes(reader, now_ms, &err);
    if (rc == RC_OK)
        rc = close_gaps(reader, now_ms, &err);
    if (rc != RC_OK)
        return record_failure(reader, now_ms, rc, &err);
    condition_ok(&reader->lane->reading, now_ms);
    backoff_reset(&reader->backoff);
    return more ? 0 : idle_wait_ms(reader, now_ms);
}

enum rc reader_init(struct reader *reader, struct lane *lane, const struct source *source,
                    uint64_t seed, struct err *err)
{
    const struct settings *settings = lane->settings;
    enum rc rc;

    memset(reader, 0, sizeof(*reader));
    reader->lane = lane;
    reader->source = *source;
    reader->rng = seed;
    reader->ranges_max = READER_RANGES_MAX;
    reader->reread_from = INT64_MAX;
    reader->left_from = INT64_MAX;
    reader->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    gap_closer_init(&reader->closer, settings->relay.gap_wait_ms,
                    settings->relay.gap_wait_multi_ms);
    rc = gaps_init(&reader->gaps, (size_t)settings->relay.gaps_max, err);
    if (rc == RC_OK)
        rc = window_init(&reader->window, (size_t)settings->relay.window_rows_max, err);
    if (rc != RC_OK)
        reader_done(reader);
    return rc;
}

void reader_done(struct reader *reader)
{
    gaps_done(&reader->gaps);
    window_done(&reader->window);
}

int64_t reader_step(void *arg, int64_t now_ms)
{
    struct reader *reader = arg;
    struct lane *lane = reader->lane;
    bool holding = lane_grant_hold(reader->lane);
    int64_t epoch = atomic_load(&lane->lease.draining) ? 0 : lane_epoch(lane, now_ms);

    take_returned(reader);
    if (epoch == 0 || epoch != reader->epoch)
        return change_lease(reader, holding ? 0 : epoch, now_ms);
    if (now_ms < reader->retry_ms) {
        update_age_metric(reader, now_ms);
        return LANE_WAIT_MS;
    }
    update_row_metrics(reader, now_ms);
    if (holding)
        return LANE_WAIT_MS;
    rewind_cursor(reader);
    if (full_scan_must_wait(reader, now_ms))
        return LANE_WAIT_MS;
    return read_batch(reader, now_ms);
}
