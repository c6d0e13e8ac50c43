/* SPDX-License-Identifier: MIT */
#include "outbox/relay/seqs.h"

#include <stdlib.h>

static int seq_compare(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;

    return (*left > *right) - (*left < *right);
}

size_t seqs_sort(int64_t *list, size_t count)
{
    size_t kept = 0;
    bool sorted = true;

    for (size_t i = 1; i < count && sorted; i++)
        sorted = list[i - 1] < list[i];
    if (sorted)
        return count;
    qsort(list, count, sizeof(*list), seq_compare);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || list[kept - 1] != list[i])
            list[kept++] = list[i];
    }
    return kept;
}

size_t seqs_runs(const int64_t *list, size_t count, struct seq_range *ranges, size_t ranges_max,
                 size_t *used)
{
    size_t runs = 0;
    size_t i = 0;

    for (; i < count; i++) {
        if (runs > 0 && ranges[runs - 1].to + 1 == list[i]) {
            ranges[runs - 1].to = list[i];
            continue;
        }
        if (runs == ranges_max)
            break;
        ranges[runs++] = (struct seq_range){list[i], list[i]};
    }
    *used = i;
    return runs;
}
