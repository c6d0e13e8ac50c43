/* SPDX-License-Identifier: MIT */
/* What the retry queue's handler `vote` does: replays dead records, or applies a vote event.
 * Decides what is done, what is worth another attempt and what is not.
 *
 * A replay takes what is held of a key (held.h) in its order, page by page, with the partition's
 * progress locked, so that the consumer either still keeps the key's next vote behind it, or finds
 * nothing held and applies it. One thread at a time. */
#ifndef CONSUMER_HELD_VOTE_TASK_H
#define CONSUMER_HELD_VOTE_TASK_H

#include "common/err.h"
#include "consumer/apply/apply.h"
#include "consumer/apply/sink_ops.h"
#include "consumer/dead/dead.h"
#include "consumer/held/vote_options.h"
#include "outbox/retry/handler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vote_task {
    const struct sink *sink;
    const struct dead_store *store;
    bool keep_lasts;
    int64_t (*now_ms)(void);
    const struct stop *stop;            /* NULL: none */
    int64_t until_ms;                   /* what is left then waits for the next attempt */
    const atomic_llong *lease_until_ms; /* as in struct retry_job */
};

/* Replays what options name. */
void vote_task_replay(const struct vote_task *task, const struct vote_options *options,
                      struct attempt_result *attempt);

/* Applies one vote event: twice is once, by its eventId. It does not wait behind what is held of
 * its content, nor does it hold anything. */
void vote_task_apply(const struct vote_task *task, const void *bytes, size_t len,
                     struct attempt_result *attempt);

#endif
