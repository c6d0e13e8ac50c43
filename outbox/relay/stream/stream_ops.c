/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_ops.h"

#include <stdio.h>
#include <string.h>

void stream_position_swap(struct stream_position *a, struct stream_position *b)
{
    struct stream_position position = *a;

    *a = *b;
    *b = position;
}

bool stream_position_opens(const struct stream_position *position)
{
    return position->by_gtid || position->offset <= UINT32_MAX;
}

bool stream_position_copy(struct stream_position *to, const struct stream_position *from)
{
    to->by_gtid = from->by_gtid;
    buf_reset(&to->before);
    buf_put(&to->before, from->before.data, from->before.len);
    snprintf(to->file, sizeof(to->file), "%s", from->file);
    to->offset = from->offset;
    snprintf(to->gtid, sizeof(to->gtid), "%s", from->gtid);
    to->rows_done = from->rows_done;
    to->time_s = from->time_s;
    to->epoch = from->epoch;
    snprintf(to->server, sizeof(to->server), "%s", from->server);
    to->from_table = from->from_table;
    to->moved = from->moved;
    return !to->before.failed && !from->before.failed;
}

int stream_place_compare(const char *file, uint64_t offset, const char *other,
                         uint64_t other_offset)
{
    size_t len = strlen(file);
    size_t other_len = strlen(other);
    int order = len == other_len ? strcmp(file, other) : (len < other_len ? -1 : 1);

    if (order != 0)
        return order;
    return offset < other_offset ? -1 : offset > other_offset;
}
