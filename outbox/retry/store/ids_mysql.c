/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/ids_mysql.h"

#include <assert.h>

void ids_put(struct buf *sql, const int64_t *ids, size_t count)
{
    assert(count > 0 && count <= IDS_AT_ONCE);
    buf_text_put(sql, "IN (");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(sql, ',');
        buf_i64(sql, ids[i]);
    }
    buf_char(sql, ')');
}
