/* SPDX-License-Identifier: MIT */
#include "producer/remark/remark_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

    buf_print(sql, "(SELECT id, %s AS listed FROM remark FORCE INDEX (%s) WHERE item_id = %" PRId64,
              votes, index, place->item_id);
    if (place->after)
        buf_print(sql, " AND (%s < %" PRId64 " OR (%s = %" PRId64 " AND id < %" PRId64 "))", votes,
                  place->votes, votes, place->votes, place->id);
    buf_print(sql, "%s ORDER BY %s DESC, id DESC LIMIT %zu)", only, votes, query->rows_max);
}

/* Remarks that the next roll-up wrote are listed with the votes from before it. No page is made of
 * this while a later one writes (remark_reader.h). */
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
              "WHERE item_id = %" PRId64,
              place->item_id);
    if (place->after)
        buf_print(sql, " AND id < %" PRId64, place->id);
    buf_print(sql, " ORDER BY id DESC LIMIT %zu)", query->rows_max);
}

/* One statement, so that the numbers of the roll-ups and the remarks are one view of the data. The
 * first row stands for the roll-ups also when the page has no remark. */
static void build_page_query(struct buf *sql, const struct remark_query *query)
{
    buf_reset(sql);
    buf_text_put(sql, "SELECT s.finished_window, s.started_window, r.id, r.item_id, r.consumer_id, "
                      "r.order_id, r.score, r.status, "
                      "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.gmt_create) DIV 1000, p.listed, "
                      "r.header, r.content, r.images, r.user_name, r.user_face "
                      "FROM rollup_state s LEFT JOIN ");
    if (query->place.sort == REMARK_VOTES)
        put_votes_list(sql, query);
    else
        put_newest_list(sql, query);
    buf_text_put(sql, " p ON TRUE LEFT JOIN remark r ON r.id = p.id WHERE s.name = 'remark' "
                      "ORDER BY ");
    buf_text_put(sql, query->place.sort == REMARK_VOTES ? "p.listed DESC, p.id DESC" : "p.id DESC");
}

struct page_reading {
    remark_on_row on_row;
    void *ctx;
    struct remark_windows *windows;
    bool found;
};

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

    reading->windows->finished = db_column_i64(row, 0);
    reading->windows->started = db_column_i64(row, 1);
    reading->found = true;
    return row->columns[2] ? reading->on_row(reading->ctx, &remark, err) : RC_OK;
}

static enum rc store_read_page(void *ctx, const struct remark_query *query, remark_on_row on_row,
                               void *row_ctx, struct remark_windows *windows, struct err *err)
{
    struct remark_mysql *store = ctx;
    struct page_reading reading = {.on_row = on_row, .ctx = row_ctx, .windows = windows};
    enum rc rc;

    build_page_query(&store->sql, query);
    rc = db_query_buf(store->db, &store->sql, on_page_row, &reading, err);
    if (rc == RC_OK && !reading.found)
        rc = err_fail(err, RC_RETRY, 0,
                      "the row remark of rollup_state is missing; tallybox rollup makes it");
    return rc;
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
