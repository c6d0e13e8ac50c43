/* SPDX-License-Identifier: MIT */
/* The last vote of each voter on each content, for events of producers that do not keep it
 * themselves. Decides which votes change nothing: a repeat of the last vote, and a vote older than
 * it. No memory is taken after lasts_init(). Pure; one thread at a time. */
#ifndef CONSUMER_APPLY_LASTS_H
#define CONSUMER_APPLY_LASTS_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stddef.h>

struct lasts {
    struct last_row *rows; /* sorted by content_id and voter_id after lasts_collect() */
    size_t count;
    size_t rows_max;
};

/* For batches of up to votes_max votes. RC_FATAL: no memory. */
enum rc lasts_init(struct lasts *lasts, size_t votes_max, struct err *err);
void lasts_done(struct lasts *lasts);

/* Starts over with the voters of the votes that are not `skip`, each once for each content. */
void lasts_collect(struct lasts *lasts, const struct vote_row *votes, size_t count);

/* Goes through the votes in order, marks as `skip` and `aside` those that change nothing against the
 * rows, and changes the rows with those that are not older. Says how many it marked. Who has no row
 * has not voted. */
size_t lasts_judge(struct lasts *lasts, struct vote_row *votes, size_t count);

#endif
