/* SPDX-License-Identifier: MIT */
/* The ops of a stream lane's cleaner: the rows of its table that are published and kept. An adapter
 * fills them from the table relay_published, tests from a model. The cleaner's thread.
 *
 * RC_RETRY: try again later. RC_FATAL: an operator has to act. */
#ifndef OUTBOX_RELAY_STREAM_CLEANER_OPS_H
#define OUTBOX_RELAY_STREAM_CLEANER_OPS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the table of a lane has. */
struct cleaner_table {
    bool has_seq; /* a column seq that is its primary key: no two rows ever have the same */
    bool has_created_at;
};

/* Rows whose seqs were saved together. */
struct cleaner_entry {
    int64_t number;
    int64_t age_ms;  /* since they were saved, by the clock of the database */
    struct buf seqs; /* as seq_ranges.h has them; empty unless the age was reached */
};

struct cleaner_ops {
    void *ctx;
    enum rc (*table)(void *ctx, struct cleaner_table *table, struct err *err);
    /* Reads the oldest entry of the lane, with its seqs if it is at least so old. The memory of
     * entry->seqs is used again. */
    enum rc (*oldest)(void *ctx, int64_t age_ms, struct cleaner_entry *entry, bool *found,
                      struct err *err);
    /* As in struct deleter_ops. RC_RETRY also when the database is not the one from which the last
     * entry was read: it has to be read again. */
    enum rc (*delete_ranges)(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err);
    /* Deletes an entry whose rows are deleted. Repeating it is harmless. */
    enum rc (*end)(void *ctx, int64_t number, struct err *err);
    /* Writes the lowest seqs of the table that are below those of all entries of the lane and whose
     * rows are at least so old; at most seqs_max, ascending. */
    enum rc (*list_old)(void *ctx, int64_t age_ms, int64_t *seqs, size_t seqs_max, size_t *count,
                        struct err *err);
};

#endif
