/* SPDX-License-Identifier: MIT */
/* The seqs that are missing below the highest one seen: of transactions still open, of roll-backs,
 * or reserved and never used. Every poll reads these ranges again until each is closed. Bounded:
 * when the list is full, its two closest gaps become one that also covers the rows between them,
 * which costs reading but loses nothing. Pure; one thread at a time. */
#ifndef OUTBOX_RELAY_GAPS_H
#define OUTBOX_RELAY_GAPS_H

#include "common/err.h"
#include "outbox/relay/relay_seam.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gap {
    struct seq_range range;
    int64_t first_ms;   /* first seen missing */
    int64_t probe_ms;   /* not probed before */
    uint64_t writer;    /* newest open transaction some time after first_ms; see gap_closer.h */
    bool writer_known;  /* writer was asked for */
    bool writers_ended; /* every transaction up to writer has ended */
};

/* Invariant: sorted, disjoint, never touching. */
struct gaps {
    struct gap *list;
    size_t count;
    size_t count_max;
};

/* RC_FATAL: no memory. count_max >= 2. */
enum rc gaps_init(struct gaps *gaps, size_t count_max, struct err *err);
void gaps_done(struct gaps *gaps);
void gaps_clear(struct gaps *gaps);

/* Adds [from, to], which lies above all others. True when two gaps had to become one. */
bool gaps_add(struct gaps *gaps, int64_t from, int64_t to, int64_t now_ms);

/* seq is not missing any more. True when it was in a gap. */
bool gaps_remove(struct gaps *gaps, int64_t seq);

bool gaps_has(const struct gaps *gaps, int64_t seq);

/* Takes out whole gaps by their place: count of them at `at`. */
void gaps_close(struct gaps *gaps, size_t at, size_t count);

/* The ranges of up to max gaps that lie below `end` in the list (end = gaps->count: the highest),
 * cut off above `to`; ascending. Returns how many, and sets *from to the place of the lowest: the
 * next call's `end`. */
size_t gaps_ranges_down(const struct gaps *gaps, size_t end, int64_t to, struct seq_range *ranges,
                        size_t max, size_t *from);

#endif
