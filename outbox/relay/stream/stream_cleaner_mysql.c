/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_cleaner_mysql.h"

#include "common/db/db.h"

#include <inttypes.h>
#include <string.h>

static void note_origin_lost(void *ctx, const struct err *why)
{
    struct stream_cleaner_mysql *cleaner = ctx;

    (void)why;
    cleaner->origin_lost = true;
}

/* Accepts the database that it meets now. */
static enum rc connect_anew(struct stream_cleaner_mysql *cleaner, struct err *err)
{
    if (cleaner->origin_lost)
        origin_mysql_begin(&cleaner->origin);
    cleaner->origin_lost = false;
    return deleter_mysql_connect(&cleaner->deletes, err);
}

static void put_sql(struct stream_cleaner_mysql *cleaner, const char *sql)
{
    buf_text_put(&cleaner->sql, sql);
}

static void put_table_text(struct stream_cleaner_mysql *cleaner)
{
    db_put_text(cleaner->deletes.db, &cleaner->sql, cleaner->table, strlen(cleaner->table));
}

static enum rc take_table(void *ctx, const struct db_row *row, struct err *err)
{
    struct cleaner_table *table = ctx;

    (void)err;
    table->has_seq = db_column_i64(row, 0) == 1 && db_column_i64(row, 1) == 1;
    table->has_created_at = db_column_i64(row, 2) == 1;
    return RC_OK;
}

static enum rc read_table(void *ctx, struct cleaner_table *table, struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    enum rc rc = connect_anew(cleaner, err);

    memset(table, 0, sizeof(*table));
    buf_reset(&cleaner->sql);
    put_sql(cleaner, "SELECT SUM(column_key = 'PRI'), SUM(column_key = 'PRI' AND column_name = "
                     "'seq'), SUM(column_name = 'created_at') FROM information_schema.columns "
                     "WHERE table_schema = DATABASE() AND table_name = ");
    put_table_text(cleaner);
    if (rc == RC_OK)
        rc = db_query_buf(cleaner->deletes.db, &cleaner->sql, take_table, table, err);
    if (rc != RC_OK)
        err_wrap(err, "reading the columns of %s", cleaner->table);
    return rc;
}

struct finding {
    struct cleaner_entry *entry;
    bool found;
};

static enum rc take_entry(void *ctx, const struct db_row *row, struct err *err)
{
    struct finding *finding = ctx;
    struct cleaner_entry *entry = finding->entry;

    (void)err;
    finding->found = true;
    entry->number = db_column_i64(row, 0);
    entry->age_ms = db_column_i64(row, 1);
    if (row->columns[2])
        buf_put(&entry->seqs, row->columns[2], row->lengths[2]);
    return RC_OK;
}

static enum rc read_oldest(void *ctx, int64_t age_ms, struct cleaner_entry *entry, bool *found,
                           struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    struct finding finding = {.entry = entry};
    enum rc rc = connect_anew(cleaner, err);

    buf_reset(&entry->seqs);
    buf_reset(&cleaner->sql);
    put_sql(cleaner, "SELECT number, age_ms, IF(age_ms >= ");
    buf_i64(&cleaner->sql, age_ms);
    put_sql(cleaner, ", seqs, NULL) FROM (SELECT number, seqs, TIMESTAMPDIFF(MICROSECOND, "
                     "published_at, UTC_TIMESTAMP(3)) DIV 1000 AS age_ms FROM relay_published "
                     "WHERE lane = ");
    put_table_text(cleaner);
    put_sql(cleaner, " ORDER BY number LIMIT 1) AS oldest");
    if (rc == RC_OK)
        rc = db_query_buf(cleaner->deletes.db, &cleaner->sql, take_entry, &finding, err);
    *found = rc == RC_OK && finding.found;
    if (rc != RC_OK)
        err_wrap(err, "reading which rows of %s are published", cleaner->table);
    return rc;
}

static enum rc delete_ranges(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    const struct deleter_ops ops = deleter_mysql_ops(&cleaner->deletes);

    return ops.delete_ranges(ops.ctx, ranges, count, epoch, fenced, err);
}

static enum rc end_entry(void *ctx, int64_t number, struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    enum rc rc;

    buf_reset(&cleaner->sql);
    put_sql(cleaner, "DELETE FROM relay_published WHERE number = ");
    buf_i64(&cleaner->sql, number);
    rc = db_exec_buf(cleaner->deletes.db, &cleaner->sql, NULL, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting that rows of %s are published", cleaner->table);
    return rc;
}

struct listing {
    int64_t *seqs;
    size_t count;
};

static enum rc take_seq(void *ctx, const struct db_row *row, struct err *err)
{
    struct listing *listing = ctx;

    (void)err;
    listing->seqs[listing->count++] = db_column_i64(row, 0);
    return RC_OK;
}

/* FORCE INDEX keeps the server from scanning the table as a whole, and the inner LIMIT from passing
 * many younger rows. */
static enum rc select_old(struct stream_cleaner_mysql *cleaner, int64_t age_ms, int64_t below,
                          size_t seqs_max, struct listing *listing, struct err *err)
{
    struct buf *sql = &cleaner->sql;

    buf_reset(sql);
    put_sql(cleaner, "SELECT seq FROM (SELECT seq, created_at FROM ");
    db_put_name(sql, cleaner->table);
    buf_print(sql, " FORCE INDEX (PRIMARY) WHERE seq < %" PRId64 " ORDER BY seq LIMIT %zu)", below,
              seqs_max);
    put_sql(cleaner, " AS low WHERE TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(3)) DIV "
                     "1000 >= ");
    buf_i64(sql, age_ms);
    put_sql(cleaner, " ORDER BY seq");
    return db_query_buf(cleaner->deletes.db, sql, take_seq, listing, err);
}

static enum rc list_old(void *ctx, int64_t age_ms, int64_t *seqs, size_t seqs_max, size_t *count,
                        struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    struct listing listing = {.seqs = seqs};
    int64_t below = INT64_MAX;
    enum rc rc = connect_anew(cleaner, err);

    buf_reset(&cleaner->sql);
    put_sql(cleaner, "SELECT MIN(first_seq) FROM relay_published WHERE lane = ");
    put_table_text(cleaner);
    if (rc == RC_OK)
        rc = db_number(cleaner->deletes.db, buf_text(&cleaner->sql), &below, NULL, err);
    if (rc == RC_OK)
        rc = select_old(cleaner, age_ms, below, seqs_max, &listing, err);
    *count = rc == RC_OK ? listing.count : 0;
    return rc;
}

enum rc stream_cleaner_mysql_open(struct stream_cleaner_mysql *cleaner,
                                  const struct lane_settings *lane, const char *owner,
                                  const struct settings *settings, struct err *err)
{
    memset(cleaner, 0, sizeof(*cleaner));
    cleaner->table = lane->table;
    origin_mysql_init(&cleaner->origin, note_origin_lost, cleaner);
    return deleter_mysql_open(&cleaner->deletes, lane, owner, &cleaner->origin, settings, err);
}

void stream_cleaner_mysql_close(struct stream_cleaner_mysql *cleaner)
{
    if (!cleaner->table)
        return;
    deleter_mysql_close(&cleaner->deletes);
    origin_mysql_done(&cleaner->origin);
    buf_done(&cleaner->sql);
    cleaner->table = NULL;
}

struct cleaner_ops stream_cleaner_mysql_ops(struct stream_cleaner_mysql *cleaner)
{
    return (struct cleaner_ops){
        .ctx = cleaner,
        .table = read_table,
        .oldest = read_oldest,
        .delete_ranges = delete_ranges,
        .end = end_entry,
        .list_old = list_old,
    };
}
