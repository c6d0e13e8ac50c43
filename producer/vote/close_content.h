/* SPDX-License-Identifier: MIT */
/* Closes a deleted content: from then on no vote on it counts, and its tombstone is the last event
 * of its key. The caller removes its rows of vote_state and vote_count afterwards. The store
 * belongs to one thread. */
#ifndef PRODUCER_VOTE_CLOSE_CONTENT_H
#define PRODUCER_VOTE_CLOSE_CONTENT_H

#include "common/err.h"
#include "producer/producer_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of the event, which has no payload (schema/vote_event.h). */
#define CONTENT_DELETED_TYPE "ContentDeleted"

struct close_content {
    const struct vote_store *store;             /* borrowed */
    size_t lane_count;                          /* outbox tables to spread over, >= 1 */
    void (*rng_bytes)(void *bytes, size_t len); /* fills bytes for event ids: os_random() */
};

/* Runs one transaction. RC_OK: the content is closed; *now: by this call, false: it was before.
 * RC_RETRY: not closed, or the answer to the COMMIT was lost; a repetition is harmless. RC_REJECT:
 * the database refuses a row. RC_FATAL: an operator must act. */
enum rc close_content(const struct close_content *close, int64_t content_id, bool *now,
                      struct err *err);

#endif
