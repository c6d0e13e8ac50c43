/* SPDX-License-Identifier: MIT */
#include "outbox/relay/source_mysql.h"

#include "common/db/cluster.h"
#include "common/utc.h"
#include "outbox/outbox.h"

#include <stdio.h>
#include <string.h>

#define PROBE_SEQS_MAX 1000

enum column {
    COLUMN_SEQ,
    COLUMN_ID,
    COLUMN_AGGREGATE_TYPE,
    COLUMN_AGGREGATE_ID,
    COLUMN_TYPE,
    COLUMN_PAYLOAD_BYTES,
    COLUMN_PAYLOAD,
    COLUMN_HEADERS_BYTES,
    COLUMN_HEADERS,
    COLUMN_CREATED_AT,
    COLUMN_NOW,
    COLUMN_EPOCH,
};

static enum rc run_query(struct source_mysql *source, db_on_row on_row, void *ctx, struct err *err)
{
    enum rc rc;

    if (source->sql.failed)
        return err_fail(err, RC_FATAL, 0, "table %s: the statement does not fit into memory",
                        source->table);
    rc = db_stream(source->db, source->sql.data, source->sql.len, on_row, ctx, err);
    /* The operator replaces a table of another program while the session lasts. */
    if (rc != RC_OK && err && err->code == DB_NO_SUCH_COLUMN)
        source->columns_session = 0;
    return outbox_explain_table(source->table, rc, err);
}

static enum rc take_number(void *ctx, const struct db_row *row, struct err *err)
{
    (void)err;
    *(int64_t *)ctx = db_column_i64(row, 0);
    return RC_OK;
}

static enum rc has_column(struct source_mysql *source, const char *column, bool *has,
                          struct err *err)
{
    int64_t count = 0;
    enum rc rc;

    buf_reset(&source->sql);
    buf_text_put(&source->sql, "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema "
                               "= DATABASE() AND table_name = ");
    db_put_text(source->db, &source->sql, source->table, strlen(source->table));
    buf_print(&source->sql, " AND column_name = '%s'", column);
    rc = run_query(source, take_number, &count, err);
    *has = count > 0;
    return rc;
}

static enum rc take_id_column(void *ctx, const struct db_row *row, struct err *err)
{
    bool *flags = ctx;

    (void)err;
    flags[0] = db_column_i64(row, 0) != 0;
    flags[1] = db_column_i64(row, 1) != 0;
    return RC_OK;
}

/* Sets id_padded, and *as_bytes when the id is to be read as bytes. MariaDB stores any bytes in an
 * ASCII column, and would return those above 127 as question marks. */
static enum rc read_id_column(struct source_mysql *source, bool *as_bytes, struct err *err)
{
    bool flags[2] = {false, false};
    enum rc rc;

    buf_reset(&source->sql);
    buf_text_put(&source->sql,
                 "SELECT data_type = 'char', character_set_name IN ('ascii', 'utf8mb3', 'utf8', "
                 "'utf8mb4') FROM information_schema.columns WHERE table_schema = DATABASE() AND "
                 "column_name = 'id' AND table_name = ");
    db_put_text(source->db, &source->sql, source->table, strlen(source->table));
    rc = run_query(source, take_id_column, flags, err);
    source->id_padded = flags[0];
    *as_bytes = flags[1];
    return rc;
}

/* Builds the SELECT list once for each session. An oversized payload or headers column is replaced
 * by NULL beside its length; the other texts are cut one byte behind their bound, so that
 * take_text() can tell. headers and created_at are NULL when the table lacks them, as Debezium's
 * table may. */
static enum rc make_columns(struct source_mysql *source, struct err *err)
{
    static const char *const texts[] = {"aggregatetype", "aggregateid", "type"};
    unsigned long long max = source->row_bytes_max;
    struct buf *columns = &source->columns;
    bool has_headers;
    bool as_bytes;
    enum rc rc = db_connect(source->db, err);

    if (rc != RC_OK || source->columns_session == db_session(source->db))
        return rc;
    rc = has_column(source, "headers", &has_headers, err);
    if (rc == RC_OK)
        rc = has_column(source, "created_at", &source->has_created_at, err);
    if (rc == RC_OK)
        rc = read_id_column(source, &as_bytes, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(columns);
    buf_print(columns, as_bytes ? "seq, CAST(LEFT(id, %d) AS BINARY)" : "seq, LEFT(id, %d)",
              ROW_TEXT_BYTES_MAX + 1);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        buf_print(columns, ", LEFT(%s, %d)", texts[i], ROW_TEXT_BYTES_MAX + 1);
    buf_print(columns, ", OCTET_LENGTH(payload), IF(OCTET_LENGTH(payload) > %llu, NULL, payload)",
              max);
    if (has_headers)
        buf_print(columns, ", OCTET_LENGTH(headers), IF(OCTET_LENGTH(headers) > %d, NULL, headers)",
                  ROW_HEADERS_BYTES_MAX);
    else
        buf_text_put(columns, ", NULL, NULL");
    buf_text_put(columns, source->has_created_at ? ", created_at" : ", NULL");
    buf_text_put(columns, ", UTC_TIMESTAMP(3)");
    buf_text_put(columns, ", (SELECT epoch FROM relay_lease WHERE lane = ");
    db_put_text(source->db, columns, source->table, strlen(source->table));
    buf_char(columns, ')');
    source->columns_session = db_session(source->db);
    return RC_OK;
}

/* FORCE INDEX keeps the server from scanning a small table as a whole. */
static void put_from(struct source_mysql *source)
{
    buf_text_put(&source->sql, " FROM ");
    db_put_name(&source->sql, source->table);
    buf_text_put(&source->sql, " FORCE INDEX (PRIMARY) WHERE ");
}

static void put_ranges(struct buf *sql, const struct seq_range *ranges, size_t count)
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

/* Counts what a lane that has read the binary log leaves in this table, one at most. An account
 * without this privilege has never read a lane from the log. */
static enum rc count_left(struct source_mysql *source, const char *table, int64_t *count,
                          struct err *err)
{
    struct err own = {0};
    enum rc rc;

    *count = 0;
    buf_reset(&source->sql);
    buf_text_put(&source->sql, "SELECT COUNT(*) FROM (SELECT 1 FROM ");
    db_put_name(&source->sql, table);
    buf_text_put(&source->sql, " WHERE lane = ");
    db_put_text(source->db, &source->sql, source->table, strlen(source->table));
    buf_text_put(&source->sql, " LIMIT 1) AS one");
    rc = run_query(source, take_number, count, &own);
    if (rc != RC_OK && own.code == DB_NO_PRIVILEGE)
        return RC_OK;
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}

/* Invariant R17: a lane that has read the binary log keeps rows that are published, and a change of
 * its source may be under way. */
static enum rc check_no_position(struct source_mysql *source, struct err *err)
{
    int64_t positions = 0;
    int64_t entries = 0;
    enum rc rc = count_left(source, "relay_position", &positions, err);

    if (rc == RC_OK)
        rc = count_left(source, "relay_published", &entries, err);
    if (rc != RC_OK || positions + entries == 0)
        return rc;
    return err_fail(
        err, RC_FATAL, 0,
        "the lane of table %s was read from the binary log, and a table lane would "
        "publish the rows again that it keeps: set source = binlog again, or change its "
        "source with `tallybox relay source LANE table`",
        source->table);
}

static enum rc source_begin(void *ctx, struct err *err)
{
    struct source_mysql *source = ctx;
    enum rc rc;

    origin_mysql_begin(source->origin);
    origin_mysql_renew(source->origin, source->db, &source->term);
    rc = db_connect(source->db, err);
    return rc == RC_OK ? check_no_position(source, err) : rc;
}

struct reading {
    struct source_mysql *source;
    const struct source_filter *filter; /* NULL: all rows */
    source_on_row on_row;
    void *ctx;
    bool ended;
};

static struct bytes column_bytes(const struct db_row *row, enum column column)
{
    return (struct bytes){row->columns[column], row->columns[column] ? row->lengths[column] : 0};
}

/* Takes a text column; false when it is too long. */
static bool take_text(struct bytes *text, const struct db_row *row, enum column column)
{
    *text = column_bytes(row, column);
    return text->len <= ROW_TEXT_BYTES_MAX;
}

/* Returns the bytes of a column as the connection returns it: a text in another character set may
 * have more of them than in the table. */
static uint64_t count_bytes(const struct db_row *row, enum column column, enum column in_table)
{
    return row->columns[column] ? row->lengths[column] : db_column_u64(row, in_table);
}

static void make_row(struct relay_row *out, const struct db_row *row, uint64_t row_bytes_max,
                     bool id_padded)
{
    bool fits;

    memset(out, 0, sizeof(*out));
    out->seq = out->table_seq = db_column_i64(row, COLUMN_SEQ);
    out->epoch = db_column_i64(row, COLUMN_EPOCH);
    out->id_padded = id_padded;
    fits = take_text(&out->id, row, COLUMN_ID);
    fits = take_text(&out->aggregate_type, row, COLUMN_AGGREGATE_TYPE) && fits;
    fits = take_text(&out->aggregate_id, row, COLUMN_AGGREGATE_ID) && fits;
    fits = take_text(&out->type, row, COLUMN_TYPE) && fits;
    out->size = out->aggregate_id.len + count_bytes(row, COLUMN_PAYLOAD, COLUMN_PAYLOAD_BYTES);
    out->headers_size = count_bytes(row, COLUMN_HEADERS, COLUMN_HEADERS_BYTES);
    out->oversize = !fits || out->size > row_bytes_max || out->headers_size > ROW_HEADERS_BYTES_MAX;
    if (!out->oversize) {
        out->payload = column_bytes(row, COLUMN_PAYLOAD);
        out->headers = column_bytes(row, COLUMN_HEADERS);
    }
    out->created_ms =
        utc_parse_ms(row->columns[COLUMN_CREATED_AT], row->lengths[COLUMN_CREATED_AT]);
    out->read_ms = utc_parse_ms(row->columns[COLUMN_NOW], row->lengths[COLUMN_NOW]);
}

static bool equals_text(struct bytes bytes, const char *text)
{
    return bytes.data && bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

/* The server compares texts by the collation of the column, which may ignore case. */
static bool passes(const struct source_filter *filter, const struct relay_row *row)
{
    return (!filter->key || equals_text(row->aggregate_id, filter->key)) &&
           (!filter->type || equals_text(row->type, filter->type));
}

static enum rc pass_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct reading *reading = ctx;
    struct relay_row out;

    make_row(&out, row, reading->source->row_bytes_max, reading->source->id_padded);
    if (reading->filter && !passes(reading->filter, &out))
        return RC_OK;
    if (reading->on_row(reading->ctx, &out))
        return RC_OK;
    reading->ended = true;
    return err_fail(err, RC_REJECT, 0, "enough rows");
}

/* "2026-03-04T05:06:07.089Z" as the server reads it. */
static void make_time(int64_t ms, char text[UTC_TEXT_SIZE])
{
    utc_format(ms, text);
    text[strlen("2026-03-04")] = ' ';
    text[strlen("2026-03-04 05:06:07.089")] = '\0';
}

static void put_equal(struct source_mysql *source, const char *before, const char *text)
{
    if (!text)
        return;
    buf_text_put(&source->sql, before);
    db_put_text(source->db, &source->sql, text, strlen(text));
}

static void put_filter(struct source_mysql *source, const struct source_filter *filter)
{
    char from[UTC_TEXT_SIZE];
    char to[UTC_TEXT_SIZE];

    make_time(filter->from_ms, from);
    make_time(filter->to_ms, to);
    put_equal(source, ") AND created_at >= ", from);
    put_equal(source, " AND created_at < ", to);
    put_equal(source, " AND aggregateid = ", filter->key);
    put_equal(source, " AND type = ", filter->type);
}

static enum rc read_rows(struct reading *reading, const struct seq_range *ranges, size_t count,
                         size_t rows_max, struct err *err)
{
    struct source_mysql *source = reading->source;
    enum rc rc = make_columns(source, err);

    if (rc == RC_OK) {
        buf_reset(&source->sql);
        buf_text_put(&source->sql, "SELECT ");
        buf_put(&source->sql, source->columns.data, source->columns.len);
        put_from(source);
        if (reading->filter)
            buf_char(&source->sql, '(');
        put_ranges(&source->sql, ranges, count);
        if (reading->filter)
            put_filter(source, reading->filter);
        buf_print(&source->sql, " ORDER BY seq LIMIT %zu", rows_max);
        rc = run_query(source, pass_row, reading, err);
    }
    if (rc == RC_REJECT && reading->ended)
        return RC_OK;
    if (rc != RC_OK)
        err_wrap(err, "reading %s", source->table);
    return rc;
}

static enum rc source_read(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                           source_on_row on_row, void *on_row_ctx, struct err *err)
{
    struct reading reading = {ctx, NULL, on_row, on_row_ctx, false};

    return read_rows(&reading, ranges, count, rows_max, err);
}

static enum rc set_flag(void *ctx, const struct db_row *row, struct err *err)
{
    (void)row;
    (void)err;
    *(bool *)ctx = true;
    return RC_OK;
}

static uint64_t count_seqs(const struct seq_range *ranges, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (uint64_t)(ranges[i].to - ranges[i].from) + 1;
    return sum;
}

/* A range also locks the record behind it, and may therefore look busy when it is not: up to
 * PROBE_SEQS_MAX seqs are looked up one by one. MySQL requires FOR UPDATE OF, MariaDB lacks it. */
static void put_probe(struct source_mysql *source, const struct seq_range *ranges, size_t count)
{
    struct buf *sql = &source->sql;

    buf_reset(sql);
    if (count_seqs(ranges, count) <= PROBE_SEQS_MAX) {
        buf_text_put(sql, "SELECT o.seq FROM ");
        source_mysql_put_join(sql, source->table, ranges, count);
        buf_text_put(sql, db_server_kind(source->db) == DB_MYSQL ? " LIMIT 1 FOR UPDATE OF o NOWAIT"
                                                                 : " LIMIT 1 FOR UPDATE NOWAIT");
        return;
    }
    buf_text_put(sql, "SELECT seq");
    put_from(source);
    put_ranges(sql, ranges, count);
    buf_text_put(sql, " ORDER BY seq LIMIT 1 FOR UPDATE NOWAIT");
}

/* When NOWAIT meets a lock, MariaDB reports a lock time-out and MySQL a code of its own. */
static bool is_busy(enum rc rc, const struct err *err)
{
    return rc == RC_RETRY &&
           (err->code == DB_LOCK_TIMEOUT || err->code == DB_NOWAIT || err->code == DB_DEADLOCK);
}

static enum rc source_probe(void *ctx, const struct seq_range *ranges, size_t count, bool *busy,
                            bool *found, struct err *err)
{
    struct source_mysql *source = ctx;
    struct err own = {0};
    enum rc rc = db_connect(source->db, err);

    *busy = false;
    *found = false;
    if (rc != RC_OK)
        return rc;
    put_probe(source, ranges, count);
    rc = run_query(source, set_flag, found, &own);
    *busy = is_busy(rc, &own);
    if (rc == RC_OK || *busy)
        return RC_OK;
    if (err)
        *err = own;
    err_wrap(err, "probing %s for open transactions", source->table);
    return rc;
}

static enum rc source_writers(void *ctx, struct source_writers *writers, struct err *err)
{
    struct source_mysql *source = ctx;
    enum rc rc = db_connect(source->db, err);

    memset(writers, 0, sizeof(*writers));
    if (rc != RC_OK)
        return rc;
    return writers_mysql_ask(source->writers, source->db, origin_mysql_server(source->origin),
                             writers, err);
}

static enum rc take_look(void *ctx, const struct db_row *row, struct err *err)
{
    struct source_look *look = ctx;

    (void)err;
    look->oldest_seq = db_column_i64(row, 0);
    look->oldest_age_ms = db_column_i64(row, 1);
    look->newest_seq = db_column_i64(row, 2);
    if (look->oldest_age_ms < 0)
        look->oldest_age_ms = 0;
    return RC_OK;
}

/* Called only when a row above the bound exists: MAX(seq) reads down from the highest seq, past
 * every deleted row that is not purged yet, until it finds a row. */
static enum rc read_newest(struct source_mysql *source, struct source_look *look, struct err *err)
{
    buf_reset(&source->sql);
    buf_text_put(&source->sql, "SELECT MAX(seq) FROM ");
    db_put_name(&source->sql, source->table);
    return run_query(source, take_number, &look->newest_seq, err);
}

static enum rc source_look(void *ctx, int64_t from, int64_t above, struct source_look *look,
                           struct err *err)
{
    struct source_mysql *source = ctx;
    enum rc rc = make_columns(source, err);

    memset(look, 0, sizeof(*look));
    if (rc != RC_OK)
        return rc;
    buf_reset(&source->sql);
    buf_text_put(&source->sql, "SELECT seq, ");
    buf_text_put(&source->sql,
                 source->has_created_at
                     ? "TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(3)) DIV 1000"
                     : "0");
    buf_text_put(&source->sql, ", (SELECT seq");
    put_from(source);
    buf_text_put(&source->sql, "seq > ");
    buf_i64(&source->sql, above);
    buf_text_put(&source->sql, " ORDER BY seq LIMIT 1)");
    put_from(source);
    buf_text_put(&source->sql, "seq >= ");
    buf_i64(&source->sql, from);
    buf_text_put(&source->sql, " ORDER BY seq LIMIT 1");
    rc = run_query(source, take_look, look, err);
    return rc == RC_OK && look->newest_seq > 0 ? read_newest(source, look, err) : rc;
}

/* MySQL caches the statistics of a table in information_schema for a day unless the session
 * disables that; MariaDB does not cache them. */
static enum rc disable_statistics_cache(struct source_mysql *source, struct err *err)
{
    enum rc rc = db_connect(source->db, err);

    if (rc != RC_OK || source->statistics_session == db_session(source->db))
        return rc;
    if (db_server_kind(source->db) == DB_MYSQL)
        rc = db_run(source->db, "SET SESSION information_schema_stats_expiry = 0", err);
    if (rc == RC_OK)
        source->statistics_session = db_session(source->db);
    return rc;
}

/* The table's next AUTO_INCREMENT value is above every seq given out, even if its row is deleted.
 */
static enum rc source_restart(void *ctx, int64_t below, struct source_restart *restart,
                              struct err *err)
{
    struct source_mysql *source = ctx;
    enum rc rc = disable_statistics_cache(source, err);

    memset(restart, 0, sizeof(*restart));
    if (rc != RC_OK)
        return rc;
    buf_reset(&source->sql);
    buf_text_put(&source->sql, "SELECT auto_increment FROM information_schema.tables WHERE "
                               "table_schema = DATABASE() AND table_name = ");
    db_put_text(source->db, &source->sql, source->table, strlen(source->table));
    rc = run_query(source, take_number, &restart->next_seq, err);
    if (rc != RC_OK || below == 0)
        return rc;
    buf_reset(&source->sql);
    buf_text_put(&source->sql, "SELECT seq");
    put_from(source);
    buf_text_put(&source->sql, "seq < ");
    buf_i64(&source->sql, below);
    buf_text_put(&source->sql, " ORDER BY seq LIMIT 1");
    return run_query(source, take_number, &restart->low_seq, err);
}

static enum rc source_nodes(void *ctx, struct source_nodes *nodes, struct err *err)
{
    struct source_mysql *source = ctx;
    struct db_cluster cluster;
    enum rc rc = db_cluster_ask(source->db, &cluster, err);

    snprintf(nodes->what, sizeof(nodes->what), "%s", rc == RC_OK ? db_cluster_text(&cluster) : "");
    return rc;
}

void source_mysql_put_join(struct buf *sql, const char *table, const struct seq_range *ranges,
                           size_t count)
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
    db_put_name(sql, table);
    buf_text_put(sql, " AS o FORCE INDEX (PRIMARY) ON o.seq = listed.seq");
}

enum rc source_mysql_open(struct source_mysql *source, const char *table,
                          struct origin_mysql *origin, struct writers_mysql *writers,
                          const struct settings *settings, struct err *err)
{
    enum rc rc;

    memset(source, 0, sizeof(*source));
    source->table = table;
    source->origin = origin;
    source->writers = writers;
    source->row_bytes_max = (uint64_t)settings->relay.row_bytes_max;
    rc = db_open(&source->db, &settings->mysql, err);
    if (rc == RC_OK && origin)
        origin_mysql_guard(origin, source->db);
    return rc;
}

void source_mysql_close(struct source_mysql *source)
{
    db_close(source->db);
    source->db = NULL;
    buf_done(&source->sql);
    buf_done(&source->columns);
}

enum rc source_mysql_read_filtered(struct source_mysql *source, const struct seq_range *ranges,
                                   size_t count, const struct source_filter *filter,
                                   size_t rows_max, source_on_row on_row, void *on_row_ctx,
                                   struct err *err)
{
    struct reading reading = {source, filter, on_row, on_row_ctx, false};

    return read_rows(&reading, ranges, count, rows_max, err);
}

struct source source_mysql_ops(struct source_mysql *source)
{
    return (struct source){
        .ctx = source,
        .begin = source_begin,
        .read = source_read,
        .probe = source_probe,
        .writers = source_writers,
        .look = source_look,
        .restart = source_restart,
        .nodes = source_nodes,
    };
}
