/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_cleaner_mysql.h"

#include "common/config/lane_texts.h"
#include "common/db/db.h"
#include "common/hash.h"
#include "outbox/lease/lease_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

static enum rc read_table(void *ctx, struct cleaner_table *table, struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    const struct published_names names = {cleaner->table, cleaner->id.name, cleaner->created_at};
    enum rc rc = connect_anew(cleaner, err);

    memset(table, 0, sizeof(*table));
    if (rc == RC_OK)
        rc = published_kind_mysql_read(cleaner->deletes.db, &cleaner->sql, &names, table,
                                       &cleaner->id, err);
    if (rc == RC_OK && table->has_seq)
        rc = partitions_mysql_find(&cleaner->partitions, &table->is_partitioned, err);
    return rc;
}

static const char *entries_of(enum cleaner_kind kind)
{
    return kind == CLEANER_IDS ? "relay_published_id" : "relay_published";
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
    entry->id_count = db_column_i64(row, 2);
    if (row->columns[3])
        buf_put(&entry->rows, row->columns[3], row->lengths[3]);
    return RC_OK;
}

static enum rc read_oldest(void *ctx, enum cleaner_kind kind, int64_t age_ms,
                           struct cleaner_entry *entry, bool *found, struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    struct finding finding = {.entry = entry};
    enum rc rc = connect_anew(cleaner, err);

    buf_reset(&entry->rows);
    buf_reset(&cleaner->sql);
    put_sql(cleaner, "SELECT number, age_ms, id_count, IF(age_ms >= ");
    buf_i64(&cleaner->sql, age_ms);
    put_sql(cleaner, ", entry_rows, NULL) FROM (SELECT number, ");
    put_sql(cleaner, kind == CLEANER_IDS ? "id_count, ids" : "0 AS id_count, seqs");
    put_sql(cleaner, " AS entry_rows, TIMESTAMPDIFF(MICROSECOND, published_at, UTC_TIMESTAMP(3)) "
                     "DIV 1000 AS age_ms FROM ");
    put_sql(cleaner, entries_of(kind));
    put_sql(cleaner, " WHERE lane = ");
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

/* The ids as hexadecimal digits, which need no escapes. */
static enum rc put_ids(struct stream_cleaner_mysql *cleaner, struct published_ids ids,
                       struct err *err)
{
    char uuid[ID_TEXT_SIZE];
    const char *separator = "\"";
    struct bytes id;
    bool found = false;
    enum rc rc;

    while ((rc = published_ids_read(&ids, uuid, &id, &found, err)) == RC_OK && found) {
        put_sql(cleaner, separator);
        buf_hex(&cleaner->sql, id.data, id.len);
        separator = "\",\"";
    }
    put_sql(cleaner, "\"");
    return rc;
}

/* The value of an id of the list, comparable with the column without a conversion of the column. */
static void put_listed_id(struct stream_cleaner_mysql *cleaner)
{
    const struct id_column *id = &cleaner->id;

    switch (id->type) {
    case ID_TEXT:
        put_sql(cleaner, "CONVERT(CONVERT(UNHEX(listed.id) USING utf8mb4) USING ");
        db_put_name(&cleaner->sql, id->charset);
        put_sql(cleaner, ") COLLATE ");
        db_put_name(&cleaner->sql, id->collation);
        break;
    case ID_BYTES_AS_THEY_ARE:
        put_sql(cleaner, "UNHEX(listed.id)");
        break;
    case ID_SIGNED:
        put_sql(cleaner, "CAST(CONVERT(UNHEX(listed.id) USING utf8mb4) AS SIGNED)");
        break;
    case ID_UNSIGNED:
        put_sql(cleaner, "CAST(CONVERT(UNHEX(listed.id) USING utf8mb4) AS UNSIGNED)");
        break;
    }
}

/* Invariant: a deletion never waits for a writer. The join finds each row by its index, as that of
 * deleter_mysql.c does, and locks no other one; for a list of values the server may scan the table.
 */
static enum rc delete_listed(struct stream_cleaner_mysql *cleaner, const struct published_ids *ids,
                             struct err *err)
{
    struct buf *sql = &cleaner->sql;
    enum rc rc;

    buf_reset(sql);
    put_sql(cleaner, "DELETE o FROM JSON_TABLE('[");
    rc = put_ids(cleaner, *ids, err);
    if (rc != RC_OK)
        return rc;
    buf_print(sql, "]', '$[*]' COLUMNS (id VARCHAR(%d) PATH '$')) AS listed STRAIGHT_JOIN ",
              2 * PUBLISHED_ID_BYTES_MAX);
    db_put_name(sql, cleaner->table);
    put_sql(cleaner, " AS o FORCE INDEX (");
    db_put_name(sql, cleaner->id.index);
    put_sql(cleaner, ") ON o.");
    db_put_name(sql, cleaner->id.name);
    put_sql(cleaner, " = ");
    put_listed_id(cleaner);
    return db_exec_buf(cleaner->deletes.db, sql, NULL, err);
}

/* As delete_ranges() of deleter_mysql.c. */
static enum rc delete_ids(void *ctx, const struct published_ids *ids, int64_t epoch, bool *fenced,
                          struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    enum rc rc = deleter_mysql_connect(&cleaner->deletes, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = lease_mysql_check(cleaner->deletes.db, &cleaner->sql, cleaner->table, cleaner->owner,
                               epoch, false, fenced, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_listed(cleaner, ids, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting from %s by %s", cleaner->table, cleaner->id.name);
    return rc;
}

static enum rc end_entry(void *ctx, enum cleaner_kind kind, int64_t number, struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    enum rc rc;

    buf_reset(&cleaner->sql);
    put_sql(cleaner, "DELETE FROM ");
    put_sql(cleaner, entries_of(kind));
    put_sql(cleaner, " WHERE number = ");
    buf_i64(&cleaner->sql, number);
    rc = db_exec_buf(cleaner->deletes.db, &cleaner->sql, NULL, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting that rows of %s are published", cleaner->table);
    return rc;
}

static enum rc count_ids(void *ctx, int64_t *count, struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    enum rc rc = connect_anew(cleaner, err);

    *count = 0;
    buf_reset(&cleaner->sql);
    put_sql(cleaner, "SELECT COALESCE(SUM(id_count), 0) FROM relay_published_id WHERE lane = ");
    put_table_text(cleaner);
    if (rc == RC_OK)
        rc = db_number(cleaner->deletes.db, buf_text(&cleaner->sql), count, NULL, err);
    if (rc != RC_OK)
        err_wrap(err, "counting which rows of %s are published", cleaner->table);
    return rc;
}

struct listing {
    int64_t *marks;
    size_t count;
};

static enum rc take_seq(void *ctx, const struct db_row *row, struct err *err)
{
    struct listing *listing = ctx;

    (void)err;
    listing->marks[listing->count++] = db_column_i64(row, 0);
    return RC_OK;
}

static enum rc take_id_hash(void *ctx, const struct db_row *row, struct err *err)
{
    struct listing *listing = ctx;

    (void)err;
    listing->marks[listing->count++] =
        (int64_t)hash_fnv1a(HASH_START, row->columns[0] ? row->columns[0] : "", row->lengths[0]);
    return RC_OK;
}

/* FORCE INDEX keeps the server from scanning the table as a whole, and the inner LIMIT from passing
 * many younger rows. */
static enum rc select_old(struct stream_cleaner_mysql *cleaner, int64_t age_ms, int64_t below,
                          size_t seqs_max, struct listing *listing, struct err *err)
{
    struct buf *sql = &cleaner->sql;

    buf_reset(sql);
    put_sql(cleaner, "SELECT seq FROM (SELECT seq, ");
    db_put_name(sql, cleaner->created_at);
    put_sql(cleaner, " AS created_at FROM ");
    db_put_name(sql, cleaner->table);
    buf_print(sql, " FORCE INDEX (PRIMARY) WHERE seq < %" PRId64 " ORDER BY seq LIMIT %zu)", below,
              seqs_max);
    put_sql(cleaner, " AS low WHERE TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(3)) DIV "
                     "1000 >= ");
    buf_i64(sql, age_ms);
    put_sql(cleaner, " ORDER BY seq");
    return db_query_buf(cleaner->deletes.db, sql, take_seq, listing, err);
}

static enum rc list_old_seqs(struct stream_cleaner_mysql *cleaner, int64_t age_ms, size_t seqs_max,
                             struct listing *listing, struct err *err)
{
    int64_t below = INT64_MAX;
    enum rc rc;

    buf_reset(&cleaner->sql);
    put_sql(cleaner, "SELECT MIN(first_seq) FROM relay_published WHERE lane = ");
    put_table_text(cleaner);
    rc = db_number(cleaner->deletes.db, buf_text(&cleaner->sql), &below, NULL, err);
    return rc == RC_OK ? select_old(cleaner, age_ms, below, seqs_max, listing, err) : rc;
}

static int compare_marks(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/* Without an index on the column the server reads the whole table. */
static enum rc list_old_ids(struct stream_cleaner_mysql *cleaner, int64_t age_ms, size_t ids_max,
                            struct listing *listing, struct err *err)
{
    struct buf *sql = &cleaner->sql;
    enum rc rc;

    buf_reset(sql);
    put_sql(cleaner, "SELECT ");
    db_put_name(sql, cleaner->id.name);
    put_sql(cleaner, " FROM ");
    db_put_name(sql, cleaner->table);
    put_sql(cleaner, " WHERE ");
    db_put_name(sql, cleaner->created_at);
    buf_print(sql, " <= UTC_TIMESTAMP(3) - INTERVAL %" PRId64 " SECOND LIMIT %zu",
              age_ms / 1000 + 1, ids_max);
    rc = db_query_buf(cleaner->deletes.db, sql, take_id_hash, listing, err);
    qsort(listing->marks, listing->count, sizeof(*listing->marks), compare_marks);
    return rc;
}

static enum rc list_old(void *ctx, enum cleaner_kind kind, int64_t age_ms, int64_t *marks,
                        size_t marks_max, size_t *count, struct err *err)
{
    struct stream_cleaner_mysql *cleaner = ctx;
    struct listing listing = {.marks = marks};
    enum rc rc = connect_anew(cleaner, err);

    if (rc == RC_OK && kind == CLEANER_IDS)
        rc = list_old_ids(cleaner, age_ms, marks_max, &listing, err);
    else if (rc == RC_OK)
        rc = list_old_seqs(cleaner, age_ms, marks_max, &listing, err);
    *count = rc == RC_OK ? listing.count : 0;
    return rc;
}

enum rc stream_cleaner_mysql_open(struct stream_cleaner_mysql *cleaner,
                                  const struct lane_settings *lane, const char *owner,
                                  const struct settings *settings, struct err *err)
{
    memset(cleaner, 0, sizeof(*cleaner));
    cleaner->table = lane->table;
    cleaner->owner = owner;
    settings_lane_column(lane, "id", cleaner->id.name);
    settings_lane_column(lane, "created_at", cleaner->created_at);
    origin_mysql_init(&cleaner->origin, note_origin_lost, cleaner);
    partitions_mysql_init(&cleaner->partitions, &cleaner->deletes);
    return deleter_mysql_open(&cleaner->deletes, lane, owner, &cleaner->origin, settings, err);
}

void stream_cleaner_mysql_close(struct stream_cleaner_mysql *cleaner)
{
    if (!cleaner->table)
        return;
    partitions_mysql_done(&cleaner->partitions);
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
        .delete_ids = delete_ids,
        .end = end_entry,
        .count_ids = count_ids,
        .list_old = list_old,
    };
}

struct partition_ops stream_cleaner_mysql_partition_ops(struct stream_cleaner_mysql *cleaner)
{
    return partitions_mysql_ops(&cleaner->partitions);
}
