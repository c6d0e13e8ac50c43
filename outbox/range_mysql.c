/* SPDX-License-Identifier: MIT */
#include "outbox/range_mysql.h"

void range_put(struct buf *sql, const struct seq_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_text_put(sql, " OR ");
        if (ranges[i].from == ranges[i].to) {
            buf_text_put(sql, "seq = ");
            buf_i64(sql, ranges[i].from);
            continue;
        }
        buf_text_put(sql, "(seq >= ");
        buf_i64(sql, ranges[i].from);
        buf_text_put(sql, " AND seq <= ");
        buf_i64(sql, ranges[i].to);
        buf_char(sql, ')');
    }
}
