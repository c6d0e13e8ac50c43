/* SPDX-License-Identifier: MIT */
/* One row of an outbox table as the relay carries it, and the batch that owns many of them: fixed
 * descriptors and one arena, allocated once and used again. One thread at a time. */
#ifndef OUTBOX_RELAY_RELAY_ROW_H
#define OUTBOX_RELAY_RELAY_ROW_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* data NULL is SQL's NULL. */
struct bytes {
    const char *data;
    size_t len;
};

#define ROW_CREATED_UNKNOWN INT64_MIN /* as UTC_UNKNOWN_MS */

struct relay_row {
    int64_t seq;
    int64_t created_ms; /* since 1970, or ROW_CREATED_UNKNOWN */
    int64_t read_ms;    /* the database's clock when the row was read, since 1970 */
    int64_t epoch;      /* of the lane's lease, in the snapshot the row was read in */
    uint64_t size;      /* of all columns in the table, in bytes */
    bool oversize;      /* above relay.row_bytes_max: payload and headers were not read */
    struct bytes id;
    struct bytes aggregate_type;
    struct bytes aggregate_id;
    struct bytes type;
    struct bytes payload;
    struct bytes headers;
};

struct relay_batch {
    struct relay_row *rows;
    size_t count;
    size_t rows_max;
    char *arena;
    size_t arena_used;
    size_t arena_size;
    int64_t epoch; /* of the lease under which it was read */
    uint64_t scan; /* number of the full scan that read it; see reader.h */
    size_t next;   /* the first row not yet taken by the sender */
};

/* RC_FATAL: no memory. Untouched pages of the arena cost nothing. */
enum rc relay_batch_init(struct relay_batch *batch, size_t rows_max, size_t arena_size,
                         struct err *err);
void relay_batch_done(struct relay_batch *batch);

/* Empties it and keeps the memory. */
void relay_batch_reset(struct relay_batch *batch);

/* Copies row and its bytes. False when there is no room: the batch is as before. An empty batch
 * takes any row of up to arena_size bytes. */
bool relay_batch_add(struct relay_batch *batch, const struct relay_row *row);

/* Brings the rows into the order of seq. */
void relay_batch_sort(struct relay_batch *batch);

/* The bytes of row that a batch would hold. */
size_t relay_row_bytes(const struct relay_row *row);

#endif
