/* SPDX-License-Identifier: MIT */
/* The first step of a lane: reads committed rows in an order that keeps each key's, while
 * transactions commit out of order.
 *
 * A poll reads what is above the cursor first and the open gaps below it after that, from the
 * highest to the lowest, and gives on everything in the order of seq. A row's predecessor in its
 * key committed before the row got its seq, so whoever is seen was preceded by something that a
 * later look at a lower place sees. Looking the other way round, or in between, breaks that.
 *
 * Every full_scan_ms the cursor goes back to zero, which finds rows in gaps that were closed
 * wrongly and rows that were left in the table; after trouble it goes back to the lowest row that
 * was given up. Rows that are under way are in the window and are passed over. `scan`
 * counts the full scans.
 *
 * TRUNCATE and a lowered AUTO_INCREMENT give seqs out again, below the cursor. When the table's
 * next value is not above the highest seq seen, the whole lane begins anew (lane_origin_lost),
 * because a row under way must not be taken for another one with its seq. A row below every one
 * that is known of starts a full scan at once. The reader's thread. */
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

/* Gaps read with one statement: a longer list costs the server more than a second statement. */
#define READER_RANGES_MAX 500

struct reader {
    struct lane *lane;
    struct source source;
    struct gaps gaps;
    struct window window;
    struct gap_closer closer;
    int64_t nodes_at_ms; /* when to ask again whether other nodes write */
    bool nodes_said;
    struct relay_batch *spare[LANE_BATCHES];
    size_t spare_count;

    int64_t epoch; /* under which it reads; 0: it rests */
    int64_t cursor;
    int64_t high;        /* highest seq seen: above it a missing seq is a new gap */
    int64_t reread_from; /* lowest row that was given up, or INT64_MAX */
    int64_t left_from;   /* lowest row of this scan that stays in the table, or INT64_MAX */
    uint64_t scan;
    int64_t scan_end; /* where the running full scan meets the old cursor; 0: no full scan runs */
    int64_t full_scan_at_ms;
    size_t ranges_max; /* READER_RANGES_MAX, or fewer in tests */
    size_t rows_next;  /* rows of the next read: follows their size */

    int64_t busy_ms; /* when the last row was found */
    int64_t look_at_ms;
    int64_t look_from; /* Invariant: no row that the reader knows of lies below it */
    int64_t low_at_ms; /* when to look for rows below all that are known */
    bool waits;        /* when it last looked, there was a row in the table */
    int64_t oldest_ms; /* since when, on our clock */
    int64_t oldest_seq;
    int64_t oldest_seen_ms; /* when this one was first seen to wait, on our clock */
    struct backoff backoff;
    int64_t retry_ms; /* the source is not asked before, after trouble */
    uint64_t rng;
    bool merging; /* said once that gaps are merged */
};

/* RC_FATAL: no memory. lane and source are borrowed. seed: 64 random bits. */
enum rc reader_init(struct reader *reader, struct lane *lane, const struct source *source,
                    uint64_t seed, struct err *err);
void reader_done(struct reader *reader);

/* A loop_step. */
int64_t reader_step(void *reader, int64_t now_ms);

#endif
