/* SPDX-License-Identifier: MIT */
/* The list of gaps: ranges of seqs that are missing below the highest seq that was read. A seq is
 * missing because its transaction is still open, was rolled back, or reserved the seq and never
 * used it. Every poll of the reader reads the ranges of the gaps again until each gap is closed.
 * The list is bounded: when it is full, the two closest gaps are merged into one gap, which also
 * covers the rows between them. A merged gap costs more reading but loses no row.
 *
 * The gap closer decides when a missing seq cannot appear any more. A locking read must find
 * neither a committed row nor an uncommitted one in the gap, and one of these must hold:
 * - the account may see other transactions, and every transaction that was open one second after
 *   the gap was first seen has ended. By then the transaction that reserved the seq has written its
 *   row, or never will;
 * - other transactions cannot be seen, or one of them stays open for very long, and the gap is old
 *   enough.
 * If other nodes of a cluster also write, the gap must also be at least gap_wait_multi_ms old, the
 * longest time for which a transaction on another node may stay open.
 * Invariant R2: a gap is not closed earlier (mutant gap-closed-at-sight; test_gaps, test_writers).
 * A gap that is closed too early delays its row until the next full scan and loses nothing.
 *
 * Pure except for the source of the gap closer. The reader's thread. */
#ifndef OUTBOX_RELAY_GAPS_H
#define OUTBOX_RELAY_GAPS_H

#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gap {
    struct seq_range range;
    int64_t first_ms;   /* when the reader first found the seqs missing */
    int64_t probe_ms;   /* the gap is not probed before this time */
    uint64_t writer;    /* newest transaction that was open WRITERS_AFTER_MS after first_ms */
    bool writer_known;  /* writer is set */
    bool writers_ended; /* every transaction up to and including writer has ended */
};

/* Invariant: the ranges are ascending and disjoint, and at least one seq lies between two of them
 * (test_gaps). */
struct gaps {
    struct gap *list;
    size_t count;
    size_t count_max;
};

struct gap_closer {
    int64_t gap_wait_ms;
    int64_t gap_wait_multi_ms;
    bool several_nodes;      /* other nodes write, and their transactions cannot be seen */
    int64_t writers_at_ms;   /* when to query the open transactions again */
    int64_t writers_seen_ms; /* when the query of the newest usable answer was sent */
    int64_t probe_at_ms;     /* when the next probe is allowed */
    size_t probe_count;      /* gaps per probe: doubles after each success, 1 after a failure */
    bool writers_known;
};

/* Allocates an empty list for up to count_max gaps, at least 2. Returns RC_FATAL when memory is
 * exhausted; the list is then zeroed. */
enum rc gaps_init(struct gaps *gaps, size_t count_max, struct err *err);

/* Frees the memory. A zeroed list is allowed. */
void gaps_done(struct gaps *gaps);

/* Removes all gaps. */
void gaps_clear(struct gaps *gaps);

/* Adds the gap [from, to], which must lie above all other gaps and not touch them. Returns whether
 * the list was full and two gaps were merged. now_ms becomes first_ms. */
bool gaps_add(struct gaps *gaps, int64_t from, int64_t to, int64_t now_ms);

/* Records that seq is not missing any more. Returns whether seq was in a gap. If the list is full,
 * a gap that would have to be split keeps seq. */
bool gaps_remove(struct gaps *gaps, int64_t seq);

/* Returns whether seq lies in a gap. */
bool gaps_has(const struct gaps *gaps, int64_t seq);

/* Removes count gaps from index at on. */
void gaps_close(struct gaps *gaps, size_t at, size_t count);

/* Copies the ranges of the highest gaps below index end that start at or below seq to, at most max
 * of them, in ascending order and limited to seqs <= to. Returns their number and sets *from to the
 * index of the lowest. To go through all gaps from the highest down, start with end = gaps->count
 * and pass *from as the next end. */
size_t gaps_ranges_down(const struct gaps *gaps, size_t end, int64_t to, struct seq_range *ranges,
                        size_t max, size_t *from);

/* Initialises the closer without an answer about open transactions. Times are in ms. */
void gap_closer_init(struct gap_closer *closer, int64_t gap_wait_ms, int64_t gap_wait_multi_ms);

/* Queries the open transactions and probes gaps, at most once each, and removes the gaps that may
 * be closed from the list. Sets *closed to their number. Returns the result of a failed query or
 * probe; then no gap is closed. */
enum rc gap_closer_step(struct gap_closer *closer, struct gaps *gaps, const struct source *source,
                        int64_t now_ms, size_t *closed, struct err *err);

#endif
