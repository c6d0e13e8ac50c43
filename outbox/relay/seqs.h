/* SPDX-License-Identifier: MIT */
/* Blocks of seqs that travel from step to step, and the runs that deletes are made of. Pure. */
#ifndef OUTBOX_RELAY_SEQS_H
#define OUTBOX_RELAY_SEQS_H

#include "outbox/relay/relay_seam.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEQS_MAX 1024

struct seqs {
    size_t count;
    bool again; /* these rows have to be read again now; else they are gone or wait for a sweep */
    int64_t list[SEQS_MAX];
};

/* Sorts list and drops repeats; returns how many are left. */
size_t seqs_sort(int64_t *list, size_t count);

/* Makes ranges of consecutive seqs out of a sorted list, ranges_max at most, and sets *used to the
 * number of seqs they cover. Returns how many ranges. A range never spans a seq that is not in the
 * list: a row may still commit there. */
size_t seqs_runs(const int64_t *list, size_t count, struct seq_range *ranges, size_t ranges_max,
                 size_t *used);

#endif
