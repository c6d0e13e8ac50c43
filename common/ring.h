/* SPDX-License-Identifier: MIT */
/* A bounded ring of pointers between exactly one giving and one taking thread. Ownership of what a
 * pointer names goes with it. In the simulation one thread plays both. */
#ifndef COMMON_RING_H
#define COMMON_RING_H

#include "common/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ring {
    void **slots;
    size_t mask;
    _Alignas(64) atomic_size_t head; /* next to take; written by the taker */
    _Alignas(64) atomic_size_t tail; /* next to give; written by the giver */
};

/* Room for at least slots_min pointers (rounded up to a power of two). RC_FATAL: no memory. */
enum rc ring_init(struct ring *ring, size_t slots_min, struct err *err);

/* What is still inside is the caller's to release first. */
void ring_done(struct ring *ring);

/* False when full; the pointer then stays the caller's. */
bool ring_give(struct ring *ring, void *item);

/* NULL when empty. */
void *ring_take(struct ring *ring);

/* Exact for the giver and the taker, a guess for anybody else. */
size_t ring_count(const struct ring *ring);

#endif
