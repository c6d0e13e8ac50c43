/* SPDX-License-Identifier: MIT */
/* The totals of the contents of one batch: collected, put in key order, and counted on row by row.
 * No memory is taken after tally_init(). Pure; one thread at a time. */
#ifndef CONSUMER_APPLY_TALLY_H
#define CONSUMER_APPLY_TALLY_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stddef.h>
#include <stdint.h>

struct tally {
    struct tally_row *rows; /* sorted by content_id after tally_collect() */
    size_t count;
    uint32_t *slots; /* open addressing: index into rows + 1, 0 = free */
    size_t mask;
    size_t rows_max;
};

/* For batches of up to votes_max votes. RC_FATAL: no memory. */
enum rc tally_init(struct tally *tally, size_t votes_max, struct err *err);
void tally_done(struct tally *tally);

/* Starts over with the contents of the votes that are not `skip`, each once, sorted. */
void tally_collect(struct tally *tally, const struct vote_row *votes, size_t count);

/* Fills votes and content_seq of the votes that are not `skip`, in order, from what the rows say,
 * and changes the rows with them. */
void tally_count(struct tally *tally, struct vote_row *votes, size_t count);

#endif
