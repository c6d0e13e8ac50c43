/* SPDX-License-Identifier: MIT */
#include "outbox/relay/diverter_mysql.h"

#include "common/config/lane_texts.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/text.h"
#include "common/utc.h"
#include "outbox/lease/lease_mysql.h"
#include "outbox/relay/row_record.h"
#include "outbox/relay/source_mysql.h"
#include "outbox/retry/retry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rows of one call of move_rows. */
#define MOVES_ROWS_MAX 100

#define SCENE "publish"
#define HANDLER "kafka"
#define ORIGIN "relay"
#define ID_BYTES_MAX 255 /* of an event id that is used as the idempotency key */
#define SUFFIX_SIZE 64   /* of three numbers behind it */

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

static void put_sql(struct diverter_mysql *diverter, const char *sql)
{
    buf_text_put(&diverter->sql, sql);
}

static void put_text(struct diverter_mysql *diverter, const char *text)
{
    db_put_text(diverter->db, &diverter->sql, text, strlen(text));
}

static enum rc run_sql(struct diverter_mysql *diverter, struct err *err)
{
    return db_exec_buf(diverter->db, &diverter->sql, NULL, err);
}

static enum rc take_column(void *ctx, const struct db_row *row, struct err *err)
{
    struct diverter_mysql *diverter = ctx;
    const char *set = row->columns[1];
    bool is_utf8 = set && (strncmp(set, "utf8", 4) == 0 || strcmp(set, "ascii") == 0);

    (void)err;
    if (strcmp(row->columns[0], "headers") == 0)
        diverter->has_headers = true;
    else if (strcmp(row->columns[0], "created_at") == 0)
        diverter->has_created_at = true;
    else if (strcmp(row->columns[0], "payload") == 0)
        diverter->payload_converted = set && !is_utf8 && strcmp(set, "binary") != 0;
    else
        diverter->id_as_bytes = is_utf8;
    if (strcmp(row->columns[0], "id") == 0)
        diverter->id_padded = strcmp(row->columns[2], "char") == 0;
    return RC_OK;
}

/* Finds out whether the table has the columns headers and created_at, which Debezium's table may
 * lack, whether the payload has to be converted to utf8mb4, and how the id is stored. */
static enum rc read_columns(struct diverter_mysql *diverter, struct err *err)
{
    diverter->has_headers = diverter->has_created_at = diverter->payload_converted = false;
    buf_reset(&diverter->sql);
    put_sql(diverter,
            "SELECT LOWER(column_name), LOWER(character_set_name), LOWER(data_type) FROM "
            "information_schema.columns WHERE table_schema = DATABASE() AND table_name = ");
    put_text(diverter, diverter->table);
    put_sql(diverter, " AND column_name IN ('id', 'payload', 'headers', 'created_at')");
    return db_query_buf(diverter->db, &diverter->sql, take_column, diverter, err);
}

static enum rc set_up_moves(struct diverter_mysql *diverter, struct err *err)
{
    int64_t silent_ms = diverter->lease_ms / 3;
    enum rc rc;

    if (diverter->session == db_session(diverter->db))
        return RC_OK;
    if (silent_ms > SILENT_MS_MAX)
        silent_ms = SILENT_MS_MAX;
    buf_reset(&diverter->sql);
    buf_print(&diverter->sql, "SET SESSION wait_timeout = %" PRId64,
              silent_ms >= 1000 ? silent_ms / 1000 : 1);
    rc = run_sql(diverter, err);
    if (rc == RC_OK)
        rc = read_columns(diverter, err);
    if (rc == RC_OK)
        diverter->session = db_session(diverter->db);
    return rc;
}

struct move_batch {
    struct diverter_mysql *diverter;
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
static void put_idempotency_key(struct diverter_mysql *diverter, int64_t seq, struct bytes id,
                                bool again)
{
    if (!again && is_valid_key(id)) {
        db_put_text(diverter->db, &diverter->sql, id.data, id.len);
        return;
    }
    put_sql(diverter, "CONCAT(");
    put_text(diverter, diverter->table);
    buf_print(&diverter->sql, ", '/%" PRId64, seq);
    put_sql(diverter, again ? "/', UUID())" : "')");
}

/* The columns before the idempotency key. */
static void put_task_begin(struct diverter_mysql *diverter, const struct relay_move *move)
{
    buf_reset(&diverter->sql);
    put_sql(diverter, "INSERT INTO retry_task (task_group, scene, handler, ordering_key, "
                      "idempotency_key, options, params, origin, reason_class, reason) SELECT ");
    put_text(diverter, diverter->table);
    put_sql(diverter, ", '" SCENE "', '" HANDLER "', ");
    put_text(diverter, move->ordering_key);
    put_sql(diverter, ", ");
}

/* The options, which are the last ones that were made. */
static void put_options(struct diverter_mysql *diverter)
{
    put_sql(diverter, ", ");
    db_put_text(diverter->db, &diverter->sql, diverter->options.data, diverter->options.len);
    put_sql(diverter, ", ");
}

/* The columns behind params. */
static void put_task_end(struct diverter_mysql *diverter, const struct relay_move *move)
{
    char reason[MOVE_REASON_SIZE];

    snprintf(reason, sizeof(reason), "%s", move->reason);
    utf8_clean(reason);
    put_sql(diverter, ", '" ORIGIN "', ");
    put_sql(diverter, reason[0] ? "'refused', " : "'', ");
    put_text(diverter, reason);
}

/* move: NULL unless the lane publishes exactly once. */
static enum rc make_options(struct diverter_mysql *diverter, const struct relay_row *row,
                            const char *topic, const struct row_move *move, struct err *err)
{
    enum rc rc;

    buf_reset(&diverter->options);
    rc = row_record_put_options(&diverter->options, row, topic, diverter->table, diverter->source,
                                move, err);
    if (rc == RC_OK && diverter->options.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for the options of a task");
    return rc;
}

static enum rc insert_task(struct diverter_mysql *diverter, const struct relay_move *move,
                           struct bytes id, bool again, struct err *err)
{
    put_task_begin(diverter, move);
    put_idempotency_key(diverter, move->seq, id, again);
    put_options(diverter);
    put_sql(diverter, diverter->payload_converted ? "CONVERT(payload USING utf8mb4)" : "payload");
    put_task_end(diverter, move);
    put_sql(diverter, " FROM ");
    db_put_name(&diverter->sql, diverter->table);
    buf_print(&diverter->sql, " WHERE seq = %" PRId64, move->seq);
    return run_sql(diverter, err);
}

/* Called with rows in the order of seq: tasks of one key are inserted in that order. */
static enum rc move_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct move_batch *batch = ctx;
    struct diverter_mysql *diverter = batch->diverter;
    const struct relay_move *move = move_of(batch, db_column_i64(row, COLUMN_SEQ));
    const struct relay_row known = {
        .seq = db_column_i64(row, COLUMN_SEQ),
        .table_seq = db_column_i64(row, COLUMN_SEQ),
        .created_ms =
            utc_parse_ms(row->columns[COLUMN_CREATED_AT], row->lengths[COLUMN_CREATED_AT]),
        .read_ms = utc_parse_ms(row->columns[COLUMN_NOW], row->lengths[COLUMN_NOW]),
        .id = bytes_of(row, COLUMN_ID),
        .id_padded = diverter->id_padded,
        .aggregate_id = bytes_of(row, COLUMN_AGGREGATE_ID),
        .type = bytes_of(row, COLUMN_TYPE),
        .headers = bytes_of(row, COLUMN_HEADERS),
        .headers_size = bytes_of(row, COLUMN_HEADERS).len,
    };
    char uuid[ID_TEXT_SIZE];
    struct bytes id = relay_row_id(&known, uuid);
    struct err own = {0};
    enum rc rc;

    if (!move)
        return RC_OK;
    rc = make_options(diverter, &known, move->topic, NULL, err);
    if (rc != RC_OK)
        return rc;
    rc = insert_task(diverter, move, id, false, &own);
    if (rc == RC_REJECT && own.code == DB_DUPLICATE)
        return insert_task(diverter, move, id, true, err);
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}

static void put_rows(struct diverter_mysql *diverter, const struct relay_move *moves, size_t count)
{
    struct seq_range rows[MOVES_ROWS_MAX];

    for (size_t i = 0; i < count; i++)
        rows[i] = (struct seq_range){moves[i].seq, moves[i].seq};
    source_mysql_put_join(&diverter->sql, diverter->table, rows, count);
}

static enum rc move_rows(struct diverter_mysql *diverter, const struct relay_move *moves,
                         size_t count, struct err *err)
{
    struct move_batch batch = {.diverter = diverter, .moves = moves, .count = count};
    enum rc rc;

    buf_reset(&diverter->sql);
    put_sql(diverter, diverter->id_as_bytes ? "SELECT o.seq, CAST(o.id AS BINARY), "
                                            : "SELECT o.seq, o.id, ");
    put_sql(diverter, "o.aggregateid, o.type, ");
    put_sql(diverter, diverter->has_headers ? "o.headers, " : "NULL, ");
    put_sql(diverter, diverter->has_created_at ? "o.created_at, " : "NULL, ");
    put_sql(diverter, "UTC_TIMESTAMP(3) FROM ");
    put_rows(diverter, moves, count);
    put_sql(diverter, " ORDER BY o.seq");
    put_sql(diverter,
            db_server_kind(diverter->db) == DB_MYSQL ? " FOR UPDATE OF o" : " FOR UPDATE");
    rc = db_query_buf(diverter->db, &diverter->sql, move_row, &batch, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&diverter->sql);
    put_sql(diverter, "DELETE o FROM ");
    put_rows(diverter, moves, count);
    return run_sql(diverter, err);
}

/* What the idempotency key of a task is made of, in the order in which they are tried. The row's
 * place in the stream is in none of them, because it is different when the row is read again. In a
 * lane that publishes exactly once the first two have the move behind them: a move that is repeated
 * finds its task, and a row that is read again does not find the task of its earlier move, which is
 * not published. */
enum key_form { KEY_ID, KEY_HASH, KEY_UUID };

/* A row of the table has no move after a commit (stream/backfill.h). */
static bool is_exact(const struct diverter_mysql *diverter, const struct relay_move *move)
{
    return diverter->lane_key[0] && move->term > 0;
}

/* Writes what stands behind an idempotency key of this move: nothing, or what names the move. The
 * numbers of rows begin anew with a take-over only, and that is a commit. */
static void put_suffix(char suffix[SUFFIX_SIZE], const struct diverter_mysql *diverter,
                       const struct relay_move *move)
{
    suffix[0] = '\0';
    if (is_exact(diverter, move))
        snprintf(suffix, SUFFIX_SIZE, "/%" PRId64 ".%" PRIu64 ".%" PRId64, diverter->epoch,
                 move->term, move->seq);
}

/* Whether an idempotency key of this form can be made. */
static bool is_usable(struct bytes id, const char *suffix, enum key_form form)
{
    switch (form) {
    case KEY_ID:
        return is_valid_key(id) && id.len + strlen(suffix) <= ID_BYTES_MAX;
    case KEY_HASH:
        return id.len > 0 || suffix[0];
    case KEY_UUID:
        return true;
    }
    return true;
}

static uint64_t hash_value(uint64_t hash, struct bytes bytes)
{
    const uint64_t len = bytes.data ? bytes.len : UINT64_MAX;

    hash = hash_fnv1a(hash, &len, sizeof(len));
    return bytes.len > 0 ? hash_fnv1a(hash, bytes.data, bytes.len) : hash;
}

static void put_copy_key(struct diverter_mysql *diverter, const struct relay_move *move,
                         struct bytes id, enum key_form form)
{
    const struct bytes key = {move->ordering_key, strlen(move->ordering_key)};
    uint64_t hash = hash_value(hash_value(HASH_START, key), move->row->id);
    char suffix[SUFFIX_SIZE];
    char text[ID_BYTES_MAX + 1];

    put_suffix(suffix, diverter, move);
    switch (form) {
    case KEY_ID:
        snprintf(text, sizeof(text), "%.*s%s", (int)id.len, id.data, suffix);
        put_text(diverter, text);
        break;
    case KEY_HASH:
        snprintf(text, sizeof(text), "%s/hash:%016" PRIx64 "%s", diverter->table,
                 hash_value(hash, move->row->payload), suffix);
        put_text(diverter, text);
        break;
    case KEY_UUID:
        put_sql(diverter, "CONCAT(");
        put_text(diverter, diverter->table);
        put_sql(diverter, ", '/', UUID())");
        break;
    }
}

/* The payload that was left out is copied from the table. */
static void put_payload(struct diverter_mysql *diverter, const struct relay_row *row)
{
    if (!row->cut) {
        db_put_bytes(diverter->db, &diverter->sql, row->payload.data, row->payload.len);
        return;
    }
    put_sql(diverter, diverter->payload_converted ? "(SELECT CONVERT(payload USING utf8mb4) FROM "
                                                  : "(SELECT payload FROM ");
    db_put_name(&diverter->sql, diverter->table);
    buf_print(&diverter->sql, " WHERE seq = %" PRId64 ")", row->table_seq);
}

static enum rc insert_copy(struct diverter_mysql *diverter, const struct relay_move *move,
                           struct bytes id, enum key_form form, struct err *err)
{
    put_task_begin(diverter, move);
    put_copy_key(diverter, move, id, form);
    put_options(diverter);
    put_payload(diverter, move->row);
    put_task_end(diverter, move);
    return run_sql(diverter, err);
}

static enum rc take_same(void *ctx, const struct db_row *row, struct err *err)
{
    bool *same = ctx;

    (void)err;
    *same = db_column_i64(row, 0) == 1;
    return RC_OK;
}

/* Sets *same: whether the active task with this idempotency key has the same event. The keys are
 * compared as bytes, because blanks at their end do not differ in the column's collation. */
static enum rc compare_task(struct diverter_mysql *diverter, const struct relay_move *move,
                            struct bytes id, enum key_form form, bool *same, struct err *err)
{
    *same = false;
    buf_reset(&diverter->sql);
    put_sql(diverter, "SELECT CAST(ordering_key AS BINARY) <=> ");
    db_put_bytes(diverter->db, &diverter->sql, move->ordering_key, strlen(move->ordering_key));
    put_sql(diverter, " AND params <=> ");
    put_payload(diverter, move->row);
    put_sql(diverter, " FROM retry_task FORCE INDEX (uq_retry_task_active) WHERE active_hash = "
                      "UNHEX(SHA2(CONCAT('" ORIGIN "', 0x00, ");
    put_text(diverter, diverter->table);
    put_sql(diverter, ", 0x00, '" SCENE "', 0x00, 0x01, ");
    put_copy_key(diverter, move, id, form);
    put_sql(diverter, "), 256))");
    return db_query_buf(diverter->db, &diverter->sql, take_same, same, err);
}

/* A move is repeated when the answer to its COMMIT was lost, and when the next relay reads the
 * stream again from the position that was saved. The task of the first move then has the same
 * idempotency key, ordering key and bytes, and the row is skipped. A row without an id cannot be
 * recognised: it gets one more task, because the other one may be of another event. In a lane that
 * publishes exactly once the task of a move that the position never passed is not published, so a
 * row that is read again gets a task of its own. */
static enum rc move_copy(struct diverter_mysql *diverter, const struct relay_move *move,
                         int64_t now_ms, struct err *err)
{
    const struct row_move of = {diverter->lane_key, diverter->epoch, move->term,
                                (uint64_t)move->seq};
    struct relay_row row = *move->row;
    char uuid[ID_TEXT_SIZE];
    struct bytes id = relay_row_id(&row, uuid);
    char suffix[SUFFIX_SIZE];
    bool same = false;
    enum rc rc;

    put_suffix(suffix, diverter, move);
    row.read_ms = now_ms;
    rc = make_options(diverter, &row, move->topic, is_exact(diverter, move) ? &of : NULL, err);
    for (int form = KEY_ID; rc == RC_OK && !same; form++) {
        struct err own = {0};

        if (!is_usable(id, suffix, (enum key_form)form))
            continue;
        rc = insert_copy(diverter, move, id, (enum key_form)form, &own);
        if (rc == RC_OK)
            return rc;
        if (rc != RC_REJECT || own.code != DB_DUPLICATE || form == KEY_UUID) {
            if (err)
                *err = own;
            return rc;
        }
        rc = compare_task(diverter, move, id, (enum key_form)form, &same, err);
    }
    return rc;
}

/* A task without the row's payload would lose it. If the table does not have the row any more, the
 * lane waits until an operator has acted; with larger batches the row is read whole again. */
static enum rc check_copy(struct diverter_mysql *diverter, const struct relay_move *move,
                          struct err *err)
{
    const struct relay_row *row = move->row;
    int64_t one = 0;
    bool found = false;
    enum rc rc = RC_OK;

    if (!row->cut)
        return RC_OK;
    buf_reset(&diverter->sql);
    put_sql(diverter, "SELECT 1 FROM ");
    db_put_name(&diverter->sql, diverter->table);
    buf_print(&diverter->sql, " WHERE seq = %" PRId64 " LOCK IN SHARE MODE", row->table_seq);
    if (row->table_seq > 0 && !diverter->payload_renamed)
        rc = db_number(diverter->db, buf_text(&diverter->sql), &one, &found, err);
    if (rc != RC_OK || found)
        return rc;
    return err_fail(err, RC_FATAL, 0,
                    "an event of %" PRIu64 " bytes with the key %.100s cannot be sent and is too "
                    "large to be kept (relay.read_bytes_max), and its row is not in the table any "
                    "more: set relay.read_bytes_max above its size",
                    row->size, move->ordering_key);
}

/* Moves rows of a stream lane. Deletes nothing, and reads from the table only a payload that was
 * left out: it may have these rows or not. */
static enum rc move_copies(struct diverter_mysql *diverter, const struct relay_move *moves,
                           size_t count, struct err *err)
{
    int64_t now_ms = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = check_copy(diverter, &moves[i], err);
    if (rc == RC_OK)
        rc = db_read_clock(diverter->db, &now_ms, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = move_copy(diverter, &moves[i], now_ms, err);
    return rc;
}

static enum rc make_tasks(struct diverter_mysql *diverter, const struct relay_move *moves,
                          size_t count, int64_t epoch, bool *fenced, struct err *err)
{
    enum rc rc = set_up_moves(diverter, err);

    *fenced = false;
    diverter->epoch = epoch;
    if (count > MOVES_ROWS_MAX)
        return err_fail(err, RC_FATAL, 0, "at most %d rows can be moved at once", MOVES_ROWS_MAX);
    if (rc == RC_OK)
        rc = db_begin(diverter->db, err);
    if (rc != RC_OK)
        return rc;
    rc = count > 0 && moves[0].row ? move_copies(diverter, moves, count, err)
                                   : move_rows(diverter, moves, count, err);
    if (rc == RC_OK)
        /* Last, so that the lease can be renewed during the preceding statements. */
        rc = lease_mysql_check(diverter->db, &diverter->sql, diverter->table, diverter->owner,
                               epoch, true, fenced, err);
    if (rc == RC_OK && !*fenced)
        return db_commit(diverter->db, err);
    db_rollback(diverter->db);
    return rc;
}

static enum rc move_into_retry(void *ctx, const struct relay_move *moves, size_t count,
                               int64_t epoch, bool *fenced, struct err *err)
{
    struct diverter_mysql *diverter = ctx;
    enum rc rc = deleter_mysql_connect(diverter->deleter, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = make_tasks(diverter, moves, count, epoch, fenced, err);
    if (rc != RC_OK)
        err_wrap(err, "moving rows of %s into the retry queue", diverter->table);
    return rc;
}

/* Makes sure that the lane's retry group, which has the name of its table, exists; called for each
 * term of the lease. Tasks of the relay are identified by their origin, so rows are moved even when
 * another owner has a group of this name. */
static enum rc ensure_group(struct diverter_mysql *diverter, struct err *err)
{
    enum retry_owner owner;
    enum rc rc = retry_group_own(diverter->db, diverter->table, OWNER_RELAY, &owner, err);

    if (rc == RC_OK && owner != OWNER_RELAY)
        log_event(
            LOG_WARN, "group_name_taken",
            "lane=%s owner=%s text=\"the retry group with the name of this lane's table does not "
            "belong to the relay: rename the application's group\"",
            diverter->lane, retry_owner_name(owner));
    return rc;
}

struct keys {
    diverter_on_key on_key;
    void *ctx;
};

static enum rc pass_key(void *ctx, const struct db_row *row, struct err *err)
{
    const struct keys *keys = ctx;

    return row->columns[0] ? keys->on_key(keys->ctx, row->columns[0], err) : RC_OK;
}

/* Finds the lane's tasks by their class. Invariant R8: UNION compares the bytes, because keys that
 * differ in blanks at their end are equal in the column's collation. It reads no other tasks, for
 * example those that a client submitted in the same group. */
static enum rc select_keys(struct diverter_mysql *diverter, size_t keys_max, diverter_on_key on_key,
                           void *on_key_ctx, struct err *err)
{
    struct keys keys = {on_key, on_key_ctx};
    struct buf class = {0};
    enum rc rc = ensure_group(diverter, err);

    if (rc != RC_OK)
        return rc;
    buf_put(&class, HANDLER, sizeof(HANDLER));
    buf_text_put(&class, diverter->table);
    buf_put(&class, "\0" SCENE "\0" ORIGIN, sizeof(SCENE "\0" ORIGIN));
    buf_reset(&diverter->sql);
    for (int state = 0; state <= 4; state++) {
        put_sql(diverter, state > 0 ? " UNION " : "");
        buf_print(&diverter->sql,
                  "SELECT CAST(ordering_key AS BINARY) FROM retry_task FORCE INDEX "
                  "(ix_retry_task_due) WHERE "
                  "state = %d AND class >= CONCAT(",
                  state);
        db_put_bytes(diverter->db, &diverter->sql, class.data, class.len);
        put_sql(diverter, ", 0x00) AND class < CONCAT(");
        db_put_bytes(diverter->db, &diverter->sql, class.data, class.len);
        put_sql(diverter, ", 0x01)");
    }
    buf_print(&diverter->sql, " LIMIT %zu", keys_max);
    diverter->sql.failed |= class.failed;
    buf_done(&class);
    return db_query_buf(diverter->db, &diverter->sql, pass_key, &keys, err);
}

static enum rc load_keys(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err)
{
    struct diverter_mysql *diverter = ctx;
    enum rc rc = deleter_mysql_connect(diverter->deleter, err);

    if (rc == RC_OK)
        rc = select_keys(diverter, keys_max, on_key, on_key_ctx, err);
    if (rc != RC_OK)
        err_wrap(err, "reading which keys of %s are in the retry queue", diverter->table);
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
static enum rc select_keys_left(struct diverter_mysql *diverter, struct lane_key *keys,
                                size_t count, struct err *err)
{
    buf_reset(&diverter->sql);
    for (size_t i = 0; i < count; i++) {
        keys[i].left = false;
        put_sql(diverter, i > 0 ? " UNION ALL " : "");
        buf_print(&diverter->sql,
                  "(SELECT %zu FROM retry_task FORCE INDEX (ix_retry_task_order) WHERE order_hash "
                  "= UNHEX(SHA2(CONCAT('" ORIGIN "', 0x00, ",
                  i);
        put_text(diverter, diverter->table);
        put_sql(diverter, ", 0x00, ");
        put_text(diverter, keys[i].ordering_key);
        put_sql(diverter, "), 256)) LIMIT 1)");
    }
    return db_query_buf(diverter->db, &diverter->sql, mark_key_left, keys, err);
}

static enum rc read_keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    struct diverter_mysql *diverter = ctx;
    enum rc rc = deleter_mysql_connect(diverter->deleter, err);

    if (rc == RC_OK)
        rc = select_keys_left(diverter, keys, count, err);
    if (rc != RC_OK)
        err_wrap(err, "reading which keys of %s are in the retry queue", diverter->table);
    return rc;
}

void diverter_mysql_open(struct diverter_mysql *diverter, const struct lane_settings *lane,
                         struct deleter_mysql *deleter, const struct settings *settings)
{
    char column[SETTING_NAME_SIZE];

    memset(diverter, 0, sizeof(*diverter));
    diverter->deleter = deleter;
    diverter->db = deleter->db;
    diverter->lane = lane->name;
    diverter->table = deleter->table;
    diverter->owner = deleter->owner;
    diverter->source = settings->relay.ce_source;
    diverter->payload_renamed = settings_lane_column(lane, "payload", column);
    diverter->lease_ms = settings->relay.lease_ms;
    if (strcmp(lane->exactly_once, "yes") == 0)
        position_record_key(diverter->lane_key, lane, settings);
}

void diverter_mysql_close(struct diverter_mysql *diverter)
{
    buf_done(&diverter->sql);
    buf_done(&diverter->options);
}

struct diverter_ops diverter_mysql_ops(struct diverter_mysql *diverter)
{
    return (struct diverter_ops){
        .ctx = diverter,
        .move_rows = move_into_retry,
        .load_keys = load_keys,
        .keys_left = read_keys_left,
    };
}
