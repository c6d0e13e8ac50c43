/* SPDX-License-Identifier: MIT */
/* One batch, or a group of them, one transaction: fence, skip what is applied, count, write, move
 * on. Decides what a duplicate is, what a batch changes, what of it is kept for a cause that may
 * pass (held.h), and which batches may share a transaction. What a COMMIT is waited for costs as
 * much for one batch as for several, so small batches of other partitions come along; but each is
 * fenced for itself, and a group is applied as a whole or not at all.
 *
 * Invariant: what is held is read and written by whoever has the partition's row of
 * consumer_progress locked, and every batch is whole while something is: the votes of a content
 * are in the log, or behind its first one that is held, in the order of their offsets.
 *
 * It may be ended between any two calls of the sink, and done again: nothing is applied twice. One
 * thread at a time. */
#ifndef CONSUMER_APPLY_APPLY_H
#define CONSUMER_APPLY_APPLY_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"
#include "consumer/apply/sink_ops.h"
#include "consumer/apply/tally.h"
#include "consumer/held/held.h"
#include "consumer/ingest/batch.h"
#include "consumer/ingest/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define APPLY_GROUP_MAX 16

/* Batches of several partitions on their way into one transaction. */
struct apply_group {
    size_t count;
    struct batch *batches[APPLY_GROUP_MAX];
    struct place places[APPLY_GROUP_MAX];
    int64_t epochs[APPLY_GROUP_MAX];               /* with which they are claimed */
    struct progress_row progress[APPLY_GROUP_MAX]; /* as the last try has found it */
};

enum apply_end {
    APPLY_DONE,
    APPLY_FENCED, /* another owner, not where this batch begins, or the log begins later now */
    APPLY_AGAIN,  /* votes of it must be kept, and it is not whole: nothing was done */
    APPLY_APART,  /* of a group: not with one another, and nothing was done: apply each alone */
};

struct apply_result {
    enum apply_end end;
    size_t applied;                  /* rows in the log */
    size_t duplicates;               /* votes that were in it before */
    size_t stale;                    /* votes that changed nothing; see apply_keep_lasts() */
    size_t dead[RECORD_CLASS_COUNT]; /* records kept, by the class of their reason */
    bool clear; /* the batch is whole, and needs not be: nothing of the partition is held */
};

struct apply {
    const struct sink *sink;
    const char *owner;
    size_t rows_max;
    struct vote_row *rows; /* of a group */
    struct tally tally;
    struct event_set events;
    struct lasts lasts;
    struct held held;
    const _Atomic int64_t *dead_max; /* see apply_limit_dead() */
    bool keeps_lasts;
    bool refused;               /* the log did not take the votes of the last try */
    bool careful;               /* look for duplicates before writing: there were some just now */
    struct apply_result reckon; /* of a transaction whose COMMIT may have worked */
    bool commit_unknown;        /* there is one, and it is not counted yet; see apply_forget() */
};

/* sink and owner are borrowed for the life of apply. RC_FATAL: no memory. */
enum rc apply_init(struct apply *apply, const struct sink *sink, const char *owner,
                   size_t batch_rows_max, struct err *err);
void apply_done(struct apply *apply);

/* From now on every vote is held against the last one of its voter on its content, in vote_last:
 * for events that need not be changes. Repeated and older votes are stale and change nothing.
 * RC_FATAL: no memory.
 */
enum rc apply_keep_lasts(struct apply *apply, size_t batch_rows_max, struct err *err);

/* From now on a batch with dead records is refused while so many of its partition are kept already
 * and nobody has decided on them; 0: it never is. dead_max is borrowed for the life of apply, and
 * may change. */
void apply_limit_dead(struct apply *apply, const _Atomic int64_t *dead_max);

/* Takes the partition: the owners before are fenced. progress->topic_id is kept where the row has
 * none, and *progress filled with what the row says now. RC_RETRY: perhaps taken, do it again. */
enum rc apply_claim(struct apply *apply, const struct place *place, struct progress_row *progress,
                    struct err *err);

/* Applies a batch of the partition claimed with epoch. RC_OK: see result. RC_RETRY: nothing, or
 * nobody knows; call again with the same batch. RC_REJECT: the database refuses this batch.
 * After all but RC_OK result is left alone. */
enum rc apply_batch(struct apply *apply, const struct place *place, int64_t epoch,
                    struct batch *batch, struct apply_result *result, struct err *err);

/* Takes the batch in; an empty group takes any. False: it cannot share this group's transaction, or
 * there would be more than rows_max votes. Each batch of a group is of another partition, and none
 * is whole or has dead records, which are looked at partition by partition. */
bool apply_group_add(struct apply_group *group, size_t rows_max, const struct place *place,
                     int64_t epoch, struct batch *batch);

/* The same for all batches of a group; result is of all of them together. RC_RETRY: nothing, all,
 * or nobody knows; call again with the same group, or apply each alone. Whoever is fenced, or
 * refused, does not hold up the others: the group then ends as APPLY_APART. */
enum rc apply_group(struct apply *apply, struct apply_group *group, struct apply_result *result,
                    struct err *err);

/* What was applied last is given up, or over: what comes now is other batches. Until then a COMMIT
 * whose answer was lost is counted by the first batch of its group that is found applied. */
void apply_forget(struct apply *apply);

/* Applies votes, batch_rows_max at most, inside a transaction of the sink that the caller has begun
 * and ends: those whose event is in the log already become `skip`. RC_RETRY and RC_REJECT: roll
 * back. */
enum rc apply_votes(struct apply *apply, struct vote_row *rows, size_t count,
                    struct apply_result *result, struct err *err);

#endif
