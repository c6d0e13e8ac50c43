/* SPDX-License-Identifier: MIT */
/* The flight of a lane: the rows that the sender has sent, in the order of sending. A row leaves at
 * the front only, when its result is known and the sender has passed it on, so the first row has
 * waited longest. The flight is bounded. Pure; the sender's thread. */
#ifndef OUTBOX_RELAY_FLIGHT_H
#define OUTBOX_RELAY_FLIGHT_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flight_state { FLIGHT_SENT, FLIGHT_ACKED, FLIGHT_FAILED, FLIGHT_REFUSED };

struct flight_row {
    int64_t seq;
    int64_t sent_ms;
    uint64_t key;
    enum flight_state state;
};

struct flight {
    struct flight_row *rows;
    size_t mask;
    uint64_t head; /* ticket of the oldest row */
    uint64_t tail; /* ticket of the next row */
};

/* How many rows the flight of one of so many lanes of a process may have. */
size_t flight_rows(size_t window_rows, size_t lanes);

/* Allocates an empty queue for rows_max rows, rounded up to a power of two. Returns RC_FATAL when
 * memory is exhausted; the queue is then zeroed. */
enum rc flight_init(struct flight *flight, size_t rows_max, struct err *err);
/* Frees the memory. A zeroed queue is allowed. */
void flight_done(struct flight *flight);

/* Returns the number of rows in the queue. */
size_t flight_count(const struct flight *flight);
/* Returns whether the queue has no free place. */
bool flight_full(const struct flight *flight);

/* Returns the ticket that the next flight_add() assigns to its row. Tickets grow by one. */
uint64_t flight_ticket(const struct flight *flight);

/* Appends a copy of row. The queue must not be full. */
void flight_add(struct flight *flight, const struct flight_row *row);

/* Returns the row with this ticket, or NULL when it is not in the queue. The pointer is valid until
 * the row leaves the queue. */
struct flight_row *flight_find(struct flight *flight, uint64_t ticket);

/* Returns whether the queue has a row of this key that the broker has not acknowledged. */
bool flight_has_key(const struct flight *flight, uint64_t key);

/* Returns the oldest row, or NULL when the queue is empty. */
struct flight_row *flight_first(struct flight *flight);

/* Removes the oldest row. The queue must not be empty. */
void flight_pop(struct flight *flight);

#endif
