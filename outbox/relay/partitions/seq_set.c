/* SPDX-License-Identifier: MIT */
#include "outbox/relay/partitions/seq_set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64

enum rc seq_set_begin(struct seq_set *set, int64_t from, int64_t below, struct err *err)
{
    size_t words;

    assert(from <= below && below - from <= SEQ_SET_SEQS_MAX);
    words = (size_t)(below - from) / WORD_BITS + 1;
    if (words > set->words) {
        uint64_t *bits = realloc(set->bits, words * sizeof(*bits));

        if (!bits)
            return err_fail(err, RC_RETRY, 0, "no memory for a set of %zu seqs", words * WORD_BITS);
        set->bits = bits;
        set->words = words;
    }
    memset(set->bits, 0, words * sizeof(*set->bits));
    set->from = from;
    set->below = below;
    return RC_OK;
}

static void set_bits(struct seq_set *set, size_t from, size_t to)
{
    for (size_t word = from / WORD_BITS; word <= to / WORD_BITS; word++) {
        size_t low = word == from / WORD_BITS ? from % WORD_BITS : 0;
        size_t high = word == to / WORD_BITS ? to % WORD_BITS : WORD_BITS - 1;

        set->bits[word] |= (UINT64_MAX << low) & (UINT64_MAX >> (WORD_BITS - 1 - high));
    }
}

void seq_set_add(struct seq_set *set, struct seq_range range)
{
    if (range.from < set->from)
        range.from = set->from;
    if (range.to >= set->below)
        range.to = set->below - 1;
    if (range.from <= range.to)
        set_bits(set, (size_t)(range.from - set->from), (size_t)(range.to - set->from));
}

bool seq_set_has(const struct seq_set *set, int64_t seq)
{
    size_t at;

    if (seq < set->from || seq >= set->below)
        return false;
    at = (size_t)(seq - set->from);
    return (set->bits[at / WORD_BITS] >> (at % WORD_BITS) & 1) != 0;
}

void seq_set_done(struct seq_set *set)
{
    free(set->bits);
    memset(set, 0, sizeof(*set));
}
