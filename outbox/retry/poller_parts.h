/* SPDX-License-Identifier: MIT */
/* What the files behind poller.h share; nobody else includes this. */
#ifndef OUTBOX_RETRY_POLLER_PARTS_H
#define OUTBOX_RETRY_POLLER_PARTS_H

#include "outbox/retry/poller.h"

/* One call in trouble is not made again for a while; the note tells of it. */
void poller_failed(struct poller *poller, enum pool_call call, enum rc rc, const struct err *err,
                   int64_t now_ms);
void poller_worked(struct poller *poller, enum pool_call call, int64_t now_ms);

/* poller_claim.c: a bounded number of claims of the round. False: the round is over. */
bool poller_claim(struct poller *poller, int64_t now_ms);
/* A class that may be claimed from, but for its being due. */
bool poller_may_claim(const struct poller *poller, const struct poller_class *class,
                      int64_t now_ms);

/* poller_expire.c: ends tasks that are older than the deadline of their scene and wait, whoever would
 * run them: they are claimed, and judged as exhausted without a run. */
void poller_expire(struct poller *poller, int64_t now_ms);
/* The task in the slot is too old to be begun. */
bool poller_is_expired(const struct slot *slot, int64_t now_ms);

/* poller_claim.c: the steps of a claim. The row is of the class. */
void poller_claim_take(struct poller *poller, const struct poller_class *class,
                       const struct task_row *row, int64_t now_ms);
/* They were not taken, or nobody knows. */
void poller_claim_drop(struct poller *poller);
/* They were: sent_ms is from before the statement that made the leases last lease_ms. */
void poller_claim_lease(struct poller *poller, int64_t sent_ms, int64_t lease_ms);

/* poller_queued.c: recalls claimed tasks that wait for a thread and must not begin any more. Those of
 * a paused scene go back to the table, expired ones end. With check_groups, which is needed once
 * after each change of the groups, those of a closed group go back, too, and those that their group
 * does not allow are refused. Returns when the oldest task that stays became due, or now_ms. */
int64_t poller_recall_queued(struct poller *poller, bool check_groups, int64_t now_ms);
/* Adds their ages to a count of all tasks, see retry_depths_begin(). */
void poller_age_queued(struct poller *poller, int64_t now_ms);

/* poller_slots.c */
struct slot *poller_slot_find(const struct poller *poller, int64_t id);
struct slot *poller_slot_take(struct poller *poller, int64_t id);
void poller_slot_free(struct poller *poller, struct slot *slot);
/* Copies the row into the slot, and what its handler needs. */
void poller_slot_fill(struct poller *poller, struct slot *slot, const struct task_row *row,
                      const struct poller_class *class, int64_t now_ms);

/* Do the groups, as last read, allow the task in the slot? False: the slot holds the result of an
 * attempt that did not begin. */
bool poller_slot_check(struct poller *poller, struct slot *slot);

/* poller_judge.c: decides what becomes of the task in the slot, by what its handler said, and lines
 * it up to be written back. */
void poller_judge(struct poller *poller, struct slot *slot, int64_t now_ms);

/* poller_finish.c: takes what the workers are through with, and writes what is judged. False: there
 * is something left to write, at poller->at_ms[POOL_FINISH]. */
void poller_take_done(struct poller *poller, int64_t now_ms);
bool poller_finish(struct poller *poller, int64_t now_ms);

/* poller_depths.c: counts tasks for the metrics, now and then. */
void poller_depths(struct poller *poller, int64_t now_ms);

#endif
