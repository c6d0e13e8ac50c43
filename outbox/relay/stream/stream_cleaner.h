/* SPDX-License-Identifier: MIT */
/* The cleaner of a stream lane. It deletes the rows of the lane's table that were published keep_ms
 * ago, and only while the lane's lease is held. The keeper has saved their seqs, or with
 * keep_ids_max the ids of rows without a seq, together with the position (stream_keeper.h), in
 * entries. The cleaner takes the oldest entry, deletes its rows in pieces, and then the entry.
 * After each piece it rests as long as the piece took, so that it uses at most half of what one
 * connection can do and writers keep their speed.
 *
 * It also finds rows that never came through the log (sql_log_bin = 0): they are below the seqs of
 * all entries, older than keep_ms, and the lane is current. Such a row was in the table when the
 * cleaner listed the oldest rows before, a minute ago, so its transaction had committed by then,
 * and its entry would have been saved since. The cleaner never deletes them. Ids have no order, so
 * of a table without a seq such a row is one that is older than keep_ms, by the time that its
 * writer gave it, and was already in the table keep_ms and a minute ago, while the lane was
 * current: the cleaner would have deleted it.
 *
 * Of ids it keeps at most keep_ids_max, or as many more as came since it counted them, each ten
 * seconds: then it deletes the oldest entries before they were kept for keep_ms, without a rest.
 *
 * Of a table that is partitioned by ranges of seq whole partitions are dropped, and rows are
 * deleted one by one only where that cannot be done (partitions/partition_cleaner.h).
 *
 * When the table was emptied (TRUNCATE), the keeper deletes all entries, and the cleaner gives up
 * the one that it has: new rows may have the seqs in it.
 *
 * Entries of the kind by which no row of the table is deleted are left from before the table or
 * keep_ids_max was changed. They end after keep_ms, and their rows stay.
 *
 * Invariant R14: only a row whose seq or id was saved as done is deleted, and an entry ends only
 * after its rows are deleted. All steps may be repeated (test_stream_cleaner).
 *
 * A thread of its own, but for the conditions and metrics. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_CLEANER_H
#define OUTBOX_RELAY_STREAM_STREAM_CLEANER_H

#include "common/backoff.h"
#include "common/condition.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/partitions/partition_cleaner.h"
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
/* Time between two counts of the ids that are kept. */
#define CLEANER_COUNT_MS INT64_C(10000)

/* Time between two looks for entries of the kind that is not used. */
#define CLEANER_OTHER_MS INT64_C(60000)

/* Rows that never came through the log are counted up to this number. */
#define CLEANER_LISTED_MAX 1001

struct cleaner_list {
    bool is_known;
    int64_t made_ms;
    size_t count;
    int64_t marks[CLEANER_LISTED_MAX]; /* see cleaner_ops.list_old */
};

struct stream_cleaner {
    struct lane *lane; /* NULL: not initialised */
    struct cleaner_ops ops;
    int64_t keep_ms; /* -1: it does nothing */
    int64_t epoch;   /* of the lease under which it works; 0: none */
    bool has_table;  /* table was read under this lease */
    int64_t emptied; /* lane->emptied when it was read */
    bool told;       /* it was logged that nothing is removed */
    struct cleaner_table table;
    struct partition_cleaner partitions;
    bool has_entry;
    struct cleaner_entry entry;
    struct seq_ranges left;        /* seqs of the entry whose rows may still be there */
    struct published_ids left_ids; /* or ids */
    int64_t count_at_ms;           /* when to count the ids that are kept again */
    int64_t early;                 /* so many ids of them are to end before their time */
    struct backoff backoff;
    uint64_t rng;
    int64_t wait_until_ms;        /* after a failure: when to try again */
    int64_t other_at_ms;          /* when to look for entries of the kind that is not used */
    int64_t list_at_ms;           /* when to list the oldest rows again */
    struct cleaner_list lists[2]; /* the last one, and the one that is being made */
    size_t rows_max;              /* CLEANER_ROWS_MAX, or fewer in tests */
    struct condition removing;    /* MySQL */
    struct condition unpublished; /* failing while there are rows that never came through the log */
    struct condition kept_ids;    /* failing while more than keep_ids_max are kept */
    struct condition dropping;    /* failing while partitions cannot be dropped or made */
};

/* lane is borrowed until stream_cleaner_done(), ops are copied; seed is 64 random bits. It owns no
 * memory at first. */
void stream_cleaner_init(struct stream_cleaner *cleaner, struct lane *lane,
                         const struct cleaner_ops *ops, uint64_t seed);

/* Partitions of a table that has some are dropped by these ops, which are copied. Before the first
 * step; otherwise all rows are deleted one by one. */
void stream_cleaner_use_partitions(struct stream_cleaner *cleaner, const struct partition_ops *ops);

/* Accepts a zeroed cleaner. */
void stream_cleaner_done(struct stream_cleaner *cleaner);

/* Runs one step: at most two calls of ops. Returns in how many ms the next step is due. It has the
 * type of a loop_step. */
int64_t stream_cleaner_step(void *cleaner, int64_t now_ms);

#endif
