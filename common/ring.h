/* SPDX-License-Identifier: MIT */
/* A bounded ring of pointers between exactly one giving and one taking thread. Ownership of what a
 * pointer names goes with it. In the simulation one thread plays both. */
#ifndef COMMON_RING_H
#define COMMON_RING_H

#include "common/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define CACHE_LINE_BYTES 64
#define RING_SLOTS_MAX ((size_t)1 << 30)

struct ring {
    void **slots;
    size_t mask;
    /* A cache line for each end. Padded, not aligned: malloc() aligns to less. */
    char pad_slots[CACHE_LINE_BYTES];
    atomic_size_t head; /* next to take; written by the taker */
    char pad_head[CACHE_LINE_BYTES];
    atomic_size_t tail; /* next to give; written by the giver */
    char pad_tail[CACHE_LINE_BYTES];
};

/* Room for at least slots_min pointers (rounded up to a power of two). RC_FATAL: no memory, or
 * more than RING_SLOTS_MAX. */
enum rc ring_init(struct ring *ring, size_t slots_min, struct err *err);

/* What is still inside is the caller's to release first. */
void ring_done(struct ring *ring);

/* item is not NULL. False when full; it then stays the caller's. */
bool ring_give(struct ring *ring, void *item);

/* NULL when empty. */
void *ring_take(struct ring *ring);

/* What ring_take() would take, for the taker; it stays inside. */
void *ring_peek(const struct ring *ring);

/* Seen by the giver, the count can only shrink; by the taker, only grow; to others it is
 * approximate, but never above the number of slots. */
size_t ring_count(const struct ring *ring);

#endif
