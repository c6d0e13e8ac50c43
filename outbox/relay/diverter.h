/* SPDX-License-Identifier: MIT */
/* Takes the rows of diverted keys into the retry queue, in order, and asks which keys have come to
 * their end there (diverted_keys.h). A part of the deleter's step, in its thread, with waits of its
 * own: a retry queue that takes nothing keeps no published row from being deleted. */
#ifndef OUTBOX_RELAY_DIVERTER_H
#define OUTBOX_RELAY_DIVERTER_H

#include "common/backoff.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"

#include <stddef.h>
#include <stdint.h>

/* Rows of one transaction, and keys of one question. */
#define DIVERTER_ROWS_MAX 100
#define DIVERTER_KEYS_MAX 64

struct diverter {
    struct lane *lane;
    struct deleter_ops ops;
    struct backoff backoff;
    uint64_t rng;
    int64_t wait_until_ms; /* after a failure */
    int64_t ask_at_ms;
    size_t cursor;   /* of the questions */
    size_t rows_max; /* DIVERTER_ROWS_MAX, or fewer in tests */
    struct lane_key keys[DIVERTER_KEYS_MAX];
};

/* lane and ops are borrowed. seed: 64 random bits. */
void diverter_init(struct diverter *diverter, struct lane *lane, const struct deleter_ops *ops,
                   uint64_t seed);

/* epoch: of the lease that is held now; 0: none. Returns when it wants to go on. */
int64_t diverter_step(struct diverter *diverter, int64_t epoch, int64_t now_ms);

#endif
