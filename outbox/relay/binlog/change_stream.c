/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/change_stream.h"

#include "outbox/relay/binlog/checksum.h"
#include "outbox/relay/binlog/statement.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET_TYPE 4 /* of the type in the header of an event */
#define OFFSET_FLAGS 17

/* Part of an offset in a file that the header of an event has. */
#define LOW_BITS UINT64_C(0xffffffff)

enum rc change_stream_init(struct change_stream *stream, const char *schema, const char *name,
                           size_t event_bytes_max, struct err *err)
{
    memset(stream, 0, sizeof(*stream));
    stream->schema = schema;
    stream->name = name;
    stream->columns = calloc(BINLOG_COLUMNS_MAX, sizeof(*stream->columns));
    stream->values = calloc(BINLOG_COLUMNS_MAX, sizeof(*stream->values));
    binlog_payload_init(&stream->payload, event_bytes_max);
    buf_init(&stream->expanded, event_bytes_max);
    if (stream->columns && stream->values)
        return RC_OK;
    change_stream_done(stream);
    return err_fail(err, RC_FATAL, 0, "no memory for the columns of a table");
}

void change_stream_done(struct change_stream *stream)
{
    free(stream->columns);
    free(stream->values);
    stream->columns = NULL;
    stream->values = NULL;
    binlog_payload_done(&stream->payload);
    buf_done(&stream->expanded);
    buf_done(&stream->map);
    gtid_set_done(&stream->before);
}

static void forget_transaction(struct change_stream *stream)
{
    stream->state = CHANGE_OUTSIDE;
    stream->row = 0;
    stream->savepoint_count = 0;
    stream->ended = stream->emptied = false;
    memset(&stream->gtid, 0, sizeof(stream->gtid));
}

enum rc change_stream_begin(struct change_stream *stream, bool mariadb, const char *before,
                            const char *file, uint64_t offset, uint64_t skip, const char *skip_gtid,
                            struct err *err)
{
    forget_transaction(stream);
    stream->has_map = stream->has_event = stream->in_payload = stream->in_rows = false;
    stream->events = stream->event_rows = stream->group_begin = stream->body_begin = 0;
    stream->group_time_s = stream->file_time_s = 0;
    stream->group_file[0] = '\0';
    stream->has_last = false;
    memset(&stream->format, 0, sizeof(stream->format));
    snprintf(stream->file, sizeof(stream->file), "%s", file);
    stream->offset = stream->begin = stream->end = offset;
    stream->skip = skip;
    snprintf(stream->skip_gtid, sizeof(stream->skip_gtid), "%s", skip_gtid);
    gtid_set_done(&stream->before);
    return mariadb ? gtid_set_parse_mariadb(&stream->before, before, err)
                   : gtid_set_parse_mysql(&stream->before, before, err);
}

/* Puts the place in front of a reason. */
static enum rc fail_here(struct change_stream *stream, enum rc rc, struct err *err)
{
    struct buf gtid = {0};

    gtid_put_text(&stream->gtid, &gtid);
    err_wrap(err, "transaction %s at %s:%" PRIu64, gtid.len > 0 ? buf_text(&gtid) : "without GTID",
             stream->file, stream->offset);
    buf_done(&gtid);
    return rc;
}

/* A server that begins to send uses the algorithm of the reader for this event, before it has told
 * that of the file. */
static bool has_checksum(const uint8_t *bytes, size_t len)
{
    const uint8_t *sum = bytes + len - BINLOG_CHECKSUM_SIZE;
    uint32_t found =
        (uint32_t)sum[0] | (uint32_t)sum[1] << 8 | (uint32_t)sum[2] << 16 | (uint32_t)sum[3] << 24;

    return binlog_checksum(0, bytes, len - BINLOG_CHECKSUM_SIZE) == found;
}

static bool is_artificial_rotate(const uint8_t *bytes, size_t len)
{
    return len > BINLOG_HEADER_SIZE + BINLOG_CHECKSUM_SIZE && bytes[OFFSET_TYPE] == BINLOG_ROTATE &&
           (bytes[OFFSET_FLAGS] & BINLOG_FLAG_ARTIFICIAL);
}

/* Events that the server makes for this reader are in no file. */
static bool is_in_file(const struct binlog_event *event)
{
    return !(event->flags & BINLOG_FLAG_ARTIFICIAL) && !binlog_event_is_heartbeat(event) &&
           ((event->type != BINLOG_FORMAT && event->type != BINLOG_START_ENCRYPTION) ||
            event->next_pos != 0);
}

/* The header has the end of the event modulo 4 GiB. MariaDB 11.4 and later leave it out inside a
 * transaction. */
static void advance_end(struct change_stream *stream, size_t len)
{
    uint64_t end = (stream->end & ~LOW_BITS) | stream->event.next_pos;

    if (stream->event.next_pos == 0)
        end = stream->end + len;
    else if (end < stream->end)
        end += LOW_BITS + 1;
    stream->end = end;
}

enum rc change_stream_give(struct change_stream *stream, const void *bytes, size_t len,
                           struct err *err)
{
    struct binlog_format format = stream->format;
    enum rc rc;

    if (is_artificial_rotate(bytes, len))
        format.checksum = has_checksum(bytes, len);
    rc = binlog_event_parse(&stream->event, bytes, len, &format, err);
    if (rc != RC_OK)
        return fail_here(stream, rc, err);
    stream->has_event = true;
    stream->begin = stream->end;
    if (is_in_file(&stream->event))
        advance_end(stream, len);
    /* Events that the server has skipped lie between this one and the one before. */
    if (stream->event.next_pos != 0 && stream->end > len)
        stream->begin = stream->end - len;
    return RC_OK;
}

void change_stream_take(struct change_stream *stream, const struct binlog_event *event,
                        uint64_t begin, uint64_t end)
{
    stream->event = *event;
    stream->has_event = true;
    stream->begin = begin;
    stream->end = end;
}

void change_stream_move(struct change_stream *stream, const char *file, uint64_t offset)
{
    assert(stream->state == CHANGE_OUTSIDE && strlen(file) < sizeof(stream->file));
    snprintf(stream->file, sizeof(stream->file), "%s", file);
    stream->offset = stream->begin = stream->end = offset;
}

static enum rc take_rotate(struct change_stream *stream, const struct binlog_event *event,
                           struct err *err)
{
    struct binlog_rotate rotate;
    enum rc rc = binlog_rotate_parse(&rotate, event, err);

    if (rc != RC_OK)
        return rc;
    if (rotate.name_len >= sizeof(stream->file))
        return err_fail(err, RC_FATAL, 0, "the next file has a name of %zu bytes", rotate.name_len);
    memcpy(stream->file, rotate.name, rotate.name_len);
    stream->file[rotate.name_len] = '\0';
    stream->offset = stream->end = rotate.pos;
    return RC_OK;
}

/* Of the rows of the transaction only the first ones stay. *found: some do not. */
static void undo_rows(struct change_stream *stream, uint64_t keep, struct change *change,
                      bool *found)
{
    *found = stream->row > keep;
    if (*found)
        stream->row = keep;
    change->kind = CHANGE_UNDO;
    change->row = keep;
}

static void count_first_event(struct change_stream *stream)
{
    stream->events = 1;
    stream->body_begin = stream->begin;
}

/* At the GTID in front of it. */
static void begin_group(struct change_stream *stream)
{
    stream->events = stream->event_rows = 0;
    stream->group_begin = stream->body_begin = stream->begin;
    stream->group_time_s = stream->time_s;
    snprintf(stream->group_file, sizeof(stream->group_file), "%s", stream->file);
}

/* At the end of a transaction. */
static enum rc check_done_rows(const struct change_stream *stream, uint64_t rows, struct err *err)
{
    if (stream->skip <= rows)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0,
                    "rows that were done before are rolled back: %" PRIu64
                    " were done, and %" PRIu64 " stay",
                    stream->skip, rows);
}

/* Ids of tables begin again with each start of a server, and so with a file. A transaction that
 * goes on when the file of a start begins was not written to its end, and the server has rolled it
 * back. */
static enum rc take_format(struct change_stream *stream, const struct binlog_event *event,
                           struct change *change, bool *found, struct err *err)
{
    enum rc rc = binlog_format_parse(&stream->format, event, err);

    stream->file_time_s = event->time_s;
    stream->has_map = false;
    if (rc != RC_OK || stream->state == CHANGE_OUTSIDE)
        return rc;
    if (!stream->format.server_start)
        return err_fail(err, RC_FATAL, 0, "another file begins before the transaction has ended");
    change->kind = CHANGE_CUT;
    *found = true;
    forget_transaction(stream);
    return check_done_rows(stream, 0, err);
}

/* Whether the transaction is the one of which rows were done. */
static bool is_expected(const struct change_stream *stream)
{
    struct buf text = {0};
    bool same;

    gtid_put_text(&stream->gtid, &text);
    same = strcmp(buf_text(&text), stream->skip_gtid) == 0;
    buf_done(&text);
    return same;
}

static enum rc take_gtid(struct change_stream *stream, const struct binlog_event *event,
                         struct err *err)
{
    enum rc rc;

    if (stream->state != CHANGE_OUTSIDE)
        return err_fail(err, RC_FATAL, 0, "another transaction begins before it has ended");
    rc = binlog_gtid_parse(&stream->gtid, event, err);
    if (rc != RC_OK)
        return rc;
    if (gtid_set_has(&stream->before, &stream->gtid))
        return err_fail(err, RC_FATAL, 0,
                        "its GTID, or a later one of its domain, was there before: the server has "
                        "lost transactions, or gtid_strict_mode is off");
    if (stream->skip > 0 && !is_expected(stream))
        return err_fail(err, RC_FATAL, 0,
                        "%" PRIu64
                        " rows of transaction %s were done before, and this one comes first",
                        stream->skip, stream->skip_gtid);
    stream->offset = stream->begin;
    begin_group(stream);
    stream->state = stream->gtid.mariadb && !stream->gtid.standalone ? CHANGE_INSIDE : CHANGE_BEGUN;
    if (stream->state == CHANGE_INSIDE)
        count_first_event(stream);
    return RC_OK;
}

/* One that is set again moves behind the others. RELEASE SAVEPOINT is not in the log, and
 * applications may give each a name of its own, so the oldest one makes room. */
static void set_savepoint(struct change_stream *stream, uint64_t name)
{
    size_t at = 0;

    while (at < stream->savepoint_count && stream->savepoints[at].name != name)
        at++;
    if (at == CHANGE_SAVEPOINTS_MAX)
        at = 0;
    if (at < stream->savepoint_count)
        memmove(&stream->savepoints[at], &stream->savepoints[at + 1],
                (stream->savepoint_count - at - 1) * sizeof(stream->savepoints[0]));
    else
        stream->savepoint_count++;
    stream->savepoints[stream->savepoint_count - 1] = (struct change_savepoint){name, stream->row};
}

static enum rc roll_back_to(struct change_stream *stream, uint64_t name, struct change *change,
                            bool *found, struct err *err)
{
    for (size_t i = stream->savepoint_count; i > 0; i--) {
        if (stream->savepoints[i - 1].name != name)
            continue;
        stream->savepoint_count = i;
        undo_rows(stream, stream->savepoints[i - 1].rows, change, found);
        return RC_OK;
    }
    return err_fail(err, RC_FATAL, 0,
                    "it rolls back to a savepoint that is not known: it has none of this name, or "
                    "more than %d later ones",
                    CHANGE_SAVEPOINTS_MAX);
}

static enum rc take_data_statement(struct change_stream *stream, const struct binlog_query *query,
                                   struct err *err)
{
    if (!statement_may_change(query, stream->schema, stream->name)) {
        stream->counts.statements += !statement_changes_system_table(query);
        return RC_OK;
    }
    return err_fail(err, RC_FATAL, 0,
                    "a statement may change table %s, and its rows are not in the log, which needs "
                    "binlog_format = ROW in every session: %.*s",
                    stream->name, (int)(query->text_len < 120 ? query->text_len : 120),
                    query->text);
}

/* XA PREPARE ends the group, and the outcome comes later: rows must not be passed on before it. */
static enum rc refuse_prepared_rows(const struct change_stream *stream, struct err *err)
{
    if (stream->row == 0)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0,
                    "it is prepared by XA and has %" PRIu64
                    " rows of table %s: transactions of two phases cannot be read. `tallybox lanes "
                    "begin LANE --replace-position` begins at the end of the log, and leaves out "
                    "the rows before it",
                    stream->row, stream->name);
}

static enum rc take_statement(struct change_stream *stream, const struct binlog_query *query,
                              const struct statement *statement, struct change *change, bool *found,
                              struct err *err)
{
    enum rc rc = RC_OK;

    switch (statement->kind) {
    case STATEMENT_BEGIN:
        if (stream->state != CHANGE_INSIDE)
            count_first_event(stream);
        stream->state = CHANGE_INSIDE;
        return RC_OK;
    case STATEMENT_COMMIT:
        stream->ended = true;
        return RC_OK;
    case STATEMENT_ROLLBACK:
        undo_rows(stream, 0, change, found);
        stream->ended = true;
        return RC_OK;
    case STATEMENT_SAVEPOINT:
        set_savepoint(stream, statement->savepoint);
        return RC_OK;
    case STATEMENT_ROLLBACK_TO:
        return roll_back_to(stream, statement->savepoint, change, found, err);
    case STATEMENT_RELEASE:
    case STATEMENT_XA_END:
        return RC_OK;
    case STATEMENT_XA_COMMIT:
        stream->ended = true;
        return RC_OK;
    case STATEMENT_XA_ROLLBACK:
        undo_rows(stream, 0, change, found);
        stream->ended = true;
        return RC_OK;
    case STATEMENT_DATA:
        rc = take_data_statement(stream, query, err);
        break;
    case STATEMENT_OTHER:
        if (statement_names(query, stream->name)) {
            *found = true;
            change->kind = CHANGE_DEFINITION;
            stream->emptied |= statement_empties(query, stream->schema, stream->name);
        }
        break;
    }
    /* A statement without BEGIN is a transaction by itself. */
    if (stream->state == CHANGE_BEGUN)
        stream->ended = true;
    return rc;
}

static enum rc take_query(struct change_stream *stream, const struct binlog_event *event,
                          struct change *change, bool *found, struct err *err)
{
    struct binlog_query query;
    struct statement statement;
    enum rc rc = binlog_query_parse(&query, event, &stream->expanded, err);

    if (rc != RC_OK)
        return rc;
    statement_parse(&statement, &query);
    return take_statement(stream, &query, &statement, change, found, err);
}

/* Whether two pieces of bytes are equal behind their first `from` ones. */
static bool is_same(const void *left, size_t left_len, const void *right, size_t right_len,
                    size_t from)
{
    return left_len == right_len && left_len >= from &&
           memcmp((const char *)left + from, (const char *)right + from, left_len - from) == 0;
}

/* Keeps the map of the table, because the bytes of the event are gone before its rows have come. */
static enum rc keep_map(struct change_stream *stream, const struct binlog_event *event,
                        struct err *err)
{
    struct binlog_event kept = *event;
    enum rc rc;

    stream->has_map = true;
    if (is_same(stream->map.data, stream->map.len, event->body, event->body_len, 0))
        return RC_OK;
    if (!is_same(stream->map.data, stream->map.len, event->body, event->body_len,
                 BINLOG_TABLE_ID_SIZE))
        stream->table_version++;
    buf_reset(&stream->map);
    buf_put(&stream->map, event->body, event->body_len);
    kept.body = (const uint8_t *)stream->map.data;
    rc = stream->map.failed
             ? err_fail(err, RC_FATAL, 0, "no memory for the description of a table")
             : binlog_table_parse(&stream->table, stream->columns, BINLOG_COLUMNS_MAX, &kept, err);
    /* The same map must not count as known when it comes again. */
    if (rc != RC_OK)
        buf_reset(&stream->map);
    stream->has_map = rc == RC_OK;
    return rc;
}

/* The columns of another table are not looked at. */
static enum rc take_map(struct change_stream *stream, const struct binlog_event *event,
                        struct err *err)
{
    struct binlog_table table;
    enum rc rc = binlog_table_parse_name(&table, event, err);

    if (rc != RC_OK)
        return rc;
    if (is_same(stream->schema, strlen(stream->schema), table.schema, table.schema_len, 0) &&
        is_same(stream->name, strlen(stream->name), table.name, table.name_len, 0))
        return keep_map(stream, event, err);
    if (stream->has_map && table.id == stream->table.id)
        stream->has_map = false;
    return RC_OK;
}

static bool is_ours(const struct change_stream *stream, const struct binlog_event *event)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);

    return stream->has_map && cursor_le(&cursor, BINLOG_TABLE_ID_SIZE) == stream->table.id;
}

static enum rc take_rows(struct change_stream *stream, const struct binlog_event *event,
                         struct err *err)
{
    enum rc rc;

    if (!is_ours(stream, event))
        return RC_OK;
    if (stream->state != CHANGE_INSIDE)
        return err_fail(err, RC_FATAL, 0, "rows come outside of a transaction");
    /* outbox_columns.h gives integers the sign of their definition. */
    rc = binlog_rows_begin(&stream->rows, &stream->table, stream->columns, NULL, event,
                           &stream->expanded, err);
    stream->in_rows = rc == RC_OK;
    return rc;
}

/* XA ... ONE PHASE ends like a transaction without XA. */
static enum rc take_xa_prepare(struct change_stream *stream, const struct binlog_event *event,
                               struct err *err)
{
    bool one_phase = event->body_len > 0 && event->body[0] != 0;

    stream->ended = true;
    return one_phase ? RC_OK : refuse_prepared_rows(stream, err);
}

static enum rc refuse_event(const struct binlog_event *event, struct err *err)
{
    if (event->type == BINLOG_INCIDENT)
        return err_fail(err, RC_FATAL, 0,
                        "the server reports an incident: events may be missing in its log");
    return err_fail(err, RC_FATAL, 0, "an event of the type %s (%u) cannot be read",
                    binlog_type_name(event->type), event->type);
}

/* Events that say nothing about rows. */
static bool may_be_skipped(const struct binlog_event *event)
{
    switch (event->type) {
    case BINLOG_STOP:
    case BINLOG_INTVAR:
    case BINLOG_RAND:
    case BINLOG_USER_VAR:
    case BINLOG_APPEND_BLOCK:
    case BINLOG_DELETE_FILE:
    case BINLOG_BEGIN_LOAD_QUERY:
    case BINLOG_DELETE_ROWS_1:
    case BINLOG_DELETE_ROWS:
    case BINLOG_DELETE_ROWS_COMPRESSED_1:
    case BINLOG_DELETE_ROWS_COMPRESSED:
    case BINLOG_IGNORABLE:
    case BINLOG_ROWS_QUERY:
    case BINLOG_PREVIOUS_GTIDS:
    case BINLOG_TRANSACTION_CONTEXT:
    case BINLOG_VIEW_CHANGE:
    case BINLOG_ANNOTATE_ROWS:
    case BINLOG_CHECKPOINT:
    case BINLOG_MARIADB_GTID_LIST:
    case BINLOG_START_ENCRYPTION:
        return true;
    default:
        return (event->flags & BINLOG_FLAG_IGNORABLE) != 0;
    }
}

/* Whether the event belongs to a transaction, whose GTID comes first. */
static bool needs_gtid(uint8_t type)
{
    return type == BINLOG_QUERY || type == BINLOG_QUERY_COMPRESSED || type == BINLOG_XID ||
           type == BINLOG_XA_PREPARE || type == BINLOG_TRANSACTION_PAYLOAD ||
           type == BINLOG_EXECUTE_LOAD_QUERY;
}

/* Handles one event. *found: it is a change by itself. */
static enum rc take_event(struct change_stream *stream, const struct binlog_event *event,
                          struct change *change, bool *found, struct err *err)
{
    if (stream->on_event)
        stream->on_event(stream->on_event_ctx, event);
    if (binlog_event_has_own_time(event))
        stream->time_s = event->time_s;
    if (stream->state == CHANGE_INSIDE && !binlog_event_is_heartbeat(event))
        stream->events++;
    stream->event_rows = 0;
    if (stream->state == CHANGE_OUTSIDE && needs_gtid(event->type))
        return err_fail(err, RC_FATAL, 0,
                        "a %s event comes without a GTID: reading did not begin "
                        "between two transactions",
                        binlog_type_name(event->type));
    switch (event->type) {
    case BINLOG_ROTATE:
        return take_rotate(stream, event, err);
    case BINLOG_FORMAT:
        return take_format(stream, event, change, found, err);
    case BINLOG_GTID:
    case BINLOG_GTID_TAGGED:
    case BINLOG_ANONYMOUS_GTID:
    case BINLOG_MARIADB_GTID:
        return take_gtid(stream, event, err);
    case BINLOG_QUERY:
    case BINLOG_QUERY_COMPRESSED:
        return take_query(stream, event, change, found, err);
    case BINLOG_EXECUTE_LOAD_QUERY:
        return take_data_statement(
            stream,
            &(struct binlog_query){.text = (const char *)event->body, .text_len = event->body_len},
            err);
    case BINLOG_XID:
        stream->ended = true;
        return RC_OK;
    case BINLOG_XA_PREPARE:
        return take_xa_prepare(stream, event, err);
    case BINLOG_TABLE_MAP:
        return take_map(stream, event, err);
    case BINLOG_WRITE_ROWS_1:
    case BINLOG_WRITE_ROWS:
    case BINLOG_WRITE_ROWS_COMPRESSED_1:
    case BINLOG_WRITE_ROWS_COMPRESSED:
        return take_rows(stream, event, err);
    case BINLOG_UPDATE_ROWS_1:
    case BINLOG_UPDATE_ROWS:
    case BINLOG_UPDATE_ROWS_COMPRESSED_1:
    case BINLOG_UPDATE_ROWS_COMPRESSED:
    case BINLOG_PARTIAL_UPDATE_ROWS:
        stream->counts.updates += is_ours(stream, event);
        return RC_OK;
    case BINLOG_TRANSACTION_PAYLOAD:
        stream->in_payload = true;
        return binlog_payload_begin(&stream->payload, event, err);
    case BINLOG_HEARTBEAT:
    case BINLOG_HEARTBEAT_2:
        *found = true;
        change->kind = CHANGE_IDLE;
        return RC_OK;
    default:
        return may_be_skipped(event) ? RC_OK : refuse_event(event, err);
    }
}

/* Takes the next row of the present event. */
static enum rc next_row(struct change_stream *stream, struct change *change, bool *found,
                        struct err *err)
{
    enum rc rc;

    do {
        rc = binlog_rows_next(&stream->rows, stream->values, found, err);
        if (rc != RC_OK)
            return rc;
        stream->in_rows = *found;
        if (!*found)
            return RC_OK;
        stream->row++;
        stream->event_rows++;
    } while (stream->row <= stream->skip);
    change->kind = CHANGE_ROW;
    change->row = stream->row;
    change->values = stream->values;
    return RC_OK;
}

static enum rc commit_transaction(struct change_stream *stream, struct change *change,
                                  struct err *err)
{
    enum rc rc = check_done_rows(stream, stream->row, err);

    if (rc == RC_OK)
        rc = gtid_set_add(&stream->before, &stream->gtid, err);
    if (rc != RC_OK)
        return rc;
    change->kind = CHANGE_COMMIT;
    change->row = stream->row;
    change->emptied = stream->emptied;
    stream->counts.transactions++;
    stream->skip = 0;
    stream->offset = stream->end;
    stream->last_gtid = stream->gtid;
    stream->last_group_begin = stream->group_begin;
    memcpy(stream->last_group_file, stream->group_file, sizeof(stream->last_group_file));
    stream->has_last = true;
    forget_transaction(stream);
    return RC_OK;
}

static enum rc next_inner_event(struct change_stream *stream, struct change *change, bool *found,
                                struct err *err)
{
    struct binlog_event inner;
    enum rc rc = binlog_payload_next(&stream->payload, &inner, &stream->in_payload, err);

    if (rc != RC_OK || !stream->in_payload)
        return rc;
    if (inner.type == BINLOG_TRANSACTION_PAYLOAD)
        return refuse_event(&inner, err);
    return take_event(stream, &inner, change, found, err);
}

static enum rc find_change(struct change_stream *stream, struct change *change, struct err *err)
{
    bool found = false;
    enum rc rc = RC_OK;

    while (rc == RC_OK && !found) {
        if (stream->in_rows) {
            rc = next_row(stream, change, &found, err);
        } else if (stream->in_payload) {
            rc = next_inner_event(stream, change, &found, err);
        } else if (stream->ended) {
            return commit_transaction(stream, change, err);
        } else if (stream->has_event) {
            stream->has_event = false;
            rc = take_event(stream, &stream->event, change, &found, err);
        } else {
            change->kind = CHANGE_WANTS_EVENT;
            return RC_OK;
        }
    }
    return rc;
}

enum rc change_stream_next(struct change_stream *stream, struct change *change, struct err *err)
{
    enum rc rc = find_change(stream, change, err);

    change->time_s = stream->time_s;
    return rc == RC_OK ? rc : fail_here(stream, rc, err);
}
