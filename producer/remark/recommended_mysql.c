/* SPDX-License-Identifier: MIT */
#include "producer/remark/recommended_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_OF(time) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " time ") DIV 1000"

/* Ranks are computed in units, which are exact: 1 point / UNITS. */
#define UNITS INT64_C(86400000)

#define READS_MAX 4

/* The server ends a build that takes too long, and says so, before the connection gives up: it
 * would go on with the statement. */
#define ANSWER_MS 5000

struct recommended_mysql {
    struct mysql_settings sink; /* of db */
    struct db *db;
    struct buf sql; /* keeps its memory */
    struct rank_weights defaults;
    int64_t build_ms;
    uint64_t session; /* that has the time limit */
    struct recommended_store ops;
};

/* The columns that put_state_columns() selects. */
#define STATE_COLUMNS 7

static void put_state_columns(struct buf *sql)
{
    buf_text_put(sql, "COALESCE(s.finished_window, 0), COALESCE(s.started_window, 0), "
                      "COALESCE(" MS_OF("s.finished_at") ", 0), " MS_OF(
                          "UTC_TIMESTAMP(3)") ", w.votes, w.score, w.age");
}

/* One row, also before the first roll-up and without stored weights. */
static void put_state_tables(struct buf *sql)
{
    buf_text_put(sql, "(SELECT 1) one LEFT JOIN rollup_state s ON s.name = 'remark' "
                      "LEFT JOIN rank_weight w ON w.id = 1");
}

static void read_state_columns(const struct recommended_mysql *store, const struct db_row *row,
                               struct recommended_state *state)
{
    *state = (struct recommended_state){
        .finished = db_column_i64(row, 0),
        .started = db_column_i64(row, 1),
        .finished_ms = db_column_i64(row, 2),
        .now_ms = db_column_i64(row, 3),
        .weights = store->defaults,
        .weights_stored = row->columns[4] != NULL,
    };
    if (state->weights_stored)
        state->weights = (struct rank_weights){
            .votes = db_column_i64(row, 4),
            .score = db_column_i64(row, 5),
            .age = db_column_i64(row, 6),
        };
}

/* The votes as of the last finished roll-up, also of a remark that the next one wrote. */
static void put_votes(struct buf *sql, const char *table, const struct recommended_state *state)
{
    buf_text_put(sql, "IF(");
    buf_text_put(sql, table);
    buf_print(sql, ".votes_window > %" PRId64 ", ", state->finished);
    buf_text_put(sql, table);
    buf_text_put(sql, ".votes_before, ");
    buf_text_put(sql, table);
    buf_text_put(sql, ".votes)");
}

/* Before the first roll-up the age is that of now. */
static void put_age_ms(struct buf *sql, const char *table, const struct recommended_state *state)
{
    buf_print(sql, "(%" PRId64 " - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ",
              state->finished_ms > 0 ? state->finished_ms : state->now_ms);
    buf_text_put(sql, table);
    buf_text_put(sql, ".gmt_create) DIV 1000)");
}

static void put_votes_units(struct buf *sql, const char *table,
                            const struct recommended_state *state)
{
    buf_text_put(sql, "CAST(");
    put_votes(sql, table, state);
    buf_print(sql, " AS DECIMAL(20)) * %" PRId64, state->weights.votes * UNITS);
}

static void put_score_units(struct buf *sql, const char *table,
                            const struct recommended_state *state)
{
    buf_text_put(sql, "CAST(");
    buf_text_put(sql, table);
    buf_print(sql, ".score AS DECIMAL(20)) * %" PRId64, state->weights.score * UNITS);
}

/* A day has as many ms as a point has units. */
static void put_age_units(struct buf *sql, const char *table, const struct recommended_state *state)
{
    buf_text_put(sql, "CAST(");
    put_age_ms(sql, table, state);
    buf_print(sql, " AS DECIMAL(20)) * %" PRId64, state->weights.age);
}

/* The expression of a rank, for lists and for explanations: recommended_ops.h has it in words.
 * Exact decimal numbers, so that the order of two remarks is the same at any age. */
static void put_rank_units(struct buf *sql, const char *table,
                           const struct recommended_state *state)
{
    buf_char(sql, '(');
    put_votes_units(sql, table, state);
    buf_text_put(sql, " + ");
    put_score_units(sql, table, state);
    buf_text_put(sql, " - ");
    put_age_units(sql, table, state);
    buf_char(sql, ')');
}

/* The remarks of an item that a list has, in any order. */
static void put_listed(struct buf *sql, int64_t item_id)
{
    buf_print(sql,
              "remark r FORCE INDEX (ix_remark_newest) WHERE r.item_id = %" PRId64
              " AND r.status = 1 AND r.deleted_at IS NULL",
              item_id);
}

struct state_reading {
    const struct recommended_mysql *store;
    struct recommended_state *state;
    int64_t *ids;
    size_t *count;
};

static enum rc on_state_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct state_reading *reading = ctx;

    (void)err;
    read_state_columns(reading->store, row, reading->state);
    if (reading->ids && row->columns[STATE_COLUMNS])
        reading->ids[(*reading->count)++] = db_column_i64(row, STATE_COLUMNS);
    return RC_OK;
}

static enum rc store_read_state(void *ctx, struct recommended_state *state, struct err *err)
{
    struct recommended_mysql *store = ctx;
    struct state_reading reading = {.store = store, .state = state};

    buf_reset(&store->sql);
    buf_text_put(&store->sql, "SELECT ");
    put_state_columns(&store->sql);
    buf_text_put(&store->sql, " FROM ");
    put_state_tables(&store->sql);
    return db_query_buf(store->db, &store->sql, on_state_row, &reading, err);
}

static enum rc on_newest_row(void *ctx, const struct db_row *row, struct err *err)
{
    int64_t *windows = ctx;
    int64_t number = db_column_i64(row, 0);

    (void)err;
    if (number >= 1 && number <= RECOMMENDED_BATCH_MAX)
        windows[number - 1] = db_column_i64(row, 1);
    return RC_OK;
}

/* One entry of the index for each item, however many of its remarks the roll-up wrote: both servers
 * find the MAX() of a constant item while they plan. For a subquery that depends on a list of items
 * MySQL 8 reads and sorts all remarks of each. */
static enum rc store_newest(void *ctx, const int64_t *items, size_t count, int64_t *windows,
                            struct err *err)
{
    struct recommended_mysql *store = ctx;
    struct buf *sql = &store->sql;

    memset(windows, 0, count * sizeof(windows[0]));
    buf_reset(sql);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_text_put(sql, " UNION ALL ");
        buf_print(sql,
                  "SELECT %zu, MAX(votes_window) FROM remark FORCE INDEX (ix_remark_votes_before) "
                  "WHERE item_id = %" PRId64,
                  i + 1, items[i]);
    }
    return db_query_buf(store->db, sql, on_newest_row, windows, err);
}

static enum rc store_announce(void *ctx, const int64_t *items, size_t count, struct err *err)
{
    struct recommended_mysql *store = ctx;
    struct buf *sql = &store->sql;

    buf_reset(sql);
    buf_text_put(sql, "INSERT INTO recommended_change (item_id, changed_at) VALUES ");
    for (size_t i = 0; i < count; i++)
        buf_print(sql, "%c(%" PRId64 ", UTC_TIMESTAMP(3))", i > 0 ? ',' : ' ', items[i]);
    buf_text_put(sql, " ON DUPLICATE KEY UPDATE changed_at = UTC_TIMESTAMP(3)");
    return db_exec_buf(store->db, sql, NULL, err);
}

struct change_reading {
    recommended_on_change on_change;
    void *ctx;
};

static enum rc on_change_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct change_reading *reading = ctx;

    (void)err;
    reading->on_change(reading->ctx, db_column_i64(row, 0), db_column_i64(row, 1));
    return RC_OK;
}

static enum rc store_read_changes(void *ctx, int64_t within_ms, recommended_on_change on_change,
                                  void *change_ctx, struct err *err)
{
    struct recommended_mysql *store = ctx;
    struct change_reading reading = {on_change, change_ctx};
    char sql[256];
    int len = snprintf(sql, sizeof(sql),
                       "SELECT item_id, " MS_OF("changed_at") " FROM recommended_change "
                                                              "FORCE INDEX "
                                                              "(ix_recommended_change_at) "
                                                              "WHERE changed_at > UTC_TIMESTAMP(3) "
                                                              "- INTERVAL %" PRId64 " MICROSECOND",
                       within_ms * 1000);

    return db_stream(store->db, sql, (size_t)len, on_change_row, &reading, err);
}

/* The server ends a statement that takes longer: an item may have any number of remarks. */
static enum rc limit_time(struct recommended_mysql *store, struct err *err)
{
    char sql[128];

    snprintf(sql, sizeof(sql),
             "SET SESSION /*!80000 max_execution_time = %" PRId64
             " */ /*M! max_statement_time = %" PRId64 ".%03d */",
             store->build_ms, store->build_ms / 1000, (int)(store->build_ms % 1000));
    return db_set_up_session(store->db, &store->session, sql, err);
}

/* The server reads all remarks of the item, and keeps the first `max` while it does. */
static enum rc store_build(void *ctx, int64_t item_id, const struct recommended_state *with,
                           size_t max, int64_t *ids, size_t *count, struct recommended_state *seen,
                           struct err *err)
{
    struct recommended_mysql *store = ctx;
    struct buf *sql = &store->sql;
    struct state_reading reading = {store, seen, ids, count};
    enum rc rc = limit_time(store, err);

    *count = 0;
    if (rc != RC_OK)
        return rc;
    buf_reset(sql);
    buf_text_put(sql, "SELECT ");
    put_state_columns(sql);
    buf_text_put(sql, ", p.id FROM ");
    put_state_tables(sql);
    buf_text_put(sql, " LEFT JOIN (SELECT r.id, ");
    put_rank_units(sql, "r", with);
    buf_text_put(sql, " AS units FROM ");
    put_listed(sql, item_id);
    buf_print(sql,
              " ORDER BY units DESC, id DESC LIMIT %zu) p ON TRUE ORDER BY p.units DESC, "
              "p.id DESC",
              max);
    return db_query_buf(store->db, sql, on_state_row, &reading, err);
}

static void put_points(struct buf *sql,
                       void (*put_units)(struct buf *sql, const char *table,
                                         const struct recommended_state *state),
                       const struct recommended_state *state)
{
    buf_text_put(sql, ", ROUND((");
    put_units(sql, "e", state);
    buf_print(sql, ") / %" PRId64 ", 3)", UNITS);
}

static void build_explain(struct buf *sql, int64_t remark_id, const struct recommended_state *state)
{
    buf_reset(sql);
    buf_text_put(sql, "SELECT ");
    put_state_columns(sql);
    buf_text_put(sql, ", e.item_id, e.status, e.deleted_at IS NOT NULL, ");
    put_votes(sql, "e", state);
    buf_text_put(sql, ", e.score, ");
    put_age_ms(sql, "e", state);
    put_points(sql, put_votes_units, state);
    put_points(sql, put_score_units, state);
    put_points(sql, put_age_units, state);
    put_points(sql, put_rank_units, state);
    buf_text_put(sql, " FROM ");
    put_state_tables(sql);
    buf_print(sql, " LEFT JOIN remark e ON e.id = %" PRId64, remark_id);
}

static void copy_points(char points[RANK_POINTS_SIZE], const struct db_row *row, size_t column)
{
    snprintf(points, RANK_POINTS_SIZE, "%s", row->columns[column] ? row->columns[column] : "0");
}

struct explain_reading {
    const struct recommended_mysql *store;
    struct rank_explanation *explanation;
};

static enum rc on_explain_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct explain_reading *reading = ctx;
    struct rank_explanation *explanation = reading->explanation;
    size_t at = STATE_COLUMNS;

    (void)err;
    read_state_columns(reading->store, row, &explanation->state);
    explanation->found = row->columns[at] != NULL;
    explanation->item_id = db_column_i64(row, at++);
    explanation->status = db_column_i64(row, at++);
    explanation->deleted = db_column_i64(row, at++) != 0;
    explanation->votes = db_column_i64(row, at++);
    explanation->score = db_column_i64(row, at++);
    explanation->age_ms = db_column_i64(row, at++);
    copy_points(explanation->votes_points, row, at++);
    copy_points(explanation->score_points, row, at++);
    copy_points(explanation->age_points, row, at++);
    copy_points(explanation->points, row, at);
    return RC_OK;
}

static enum rc on_place_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct rank_explanation *explanation = ctx;

    (void)err;
    explanation->listed = db_column_i64(row, 0);
    explanation->better = db_column_i64(row, 1);
    return RC_OK;
}

/* Counts the remarks that stand before it. */
static enum rc find_place(struct recommended_mysql *store, int64_t remark_id,
                          struct rank_explanation *explanation, struct err *err)
{
    const struct recommended_state *state = &explanation->state;
    struct buf *sql = &store->sql;

    buf_reset(sql);
    buf_text_put(sql, "SELECT COUNT(*), COALESCE(SUM(l.units > m.units OR (l.units = m.units AND "
                      "l.id > m.id)), 0) FROM (SELECT e.id, ");
    put_rank_units(sql, "e", state);
    buf_print(sql, " AS units FROM remark e WHERE e.id = %" PRId64 ") m JOIN (SELECT r.id, ",
              remark_id);
    put_rank_units(sql, "r", state);
    buf_text_put(sql, " AS units FROM ");
    put_listed(sql, explanation->item_id);
    buf_text_put(sql, ") l");
    return db_query_buf(store->db, sql, on_place_row, explanation, err);
}

enum rc rank_mysql_explain(struct recommended_mysql *store, int64_t remark_id,
                           struct rank_explanation *explanation, struct err *err)
{
    struct explain_reading reading = {store, explanation};
    struct recommended_state with = {0};
    enum rc rc = store_read_state(store, &with, err);

    for (int reads = 0; rc == RC_OK && reads < READS_MAX; reads++) {
        *explanation = (struct rank_explanation){0};
        build_explain(&store->sql, remark_id, &with);
        rc = db_query_buf(store->db, &store->sql, on_explain_row, &reading, err);
        if (rc == RC_OK && explanation->state.finished == with.finished &&
            rank_weights_equal(&explanation->state.weights, &with.weights))
            return explanation->found ? find_place(store, remark_id, explanation, err) : RC_OK;
        with = explanation->state;
    }
    return rc == RC_OK ? err_fail(err, RC_RETRY, 0, "roll-ups end faster than a rank is read") : rc;
}

enum rc rank_mysql_set(struct recommended_mysql *store, const struct rank_weights *weights,
                       struct err *err)
{
    struct buf *sql = &store->sql;

    if (!weights)
        return db_run(store->db, "DELETE FROM rank_weight WHERE id = 1", err);
    buf_reset(sql);
    buf_print(sql,
              "INSERT INTO rank_weight (id, votes, score, age, changed_at) VALUES (1, %" PRId64
              ", %" PRId64 ", %" PRId64 ", UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE "
              "votes = %" PRId64 ", score = %" PRId64 ", age = %" PRId64
              ", changed_at = UTC_TIMESTAMP(3)",
              weights->votes, weights->score, weights->age, weights->votes, weights->score,
              weights->age);
    return db_exec_buf(store->db, sql, NULL, err);
}

enum rc recommended_mysql_open(struct recommended_mysql **out, const struct settings *settings,
                               int64_t build_ms, struct err *err)
{
    struct recommended_mysql *store = calloc(1, sizeof(*store));
    enum rc rc;

    *out = NULL;
    if (!store)
        return err_fail(err, RC_FATAL, 0, "no memory for a database connection");
    store->sink = settings->sink;
    if (build_ms > 0 && store->sink.query_timeout_ms < build_ms + ANSWER_MS)
        store->sink.query_timeout_ms = build_ms + ANSWER_MS;
    rc = db_open(&store->db, &store->sink, err);
    if (rc != RC_OK) {
        free(store);
        return rc;
    }
    store->build_ms = build_ms;
    store->defaults = (struct rank_weights){
        .votes = settings->api.rank_votes,
        .score = settings->api.rank_score,
        .age = settings->api.rank_age,
    };
    store->ops = (struct recommended_store){
        .ctx = store,
        .read_state = store_read_state,
        .newest = store_newest,
        .announce = store_announce,
        .read_changes = store_read_changes,
        .build = store_build,
    };
    *out = store;
    return RC_OK;
}

void recommended_mysql_close(struct recommended_mysql *store)
{
    if (!store)
        return;
    db_close(store->db);
    buf_done(&store->sql);
    free(store);
}

const struct recommended_store *recommended_mysql_store(const struct recommended_mysql *store)
{
    return &store->ops;
}

void recommended_mysql_interrupt(struct recommended_mysql *store)
{
    db_interrupt(store->db);
}
