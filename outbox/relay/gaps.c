/* SPDX-License-Identifier: MIT */
#include "outbox/relay/gaps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

void gaps_close(struct gaps *gaps, size_t at, size_t count)
{
    assert(at + count <= gaps->count);
    memmove(&gaps->list[at], &gaps->list[at + count],
            (gaps->count - at - count) * sizeof(*gaps->list));
    gaps->count -= count;
}

/* What is known of the younger one holds for both. */
static void merge_closest(struct gaps *gaps)
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

bool gaps_add(struct gaps *gaps, int64_t from, int64_t to, int64_t now_ms)
{
    bool full = gaps->count == gaps->count_max;

    assert(from <= to);
    if (full)
        merge_closest(gaps);
    assert(gaps->count == 0 || gaps->list[gaps->count - 1].range.to < from);
    gaps->list[gaps->count++] = (struct gap){.range = {from, to}, .first_ms = now_ms};
    return full;
}

/* The place of the first gap that ends at or above seq, or count. */
static size_t find(const struct gaps *gaps, int64_t seq)
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

bool gaps_has(const struct gaps *gaps, int64_t seq)
{
    size_t at = find(gaps, seq);

    return at < gaps->count && gaps->list[at].range.from <= seq;
}

/* Where the list is full the seq stays in its gap: read once more, it is known by then. */
static void split(struct gaps *gaps, size_t at, int64_t seq)
{
    if (gaps->count == gaps->count_max)
        return;
    memmove(&gaps->list[at + 1], &gaps->list[at], (gaps->count - at) * sizeof(*gaps->list));
    gaps->count++;
    gaps->list[at].range.to = seq - 1;
    gaps->list[at + 1].range.from = seq + 1;
}

bool gaps_remove(struct gaps *gaps, int64_t seq)
{
    size_t at = find(gaps, seq);
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
        split(gaps, at, seq);
    return true;
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
