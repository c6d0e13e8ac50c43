/* SPDX-License-Identifier: MIT */
/* The reader, the first step of a lane. It reads committed rows in an order that keeps the order of
 * each key, although transactions commit in a different order than they reserve seqs.
 *
 * One poll reads the rows above the cursor first, then the rows in the open gaps below it, from the
 * highest gap to the lowest, and passes all of them to the sender in the order of seq.
 * Invariant R1: a row's predecessor in its key had committed before the row got its seq. If a row
 * is visible, reading the gaps after the range above the cursor, from the highest down, therefore
 * finds its predecessor. Any other order of reading can miss it (mutants gaps-first, naive-cursor;
 * test_relay).
 *
 * A full scan sets the cursor to zero every full_scan_ms. It finds rows in gaps that were closed
 * too early, and rows that were left in the table. After a failure the cursor returns to the lowest
 * row that the sender returned without a known result. The reader skips rows that are in the
 * window. `scan` counts the full scans.
 *
 * After TRUNCATE or a lowered AUTO_INCREMENT the table assigns seqs below the cursor a second time.
 * If the table's next value is not above the highest seq read, the whole lane starts again
 * (lane_origin_lost()), because a row in the window must not be confused with a new row of the same
 * seq. If a row lies below every row that the reader knows of, a full scan begins at once. The
 * reader's thread. */
#ifndef OUTBOX_RELAY_READER_H
#define OUTBOX_RELAY_READER_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/relay/gaps.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Gaps per statement: a longer list costs the server more than a second statement. */
#define READER_RANGES_MAX 500

struct reader {
    struct lane *lane;
    struct source source;
    struct gaps gaps;
    struct window window;
    struct gap_closer closer;
    int64_t nodes_at_ms;                     /* when to query again whether other nodes write */
    bool nodes_logged;                       /* several_writer_nodes was logged */
    struct relay_batch *spare[LANE_BATCHES]; /* batches that the sender has returned */
    size_t spare_count;

    int64_t epoch;       /* of the lease under which it reads; 0: it does not read */
    int64_t cursor;      /* rows up to here were read */
    int64_t high;        /* highest seq read: above it a missing seq is a new gap */
    int64_t reread_from; /* lowest row to read again at once, or INT64_MAX */
    int64_t left_from;   /* lowest row left in the table by this full scan, or INT64_MAX */
    uint64_t scan;       /* number of the full scan */
    int64_t scan_end;    /* the full scan ends when the cursor reaches it; 0: none runs */
    int64_t full_scan_at_ms;
    size_t ranges_max; /* READER_RANGES_MAX, or fewer in tests */
    size_t rows_next;  /* rows to read with the next statement; see adapt_rows_next() */

    int64_t busy_ms;    /* when the last batch was passed to the sender */
    int64_t look_at_ms; /* when to update the metrics of the table again */
    int64_t look_from;  /* Invariant: the reader knows of no row below it */
    int64_t low_at_ms;  /* when to search again for rows below all known ones */
    bool has_rows;      /* the last read of the metrics found a row in the table */
    bool age_grows; /* without the lease: nothing was read since, so the row may still be there */
    int64_t oldest_ms; /* creation time of the oldest row, local clock */
    int64_t oldest_seq;
    int64_t oldest_seen_ms; /* when this oldest row was first seen, local clock */
    struct backoff backoff;
    int64_t retry_ms; /* after a failure: the source is not called before this time */
    uint64_t rng;
    bool merge_logged; /* gaps_merged was logged */
};

/* Initialises the reader. lane and source are borrowed until reader_done(); seed is 64 random bits.
 * Returns RC_FATAL when memory is exhausted; the reader then owns no memory. */
enum rc reader_init(struct reader *reader, struct lane *lane, const struct source *source,
                    uint64_t seed, struct err *err);

/* Frees the memory. A zeroed reader is allowed. */
void reader_done(struct reader *reader);

/* Runs one step: at most one poll and one step of the gap closer. Returns in how many ms the next
 * step is due. It has the type of a loop_step. */
int64_t reader_step(void *reader, int64_t now_ms);

#endif
