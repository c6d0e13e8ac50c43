/* SPDX-License-Identifier: MIT */
#include "outbox/relay/seq_mysql.h"

#include "common/db/db.h"

#include <stdbool.h>

void seq_put_join(struct buf *sql, const char *lane, const struct seq_range *ranges, size_t count)
{
    bool any = false;

    buf_text_put(sql, "JSON_TABLE('[");
    for (size_t i = 0; i < count; i++) {
        for (int64_t seq = ranges[i].from; seq <= ranges[i].to; seq++) {
            if (any)
                buf_char(sql, ',');
            buf_i64(sql, seq);
            any = true;
        }
    }
    buf_text_put(sql, "]', '$[*]' COLUMNS (seq BIGINT PATH '$')) AS listed STRAIGHT_JOIN ");
    db_put_name(sql, lane);
    buf_text_put(sql, " AS o FORCE INDEX (PRIMARY) ON o.seq = listed.seq");
}
