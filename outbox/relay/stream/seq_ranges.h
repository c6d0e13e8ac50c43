/* SPDX-License-Identifier: MIT */
/* The form in which a set of seqs is stored (relay_published.seqs): ascending ranges, of each two
 * numbers of 7 bits a byte, the lowest bits first: the distance from the end of the range before it
 * (from 0 for the first one), and its length less 1. A million consecutive seqs need five bytes,
 * and each single seq two or three. Pure; one thread at a time. */
#ifndef OUTBOX_RELAY_STREAM_SEQ_RANGES_H
#define OUTBOX_RELAY_STREAM_SEQ_RANGES_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends the ranges of seqs, which are above 0, ascending and without repeats. */
void seq_ranges_put(struct buf *buf, const int64_t *seqs, size_t count);

/* Appends one range to an empty buf; from is above 0, and to not below it. */
void seq_ranges_put_one(struct buf *buf, int64_t from, int64_t to);

/* Reads ranges piece by piece. Zeroed but for data and len it stands before the first one; data is
 * borrowed. */
struct seq_ranges {
    const char *data;
    size_t len;
    size_t at;
    struct seq_range rest; /* of the range that was begun; empty when from is above to */
};

/* Reads up to ranges_max ranges with up to rows_max seqs together, both above 0; a longer range is
 * read in parts. *count is 0 at the end. RC_FATAL: the bytes are no such set. */
enum rc seq_ranges_read(struct seq_ranges *from, struct seq_range *ranges, size_t ranges_max,
                        size_t rows_max, size_t *count, struct err *err);

#endif
