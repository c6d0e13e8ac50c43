/* SPDX-License-Identifier: MIT */
/* Applies one batch, or a group of batches, in one transaction: checks the fence, skips what is
 * applied, computes totals, writes, moves the offset. Decides what a duplicate is, what a batch
 * changes, which of its votes are held (held.h), and which batches may share a transaction. Waiting
 * for a COMMIT costs as much for one batch as for several, so small batches of other partitions
 * share it. Each batch is fenced for itself, and a group is applied as a whole or not at all.
 *
 * Invariant C5: held records are read and written only with the partition's row of
 * consumer_progress locked, and every batch is whole while a content of the partition is held. The
 * votes of a content are therefore either in the log or behind its first held vote, in the order of
 * their offsets. A whole batch keeps the bytes of each vote's record, so that it can become a dead
 * record.
 *
 * The process may end between any two calls of the sink and the work may be repeated: nothing is
 * applied twice. One thread at a time. */
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

/* Batches of several partitions that share one transaction. */
struct apply_group {
    size_t count;
    struct batch *batches[APPLY_GROUP_MAX];
    struct place places[APPLY_GROUP_MAX];
    int64_t epochs[APPLY_GROUP_MAX];               /* of the claims */
    struct progress_row progress[APPLY_GROUP_MAX]; /* as the last try found it */
};

enum apply_end {
    APPLY_DONE,
    /* another owner, or the row ends before the batch begins, or the beginning of the log moved */
    APPLY_FENCED,
    /* votes must be held, but the batch is not whole and lacks their records; nothing was done */
    APPLY_AGAIN,
    /* of a group: it cannot be applied as a whole and nothing was done; apply each batch alone */
    APPLY_APART,
};

struct apply_result {
    enum apply_end end;
    size_t applied;                  /* rows added to the log */
    size_t duplicates;               /* votes that were in the log before */
    size_t stale;                    /* votes that changed nothing; see tally.h */
    size_t ended;                    /* tallies that ended */
    size_t dead[RECORD_CLASS_COUNT]; /* stored records, by the class of their reason */
    /* the row of the first of each class in dead_record; 0: none, or it existed before */
    int64_t dead_ids[RECORD_CLASS_COUNT];
    /* of a whole batch: no content of the partition is held, so the next need not be whole */
    bool clear;
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
    bool refused; /* the database refused the votes of the last try */
    /* search for duplicates before writing, because the last batch had some */
    bool search_duplicates;
    struct apply_result unknown_counts; /* of a transaction whose COMMIT may have worked */
    /* unknown_counts is of such a transaction and not counted yet; see apply_forget() */
    bool commit_unknown;
};

/* sink and owner are borrowed for the life of apply. RC_FATAL: no memory. */
enum rc apply_init(struct apply *apply, const struct sink *sink, const char *owner,
                   size_t batch_rows_max, struct err *err);
void apply_done(struct apply *apply);

/* From now on each vote is compared with the last vote of its voter on its content, in vote_last.
 * For events that need not be changes: repeated and older votes are stale and change nothing.
 * RC_FATAL: no memory. */
enum rc apply_keep_lasts(struct apply *apply, size_t batch_rows_max, struct err *err);

/* From now on a batch with dead records is refused while its partition has *dead_max undecided dead
 * records; 0: never. dead_max is borrowed for the life of apply, and its value may change. */
void apply_limit_dead(struct apply *apply, const _Atomic int64_t *dead_max);

/* Takes the partition and fences its earlier owners. Stores progress->topic_id if the row has none,
 * and fills *progress from the row. RC_RETRY: the claim may have been stored; repeat it. */
enum rc apply_claim(struct apply *apply, const struct place *place, struct progress_row *progress,
                    struct err *err);

/* Applies a batch of the partition that was claimed with epoch. RC_OK: see result. RC_RETRY:
 * nothing was applied or the COMMIT is unknown; call again with the same batch. RC_REJECT: the
 * database refuses this batch. result is set by RC_OK only. */
enum rc apply_batch(struct apply *apply, const struct place *place, int64_t epoch,
                    struct batch *batch, struct apply_result *result, struct err *err);

/* Adds the batch to the group. An empty group takes any batch. False: the batch cannot share the
 * group's transaction, or the group would exceed rows_max votes. Each batch of a group is of
 * another partition. A batch that is whole or has dead records is applied alone. */
bool apply_group_add(struct apply_group *group, size_t rows_max, const struct place *place,
                     int64_t epoch, struct batch *batch);

/* Applies all batches of a group; result is of all of them together. RC_RETRY: all, none or
 * unknown; call again with the same group, or apply each batch alone. One fenced or refused batch
 * does not delay the others: the group then ends as APPLY_APART. */
enum rc apply_group(struct apply *apply, struct apply_group *group, struct apply_result *result,
                    struct err *err);

/* Forgets a COMMIT whose answer was lost: the next calls have other batches. Until then such a
 * COMMIT is counted by the first batch of its group that is found applied. */
void apply_forget(struct apply *apply);

/* Applies at most batch_rows_max votes inside a transaction of the sink that the caller begins and
 * ends. Votes whose event is in the log become `skip`. RC_RETRY and RC_REJECT: roll back. */
enum rc apply_votes(struct apply *apply, struct vote_row *rows, size_t count,
                    struct apply_result *result, struct err *err);

#endif
