/* SPDX-License-Identifier: MIT */
#include "outbox/relay/partitions/partitions_mysql.h"

#include "common/db/db.h"
#include "common/db/error.h"
#include "common/db/table_lock.h"
#include "outbox/lease/lease_mysql.h"
#include "outbox/relay/partitions/partition_size.h"
#include "outbox/relay/stream/seq_ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries and rows of one step. */
#define ENTRIES_MAX 500
#define ROWS_MAX 20000

/* Rows behind the last limit that making a partition may copy, while writers wait: they may be
 * large. */
#define COPIED_ROWS_MAX 10000
#define COPIED_BYTES_MAX (INT64_C(64) << 20)

enum {
    NOTHING_TO_DROP = 1507,
    NO_SUCH_PARTITION = 1735,
};

static void put_sql(struct partitions_mysql *partitions, const char *sql)
{
    buf_text_put(&partitions->sql, sql);
}

static void put_table(struct partitions_mysql *partitions)
{
    db_put_name(&partitions->sql, partitions->deletes->table);
}

static void put_table_text(struct partitions_mysql *partitions)
{
    const char *table = partitions->deletes->table;

    db_put_text(partitions->deletes->db, &partitions->sql, table, strlen(table));
}

static void begin_sql(struct partitions_mysql *partitions, const char *sql)
{
    buf_reset(&partitions->sql);
    put_sql(partitions, sql);
}

static enum rc run_sql(struct partitions_mysql *partitions, struct err *err)
{
    return db_exec_buf(partitions->deletes->db, &partitions->sql, NULL, err);
}

static enum rc query_sql(struct partitions_mysql *partitions, db_on_row on_row, void *ctx,
                         struct err *err)
{
    return db_query_buf(partitions->deletes->db, &partitions->sql, on_row, ctx, err);
}

/* An account without the privilege goes on as with any other table. */
static enum rc judge(enum rc rc, const struct err *failure, struct err *err)
{
    if (rc != RC_OK && err)
        *err = *failure;
    return rc == RC_FATAL && db_error_lacks_privilege((unsigned)failure->code) ? RC_REJECT : rc;
}

struct finding {
    struct partition *partition;
    int64_t above;
    bool found;
    /* Of the last two partitions with a limit, and of the one without. */
    int64_t last_limit;
    int64_t limit_before;
    char rest[PARTITION_NAME_SIZE]; /* "": there is none */
};

static enum rc take_partition(void *ctx, const struct db_row *row, struct err *err)
{
    struct finding *finding = ctx;
    const char *name = row->columns[0] ? row->columns[0] : "";
    const char *limit = row->columns[1] ? row->columns[1] : "";

    (void)err;
    if (strcmp(limit, "MAXVALUE") == 0) {
        snprintf(finding->rest, sizeof(finding->rest), "%s", name);
        return RC_OK;
    }
    finding->limit_before = finding->last_limit;
    finding->last_limit = strtoll(limit, NULL, 10);
    if (finding->found || !finding->partition || finding->last_limit <= finding->above)
        return RC_OK;
    finding->found = true;
    snprintf(finding->partition->name, sizeof(finding->partition->name), "%s", name);
    finding->partition->limit = finding->last_limit;
    return RC_OK;
}

static enum rc read_partitions(struct partitions_mysql *partitions, struct finding *finding,
                               struct err *err)
{
    begin_sql(partitions,
              "SELECT partition_name, partition_description FROM information_schema.partitions "
              "WHERE table_schema = DATABASE() AND table_name = ");
    put_table_text(partitions);
    put_sql(partitions, " AND partition_name IS NOT NULL ORDER BY partition_ordinal_position");
    return query_sql(partitions, take_partition, finding, err);
}

static void put_low(struct partitions_mysql *partitions, const struct partition *partition)
{
    put_sql(partitions, "SELECT seq FROM ");
    put_table(partitions);
    put_sql(partitions, " PARTITION (");
    db_put_name(&partitions->sql, partition->name);
    put_sql(partitions, ") ORDER BY seq LIMIT 1");
}

/* Begins a subquery for the age in ms of an entry of the lane. */
static void put_age(struct partitions_mysql *partitions, const char *published_at)
{
    put_sql(partitions, "(SELECT TIMESTAMPDIFF(MICROSECOND, ");
    put_sql(partitions, published_at);
    put_sql(partitions, ", UTC_TIMESTAMP(3)) DIV 1000 FROM relay_published FORCE INDEX "
                        "(ix_relay_published_seq) WHERE lane = ");
    put_table_text(partitions);
}

static enum rc take_facts(void *ctx, const struct db_row *row, struct err *err)
{
    struct partition *partition = ctx;

    (void)err;
    partition->low = row->columns[0] ? db_column_i64(row, 0) : partition->limit;
    partition->high = db_column_i64(row, 3);
    partition->is_finished = db_column_i64(row, 1) != 0 || partition->high >= partition->limit;
    partition->youngest_ms = row->columns[2] ? db_column_i64(row, 2) : INT64_MAX;
    partition->oldest_ms = db_column_i64(row, 4);
    return RC_OK;
}

static enum rc take_youngest(void *ctx, const struct db_row *row, struct err *err)
{
    struct partition *partition = ctx;

    (void)err;
    if (row->columns[0])
        partition->youngest_ms = db_column_i64(row, 0);
    return RC_OK;
}

/* The entry with the highest seq is nearly always the last one. Only after it was kept for keep_ms
 * are all of them read, which may be a hundred thousand. */
static enum rc read_youngest(struct partitions_mysql *partitions, struct partition *partition,
                             struct err *err)
{
    begin_sql(partitions, "SELECT ");
    put_age(partitions, "MAX(published_at)");
    buf_print(&partitions->sql, " AND first_seq < %" PRId64 ")", partition->limit);
    return query_sql(partitions, take_youngest, partition, err);
}

static enum rc read_facts(struct partitions_mysql *partitions, int64_t above, int64_t keep_ms,
                          struct partition *partition, struct err *err)
{
    struct buf *sql = &partitions->sql;
    enum rc rc;

    begin_sql(partitions, "SELECT (");
    put_low(partitions, partition);
    put_sql(partitions, "), EXISTS (SELECT 1 FROM relay_published WHERE lane = ");
    put_table_text(partitions);
    buf_print(sql, " AND first_seq >= %" PRId64 "), ", partition->limit);
    put_age(partitions, "published_at");
    buf_print(sql, " AND first_seq < %" PRId64 " ORDER BY first_seq DESC, number DESC LIMIT 1), ",
              partition->limit);
    put_sql(partitions, "(SELECT COALESCE(MAX(seq), 0) FROM ");
    put_table(partitions);
    put_sql(partitions, "), ");
    put_age(partitions, "published_at");
    buf_print(sql,
              " AND first_seq >= %" PRId64 " AND first_seq < %" PRId64
              " ORDER BY first_seq, number LIMIT 1)",
              above, partition->limit);
    rc = query_sql(partitions, take_facts, partition, err);
    if (rc != RC_OK || partition->youngest_ms == INT64_MAX || partition->youngest_ms < keep_ms)
        return rc;
    return read_youngest(partitions, partition, err);
}

static enum rc find_next(void *ctx, int64_t above, int64_t keep_ms, struct partition *partition,
                         bool *found, struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    struct finding finding = {.partition = partition, .above = above};
    enum rc rc = deleter_mysql_connect(partitions->deletes, err);

    if (rc == RC_OK)
        rc = read_partitions(partitions, &finding, err);
    partition->last_limit = finding.last_limit;
    *found = rc == RC_OK && finding.found;
    if (*found)
        rc = read_facts(partitions, above, keep_ms, partition, err);
    if (rc != RC_OK)
        err_wrap(err, "reading the partitions of %s", partitions->deletes->table);
    return rc;
}

static enum rc lock_and_unlock(struct partitions_mysql *partitions, struct err *err)
{
    const struct deleter_mysql *deletes = partitions->deletes;
    struct table_lock lock = {0};
    enum rc rc = table_lock_take(&lock, deletes->db, deletes->table, err);

    return rc == RC_OK ? table_lock_release(&lock, err) : rc;
}

static enum rc take_low(void *ctx, const struct db_row *row, struct err *err)
{
    struct partition *partition = ctx;

    (void)err;
    partition->low = db_column_i64(row, 0);
    return RC_OK;
}

static enum rc read_low(struct partitions_mysql *partitions, struct partition *partition,
                        struct err *err)
{
    partition->low = partition->limit;
    begin_sql(partitions, "");
    put_low(partitions, partition);
    return query_sql(partitions, take_low, partition, err);
}

static enum rc wait_for_writers(void *ctx, struct partition *partition, struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    struct err failure = {0};
    enum rc rc = deleter_mysql_connect(partitions->deletes, &failure);

    if (rc == RC_OK)
        rc = lock_and_unlock(partitions, &failure);
    if (rc == RC_OK)
        rc = read_low(partitions, partition, &failure);
    if (rc != RC_OK)
        err_wrap(&failure, "waiting for the writers of %s", partitions->deletes->table);
    return judge(rc, &failure, err);
}

/* MySQL keeps the metadata locks of a prepared transaction, also without a session, so that a wait
 * for the table is one for it, too. A transaction that is rolled back after a crash has none. */
static enum rc read_prepared(struct partitions_mysql *partitions, int64_t *lost,
                             int64_t *with_session, struct err *err)
{
    struct db *db = partitions->deletes->db;
    int64_t count = 0;
    enum rc rc;

    *lost = *with_session = 0;
    if (db_server_kind(db) != DB_MARIADB)
        return RC_OK;
    rc = table_lock_count_prepared(db, &count, err);
    if (rc == RC_OK)
        rc = db_number(db,
                       "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE "
                       "trx_mysql_thread_id = 0",
                       lost, NULL, err);
    if (rc != RC_OK)
        err_wrap(err, "looking for prepared XA transactions");
    *with_session = count > *lost ? count - *lost : 0;
    return rc;
}

static enum rc count_prepared(void *ctx, int64_t *lost, int64_t *with_session, struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    struct err failure = {0};
    enum rc rc = deleter_mysql_connect(partitions->deletes, &failure);

    *lost = *with_session = 0;
    if (rc == RC_OK)
        rc = read_prepared(partitions, lost, with_session, &failure);
    return judge(rc, &failure, err);
}

/* What is done with entries by their order. */
struct entries {
    const struct partition *partition;
    struct entry_cursor *cursor;
    struct seq_set *set; /* to add their seqs to; NULL: their numbers are listed */
    struct buf *numbers; /* of those whose seqs are all below the limit */
    size_t count;
};

static void put_number(struct buf *numbers, int64_t number)
{
    if (numbers->len > 0)
        buf_text_put(numbers, ", ");
    buf_i64(numbers, number);
}

static enum rc take_entry(void *ctx, const struct db_row *row, struct err *err)
{
    struct entries *entries = ctx;
    struct seq_ranges from = {.data = row->columns[2] ? row->columns[2] : "",
                              .len = row->columns[2] ? row->lengths[2] : 0};
    struct seq_range range = {0};
    int64_t last = 0;
    size_t count = 1;
    enum rc rc = RC_OK;

    entries->count++;
    entries->cursor->first_seq = db_column_i64(row, 0);
    entries->cursor->number = db_column_i64(row, 1);
    while (rc == RC_OK && count > 0) {
        rc = seq_ranges_read(&from, &range, 1, (size_t)SEQ_SET_SEQS_MAX, &count, err);
        if (rc == RC_OK && count > 0 && entries->set)
            seq_set_add(entries->set, range);
        if (rc == RC_OK && count > 0)
            last = range.to;
    }
    if (rc != RC_OK)
        err_wrap(err, "row %" PRId64 " of relay_published", entries->cursor->number);
    else if (!entries->set && last < entries->partition->limit)
        put_number(entries->numbers, entries->cursor->number);
    return rc;
}

static enum rc read_entries(struct partitions_mysql *partitions, struct entries *entries,
                            struct err *err)
{
    const struct entry_cursor *cursor = entries->cursor;
    enum rc rc;

    begin_sql(partitions, "SELECT first_seq, number, seqs FROM relay_published FORCE INDEX "
                          "(ix_relay_published_seq) WHERE lane = ");
    put_table_text(partitions);
    buf_print(&partitions->sql,
              " AND first_seq >= %" PRId64 " AND (first_seq > %" PRId64 " OR number > %" PRId64
              ") AND first_seq < %" PRId64 " ORDER BY first_seq, number LIMIT %d",
              cursor->first_seq, cursor->first_seq, cursor->number, entries->partition->limit,
              ENTRIES_MAX);
    rc = query_sql(partitions, take_entry, entries, err);
    if (rc != RC_OK)
        err_wrap(err, "reading which rows of %s are published", partitions->deletes->table);
    return rc;
}

static enum rc fill_set(void *ctx, const struct partition *partition, struct entry_cursor *cursor,
                        struct seq_set *set, bool *more, struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    struct entries entries = {.partition = partition, .cursor = cursor, .set = set};
    enum rc rc = deleter_mysql_connect(partitions->deletes, err);

    if (rc == RC_OK)
        rc = read_entries(partitions, &entries, err);
    *more = entries.count == ENTRIES_MAX;
    return rc;
}

struct scanning {
    const struct seq_set *set;
    int64_t last;
    int64_t rows;
    int64_t unpublished;
};

static enum rc take_seq(void *ctx, const struct db_row *row, struct err *err)
{
    struct scanning *scanning = ctx;

    (void)err;
    scanning->last = db_column_i64(row, 0);
    scanning->rows++;
    if (scanning->unpublished == 0 && !seq_set_has(scanning->set, scanning->last))
        scanning->unpublished = scanning->last;
    return RC_OK;
}

static enum rc scan_rows(void *ctx, const struct partition *partition, const struct seq_set *set,
                         int64_t *at, int64_t *rows, int64_t *unpublished, struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    struct scanning scanning = {.set = set};
    enum rc rc = deleter_mysql_connect(partitions->deletes, err);

    if (rc != RC_OK)
        return rc;
    begin_sql(partitions, "SELECT seq FROM ");
    put_table(partitions);
    put_sql(partitions, " PARTITION (");
    db_put_name(&partitions->sql, partition->name);
    buf_print(&partitions->sql, ") WHERE seq >= %" PRId64 " ORDER BY seq LIMIT %d", *at, ROWS_MAX);
    rc = query_sql(partitions, take_seq, &scanning, err);
    if (rc != RC_OK) {
        err_wrap(err, "reading partition %s of %s", partition->name, partitions->deletes->table);
        return rc;
    }
    *rows = scanning.rows;
    *unpublished = scanning.unpublished;
    *at = scanning.rows == ROWS_MAX ? scanning.last + 1 : partition->limit;
    return RC_OK;
}

static enum rc check_lease(struct partitions_mysql *partitions, int64_t epoch, bool *fenced,
                           struct err *err)
{
    struct deleter_mysql *deletes = partitions->deletes;
    enum rc rc = deleter_mysql_connect(deletes, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = lease_mysql_check(deletes->db, &partitions->sql, deletes->table, deletes->owner, epoch,
                               false, fenced, err);
    return rc;
}

static enum rc drop_partition(void *ctx, const struct partition *partition, int64_t epoch,
                              bool *fenced, struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    struct err failure = {0};
    enum rc rc = check_lease(partitions, epoch, fenced, &failure);

    if (rc == RC_OK && !*fenced) {
        begin_sql(partitions, "ALTER TABLE ");
        put_table(partitions);
        put_sql(partitions, " DROP PARTITION ");
        db_put_name(&partitions->sql, partition->name);
        rc = table_lock_alter(partitions->deletes->db, &partitions->sql, &failure);
    }
    if (failure.code == NOTHING_TO_DROP || failure.code == NO_SUCH_PARTITION)
        return RC_OK;
    if (rc != RC_OK)
        err_wrap(&failure, "dropping partition %s of %s", partition->name,
                 partitions->deletes->table);
    return judge(rc, &failure, err);
}

static enum rc end_entries(void *ctx, const struct partition *partition,
                           struct entry_cursor *cursor, bool *more, struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    struct entries entries = {
        .partition = partition, .cursor = cursor, .numbers = &partitions->rows};
    enum rc rc = deleter_mysql_connect(partitions->deletes, err);

    buf_reset(&partitions->rows);
    if (rc == RC_OK)
        rc = read_entries(partitions, &entries, err);
    *more = entries.count == ENTRIES_MAX;
    if (rc != RC_OK || partitions->rows.len == 0)
        return rc;
    begin_sql(partitions, "DELETE FROM relay_published WHERE number IN (");
    buf_put(&partitions->sql, partitions->rows.data, partitions->rows.len);
    put_sql(partitions, ")");
    rc = run_sql(partitions, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting that rows of %s are published", partitions->deletes->table);
    return rc;
}

static enum rc query_number(struct partitions_mysql *partitions, int64_t *number, struct err *err)
{
    *number = 0;
    if (partitions->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    return db_number(partitions->deletes->db, buf_text(&partitions->sql), number, NULL, err);
}

/* What the next partition depends on. */
struct outlook {
    int64_t low; /* lowest and highest seq of the table; 0: it is empty */
    int64_t high;
    bool is_full; /* more rows are behind the last limit than may be copied */
    struct seq_rate rate;
};

static enum rc take_seqs(void *ctx, const struct db_row *row, struct err *err)
{
    struct outlook *outlook = ctx;

    (void)err;
    outlook->low = db_column_i64(row, 0);
    outlook->high = db_column_i64(row, 1);
    return RC_OK;
}

/* The server may have counted the bytes some seconds ago. */
static enum rc measure_behind(struct partitions_mysql *partitions, const struct finding *finding,
                              struct outlook *outlook, struct err *err)
{
    int64_t bytes = 0;
    int64_t rows = 0;
    enum rc rc;

    if (outlook->high < finding->last_limit || !finding->rest[0])
        return RC_OK;
    begin_sql(partitions, "SELECT COUNT(*) FROM (SELECT 1 FROM ");
    put_table(partitions);
    buf_print(&partitions->sql, " WHERE seq >= %" PRId64 " LIMIT %d) AS some", finding->last_limit,
              COPIED_ROWS_MAX + 1);
    rc = query_number(partitions, &rows, err);
    if (rc != RC_OK)
        return rc;
    begin_sql(partitions, "SELECT data_length FROM information_schema.partitions WHERE "
                          "table_schema = DATABASE() AND table_name = ");
    put_table_text(partitions);
    put_sql(partitions, " AND partition_name = ");
    db_put_text(partitions->deletes->db, &partitions->sql, finding->rest, strlen(finding->rest));
    rc = query_number(partitions, &bytes, err);
    outlook->is_full = rows > COPIED_ROWS_MAX || bytes > COPIED_BYTES_MAX;
    return rc;
}

/* Of the entries with the lowest and the highest seq, in any order. */
struct entry_ends {
    size_t count;
    int64_t seqs[2];
    int64_t ages_ms[2];
};

static enum rc take_end(void *ctx, const struct db_row *row, struct err *err)
{
    struct entry_ends *ends = ctx;

    (void)err;
    if (ends->count < 2) {
        ends->seqs[ends->count] = db_column_i64(row, 0);
        ends->ages_ms[ends->count] = db_column_i64(row, 1);
        ends->count++;
    }
    return RC_OK;
}

static void put_end(struct partitions_mysql *partitions, const char *order)
{
    put_sql(partitions, "(SELECT first_seq, TIMESTAMPDIFF(MICROSECOND, published_at, "
                        "UTC_TIMESTAMP(3)) DIV 1000 FROM relay_published FORCE INDEX "
                        "(ix_relay_published_seq) WHERE lane = ");
    put_table_text(partitions);
    put_sql(partitions, order);
}

/* At which rate the rows came whose entries are kept. */
static enum rc read_rate(struct partitions_mysql *partitions, struct seq_rate *rate,
                         struct err *err)
{
    struct entry_ends ends = {0};
    bool ascending;
    enum rc rc;

    begin_sql(partitions, "");
    put_end(partitions, " ORDER BY first_seq, number LIMIT 1) UNION ALL ");
    put_end(partitions, " ORDER BY first_seq DESC, number DESC LIMIT 1)");
    rc = query_sql(partitions, take_end, &ends, err);
    if (rc != RC_OK || ends.count < 2)
        return rc;
    ascending = ends.seqs[0] <= ends.seqs[1];
    rate->seqs = ends.seqs[ascending] - ends.seqs[!ascending];
    rate->ms = ends.ages_ms[!ascending] - ends.ages_ms[ascending];
    return RC_OK;
}

/* *is: whether a partition is to be made, and can be. */
static enum rc look_ahead(struct partitions_mysql *partitions, const struct finding *finding,
                          struct outlook *outlook, bool *is, struct err *err)
{
    enum rc rc;

    *is = false;
    /* An operator has removed the partitions since the relay took the lane. */
    if (!finding->rest[0] && finding->last_limit == 0)
        return RC_OK;
    begin_sql(partitions, "SELECT MIN(seq), MAX(seq) FROM ");
    put_table(partitions);
    rc = query_sql(partitions, take_seqs, outlook, err);
    if (rc != RC_OK || outlook->high <= 0 || outlook->high < finding->limit_before)
        return rc;
    rc = measure_behind(partitions, finding, outlook, err);
    if (rc != RC_OK || outlook->is_full)
        return rc;
    *is = true;
    return read_rate(partitions, &outlook->rate, err);
}

/* The limit of the next partition; 0: there is no room. Of a single partition the begin is not
 * known: those before were dropped. */
static int64_t choose_limit(const struct finding *finding, const struct outlook *outlook,
                            int64_t span_ms)
{
    int64_t begin = finding->limit_before > 0 ? finding->limit_before : outlook->low;
    int64_t from = finding->last_limit > 0 ? finding->last_limit : outlook->low;
    int64_t size = partition_size_choose(finding->last_limit - begin, outlook->rate, span_ms);

    if (outlook->high >= from)
        from += (outlook->high - from) / size * size;
    return from <= INT64_MAX - size ? from + size : 0;
}

static void put_new_partition(struct partitions_mysql *partitions, const struct finding *finding,
                              int64_t limit)
{
    struct buf *sql = &partitions->sql;

    begin_sql(partitions, "ALTER TABLE ");
    put_table(partitions);
    if (!finding->rest[0]) {
        buf_print(sql, " ADD PARTITION (PARTITION p%" PRId64 " VALUES LESS THAN (%" PRId64 "))",
                  limit, limit);
        return;
    }
    put_sql(partitions, " REORGANIZE PARTITION ");
    db_put_name(sql, finding->rest);
    buf_print(sql, " INTO (PARTITION p%" PRId64 " VALUES LESS THAN (%" PRId64 "), PARTITION ",
              limit, limit);
    db_put_name(sql, finding->rest);
    put_sql(partitions, " VALUES LESS THAN (MAXVALUE))");
}

/* MariaDB copies the rows that it sees, and drops those of prepared transactions that have lost
 * their metadata locks. The lock keeps others from losing theirs meanwhile. */
static enum rc check_none_prepared(struct partitions_mysql *partitions,
                                   const struct finding *finding, const struct outlook *outlook,
                                   struct err *err)
{
    int64_t lost = 0;
    int64_t with_session = 0;
    enum rc rc = read_prepared(partitions, &lost, &with_session, err);

    if (rc != RC_OK || (lost == 0 && (with_session == 0 || outlook->high < finding->last_limit)))
        return rc;
    return err_fail(err, RC_RETRY, DB_LOCK_TIMEOUT, "the server has prepared XA transactions");
}

static enum rc add_partition(struct partitions_mysql *partitions, const struct finding *finding,
                             const struct outlook *outlook, int64_t limit, struct err *err)
{
    const struct deleter_mysql *deletes = partitions->deletes;
    struct table_lock lock = {0};
    enum rc released;
    enum rc rc = table_lock_take(&lock, deletes->db, deletes->table, err);

    if (rc == RC_OK)
        rc = check_none_prepared(partitions, finding, outlook, err);
    if (rc == RC_OK) {
        put_new_partition(partitions, finding, limit);
        rc = run_sql(partitions, err);
    }
    released = table_lock_release(&lock, rc == RC_OK ? err : NULL);
    return rc == RC_OK ? released : rc;
}

static enum rc make_partition(void *ctx, int64_t epoch, int64_t span_ms, bool *is_full,
                              struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    struct finding finding = {0};
    struct outlook outlook = {0};
    struct err failure = {0};
    int64_t limit = 0;
    bool fenced = false;
    bool is = false;
    enum rc rc = check_lease(partitions, epoch, &fenced, &failure);

    if (rc == RC_OK && !fenced)
        rc = read_partitions(partitions, &finding, &failure);
    if (rc == RC_OK && !fenced)
        rc = look_ahead(partitions, &finding, &outlook, &is, &failure);
    *is_full = outlook.is_full;
    if (rc == RC_OK && is)
        limit = choose_limit(&finding, &outlook, span_ms);
    if (rc != RC_OK || limit == 0)
        return judge(rc, &failure, err);
    rc = add_partition(partitions, &finding, &outlook, limit, &failure);
    if (rc != RC_OK)
        err_wrap(&failure, "making a partition of %s", partitions->deletes->table);
    return judge(rc, &failure, err);
}

static enum rc take_oldest(void *ctx, const struct db_row *row, struct err *err)
{
    struct cleaner_entry *entry = ctx;

    (void)err;
    entry->number = db_column_i64(row, 0);
    entry->age_ms = db_column_i64(row, 1);
    entry->first_seq = db_column_i64(row, 2);
    if (row->columns[3])
        buf_put(&entry->rows, row->columns[3], row->lengths[3]);
    return RC_OK;
}

static enum rc read_oldest(struct partitions_mysql *partitions, const char *which, int64_t seq,
                           int64_t age_ms, struct cleaner_entry *entry, struct err *err)
{
    struct buf *sql = &partitions->sql;

    begin_sql(partitions, "SELECT number, age_ms, first_seq, IF(age_ms >= ");
    buf_i64(sql, age_ms);
    put_sql(partitions,
            ", seqs, NULL) FROM (SELECT number, first_seq, seqs, TIMESTAMPDIFF(MICROSECOND, "
            "published_at, UTC_TIMESTAMP(3)) DIV 1000 AS age_ms FROM relay_published "
            "WHERE lane = ");
    put_table_text(partitions);
    put_sql(partitions, " AND first_seq ");
    put_sql(partitions, which);
    buf_i64(sql, seq);
    put_sql(partitions, " ORDER BY first_seq, number LIMIT 1) AS oldest");
    return query_sql(partitions, take_oldest, entry, err);
}

static enum rc find_oldest(void *ctx, int64_t from, int64_t below, int64_t age_ms,
                           struct cleaner_entry *entry, bool *found, struct err *err)
{
    struct partitions_mysql *partitions = ctx;
    enum rc rc = deleter_mysql_connect(partitions->deletes, err);

    buf_reset(&entry->rows);
    entry->number = entry->age_ms = entry->id_count = entry->first_seq = 0;
    if (rc == RC_OK && from > 0)
        rc = read_oldest(partitions, "< ", from, age_ms, entry, err);
    if (rc == RC_OK && entry->number == 0)
        rc = read_oldest(partitions, ">= ", below, age_ms, entry, err);
    *found = rc == RC_OK && entry->number > 0;
    if (rc != RC_OK)
        err_wrap(err, "reading which rows of %s are published", partitions->deletes->table);
    return rc;
}

void partitions_mysql_init(struct partitions_mysql *partitions, struct deleter_mysql *deletes)
{
    memset(partitions, 0, sizeof(*partitions));
    partitions->deletes = deletes;
}

void partitions_mysql_done(struct partitions_mysql *partitions)
{
    buf_done(&partitions->sql);
    buf_done(&partitions->rows);
}

enum rc partitions_mysql_find(struct partitions_mysql *partitions, bool *is, struct err *err)
{
    int64_t count = 0;
    enum rc rc;

    begin_sql(partitions,
              "SELECT COALESCE(MIN(partition_method IN ('RANGE', 'RANGE COLUMNS') AND "
              "REPLACE(partition_expression, '`', '') = 'seq' AND subpartition_name IS NULL AND "
              "partition_name REGEXP '^[A-Za-z0-9_]+$'), 0) FROM information_schema.partitions "
              "WHERE table_schema = DATABASE() AND table_name = ");
    put_table_text(partitions);
    rc = query_number(partitions, &count, err);
    *is = rc == RC_OK && count == 1;
    if (rc != RC_OK)
        err_wrap(err, "reading the partitions of %s", partitions->deletes->table);
    return rc;
}

struct partition_ops partitions_mysql_ops(struct partitions_mysql *partitions)
{
    return (struct partition_ops){
        .ctx = partitions,
        .next = find_next,
        .wait_for_writers = wait_for_writers,
        .count_prepared = count_prepared,
        .fill = fill_set,
        .scan = scan_rows,
        .drop = drop_partition,
        .end = end_entries,
        .make = make_partition,
        .oldest = find_oldest,
    };
}
