/* SPDX-License-Identifier: MIT */
/* The rows of a replay from the table of a lane: entries of relay_published come in the order of
 * their numbers, the rows of an entry in that of their seqs, so events of a key keep their order.
 * One thread. */
#ifndef OUTBOX_RELAY_REPLAY_REPLAY_TABLE_H
#define OUTBOX_RELAY_REPLAY_REPLAY_TABLE_H

#include "common/err.h"
#include "outbox/relay/replay/replay_ops.h"
#include "outbox/relay/stream/seq_ranges.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Seqs of one statement, which may find few rows. */
#define REPLAY_SEQS_MAX 20000

/* All rows of the entries before `entry`, and those of `entry` up to seq, are done. Zeroed: none.
 */
struct replay_place {
    int64_t entry;
    int64_t seq;
};

struct replay_table {
    struct replay_table_ops ops;
    int64_t last_entry; /* the last one that is replayed */
    struct replay_place place;

    bool has_entry;
    struct replay_entry entry;
    struct seq_ranges seqs; /* of entry, the rest */
    struct seq_range ranges[DELETER_RANGES_MAX];
    size_t range_count;
    int64_t
        read_to; /* the batch has all selected rows of the entry up to this seq; 0: it is done */
    bool full;   /* the batch had no room for the next row */
};

/* Copies ops. */
void replay_table_init(struct replay_table *table, const struct replay_table_ops *ops,
                       struct replay_place after, int64_t last_entry);

/* Accepts a zeroed one. */
void replay_table_done(struct replay_table *table);

/* Valid while the table is. */
struct replay_source replay_table_source(struct replay_table *table);

/* Reads "ENTRY/SEQ". False: the text is no place. */
bool replay_place_read(struct replay_place *place, const char *text);

#endif
