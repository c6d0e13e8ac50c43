/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_audit_mysql.h"

#include "common/buf.h"
#include "common/utc.h"
#include "outbox/retry/operate.h"

static void put_name(struct buf *out, const char *name)
{
    if (out->len > 0)
        buf_char(out, ' ');
    buf_text_put(out, name);
    buf_char(out, '=');
}

static void put_word(struct buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    put_name(out, name);
    buf_text_put(out, value);
}

static void put_number(struct buf *out, const char *name, int64_t value)
{
    if (value == DEAD_NUMBER_ANY)
        return;
    put_name(out, name);
    buf_i64(out, value);
}

static void put_ids(struct buf *out, const int64_t *ids, size_t count)
{
    if (count > 0)
        put_name(out, "id");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(out, ',');
        buf_i64(out, ids[i]);
    }
}

static void put_time(struct buf *out, const char *name, int64_t ms)
{
    char text[WHEN_TEXT_SIZE];

    if (ms == DEAD_NUMBER_ANY)
        return;
    when_text(text, ms);
    put_word(out, name, text);
}

static void put_what(struct buf *out, const struct dead_audit_entry *entry)
{
    const struct dead_filter *filter = entry->filter;

    put_ids(out, filter->ids, filter->id_count);
    put_word(out, "topic", filter->topic);
    put_number(out, "partition", filter->partition);
    put_word(out, "class", filter->reason_class);
    put_word(out, "key", filter->key);
    put_time(out, "since", filter->since_ms);
    put_time(out, "until", filter->until_ms);
    put_word(out, "all", entry->all ? "yes" : NULL);
    put_number(out, "limit",
               entry->records_max > 0 ? (int64_t)entry->records_max : DEAD_NUMBER_ANY);
    put_word(out, "value", entry->has_value ? "given" : NULL);
    put_word(out, "ignoreKey", entry->ignore_key ? "yes" : NULL);
    put_word(out, "queue", entry->queue ? "yes" : NULL);
}

enum rc dead_audit_begin(struct db *db, const struct dead_audit_entry *entry, int64_t *id,
                         struct err *err)
{
    struct buf what = {0};
    struct retry_action_view action = {
        .by = entry->by,
        .via = entry->via,
        .action = entry->drop ? "dead drop" : "dead replay",
        .group = entry->group,
        .why = entry->why,
    };
    enum rc rc;

    put_what(&what, entry);
    action.what = buf_text(&what);
    rc = retry_audit_write(db, &action, id, err);
    if (rc != RC_OK)
        err_wrap(err, "the audit cannot be written, nothing was changed");
    buf_done(&what);
    return rc;
}

void dead_audit_end(struct db *db, int64_t id, uint64_t records)
{
    retry_audit_count(db, id, records, NULL);
}
