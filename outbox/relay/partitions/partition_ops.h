/* SPDX-License-Identifier: MIT */
/* The ops for the partitions of a lane's table, which is partitioned by RANGE (seq). An adapter
 * fills them from the table and relay_published, tests from a model. The cleaner's thread.
 *
 * RC_RETRY: try again later; with the code of a lock wait time-out another session uses the table.
 * RC_REJECT: the account lacks a privilege. RC_FATAL: an operator has to act. */
#ifndef OUTBOX_RELAY_PARTITIONS_PARTITION_OPS_H
#define OUTBOX_RELAY_PARTITIONS_PARTITION_OPS_H

#include "common/err.h"
#include "outbox/relay/partitions/seq_set.h"
#include "outbox/relay/stream/cleaner_ops.h"

#include <stdbool.h>
#include <stdint.h>

#define PARTITION_NAME_SIZE 65

/* A partition with a limit, and what is known of its rows. */
struct partition {
    char name[PARTITION_NAME_SIZE];
    int64_t limit;    /* its seqs are below */
    int64_t low;      /* its lowest seq; limit: it is empty */
    bool is_finished; /* there is a row, or an entry, with a seq from the limit on */
    int64_t high;     /* highest seq of the table; 0: it is empty */
    /* Age of the last entry that may have a seq below limit; INT64_MAX: there is none. Below the
     * keep_ms of the call it may be that of an earlier one. */
    int64_t youngest_ms;
    int64_t oldest_ms;  /* age of the entry with the lowest seq of those that may be its; 0: none */
    int64_t last_limit; /* of the last partition that has one */
};

/* Entries by their lowest seq; zeroed: before the first one. */
struct entry_cursor {
    int64_t first_seq;
    int64_t number;
};

struct partition_ops {
    void *ctx;
    /* Finds the partition with the lowest limit above this one. *found is false if there is none;
     * partition->last_limit is set then, too. */
    enum rc (*next)(void *ctx, int64_t above, int64_t keep_ms, struct partition *partition,
                    bool *found, struct err *err);
    /* Waits until each transaction that has used the table has ended, and then reads
     * partition->low again. */
    enum rc (*wait_for_writers)(void *ctx, struct partition *partition, struct err *err);
    /* Counts the prepared XA transactions of the server that the wait for the writers may have
     * passed over: *lost have lost their session, and with it their metadata locks; *with_session
     * may lose theirs just now. Both are 0 on a server that keeps the locks. */
    enum rc (*count_prepared)(void *ctx, int64_t *lost, int64_t *with_session, struct err *err);
    /* Adds the seqs of the next entries with a seq below the limit to the set. */
    enum rc (*fill)(void *ctx, const struct partition *partition, struct entry_cursor *cursor,
                    struct seq_set *set, bool *more, struct err *err);
    /* Compares the next rows of the partition, from *at on, with the set. *rows is their number,
     * *at the seq to go on from, or the limit at the end. *unpublished is the first seq that is not
     * in the set, or 0. */
    enum rc (*scan)(void *ctx, const struct partition *partition, const struct seq_set *set,
                    int64_t *at, int64_t *rows, int64_t *unpublished, struct err *err);
    /* Drops the partition if it exists and this instance holds the lane's lease with this epoch;
     * otherwise sets *fenced. */
    enum rc (*drop)(void *ctx, const struct partition *partition, int64_t epoch, bool *fenced,
                    struct err *err);
    /* Deletes those of the next entries whose seqs are all below the limit. */
    enum rc (*end)(void *ctx, const struct partition *partition, struct entry_cursor *cursor,
                   bool *more, struct err *err);
    /* Makes a partition behind the last one with a limit if that one is in use, or there is none,
     * and this instance holds the lease. It is to cover span_ms (partition_size.h). *is_full:
     * there are too many rows behind the last limit, which writers would have to wait for; nothing
     * is made then. */
    enum rc (*make)(void *ctx, int64_t epoch, int64_t span_ms, bool *is_full, struct err *err);
    /* As cleaner_ops.oldest, of the entries whose lowest seq is below `from` or not below `below`,
     * and of them the one with the lowest seq. */
    enum rc (*oldest)(void *ctx, int64_t from, int64_t below, int64_t age_ms,
                      struct cleaner_entry *entry, bool *found, struct err *err);
};

#endif
