/* SPDX-License-Identifier: MIT */
#include "outbox/relay/partitions/partition_size.h"

#include "outbox/relay/partitions/seq_set.h"

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    if (value > most)
        return most;
    return value < least ? least : value;
}

int64_t partition_span_ms(int64_t keep_ms)
{
    int64_t span_ms = keep_ms / PARTITION_SPAN_PART;

    return span_ms < PARTITION_SPAN_MS_MIN ? PARTITION_SPAN_MS_MIN : span_ms;
}

int64_t partition_size_choose(int64_t last_size, struct seq_rate rate, int64_t span_ms)
{
    int64_t size = last_size > 0 ? last_size : PARTITION_SEQS_MIN;
    double wanted;

    if (rate.ms >= SEQ_RATE_MS_MIN && rate.seqs > 0) {
        wanted = (double)rate.seqs * (double)span_ms / (double)rate.ms;
        size = wanted < (double)SEQ_SET_SEQS_MAX ? (int64_t)wanted : SEQ_SET_SEQS_MAX;
        size = clamp(size, PARTITION_SEQS_MIN, SEQ_SET_SEQS_MAX);
        if (last_size > 0)
            size = clamp(size, last_size / 2, last_size < SEQ_SET_SEQS_MAX ? 2 * last_size : size);
    }
    return clamp(size, 1, SEQ_SET_SEQS_MAX);
}
