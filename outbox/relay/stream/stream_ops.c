/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_ops.h"

#include <stdio.h>

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
    return !to->before.failed && !from->before.failed;
}
