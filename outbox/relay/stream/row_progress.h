/* SPDX-License-Identifier: MIT */
/* The progress of a lane that reads a stream: which of its rows are done, which are being sent, and
 * from which position a stream has to be read so that no row is missed.
 *
 * Under a lease the rows of a stream are numbered in the order of the log. The number of a row is
 * the same each time it is read, so a row that is read again is passed on only if it was
 * returned. The numbers from the lowest row that is not done up to the highest one that was read
 * are bounded, and nothing is allocated per row.
 *
 * Invariant R11: row_progress_reached() never returns a position behind a row that is not done
 * (test_row_progress). The reader's thread. */
#ifndef OUTBOX_RELAY_STREAM_ROW_PROGRESS_H
#define OUTBOX_RELAY_STREAM_ROW_PROGRESS_H

#include "common/err.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_MARKS_MAX 64

/* A position, and the number of the last row before it. */
struct progress_mark {
    int64_t row;
    struct stream_position position;
};

struct row_progress {
    uint64_t *taken; /* a bit for each row from low on: it was passed on and not returned */
    uint64_t *done;
    size_t rows_max; /* a power of two */
    int64_t low;     /* lowest row that is not done */
    int64_t read;    /* last row that was read; lower than before after row_progress_rewind() */
    int64_t high;    /* highest row that was ever read */
    struct progress_mark marks[PROGRESS_MARKS_MAX]; /* ascending; the first one is below low */
    size_t mark_count;
    bool reached; /* the first mark was returned by row_progress_reached() */
};

/* rows_max: of rows between the lowest that is not done and the last one read, rounded up to a
 * power of two. RC_FATAL: no memory, and nothing is owned. */
enum rc row_progress_init(struct row_progress *progress, size_t rows_max, struct err *err);

/* Accepts a zeroed one. */
void row_progress_done(struct row_progress *progress);

/* Forgets all rows, none of which may be in the hands of another step; numbers go on. Returns the
 * place of the position from which the stream is read; the caller fills it. */
struct stream_position *row_progress_begin(struct row_progress *progress);

/* The next `rows` rows are done before they are read: they are numbered and not passed on. Directly
 * after row_progress_begin(). */
void row_progress_skip(struct row_progress *progress, uint64_t rows);

/* How many rows may be read now. */
size_t row_progress_room(const struct row_progress *progress);

/* Numbers the row that was read next and returns whether it is to be passed on; *row is its number.
 * There must be room. */
bool row_progress_take(struct row_progress *progress, int64_t *row);

/* A row that was passed on is done. It must not have been ended or returned since. */
void row_progress_end(struct row_progress *progress, int64_t row);

/* A row that was passed on returns, and has to be read again. The same holds for it. */
void row_progress_return(struct row_progress *progress, int64_t row);

/* Returns the place for the position right behind the last row that was read; the caller fills it.
 * A stream that is read again is cut into other batches, and a lane whose window is full needs
 * positions between those of the first time. If there are too many, it takes the place of the one
 * before it or behind it; the furthest one stays. NULL: an earlier position than the one that
 * row_progress_reached() has returned. */
struct stream_position *row_progress_mark(struct row_progress *progress);

/* Returns the last position before which all rows are done, and drops those before it. NULL: that
 * is the one of the last call. Valid until the next call of another function here. */
const struct stream_position *row_progress_reached(struct row_progress *progress);

/* Returns the last position that is not behind `row`, or not behind the lowest row that is not done
 * if `row` is below it. The stream has to be read from there on, and the numbers continue there.
 * Valid as above. */
const struct stream_position *row_progress_rewind(struct row_progress *progress, int64_t row);

#endif
