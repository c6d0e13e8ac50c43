/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/audit_mysql.h"

#include "common/buf.h"
#include "common/text.h"

#include <inttypes.h>
#include <string.h>

#define NAME_CHARS_MAX 64
#define BY_CHARS_MAX 128

/* Appends up to chars_max characters; a byte that is not UTF-8 becomes '?'. */
static void put_cut(struct db *db, struct buf *sql, const char *text, size_t chars_max)
{
    struct buf cut = {0};

    for (size_t count = 0; text && *text && count < chars_max; count++) {
        size_t len = utf8_len(text);

        if (len > 0)
            buf_put(&cut, text, len);
        else
            buf_char(&cut, '?');
        text += len > 0 ? len : 1;
    }
    sql->failed |= cut.failed;
    db_put_text(db, sql, cut.len > 0 ? cut.data : "", cut.len);
    buf_done(&cut);
}

static void put_field(struct db *db, struct buf *sql, const char *text, size_t chars_max)
{
    buf_text_put(sql, ", ");
    put_cut(db, sql, text, chars_max);
}

enum rc audit_mysql_begin(struct db *db, const struct audit_entry *entry, int64_t *id,
                          struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    *id = 0;
    buf_text_put(&sql, "INSERT INTO retry_audit (acted_by, via, action, task_group, scene, what, "
                       "why) VALUES (");
    put_cut(db, &sql, entry->by, BY_CHARS_MAX);
    put_field(db, &sql, entry->via, NAME_CHARS_MAX);
    put_field(db, &sql, entry->action, NAME_CHARS_MAX);
    put_field(db, &sql, entry->group, NAME_CHARS_MAX);
    put_field(db, &sql, entry->scene, NAME_CHARS_MAX);
    put_field(db, &sql, entry->what, AUDIT_TEXT_CHARS_MAX);
    put_field(db, &sql, entry->why, AUDIT_TEXT_CHARS_MAX);
    buf_char(&sql, ')');
    rc = db_exec_buf(db, &sql, NULL, err);
    buf_done(&sql);
    return rc == RC_OK ? db_number(db, "SELECT LAST_INSERT_ID()", id, NULL, err) : rc;
}

enum rc audit_mysql_add(struct db *db, int64_t id, uint64_t changed, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    if (id == 0)
        return RC_OK;
    buf_print(&sql,
              "UPDATE retry_audit SET changed = COALESCE(changed, 0) + %" PRIu64
              " WHERE id = %" PRId64,
              changed, id);
    rc = db_exec_buf(db, &sql, NULL, err);
    buf_done(&sql);
    return rc;
}

struct audit_read {
    const struct audit_filter *filter;
    size_t rows_max;
    size_t matched;
    size_t read;
    struct audit_page *page;
    enum rc (*on_entry)(void *ctx, const struct audit_entry *entry, struct err *err);
    void *ctx;
};

static bool fits(const char *wanted, const char *text)
{
    return !wanted || strcmp(wanted, text) == 0;
}

static bool is_meant(const struct audit_filter *filter, const struct audit_entry *entry)
{
    return fits(filter->by, entry->by) && fits(filter->action, entry->action) &&
           fits(filter->group, entry->group) && fits(filter->scene, entry->scene) &&
           entry->at_ms >= filter->since_ms && entry->at_ms < filter->until_ms;
}

static enum rc entry_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct audit_read *read = ctx;
    const struct audit_entry entry = {
        .id = db_column_i64(row, 0),
        .at_ms = db_column_i64(row, 1) / 1000,
        .by = row->columns[2],
        .via = row->columns[3],
        .action = row->columns[4],
        .group = row->columns[5],
        .scene = row->columns[6],
        .what = row->columns[7],
        .why = row->columns[8],
        .changed = row->columns[9] ? db_column_i64(row, 9) : -1,
    };

    if (read->matched == read->rows_max) {
        read->page->more = true;
        return RC_OK;
    }
    read->read++;
    read->page->after = entry.id;
    if (!is_meant(read->filter, &entry))
        return RC_OK;
    read->matched++;
    return read->on_entry(read->ctx, &entry, err);
}

enum rc audit_mysql_list(struct db *db, const struct audit_filter *filter, size_t rows_max,
                         enum rc (*on_entry)(void *ctx, const struct audit_entry *entry,
                                             struct err *err),
                         void *ctx, struct audit_page *page, struct err *err)
{
    struct audit_read read = {
        .filter = filter, .rows_max = rows_max, .page = page, .on_entry = on_entry, .ctx = ctx};
    struct buf sql = {0};
    enum rc rc;

    *page = (struct audit_page){.after = filter->after};
    buf_print(&sql,
              "SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', acted_at), acted_by, via, "
              "action, task_group, scene, what, why, changed FROM retry_audit "
              "FORCE INDEX (PRIMARY) WHERE id > %" PRId64 " ORDER BY id LIMIT %d",
              filter->after, AUDIT_ROWS_MAX);
    rc = db_query_buf(db, &sql, entry_on_row, &read, err);
    buf_done(&sql);
    if (read.read == AUDIT_ROWS_MAX)
        page->more = true;
    return rc;
}
