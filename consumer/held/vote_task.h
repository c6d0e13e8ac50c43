/* SPDX-License-Identifier: MIT */
/* The work of the handler `vote`: replays dead records, or applies one vote event. Decides whether
 * another attempt is worthwhile.
 *
 * A replay handles the held records of a key (held.h) in their order, page by page, with the
 * partition's progress locked. The consumer therefore either stores the key's next vote behind the
 * held ones, or finds nothing held and applies it. One thread at a time. */
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
    const struct stop *stop; /* NULL: none */
    /* records that are left at this time wait for the next attempt */
    int64_t until_ms;
    const atomic_llong *lease_until_ms; /* as in struct retry_job */
};

/* Replays the records that the options select. */
void vote_task_replay(const struct vote_task *task, const struct vote_options *options,
                      struct attempt_result *attempt);

/* Applies one vote event. A repeat is recognized by its eventId. The vote does not wait behind held
 * votes of its content, and it holds none. */
void vote_task_apply(const struct vote_task *task, const void *bytes, size_t len,
                     struct attempt_result *attempt);

#endif
