/* SPDX-License-Identifier: MIT */
/* The third step of a lane: deletes rows that the broker acknowledged, many at a time, in ranges
 * that cover nothing else, and only while the lane's lease is held. Between its deletions it takes
 * refused rows into the retry queue (diverter.h). The deleter's thread. */
#ifndef OUTBOX_RELAY_DELETER_H
#define OUTBOX_RELAY_DELETER_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/relay/diverter.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"

#include <stddef.h>
#include <stdint.h>

struct deleter {
    struct lane *lane;
    struct deleter_ops ops;
    struct seqs **held; /* blocks whose rows are not deleted yet, all but the last full */
    size_t held_count;
    size_t held_max;
    size_t rows;      /* in held */
    int64_t since_ms; /* when the first of them came */
    int64_t *work;    /* the rows that are being deleted, sorted; those of the first blocks held */
    size_t work_max;
    size_t work_count; /* 0: nothing is being deleted */
    size_t work_done;
    size_t work_blocks;
    int64_t wait_until_ms; /* after a failure */
    size_t ranges_max;     /* DELETER_RANGES_MAX, or fewer in tests */
    struct backoff backoff;
    uint64_t rng;
    struct diverter diverter;
};

/* RC_FATAL: no memory. lane and ops are borrowed. seed: 64 random bits. */
enum rc deleter_init(struct deleter *deleter, struct lane *lane, const struct deleter_ops *ops,
                     uint64_t seed, struct err *err);
void deleter_done(struct deleter *deleter);

/* A loop_step: one deletion and one call of the diverter's at most. */
int64_t deleter_step(void *deleter, int64_t now_ms);

/* For deleter.c and its tests.
 *
 * deleter_sort_seqs(): sorts list and drops repeats; returns how many are left.
 * deleter_make_ranges(): makes ranges of consecutive seqs out of a sorted list, ranges_max at most,
 * and sets *used to the number of seqs they cover. Returns how many ranges. A range never spans a
 * seq that is not in the list: a row may still commit there. */
size_t deleter_sort_seqs(int64_t *list, size_t count);
size_t deleter_make_ranges(const int64_t *list, size_t count, struct seq_range *ranges,
                           size_t ranges_max, size_t *used);

#endif
