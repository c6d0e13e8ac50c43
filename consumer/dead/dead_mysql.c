/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "consumer/apply/sink_mysql.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct dead_mysql {
    struct sink_mysql *sink;
    struct db *db; /* the sink's */
    struct buf sql;
    struct dead_store store;
    const char *group;
    const char *by;
};

#define MS_OF(time) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " time ") DIV 1000"

/* The columns that both tables have. */
#define RECORD_COLUMNS                                                                   \
    "consumer_group, topic, partition_id, record_offset, record_key, payload, headers, " \
    "record_time, reason_class, reason, created_at"

static enum rc run_sql(struct dead_mysql *dead, struct err *err)
{
    return db_exec_buf(dead->db, &dead->sql, NULL, err);
}

static void set_sql(struct dead_mysql *dead, const char *text)
{
    buf_reset(&dead->sql);
    buf_text_put(&dead->sql, text);
}

static void put_group(struct dead_mysql *dead, const char *alias)
{
    buf_print(&dead->sql, " WHERE %s.consumer_group = ", alias);
    db_put_text(dead->db, &dead->sql, dead->group, strlen(dead->group));
}

/* Appends "alias.id_column IN (...)". */
static void put_ids(struct buf *sql, const char *alias, const char *id_column, const int64_t *ids,
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

/* Appends a time in ms since 1970 as a DATETIME(3). */
static void put_time(struct buf *sql, int64_t ms)
{
    buf_print(sql,
              "TIMESTAMPADD(MICROSECOND, %" PRId64 ", TIMESTAMPADD(SECOND, %" PRId64
              ", '1970-01-01'))",
              ms % 1000 * 1000, ms / 1000);
}

/* Appends the condition that selects records whose cause may pass. */
static void put_held(struct buf *sql, const char *alias)
{
    buf_print(sql, " AND %s.reason_class IN ('" REASON_REFUSED "', '" REASON_BEHIND "')", alias);
}

static void put_text_equal(struct db *db, struct buf *sql, const char *alias, const char *column,
                           const char *text)
{
    if (!text)
        return;
    buf_print(sql, " AND %s.%s = ", alias, column);
    db_put_text(db, sql, text, strlen(text));
}

static void put_time_limit(struct buf *sql, const char *alias, const char *comparison, int64_t ms)
{
    if (ms == DEAD_NUMBER_ANY)
        return;
    buf_print(sql, " AND %s.created_at %s ", alias, comparison);
    put_time(sql, ms);
}

/* Appends the conditions of the filter for the table alias, joined by AND, or 1 if there are none.
 * id_column names the column with the id of dead_record. */
static void put_filter(struct db *db, struct buf *sql, const struct dead_filter *filter,
                       const char *alias, const char *id_column)
{
    buf_text_put(sql, "1");
    if (filter->id_count > 0) {
        buf_text_put(sql, " AND ");
        put_ids(sql, alias, id_column, filter->ids, filter->id_count);
    }
    if (filter->id_max > 0)
        buf_print(sql, " AND %s.%s <= %" PRId64, alias, id_column, filter->id_max);
    put_text_equal(db, sql, alias, "topic", filter->topic);
    if (filter->partition != DEAD_NUMBER_ANY)
        buf_print(sql, " AND %s.partition_id = %" PRId64, alias, filter->partition);
    put_text_equal(db, sql, alias, "reason_class", filter->reason_class);
    if (filter->key) {
        buf_print(sql, " AND %s.record_key <=> ", alias);
        db_put_bytes(db, sql, filter->key, strlen(filter->key));
    }
    if (filter->held)
        put_held(sql, alias);
    put_time_limit(sql, alias, ">=", filter->since_ms);
    put_time_limit(sql, alias, "<", filter->until_ms);
}

static void put_where(struct dead_mysql *dead, const struct dead_filter *filter,
                      const char *id_column)
{
    put_group(dead, "d");
    buf_text_put(&dead->sql, " AND ");
    put_filter(dead->db, &dead->sql, filter, "d", id_column);
}

/* Appends the condition for records after the cursor in the order of uk_dead_record_place, in a
 * form that the servers use as a range of that index. */
static void put_cursor(struct dead_mysql *dead, const struct dead_cursor *after)
{
    struct buf *sql = &dead->sql;
    size_t len = strlen(after->topic);

    if (len == 0)
        return;
    buf_text_put(sql, " AND (d.topic > ");
    db_put_text(dead->db, sql, after->topic, len);
    buf_text_put(sql, " OR (d.topic = ");
    db_put_text(dead->db, sql, after->topic, len);
    buf_print(sql,
              " AND (d.partition_id > %" PRId32 " OR (d.partition_id = %" PRId32
              " AND d.record_offset > %" PRId64 "))))",
              after->partition, after->partition, after->offset);
}

/* Appends the conditions for the records that a replay must see for their order. For records
 * selected by id, older records with the same keys are enough. */
static void put_others(struct dead_mysql *dead, const struct dead_filter *filter)
{
    struct buf *sql = &dead->sql;

    if (filter->topic) {
        buf_text_put(sql, " AND d.topic = ");
        db_put_text(dead->db, sql, filter->topic, strlen(filter->topic));
    }
    if (filter->partition != DEAD_NUMBER_ANY)
        buf_print(sql, " AND d.partition_id = %" PRId64, filter->partition);
    if (filter->key) {
        buf_text_put(sql, " AND d.record_key <=> ");
        db_put_bytes(dead->db, sql, filter->key, strlen(filter->key));
    }
    /* Held votes pass records that can never be applied, as in the consumer. */
    if (filter->held)
        put_held(sql, "d");
    if (filter->id_count == 0)
        return;
    buf_text_put(sql, " AND EXISTS (SELECT 1 FROM dead_record s WHERE ");
    put_ids(sql, "s", "id", filter->ids, filter->id_count);
    buf_text_put(sql, " AND s.consumer_group = d.consumer_group AND s.topic = d.topic AND "
                      "s.partition_id = d.partition_id AND s.record_offset >= d.record_offset AND "
                      "s.record_key <=> d.record_key)");
}

struct page_reader {
    enum rc (*on_item)(void *ctx, const struct dead_item *item, struct err *err);
    void *ctx;
};

static enum rc on_page_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct page_reader *reader = ctx;
    struct dead_item item = {
        .id = db_column_i64(row, 0),
        .topic = row->columns[1],
        .partition = (int32_t)db_column_i64(row, 2),
        .offset = db_column_i64(row, 3),
        .selected = db_column_i64(row, 4) != 0,
        .key = row->columns[5],
        .key_len = (size_t)db_column_u64(row, 6),
        .value = row->columns[7],
        .value_len = (size_t)db_column_u64(row, 8),
        .reason_class = row->columns[9],
        .reason = row->columns[10],
    };

    return reader->on_item(reader->ctx, &item, err);
}

static enum rc store_lock_page(void *ctx, const struct dead_filter *filter,
                               const struct dead_cursor *after, size_t rows_max, bool others,
                               enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                                  struct err *err),
                               void *item_ctx, struct err *err)
{
    struct dead_mysql *dead = ctx;
    struct page_reader reader = {on_item, item_ctx};
    struct buf *sql = &dead->sql;

    set_sql(dead, "SELECT d.id, d.topic, d.partition_id, d.record_offset, (");
    put_filter(dead->db, sql, filter, "d", "id");
    buf_print(sql,
              ") AS selected, LEFT(d.record_key, %d), LENGTH(d.record_key), "
              "LEFT(d.payload, %d), LENGTH(d.payload), d.reason_class, d.reason "
              "FROM dead_record d FORCE INDEX (uk_dead_record_place)",
              DEAD_KEY_BYTES_MAX, others ? VOTE_EVENT_BYTES_MAX : 0);
    if (others) {
        put_group(dead, "d");
        put_others(dead, filter);
        if (filter->id_max > 0)
            buf_print(sql, " AND d.id <= %" PRId64, filter->id_max);
    } else {
        put_where(dead, filter, "id");
    }
    put_cursor(dead, after);
    buf_print(sql, " ORDER BY d.topic, d.partition_id, d.record_offset LIMIT %zu FOR UPDATE",
              rows_max);
    return db_query_buf(dead->db, sql, on_page_row, &reader, err);
}

static enum rc store_write_reason(void *ctx, int64_t id, const char *reason_class,
                                  const char *reason, size_t reason_len, struct err *err)
{
    struct dead_mysql *dead = ctx;

    set_sql(dead, "UPDATE dead_record SET reason_class = ");
    db_put_text(dead->db, &dead->sql, reason_class, strlen(reason_class));
    buf_text_put(&dead->sql, ", reason = ");
    db_put_text(dead->db, &dead->sql, reason, reason_len);
    buf_print(&dead->sql, " WHERE id = %" PRId64, id);
    return run_sql(dead, err);
}

static enum rc store_decide(void *ctx, const int64_t *ids, size_t count,
                            enum dead_decision decision, const void *value, size_t value_len,
                            struct err *err)
{
    static const char *const words[] = {[DEAD_DECISION_APPLIED] = "applied",
                                        [DEAD_DECISION_DUPLICATE] = "duplicate",
                                        [DEAD_DECISION_STALE] = "stale",
                                        [DEAD_DECISION_DROPPED] = "dropped"};
    struct dead_mysql *dead = ctx;
    enum rc rc;

    set_sql(dead, "INSERT INTO dead_history (" RECORD_COLUMNS ", dead_id, decision, applied_value, "
                  "decided_by, decided_at) SELECT " RECORD_COLUMNS ", id, ");
    buf_print(&dead->sql, "'%s', ", words[decision]);
    db_put_bytes(dead->db, &dead->sql, value, value_len);
    buf_text_put(&dead->sql, ", ");
    db_put_text(dead->db, &dead->sql, dead->by, strlen(dead->by));
    buf_text_put(&dead->sql, ", UTC_TIMESTAMP(3) FROM dead_record d WHERE ");
    put_ids(&dead->sql, "d", "id", ids, count);
    rc = run_sql(dead, err);
    if (rc != RC_OK)
        return rc;
    set_sql(dead, "DELETE FROM dead_record WHERE ");
    put_ids(&dead->sql, "dead_record", "id", ids, count);
    return run_sql(dead, err);
}

static enum rc store_count_ids(void *ctx, const int64_t *ids, size_t count, size_t *left,
                               struct err *err)
{
    struct dead_mysql *dead = ctx;
    int64_t number = 0;
    enum rc rc;

    set_sql(dead, "SELECT COUNT(*) FROM dead_record d WHERE ");
    put_ids(&dead->sql, "d", "id", ids, count);
    rc = db_number(dead->db, buf_text(&dead->sql), &number, NULL, err);
    *left = (size_t)number;
    return rc;
}

enum rc dead_mysql_open(struct dead_mysql **out, const struct settings *settings, const char *group,
                        const char *by, struct err *err)
{
    struct dead_mysql *dead = calloc(1, sizeof(*dead));
    enum rc rc;

    if (!dead)
        return err_fail(err, RC_FATAL, 0, "no memory for a database");
    dead->group = group;
    dead->by = by;
    dead->store = (struct dead_store){
        .ctx = dead,
        .lock_page = store_lock_page,
        .write_reason = store_write_reason,
        .decide = store_decide,
        .count_ids = store_count_ids,
    };
    rc = sink_mysql_open(&dead->sink, &settings->sink, dead->group, settings->rollup.overlap_ms / 2,
                         err);
    if (rc != RC_OK) {
        free(dead);
        return rc;
    }
    dead->db = sink_mysql_db(dead->sink);
    *out = dead;
    return RC_OK;
}

void dead_mysql_close(struct dead_mysql *dead)
{
    if (!dead)
        return;
    sink_mysql_close(dead->sink);
    buf_done(&dead->sql);
    free(dead);
}

void dead_mysql_set_by(struct dead_mysql *dead, const char *by)
{
    dead->by = by;
}

struct db *dead_mysql_db(struct dead_mysql *dead)
{
    return dead->db;
}

const struct dead_store *dead_mysql_store(struct dead_mysql *dead)
{
    return &dead->store;
}

const struct sink *dead_mysql_sink(struct dead_mysql *dead)
{
    return sink_mysql_ops(dead->sink);
}

enum rc dead_mysql_clock(struct dead_mysql *dead, int64_t *now_ms, struct err *err)
{
    return db_number(dead->db, "SELECT " MS_OF("UTC_TIMESTAMP(3)"), now_ms, NULL, err);
}

struct count_result {
    uint64_t *count;
    int64_t *id_max;
};

static enum rc on_count_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct count_result *result = ctx;

    (void)err;
    *result->count = db_column_u64(row, 0);
    *result->id_max = db_column_i64(row, 1);
    return RC_OK;
}

enum rc dead_mysql_count(struct dead_mysql *dead, const struct dead_filter *filter, uint64_t *count,
                         int64_t *id_max, struct err *err)
{
    struct count_result result = {count, id_max};

    set_sql(dead, "SELECT COUNT(*), COALESCE(MAX(d.id), 0) FROM dead_record d");
    put_where(dead, filter, "id");
    return db_query_buf(dead->db, &dead->sql, on_count_row, &result, err);
}

struct view_reader {
    dead_on_view on_view;
    void *ctx;
};

static enum rc on_view_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct view_reader *reader = ctx;
    struct dead_view view = {
        .id = db_column_i64(row, 0),
        .topic = row->columns[1],
        .partition = (int32_t)db_column_i64(row, 2),
        .offset = db_column_i64(row, 3),
        .key = row->columns[4],
        .key_len = row->lengths[4],
        .time_ms = row->columns[5] ? db_column_i64(row, 5) : DEAD_NUMBER_ANY,
        .reason_class = row->columns[6],
        .reason = row->columns[7],
        .died_ms = db_column_i64(row, 8),
        .decision = row->columns[9],
        .decided_by = row->columns[10],
        .decided_ms = db_column_i64(row, 11),
        .has_value = row->columns[12] != NULL,
        .value_len = (size_t)db_column_u64(row, 12),
    };

    if (row->count > 13) {
        view.value = row->columns[13];
        view.headers = row->columns[14];
        view.applied_value = row->columns[15];
        view.applied_len = row->lengths[15];
    }
    return reader->on_view(reader->ctx, &view, err);
}

static void put_columns(struct dead_mysql *dead, bool decided, bool whole)
{
    struct buf *sql = &dead->sql;

    set_sql(dead, decided ? "SELECT d.dead_id" : "SELECT d.id");
    buf_text_put(sql, ", d.topic, d.partition_id, d.record_offset, d.record_key, " MS_OF(
                          "d.record_time") ", d.reason_class, d.reason, " MS_OF("d.created_at"));
    buf_text_put(sql, decided ? ", d.decision, d.decided_by, " MS_OF("d.decided_at")
                              : ", NULL, NULL, NULL");
    buf_text_put(sql, ", LENGTH(d.payload)");
    if (whole)
        buf_text_put(sql, ", d.payload, d.headers");
    if (whole)
        buf_text_put(sql, decided ? ", d.applied_value" : ", NULL");
    buf_text_put(sql, decided ? " FROM dead_history d" : " FROM dead_record d");
}

static enum rc read_views(struct dead_mysql *dead, dead_on_view on_view, void *ctx, struct err *err)
{
    struct view_reader reader = {on_view, ctx};

    return db_query_buf(dead->db, &dead->sql, on_view_row, &reader, err);
}

enum rc dead_mysql_list(struct dead_mysql *dead, const struct dead_filter *filter, bool decided,
                        int64_t after, size_t rows_max, dead_on_view on_view, void *ctx,
                        struct err *err)
{
    const char *id_column = decided ? "dead_id" : "id";

    put_columns(dead, decided, false);
    put_where(dead, filter, id_column);
    buf_print(&dead->sql, " AND d.%s > %" PRId64 " ORDER BY d.%s LIMIT %zu", id_column, after,
              id_column, rows_max);
    return read_views(dead, on_view, ctx, err);
}

/* Passes the view on and records that there was one. */
struct view_search {
    dead_on_view on_view;
    void *ctx;
    bool found;
};

static enum rc on_found_view(void *ctx, const struct dead_view *view, struct err *err)
{
    struct view_search *search = ctx;

    search->found = true;
    return search->on_view(search->ctx, view, err);
}

enum rc dead_mysql_show(struct dead_mysql *dead, int64_t id, dead_on_view on_view, void *ctx,
                        struct err *err)
{
    struct view_search search = {on_view, ctx, false};
    struct dead_filter filter = {.ids = &id,
                                 .id_count = 1,
                                 .partition = DEAD_NUMBER_ANY,
                                 .since_ms = DEAD_NUMBER_ANY,
                                 .until_ms = DEAD_NUMBER_ANY};
    enum rc rc;

    put_columns(dead, false, true);
    put_where(dead, &filter, "id");
    rc = read_views(dead, on_found_view, &search, err);
    if (rc != RC_OK || search.found)
        return rc;
    put_columns(dead, true, true);
    put_where(dead, &filter, "dead_id");
    buf_text_put(&dead->sql, " ORDER BY d.id DESC LIMIT 1");
    return read_views(dead, on_view, ctx, err);
}
