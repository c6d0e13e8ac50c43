/* SPDX-License-Identifier: MIT */
/* What a batch of votes changes. Decides which votes are there twice (struct event_set), which
 * change nothing against the last vote of their voter (struct lasts), and what the others add up to
 * (struct tally). Memory is taken by the _init functions alone. Pure; one thread at a time. */
#ifndef CONSUMER_APPLY_TALLY_H
#define CONSUMER_APPLY_TALLY_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stddef.h>
#include <stdint.h>

/* The totals of the contents of one batch: collected, put in key order, counted on row by row. */
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

/* Which votes of a batch are there twice: among themselves, or already in the log. */
struct event_set {
    struct vote_row *votes; /* borrowed, of the last event_set_collect() */
    uint32_t *slots;        /* open addressing: index into votes + 1, 0 = free */
    size_t mask;
};

/* For batches of up to votes_max votes. RC_FATAL: no memory. */
enum rc event_set_init(struct event_set *set, size_t votes_max, struct err *err);
void event_set_done(struct event_set *set);

/* Starts over with votes, which are borrowed until the next call; marks as `skip` those whose event
 * is among the earlier ones, and says how many. */
size_t event_set_collect(struct event_set *set, struct vote_row *votes, size_t count);

/* Marks the vote with this event as `skip`. 1 when it was not yet, else 0. */
size_t event_set_skip(struct event_set *set, const struct id *event_id);

/* The last vote of each voter on each content, for events of producers that do not keep it
 * themselves: a repeat of it changes nothing, nor does a vote that is older. */
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

/* Goes through the votes in order, marks as `skip` and `stale` those that change nothing against
 * the rows, and changes the rows with those that are not older. Says how many it marked. Who has no
 * row has not voted. */
size_t lasts_decide(struct lasts *lasts, struct vote_row *votes, size_t count);

#endif
