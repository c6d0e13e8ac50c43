/* SPDX-License-Identifier: MIT */
#include "common/ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum rc ring_init(struct ring *ring, size_t slots_min, struct err *err)
{
    size_t slots = 1;

    memset(ring, 0, sizeof(*ring));
    if (slots_min > RING_SLOTS_MAX)
        return err_fail(err, RC_FATAL, 0, "a ring of %zu slots is too large", slots_min);
    while (slots < slots_min)
        slots *= 2;
    ring->slots = calloc(slots, sizeof(*ring->slots));
    if (!ring->slots)
        return err_fail(err, RC_FATAL, 0, "out of memory for a ring of %zu slots", slots);
    ring->mask = slots - 1;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return RC_OK;
}

void ring_done(struct ring *ring)
{
    free(ring->slots);
    memset(ring, 0, sizeof(*ring));
}

bool ring_give(struct ring *ring, void *item)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);

    assert(item);
    if (tail - head > ring->mask)
        return false;
    ring->slots[tail & ring->mask] = item;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

void *ring_peek(const struct ring *ring)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);

    return head == tail ? NULL : ring->slots[head & ring->mask];
}

void *ring_take(struct ring *ring)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    void *item = ring_peek(ring);

    if (item)
        atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return item;
}

size_t ring_count(const struct ring *ring)
{
    /* In this order: a head read later may have passed the tail. */
    size_t head = atomic_load(&ring->head);
    size_t count = atomic_load(&ring->tail) - head;

    return count > ring->mask ? ring->mask + 1 : count;
}
