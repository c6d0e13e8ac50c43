/* SPDX-License-Identifier: MIT */
#include "outbox/relay/window.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Multiplicative hashing spreads consecutive seqs, so that runs of them form no long clusters
 * (D. E. Knuth, TAOCP vol. 3, 6.4). */
static size_t preferred_slot(const struct window *window, int64_t seq)
{
    return (size_t)(((uint64_t)seq * UINT64_C(0x9E3779B97F4A7C15)) >> window->shift);
}

/* Returns the slot that holds seq, or the empty slot in which window_add() would store it. */
static size_t find_window_slot(const struct window *window, int64_t seq)
{
    size_t at = preferred_slot(window, seq);

    while (window->slots[at] != 0 && window->slots[at] != seq)
        at = (at + 1) & window->mask;
    return at;
}

enum rc window_init(struct window *window, size_t count_max, struct err *err)
{
    size_t slots = 16;

    memset(window, 0, sizeof(*window));
    window->shift = 60;
    /* A full window fills at most half of the slots, so the search for an absent seq is short. */
    while (slots < 2 * count_max) {
        slots *= 2;
        window->shift--;
    }
    window->slots = calloc(slots, sizeof(*window->slots));
    if (!window->slots)
        return err_fail(err, RC_FATAL, 0, "out of memory for a window of %zu rows", count_max);
    window->mask = slots - 1;
    window->count_max = count_max;
    return RC_OK;
}

void window_done(struct window *window)
{
    free(window->slots);
    memset(window, 0, sizeof(*window));
}

bool window_has(const struct window *window, int64_t seq)
{
    return window->slots[find_window_slot(window, seq)] == seq;
}

void window_add(struct window *window, int64_t seq)
{
    size_t at = find_window_slot(window, seq);

    assert(seq > 0 && window->slots[at] == 0 && window->count < window->count_max);
    window->slots[at] = seq;
    window->count++;
}

/* Fills the emptied slot with a later entry of the same cluster (Knuth, 6.4, algorithm R). */
void window_remove(struct window *window, int64_t seq)
{
    size_t empty = find_window_slot(window, seq);
    size_t at = empty;

    assert(window->slots[empty] == seq);
    for (;;) {
        size_t from;

        at = (at + 1) & window->mask;
        if (window->slots[at] == 0)
            break;
        from = preferred_slot(window, window->slots[at]);
        if (((at - from) & window->mask) >= ((at - empty) & window->mask)) {
            window->slots[empty] = window->slots[at];
            empty = at;
        }
    }
    window->slots[empty] = 0;
    window->count--;
}
