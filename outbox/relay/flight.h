/* SPDX-License-Identifier: MIT */
/* The rows that were sent and whose reports are awaited, in the order of sending. Rows leave at the
 * front only, so one look there tells how long the oldest has waited. Bounded. Pure; one thread at
 * a time. */
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

/* Room for rows_max rows (rounded up to a power of two). RC_FATAL: no memory. */
enum rc flight_init(struct flight *flight, size_t rows_max, struct err *err);
void flight_done(struct flight *flight);

size_t flight_count(const struct flight *flight);
bool flight_full(const struct flight *flight);

/* The next ticket, which flight_add() gives to its row. */
uint64_t flight_ticket(const struct flight *flight);
void flight_add(struct flight *flight, const struct flight_row *row);

/* The row of a ticket, NULL when it is not in flight (any more). */
struct flight_row *flight_find(struct flight *flight, uint64_t ticket);

/* Is a row of this key in flight, and not acknowledged? */
bool flight_has_key(const struct flight *flight, uint64_t key);

/* The oldest row, NULL when there is none; flight_pop() takes it out. */
struct flight_row *flight_first(struct flight *flight);
void flight_pop(struct flight *flight);

#endif
