/* SPDX-License-Identifier: MIT */
#include "outbox/relay/flight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
