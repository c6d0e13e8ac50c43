/* SPDX-License-Identifier: MIT */
/* A set of seqs from one range: a bit for each, so that entries that overlap and come in any order
 * can be put together. Pure; one thread at a time. */
#ifndef OUTBOX_RELAY_PARTITIONS_SEQ_SET_H
#define OUTBOX_RELAY_PARTITIONS_SEQ_SET_H

#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest range: 16 MiB of bits. */
#define SEQ_SET_SEQS_MAX (INT64_C(1) << 27)

/* A zeroed one is empty. */
struct seq_set {
    uint64_t *bits;
    size_t words; /* that are allocated */
    int64_t from;
    int64_t below;
};

/* Empties the set and makes room for the seqs from `from` on and below `below`, which are at most
 * SEQ_SET_SEQS_MAX. Keeps its memory. RC_RETRY: no memory. */
enum rc seq_set_begin(struct seq_set *set, int64_t from, int64_t below, struct err *err);

/* Adds the seqs of a range; those outside of the set's are left out. */
void seq_set_add(struct seq_set *set, struct seq_range range);

bool seq_set_has(const struct seq_set *set, int64_t seq);

/* Frees the memory. */
void seq_set_done(struct seq_set *set);

#endif
