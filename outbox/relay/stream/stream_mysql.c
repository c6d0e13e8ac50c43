/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_mysql.h"

#include "common/db/db.h"
#include "common/os.h"
#include "outbox/relay/binlog/change_stream.h"
#include "outbox/relay/binlog/outbox_columns_mysql.h"
#include "outbox/relay/stream/position_mysql.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As servers allow for one event. */
#define EVENT_BYTES_MAX ((size_t)1 << 30)

#define SILENCE_MS_MAX 300000

struct stream_mysql {
    struct stream_mysql_options options;
    struct db *db;        /* for the definition */
    uint64_t term;        /* see origin_mysql_renew() */
    pthread_mutex_t lock; /* of link and interrupted, for interrupt_stream() */
    bool interrupted;     /* since close_stream(): no link may be read */
    struct binlog_link *link;
    struct change_stream changes;
    struct outbox_definition definition;
    struct outbox_columns columns;
    uint64_t version; /* table_version from which columns was made; 0: it has to be made */
    bool by_gtid;
    bool waits; /* STREAM_NOTHING was returned, so the next call waits */
    bool ended;
    int64_t now_ms;     /* os_wall_ms() when the last event came */
    bool was_open;      /* the last open has worked */
    bool has_event;     /* one has come since the last open */
    int64_t silence_ms; /* of the last open */
    enum binlog_refusal refusal;
};

static const char *const fields[OUTBOX_FIELDS] = {
    [OUTBOX_SEQ] = "seq",
    [OUTBOX_ID] = "id",
    [OUTBOX_AGGREGATE_TYPE] = "aggregatetype",
    [OUTBOX_AGGREGATE_ID] = "aggregateid",
    [OUTBOX_TYPE] = "type",
    [OUTBOX_PAYLOAD] = "payload",
    [OUTBOX_HEADERS] = "headers",
    [OUTBOX_CREATED_AT] = "created_at",
};

_Static_assert(LANE_HEADERS_MAX <= OUTBOX_HEADERS_MAX, "a row has the headers of the settings");

void stream_columns_choose(struct stream_columns *columns, const struct lane_settings *lane)
{
    const char *headers = lane->header_columns;

    for (size_t i = 0; i < OUTBOX_FIELDS; i++) {
        settings_lane_column(lane, fields[i], columns->names[i]);
        columns->columns[i] = columns->names[i];
    }
    while (columns->header_count < LANE_HEADERS_MAX &&
           lane_header_next(&headers, &columns->headers[columns->header_count]))
        columns->header_count++;
    columns->blank_is_null = strcmp(lane->empty_payload, LANE_EMPTY_TOMBSTONE) == 0;
}

static enum rc read_definition(struct stream_mysql *stream, struct err *err)
{
    enum rc rc = outbox_columns_read(stream->db, stream->options.schema, stream->options.table,
                                     &stream->definition, err);

    stream->version = 0;
    if (rc == RC_OK) {
        rc = outbox_columns_check_headers(&stream->columns, &stream->definition, err);
        if (rc != RC_OK)
            err_wrap(err, "table %s", stream->options.table);
    }
    return rc == RC_REJECT ? RC_FATAL : rc;
}

static enum rc begin_changes(struct stream_mysql *stream, const struct stream_position *from,
                             struct err *err)
{
    struct buf before = {0};
    enum rc rc;

    buf_put(&before, from->before.data, from->before.len);
    rc = change_stream_begin(&stream->changes, db_server_kind(stream->db) == DB_MARIADB,
                             buf_text(&before), from->file, from->offset, from->rows_done,
                             from->gtid, err);
    buf_done(&before);
    return rc;
}

/* MariaDB before 11.4 is silent while it searches the position: after an open to which no event
 * came the next one waits twice as long. */
static int64_t choose_silence_ms(struct stream_mysql *stream)
{
    int64_t ms = stream->silence_ms;

    if (stream->has_event || ms == 0)
        ms = stream->options.silence_ms;
    else if (stream->was_open)
        ms = ms < SILENCE_MS_MAX / 2 ? 2 * ms : SILENCE_MS_MAX;
    stream->has_event = stream->was_open = false;
    stream->silence_ms = ms;
    return ms;
}

static void set_link(struct stream_mysql *stream, struct binlog_link *link)
{
    struct binlog_link *old;

    pthread_mutex_lock(&stream->lock);
    old = stream->link;
    stream->link = link;
    if (link && stream->interrupted)
        binlog_link_shutdown(link);
    pthread_mutex_unlock(&stream->lock);
    binlog_link_close(old);
}

static void close_stream(void *ctx)
{
    struct stream_mysql *stream = ctx;

    set_link(stream, NULL);
    pthread_mutex_lock(&stream->lock);
    stream->interrupted = false;
    pthread_mutex_unlock(&stream->lock);
}

static void interrupt_stream(void *ctx)
{
    struct stream_mysql *stream = ctx;

    pthread_mutex_lock(&stream->lock);
    stream->interrupted = true;
    if (stream->link)
        binlog_link_shutdown(stream->link);
    pthread_mutex_unlock(&stream->lock);
}

static enum rc open_stream(void *ctx, const struct stream_position *from, struct err *err)
{
    struct stream_mysql *stream = ctx;
    struct binlog_start how = {.server_id = stream->options.server_id,
                               .heartbeat_ms = stream->options.heartbeat_ms,
                               .silence_ms = choose_silence_ms(stream),
                               .event_bytes_max = EVENT_BYTES_MAX,
                               .until_end = stream->options.until_end};
    struct binlog_link *link = NULL;
    enum rc rc;

    set_link(stream, NULL);
    stream->refusal = BINLOG_REFUSAL_NONE;
    stream->by_gtid = from->by_gtid;
    stream->waits = stream->ended = false;
    if (stream->options.origin)
        origin_mysql_renew(stream->options.origin, stream->db, &stream->term);
    rc = db_connect(stream->db, err);
    if (rc == RC_OK)
        rc = position_mysql_check_log(stream->db, err);
    if (rc == RC_OK)
        rc = read_definition(stream, err);
    if (rc == RC_OK)
        rc = begin_changes(stream, from, err);
    if (rc == RC_OK)
        rc = position_mysql_open(&link, stream->options.mysql, stream->options.origin,
                                 db_server_kind(stream->db), from, &how, err);
    stream->was_open = rc == RC_OK;
    if (rc == RC_OK)
        set_link(stream, link);
    /* A position that is none needs an operator. */
    return rc == RC_REJECT ? RC_FATAL : rc;
}

/* Two readers with one id would end each other's streams again and again. */
static enum rc name_server_id(const struct stream_mysql *stream, struct err *err)
{
    struct err why = *err;

    return err_fail(err, RC_FATAL, why.code,
                    "another reader of the binary log has the server id %" PRIu32
                    " of this lane (relay.server_id): %s",
                    stream->options.server_id, why.text);
}

/* *nothing: the event would have to be waited for. */
static enum rc give_event(struct stream_mysql *stream, bool *nothing, struct err *err)
{
    const void *event = NULL;
    size_t len = 0;
    enum rc rc;

    if (stream->ended || (!stream->waits && !binlog_link_ready(stream->link))) {
        *nothing = stream->waits = true;
        return RC_OK;
    }
    stream->waits = false;
    rc = binlog_link_next(stream->link, &event, &len, err);
    stream->refusal = binlog_link_refusal(stream->link);
    if (stream->refusal == BINLOG_REFUSAL_REPLACED && err)
        return name_server_id(stream, err);
    if (rc != RC_OK)
        return rc;
    stream->now_ms = os_wall_ms();
    stream->has_event = true;
    stream->ended = *nothing = event == NULL;
    return event ? change_stream_give(&stream->changes, event, len, err) : RC_OK;
}

static enum rc make_row(struct stream_mysql *stream, const struct change *change,
                        struct relay_row *row, struct err *err)
{
    const struct change_stream *changes = &stream->changes;
    enum rc rc = RC_OK;

    if (changes->table_version != stream->version)
        rc = outbox_columns_resolve(&stream->columns, &stream->definition, &changes->table,
                                    changes->columns, stream->options.columns, err);
    stream->version = rc == RC_OK ? changes->table_version : 0;
    if (rc == RC_OK)
        rc = outbox_columns_make_row(&stream->columns, change->values, &stream->options.bounds, row,
                                     err);
    /* The server's clock may be ahead of this machine's. */
    row->read_ms = (int64_t)changes->event.time_s * 1000;
    if (row->read_ms < stream->now_ms)
        row->read_ms = stream->now_ms;
    return rc == RC_REJECT ? RC_FATAL : rc;
}

static enum rc read_change(void *ctx, struct stream_change *out, struct err *err)
{
    struct stream_mysql *stream = ctx;
    struct change change = {0};
    bool counts_only = out->counts_only;
    enum rc rc = RC_OK;

    memset(out, 0, sizeof(*out));
    if (!stream->link)
        return err_fail(err, RC_RETRY, 0, "the stream is not open");
    while (rc == RC_OK) {
        bool nothing = false;

        rc = change_stream_next(&stream->changes, &change, err);
        if (rc != RC_OK)
            return rc;
        out->number = change.row;
        switch (change.kind) {
        case CHANGE_WANTS_EVENT:
            rc = give_event(stream, &nothing, err);
            if (nothing)
                return rc;
            break;
        case CHANGE_IDLE:
            return RC_OK;
        case CHANGE_ROW:
            out->kind = STREAM_ROW;
            return counts_only ? RC_OK : make_row(stream, &change, &out->row, err);
        case CHANGE_COMMIT:
            out->kind = STREAM_COMMIT;
            return RC_OK;
        case CHANGE_UNDO:
            out->kind = STREAM_UNDO;
            return RC_OK;
        case CHANGE_CUT:
            out->kind = STREAM_CUT;
            return RC_OK;
        case CHANGE_DEFINITION:
            rc = read_definition(stream, err);
            break;
        }
    }
    return rc;
}

static enum rc write_position(void *ctx, struct stream_position *position, struct err *err)
{
    struct stream_mysql *stream = ctx;
    const struct change_stream *changes = &stream->changes;
    struct buf gtid = {0};
    enum rc rc = RC_OK;

    buf_reset(&position->before);
    gtid_set_put_text(&changes->before, &position->before);
    gtid_put_text(&changes->gtid, &gtid);
    position->by_gtid = stream->by_gtid;
    snprintf(position->file, sizeof(position->file), "%s", changes->file);
    position->offset = changes->offset;
    position->time_s = changes->time_s;
    snprintf(position->gtid, sizeof(position->gtid), "%s",
             changes->state == CHANGE_OUTSIDE && changes->skip > 0 ? changes->skip_gtid
                                                                   : buf_text(&gtid));
    if (position->before.failed || gtid.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for a position");
    buf_done(&gtid);
    return rc;
}

enum rc stream_mysql_make(struct stream_mysql **out, const struct stream_mysql_options *options,
                          struct err *err)
{
    struct stream_mysql *stream = calloc(1, sizeof(*stream));
    enum rc rc;

    if (!stream)
        return err_fail(err, RC_FATAL, 0, "no memory for a stream");
    stream->options = *options;
    for (size_t i = 0; i < options->header_count; i++)
        outbox_columns_add_header(&stream->columns, options->headers[i].column,
                                  options->headers[i].name);
    stream->columns.blank_is_null = options->blank_is_null;
    pthread_mutex_init(&stream->lock, NULL);
    rc = db_open(&stream->db, options->mysql, err);
    if (rc == RC_OK && options->origin)
        origin_mysql_guard(options->origin, stream->db);
    if (rc == RC_OK)
        rc = change_stream_init(&stream->changes, options->schema, options->table, EVENT_BYTES_MAX,
                                err);
    if (rc == RC_OK)
        *out = stream;
    else
        stream_mysql_free(stream);
    return rc;
}

void stream_mysql_free(struct stream_mysql *stream)
{
    if (!stream)
        return;
    close_stream(stream);
    db_close(stream->db);
    pthread_mutex_destroy(&stream->lock);
    change_stream_done(&stream->changes);
    outbox_columns_done(&stream->columns);
    outbox_definition_done(&stream->definition);
    free(stream);
}

struct stream_ops stream_mysql_ops(struct stream_mysql *stream)
{
    return (struct stream_ops){stream,         open_stream,  read_change,
                               write_position, close_stream, interrupt_stream};
}

bool stream_mysql_has_ended(const struct stream_mysql *stream)
{
    return stream->ended;
}

enum binlog_refusal stream_mysql_refusal(const struct stream_mysql *stream)
{
    return stream->refusal;
}
