/* SPDX-License-Identifier: MIT */
/* Which votes of a batch are there twice: among themselves, or already in the log. No memory is
 * taken after event_set_init(). Pure; one thread at a time. */
#ifndef CONSUMER_APPLY_EVENT_SET_H
#define CONSUMER_APPLY_EVENT_SET_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stddef.h>
#include <stdint.h>

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

#endif
