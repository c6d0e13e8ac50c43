/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/backfill_mysql.h"

#include "common/db/error.h"
#include "common/os.h"
#include "outbox/lease/lease_mysql.h"
#include "outbox/relay/binlog/gtid_set.h"
#include "outbox/relay/stream/position_mysql.h"
#include "outbox/relay/stream/seq_ranges.h"
#include "outbox/relay/stream/table_cut_mysql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How often the position of the lane is read. */
#define PASSED_POLL_MS 200

#define RANGES_MAX 256

static void put_sql(struct backfill_mysql *backfill, const char *sql)
{
    buf_text_put(&backfill->sql, sql);
}

static void put_text(struct backfill_mysql *backfill, const char *text)
{
    db_put_text(backfill->db, &backfill->sql, text, strlen(text));
}

static void put_table_text(struct backfill_mysql *backfill)
{
    put_text(backfill, backfill->lane->table);
}

/* The connection that failed reports it. */
static void ignore_origin_lost(void *ctx, const struct err *why)
{
    (void)ctx;
    (void)why;
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

static enum rc list_seqs(void *ctx, int64_t after, int64_t upto, int64_t *seqs, size_t seqs_max,
                         size_t *count, struct err *err)
{
    struct backfill_mysql *backfill = ctx;
    struct listing listing = {.seqs = seqs};
    enum rc rc;

    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT seq FROM ");
    db_put_name(&backfill->sql, backfill->lane->table);
    buf_print(&backfill->sql,
              " FORCE INDEX (PRIMARY) WHERE seq > %" PRId64 " AND seq <= %" PRId64
              " ORDER BY seq LIMIT %zu",
              after, upto, seqs_max);
    rc = db_query_buf(backfill->db, &backfill->sql, take_seq, &listing, err);
    *count = rc == RC_OK ? listing.count : 0;
    if (rc != RC_OK)
        err_wrap(err, "listing the rows of %s", backfill->lane->table);
    return rc;
}

struct passing {
    struct backfill_mysql *backfill;
    backfill_on_range on_range;
    void *ctx;
};

static enum rc pass_entry(void *ctx, const struct db_row *row, struct err *err)
{
    const struct passing *passing = ctx;
    struct seq_ranges from = {.data = row->columns[1], .len = row->lengths[1]};
    struct seq_range ranges[RANGES_MAX];
    size_t count = 0;
    enum rc rc = lane_hold_keep(&passing->backfill->hold, os_now_ms(), err);

    if (rc == RC_OK && stop_requested(passing->backfill->stop))
        rc = err_fail(err, RC_RETRY, 0, "ended by a signal");
    if (rc != RC_OK)
        return rc;
    do {
        rc = seq_ranges_read(&from, ranges, RANGES_MAX, SIZE_MAX / 2, &count, err);
        for (size_t i = 0; i < count && rc == RC_OK; i++)
            passing->on_range(passing->ctx, &ranges[i]);
    } while (rc == RC_OK && count > 0);
    if (rc != RC_OK)
        err_wrap(err, "row %" PRId64 " of relay_published", db_column_i64(row, 0));
    return rc;
}

static enum rc pass_published(void *ctx, int64_t upto, backfill_on_range on_range,
                              void *on_range_ctx, struct err *err)
{
    struct backfill_mysql *backfill = ctx;
    struct passing passing = {backfill, on_range, on_range_ctx};
    enum rc rc = db_connect(backfill->db, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT number, seqs FROM relay_published WHERE lane = ");
    put_table_text(backfill);
    buf_print(&backfill->sql, " AND first_seq <= %" PRId64, upto);
    if (backfill->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_stream(backfill->db, backfill->sql.data, backfill->sql.len, pass_entry, &passing, err);
    if (rc != RC_OK)
        err_wrap(err, "reading which rows of %s are published", backfill->lane->table);
    return rc;
}

/* Whether all that is before `end` is before the position, by the last GTID of each domain. */
static enum rc compare_domains(const char *end, const char *position, bool *passed, struct err *err)
{
    struct gtid_set needed = {0};
    struct gtid_set reached = {0};
    enum rc rc = gtid_set_parse_mariadb(&needed, end, err);

    if (rc == RC_OK)
        rc = gtid_set_parse_mariadb(&reached, position, err);
    *passed = rc == RC_OK;
    for (size_t i = 0; i < needed.domain_count && *passed; i++) {
        *passed = false;
        for (size_t j = 0; j < reached.domain_count; j++)
            if (reached.domains[j].domain == needed.domains[i].domain)
                *passed = reached.domains[j].sequence >= needed.domains[i].sequence;
    }
    gtid_set_done(&needed);
    gtid_set_done(&reached);
    return rc;
}

/* The number at the end of a file's name gets more digits after 999999. */
static bool is_file_behind(const char *file, const char *other)
{
    size_t len = strlen(file);
    size_t other_len = strlen(other);

    return len != other_len ? len > other_len : strcmp(file, other) > 0;
}

struct passed_query {
    struct backfill_mysql *backfill;
    bool found;
    bool passed;
};

enum passed_column { PASSED_BY_GTID, PASSED_SUBSET, PASSED_GTIDS, PASSED_FILE, PASSED_OFFSET };

static enum rc take_passed(void *ctx, const struct db_row *row, struct err *err)
{
    struct passed_query *query = ctx;
    struct stream_position *end = &query->backfill->end;
    const char *file = row->columns[PASSED_FILE] ? row->columns[PASSED_FILE] : "";

    query->found = true;
    query->passed = false;
    if (end->by_gtid != (db_column_i64(row, PASSED_BY_GTID) != 0))
        return RC_OK;
    if (end->by_gtid && db_server_kind(query->backfill->db) == DB_MARIADB)
        return compare_domains(buf_text(&end->before),
                               row->columns[PASSED_GTIDS] ? row->columns[PASSED_GTIDS] : "",
                               &query->passed, err);
    if (end->by_gtid)
        query->passed = db_column_i64(row, PASSED_SUBSET) == 1;
    else
        query->passed =
            is_file_behind(file, end->file) ||
            (strcmp(file, end->file) == 0 && db_column_u64(row, PASSED_OFFSET) >= end->offset);
    return RC_OK;
}

static enum rc read_passed(struct backfill_mysql *backfill, bool *passed, struct err *err)
{
    struct passed_query query = {.backfill = backfill};
    bool is_mysql = db_server_kind(backfill->db) == DB_MYSQL;
    enum rc rc;

    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT by_gtid, ");
    if (is_mysql && backfill->end.by_gtid) {
        put_sql(backfill, "by_gtid AND GTID_SUBSET(");
        put_text(backfill, buf_text(&backfill->end.before));
        put_sql(backfill, ", gtids)");
    } else {
        put_sql(backfill, "0");
    }
    put_sql(backfill, ", gtids, file, file_offset FROM relay_position WHERE lane = ");
    put_table_text(backfill);
    rc = db_query_buf(backfill->db, &backfill->sql, take_passed, &query, err);
    if (rc == RC_OK && !query.found)
        rc = err_fail(err, RC_REJECT, 0, "lane %s has no position any more", backfill->lane->name);
    *passed = query.passed;
    return rc;
}

/* Invariant: a row that can be seen is in the log before its present end, unless it was written
 * past the log; and when a position is saved, all rows before it are saved as published (R13). So a
 * row that was listed and is not saved as published behind that end did not come through the log.
 * It is also not published by the lane later, which goes on behind its position. */
static enum rc settle_rows(void *ctx, struct err *err)
{
    struct backfill_mysql *backfill = ctx;
    int64_t until_ms = os_now_ms() + backfill->wait_ms;
    bool passed = false;
    enum rc rc = position_mysql_read_end(backfill->db, &backfill->end, err);

    while (rc == RC_OK) {
        rc = read_passed(backfill, &passed, err);
        if (rc != RC_OK || passed)
            break;
        if (os_now_ms() >= until_ms)
            return err_fail(err, RC_RETRY, 0,
                            "lane %s has not passed the present end of the binary log within "
                            "%" PRId64 " s: a relay has to read it (`tallybox status`), so that "
                            "rows on their way are not published twice",
                            backfill->lane->name, backfill->wait_ms / 1000);
        if (stop_wait(backfill->stop, PASSED_POLL_MS))
            return err_fail(err, RC_RETRY, 0, "ended by a signal");
        rc = lane_hold_keep(&backfill->hold, os_now_ms(), err);
    }
    return rc;
}

static enum rc read_rows(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                         source_on_row on_row, void *on_row_ctx, struct err *err)
{
    struct backfill_mysql *backfill = ctx;
    const struct source source = source_mysql_ops(&backfill->source);

    return source.read(source.ctx, ranges, count, rows_max, on_row, on_row_ctx, err);
}

static enum rc insert_seqs(struct backfill_mysql *backfill, const int64_t *seqs, size_t count,
                           struct err *err)
{
    buf_reset(&backfill->ranges);
    seq_ranges_put(&backfill->ranges, seqs, count);
    if (backfill->ranges.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the seqs of %zu rows", count);
    buf_reset(&backfill->sql);
    put_sql(backfill, "INSERT INTO relay_published (lane, first_seq, seqs) VALUES (");
    put_table_text(backfill);
    buf_print(&backfill->sql, ", %" PRId64 ", ", seqs[0]);
    db_put_bytes(backfill->db, &backfill->sql, backfill->ranges.data, backfill->ranges.len);
    put_sql(backfill, ")");
    return db_exec_buf(backfill->db, &backfill->sql, NULL, err);
}

/* Beside a relay a lane without a position is one whose source was changed after the lock was lost:
 * its entries are deleted, and its rows were deleted or are published again. */
static enum rc check_has_position(struct backfill_mysql *backfill, struct err *err)
{
    int64_t one = 0;
    bool found = false;
    enum rc rc;

    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT 1 FROM relay_position WHERE lane = ");
    put_table_text(backfill);
    put_sql(backfill, " FOR UPDATE");
    if (backfill->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_number(backfill->db, buf_text(&backfill->sql), &one, &found, err);
    if (rc != RC_OK || found)
        return rc;
    return err_fail(err, RC_REJECT, 0, "lane %s has no position any more", backfill->lane->name);
}

/* Checks that the lease is held, or that the lane has a position, until the COMMIT. The transaction
 * is open then. */
static enum rc begin_held(struct backfill_mysql *backfill, struct err *err)
{
    const struct lane_hold *hold = &backfill->hold;
    bool fenced = false;
    enum rc rc = db_begin(backfill->db, err);

    if (rc == RC_OK && hold->epoch != 0)
        rc = lease_mysql_check(backfill->db, &backfill->sql, hold->table, hold->owner, hold->epoch,
                               true, &fenced, err);
    if (rc == RC_OK && fenced)
        rc = err_fail(err, RC_RETRY, 0, "a relay has taken the lane meanwhile");
    if (rc == RC_OK && hold->epoch == 0)
        rc = check_has_position(backfill, err);
    if (rc != RC_OK)
        db_rollback(backfill->db);
    return rc;
}

static enum rc end_held(struct backfill_mysql *backfill, enum rc rc, struct err *err)
{
    if (rc == RC_OK)
        return db_commit(backfill->db, err);
    db_rollback(backfill->db);
    return rc;
}

static enum rc mark_rows(void *ctx, const int64_t *seqs, size_t count, struct err *err)
{
    struct backfill_mysql *backfill = ctx;
    enum rc rc = begin_held(backfill, err);

    return rc == RC_OK ? end_held(backfill, insert_seqs(backfill, seqs, count, err), err) : rc;
}

static enum rc load_keys(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err)
{
    struct backfill_mysql *backfill = ctx;
    const struct diverter_ops ops = diverter_mysql_ops(&backfill->diverts);

    return ops.load_keys(ops.ctx, keys_max, on_key, on_key_ctx, err);
}

static enum rc move_row(void *ctx, const struct relay_move *move, struct err *err)
{
    struct backfill_mysql *backfill = ctx;
    const struct diverter_ops ops = diverter_mysql_ops(&backfill->diverts);
    bool fenced = false;
    enum rc rc = ops.move_rows(ops.ctx, move, 1, backfill->hold.epoch, &fenced, err);

    /* The server ends a session that is silent between two refused rows. If the answer to a COMMIT
     * was lost, the row is in the table no more, and nothing is done. */
    if (rc == RC_RETRY)
        rc = ops.move_rows(ops.ctx, move, 1, backfill->hold.epoch, &fenced, err);
    if (rc == RC_OK && fenced)
        return err_fail(err, RC_RETRY, 0, "a relay has taken the lane meanwhile");
    return rc;
}

static enum rc keep_hold(void *ctx, struct err *err)
{
    struct backfill_mysql *backfill = ctx;

    return lane_hold_keep(&backfill->hold, os_now_ms(), err);
}

static int64_t read_clock(void *ctx)
{
    (void)ctx;
    return os_now_ms();
}

static bool wait_for_stop(void *ctx, int64_t wait_ms)
{
    const struct backfill_mysql *backfill = ctx;

    if (stop_requested(backfill->stop))
        stop_wait(&backfill->pause, wait_ms);
    return stop_wait(backfill->stop, wait_ms);
}

enum rc backfill_mysql_read_record(struct backfill_mysql *backfill, struct lane_record *record,
                                   struct err *err)
{
    int64_t count = 0;
    enum rc rc = db_connect(backfill->db, err);

    memset(record, 0, sizeof(*record));
    if (rc != RC_OK)
        return rc;
    buf_reset(&backfill->sql);
    put_sql(backfill,
            "SELECT server = '" POSITION_FROM_TABLE "' FROM relay_position WHERE lane = ");
    put_table_text(backfill);
    rc = db_number(backfill->db, buf_text(&backfill->sql), &count, &record->has_position, err);
    record->from_table = record->has_position && count != 0;
    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT number FROM relay_published WHERE lane = ");
    put_table_text(backfill);
    put_sql(backfill, " LIMIT 1");
    if (rc == RC_OK)
        rc = db_number(backfill->db, buf_text(&backfill->sql), &count, &record->has_published, err);
    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT source = '" LANE_SOURCE_BINLOG "' FROM relay_lease WHERE source <> "
                      "'' AND lane = ");
    put_table_text(backfill);
    if (rc == RC_OK)
        rc = db_number(backfill->db, buf_text(&backfill->sql), &count, &record->is_set, err);
    record->to_log = record->is_set && count != 0;
    if (rc != RC_OK)
        err_wrap(err, "reading the position of lane %s", backfill->lane->name);
    return rc;
}

static enum rc refuse_without_seq(struct backfill_mysql *backfill, bool to_table, struct err *err)
{
    const struct lane_settings *lane = backfill->lane;
    int64_t count = 0;
    enum rc rc;

    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = "
                      "DATABASE() AND table_name = ");
    put_table_text(backfill);
    rc = db_number(backfill->db, buf_text(&backfill->sql), &count, NULL, err);
    if (rc != RC_OK)
        return rc;
    if (count == 0)
        return err_fail(err, RC_REJECT, 0,
                        "there is no table %s, or the account lacks SELECT on it", lane->table);
    if (to_table)
        return err_fail(err, RC_REJECT, 0,
                        "the primary key of table %s is not a column seq, by which a lane with "
                        "source = table reads it: it can be read from the binary log only",
                        lane->table);
    return err_fail(err, RC_REJECT, 0,
                    "the primary key of table %s is not a column seq, so it is not known which "
                    "of its rows are published: `tallybox lanes begin %s --replace-position` says "
                    "that all are",
                    lane->table, lane->name);
}

enum rc backfill_mysql_check_table(struct backfill_mysql *backfill, bool to_table, struct err *err)
{
    const struct lane_settings *lane = backfill->lane;
    bool has = false;
    enum rc rc;

    if (lane->columns[0])
        return err_fail(err, RC_REJECT, 0,
                        "the columns of table %s have other names (lane.%s.columns), and its rows "
                        "can be read from the binary log only",
                        lane->table, lane->name);
    if (lane->header_columns[0] || strcmp(lane->empty_payload, LANE_EMPTY_VALUE) != 0)
        return err_fail(err, RC_REJECT, 0,
                        "lane.%s.header_columns and lane.%s.empty_payload count for the binary log "
                        "only, so rows of table %s cannot be published from the table",
                        lane->name, lane->name, lane->table);
    rc = table_cut_mysql_has_seq(backfill->db, lane->table, &has, err);
    if (rc == RC_OK && !has)
        return refuse_without_seq(backfill, to_table, err);
    return rc;
}

static enum rc delete_position(struct backfill_mysql *backfill, struct err *err)
{
    buf_reset(&backfill->sql);
    put_sql(backfill, "DELETE FROM relay_position WHERE lane = ");
    put_table_text(backfill);
    return db_exec_buf(backfill->db, &backfill->sql, NULL, err);
}

enum rc backfill_mysql_set_source(struct backfill_mysql *backfill, const char *source,
                                  struct err *err)
{
    enum rc rc;

    assert(backfill->hold.epoch != 0);
    rc = begin_held(backfill, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&backfill->sql);
    put_sql(backfill, "UPDATE relay_lease SET source = ");
    db_put_text(backfill->db, &backfill->sql, source, strlen(source));
    put_sql(backfill, " WHERE lane = ");
    put_table_text(backfill);
    rc = db_exec_buf(backfill->db, &backfill->sql, NULL, err);
    if (rc == RC_OK)
        rc = delete_position(backfill, err);
    rc = end_held(backfill, rc, err);
    if (rc != RC_OK)
        err_wrap(err, "changing the source of lane %s to %s", backfill->lane->name, source);
    return rc;
}

enum rc backfill_mysql_leave_log(struct backfill_mysql *backfill, struct err *err)
{
    enum rc rc = begin_held(backfill, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(&backfill->sql);
    put_sql(backfill, "UPDATE relay_position SET server = '" POSITION_FROM_TABLE
                      "', by_gtid = 0, file = '', file_offset = 0, gtid = '', rows_done = 0, "
                      "saved_at = UTC_TIMESTAMP(3)");
    buf_print(&backfill->sql, ", epoch = %" PRId64 " WHERE lane = ", backfill->hold.epoch);
    put_table_text(backfill);
    rc = db_exec_buf(backfill->db, &backfill->sql, NULL, err);
    rc = end_held(backfill, rc, err);
    if (rc != RC_OK)
        err_wrap(err, "ending the position of lane %s", backfill->lane->name);
    return rc;
}

enum rc backfill_mysql_row_time(struct backfill_mysql *backfill, int64_t seq, int64_t *time_s,
                                bool *found, struct err *err)
{
    struct err own = {0};
    enum rc rc;

    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', created_at) FROM ");
    db_put_name(&backfill->sql, backfill->lane->table);
    buf_print(&backfill->sql, " WHERE seq = %" PRId64, seq);
    rc = db_number(backfill->db, buf_text(&backfill->sql), time_s, found, &own);
    if (rc != RC_OK && own.code == DB_NO_SUCH_COLUMN)
        return err_fail(err, RC_REJECT, own.code, "table %s has no column created_at",
                        backfill->lane->table);
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}

enum rc backfill_mysql_note_end(struct backfill_mysql *backfill, struct err *err)
{
    enum rc rc = position_mysql_read_end(backfill->db, &backfill->end, err);

    backfill->has_end = rc == RC_OK;
    return rc == RC_FATAL || rc == RC_REJECT ? RC_OK : rc;
}

/* Finds a row that came after the entry with its seq was saved, unless the lane has passed the end.
 * A change that was killed may have left no position. */
static enum rc find_younger_row(struct backfill_mysql *backfill, bool *found, struct err *err)
{
    struct err own = {0};
    bool passed = false;
    int64_t seq = 0;
    enum rc rc = backfill->has_end ? read_passed(backfill, &passed, err) : RC_OK;

    *found = false;
    if (passed || (rc != RC_OK && rc != RC_REJECT))
        return rc;
    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT o.seq FROM relay_published p JOIN ");
    db_put_name(&backfill->sql, backfill->lane->table);
    put_sql(backfill, " o ON o.seq = p.first_seq WHERE o.created_at > p.published_at AND "
                      "p.lane = ");
    put_table_text(backfill);
    put_sql(backfill, " LIMIT 1");
    rc = db_number(backfill->db, buf_text(&backfill->sql), &seq, found, &own);
    if (rc != RC_OK && own.code == DB_NO_SUCH_COLUMN)
        return RC_OK;
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}

/* A row that was published is older than what tells so, and the AUTO_INCREMENT of the table is
 * behind it; after TRUNCATE both may be otherwise. The second is enough for the first rows of the
 * entries: if none of them is there, the table has given no seq as high as the highest one again.
 */
enum rc backfill_mysql_check_entries(struct backfill_mysql *backfill, struct err *err)
{
    int64_t highest = 0;
    int64_t next = 0;
    bool found = false;
    enum rc rc;

    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT MAX(first_seq) FROM relay_published WHERE lane = ");
    put_table_text(backfill);
    rc = db_number(backfill->db, buf_text(&backfill->sql), &highest, NULL, err);
    if (rc != RC_OK || highest == 0)
        return rc;
    /* Else MySQL answers with what it has known for up to a day. */
    if (db_server_kind(backfill->db) == DB_MYSQL)
        rc = db_run(backfill->db, "SET SESSION information_schema_stats_expiry = 0", err);
    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT auto_increment FROM information_schema.tables WHERE table_schema = "
                      "DATABASE() AND table_name = ");
    put_table_text(backfill);
    if (rc == RC_OK)
        rc = db_number(backfill->db, buf_text(&backfill->sql), &next, NULL, err);
    if (rc == RC_OK)
        rc = find_younger_row(backfill, &found, err);
    if (rc != RC_OK || (!found && (next <= 0 || next > highest)))
        return rc;
    return err_fail(err, RC_REJECT, 0,
                    "table %s was emptied (TRUNCATE, DROP TABLE) after rows of it were saved as "
                    "published, and new rows have their seqs: delete the rows of relay_published "
                    "with lane = '%s', and let `tallybox relay source %s binlog --from-table` "
                    "publish what is in the table",
                    backfill->lane->table, backfill->lane->table, backfill->lane->name);
}

enum rc backfill_mysql_highest_seq(struct backfill_mysql *backfill, int64_t *seq, struct err *err)
{
    *seq = 0;
    buf_reset(&backfill->sql);
    put_sql(backfill, "SELECT MAX(seq) FROM ");
    db_put_name(&backfill->sql, backfill->lane->table);
    return db_number(backfill->db, buf_text(&backfill->sql), seq, NULL, err);
}

enum rc backfill_mysql_open(struct backfill_mysql *backfill, const struct lane_settings *lane,
                            const struct settings *settings, const struct stop *stop,
                            int64_t wait_ms, struct err *err)
{
    enum rc rc;

    memset(backfill, 0, sizeof(*backfill));
    backfill->settings = settings;
    backfill->lane = lane;
    backfill->stop = stop;
    backfill->wait_ms = wait_ms;
    origin_mysql_init(&backfill->origin, ignore_origin_lost, NULL);
    writers_mysql_init(&backfill->writers);
    rc = stop_init(&backfill->pause, err);
    if (rc == RC_OK)
        rc = db_open(&backfill->db, &settings->mysql, err);
    if (rc == RC_OK)
        rc = db_open(&backfill->hold_db, &settings->mysql, err);
    if (rc == RC_OK) {
        origin_mysql_guard(&backfill->origin, backfill->db);
        origin_mysql_guard(&backfill->origin, backfill->hold_db);
        rc = source_mysql_open(&backfill->source, lane->table, &backfill->origin,
                               &backfill->writers, settings, err);
    }
    if (rc == RC_OK)
        rc = deleter_mysql_open(&backfill->deletes, lane, backfill->hold.owner, &backfill->origin,
                                settings, err);
    if (rc == RC_OK)
        diverter_mysql_open(&backfill->diverts, lane, &backfill->deletes, settings);
    return rc;
}

void backfill_mysql_close(struct backfill_mysql *backfill)
{
    if (!backfill->lane)
        return;
    if (backfill->hold_db)
        lane_hold_release(&backfill->hold);
    diverter_mysql_close(&backfill->diverts);
    deleter_mysql_close(&backfill->deletes);
    source_mysql_close(&backfill->source);
    db_close(backfill->db);
    db_close(backfill->hold_db);
    writers_mysql_done(&backfill->writers);
    origin_mysql_done(&backfill->origin);
    buf_done(&backfill->end.before);
    buf_done(&backfill->sql);
    buf_done(&backfill->ranges);
    stop_done(&backfill->pause);
    backfill->lane = NULL;
}

struct backfill_ops backfill_mysql_ops(struct backfill_mysql *backfill)
{
    bool has_lease = backfill->hold.epoch != 0;

    return (struct backfill_ops){
        .ctx = backfill,
        .list = list_seqs,
        .published = pass_published,
        .settle = has_lease ? NULL : settle_rows,
        .read = read_rows,
        .mark = mark_rows,
        .load_keys = has_lease ? load_keys : NULL,
        .move = has_lease ? move_row : NULL,
        .hold = keep_hold,
        .time_ms = read_clock,
        .wait = wait_for_stop,
    };
}
