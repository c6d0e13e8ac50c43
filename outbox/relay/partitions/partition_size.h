/* SPDX-License-Identifier: MIT */
/* How many seqs the next partition of a lane's table gets. A partition is dropped as a whole, so
 * the table keeps the rows of about one partition for longer than keep_ms: a partition is to cover
 * a part of that time, at the rate of the rows that are kept. Pure. */
#ifndef OUTBOX_RELAY_PARTITIONS_PARTITION_SIZE_H
#define OUTBOX_RELAY_PARTITIONS_PARTITION_SIZE_H

#include <stdint.h>

/* The part of keep_ms that a partition is to cover, and the shortest time. */
#define PARTITION_SPAN_PART 8
#define PARTITION_SPAN_MS_MIN INT64_C(600000)

/* At a low rate a partition gets so many seqs, and its rows are deleted one by one. Fewer seqs
 * could be used up by a burst before the next partition is made: rows behind the last limit are
 * copied by that, so it is not done for many of them. */
#define PARTITION_SEQS_MIN INT64_C(1000000)

/* A rate is measured over this time at least. */
#define SEQ_RATE_MS_MIN INT64_C(1000)

/* So many seqs in so many ms; ms 0: not known. */
struct seq_rate {
    int64_t seqs;
    int64_t ms;
};

/* Returns the time that a partition is to cover, in ms. */
int64_t partition_span_ms(int64_t keep_ms);

/* Returns the number of seqs for the next partition: those of span_ms, or PARTITION_SEQS_MIN if
 * that is more. It is at most twice and at least half the size of the last one, so that a burst or
 * a pause does not decide alone, and partitions that an operator made small grow step by step; 0:
 * that size is not known. Without a known rate it is that size. It never exceeds SEQ_SET_SEQS_MAX.
 */
int64_t partition_size_choose(int64_t last_size, struct seq_rate rate, int64_t span_ms);

#endif
