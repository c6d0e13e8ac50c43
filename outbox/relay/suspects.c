/* SPDX-License-Identifier: MIT */
#include "outbox/relay/suspects.h"

#include <string.h>

/* Returns the index of seq, or the index at which it would be inserted. */
static size_t find_suspect(const struct suspects *suspects, int64_t seq)
{
    size_t low = 0;
    size_t high = suspects->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (suspects->seqs[middle] < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool suspects_has(const struct suspects *suspects, int64_t seq)
{
    size_t at = find_suspect(suspects, seq);

    return at < suspects->count && suspects->seqs[at] == seq;
}

/* A full list drops its highest seq: lower rows come first when the rows are read again. */
void suspects_add(struct suspects *suspects, int64_t seq)
{
    size_t at = find_suspect(suspects, seq);

    if (at == SUSPECTS_MAX || (at < suspects->count && suspects->seqs[at] == seq))
        return;
    if (suspects->count == SUSPECTS_MAX)
        suspects->count--;
    memmove(&suspects->seqs[at + 1], &suspects->seqs[at],
            (suspects->count - at) * sizeof(suspects->seqs[0]));
    suspects->seqs[at] = seq;
    suspects->count++;
}

void suspects_remove(struct suspects *suspects, int64_t seq)
{
    size_t at = find_suspect(suspects, seq);

    if (at == suspects->count || suspects->seqs[at] != seq)
        return;
    suspects->count--;
    memmove(&suspects->seqs[at], &suspects->seqs[at + 1],
            (suspects->count - at) * sizeof(suspects->seqs[0]));
}
