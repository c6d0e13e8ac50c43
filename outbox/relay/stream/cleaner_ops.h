/* SPDX-License-Identifier: MIT */
/* The ops of a stream lane's cleaner: the rows of its table that are published and kept. An adapter
 * fills them from the tables relay_published and relay_published_id, tests from a model. The
 * cleaner's thread.
 *
 * RC_RETRY: try again later. RC_FATAL: an operator has to act. */
#ifndef OUTBOX_RELAY_STREAM_CLEANER_OPS_H
#define OUTBOX_RELAY_STREAM_CLEANER_OPS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/stream/published_ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the table of a lane has. */
struct cleaner_table {
    bool has_seq; /* a column seq that is its primary key: no two rows ever have the same */
    bool has_id;  /* the column of ids has a unique index of its own, and one of the usual types */
    bool has_created_at;
    bool is_partitioned; /* by ranges of seq (partitions/partition_cleaner.h) */
};

/* By what the rows of an entry are known. */
enum cleaner_kind {
    CLEANER_SEQS,
    CLEANER_IDS,
};

/* Rows that were saved together. */
struct cleaner_entry {
    int64_t number;
    int64_t age_ms;    /* since they were saved, by the clock of the database */
    int64_t id_count;  /* of CLEANER_IDS */
    int64_t first_seq; /* of a table with partitions: the lowest seq */
    struct buf rows;   /* as seq_ranges.h or published_ids.h has them; empty unless the age was
                          reached */
};

struct cleaner_ops {
    void *ctx;
    enum rc (*table)(void *ctx, struct cleaner_table *table, struct err *err);
    /* Reads the oldest entry of this kind of the lane, with its rows if it is at least so old. The
     * memory of entry->rows is used again. */
    enum rc (*oldest)(void *ctx, enum cleaner_kind kind, int64_t age_ms,
                      struct cleaner_entry *entry, bool *found, struct err *err);
    /* As in struct deleter_ops. RC_RETRY also when the database is not the one from which the last
     * entry was read: it has to be read again. */
    enum rc (*delete_ranges)(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err);
    /* The same for the rows with these ids, after table has found has_id. */
    enum rc (*delete_ids)(void *ctx, const struct published_ids *ids, int64_t epoch, bool *fenced,
                          struct err *err);
    /* Deletes an entry whose rows are deleted. Repeating it is harmless. */
    enum rc (*end)(void *ctx, enum cleaner_kind kind, int64_t number, struct err *err);
    /* Counts the ids of all entries of the lane. */
    enum rc (*count_ids)(void *ctx, int64_t *count, struct err *err);
    /* Of rows that are at least so old, by the time that the writer gave them, at most marks_max
     * ones, ascending. CLEANER_SEQS: the lowest seqs of the table that are below those of all
     * entries of the lane. CLEANER_IDS: the hashes of the ids of any rows. */
    enum rc (*list_old)(void *ctx, enum cleaner_kind kind, int64_t age_ms, int64_t *marks,
                        size_t marks_max, size_t *count, struct err *err);
};

#endif
