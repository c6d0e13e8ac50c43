/* SPDX-License-Identifier: MIT */
/* What a batch of votes changes. Decides which votes are duplicates (struct event_set), which
 * change nothing compared with the last vote of their voter (struct lasts) or because the tally of
 * their content has ended, and the new totals (struct tally). Only the _init functions allocate
 * memory. Pure; one thread at a time. */
#ifndef CONSUMER_APPLY_TALLY_H
#define CONSUMER_APPLY_TALLY_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stddef.h>
#include <stdint.h>

/* The totals of the contents of one batch: collected, sorted by key, then changed vote by vote. */
struct tally {
    struct tally_row *rows; /* sorted by content_id after tally_collect() */
    size_t count;
    uint32_t *slots; /* open addressing: index into rows + 1, 0 = free */
    size_t mask;
    size_t rows_max;
};

/* For batches of at most votes_max votes. RC_FATAL: no memory. */
enum rc tally_init(struct tally *tally, size_t votes_max, struct err *err);
void tally_done(struct tally *tally);

/* Replaces the rows by the contents of the votes and tombstones that are not `skip`, each once,
 * sorted. */
void tally_collect(struct tally *tally, const struct vote_row *votes, size_t count);

/* After the rows are locked, in the order of the votes: marks each tombstone as `skip` and its row
 * as ended, and the later votes of an ended content as `skip` and `stale`. A row that had not ended
 * before is marked as `ends`. *stale: how many votes were marked. Returns how many rows end. */
size_t tally_end(struct tally *tally, struct vote_row *votes, size_t count, size_t *stale);

/* For each vote that is not `skip`, in order: adds it to its row, and stores the row's total and
 * content_seq after it in the vote. Each must change its voter's vote. */
void tally_count(struct tally *tally, struct vote_row *votes, size_t count);

/* Finds the votes of a batch that are duplicates, of each other or of the log. */
struct event_set {
    struct vote_row *votes; /* borrowed since the last event_set_collect() */
    uint32_t *slots;        /* open addressing: index into votes + 1, 0 = free */
    size_t mask;
};

/* For batches of at most votes_max votes. RC_FATAL: no memory. */
enum rc event_set_init(struct event_set *set, size_t votes_max, struct err *err);
void event_set_done(struct event_set *set);

/* Replaces the content by votes, which are borrowed until the next call. Marks a vote as `skip` if
 * an earlier one has the same event, and returns how many it marked. */
size_t event_set_collect(struct event_set *set, struct vote_row *votes, size_t count);

/* Marks the vote with this event as `skip`. Returns 1 if it was not marked before, else 0. */
size_t event_set_skip(struct event_set *set, const struct id *event_id);

/* The last vote of each voter on each content, for producers that do not check it themselves. A
 * vote that repeats it or is older changes nothing. */
struct lasts {
    struct last_row *rows; /* sorted by content_id and voter_id after lasts_collect() */
    size_t count;
    size_t rows_max;
};

/* For batches of at most votes_max votes. RC_FATAL: no memory. */
enum rc lasts_init(struct lasts *lasts, size_t votes_max, struct err *err);
void lasts_done(struct lasts *lasts);

/* Replaces the rows by the voters of the votes that are not `skip`, each once for each content. */
void lasts_collect(struct lasts *lasts, const struct vote_row *votes, size_t count);

/* Compares the votes with the rows in order. Marks a vote that changes nothing as `skip` and
 * `stale`; a vote that is not older replaces its row. A voter without a row has not voted. Returns
 * how many votes it marked. */
size_t lasts_decide(struct lasts *lasts, struct vote_row *votes, size_t count);

#endif
