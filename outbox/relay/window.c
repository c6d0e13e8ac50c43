/* SPDX-License-Identifier: MIT */
#include "outbox/relay/window.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum rc window_init(struct window *window, size_t count_max, struct err *err)
{
    size_t slots = 16;

    memset(window, 0, sizeof(*window));
    window->shift = 60;
    /* Half empty at most full: looking for a seq that is not there ends soon. */
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

/* Multiplicative hashing: neighbours land far apart, so that runs of seqs leave no long clusters
 * behind (D. E. Knuth, TAOCP vol. 3, 6.4). */
static size_t home(const struct window *window, int64_t seq)
{
    return (size_t)(((uint64_t)seq * UINT64_C(0x9E3779B97F4A7C15)) >> window->shift);
}

/* The slot of seq, or the empty one where it would go. */
static size_t find(const struct window *window, int64_t seq)
{
    size_t at = home(window, seq);

    while (window->slots[at] != 0 && window->slots[at] != seq)
        at = (at + 1) & window->mask;
    return at;
}

bool window_has(const struct window *window, int64_t seq)
{
    return window->slots[find(window, seq)] == seq;
}

void window_add(struct window *window, int64_t seq)
{
    size_t at = find(window, seq);

    assert(seq > 0 && window->slots[at] == 0 && window->count < window->count_max);
    window->slots[at] = seq;
    window->count++;
}

/* Closes the hole by moving back what was pushed past it (Knuth, 6.4, algorithm R). */
void window_remove(struct window *window, int64_t seq)
{
    size_t hole = find(window, seq);
    size_t at = hole;

    assert(window->slots[hole] == seq);
    for (;;) {
        size_t from;

        at = (at + 1) & window->mask;
        if (window->slots[at] == 0)
            break;
        from = home(window, window->slots[at]);
        if (((at - from) & window->mask) >= ((at - hole) & window->mask)) {
            window->slots[hole] = window->slots[at];
            hole = at;
        }
    }
    window->slots[hole] = 0;
    window->count--;
}
