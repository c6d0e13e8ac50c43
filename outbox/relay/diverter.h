/* SPDX-License-Identifier: MIT */
/* The diverter moves the rows of diverted keys into the retry queue, in the order in which the
 * sender diverted them, and reads which keys have no task there any more (diverted_keys.h). It is
 * part of the deleter's step and runs in the deleter's thread. After a failure it waits by itself,
 * so that an unavailable retry queue does not stop the deletion of published rows. */
#ifndef OUTBOX_RELAY_DIVERTER_H
#define OUTBOX_RELAY_DIVERTER_H

#include "common/backoff.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"

#include <stddef.h>
#include <stdint.h>

/* Rows of one transaction; keys of one query. */
#define DIVERTER_ROWS_MAX 100
#define DIVERTER_KEYS_MAX 64

struct diverter {
    struct lane *lane;
    struct diverter_ops ops;
    struct backoff backoff;
    uint64_t rng;
    int64_t wait_until_ms; /* after a failure: when to try again */
    int64_t query_at_ms;   /* when to query keys again */
    size_t cursor;         /* where the next query starts; see diverted_keys_list_moved() */
    size_t rows_max;       /* DIVERTER_ROWS_MAX, or fewer in tests */
    struct lane_key keys[DIVERTER_KEYS_MAX];
};

/* Initialises the diverter. lane and ops are borrowed for its life; seed is 64 random bits. It owns
 * no memory. */
void diverter_init(struct diverter *diverter, struct lane *lane, const struct diverter_ops *ops,
                   uint64_t seed);

/* Runs one step with at most one call of ops: loads the keys, moves rows, or queries keys. epoch is
 * that of the lease held now, 0 when none is held. Returns in how many ms the next step is due. */
int64_t diverter_step(struct diverter *diverter, int64_t epoch, int64_t now_ms);

#endif
