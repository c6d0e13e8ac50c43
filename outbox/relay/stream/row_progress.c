/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/row_progress.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64

static bool bit_is_set(const struct row_progress *progress, const uint64_t *bits, int64_t row)
{
    size_t at = (size_t)row & (progress->rows_max - 1);

    return (bits[at / WORD_BITS] >> (at % WORD_BITS) & 1) != 0;
}

static void set_bit(struct row_progress *progress, uint64_t *bits, int64_t row, bool value)
{
    size_t at = (size_t)row & (progress->rows_max - 1);
    uint64_t mask = (uint64_t)1 << (at % WORD_BITS);

    bits[at / WORD_BITS] = value ? bits[at / WORD_BITS] | mask : bits[at / WORD_BITS] & ~mask;
}

static bool is_taken(const struct row_progress *progress, int64_t row)
{
    return row >= progress->low && row <= progress->high &&
           bit_is_set(progress, progress->taken, row);
}

/* Swaps, so that the memory of positions is used again. */
static void swap_marks(struct progress_mark *a, struct progress_mark *b)
{
    struct progress_mark mark = *a;

    *a = *b;
    *b = mark;
}

static void drop_first_marks(struct row_progress *progress, size_t count)
{
    for (size_t i = count; i < progress->mark_count; i++)
        swap_marks(&progress->marks[i - count], &progress->marks[i]);
    progress->mark_count -= count;
}

/* The last mark that is not behind `row`; there is one for each row that is not done. */
static size_t find_mark(const struct row_progress *progress, int64_t row)
{
    size_t i = progress->mark_count - 1;

    while (i > 0 && progress->marks[i].row >= row)
        i--;
    assert(progress->marks[i].row < row);
    return i;
}

enum rc row_progress_init(struct row_progress *progress, size_t rows_max, struct err *err)
{
    size_t size = WORD_BITS;

    memset(progress, 0, sizeof(*progress));
    while (size < rows_max)
        size *= 2;
    progress->rows_max = size;
    progress->taken = calloc(size / WORD_BITS, sizeof(uint64_t));
    progress->done = calloc(size / WORD_BITS, sizeof(uint64_t));
    if (progress->taken && progress->done)
        return RC_OK;
    row_progress_done(progress);
    return err_fail(err, RC_FATAL, 0, "no memory for a window of %zu rows", size);
}

void row_progress_done(struct row_progress *progress)
{
    for (size_t i = 0; i < PROGRESS_MARKS_MAX; i++)
        buf_done(&progress->marks[i].position.before);
    free(progress->taken);
    free(progress->done);
    memset(progress, 0, sizeof(*progress));
}

struct stream_position *row_progress_begin(struct row_progress *progress)
{
    memset(progress->taken, 0, progress->rows_max / WORD_BITS * sizeof(uint64_t));
    memset(progress->done, 0, progress->rows_max / WORD_BITS * sizeof(uint64_t));
    progress->low = progress->high + 1;
    progress->read = progress->high;
    progress->mark_count = 1;
    progress->marks[0].row = progress->high;
    progress->reached = true;
    return &progress->marks[0].position;
}

void row_progress_skip(struct row_progress *progress, uint64_t rows)
{
    assert(progress->read == progress->high && progress->low == progress->high + 1);
    progress->high += (int64_t)rows;
    progress->low = progress->high + 1;
}

size_t row_progress_room(const struct row_progress *progress)
{
    return progress->rows_max - (size_t)(progress->read + 1 - progress->low);
}

bool row_progress_take(struct row_progress *progress, int64_t *row)
{
    assert(row_progress_room(progress) > 0);
    *row = ++progress->read;
    if (*row > progress->high)
        progress->high = *row;
    else if (*row < progress->low || bit_is_set(progress, progress->taken, *row) ||
             bit_is_set(progress, progress->done, *row))
        return false;
    set_bit(progress, progress->taken, *row, true);
    return true;
}

void row_progress_end(struct row_progress *progress, int64_t row)
{
    assert(is_taken(progress, row));
    set_bit(progress, progress->taken, row, false);
    set_bit(progress, progress->done, row, true);
    while (progress->low <= progress->high && bit_is_set(progress, progress->done, progress->low))
        set_bit(progress, progress->done, progress->low++, false);
}

void row_progress_return(struct row_progress *progress, int64_t row)
{
    assert(is_taken(progress, row));
    set_bit(progress, progress->taken, row, false);
}

/* Returns the place of a new mark behind the mark `at`. Of too many marks the next one moves back
 * to it, but never the last one, which is as far as the stream was read. */
static size_t add_mark(struct row_progress *progress, size_t at)
{
    size_t last = progress->mark_count - 1;

    if (progress->mark_count < PROGRESS_MARKS_MAX) {
        for (size_t i = progress->mark_count++; i > at + 1; i--)
            swap_marks(&progress->marks[i], &progress->marks[i - 1]);
        return at + 1;
    }
    return at + 1 < last ? at + 1 : at;
}

struct stream_position *row_progress_mark(struct row_progress *progress)
{
    size_t at = progress->mark_count - 1;

    while (at > 0 && progress->marks[at].row > progress->read)
        at--;
    if (progress->marks[at].row > progress->read)
        return NULL;
    if (progress->marks[at].row < progress->read)
        at = add_mark(progress, at);
    progress->marks[at].row = progress->read;
    if (at == 0)
        progress->reached = false;
    return &progress->marks[at].position;
}

const struct stream_position *row_progress_reached(struct row_progress *progress)
{
    size_t last = find_mark(progress, progress->low);

    if (last == 0 && progress->reached)
        return NULL;
    drop_first_marks(progress, last);
    progress->reached = true;
    return &progress->marks[0].position;
}

const struct stream_position *row_progress_rewind(struct row_progress *progress, int64_t row)
{
    size_t last = find_mark(progress, row > progress->low ? row : progress->low);

    progress->read = progress->marks[last].row;
    return &progress->marks[last].position;
}
