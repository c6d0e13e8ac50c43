/* SPDX-License-Identifier: MIT */
#include "outbox/relay/deleter_mysql.h"

#include "common/log.h"
#include "common/utc.h"
#include "common/utf8.h"
#include "outbox/relay/record.h"
#include "outbox/relay/source_mysql.h"
#include "outbox/retry/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Shortest run of seqs that is deleted as a range: two to three times as fast (measured). */
#define RUN_MIN 200

/* Bounds the wait for a published row that another session locks; the server's default is 50 s. */
#define LOCK_WAIT "SET SESSION innodb_lock_wait_timeout = 2"

/* Rows of one call of move_rows. */
#define MOVES_ROWS_MAX 100

#define SCENE "publish"
#define HANDLER "kafka"
#define ORIGIN "relay"
#define ID_BYTES_MAX 255 /* of an event id that is used as the idempotency key */

/* wait_timeout of the session: when the process freezes between two statements of a move, the
 * server ends the session and releases the lock on the lease row, so that another relay can take
 * the lane. */
#define SILENT_MS_MAX 15000

enum column {
    COLUMN_SEQ,
    COLUMN_ID,
    COLUMN_AGGREGATE_ID,
    COLUMN_TYPE,
    COLUMN_HEADERS,
    COLUMN_CREATED_AT,
    COLUMN_NOW,
};

static void put_sql(struct deleter_mysql *deleter, const char *sql)
{
    buf_text_put(&deleter->sql, sql);
}

static void put_text(struct deleter_mysql *deleter, const char *text)
{
    db_put_text(deleter->db, &deleter->sql, text, strlen(text));
}

static enum rc run_sql(struct deleter_mysql *deleter, struct err *err)
{
    return db_exec_buf(deleter->db, &deleter->sql, NULL, err);
}

static enum rc set_up_session(struct deleter_mysql *deleter, struct err *err)
{
    enum rc rc;

    origin_mysql_renew(deleter->origin, deleter->db, &deleter->term);
    rc = db_connect(deleter->db, err);
    if (rc != RC_OK || deleter->session == db_session(deleter->db))
        return rc;
    rc = db_run(deleter->db, LOCK_WAIT, err);
    if (rc == RC_OK)
        deleter->session = db_session(deleter->db);
    return rc;
}

/* Checks the lease before a deletion, not within it: the servers would lock the lease row there,
 * and the lease could not be renewed meanwhile. A deletion after the lease was lost is harmless,
 * since its rows are in Kafka whichever instance holds the lane; the fence stops a relay that was
 * suspended for long. */
static enum rc check_lease(struct deleter_mysql *deleter, int64_t epoch, bool *fenced,
                           struct err *err)
{
    struct buf *sql = &deleter->sql;
    int64_t now = 0;
    bool found = false;
    enum rc rc;

    buf_reset(sql);
    buf_text_put(sql, "SELECT epoch FROM relay_lease WHERE lane = ");
    db_put_text(deleter->db, sql, deleter->table, strlen(deleter->table));
    buf_text_put(sql, " AND owner = ");
    db_put_text(deleter->db, sql, deleter->owner, strlen(deleter->owner));
    rc = db_number(deleter->db, buf_text(sql), &now, &found, err);
    *fenced = rc == RC_OK && (!found || now != epoch);
    return rc;
}

static bool is_long(const struct seq_range *range)
{
    return range->to - range->from + 1 >= RUN_MIN;
}

/* Deletes the long ranges, each without its last row.
 *
 * Invariant: a deletion never waits for a writer, which may keep its transaction open for hours.
 * Both servers also lock the record behind a range, and that may be an uncommitted row. So the
 * range ends before its last row, which still exists. A statement with one range always reads the
 * primary key; with several ranges or a list of values the server may scan the table and lock its
 * other rows. */
static enum rc delete_runs(struct deleter_mysql *deleter, const struct seq_range *ranges,
                           size_t count, struct err *err)
{
    struct buf *sql = &deleter->sql;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        if (!is_long(&ranges[i]))
            continue;
        buf_reset(sql);
        buf_text_put(sql, "DELETE FROM ");
        db_put_name(sql, deleter->table);
        buf_text_put(sql, " WHERE seq >= ");
        buf_i64(sql, ranges[i].from);
        buf_text_put(sql, " AND seq < ");
        buf_i64(sql, ranges[i].to);
        rc = run_sql(deleter, err);
    }
    return rc;
}

/* Deletes the rows that delete_runs() left: short ranges, and the last row of each long one. */
static enum rc delete_single(struct deleter_mysql *deleter, const struct seq_range *ranges,
                             size_t count, struct err *err)
{
    struct seq_range single[DELETER_RANGES_MAX];

    for (size_t i = 0; i < count; i++) {
        single[i] = ranges[i];
        if (is_long(&ranges[i]))
            single[i].from = ranges[i].to;
    }
    buf_reset(&deleter->sql);
    buf_text_put(&deleter->sql, "DELETE o FROM ");
    source_mysql_put_join(&deleter->sql, deleter->table, single, count);
    return run_sql(deleter, err);
}

static enum rc delete_ranges(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = set_up_session(deleter, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = check_lease(deleter, epoch, fenced, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_runs(deleter, ranges, count, err);
    if (rc == RC_OK && !*fenced)
        rc = delete_single(deleter, ranges, count, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting from %s", deleter->table);
    return rc;
}

static enum rc take_column(void *ctx, const struct db_row *row, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    const char *set = row->columns[1];

    (void)err;
    if (strcmp(row->columns[0], "headers") == 0)
        deleter->has_headers = true;
    else if (strcmp(row->columns[0], "created_at") == 0)
        deleter->has_created_at = true;
    else
        deleter->payload_converted = set && strncmp(set, "utf8", 4) != 0 &&
                                     strcmp(set, "ascii") != 0 && strcmp(set, "binary") != 0;
    return RC_OK;
}

/* Finds out whether the table has the columns headers and created_at, which Debezium's table may
 * lack, and whether the payload has to be converted to utf8mb4. */
static enum rc read_columns(struct deleter_mysql *deleter, struct err *err)
{
    deleter->has_headers = deleter->has_created_at = deleter->payload_converted = false;
    buf_reset(&deleter->sql);
    put_sql(deleter,
            "SELECT LOWER(column_name), LOWER(character_set_name) FROM "
            "information_schema.columns WHERE table_schema = DATABASE() AND table_name = ");
    put_text(deleter, deleter->table);
    put_sql(deleter, " AND column_name IN ('payload', 'headers', 'created_at')");
    return db_query_buf(deleter->db, &deleter->sql, take_column, deleter, err);
}

static enum rc set_up_moves(struct deleter_mysql *deleter, struct err *err)
{
    int64_t silent_ms = deleter->lease_ms / 3;
    enum rc rc;

    if (deleter->moves_session == db_session(deleter->db))
        return RC_OK;
    if (silent_ms > SILENT_MS_MAX)
        silent_ms = SILENT_MS_MAX;
    buf_reset(&deleter->sql);
    buf_print(&deleter->sql, "SET SESSION wait_timeout = %" PRId64,
              silent_ms >= 1000 ? silent_ms / 1000 : 1);
    rc = run_sql(deleter, err);
    if (rc == RC_OK)
        rc = read_columns(deleter, err);
    if (rc == RC_OK)
        deleter->moves_session = db_session(deleter->db);
    return rc;
}

struct move_batch {
    struct deleter_mysql *deleter;
    const struct relay_move *moves;
    size_t count;
};

static struct bytes bytes_of(const struct db_row *row, enum column column)
{
    return (struct bytes){row->columns[column], row->columns[column] ? row->lengths[column] : 0};
}

static const struct relay_move *move_of(const struct move_batch *batch, int64_t seq)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->moves[i].seq == seq)
            return &batch->moves[i];
    return NULL;
}

static bool is_valid_key(struct bytes id)
{
    return id.len > 0 && id.len <= ID_BYTES_MAX && utf8_fits(id.data, id.len) &&
           !memchr(id.data, '\0', id.len);
}

/* again: an active task already has this event id, although ids should be unique. The key is then
 * made from table, seq and a UUID. */
static void put_idempotency_key(struct deleter_mysql *deleter, int64_t seq, struct bytes id,
                                bool again)
{
    if (!again && is_valid_key(id)) {
        db_put_text(deleter->db, &deleter->sql, id.data, id.len);
        return;
    }
    put_sql(deleter, "CONCAT(");
    put_text(deleter, deleter->table);
    buf_print(&deleter->sql, ", '/%" PRId64, seq);
    put_sql(deleter, again ? "/', UUID())" : "')");
}

static enum rc insert_task(struct deleter_mysql *deleter, const struct relay_move *move,
                           struct bytes id, struct bytes options, bool again, struct err *err)
{
    char reason[MOVE_REASON_SIZE];

    snprintf(reason, sizeof(reason), "%s", move->reason);
    utf8_clean(reason);
    buf_reset(&deleter->sql);
    put_sql(deleter, "INSERT INTO retry_task (task_group, scene, handler, ordering_key, "
                     "idempotency_key, options, params, origin, reason_class, reason) SELECT ");
    put_text(deleter, deleter->table);
    put_sql(deleter, ", '" SCENE "', '" HANDLER "', ");
    put_text(deleter, move->ordering_key);
    put_sql(deleter, ", ");
    put_idempotency_key(deleter, move->seq, id, again);
    put_sql(deleter, ", ");
    db_put_text(deleter->db, &deleter->sql, options.data, options.len);
    put_sql(deleter,
            deleter->payload_converted ? ", CONVERT(payload USING utf8mb4), " : ", payload, ");
    put_sql(deleter, "'" ORIGIN "', ");
    put_sql(deleter, reason[0] ? "'refused', " : "'', ");
    put_text(deleter, reason);
    put_sql(deleter, " FROM ");
    db_put_name(&deleter->sql, deleter->table);
    buf_print(&deleter->sql, " WHERE seq = %" PRId64, move->seq);
    return run_sql(deleter, err);
}

/* Called with rows in the order of seq: tasks of one key are inserted in that order. */
static enum rc move_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct move_batch *batch = ctx;
    struct deleter_mysql *deleter = batch->deleter;
    const struct relay_move *move = move_of(batch, db_column_i64(row, COLUMN_SEQ));
    const struct relay_row known = {
        .seq = db_column_i64(row, COLUMN_SEQ),
        .created_ms =
            utc_parse_ms(row->columns[COLUMN_CREATED_AT], row->lengths[COLUMN_CREATED_AT]),
        .read_ms = utc_parse_ms(row->columns[COLUMN_NOW], row->lengths[COLUMN_NOW]),
        .id = bytes_of(row, COLUMN_ID),
        .aggregate_id = bytes_of(row, COLUMN_AGGREGATE_ID),
        .type = bytes_of(row, COLUMN_TYPE),
        .headers = bytes_of(row, COLUMN_HEADERS),
    };
    struct err own = {0};
    struct bytes options;
    enum rc rc;

    if (!move)
        return RC_OK;
    buf_reset(&deleter->options);
    rc = record_put_options(&deleter->options, &known, move->topic, deleter->table, deleter->source,
                            err);
    if (rc == RC_OK && deleter->options.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for the options of a task");
    if (rc != RC_OK)
        return rc;
    options = (struct bytes){deleter->options.data, deleter->options.len};
    rc = insert_task(deleter, move, known.id, options, false, &own);
    if (rc == RC_REJECT && own.code == DB_DUPLICATE)
        return insert_task(deleter, move, known.id, options, true, err);
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}

static void put_rows(struct deleter_mysql *deleter, const struct relay_move *moves, size_t count)
{
    struct seq_range rows[MOVES_ROWS_MAX];

    for (size_t i = 0; i < count; i++)
        rows[i] = (struct seq_range){moves[i].seq, moves[i].seq};
    source_mysql_put_join(&deleter->sql, deleter->table, rows, count);
}

static enum rc move_rows(struct deleter_mysql *deleter, const struct relay_move *moves,
                         size_t count, struct err *err)
{
    struct move_batch batch = {.deleter = deleter, .moves = moves, .count = count};
    enum rc rc;

    buf_reset(&deleter->sql);
    put_sql(deleter, "SELECT o.seq, o.id, o.aggregateid, o.type, ");
    put_sql(deleter, deleter->has_headers ? "o.headers, " : "NULL, ");
    put_sql(deleter, deleter->has_created_at ? "o.created_at, " : "NULL, ");
    put_sql(deleter, "UTC_TIMESTAMP(3) FROM ");
    put_rows(deleter, moves, count);
    put_sql(deleter, " ORDER BY o.seq");
    put_sql(deleter, db_server_kind(deleter->db) == DB_MYSQL ? " FOR UPDATE OF o" : " FOR UPDATE");
    rc = db_query_buf(deleter->db, &deleter->sql, move_row, &batch, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&deleter->sql);
    put_sql(deleter, "DELETE o FROM ");
    put_rows(deleter, moves, count);
    return run_sql(deleter, err);
}

/* Locks the lease row until the COMMIT, so that no other instance takes the lane before it. Called
 * last, so that the lease can be renewed during the preceding statements. */
static enum rc lock_lease(struct deleter_mysql *deleter, int64_t epoch, bool *fenced,
                          struct err *err)
{
    int64_t now = 0;
    bool found = false;
    enum rc rc;

    buf_reset(&deleter->sql);
    put_sql(deleter, "SELECT epoch FROM relay_lease WHERE lane = ");
    put_text(deleter, deleter->table);
    put_sql(deleter, " AND owner = ");
    put_text(deleter, deleter->owner);
    put_sql(deleter, " FOR UPDATE");
    rc = db_number(deleter->db, buf_text(&deleter->sql), &now, &found, err);
    *fenced = rc == RC_OK && (!found || now != epoch);
    return rc;
}

static enum rc make_tasks(struct deleter_mysql *deleter, const struct relay_move *moves,
                          size_t count, int64_t epoch, bool *fenced, struct err *err)
{
    enum rc rc = set_up_moves(deleter, err);

    *fenced = false;
    if (count > MOVES_ROWS_MAX)
        return err_fail(err, RC_FATAL, 0, "at most %d rows can be moved at once", MOVES_ROWS_MAX);
    if (rc == RC_OK)
        rc = db_begin(deleter->db, err);
    if (rc != RC_OK)
        return rc;
    rc = move_rows(deleter, moves, count, err);
    if (rc == RC_OK)
        rc = lock_lease(deleter, epoch, fenced, err);
    if (rc == RC_OK && !*fenced)
        return db_commit(deleter->db, err);
    db_rollback(deleter->db);
    return rc;
}

static enum rc move_into_retry(void *ctx, const struct relay_move *moves, size_t count,
                               int64_t epoch, bool *fenced, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = set_up_session(deleter, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = make_tasks(deleter, moves, count, epoch, fenced, err);
    if (rc != RC_OK)
        err_wrap(err, "moving rows of %s into the retry queue", deleter->table);
    return rc;
}

/* Makes sure that the lane's retry group, which has the name of its table, exists; called for each
 * term of the lease. Tasks of the relay are identified by their origin, so rows are moved even when
 * another owner has a group of this name. */
static enum rc ensure_group(struct deleter_mysql *deleter, struct err *err)
{
    enum retry_owner owner;
    enum rc rc = retry_group_own(deleter->db, deleter->table, OWNER_RELAY, &owner, err);

    if (rc == RC_OK && owner != OWNER_RELAY)
        log_event(
            LOG_WARN, "group_name_taken",
            "lane=%s owner=%s text=\"the retry group with the name of this lane's table does not "
            "belong to the relay: rename the application's group\"",
            deleter->lane, retry_owner_name(owner));
    return rc;
}

struct keys {
    deleter_on_key on_key;
    void *ctx;
};

static enum rc pass_key(void *ctx, const struct db_row *row, struct err *err)
{
    const struct keys *keys = ctx;

    return row->columns[0] ? keys->on_key(keys->ctx, row->columns[0], err) : RC_OK;
}

/* Finds the lane's tasks by their class. It reads no other tasks, for example those that a client
 * submitted in the same group. */
static enum rc select_keys(struct deleter_mysql *deleter, size_t keys_max, deleter_on_key on_key,
                           void *on_key_ctx, struct err *err)
{
    struct keys keys = {on_key, on_key_ctx};
    struct buf class = {0};
    enum rc rc = ensure_group(deleter, err);

    if (rc != RC_OK)
        return rc;
    buf_put(&class, HANDLER, sizeof(HANDLER));
    buf_text_put(&class, deleter->table);
    buf_put(&class, "\0" SCENE "\0" ORIGIN, sizeof(SCENE "\0" ORIGIN));
    buf_reset(&deleter->sql);
    for (int state = 0; state <= 4; state++) {
        put_sql(deleter, state > 0 ? " UNION " : "");
        buf_print(&deleter->sql,
                  "SELECT ordering_key FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE "
                  "state = %d AND class >= CONCAT(",
                  state);
        db_put_bytes(deleter->db, &deleter->sql, class.data, class.len);
        put_sql(deleter, ", 0x00) AND class < CONCAT(");
        db_put_bytes(deleter->db, &deleter->sql, class.data, class.len);
        put_sql(deleter, ", 0x01)");
    }
    buf_print(&deleter->sql, " LIMIT %zu", keys_max);
    deleter->sql.failed |= class.failed;
    buf_done(&class);
    return db_query_buf(deleter->db, &deleter->sql, pass_key, &keys, err);
}

static enum rc load_keys(void *ctx, size_t keys_max, deleter_on_key on_key, void *on_key_ctx,
                         struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = set_up_session(deleter, err);

    if (rc == RC_OK)
        rc = select_keys(deleter, keys_max, on_key, on_key_ctx, err);
    if (rc != RC_OK)
        err_wrap(err, "reading which keys of %s are in the retry queue", deleter->table);
    return rc;
}

static enum rc mark_key_left(void *ctx, const struct db_row *row, struct err *err)
{
    struct lane_key *keys = ctx;

    (void)err;
    keys[db_column_u64(row, 0)].left = true;
    return RC_OK;
}

/* One index lookup for each key. */
static enum rc select_keys_left(struct deleter_mysql *deleter, struct lane_key *keys, size_t count,
                                struct err *err)
{
    buf_reset(&deleter->sql);
    for (size_t i = 0; i < count; i++) {
        keys[i].left = false;
        put_sql(deleter, i > 0 ? " UNION ALL " : "");
        buf_print(&deleter->sql,
                  "(SELECT %zu FROM retry_task FORCE INDEX (ix_retry_task_order) WHERE order_hash "
                  "= UNHEX(SHA2(CONCAT('" ORIGIN "', 0x00, ",
                  i);
        put_text(deleter, deleter->table);
        put_sql(deleter, ", 0x00, ");
        put_text(deleter, keys[i].ordering_key);
        put_sql(deleter, "), 256)) LIMIT 1)");
    }
    return db_query_buf(deleter->db, &deleter->sql, mark_key_left, keys, err);
}

static enum rc read_keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    struct deleter_mysql *deleter = ctx;
    enum rc rc = set_up_session(deleter, err);

    if (rc == RC_OK)
        rc = select_keys_left(deleter, keys, count, err);
    if (rc != RC_OK)
        err_wrap(err, "reading which keys of %s are in the retry queue", deleter->table);
    return rc;
}

enum rc deleter_mysql_open(struct deleter_mysql *deleter, const struct lane_settings *lane,
                           const char *owner, struct origin_mysql *origin,
                           const struct settings *settings, struct err *err)
{
    enum rc rc;

    memset(deleter, 0, sizeof(*deleter));
    deleter->lane = lane->name;
    deleter->table = lane->table;
    deleter->owner = owner;
    deleter->origin = origin;
    deleter->source = settings->relay.ce_source;
    deleter->lease_ms = settings->relay.lease_ms;
    rc = db_open(&deleter->db, &settings->mysql, err);
    if (rc == RC_OK)
        origin_mysql_guard(origin, deleter->db);
    return rc;
}

void deleter_mysql_close(struct deleter_mysql *deleter)
{
    db_close(deleter->db);
    deleter->db = NULL;
    buf_done(&deleter->sql);
    buf_done(&deleter->options);
}

struct deleter_ops deleter_mysql_ops(struct deleter_mysql *deleter)
{
    return (struct deleter_ops){
        .ctx = deleter,
        .delete_ranges = delete_ranges,
        .move_rows = move_into_retry,
        .load_keys = load_keys,
        .keys_left = read_keys_left,
    };
}
