/* SPDX-License-Identifier: MIT */
#include "outbox/relay/reader.h"

#include "common/hash.h"
#include "common/log.h"

#include <inttypes.h>
#include <string.h>

/* So long after the last row it polls as often as while rows come: a quiet second is no idle time
 * yet. */
#define BUSY_MS 1000

#define GAPS_PER_MS 100
#define GAPS_WAIT_MS_MAX 50
#define LOOK_EVERY_MS 1000
/* A lane that is somebody else's, or nobody's. */
#define LOOK_REST_MS 5000
/* A look that passes many deleted rows is costly: the reader pauses LOOK_PART times as long as it
 * took. The pause has a limit, because a slow server may have been the cause, once. The limit is
 * below the default of admin.stale_ms: with a longer pause a row that another relay published long
 * ago would make this relay unready. */
#define LOOK_PART 1000
#define LOOK_PAUSE_MS_MAX 30000
#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000

/* A cluster may be told to take writes on all its nodes while it runs. */
#define NODES_EVERY_MS 10000

/* Trouble that people must end is looked at this often. */
#define FATAL_WAIT_MS 3000

/* While gaps are open this part of a batch is kept for their rows. */
#define GAP_SHARE 8

/* The rows of a block are not under way any more; the block goes back to the sender. */
static void take_block(struct reader *reader, struct seqs *block, int64_t *lowest)
{
    if (block->reread)
        lowest = &reader->reread_from;
    for (size_t i = 0; i < block->count; i++) {
        window_remove(&reader->window, block->list[i]);
        if (block->list[i] < *lowest)
            *lowest = block->list[i];
    }
    block->count = 0;
    block->reread = false;
    ring_give(&reader->lane->empty_blocks, block);
}

/* The batches first: whoever sees all of them at home has seen every block that was filled from
 * them, because the sender gives a batch back last. */
static void take_back(struct reader *reader)
{
    struct lane *lane = reader->lane;
    struct relay_batch *batch;
    struct seqs *block;
    int64_t deleted = INT64_MAX;
    bool any = false;

    while ((batch = ring_take(&lane->empty_batches)))
        reader->spare[reader->spare_count++] = batch;
    while ((block = ring_take(&lane->dropped_blocks))) {
        take_block(reader, block, &reader->left_from);
        any = true;
    }
    while ((block = ring_take(&lane->deleted_blocks))) {
        take_block(reader, block, &deleted);
        any = true;
    }
    if (any)
        lane_wake(lane, LANE_SENDER);
}

/* Invariant: no batch is under way, so the sender meets no row of an older scan any more. */
static void begin_full_scan(struct reader *reader)
{
    reader->scan++;
    atomic_store(&reader->lane->scan, (long long)reader->scan);
    reader->cursor = 0;
    reader->reread_from = INT64_MAX;
    reader->left_from = INT64_MAX;
    reader->scan_end = reader->high > 0 ? reader->high : 1;
}

/* Whatever is away, what waited grows older. */
static void show_age(const struct reader *reader, int64_t now_ms)
{
    metric_set(&reader->lane->metrics->oldest_age, reader->waits ? now_ms - reader->oldest_ms : 0);
}

static enum rc look_once(struct reader *reader, int64_t from, int64_t above,
                         struct source_look *look, int64_t now_ms)
{
    enum rc rc = reader->source.look(reader->source.ctx, from, above, look, NULL);

    if (rc != RC_OK)
        return rc;
    if (look->oldest_seq != reader->oldest_seq)
        reader->oldest_seen_ms = now_ms;
    reader->oldest_seq = look->oldest_seq;
    reader->waits = look->oldest_seq > 0;
    reader->oldest_ms = now_ms - look->oldest_age_ms;
    /* A row that says to be of the future waits, too. */
    if (reader->oldest_ms > reader->oldest_seen_ms)
        reader->oldest_ms = reader->oldest_seen_ms;
    return rc;
}

/* Up to here every row is deleted, under way, in a gap, or left in the table. During a full scan
 * the cursor meets again what was read before. */
static int64_t read_up_to(const struct reader *reader)
{
    return reader->scan_end > 0 ? reader->high : reader->cursor;
}

/* The lowest seq at which a row may be that the reader knows of, or has not read yet. */
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

static void read_from_lowest(struct reader *reader, int64_t seq)
{
    log_event(LOG_WARN, "row_below_cursor",
              "lane=%s seq=%" PRId64 " cursor=%" PRId64 " text=\"the table was truncated, or a gap "
              "was closed too early: the lane is read from its lowest row\"",
              reader->lane->name, seq, reader->cursor);
    lane_request_full_scan(reader->lane);
}

static int64_t look_pause_ms(int64_t took_ms)
{
    return took_ms < LOOK_PAUSE_MS_MAX / LOOK_PART ? LOOK_PART * took_ms : LOOK_PAUSE_MS_MAX;
}

/* Nothing is above the cursor: are there rows below it that were never read? During a full scan
 * they are on the way to be found. oldest_seq: the lowest row from look_from on, or 0. */
static void look_for_restart(struct reader *reader, int64_t oldest_seq, int64_t now_ms)
{
    struct source_restart restart = {0};
    int64_t from_ms = lane_now(reader->lane, now_ms);
    bool low = now_ms >= reader->low_at_ms;
    struct err err;

    if (reader->high == 0 || reader->scan_end > 0)
        return;
    /* The next read meets the same trouble and tells. */
    if (reader->source.restart(reader->source.ctx, low ? lowest_known(reader) : 0, &restart,
                               NULL) != RC_OK)
        return;
    if (low)
        reader->low_at_ms = now_ms + look_pause_ms(lane_now(reader->lane, now_ms) - from_ms);
    if (restart.next_seq > 0 && restart.next_seq <= reader->high) {
        err_set(&err,
                "the table %s gives out seq %" PRId64 " next, and %" PRId64
                " was read before: TRUNCATE, or a lowered AUTO_INCREMENT",
                reader->lane->name, restart.next_seq, reader->high);
        lane_origin_lost(reader->lane, &err);
    } else if (restart.low_seq > 0) {
        read_from_lowest(reader, restart.low_seq);
    } else if (oldest_seq > 0 && !is_known(reader, oldest_seq)) {
        read_from_lowest(reader, oldest_seq);
    }
}

/* Also while nothing can be read on: a row that waits must be seen to grow older. Rows above the
 * cursor are counted by their seqs: nobody has read them yet. */
static void look(struct reader *reader, int64_t now_ms)
{
    struct relay_metrics *metrics = reader->lane->metrics;
    struct source_look look = {0};
    int64_t above = read_up_to(reader);
    int64_t rows;

    metric_set(&metrics->open_gaps, (int64_t)reader->gaps.count);
    metric_set(&metrics->in_window, (int64_t)reader->window.count);
    show_age(reader, now_ms);
    if (now_ms < reader->look_at_ms)
        return;
    reader->look_at_ms = now_ms + LOOK_EVERY_MS;
    /* The next read meets the same trouble and tells. */
    if (look_once(reader, lowest_known(reader), above, &look, now_ms) != RC_OK)
        return;
    reader->look_from = look.oldest_seq > 0 ? look.oldest_seq : above + 1;
    rows = (int64_t)reader->window.count;
    if (look.newest_seq > above)
        rows += look.newest_seq - above;
    else if (rows == 0 && look.oldest_seq > 0)
        rows = 1;
    metric_set(&metrics->rows, rows);
    show_age(reader, now_ms);
    if (look.newest_seq == 0)
        look_for_restart(reader, look.oldest_seq, now_ms);
}

static int64_t failed(struct reader *reader, int64_t now_ms, enum rc rc, const struct err *err)
{
    int64_t wait_ms = FATAL_WAIT_MS;

    condition_fail(&reader->lane->reading, now_ms, err);
    if (rc != RC_FATAL)
        wait_ms = backoff_next_ms(&reader->backoff, rng_next(&reader->rng));
    reader->retry_ms = now_ms + wait_ms;
    return wait_ms < LOOK_EVERY_MS ? wait_ms : LOOK_EVERY_MS;
}

/* Nothing is in hand: whatever database is there now is the right one. */
static enum rc begin_source(struct reader *reader, struct err *err)
{
    return reader->source.begin ? reader->source.begin(reader->source.ctx, err) : RC_OK;
}

/* Nobody else may be looking: the holder can be dead, or there may be none. */
static void look_at_rest(struct reader *reader, int64_t now_ms)
{
    struct source_look look = {0};

    metric_set(&reader->lane->metrics->rows, 0);
    if (now_ms >= reader->look_at_ms) {
        int64_t from_ms = lane_now(reader->lane, now_ms);

        reader->look_at_ms = now_ms + LOOK_REST_MS;
        if (look_once(reader, 0, INT64_MAX, &look, now_ms) == RC_OK) {
            condition_ok(&reader->lane->reading, now_ms);
            /* It knows no lower bound: it may have passed many deleted rows. */
            reader->look_at_ms += look_pause_ms(lane_now(reader->lane, now_ms) - from_ms);
        } else {
            begin_source(reader, NULL);
        }
    }
    show_age(reader, now_ms);
}

/* With another epoch nothing of the old state is worth keeping; it starts once everything that is
 * under way has come back. */
static int64_t rest(struct reader *reader, int64_t epoch, int64_t now_ms)
{
    struct lane *lane = reader->lane;
    struct err err = {0};
    enum rc rc;

    reader->epoch = 0;
    if (reader->window.count > 0 || reader->spare_count < LANE_BATCHES) {
        lane_wake(lane, LANE_SENDER);
        lane_wake(lane, LANE_DELETER);
        return LANE_WAIT_MS;
    }
    if (epoch == 0) {
        look_at_rest(reader, now_ms);
        atomic_store(&lane->lease.idle, true);
        return LANE_WAIT_MS;
    }
    atomic_store(&lane->lease.idle, false);
    rc = begin_source(reader, &err);
    if (rc != RC_OK)
        return failed(reader, now_ms, rc, &err);
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

/* True while the sender wants nothing to be read. */
static bool held(struct reader *reader)
{
    struct lane *lane = reader->lane;
    long long asked = atomic_load(&lane->hold_requested);

    if (asked == atomic_load(&lane->hold_released))
        return false;
    if (atomic_load(&lane->hold_granted) != asked) {
        atomic_store(&lane->hold_granted, asked);
        lane_wake(lane, LANE_SENDER);
    }
    return true;
}

/* Rows that were given up are read again, in order with all that follow them. */
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

/* A full scan begins when every batch is back: a row that a diverted key leaves in the table
 * meanwhile must not be passed over because it still is in the window. */
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
    take_back(reader);
    return false;
}

/* Invariant: asked before the first gap of a lease is closed. */
static enum rc ask_nodes(struct reader *reader, int64_t now_ms, struct err *err)
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
    if (nodes.what[0] && !reader->nodes_said)
        log_event(
            LOG_WARN, "several_writer_nodes",
            "lane=%s cluster=\"%s\" gap_wait_multi_ms=%" PRId64
            " text=\"transactions that are open on other nodes cannot be seen: missing seqs are "
            "waited for so long; write to one node only, and let the relay read there\"",
            reader->lane->name, nodes.what, reader->closer.gap_wait_multi_ms);
    reader->nodes_said = nodes.what[0] != '\0';
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

/* Many open gaps make each poll dear for the server: it is asked less often then. */
static int64_t idle_wait_ms(const struct reader *reader, int64_t now_ms)
{
    const struct settings *settings = reader->lane->settings;
    int64_t gaps_ms = (int64_t)(reader->gaps.count / GAPS_PER_MS);
    int64_t wait_ms = settings->relay.poll_ms;

    wait_ms += gaps_ms < GAPS_WAIT_MS_MAX ? gaps_ms : GAPS_WAIT_MS_MAX;
    if (now_ms - reader->busy_ms >= BUSY_MS && wait_ms < settings->relay.poll_idle_ms)
        wait_ms = settings->relay.poll_idle_ms;
    return wait_ms;
}

struct poll {
    struct reader *reader;
    struct relay_batch *batch;
    size_t room;  /* rows that the window still takes */
    size_t seen;  /* rows this statement returned */
    int64_t last; /* the highest of them that was kept or passed over */
    bool cut;     /* one did not fit */
    bool taken;   /* another relay had the lane */
};

static bool on_row(void *ctx, const struct relay_row *row)
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

/* Once another relay has had the lane, rows may be missing that are in the retry queue and in no
 * topic: whoever is late by a clock that stood still must not send what follows them. */
static enum rc read_ranges(struct poll *poll, const struct seq_range *ranges, size_t count,
                           size_t rows_max, struct err *err)
{
    const struct source *source = &poll->reader->source;
    enum rc rc;

    poll->seen = 0;
    poll->cut = false;
    rc = source->read(source->ctx, ranges, count, rows_max, on_row, poll, err);
    if (rc == RC_OK && poll->taken)
        return err_fail(err, RC_RETRY, 0, "another relay has taken the lane");
    return rc;
}

/* Follows the size of rows: a statement should not send much more than a batch holds. */
static void rows_next_adapt(struct reader *reader, const struct relay_batch *batch, size_t limit,
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

/* Reads above the cursor. *cursor: where it goes when the poll works. */
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
    /* Nothing is above: rows that come into gaps up there are found as gaps from now on. */
    if (!*more && reader->high > *cursor)
        *cursor = reader->high;
    rows_next_adapt(reader, poll->batch, limit, poll);
    return RC_OK;
}

/* One statement of gap reading. When a row does not fit, rows above it must not go before it: they
 * are dropped, and what fits now stays. */
static enum rc read_gap_chunk(struct poll *poll, const struct seq_range *ranges, size_t count,
                              bool *cut, struct err *err)
{
    size_t before = poll->batch->count;
    /* Rows under way may be met in merged gaps; they must not use up the limit. */
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

/* Reads all open gaps at or below the old cursor, from the top down. *cut: the rows read before
 * were dropped. */
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

static void say_merging(struct reader *reader, bool merged)
{
    if (merged && !reader->merging)
        log_event(LOG_WARN, "gaps_merged",
                  "lane=%s gaps_max=%zu text=\"more missing seqs than relay.gaps_max: reading gets "
                  "slower, nothing is lost\"",
                  reader->lane->name, reader->gaps.count_max);
    reader->merging = reader->merging || merged;
}

/* The poll worked: from here on its rows are known. */
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
    say_merging(reader, merged);
    if (reader->gaps.count < reader->gaps.count_max / 2)
        reader->merging = false;
}

/* One poll: reads into batch and updates cursor, gaps and window when all of it worked; the batch
 * then holds what has to be sent, maybe nothing. *more: there is more to read at once. */
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
    /* Gaps are first seen now, not when the step began: the gap closer compares this with answers
     * that other lanes have asked for. */
    take_rows(reader, batch, cursor, lane_now(reader->lane, now_ms));
    return RC_OK;
}

static void give(struct reader *reader, struct relay_batch *batch, int64_t now_ms)
{
    batch->epoch = reader->epoch;
    batch->scan = reader->scan;
    reader->spare_count--;
    reader->busy_ms = now_ms;
    ring_give(&reader->lane->filled_batches, batch);
    lane_wake(reader->lane, LANE_SENDER);
}

static int64_t read_on(struct reader *reader, int64_t now_ms)
{
    struct relay_batch *batch;
    struct err err = {0};
    bool more;
    enum rc rc;

    if (reader->spare_count == 0 || reader->window.count == reader->window.count_max)
        return LANE_WAIT_MS;
    batch = reader->spare[reader->spare_count - 1];
    rc = poll_table(reader, batch, now_ms, &more, &err);
    if (rc == RC_OK && batch->count > 0)
        give(reader, batch, now_ms);
    if (rc == RC_OK)
        rc = ask_nodes(reader, now_ms, &err);
    if (rc == RC_OK)
        rc = close_gaps(reader, now_ms, &err);
    if (rc != RC_OK)
        return failed(reader, now_ms, rc, &err);
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
    bool holding = held(reader);
    int64_t epoch = atomic_load(&lane->lease.draining) ? 0 : lane_epoch(lane, now_ms);

    take_back(reader);
    if (epoch == 0 || epoch != reader->epoch)
        return rest(reader, holding ? 0 : epoch, now_ms);
    if (now_ms < reader->retry_ms) {
        show_age(reader, now_ms);
        return LANE_WAIT_MS;
    }
    look(reader, now_ms);
    if (holding)
        return LANE_WAIT_MS;
    rewind_cursor(reader);
    if (full_scan_must_wait(reader, now_ms))
        return LANE_WAIT_MS;
    return read_on(reader, now_ms);
}
