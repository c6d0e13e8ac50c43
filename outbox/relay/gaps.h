/* SPDX-License-Identifier: MIT */
/* The seqs that are missing below the highest one seen: of transactions still open, of roll-backs,
 * or reserved and never used. Every poll reads these ranges again until each is closed. Bounded:
 * when the list is full, its two closest gaps become one that also covers the rows between them,
 * which costs reading but loses nothing.
 *
 * The gap closer decides when a missing seq will not come any more. A locking read has to find
 * neither a row nor an open writer in the gap, and
 * - where the account may see them: every transaction that was open one second after the gap was
 *   first seen has ended (by then the transaction that reserved the seq has written its row, or
 *   never will);
 * - where other nodes of a cluster write, too: the gap is as old as such a transaction may become;
 * - else, or when some transaction of others stays open for very long: the gap is old enough.
 * Closing one wrongly only delays its row until the next full scan.
 *
 * Pure but for the closer's source; the reader's thread. */
#ifndef OUTBOX_RELAY_GAPS_H
#define OUTBOX_RELAY_GAPS_H

#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gap {
    struct seq_range range;
    int64_t first_ms;   /* first seen missing */
    int64_t probe_ms;   /* not probed before */
    uint64_t writer;    /* newest open transaction some time after first_ms */
    bool writer_known;  /* writer was asked for */
    bool writers_ended; /* every transaction up to writer has ended */
};

/* Invariant: sorted, disjoint, never touching. */
struct gaps {
    struct gap *list;
    size_t count;
    size_t count_max;
};

struct gap_closer {
    int64_t gap_wait_ms;
    int64_t gap_wait_multi_ms;
    bool several_nodes;      /* other servers write, whose transactions cannot be seen */
    int64_t writers_at_ms;   /* when to ask for open transactions again */
    int64_t writers_seen_ms; /* when the newest answer was asked for */
    int64_t probe_at_ms;     /* when the next probe may be made */
    size_t probe_count;      /* gaps probed with one statement: grows while all goes well */
    bool writers_known;
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

void gap_closer_init(struct gap_closer *closer, int64_t gap_wait_ms, int64_t gap_wait_multi_ms);

/* Makes at most one question and one probe and closes what may be closed; *closed counts gaps. */
enum rc gap_closer_step(struct gap_closer *closer, struct gaps *gaps, const struct source *source,
                        int64_t now_ms, size_t *closed, struct err *err);

#endif
