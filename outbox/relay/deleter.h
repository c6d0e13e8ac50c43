/* SPDX-License-Identifier: MIT */
/* The deleter, the third step of a lane. It deletes acknowledged rows, many at a time, in ranges
 * that cover no other seq, and only while the lane's lease is held. After each deletion it runs the
 * diverter, which moves refused rows into the retry queue (diverter.h). The deleter's thread.
 *
 * Invariant R3: only a row that the broker acknowledged is deleted (mutant delete-before-ack).
 * Invariant R4: the epoch of the lease is checked immediately before each deletion (mutant
 * delete-unfenced; test_relay_lease). A deletion that ends after the lease is harmless, because its
 * rows are in Kafka. */
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
    struct seqs **blocks; /* rows to delete; all but the last one were filled */
    size_t block_count;
    size_t blocks_max;
    size_t rows;      /* in blocks */
    int64_t since_ms; /* since when rows wait in blocks */
    int64_t *work;    /* seqs being deleted, sorted: those of the first work_blocks blocks */
    size_t work_max;
    size_t work_count; /* 0: no deletion has begun */
    size_t work_done;  /* seqs of work that are deleted */
    size_t work_blocks;
    int64_t wait_until_ms; /* after a failure: when to try again */
    size_t ranges_max;     /* DELETER_RANGES_MAX, or fewer in tests */
    struct backoff backoff;
    uint64_t rng;
    struct diverter diverter;
};

/* Initialises the deleter and its diverter. lane is borrowed until deleter_done(), the ops are
 * copied; seed is 64 random bits. Returns RC_FATAL when memory is exhausted; the deleter then owns
 * no memory. */
enum rc deleter_init(struct deleter *deleter, struct lane *lane, const struct deleter_ops *ops,
                     const struct diverter_ops *diverter_ops, uint64_t seed, struct err *err);

/* Frees the memory. A zeroed deleter is allowed. */
void deleter_done(struct deleter *deleter);

/* Runs one step: at most one call of delete_ranges and one step of the diverter. Returns in how
 * many ms the next step is due. It has the type of a loop_step. */
int64_t deleter_step(void *deleter, int64_t now_ms);

/* Sorts list and removes repeated seqs. Returns the number of seqs left. For deleter.c and its
 * tests. */
size_t deleter_sort_seqs(int64_t *list, size_t count);

/* Makes at most ranges_max ranges of consecutive seqs from the sorted list without repeats, sets
 * *used to the number of seqs that they cover, and returns the number of ranges. For deleter.c and
 * its tests. Invariant R3: a range covers no seq that is not in the list, because a row may still
 * commit there (test_deleter). */
size_t deleter_make_ranges(const int64_t *list, size_t count, struct seq_range *ranges,
                           size_t ranges_max, size_t *used);

#endif
