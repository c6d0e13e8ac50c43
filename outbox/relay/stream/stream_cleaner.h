/* SPDX-License-Identifier: MIT */
/* The cleaner of a stream lane. It deletes the rows of the lane's table that were published keep_ms
 * ago, and only while the lane's lease is held. The keeper has saved their seqs together with the
 * position (stream_keeper.h), in entries. The cleaner takes the oldest entry, deletes its rows in
 * pieces, and then the entry. After each piece it rests as long as the piece took, so that it uses
 * at most half of what one connection can do and writers keep their speed.
 *
 * It also finds rows that never came through the log (sql_log_bin = 0): they are below the seqs of
 * all entries, older than keep_ms, and the lane is current. Such a row was in the table when the
 * cleaner listed the oldest rows before, a minute ago, so its transaction had committed by then,
 * and its entry would have been saved since. The cleaner never deletes them.
 *
 * Invariant R14: only a row whose seq was saved as done is deleted, and an entry ends only after
 * its rows are deleted. All steps may be repeated (test_stream_cleaner).
 *
 * A thread of its own, but for the conditions and metrics. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_CLEANER_H
#define OUTBOX_RELAY_STREAM_STREAM_CLEANER_H

#include "common/backoff.h"
#include "common/condition.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/stream/cleaner_ops.h"
#include "outbox/relay/stream/seq_ranges.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most rows of one piece. */
#define CLEANER_ROWS_MAX 2000

/* Time between two lists of the oldest rows, and how much older than keep_ms a row has to be. */
#define CLEANER_LIST_MS INT64_C(60000)
#define CLEANER_MARGIN_MS INT64_C(60000)

/* Rows that never came through the log are counted up to this number. */
#define CLEANER_LISTED_MAX 1001

struct cleaner_list {
    bool is_known;
    size_t count;
    int64_t seqs[CLEANER_LISTED_MAX];
};

struct stream_cleaner {
    struct lane *lane; /* NULL: not initialised */
    struct cleaner_ops ops;
    int64_t keep_ms; /* -1: it does nothing */
    int64_t epoch;   /* of the lease under which it works; 0: none */
    bool has_table;  /* table was read under this lease */
    bool told;       /* it was logged that nothing is removed */
    struct cleaner_table table;
    bool has_entry;
    struct cleaner_entry entry;
    struct seq_ranges left; /* seqs of the entry whose rows may still be there */
    struct backoff backoff;
    uint64_t rng;
    int64_t wait_until_ms;        /* after a failure: when to try again */
    int64_t list_at_ms;           /* when to list the oldest rows again */
    struct cleaner_list lists[2]; /* the last one, and the one that is being made */
    size_t rows_max;              /* CLEANER_ROWS_MAX, or fewer in tests */
    struct condition removing;    /* MySQL */
    struct condition unpublished; /* failing while there are rows that never came through the log */
};

/* lane is borrowed until stream_cleaner_done(), ops are copied; seed is 64 random bits. It owns no
 * memory at first. */
void stream_cleaner_init(struct stream_cleaner *cleaner, struct lane *lane,
                         const struct cleaner_ops *ops, uint64_t seed);

/* Accepts a zeroed cleaner. */
void stream_cleaner_done(struct stream_cleaner *cleaner);

/* Runs one step: at most two calls of ops. Returns in how many ms the next step is due. It has the
 * type of a loop_step. */
int64_t stream_cleaner_step(void *cleaner, int64_t now_ms);

#endif
