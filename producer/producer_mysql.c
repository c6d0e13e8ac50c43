/* SPDX-License-Identifier: MIT */
#include "producer/producer_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/lanes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows in one statement. MariaDB turns an IN list of 1000 values into a join with a temporary
 * table (in_predicate_conversion_threshold), which would lock in no order; and both servers plan
 * long lists of pairs ever more slowly. */
#define ROWS_MAX 500
#define SCENES_MAX 1024 /* as retry_ops.h has it */

struct producer_mysql {
    struct db *db;
    struct buf sql; /* keeps its memory */
    struct vote_store votes;
    struct totals_store totals;
    struct task_store tasks;
    int64_t lane_count;
    int64_t lock_wait_seconds;
    uint64_t session; /* the one that knows lock_wait_seconds */
};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum rc run_sql(struct producer_mysql *store, struct err *err)
{
    return db_exec_buf(store->db, &store->sql, NULL, err);
}

static enum rc query_sql(struct producer_mysql *store, db_on_row on_row, void *ctx, struct err *err)
{
    return db_query_buf(store->db, &store->sql, on_row, ctx, err);
}

/* Never RC_REJECT, which would make the engine refuse one vote. */
static enum rc check_lanes(const struct producer_mysql *store, const struct lanes *lanes,
                           struct err *err)
{
    return lanes_check(lanes, store->lane_count, err) == RC_OK ? RC_OK : RC_RETRY;
}

/* A write that changes no row also fails where votes cannot be written. */
static enum rc store_ping(void *ctx, struct err *err)
{
    struct producer_mysql *store = ctx;
    struct lanes lanes;
    enum rc rc = db_run(store->db, "UPDATE vote_count SET votes = votes WHERE content_id = 0", err);

    if (rc == RC_OK)
        rc = lanes_read(store->db, &lanes, err);
    return rc == RC_OK ? check_lanes(store, &lanes, err) : rc;
}

static enum rc set_up_session(struct producer_mysql *store, struct err *err)
{
    buf_reset(&store->sql);
    buf_text_put(&store->sql, "SET SESSION innodb_lock_wait_timeout = ");
    buf_i64(&store->sql, store->lock_wait_seconds);
    if (store->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    return db_set_up_session(store->db, &store->session, buf_text(&store->sql), err);
}

static enum rc store_begin(void *ctx, struct err *err)
{
    struct producer_mysql *store = ctx;
    enum rc rc = set_up_session(store, err);

    return rc == RC_OK ? db_begin(store->db, err) : rc;
}

struct count_reading {
    struct vote_count_row *counts;
    size_t count;
    size_t at; /* rows come in the order of counts */
};

static enum rc on_count_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct count_reading *reading = ctx;
    int64_t content_id = db_column_i64(row, 0);

    (void)err;
    while (reading->at < reading->count && reading->counts[reading->at].content_id < content_id)
        reading->at++;
    assert(reading->at < reading->count && reading->counts[reading->at].content_id == content_id);
    reading->counts[reading->at].votes = db_column_i64(row, 1);
    reading->counts[reading->at].found = true;
    return RC_OK;
}

static void put_content_ids(struct buf *sql, const struct vote_count_row *counts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(sql, ',');
        buf_i64(sql, counts[i].content_id);
    }
}

static enum rc lock_some_counts(struct producer_mysql *store, struct vote_count_row *counts,
                                size_t count, struct err *err)
{
    struct count_reading reading = {.counts = counts, .count = count};

    buf_reset(&store->sql);
    buf_text_put(&store->sql, "SELECT content_id, votes FROM vote_count FORCE INDEX (PRIMARY) "
                              "WHERE content_id IN (");
    put_content_ids(&store->sql, counts, count);
    buf_text_put(&store->sql, ") ORDER BY content_id FOR UPDATE");
    return query_sql(store, on_count_row, &reading, err);
}

static enum rc store_lock_counts(void *ctx, struct vote_count_row *counts, size_t count,
                                 struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t at = 0; rc == RC_OK && at < count; at += ROWS_MAX)
        rc = lock_some_counts(ctx, counts + at, min_size(count - at, ROWS_MAX), err);
    return rc;
}

enum count_choice { COUNTS_WANTED, COUNTS_CHANGED };

/* Runs one upsert per ROWS_MAX chosen rows; `update` is the clause for rows that exist. */
static enum rc upsert_counts(struct producer_mysql *store, const struct vote_count_row *counts,
                             size_t count, enum count_choice choice, const char *update,
                             struct err *err)
{
    size_t at = 0;

    while (at < count) {
        size_t rows = 0;
        enum rc rc;

        buf_reset(&store->sql);
        buf_text_put(&store->sql, "INSERT INTO vote_count (content_id, votes) VALUES ");
        for (; at < count && rows < ROWS_MAX; at++) {
            if (choice == COUNTS_CHANGED ? !counts[at].changed
                                         : !counts[at].wanted && !counts[at].found)
                continue;
            buf_text_put(&store->sql, rows++ > 0 ? ",(" : "(");
            buf_i64(&store->sql, counts[at].content_id);
            buf_char(&store->sql, ',');
            buf_i64(&store->sql, counts[at].votes);
            buf_char(&store->sql, ')');
        }
        if (rows == 0)
            break;
        buf_text_put(&store->sql, update);
        rc = run_sql(store, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* INSERT IGNORE would lock an existing row in shared mode, and two writers that hold such a lock
 * deadlock when they write. This statement takes the exclusive lock at once. */
static enum rc store_make_counts(void *ctx, const struct vote_count_row *counts, size_t count,
                                 struct err *err)
{
    return upsert_counts(ctx, counts, count, COUNTS_WANTED,
                         " ON DUPLICATE KEY UPDATE votes = vote_count.votes", err);
}

static enum rc store_write_counts(void *ctx, const struct vote_count_row *counts, size_t count,
                                  struct err *err)
{
    return upsert_counts(ctx, counts, count, COUNTS_CHANGED,
                         " ON DUPLICATE KEY UPDATE votes = VALUES(votes)", err);
}

struct state_reading {
    struct vote_state_row *states;
    size_t count;
    int64_t *now_ms;
    struct lanes lanes;
    bool has_lanes;
};

static int compare_states(const void *a, const void *b)
{
    const struct vote_state_row *one = a;
    const struct vote_state_row *two = b;

    if (one->content_id != two->content_id)
        return one->content_id < two->content_id ? -1 : 1;
    return (one->voter_id > two->voter_id) - (one->voter_id < two->voter_id);
}

/* The rows of a content follow each other. */
static void mark_states_deleted(const struct state_reading *reading, int64_t content_id)
{
    size_t from = 0;
    size_t to = reading->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (reading->states[middle].content_id < content_id)
            from = middle + 1;
        else
            to = middle;
    }
    for (; from < reading->count && reading->states[from].content_id == content_id; from++)
        reading->states[from].deleted = true;
}

static enum rc on_state_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct state_reading *reading = ctx;
    struct vote_state_row key = {.voter_id = db_column_i64(row, 1),
                                 .content_id = db_column_i64(row, 2)};
    struct vote_state_row *state;

    if (!row->columns[1] && row->columns[2]) {
        mark_states_deleted(reading, key.content_id);
        return RC_OK;
    }
    *reading->now_ms = db_column_i64(row, 0);
    if (!row->columns[1]) {
        reading->lanes.count = db_column_i64(row, 3);
        reading->lanes.next = db_column_i64(row, 4);
        reading->has_lanes = true;
        return RC_OK;
    }
    state = bsearch(&key, reading->states, reading->count, sizeof(key), compare_states);
    assert(state);
    if (row->lengths[5] != ID_BYTES)
        return err_fail(err, RC_REJECT, 0, "vote_state.event_id holds %zu bytes instead of %d",
                        row->lengths[5], ID_BYTES);
    state->voting = db_column_i64(row, 3) == 1;
    state->version = db_column_i64(row, 4);
    memcpy(state->event_id.bytes, row->columns[5], ID_BYTES);
    state->found = true;
    return RC_OK;
}

/* A read without locks sees the rows that are committed when it begins, and the locks on the totals
 * prevent further changes. The first row carries the clock of the database: it is read after the
 * locks, so that times do not decrease within a content.
 *
 * Invariant: the first row is the one of outbox_lanes, locked until COMMIT, so that the number of
 * lanes cannot change between this read and the events that the transaction appends
 * (outbox/lanes.h).
 *
 * Rows without a voter are deleted contents. */
static enum rc read_some_states(struct producer_mysql *store, struct vote_state_row *states,
                                size_t count, int64_t *now_ms, struct err *err)
{
    struct state_reading reading = {.states = states, .count = count, .now_ms = now_ms};
    enum rc rc;

    buf_reset(&store->sql);
    buf_text_put(
        &store->sql,
        "(SELECT CAST(UNIX_TIMESTAMP(UTC_TIMESTAMP(3)) * 1000 AS SIGNED) AS now_ms, "
        "NULL AS voter_id, NULL AS content_id, lane_count AS voting, next_count AS version, "
        "NULL AS event_id FROM outbox_lanes WHERE id = 1 LOCK IN SHARE MODE) "
        "UNION ALL (SELECT CAST(UNIX_TIMESTAMP(UTC_TIMESTAMP(3)) * 1000 AS SIGNED), "
        "voter_id, content_id, voting, version, event_id "
        "FROM vote_state FORCE INDEX (PRIMARY) WHERE ");
    for (size_t i = 0; i < count; i++) {
        buf_text_put(&store->sql, i > 0 ? " OR (voter_id=" : "(voter_id=");
        buf_i64(&store->sql, states[i].voter_id);
        buf_text_put(&store->sql, " AND content_id=");
        buf_i64(&store->sql, states[i].content_id);
        buf_char(&store->sql, ')');
    }
    buf_text_put(&store->sql, ") UNION ALL (SELECT 0, NULL, content_id, 0, 0, NULL "
                              "FROM deleted_content WHERE content_id IN (");
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && states[i].content_id == states[i - 1].content_id)
            continue;
        if (i > 0)
            buf_char(&store->sql, ',');
        buf_i64(&store->sql, states[i].content_id);
    }
    buf_text_put(&store->sql, "))");
    rc = query_sql(store, on_state_row, &reading, err);
    if (rc == RC_OK && !reading.has_lanes)
        rc = lanes_read(store->db, &reading.lanes, err);
    return rc == RC_OK ? check_lanes(store, &reading.lanes, err) : rc;
}

static enum rc store_read_states(void *ctx, struct vote_state_row *states, size_t count,
                                 int64_t *now_ms, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t at = 0; rc == RC_OK && at < count; at += ROWS_MAX)
        rc = read_some_states(ctx, states + at, min_size(count - at, ROWS_MAX), now_ms, err);
    return rc;
}

static void put_state(struct producer_mysql *store, const struct vote_state_row *state)
{
    struct buf *sql = &store->sql;

    buf_i64(sql, state->voter_id);
    buf_char(sql, ',');
    buf_i64(sql, state->content_id);
    buf_char(sql, ',');
    buf_i64(sql, state->voting);
    buf_char(sql, ',');
    buf_i64(sql, state->version);
    buf_char(sql, ',');
    db_put_bytes(store->db, sql, state->event_id.bytes, ID_BYTES);
}

static enum rc store_write_states(void *ctx, const struct vote_state_row *states, size_t count,
                                  struct err *err)
{
    struct producer_mysql *store = ctx;
    size_t at = 0;

    while (at < count) {
        size_t rows = 0;
        enum rc rc;

        buf_reset(&store->sql);
        buf_text_put(&store->sql, "INSERT INTO vote_state "
                                  "(voter_id, content_id, voting, version, event_id) VALUES ");
        for (; at < count && rows < ROWS_MAX; at++) {
            if (!states[at].changed)
                continue;
            buf_text_put(&store->sql, rows++ > 0 ? ",(" : "(");
            put_state(store, &states[at]);
            buf_char(&store->sql, ')');
        }
        if (rows == 0)
            break;
        buf_text_put(&store->sql, " ON DUPLICATE KEY UPDATE voting = VALUES(voting), "
                                  "version = VALUES(version), event_id = VALUES(event_id)");
        rc = run_sql(store, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc store_append(void *ctx, const char *lane, const struct outbox_event *events,
                            size_t count, struct err *err)
{
    struct producer_mysql *store = ctx;

    return outbox_append(store->db, lane, events, count, err);
}

static enum rc on_deleted_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct count_reading *reading = ctx;
    int64_t content_id = db_column_i64(row, 0);

    (void)err;
    while (reading->at < reading->count && reading->counts[reading->at].content_id < content_id)
        reading->at++;
    if (reading->at < reading->count && reading->counts[reading->at].content_id == content_id)
        reading->counts[reading->at].deleted = true;
    return RC_OK;
}

static enum rc store_read_deleted(void *ctx, struct vote_count_row *counts, size_t count,
                                  struct err *err)
{
    struct producer_mysql *store = ctx;
    enum rc rc = RC_OK;

    for (size_t at = 0; rc == RC_OK && at < count; at += ROWS_MAX) {
        struct count_reading reading = {.counts = counts + at,
                                        .count = min_size(count - at, ROWS_MAX)};

        buf_reset(&store->sql);
        buf_text_put(&store->sql, "SELECT content_id FROM deleted_content WHERE content_id IN (");
        put_content_ids(&store->sql, reading.counts, reading.count);
        buf_text_put(&store->sql, ") ORDER BY content_id");
        rc = query_sql(store, on_deleted_row, &reading, err);
    }
    return rc;
}

/* The server counts no affected row if the values are the old ones. */
static enum rc store_mark_closed(void *ctx, int64_t content_id, bool *marked, int64_t *now_ms,
                                 struct err *err)
{
    struct producer_mysql *store = ctx;
    struct lanes lanes = {0};
    uint64_t affected = 0;
    enum rc rc = lanes_lock(store->db, &lanes, err);

    if (rc == RC_OK)
        rc = check_lanes(store, &lanes, err);
    if (rc == RC_OK)
        rc = db_number(store->db, "SELECT CAST(UNIX_TIMESTAMP(UTC_TIMESTAMP(3)) * 1000 AS SIGNED)",
                       now_ms, NULL, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&store->sql);
    buf_text_put(&store->sql, "INSERT INTO deleted_content (content_id, closed_at) VALUES (");
    buf_i64(&store->sql, content_id);
    buf_text_put(&store->sql, ",UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE closed_at = "
                              "COALESCE(deleted_content.closed_at, VALUES(closed_at))");
    rc = db_exec_buf(store->db, &store->sql, &affected, err);
    *marked = affected > 0;
    return rc;
}

/* The rows of a content are a range of the primary key. */
static enum rc store_delete_states(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                                   struct err *err)
{
    struct producer_mysql *store = ctx;
    uint64_t affected = 0;
    enum rc rc;

    buf_reset(&store->sql);
    buf_text_put(&store->sql, "DELETE FROM vote_state WHERE content_id = ");
    buf_i64(&store->sql, content_id);
    buf_print(&store->sql, " ORDER BY voter_id LIMIT %zu", rows_max);
    rc = db_exec_buf(store->db, &store->sql, &affected, err);
    *count = (size_t)affected;
    return rc;
}

static enum rc store_delete_count(void *ctx, int64_t content_id, struct err *err)
{
    struct producer_mysql *store = ctx;

    buf_reset(&store->sql);
    buf_text_put(&store->sql, "DELETE FROM vote_count WHERE content_id = ");
    buf_i64(&store->sql, content_id);
    return run_sql(store, err);
}

static enum rc store_commit(void *ctx, struct err *err)
{
    struct producer_mysql *store = ctx;

    return db_commit(store->db, err);
}

static void store_rollback(void *ctx)
{
    struct producer_mysql *store = ctx;

    db_rollback(store->db);
}

static bool store_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == DB_DEADLOCK || err->code == DB_LOCK_TIMEOUT;
}

/* Totals. */

/* A read of the table that the totals come from. */
static enum rc store_ping_totals(void *ctx, struct err *err)
{
    struct producer_mysql *store = ctx;

    return db_run(store->db, "SELECT votes FROM vote_count WHERE content_id = 0", err);
}

struct totals_reading {
    struct totals_row **rows; /* by voter, then by content */
    size_t count;
};

static int compare_totals(const struct totals_row *a, const struct totals_row *b)
{
    if (a->voter_id != b->voter_id)
        return a->voter_id < b->voter_id ? -1 : 1;
    return (a->content_id > b->content_id) - (a->content_id < b->content_id);
}

static int compare_totals_at(const void *a, const void *b)
{
    return compare_totals(*(struct totals_row *const *)a, *(struct totals_row *const *)b);
}

/* Several rows may ask for the same. */
static enum rc on_total_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct totals_reading *reading = ctx;
    const struct totals_row found = {.voter_id = db_column_i64(row, 0),
                                     .content_id = db_column_i64(row, 1)};
    size_t from = 0;
    size_t to = reading->count;

    (void)err;
    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (compare_totals(reading->rows[middle], &found) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    for (; from < reading->count && compare_totals(reading->rows[from], &found) == 0; from++) {
        reading->rows[from]->votes = db_column_i64(row, 2);
        reading->rows[from]->voting = db_column_i64(row, 3) == 1;
    }
    return RC_OK;
}

/* The totals for one voter, or for none. */
static void put_totals_head(struct buf *sql, int64_t voter_id)
{
    buf_text_put(sql, "SELECT ");
    buf_i64(sql, voter_id);
    if (voter_id > 0) {
        buf_text_put(sql, ", c.content_id, c.votes, s.voting FROM vote_count c "
                          "LEFT JOIN vote_state s ON s.voter_id = ");
        buf_i64(sql, voter_id);
        buf_text_put(sql, " AND s.content_id = c.content_id");
    } else {
        buf_text_put(sql, ", c.content_id, c.votes, 0 FROM vote_count c");
    }
    buf_text_put(sql, " WHERE c.content_id IN (");
}

/* One statement, so that totals and votes belong to the same moment, with a part for each voter. */
static void build_totals_query(struct buf *sql, struct totals_row *const *rows, size_t count)
{
    buf_reset(sql);
    for (size_t i = 0; i < count; i++) {
        const struct totals_row *before = i > 0 ? rows[i - 1] : NULL;

        if (before && compare_totals(before, rows[i]) == 0)
            continue;
        if (before && before->voter_id == rows[i]->voter_id) {
            buf_char(sql, ',');
        } else {
            if (before)
                buf_text_put(sql, ") UNION ALL ");
            put_totals_head(sql, rows[i]->voter_id);
        }
        buf_i64(sql, rows[i]->content_id);
    }
    buf_char(sql, ')');
}

static enum rc store_read_totals(void *ctx, struct totals_row **rows, size_t count, struct err *err)
{
    struct producer_mysql *store = ctx;
    struct totals_reading reading = {.rows = rows, .count = count};

    for (size_t i = 0; i < count; i++) {
        rows[i]->votes = 0;
        rows[i]->voting = 0;
    }
    qsort(rows, count, sizeof(struct totals_row *), compare_totals_at);
    build_totals_query(&store->sql, rows, count);
    return db_query_buf(store->db, &store->sql, on_total_row, &reading, err);
}

/* Tasks. */

/* Reads no table: an installation without the retry queue may lack the privileges on its tables. */
static enum rc store_ping_tasks(void *ctx, struct err *err)
{
    return db_run(((struct producer_mysql *)ctx)->db, "DO 0", err);
}

static enum rc store_task_room(void *ctx, const char *group, const char *scene,
                               const char *const *handlers, size_t handler_count,
                               struct retry_room *room, struct buf *options, struct err *err)
{
    return retry_room(((struct producer_mysql *)ctx)->db, group, scene, handlers, handler_count,
                      room, options, err);
}

struct group_finding {
    struct retry_group *group;
    bool *found;
};

static enum rc on_task_group(void *ctx, const struct retry_group *group, struct err *err)
{
    const struct group_finding *finding = ctx;

    (void)err;
    *finding->group = *group;
    *finding->found = true;
    return RC_OK;
}

static enum rc store_task_group(void *ctx, const char *name, struct retry_group *group, bool *found,
                                struct err *err)
{
    struct group_finding finding = {group, found};

    *found = false;
    return retry_group_each(((struct producer_mysql *)ctx)->db, name, on_task_group, &finding, err);
}

static enum rc store_append_tasks(void *ctx, const struct retry_new_task *tasks, size_t count,
                                  struct retry_ticket *tickets, struct err *err)
{
    struct db *db = ((struct producer_mysql *)ctx)->db;
    enum rc rc = db_begin(db, err);

    if (rc == RC_OK)
        rc = retry_append_once(db, tasks, count, tickets, err);
    if (rc == RC_OK)
        rc = db_commit(db, err);
    if (db_in_transaction(db))
        db_rollback(db);
    return rc;
}

static enum rc store_operate(void *ctx, const struct retry_handlers *handlers,
                             struct retry_operation *operation, struct retry_operated_task *result,
                             struct err *err)
{
    return retry_operate(((struct producer_mysql *)ctx)->db, handlers, operation, result, err);
}

static enum rc store_change(void *ctx, struct retry_change *change, struct retry_changed *result,
                            struct err *err)
{
    return retry_change_make(((struct producer_mysql *)ctx)->db, change, result, err);
}

static enum rc store_find_scenes(void *ctx, const struct retry_scene_filter *filter,
                                 size_t rows_max, retry_on_scene_view on_scene, void *scene_ctx,
                                 struct err *err)
{
    return retry_scenes_find(((struct producer_mysql *)ctx)->db, filter, rows_max, on_scene,
                             scene_ctx, err);
}

static enum rc store_count_scene(void *ctx, const char *group, const char *scene,
                                 struct retry_scene_counts *counts, struct err *err)
{
    return retry_scene_count(((struct producer_mysql *)ctx)->db, group, scene, counts, err);
}

static enum rc store_each_group(void *ctx, const char *name, retry_on_group on_group,
                                void *group_ctx, struct err *err)
{
    return retry_group_each(((struct producer_mysql *)ctx)->db, name, on_group, group_ctx, err);
}

static enum rc store_actions(void *ctx, const struct retry_action_filter *filter, size_t rows_max,
                             enum rc (*on_action)(void *action_ctx,
                                                  const struct retry_action_view *view,
                                                  struct err *err),
                             void *action_ctx, bool *more, int64_t *after, struct err *err)
{
    return retry_actions_find(((struct producer_mysql *)ctx)->db, filter, rows_max, on_action,
                              action_ctx, more, after, err);
}

static enum rc store_find_tasks(void *ctx, bool ended, const struct retry_filter *filter,
                                bool whole, size_t rows_max, retry_on_view on_view, void *view_ctx,
                                struct retry_page *page, struct err *err)
{
    return retry_find(((struct producer_mysql *)ctx)->db, ended, filter, whole, rows_max, on_view,
                      view_ctx, page, err);
}

static enum rc store_task_attempts(void *ctx, int64_t task_id,
                                   enum rc (*on_attempt)(void *attempt_ctx,
                                                         const struct retry_attempt_view *attempt,
                                                         struct err *err),
                                   void *attempt_ctx, struct err *err)
{
    return retry_attempts(((struct producer_mysql *)ctx)->db, task_id, on_attempt, attempt_ctx,
                          err);
}

static enum rc store_clients(void *ctx, const char *group, const char *after, size_t rows_max,
                             enum rc (*on_client)(void *client_ctx,
                                                  const struct retry_client_view *view,
                                                  struct err *err),
                             void *client_ctx, struct err *err)
{
    return retry_client_each(((struct producer_mysql *)ctx)->db, group, after, rows_max, on_client,
                             client_ctx, err);
}

static enum rc store_beat(void *ctx, const struct retry_beat *beat,
                          char config_version[RETRY_CONFIG_VERSION_SIZE], struct err *err)
{
    return retry_client_beat(((struct producer_mysql *)ctx)->db, beat, config_version, err);
}

static enum rc store_config_version(void *ctx, const char *group,
                                    char config_version[RETRY_CONFIG_VERSION_SIZE], bool *found,
                                    struct err *err)
{
    return retry_config_version(((struct producer_mysql *)ctx)->db, group, config_version, found,
                                err);
}

struct scene_listing {
    enum rc (*on_scene)(void *ctx, const char *scene, bool paused, const char *policy,
                        struct err *err);
    void *ctx;
};

static enum rc on_scene_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct scene_listing *listing = ctx;

    return listing->on_scene(listing->ctx, row->columns[0], db_column_i64(row, 1) != 0,
                             row->columns[2], err);
}

static enum rc store_scenes(void *ctx, const char *group,
                            enum rc (*on_scene)(void *scene_ctx, const char *scene, bool paused,
                                                const char *policy, struct err *err),
                            void *scene_ctx, struct err *err)
{
    struct producer_mysql *store = ctx;
    struct scene_listing listing = {on_scene, scene_ctx};

    buf_reset(&store->sql);
    buf_text_put(&store->sql, "SELECT scene, paused, policy FROM retry_scene WHERE task_group = ");
    db_put_text(store->db, &store->sql, group, strlen(group));
    buf_print(&store->sql, " ORDER BY scene LIMIT %d", SCENES_MAX);
    return db_query_buf(store->db, &store->sql, on_scene_row, &listing, err);
}

enum rc producer_mysql_open(struct producer_mysql **out, const struct mysql_settings *settings,
                            int64_t lock_wait_ms, int64_t lane_count, struct err *err)
{
    struct producer_mysql *store = calloc(1, sizeof(*store));
    enum rc rc;

    *out = NULL;
    if (!store)
        return err_fail(err, RC_FATAL, 0, "no memory for a database connection");
    rc = db_open(&store->db, settings, err);
    if (rc != RC_OK) {
        free(store);
        return rc;
    }
    store->lane_count = lane_count;
    store->lock_wait_seconds = (lock_wait_ms + 999) / 1000;
    store->votes = (struct vote_store){
        .ctx = store,
        .ping = store_ping,
        .begin = store_begin,
        .lock_counts = store_lock_counts,
        .make_counts = store_make_counts,
        .read_deleted = store_read_deleted,
        .read_states = store_read_states,
        .write_states = store_write_states,
        .write_counts = store_write_counts,
        .append = store_append,
        .mark_closed = store_mark_closed,
        .delete_states = store_delete_states,
        .delete_count = store_delete_count,
        .commit = store_commit,
        .rollback = store_rollback,
        .collided = store_collided,
    };
    store->totals =
        (struct totals_store){.ctx = store, .ping = store_ping_totals, .read = store_read_totals};
    store->tasks = (struct task_store){
        .ctx = store,
        .ping = store_ping_tasks,
        .room = store_task_room,
        .group = store_task_group,
        .append = store_append_tasks,
        .operate = store_operate,
        .change = store_change,
        .find_scenes = store_find_scenes,
        .count_scene = store_count_scene,
        .each_group = store_each_group,
        .actions = store_actions,
        .clients = store_clients,
        .beat = store_beat,
        .config_version = store_config_version,
        .scenes = store_scenes,
        .find = store_find_tasks,
        .attempts = store_task_attempts,
        .collided = store_collided,
    };
    *out = store;
    return RC_OK;
}

void producer_mysql_close(struct producer_mysql *store)
{
    if (!store)
        return;
    db_close(store->db);
    buf_done(&store->sql);
    free(store);
}

const struct vote_store *producer_mysql_votes(const struct producer_mysql *store)
{
    return &store->votes;
}

const struct totals_store *producer_mysql_totals(const struct producer_mysql *store)
{
    return &store->totals;
}

const struct task_store *producer_mysql_tasks(const struct producer_mysql *store)
{
    return &store->tasks;
}

struct db *producer_mysql_db(const struct producer_mysql *store)
{
    return store->db;
}

void producer_mysql_interrupt(struct producer_mysql *store)
{
    db_interrupt(store->db);
}
