/* SPDX-License-Identifier: MIT */
#include "outbox/relay/relay_row.h"

#include <stdlib.h>
#include <string.h>

enum rc relay_batch_init(struct relay_batch *batch, size_t rows_max, size_t arena_size,
                         struct err *err)
{
    memset(batch, 0, sizeof(*batch));
    batch->rows_max = rows_max;
    batch->arena_size = arena_size;
    batch->rows = calloc(rows_max, sizeof(*batch->rows));
    batch->arena = malloc(arena_size);
    if (batch->rows && batch->arena)
        return RC_OK;
    relay_batch_done(batch);
    return err_fail(err, RC_FATAL, 0, "out of memory for a batch of %zu rows, %zu bytes", rows_max,
                    arena_size);
}

void relay_batch_done(struct relay_batch *batch)
{
    free(batch->rows);
    free(batch->arena);
    memset(batch, 0, sizeof(*batch));
}

void relay_batch_reset(struct relay_batch *batch)
{
    batch->count = 0;
    batch->next = 0;
    batch->arena_used = 0;
}

size_t relay_row_bytes(const struct relay_row *row)
{
    return row->id.len + row->aggregate_type.len + row->aggregate_id.len + row->type.len +
           row->payload.len + row->headers.len;
}

static struct bytes copy_bytes(struct relay_batch *batch, struct bytes bytes)
{
    char *place = batch->arena + batch->arena_used;

    if (!bytes.data)
        return bytes;
    memcpy(place, bytes.data, bytes.len);
    batch->arena_used += bytes.len;
    /* An empty value gets a pointer into the arena, because NULL means SQL NULL. */
    return (struct bytes){place, bytes.len};
}

bool relay_batch_add(struct relay_batch *batch, const struct relay_row *row)
{
    struct relay_row *copy;

    if (batch->count == batch->rows_max ||
        relay_row_bytes(row) > batch->arena_size - batch->arena_used)
        return false;
    copy = &batch->rows[batch->count++];
    *copy = *row;
    copy->id = copy_bytes(batch, row->id);
    copy->aggregate_type = copy_bytes(batch, row->aggregate_type);
    copy->aggregate_id = copy_bytes(batch, row->aggregate_id);
    copy->type = copy_bytes(batch, row->type);
    copy->payload = copy_bytes(batch, row->payload);
    copy->headers = copy_bytes(batch, row->headers);
    return true;
}

static int compare_rows(const void *a, const void *b)
{
    const struct relay_row *left = a;
    const struct relay_row *right = b;

    return (left->seq > right->seq) - (left->seq < right->seq);
}

void relay_batch_sort(struct relay_batch *batch)
{
    /* The rows are in order unless some were read from gaps. */
    for (size_t i = 1; i < batch->count; i++) {
        if (batch->rows[i - 1].seq > batch->rows[i].seq) {
            qsort(batch->rows, batch->count, sizeof(*batch->rows), compare_rows);
            return;
        }
    }
}
