/* SPDX-License-Identifier: MIT */
#include "outbox/relay/row_sets.h"

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

/* Returns the index of seq, or the index at which it would be inserted. */
static size_t find_suspect(const struct suspects *suspects, int64_t seq)
{
    size_t low = 0;
    size_t high = suspects->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (suspects->seqs[middle] < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
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

enum rc flight_init(struct flight *flight, size_t rows_max, struct err *err)
{
    size_t slots = 16;

    memset(flight, 0, sizeof(*flight));
    while (slots < rows_max)
        slots *= 2;
    flight->rows = calloc(slots, sizeof(*flight->rows));
    if (!flight->rows)
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu rows in flight", slots);
    flight->mask = slots - 1;
    return RC_OK;
}

void flight_done(struct flight *flight)
{
    free(flight->rows);
    memset(flight, 0, sizeof(*flight));
}

size_t flight_count(const struct flight *flight)
{
    return (size_t)(flight->tail - flight->head);
}

bool flight_full(const struct flight *flight)
{
    return flight_count(flight) > flight->mask;
}

uint64_t flight_ticket(const struct flight *flight)
{
    return flight->tail;
}

void flight_add(struct flight *flight, const struct flight_row *row)
{
    assert(!flight_full(flight));
    flight->rows[flight->tail++ & flight->mask] = *row;
}

struct flight_row *flight_find(struct flight *flight, uint64_t ticket)
{
    if (ticket < flight->head || ticket >= flight->tail)
        return NULL;
    return &flight->rows[ticket & flight->mask];
}

struct flight_row *flight_first(struct flight *flight)
{
    return flight_find(flight, flight->head);
}

void flight_pop(struct flight *flight)
{
    assert(flight->head < flight->tail);
    flight->head++;
}

bool flight_has_key(const struct flight *flight, uint64_t key)
{
    for (uint64_t ticket = flight->head; ticket < flight->tail; ticket++) {
        const struct flight_row *row = &flight->rows[ticket & flight->mask];

        if (row->key == key && row->state != FLIGHT_ACKED)
            return true;
    }
    return false;
}

bool suspects_has(const struct suspects *suspects, int64_t seq)
{
    size_t at = find_suspect(suspects, seq);

    return at < suspects->count && suspects->seqs[at] == seq;
}

/* A full list drops its highest seq: lower rows come first when the rows are read again. */
void suspects_add(struct suspects *suspects, int64_t seq)
{
    size_t at = find_suspect(suspects, seq);

    if (at == SUSPECTS_MAX || (at < suspects->count && suspects->seqs[at] == seq))
        return;
    if (suspects->count == SUSPECTS_MAX)
        suspects->count--;
    memmove(&suspects->seqs[at + 1], &suspects->seqs[at],
            (suspects->count - at) * sizeof(suspects->seqs[0]));
    suspects->seqs[at] = seq;
    suspects->count++;
}

void suspects_remove(struct suspects *suspects, int64_t seq)
{
    size_t at = find_suspect(suspects, seq);

    if (at == suspects->count || suspects->seqs[at] != seq)
        return;
    suspects->count--;
    memmove(&suspects->seqs[at], &suspects->seqs[at + 1],
            (suspects->count - at) * sizeof(suspects->seqs[0]));
}
