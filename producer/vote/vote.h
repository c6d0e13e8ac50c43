/* SPDX-License-Identifier: MIT */
/* The vote engine: runs a batch of votes in one transaction and computes the exact answer of each,
 * in the order of arrival. Decides what a vote changes, which event it makes, what a lost COMMIT
 * means and how a batch is split when the database refuses one of its votes. An engine and its
 * store belong to one thread. */
#ifndef PRODUCER_VOTE_VOTE_H
#define PRODUCER_VOTE_VOTE_H

#include "common/err.h"
#include "producer/producer_ops.h"

#include <stdbool.h>
#include <stddef.h>

#define VOTE_AGGREGATE_TYPE "vote"
#define VOTE_EVENT_TYPE "VoteChanged"

struct vote_engine;

struct vote_engine_config {
    const struct vote_store *store;             /* borrowed until close */
    size_t items_max;                           /* longest batch */
    size_t lane_count;                          /* outbox tables to spread over, >= 1 */
    void (*rng_bytes)(void *bytes, size_t len); /* fills bytes for event ids: os_random() */
};

/* Allocates all memory. RC_FATAL: there is not enough. */
enum rc vote_engine_open(struct vote_engine **engine, const struct vote_engine_config *config,
                         struct err *err);
void vote_engine_close(struct vote_engine *engine);

/* Votes that share transactions; vote_batch_start() sets all fields. */
struct vote_batch {
    struct vote_item **items;
    size_t count;
    size_t done;   /* items before this one have their outcome */
    size_t window; /* items of the next transaction; smaller after a refusal */
};

/* Borrows 1..items_max items whose outcome is VOTE_OPEN until the batch is finished or abandoned.
 * Items of an abandoned batch may be started again, alone or with others. */
void vote_batch_start(struct vote_batch *batch, struct vote_item **items, size_t count);
bool vote_batch_finished(const struct vote_batch *batch);

/* Tries one transaction. RC_OK: some items have their outcome; call again until the batch is
 * finished. RC_RETRY: none has; call again with the same batch later: an item whose COMMIT was lost
 * (`unknown`) is recovered and not counted twice. RC_FATAL: as RC_RETRY, but an operator must act.
 * Never RC_REJECT: a refused vote becomes VOTE_REFUSED and is logged. */
enum rc vote_engine_step(struct vote_engine *engine, struct vote_batch *batch, struct err *err);

#endif
