/* SPDX-License-Identifier: MIT */
#include "common/log.h"
#include "outbox/relay/reader.h"

/* While gaps are open this part of a batch is kept for their rows. */
#define GAP_SHARE 8

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

/* Once another relay has had the lane, rows may be missing that are in the retry lane and in no
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

enum rc reader_poll(struct reader *reader, struct relay_batch *batch, int64_t now_ms, bool *more,
                    struct err *err)
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
    /* Gaps are first seen now, not when the step began: the gap closer compares this with answers that
     * other lanes have asked for. */
    take_rows(reader, batch, cursor, lane_now(reader->lane, now_ms));
    return RC_OK;
}
