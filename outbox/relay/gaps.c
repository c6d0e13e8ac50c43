/* SPDX-License-Identifier: MIT */
#include "outbox/relay/gaps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* All lanes of a process share the answers, so most queries do not reach the server. */
#define WRITERS_QUERY_MS 250
#define WRITERS_AFTER_MS 1000 /* see apply_writers() */
/* A gap is not closed before this age, although its writers have ended. */
#define CLOSE_AFTER_MS 2000
/* Between two probes of a lane; and before a gap that could not be closed is probed again. */
#define PROBE_EVERY_MS 20
#define PROBE_AGAIN_MS 1000
#define PROBE_COUNT_MAX 64 /* gaps in one probe */
/* Transactions of others may keep a gap open for this many times gap_wait_ms. */
#define GAP_WAITS_MAX 20

/* The merged gap keeps what is known about the younger of the two: it is true for both. */
static void merge_closest_gaps(struct gaps *gaps)
{
    size_t best = 0;
    int64_t best_distance = INT64_MAX;
    struct gap *low;
    struct gap *high;

    for (size_t i = 0; i + 1 < gaps->count; i++) {
        int64_t distance = gaps->list[i + 1].range.from - gaps->list[i].range.to;

        if (distance < best_distance) {
            best_distance = distance;
            best = i;
        }
    }
    low = &gaps->list[best];
    high = &gaps->list[best + 1];
    high->range.from = low->range.from;
    if (low->first_ms > high->first_ms)
        high->first_ms = low->first_ms;
    if (low->writer > high->writer)
        high->writer = low->writer;
    high->writer_known = high->writer_known && low->writer_known;
    high->writers_ended = high->writers_ended && low->writers_ended;
    gaps_close(gaps, best, 1);
}

/* Returns the index of the first gap that ends at or above seq, or count. */
static size_t find_gap(const struct gaps *gaps, int64_t seq)
{
    size_t low = 0;
    size_t high = gaps->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (gaps->list[middle].range.to < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* If the list is full, seq stays in its gap. The reader reads its row again and skips it, because
 * the seq is in the window. */
static void split_gap(struct gaps *gaps, size_t at, int64_t seq)
{
    if (gaps->count == gaps->count_max)
        return;
    memmove(&gaps->list[at + 1], &gaps->list[at], (gaps->count - at) * sizeof(*gaps->list));
    gaps->count++;
    gaps->list[at].range.to = seq - 1;
    gaps->list[at + 1].range.from = seq + 1;
}

/* Invariant R2: an answer is used for a gap only if its query was sent at least WRITERS_AFTER_MS
 * after the gap was first seen (test_gaps, test_writers). Another lane may have sent the query long
 * before this lane reads the answer, so asked_ms decides, not the present time. */
static void apply_writers(struct gaps *gaps, const struct source_writers *writers)
{
    for (size_t i = 0; i < gaps->count; i++) {
        struct gap *gap = &gaps->list[i];

        if (writers->asked_ms - gap->first_ms < WRITERS_AFTER_MS)
            continue;
        if (!gap->writer_known) {
            gap->writer = writers->newest;
            gap->writer_known = true;
        }
        if (writers->oldest == 0 || writers->oldest > gap->writer)
            gap->writers_ended = true;
    }
}

static enum rc query_writers(struct gap_closer *closer, struct gaps *gaps,
                             const struct source *source, int64_t now_ms, struct err *err)
{
    struct source_writers writers = {0};
    enum rc rc;

    if (now_ms < closer->writers_at_ms)
        return RC_OK;
    closer->writers_at_ms = now_ms + WRITERS_QUERY_MS;
    rc = source->writers(source->ctx, &writers, err);
    if (rc != RC_OK)
        return rc;
    /* An earlier answer stays usable for gap_wait_ms, the wait of a gap without any answer. */
    if (writers.known && writers.asked_ms > closer->writers_seen_ms)
        closer->writers_seen_ms = writers.asked_ms;
    closer->writers_known = now_ms - closer->writers_seen_ms < closer->gap_wait_ms;
    if (writers.known)
        apply_writers(gaps, &writers);
    return RC_OK;
}

static bool is_gap_due(const struct gap_closer *closer, const struct gap *gap, int64_t now_ms)
{
    int64_t age_ms = now_ms - gap->first_ms;

    if (now_ms < gap->probe_ms)
        return false;
    if (closer->several_nodes && age_ms < closer->gap_wait_multi_ms)
        return false;
    if (age_ms >= GAP_WAITS_MAX * closer->gap_wait_ms)
        return true;
    if (closer->writers_known)
        return gap->writers_ended && age_ms >= CLOSE_AFTER_MS;
    return age_ms >= closer->gap_wait_ms;
}

/* Copies the ranges of the first run of consecutive gaps that are due, at most probe_count. Returns
 * their number and sets *at to the index of the first. */
static size_t choose_due_gaps(const struct gap_closer *closer, const struct gaps *gaps,
                              int64_t now_ms, struct seq_range *ranges, size_t *at)
{
    size_t count = 0;

    for (size_t i = 0; i < gaps->count && count < closer->probe_count; i++) {
        if (!is_gap_due(closer, &gaps->list[i], now_ms)) {
            if (count > 0)
                break;
            continue;
        }
        if (count == 0)
            *at = i;
        ranges[count++] = gaps->list[i].range;
    }
    return count;
}

/* A merged gap may cover rows of diverted keys that were left in the table. After GAP_WAITS_MAX
 * waits it is therefore closed although a row was found, if no uncommitted row is in it. */
static bool may_close_gap(const struct gap_closer *closer, const struct gap *gap, bool busy,
                          bool found, int64_t now_ms)
{
    if (busy)
        return false;
    return !found || now_ms - gap->first_ms >= GAP_WAITS_MAX * closer->gap_wait_ms;
}

enum rc gaps_init(struct gaps *gaps, size_t count_max, struct err *err)
{
    memset(gaps, 0, sizeof(*gaps));
    gaps->list = calloc(count_max, sizeof(*gaps->list));
    if (!gaps->list)
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu gaps", count_max);
    gaps->count_max = count_max;
    return RC_OK;
}

void gaps_done(struct gaps *gaps)
{
    free(gaps->list);
    memset(gaps, 0, sizeof(*gaps));
}

void gaps_clear(struct gaps *gaps)
{
    gaps->count = 0;
}

bool gaps_add(struct gaps *gaps, int64_t from, int64_t to, int64_t now_ms)
{
    bool full = gaps->count == gaps->count_max;

    assert(from <= to);
    if (full)
        merge_closest_gaps(gaps);
    assert(gaps->count == 0 || gaps->list[gaps->count - 1].range.to < from);
    gaps->list[gaps->count++] = (struct gap){.range = {from, to}, .first_ms = now_ms};
    return full;
}

bool gaps_remove(struct gaps *gaps, int64_t seq)
{
    size_t at = find_gap(gaps, seq);
    struct gap *gap = &gaps->list[at];

    if (at == gaps->count || gap->range.from > seq)
        return false;
    if (gap->range.from == gap->range.to)
        gaps_close(gaps, at, 1);
    else if (gap->range.from == seq)
        gap->range.from++;
    else if (gap->range.to == seq)
        gap->range.to--;
    else
        split_gap(gaps, at, seq);
    return true;
}

bool gaps_has(const struct gaps *gaps, int64_t seq)
{
    size_t at = find_gap(gaps, seq);

    return at < gaps->count && gaps->list[at].range.from <= seq;
}

void gaps_close(struct gaps *gaps, size_t at, size_t count)
{
    assert(at + count <= gaps->count);
    memmove(&gaps->list[at], &gaps->list[at + count],
            (gaps->count - at - count) * sizeof(*gaps->list));
    gaps->count -= count;
}

size_t gaps_ranges_down(const struct gaps *gaps, size_t end, int64_t to, struct seq_range *ranges,
                        size_t max, size_t *from)
{
    size_t count;

    while (end > 0 && gaps->list[end - 1].range.from > to)
        end--;
    count = end < max ? end : max;
    *from = end - count;
    for (size_t i = 0; i < count; i++) {
        ranges[i] = gaps->list[*from + i].range;
        if (ranges[i].to > to)
            ranges[i].to = to;
    }
    return count;
}

void gap_closer_init(struct gap_closer *closer, int64_t gap_wait_ms, int64_t gap_wait_multi_ms)
{
    *closer = (struct gap_closer){.gap_wait_ms = gap_wait_ms,
                                  .gap_wait_multi_ms = gap_wait_multi_ms,
                                  .writers_seen_ms = INT64_MIN / 2,
                                  .probe_count = 1};
}

enum rc gap_closer_step(struct gap_closer *closer, struct gaps *gaps, const struct source *source,
                        int64_t now_ms, size_t *closed, struct err *err)
{
    struct seq_range ranges[PROBE_COUNT_MAX];
    size_t at = 0;
    size_t count;
    bool busy = false;
    bool found = false;
    enum rc rc;

    *closed = 0;
    if (gaps->count == 0)
        return RC_OK;
    rc = query_writers(closer, gaps, source, now_ms, err);
    if (rc != RC_OK || now_ms < closer->probe_at_ms)
        return rc;
    count = choose_due_gaps(closer, gaps, now_ms, ranges, &at);
    if (count == 0)
        return RC_OK;
    closer->probe_at_ms = now_ms + PROBE_EVERY_MS;
    rc = source->probe(source->ctx, ranges, count, &busy, &found, err);
    if (rc != RC_OK)
        return rc;
    if (count == 1 ? may_close_gap(closer, &gaps->list[at], busy, found, now_ms)
                   : !busy && !found) {
        gaps_close(gaps, at, count);
        *closed = count;
        if (closer->probe_count < PROBE_COUNT_MAX)
            closer->probe_count *= 2;
        return RC_OK;
    }
    /* One of the gaps cannot be closed. The next steps probe one gap at a time to find it. */
    if (count == 1)
        gaps->list[at].probe_ms = now_ms + PROBE_AGAIN_MS;
    closer->probe_count = 1;
    return RC_OK;
}
