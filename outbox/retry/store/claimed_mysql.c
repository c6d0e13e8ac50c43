/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/claimed_mysql.h"

#include <assert.h>
#include <string.h>

#define COLUMNS_COUNT 17 /* of CLAIMED_COLUMNS */
#define LENGTHS_COUNT 3  /* before them in CLAIMED_FOUND_COLUMNS */
#define READ_WHOLE(column) column

/* Of all rows of a claim; with more they are read again. */
#define KEPT_BYTES_MAX ((size_t)4 << 20)

void claimed_begin(struct claimed *claimed, bool locked)
{
    claimed->count = 0;
    claimed->kept_all = locked;
    buf_reset(&claimed->kept);
}

/* Each column as its length and its bytes with a zero byte; NULL has the length SIZE_MAX. */
static void keep_columns(struct buf *kept, const struct db_row *row, size_t from)
{
    for (size_t i = from; i < from + COLUMNS_COUNT; i++) {
        size_t len = row->columns[i] ? row->lengths[i] : SIZE_MAX;

        buf_put(kept, &len, sizeof(len));
        if (row->columns[i])
            buf_put(kept, row->columns[i], len + 1);
    }
}

size_t claimed_keep(struct claimed *claimed, const struct db_row *row, size_t from)
{
    size_t at = claimed->kept.len;

    for (size_t i = 0; i < LENGTHS_COUNT; i++)
        if (db_column_i64(row, from + i) > CLAIMED_FOUND_BYTES)
            claimed->kept_all = false;
    if (claimed->kept_all)
        keep_columns(&claimed->kept, row, from + LENGTHS_COUNT);
    if (claimed->kept.failed || claimed->kept.len > KEPT_BYTES_MAX)
        claimed->kept_all = false;
    return at;
}

void claimed_add(struct claimed *claimed, int64_t id, int64_t epoch, size_t at)
{
    assert(claimed->count < RETRY_CLAIM_ROWS_MAX);
    claimed->ids[claimed->count] = id;
    claimed->epochs[claimed->count] = epoch;
    claimed->at[claimed->count++] = at;
}

struct claim_output {
    retry_on_task on_task;
    void *ctx;
};

static int64_t column_ms(const struct db_row *row, size_t column)
{
    return db_column_i64(row, column) / 1000;
}

/* row: CLAIMED_COLUMNS. */
static void pass_task(const struct claim_output *claim_output, const struct db_row *row, int64_t id,
                      int64_t epoch, int64_t scene_version, int64_t duplicate_of)
{
    struct task_row task = {
        .id = id,
        .epoch = epoch,
        .ordering_key = row->columns[0],
        .idempotency_key = row->columns[1],
        .task_hash = row->columns[2],
        .biz_no = row->columns[3],
        .options = row->columns[4],
        .options_len = row->lengths[4],
        .params = row->columns[5],
        .params_len = row->lengths[5],
        .params_type = row->columns[6],
        .attempts = db_column_i64(row, 7),
        .made_ms = column_ms(row, 8),
        .now_ms = column_ms(row, 9),
        .step = db_column_i64(row, 10),
        .step_result = row->columns[11],
        .step_result_len = row->lengths[11],
        .due_ms = column_ms(row, 12),
        .handler = row->columns[13],
        .shard = (unsigned)db_column_i64(row, 14),
        .traceparent = row->columns[15],
        .waited = db_column_i64(row, 16) != 0,
        .scene_version = scene_version,
        .duplicate_of = duplicate_of,
    };

    claim_output->on_task(claim_output->ctx, &task);
}

/* The version of the scene is read once, of the first task. */
static void put_version(const struct claimed *claimed, struct store *store)
{
    store_put(store, "(SELECT " STORE_SCENE_VERSION
                     " FROM retry_task t FORCE INDEX (PRIMARY) WHERE t.id = ");
    buf_i64(&store->sql, claimed->ids[0]);
    store_put(store, ")");
}

struct claim_state {
    int64_t scene_version;
    bool any_ended;
};

static enum rc state_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct claim_state *state = ctx;

    (void)err;
    state->scene_version = db_column_i64(row, 0);
    state->any_ended = db_column_i64(row, 1) != 0;
    return RC_OK;
}

/* Reads the version of the scene, and whether the history has any task whose idempotency key is
 * refused or was. In a statement of its own: the search locks rows that are newer than the snapshot
 * of its subqueries, as a task that was made after a change of the scene or the end of another
 * task. */
static enum rc read_state(const struct claimed *claimed, struct store *store,
                          struct claim_state *state, struct err *err)
{
    store_put(store, "SELECT ");
    put_version(claimed, store);
    store_put(store, ", EXISTS (SELECT 1 FROM retry_task_history h FORCE INDEX "
                     "(ix_retry_task_history_dedup) WHERE h.dedup_hash IS NOT NULL)");
    return store_query(store, state_on_row, state, err);
}

static enum rc task_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct db_row task = {row->columns + 4, row->lengths + 4, COLUMNS_COUNT};

    (void)err;
    pass_task(ctx, &task, db_column_i64(row, 0), db_column_i64(row, 1), db_column_i64(row, 2),
              db_column_i64(row, 3));
    return RC_OK;
}

/* In the order in which they were taken: the join follows the list. */
static enum rc read_tasks(const struct claimed *claimed, struct store *store,
                          struct claim_output *claim_output, struct err *err)
{
    store_put(store, "SELECT t.id, t.epoch, ");
    put_version(claimed, store);
    store_put(store,
              ", IF(t.waited = 0 AND t.origin = 'client', (SELECT h.id FROM retry_task_history h "
              "FORCE INDEX (ix_retry_task_history_dedup) WHERE h.dedup_hash = t.task_hash AND "
              "h.dedup_until > t.created_at AND h.id <> t.id ORDER BY h.dedup_hash, h.id LIMIT 1), "
              "NULL), " CLAIMED_COLUMNS(READ_WHOLE) " FROM JSON_TABLE('[");
    for (size_t i = 0; i < claimed->count; i++)
        buf_print(&store->sql, "%s[%lld,%lld]", i > 0 ? "," : "", (long long)claimed->ids[i],
                  (long long)claimed->epochs[i]);
    store_put(store, "]', '$[*]' COLUMNS (id BIGINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS l "
                     "STRAIGHT_JOIN retry_task t FORCE INDEX (PRIMARY) "
                     "ON t.id = l.id AND t.epoch = l.epoch AND t.state = 1");
    return store_query(store, task_on_row, claim_output, err);
}

/* Invariant: the rows were locked until the COMMIT of the claim, which changes none of these
 * columns. */
static void pass_kept(const struct claimed *claimed, const struct claim_output *claim_output,
                      int64_t scene_version)
{
    for (size_t i = 0; i < claimed->count; i++) {
        const char *at = claimed->kept.data + claimed->at[i];
        const char *columns[COLUMNS_COUNT] = {0};
        size_t lengths[COLUMNS_COUNT] = {0};
        const struct db_row row = {columns, lengths, COLUMNS_COUNT};

        for (size_t column = 0; column < COLUMNS_COUNT; column++) {
            size_t len;

            memcpy(&len, at, sizeof(len));
            at += sizeof(len);
            if (len == SIZE_MAX)
                continue;
            columns[column] = at;
            lengths[column] = len;
            at += len + 1;
        }
        pass_task(claim_output, &row, claimed->ids[i], claimed->epochs[i], scene_version, 0);
    }
}

enum rc claimed_pass(struct claimed *claimed, struct store *store, retry_on_task on_task, void *ctx,
                     struct err *err)
{
    struct claim_output claim_output = {on_task, ctx};
    struct claim_state state = {0};
    enum rc rc;

    if (claimed->count == 0)
        return RC_OK;
    if (!claimed->kept_all)
        return read_tasks(claimed, store, &claim_output, err);
    rc = read_state(claimed, store, &state, err);
    if (rc != RC_OK)
        return rc;
    if (state.any_ended)
        return read_tasks(claimed, store, &claim_output, err);
    pass_kept(claimed, &claim_output, state.scene_version);
    return RC_OK;
}

void claimed_done(struct claimed *claimed)
{
    buf_done(&claimed->kept);
}
