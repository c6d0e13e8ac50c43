/* SPDX-License-Identifier: MIT */
#include "producer/remark/remark_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_DELETED " AND deleted_at IS NULL"

struct remark_mysql {
    struct db *db;
    struct buf sql; /* keeps its memory */
    struct remark_store ops;
};

static enum rc store_ping(void *ctx, struct err *err)
{
    return db_run(((struct remark_mysql *)ctx)->db,
                  "SELECT finished_window FROM rollup_state WHERE name = 'remark'", err);
}

/* One part of a list: the ids and votes of its first remarks after the place. `votes` is the column
 * that the list is sorted by, `only` a condition or "". The index has the order, so that no more
 * than max entries of it are read; the condition on the place is written out, because neither
 * server makes a range of (a, b) < (x, y). */
static void put_votes_part(struct buf *sql, const struct remark_query *query, const char *votes,
                           const char *index, const char *only)
{
    const struct remark_place *place = &query->place;

    buf_print(sql,
              "(SELECT id, %s AS listed FROM remark FORCE INDEX (%s) WHERE item_id = %" PRId64
              " AND deleted_at IS NULL",
              votes, index, place->item_id);
    if (place->after)
        buf_print(sql, " AND (%s < %" PRId64 " OR (%s = %" PRId64 " AND id < %" PRId64 "))", votes,
                  place->votes, votes, place->votes, place->id);
    buf_print(sql, "%s ORDER BY %s DESC, id DESC LIMIT %zu)", only, votes, query->rows_max);
}

/* Remarks that the next roll-up wrote are listed with the votes from before it. No page is made of
 * this while a later one writes (remark_worker.h). */
static void put_votes_list(struct buf *sql, const struct remark_query *query)
{
    char only[64];

    if (!query->as_of) {
        put_votes_part(sql, query, "votes", "ix_remark_votes", "");
        return;
    }
    snprintf(only, sizeof(only), " AND votes_window <= %" PRId64, query->window);
    buf_char(sql, '(');
    put_votes_part(sql, query, "votes", "ix_remark_votes", only);
    buf_text_put(sql, " UNION ALL ");
    snprintf(only, sizeof(only), " AND votes_window = %" PRId64, query->window + 1);
    put_votes_part(sql, query, "votes_before", "ix_remark_votes_before", only);
    buf_print(sql, " ORDER BY listed DESC, id DESC LIMIT %zu)", query->rows_max);
}

static void put_newest_list(struct buf *sql, const struct remark_query *query)
{
    const struct remark_place *place = &query->place;

    buf_print(sql,
              "(SELECT id, votes AS listed FROM remark FORCE INDEX (ix_remark_newest) "
              "WHERE item_id = %" PRId64 " AND deleted_at IS NULL",
              place->item_id);
    if (place->after)
        buf_print(sql, " AND id < %" PRId64, place->id);
    buf_print(sql, " ORDER BY id DESC LIMIT %zu)", query->rows_max);
}

#define WINDOW_COLUMNS "SELECT COALESCE(s.finished_window, 0), COALESCE(s.started_window, 0)"
#define WINDOW_JOIN " LEFT JOIN rollup_state s ON s.name = 'remark'"
#define REMARK_COLUMNS                                                \
    "r.id, r.item_id, r.consumer_id, r.order_id, r.score, r.status, " \
    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.gmt_create) DIV 1000"
#define REMARK_TEXT_COLUMNS "r.header, r.content, r.images, r.user_name, r.user_face"

/* One statement, so that the numbers of the roll-ups and the remarks are one view of the data. The
 * list comes first, and the rest is found by keys: the servers sort its numbers before they read a
 * text. With the row of rollup_state as the first table MariaDB 10.11 sorts the texts in a table on
 * disk, which doubles the cost of a page. */
static void build_page_query(struct buf *sql, const struct remark_query *query)
{
    bool by_votes = query->place.sort == REMARK_VOTES;

    buf_reset(sql);
    buf_text_put(sql, by_votes ? WINDOW_COLUMNS : "SELECT 0, 0");
    buf_text_put(sql, ", " REMARK_COLUMNS ", p.listed, " REMARK_TEXT_COLUMNS " FROM ");
    if (by_votes)
        put_votes_list(sql, query);
    else
        put_newest_list(sql, query);
    buf_text_put(sql, " p STRAIGHT_JOIN remark r ON r.id = p.id");
    buf_text_put(sql, by_votes ? WINDOW_JOIN " ORDER BY p.listed DESC, p.id DESC"
                               : " ORDER BY p.id DESC");
}

struct page_reading {
    remark_on_row on_row;
    void *ctx;
    struct remark_windows *windows;
    bool found; /* a row */
};

static enum rc on_windows(void *ctx, const struct db_row *row, struct err *err)
{
    struct remark_windows *windows = ctx;

    (void)err;
    windows->finished = db_column_i64(row, 0);
    windows->started = db_column_i64(row, 1);
    return RC_OK;
}

static enum rc on_page_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct page_reading *reading = ctx;
    struct remark_row remark = {
        .id = db_column_i64(row, 2),
        .item_id = db_column_i64(row, 3),
        .consumer_id = db_column_i64(row, 4),
        .order_id = db_column_i64(row, 5),
        .score = db_column_i64(row, 6),
        .status = db_column_i64(row, 7),
        .created_ms = db_column_i64(row, 8),
        .votes = db_column_i64(row, 9),
        .header = row->columns[10],
        .content = row->columns[11],
        .images = row->columns[12],
        .user_name = row->columns[13],
        .user_face = row->columns[14],
    };

    reading->found = true;
    on_windows(reading->windows, row, err);
    return reading->on_row(reading->ctx, &remark, err);
}

static enum rc store_read_page(void *ctx, const struct remark_query *query, remark_on_row on_row,
                               void *row_ctx, struct remark_windows *windows, struct err *err)
{
    struct remark_mysql *store = ctx;
    struct page_reading reading = {.on_row = on_row, .ctx = row_ctx, .windows = windows};

    enum rc rc;

    build_page_query(&store->sql, query);
    rc = db_query_buf(store->db, &store->sql, on_page_row, &reading, err);
    if (rc != RC_OK || reading.found || query->place.sort != REMARK_VOTES)
        return rc;
    /* A page without remarks brings no row. The numbers only rise: where the later ones do not ask
     * for another view, those at the time of the page did not, either. */
    buf_reset(&store->sql);
    buf_text_put(&store->sql, WINDOW_COLUMNS " FROM (SELECT 1) one" WINDOW_JOIN);
    return db_query_buf(store->db, &store->sql, on_windows, windows, err);
}

/* A remark that was hidden or deleted since the list was built is left out. */
static enum rc store_read_listed(void *ctx, int64_t item_id, const int64_t *ids, size_t count,
                                 remark_on_row on_row, void *row_ctx, struct err *err)
{
    struct remark_mysql *store = ctx;
    struct buf *sql = &store->sql;
    struct remark_windows windows;
    struct page_reading reading = {.on_row = on_row, .ctx = row_ctx, .windows = &windows};

    buf_reset(sql);
    buf_text_put(sql, "SELECT 0, 0, " REMARK_COLUMNS ", r.votes, " REMARK_TEXT_COLUMNS
                      " FROM JSON_TABLE('[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(sql, ',');
        buf_i64(sql, ids[i]);
    }
    buf_print(sql,
              "]', '$[*]' COLUMNS (number FOR ORDINALITY, id BIGINT PATH '$')) t STRAIGHT_JOIN "
              "remark r ON r.id = t.id WHERE r.item_id = %" PRId64
              " AND r.status = 1 AND r.deleted_at IS NULL ORDER BY t.number",
              item_id);
    return db_query_buf(store->db, sql, on_page_row, &reading, err);
}

static const char *const columns[REMARK_FIELDS] = {
    [REMARK_ITEM_ID] = "item_id",     [REMARK_CONSUMER_ID] = "consumer_id",
    [REMARK_ORDER_ID] = "order_id",   [REMARK_SCORE] = "score",
    [REMARK_STATUS] = "status",       [REMARK_HEADER] = "header",
    [REMARK_CONTENT] = "content",     [REMARK_IMAGES] = "images",
    [REMARK_USER_NAME] = "user_name", [REMARK_USER_FACE] = "user_face",
};

static void put_value(struct remark_mysql *store, const struct remark_values *values,
                      enum remark_field field)
{
    struct buf *sql = &store->sql;

    if (field < REMARK_NUMBERS)
        buf_i64(sql, values->numbers[field]);
    else if (values->texts[field])
        db_put_text(store->db, sql, values->texts[field], strlen(values->texts[field]));
    else
        buf_text_put(sql, "NULL");
}

static void build_insert(struct remark_mysql *store, const struct remark_values *values, int64_t id)
{
    struct buf *sql = &store->sql;

    buf_reset(sql);
    buf_text_put(sql, "INSERT INTO remark (id");
    for (enum remark_field field = 0; field < REMARK_FIELDS; field++) {
        if ((values->given & 1U << field) == 0)
            continue;
        buf_char(sql, ',');
        buf_text_put(sql, columns[field]);
    }
    buf_text_put(sql, ") VALUES (");
    if (id > 0)
        buf_i64(sql, id);
    else
        buf_text_put(sql, "NULL");
    for (enum remark_field field = 0; field < REMARK_FIELDS; field++) {
        if ((values->given & 1U << field) == 0)
            continue;
        buf_char(sql, ',');
        put_value(store, values, field);
    }
    buf_char(sql, ')');
}

/* `only` is a condition or "". */
static enum rc find_item(struct remark_mysql *store, int64_t id, const char *only, bool *found,
                         int64_t *item_id, struct err *err)
{
    char sql[120];

    snprintf(sql, sizeof(sql), "SELECT item_id FROM remark WHERE id = %" PRId64 "%s", id, only);
    return db_number(store->db, sql, item_id, found, err);
}

/* The id is taken: the duplicate key keeps the row locked, so that it cannot be removed now. */
static enum rc find_existing(struct remark_mysql *store, int64_t id, struct remark_insertion *end,
                             struct err *err)
{
    enum rc rc = find_item(store, id, NOT_DELETED, &end->existed, &end->item_id, err);

    end->deleted = rc == RC_OK && !end->existed;
    return rc;
}

/* Read after the INSERT, which waits for a removal of the same row: a removed remark has its
 * tombstone in vote_tally since before its row was deleted. */
static enum rc find_ended(struct remark_mysql *store, int64_t id, bool *ended, struct err *err)
{
    char sql[120];
    int64_t count = 0;
    enum rc rc;

    snprintf(sql, sizeof(sql),
             "SELECT COUNT(*) FROM vote_tally WHERE content_id = %" PRId64
             " AND ended_at IS NOT NULL",
             id);
    rc = db_number(store->db, sql, &count, NULL, err);
    *ended = count > 0;
    return rc;
}

static enum rc insert_in_transaction(struct remark_mysql *store, const struct remark_values *values,
                                     int64_t *id, struct remark_insertion *end, struct err *err)
{
    enum rc rc;

    build_insert(store, values, *id);
    rc = db_exec_buf(store->db, &store->sql, NULL, err);
    if (rc == RC_REJECT && err->code == DB_DUPLICATE && *id > 0)
        return find_existing(store, *id, end, err);
    if (rc == RC_OK && *id > 0)
        return find_ended(store, *id, &end->deleted, err);
    if (rc == RC_OK)
        rc = db_number(store->db, "SELECT LAST_INSERT_ID()", id, NULL, err);
    return rc;
}

static enum rc store_insert(void *ctx, const struct remark_values *values, int64_t *id,
                            struct remark_insertion *end, struct err *err)
{
    struct remark_mysql *store = ctx;
    int64_t made = *id;
    enum rc rc = db_begin(store->db, err);

    *end = (struct remark_insertion){0};
    if (rc == RC_OK)
        rc = insert_in_transaction(store, values, &made, end, err);
    if (rc == RC_OK && !end->deleted) {
        rc = db_commit(store->db, err);
        end->unknown = rc == RC_RETRY;
    }
    if (rc == RC_OK)
        *id = made;
    if (db_in_transaction(store->db))
        db_rollback(store->db);
    return rc;
}

static enum rc store_update(void *ctx, int64_t id, const struct remark_values *values, bool *found,
                            int64_t *item_id, struct err *err)
{
    struct remark_mysql *store = ctx;
    struct buf *sql = &store->sql;
    bool first = true;
    enum rc rc;

    *found = false;
    buf_reset(sql);
    buf_text_put(sql, "UPDATE remark SET ");
    for (enum remark_field field = 0; field < REMARK_FIELDS; field++) {
        if ((values->given & 1U << field) == 0)
            continue;
        if (!first)
            buf_char(sql, ',');
        first = false;
        buf_text_put(sql, columns[field]);
        buf_char(sql, '=');
        put_value(store, values, field);
    }
    buf_print(sql, " WHERE id = %" PRId64 NOT_DELETED, id);
    rc = db_exec_buf(store->db, sql, NULL, err);
    return rc == RC_OK ? find_item(store, id, NOT_DELETED, found, item_id, err) : rc;
}

static bool store_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == DB_DEADLOCK || err->code == DB_LOCK_TIMEOUT;
}

enum rc remark_mysql_open(struct remark_mysql **out, const struct mysql_settings *settings,
                          struct err *err)
{
    struct remark_mysql *store = calloc(1, sizeof(*store));
    enum rc rc;

    *out = NULL;
    if (!store)
        return err_fail(err, RC_FATAL, 0, "no memory for a database connection");
    rc = db_open(&store->db, settings, err);
    if (rc != RC_OK) {
        free(store);
        return rc;
    }
    store->ops = (struct remark_store){
        .ctx = store,
        .ping = store_ping,
        .read_page = store_read_page,
        .read_listed = store_read_listed,
        .insert = store_insert,
        .update = store_update,
        .collided = store_collided,
    };
    *out = store;
    return RC_OK;
}

void remark_mysql_close(struct remark_mysql *store)
{
    if (!store)
        return;
    db_close(store->db);
    buf_done(&store->sql);
    free(store);
}

const struct remark_store *remark_mysql_store(const struct remark_mysql *store)
{
    return &store->ops;
}

void remark_mysql_interrupt(struct remark_mysql *store)
{
    db_interrupt(store->db);
}
