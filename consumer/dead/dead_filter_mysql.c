/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_filter_mysql.h"

#include "consumer/apply/apply_row.h"

#include <inttypes.h>
#include <string.h>

void dead_ids_put(struct buf *sql, const char *alias, const char *id_column, const int64_t *ids,
                  size_t count)
{
    buf_print(sql, "%s.%s IN (", alias, id_column);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(sql, ',');
        buf_i64(sql, ids[i]);
    }
    buf_char(sql, ')');
}

void dead_time_put(struct buf *sql, int64_t ms)
{
    buf_print(sql,
              "TIMESTAMPADD(MICROSECOND, %" PRId64 ", TIMESTAMPADD(SECOND, %" PRId64
              ", '1970-01-01'))",
              ms % 1000 * 1000, ms / 1000);
}

void dead_held_put(struct buf *sql, const char *alias)
{
    buf_print(sql, " AND %s.reason_class IN ('" REASON_REFUSED "', '" REASON_BEHIND "')", alias);
}

static void text_put(struct db *db, struct buf *sql, const char *alias, const char *column,
                     const char *text)
{
    if (!text)
        return;
    buf_print(sql, " AND %s.%s = ", alias, column);
    db_put_text(db, sql, text, strlen(text));
}

static void time_put(struct buf *sql, const char *alias, const char *comparison, int64_t ms)
{
    if (ms == DEAD_NUMBER_ANY)
        return;
    buf_print(sql, " AND %s.created_at %s ", alias, comparison);
    dead_time_put(sql, ms);
}

void dead_filter_put(struct db *db, struct buf *sql, const struct dead_filter *filter,
                     const char *alias, const char *id_column)
{
    buf_text_put(sql, "1");
    if (filter->id_count > 0) {
        buf_text_put(sql, " AND ");
        dead_ids_put(sql, alias, id_column, filter->ids, filter->id_count);
    }
    if (filter->id_max > 0)
        buf_print(sql, " AND %s.%s <= %" PRId64, alias, id_column, filter->id_max);
    text_put(db, sql, alias, "topic", filter->topic);
    if (filter->partition != DEAD_NUMBER_ANY)
        buf_print(sql, " AND %s.partition_id = %" PRId64, alias, filter->partition);
    text_put(db, sql, alias, "reason_class", filter->reason_class);
    if (filter->key) {
        buf_print(sql, " AND %s.record_key <=> ", alias);
        db_put_bytes(db, sql, filter->key, strlen(filter->key));
    }
    if (filter->held)
        dead_held_put(sql, alias);
    time_put(sql, alias, ">=", filter->since_ms);
    time_put(sql, alias, "<", filter->until_ms);
}
