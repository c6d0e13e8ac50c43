/* SPDX-License-Identifier: MIT */
#include "producer/remark/lookup_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"

#include <stdlib.h>

struct lookup_mysql {
    struct db *db;
    struct buf sql; /* keeps its memory */
    struct lookup_store ops;
};

static enum rc store_ping(void *ctx, struct err *err)
{
    struct lookup_mysql *store = ctx;

    return db_run(store->db, "SELECT votes FROM vote_count WHERE content_id = 0", err);
}

struct lookup_reading {
    struct lookup_row *rows;
    size_t count;
};

/* A content may be asked for twice; there are few of them. */
static enum rc total_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct lookup_reading *reading = ctx;
    int64_t content_id = db_column_i64(row, 0);

    (void)err;
    for (size_t i = 0; i < reading->count; i++) {
        if (reading->rows[i].content_id != content_id)
            continue;
        reading->rows[i].votes = db_column_i64(row, 1);
        reading->rows[i].voting = db_column_i64(row, 2) == 1;
    }
    return RC_OK;
}

/* One statement, so that totals and votes are of the same moment. */
static void read_build(struct buf *sql, int64_t voter_id, const struct lookup_row *rows,
                       size_t count)
{
    buf_reset(sql);
    if (voter_id > 0) {
        buf_text_put(sql, "SELECT c.content_id, c.votes, s.voting FROM vote_count c "
                          "LEFT JOIN vote_state s ON s.voter_id = ");
        buf_i64(sql, voter_id);
        buf_text_put(sql, " AND s.content_id = c.content_id");
    } else {
        buf_text_put(sql, "SELECT c.content_id, c.votes, 0 FROM vote_count c");
    }
    buf_text_put(sql, " WHERE c.content_id IN (");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(sql, ',');
        buf_i64(sql, rows[i].content_id);
    }
    buf_char(sql, ')');
}

static enum rc store_read(void *ctx, int64_t voter_id, struct lookup_row *rows, size_t count,
                          struct err *err)
{
    struct lookup_mysql *store = ctx;
    struct lookup_reading reading = {.rows = rows, .count = count};

    for (size_t i = 0; i < count; i++) {
        rows[i].votes = 0;
        rows[i].voting = 0;
    }
    read_build(&store->sql, voter_id, rows, count);
    return db_query_buf(store->db, &store->sql, total_on_row, &reading, err);
}

enum rc lookup_mysql_open(struct lookup_mysql **out, const struct mysql_settings *settings,
                          struct err *err)
{
    struct lookup_mysql *store = calloc(1, sizeof(*store));
    enum rc rc;

    *out = NULL;
    if (!store)
        return err_fail(err, RC_FATAL, 0, "no memory for a database connection");
    rc = db_open(&store->db, settings, err);
    if (rc != RC_OK) {
        free(store);
        return rc;
    }
    store->ops = (struct lookup_store){.ctx = store, .ping = store_ping, .read = store_read};
    *out = store;
    return RC_OK;
}

void lookup_mysql_close(struct lookup_mysql *store)
{
    if (!store)
        return;
    db_close(store->db);
    buf_done(&store->sql);
    free(store);
}

const struct lookup_store *lookup_mysql_ops(const struct lookup_mysql *store)
{
    return &store->ops;
}

void lookup_mysql_interrupt(struct lookup_mysql *store)
{
    db_interrupt(store->db);
}
