/* SPDX-License-Identifier: MIT */
/* One row of an outbox table, and a batch that owns the bytes of many rows. A batch has a fixed
 * array of rows and one arena; both are allocated once and reused. One thread at a time. */
#ifndef OUTBOX_RELAY_RELAY_ROW_H
#define OUTBOX_RELAY_RELAY_ROW_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value of a column. data is NULL for SQL NULL. */
struct bytes {
    const char *data;
    size_t len;
};

#define ROW_CREATED_UNKNOWN INT64_MIN /* as UTC_UNKNOWN_MS */

struct relay_row {
    int64_t seq;
    int64_t created_ms; /* since 1970, or ROW_CREATED_UNKNOWN */
    int64_t read_ms;    /* the database's clock when the row was read, since 1970 */
    int64_t epoch;      /* of the lane's lease, read in the same snapshot as the row */
    uint64_t size;      /* bytes of all columns in the table */
    bool oversize;      /* size exceeds relay.row_bytes_max; payload and headers were not read */
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
    int64_t epoch; /* of the lease under which the rows were read */
    uint64_t scan; /* number of the full scan that read the rows; see reader.h */
    size_t next;   /* index of the first row that the sender has not handled */
};

/* Allocates an empty batch for up to rows_max rows and arena_size bytes. The system assigns memory
 * to pages of the arena when they are first written. Returns RC_FATAL when memory is exhausted; the
 * batch is then zeroed. */
enum rc relay_batch_init(struct relay_batch *batch, size_t rows_max, size_t arena_size,
                         struct err *err);

/* Frees the memory. A zeroed batch is allowed. */
void relay_batch_done(struct relay_batch *batch);

/* Empties the batch and keeps its memory. */
void relay_batch_reset(struct relay_batch *batch);

/* Appends a copy of row and of its bytes. Returns false, and leaves the batch unchanged, when the
 * row does not fit. An empty batch accepts any row of up to arena_size bytes. */
bool relay_batch_add(struct relay_batch *batch, const struct relay_row *row);

/* Sorts the rows by seq, ascending. */
void relay_batch_sort(struct relay_batch *batch);

/* Returns the number of arena bytes that a copy of row needs. */
size_t relay_row_bytes(const struct relay_row *row);

#endif
