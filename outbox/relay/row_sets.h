/* SPDX-License-Identifier: MIT */
/* The bounded sets of rows that the steps of a lane keep:
 * - The window, owned by the reader: the seqs that it has passed to the sender and that neither the
 *   sender nor the deleter has returned. The reader skips a row whose seq is in the window. It
 *   allocates nothing per row.
 * - The flight, owned by the sender: the rows in flight, in the order of sending, until the sender
 *   has passed them on. Rows leave at the front only, so the first row has waited longest.
 * - The suspects, owned by the sender: rows that the broker refused together with others.
 * Pure; one thread at a time for each set. */
#ifndef OUTBOX_RELAY_ROW_SETS_H
#define OUTBOX_RELAY_ROW_SETS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct window {
    int64_t *slots; /* open addressing, 0 = empty: seqs are > 0 */
    size_t mask;
    unsigned shift;
    size_t count;
    size_t count_max;
};

/* Allocates an empty window for up to count_max seqs. Returns RC_FATAL when memory is exhausted;
 * the window is then zeroed. */
enum rc window_init(struct window *window, size_t count_max, struct err *err);
/* Frees the memory. A zeroed window is allowed. */
void window_done(struct window *window);

/* Returns whether seq is in the window. */
bool window_has(const struct window *window, int64_t seq);

/* Adds seq, which must be above 0 and not in the window. The window must not be full. */
void window_add(struct window *window, int64_t seq);

/* Removes seq, which must be in the window. */
void window_remove(struct window *window, int64_t seq);

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

#define SUSPECTS_MAX 1024

/* The seqs of rows that the broker refused together with others. */
struct suspects {
    int64_t seqs[SUSPECTS_MAX]; /* ascending */
    size_t count;
};

/* Adds a row that the broker refused together with others: one of them is bad, the others may be
 * good. Each suspect is sent once as a single record. If the list is full, the highest seq is left
 * out; its row is sent with others and, if it is refused again, added then. */
void suspects_add(struct suspects *suspects, int64_t seq);

/* Returns whether seq is in the list. */
bool suspects_has(const struct suspects *suspects, int64_t seq);

/* Removes seq if it is in the list. */
void suspects_remove(struct suspects *suspects, int64_t seq);

#endif
