/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_mysql.h"

#include "common/log.h"
#include "common/os.h"
#include "outbox/relay/binlog/change_stream.h"
#include "outbox/relay/binlog/log_end.h"
#include "outbox/relay/binlog/outbox_columns_mysql.h"
#include "outbox/relay/binlog/silence.h"
#include "outbox/relay/fallback/lost_log.h"
#include "outbox/relay/shared/joining.h"
#include "outbox/relay/shared/shared_link_mysql.h"
#include "outbox/relay/stream/position_mysql.h"
#include "outbox/relay/stream/table_cut_mysql.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As servers allow for one event. */
#define EVENT_BYTES_MAX ((size_t)1 << 30)

/* See check_written(). Longer than a commit waits for semi-synchronous replicas by default. */
#define WRITTEN_CHECK_MS 12000
#define WRITTEN_LACKS_MAX 2

/* Between two looks at the server's clock, and while its events look old: clocks are set. */
#define CLOCK_MS 60000
#define CLOCK_BEHIND_MS 10000
#define CLOCK_ANSWER_MS 500

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
    bool was_altered; /* the definition was not read since the first row behind a change of it */
    bool by_gtid;
    bool waits;  /* STREAM_NOTHING was returned, so the next call waits */
    bool at_end; /* of the log, if STREAM_NOTHING is returned now */
    bool ended;
    int64_t now_ms;         /* os_wall_ms() when the last event came */
    int64_t checked_ms;     /* os_wall_ms() at the last check_written() */
    struct log_end end;     /* of link */
    int64_t clock_ms;       /* os_now_ms() at the last find_clock() */
    int64_t ahead_ms;       /* os_now_ms() and this are the server's clock; 0: unknown */
    unsigned lacks;         /* checks in which the server lacked transactions */
    struct silence silence; /* of the links */
    enum binlog_refusal refusal;

    struct shared_member member;    /* of options.sharing */
    struct joining joining;         /* of the member */
    bool joined;                    /* events come from the shared stream, and link is NULL */
    struct stream_position between; /* where it leaves, or opens the shared stream */
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

static void add_headers(struct outbox_columns *columns, const struct lane_header *headers,
                        size_t count)
{
    for (size_t i = 0; i < count; i++)
        outbox_columns_add_header(columns, headers[i].column, headers[i].name);
}

/* names: as of outbox_columns_check(). */
static enum rc read_columns(struct db *db, const char *schema, const char *table,
                            const struct outbox_columns *columns, const char *const *names,
                            struct outbox_definition *definition, struct err *err)
{
    enum rc rc = outbox_columns_read(db, schema, table, definition, err);

    if (rc == RC_OK)
        rc = outbox_columns_check_engine(db, schema, table, err);
    return rc == RC_OK ? outbox_columns_check(columns, definition, names, err) : rc;
}

enum rc stream_columns_check(struct db *db, const char *schema, const struct lane_settings *lane,
                             struct err *err)
{
    struct stream_columns chosen = {0};
    struct outbox_columns columns = {0};
    struct outbox_definition definition = {0};
    enum rc rc;

    stream_columns_choose(&chosen, lane);
    add_headers(&columns, chosen.headers, chosen.header_count);
    rc = read_columns(db, schema, lane->table, &columns, chosen.columns, &definition, err);
    outbox_definition_done(&definition);
    outbox_columns_done(&columns);
    return rc;
}

static enum rc read_definition(struct stream_mysql *stream, const char *const *names,
                               struct err *err)
{
    enum rc rc = read_columns(stream->db, stream->options.schema, stream->options.table,
                              &stream->columns, names, &stream->definition, err);

    stream->version = 0;
    if (rc != RC_REJECT)
        return rc;
    err_wrap(err, "table %s", stream->options.table);
    return RC_FATAL;
}

/* Looks at the server's clock. Without an answer, or with a late one, the last one counts, and this
 * machine's clock before the first. */
static void find_clock(struct stream_mysql *stream)
{
    int64_t server_ms = 0;
    int64_t since_ms = 0;
    enum rc rc = db_connect(stream->db, NULL);

    if (rc == RC_OK) {
        since_ms = os_now_ms();
        rc = db_read_clock(stream->db, &server_ms, NULL);
    }
    stream->clock_ms = os_now_ms();
    if (rc == RC_OK && stream->clock_ms - since_ms < CLOCK_ANSWER_MS)
        stream->ahead_ms = server_ms - since_ms;
    else if (stream->ahead_ms == 0)
        stream->ahead_ms = os_wall_ms() - stream->clock_ms;
    if (stream->options.sharing.shared)
        shared_stream_set_clock(stream->options.sharing.shared, stream->ahead_ms);
}

static bool has_reached_end(struct stream_mysql *stream)
{
    if (stream->joined)
        return stream->changes.state == CHANGE_OUTSIDE && !event_queue_has(&stream->member.queue) &&
               shared_member_is_at_end(&stream->member);
    return stream->ended ||
           log_end_is_reached(&stream->end, &stream->changes, binlog_link_ready(stream->link));
}

/* All that was sent is read, or a heartbeat was. */
static void note_end(struct stream_mysql *stream)
{
    int64_t since_ms = os_now_ms() - stream->clock_ms;

    stream->at_end = has_reached_end(stream);
    if (since_ms >= (stream->at_end ? CLOCK_MS : CLOCK_BEHIND_MS))
        find_clock(stream);
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
    /* Until a transaction is read. */
    stream->changes.time_s = (uint32_t)from->time_s;
    log_end_begin(&stream->end, from->by_gtid ? "" : from->file, from->offset,
                  os_now_ms() + stream->ahead_ms - from->time_s * 1000);
    buf_done(&before);
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

static void set_joined(struct stream_mysql *stream, bool joined)
{
    stream->joined = joined;
    if (stream->options.sharing.joined)
        metric_set(stream->options.sharing.joined, joined);
}

static void leave_shared(struct stream_mysql *stream)
{
    if (!stream->member.shared)
        return;
    joining_begin(&stream->joining);
    set_joined(stream, false);
}

static void close_stream(void *ctx)
{
    struct stream_mysql *stream = ctx;

    leave_shared(stream);
    set_link(stream, NULL);
    if (stream->member.shared) {
        shared_member_set_reader(&stream->member, false);
        shared_member_resume(&stream->member);
    }
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
    if (stream->member.shared)
        shared_member_interrupt(&stream->member);
}

static enum rc open_stream(void *ctx, const struct stream_position *from, struct err *err)
{
    struct stream_mysql *stream = ctx;
    struct binlog_start how = {.server_id = stream->options.server_id,
                               .heartbeat_ms = stream->options.heartbeat_ms,
                               .silence_ms =
                                   silence_choose_ms(&stream->silence, stream->options.silence_ms),
                               .event_bytes_max = EVENT_BYTES_MAX,
                               .until_end = stream->options.until_end,
                               .annotated = stream->options.annotated};
    struct binlog_link *link = NULL;
    enum rc rc;

    leave_shared(stream);
    set_link(stream, NULL);
    stream->refusal = BINLOG_REFUSAL_NONE;
    stream->by_gtid = from->by_gtid;
    stream->waits = stream->ended = stream->was_altered = false;
    stream->lacks = 0;
    if (stream->options.origin)
        origin_mysql_renew(stream->options.origin, stream->db, &stream->term);
    rc = db_connect(stream->db, err);
    if (rc == RC_OK)
        rc = position_mysql_check_log(stream->db, err);
    if (rc == RC_OK)
        rc = read_definition(stream, stream->options.columns, err);
    if (rc == RC_OK)
        find_clock(stream);
    if (rc == RC_OK)
        rc = begin_changes(stream, from, err);
    if (rc == RC_OK)
        rc = position_mysql_open(&link, stream->options.mysql, stream->options.origin,
                                 db_server_kind(stream->db), from, &how, err);
    if (rc == RC_OK)
        set_link(stream, link);
    if (rc == RC_OK && stream->member.shared)
        shared_member_set_reader(&stream->member, true);
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

/* The log at the position is gone, or the server has never had it: nothing is skipped, an operator
 * decides. */
static enum rc name_commands(const struct stream_mysql *stream, struct err *err)
{
    const struct lane_settings *lane = stream->options.lane;
    char ways[LOST_LOG_TEXT_SIZE];
    struct err why = *err;

    lost_log_put_ways(ways, lane->name, table_cut_mysql_find_obstacle(stream->db, lane, true));
    /* The text of the server may be long, and is cut at its end. */
    return err_fail(err, RC_FATAL, why.code, "the server %s: %s: %s",
                    stream->refusal == BINLOG_REFUSAL_PURGED
                        ? "has purged the log behind the position of the lane"
                        : "does not have the position of the lane",
                    ways, why.text);
}

static uint64_t find_server(const struct stream_mysql *stream)
{
    return stream->options.origin ? origin_mysql_server(stream->options.origin) : 0;
}

/* Begins the shared stream where this one is. */
static enum rc begin_shared(struct stream_mysql *stream, int64_t silence_ms, struct err *err)
{
    const struct stream_sharing *sharing = &stream->options.sharing;
    const struct binlog_start how = {.server_id = sharing->server_id,
                                     .heartbeat_ms = stream->options.heartbeat_ms,
                                     .silence_ms = silence_ms,
                                     .event_bytes_max = EVENT_BYTES_MAX};
    const struct stream_position *between = &stream->between;
    bool mariadb = db_server_kind(stream->db) == DB_MARIADB;
    struct shared_link link = {0};
    struct shared_place place = {0};
    struct buf before = {0};
    uint64_t server = find_server(stream);
    enum rc rc;

    rc = shared_link_mysql_open(&link, stream->options.mysql, stream->options.origin,
                                db_server_kind(stream->db), between, &how, err);
    if (rc != RC_OK)
        return rc;
    shared_place_set(&place, &stream->changes);
    buf_put(&before, between->before.data, between->before.len);
    /* The lane's reader may have accepted another server meanwhile, while it ends this stream. */
    if (find_server(stream) != server)
        server = 0;
    rc = shared_stream_begin(sharing->shared, &link, server, mariadb, buf_text(&before), &place,
                             err);
    buf_done(&before);
    return rc;
}

/* Opens the shared stream if there is none, and the lane is so far. Without it each lane goes on
 * with a stream of its own, so that a failure needs no report. */
static void offer_shared(struct stream_mysql *stream, int64_t now_ms)
{
    struct shared_stream *shared = stream->options.sharing.shared;
    int64_t silence_ms = 0;
    struct err err = {0};
    enum rc rc;

    if (!log_end_is_near(&stream->end, now_ms) ||
        !shared_stream_claim(shared, now_ms, stream->options.silence_ms, &silence_ms))
        return;
    rc = write_position(stream, &stream->between, &err);
    stream->between.rows_done = 0;
    if (rc == RC_OK)
        rc = begin_shared(stream, silence_ms, &err);
    if (rc != RC_OK)
        shared_stream_give_up(shared, os_now_ms());
}

static void begin_membership(struct stream_mysql *stream)
{
    set_link(stream, NULL);
    stream->waits = false;
    set_joined(stream, true);
    if (stream->options.lane)
        log_event(LOG_INFO, "stream_joined", "lane=%s", stream->options.lane->name);
}

/* Asks to join. Returns false when the lane has to ask again before it reads on. */
static bool ask_to_join(struct stream_mysql *stream)
{
    int64_t now_ms = os_now_ms();

    if (!joining_is_due(&stream->joining, &stream->changes, now_ms))
        return true;
    switch (joining_ask(&stream->joining, &stream->changes, find_server(stream), now_ms)) {
    case JOINING_READ_ON:
        return true;
    case JOINING_REFUSED:
        offer_shared(stream, now_ms);
        return true;
    case JOINING_JOINED:
        begin_membership(stream);
        return true;
    case JOINING_WAIT:
        break;
    }
    shared_member_pause(&stream->member);
    return false;
}

static enum rc give_own_event(struct stream_mysql *stream, bool *nothing, struct err *err)
{
    const void *event = NULL;
    size_t len = 0;
    bool waits = stream->waits;
    int64_t since_ms = waits ? os_now_ms() : 0;
    enum rc rc;

    if (stream->ended || (!stream->waits && !binlog_link_ready(stream->link))) {
        *nothing = stream->waits = true;
        note_end(stream);
        return RC_OK;
    }
    stream->waits = false;
    rc = binlog_link_next(stream->link, &event, &len, err);
    stream->refusal = binlog_link_refusal(stream->link);
    if (stream->refusal == BINLOG_REFUSAL_REPLACED && err)
        return name_server_id(stream, err);
    if ((stream->refusal == BINLOG_REFUSAL_PURGED || stream->refusal == BINLOG_REFUSAL_AHEAD) &&
        err && stream->options.lane)
        return name_commands(stream, err);
    if (rc != RC_OK) {
        silence_note_failure(&stream->silence, binlog_link_was_silent(stream->link));
        return rc;
    }
    stream->now_ms = os_wall_ms();
    stream->ended = *nothing = event == NULL;
    if (!event)
        return RC_OK;
    if (waits)
        log_end_note_wait(&stream->end, &stream->changes, since_ms, os_now_ms());
    rc = change_stream_give(&stream->changes, event, len, err);
    if (rc == RC_OK)
        log_end_note_event(&stream->end, &stream->changes.event, os_now_ms() + stream->ahead_ms);
    if (rc == RC_OK && !silence_is_before_search(&stream->changes.event))
        silence_note_found(&stream->silence);
    return rc;
}

/* Servers go on to send heartbeats of a log that RESET has deleted, and nothing of the log that
 * begins then; MariaDB only if it begins with a file of the same name. While nothing comes, the
 * server must have all transactions that came. An event comes before its commit, which may wait for
 * semi-synchronous replicas, so it has to lack them twice. Opening the stream again then makes the
 * server say what it lacks. */
static enum rc check_written(struct stream_mysql *stream, struct err *err)
{
    struct stream_position position = {0};
    int64_t now_ms = os_wall_ms();
    enum rc rc;

    if (stream->changes.state != CHANGE_OUTSIDE || now_ms - stream->checked_ms < WRITTEN_CHECK_MS)
        return RC_OK;
    stream->checked_ms = now_ms;
    rc = write_position(stream, &position, NULL);
    if (rc == RC_OK)
        rc = position_mysql_check_sent(stream->db, &position, NULL);
    buf_done(&position.before);
    if (rc == RC_OK)
        stream->lacks = 0;
    /* Without an answer the next one counts. */
    if (rc != RC_REJECT || ++stream->lacks < WRITTEN_LACKS_MAX)
        return RC_OK;
    if (stream->joined)
        shared_member_report_gone(&stream->member);
    return err_fail(err, RC_RETRY, 0,
                    "the server lacks transactions that its binary log had: the log was deleted "
                    "or begun anew");
}

/* The lane has taken its last whole transaction, and goes on behind it. */
static enum rc read_alone(struct stream_mysql *stream, struct err *err)
{
    enum rc rc;

    assert(stream->changes.state == CHANGE_OUTSIDE);
    if (stream->options.lane)
        log_event(LOG_INFO, "stream_left", "lane=%s text=\"the lane is slower than the log grows\"",
                  stream->options.lane->name);
    rc = write_position(stream, &stream->between, err);
    stream->between.rows_done = 0;
    joining_hold_off(&stream->joining, os_now_ms());
    return rc == RC_OK ? open_stream(stream, &stream->between, err) : rc;
}

static bool take_shared_event(struct stream_mysql *stream)
{
    struct queued_event queued;

    if (!shared_member_take(&stream->member, &queued))
        return false;
    stream->waits = false;
    stream->now_ms = os_wall_ms();
    change_stream_take(&stream->changes, &queued.event, queued.begin, queued.end);
    return true;
}

static enum rc give_shared_event(struct stream_mysql *stream, bool *nothing, struct err *err)
{
    enum shared_state state;
    enum rc rc = RC_OK;

    if (take_shared_event(stream))
        return RC_OK;
    if (shared_member_has_ended(&stream->member, &state, &rc, err)) {
        if (state == SHARED_FULL)
            return read_alone(stream, err);
        /* A connection of the lane's own tells what the server refuses it, and what to do. */
        return rc == RC_FATAL ? RC_RETRY : rc;
    }
    if (!stream->waits) {
        *nothing = stream->waits = true;
        note_end(stream);
        return RC_OK;
    }
    if (!shared_member_wait(&stream->member))
        return err_fail(err, RC_RETRY, 0, "reading the stream was interrupted");
    *nothing = !take_shared_event(stream);
    if (!*nothing)
        return RC_OK;
    note_end(stream);
    return check_written(stream, err);
}

/* *nothing: the event would have to be waited for. */
static enum rc give_event(struct stream_mysql *stream, bool *nothing, struct err *err)
{
    if (stream->member.shared && !stream->joined && stream->changes.state == CHANGE_OUTSIDE &&
        !ask_to_join(stream)) {
        stream->at_end = false;
        *nothing = true;
        return RC_OK;
    }
    return stream->joined ? give_shared_event(stream, nothing, err)
                          : give_own_event(stream, nothing, err);
}

static enum rc make_row(struct stream_mysql *stream, const struct change *change,
                        struct relay_row *row, struct err *err)
{
    const struct change_stream *changes = &stream->changes;
    enum rc rc = RC_OK;

    /* MySQL sends a statement that changes the table before it is committed, for example while the
     * commit waits for a replica, and until then information_schema has the definition of before.
     * A row of the new one is written only after the commit. */
    if (stream->was_altered)
        rc = read_definition(stream, NULL, err);
    if (rc == RC_OK)
        stream->was_altered = false;
    if (rc == RC_OK && changes->table_version != stream->version)
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

static enum rc take_heartbeat(struct stream_mysql *stream, struct err *err)
{
    if (!stream->joined)
        joining_note_heartbeat(&stream->joining, &stream->changes);
    note_end(stream);
    return check_written(stream, err);
}

/* The time of each event is not read: only that of a new one to report. */
static void note_ignored(struct stream_mysql *stream)
{
    struct ignored_changes *ignored = stream->options.ignored;

    if (ignored && ignored_changes_any(ignored, &stream->changes.counts))
        ignored_changes_note(ignored, &stream->changes.counts, stream->changes.file,
                             stream->changes.offset, os_now_ms());
}

static enum rc read_change(void *ctx, struct stream_change *out, struct err *err)
{
    struct stream_mysql *stream = ctx;
    struct change change = {0};
    bool counts_only = out->counts_only;
    enum rc rc = RC_OK;

    memset(out, 0, sizeof(*out));
    if (!stream->link && !stream->joined)
        return err_fail(err, RC_RETRY, 0, "the stream is not open");
    while (rc == RC_OK) {
        bool nothing = false;

        rc = change_stream_next(&stream->changes, &change, err);
        if (rc != RC_OK)
            return rc;
        out->number = change.row;
        switch (change.kind) {
        case CHANGE_WANTS_EVENT:
            note_ignored(stream);
            rc = give_event(stream, &nothing, err);
            if (nothing)
                return rc;
            break;
        case CHANGE_IDLE:
            return take_heartbeat(stream, err);
        case CHANGE_ROW:
            out->kind = STREAM_ROW;
            return counts_only ? RC_OK : make_row(stream, &change, &out->row, err);
        case CHANGE_COMMIT:
            out->kind = STREAM_COMMIT;
            out->emptied = change.emptied;
            return RC_OK;
        case CHANGE_UNDO:
            out->kind = STREAM_UNDO;
            return RC_OK;
        case CHANGE_CUT:
            out->kind = STREAM_CUT;
            return RC_OK;
        case CHANGE_DEFINITION:
            stream->was_altered = true;
            rc = read_definition(stream, NULL, err);
            break;
        }
    }
    return rc;
}

static bool is_at_end(void *ctx)
{
    const struct stream_mysql *stream = ctx;

    return stream->at_end;
}

static enum rc init_sharing(struct stream_mysql *stream, struct err *err)
{
    const struct stream_sharing *sharing = &stream->options.sharing;

    if (!sharing->shared)
        return RC_OK;
    joining_init(&stream->joining, &stream->member);
    return shared_member_init(&stream->member, sharing->shared, stream->options.schema,
                              stream->options.table, sharing->queue_bytes, err);
}

static bool is_purged(void *ctx)
{
    const struct stream_mysql *stream = ctx;

    return stream->refusal == BINLOG_REFUSAL_PURGED;
}

enum rc stream_mysql_make(struct stream_mysql **out, const struct stream_mysql_options *options,
                          struct err *err)
{
    struct stream_mysql *stream = calloc(1, sizeof(*stream));
    enum rc rc;

    if (!stream)
        return err_fail(err, RC_FATAL, 0, "no memory for a stream");
    stream->options = *options;
    add_headers(&stream->columns, options->headers, options->header_count);
    stream->columns.blank_is_null = options->blank_is_null;
    pthread_mutex_init(&stream->lock, NULL);
    rc = db_open(&stream->db, options->mysql, err);
    if (rc == RC_OK && options->origin)
        origin_mysql_guard(options->origin, stream->db);
    if (rc == RC_OK)
        rc = change_stream_init(&stream->changes, options->schema, options->table, EVENT_BYTES_MAX,
                                err);
    if (rc == RC_OK)
        rc = init_sharing(stream, err);
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
    shared_member_done(&stream->member);
    buf_done(&stream->between.before);
    db_close(stream->db);
    pthread_mutex_destroy(&stream->lock);
    change_stream_done(&stream->changes);
    outbox_columns_done(&stream->columns);
    outbox_definition_done(&stream->definition);
    free(stream);
}

struct stream_ops stream_mysql_ops(struct stream_mysql *stream)
{
    return (struct stream_ops){
        .ctx = stream,
        .open = open_stream,
        .next = read_change,
        .position = write_position,
        .close = close_stream,
        .interrupt = interrupt_stream,
        .purged = is_purged,
        .is_at_end = is_at_end,
    };
}

struct stream_place stream_mysql_place(const struct stream_mysql *stream)
{
    const struct change_stream *changes = &stream->changes;

    return (struct stream_place){
        .file = changes->group_file,
        .begin = changes->group_begin,
        .body_begin = changes->body_begin,
        .events = changes->events,
        .event_rows = changes->event_rows,
        .read_end = changes->end,
        .gtid = &changes->gtid,
        .time_s = changes->group_time_s,
        .file_time_s = changes->file_time_s,
    };
}

static struct stream_place get_place(void *ctx)
{
    return stream_mysql_place(ctx);
}

static bool has_ended(void *ctx)
{
    return stream_mysql_has_ended(ctx);
}

struct stream_log stream_mysql_log(struct stream_mysql *stream)
{
    return (struct stream_log){stream_mysql_ops(stream), stream, get_place, has_ended};
}

bool stream_mysql_has_ended(const struct stream_mysql *stream)
{
    return stream->ended;
}

enum binlog_refusal stream_mysql_refusal(const struct stream_mysql *stream)
{
    return stream->refusal;
}
