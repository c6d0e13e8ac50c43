/* SPDX-License-Identifier: MIT */
#include "outbox/relay/shared/shared_stream.h"

#include "common/os.h"
#include "outbox/relay/binlog/cursor.h"
#include "outbox/relay/binlog/statement.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* As servers allow for one event. */
#define EVENT_BYTES_MAX ((size_t)1 << 30)

#define EVENTS_PER_STEP 1000

/* A stream that could not be opened, or has ended, is not opened again before that. */
#define RETRY_MS 5000

/* A stream without members is closed: lanes that read again from an earlier row soon return. It
 * counts from where lanes can join, for the search of the begin may take long. */
#define LONELY_MS 10000
/* A stream that no lane has joined for so long is too far behind them; one of them opens another.
 */
#define CATCH_UP_MS 120000

/* A lane whose table is not written is woken once in so long while the log grows, so that its
 * position moves. */
#define SHORT_WAIT_MS 100
#define LONG_WAIT_MS 2000

#define PAUSE_MS 5

/* What the thread of a lane waits for. */
enum shared_wait {
    WAITS_NOT,
    WAITS_FOR_ROWS,  /* and an end of the membership */
    WAITS_FOR_EVENT, /* of any kind */
};

/* Both threads look at what the other one writes after they have written, so one of them sees the
 * other (sequential consistency): either the member sees the event, or it is woken. */
static void wake_member(struct shared_member *member, enum shared_wait news)
{
    int waits = atomic_load(&member->waits);

    if (waits != WAITS_NOT && waits >= (int)news)
        wakeup_signal(&member->wakeup);
}

/* With the lock. */
static void end_membership(struct shared_member *member, enum shared_state state)
{
    struct shared_stream *shared = member->shared;
    size_t at = 0;

    while (at < shared->member_count && shared->members[at] != member)
        at++;
    if (at == shared->member_count)
        return;
    shared->members[at] = shared->members[--shared->member_count];
    atomic_store(&member->state, (int)state);
    wake_member(member, WAITS_FOR_ROWS);
}

/* A member without room for the event keeps the transactions that are whole. */
static void put_event(struct shared_member *member, const struct binlog_event *event)
{
    const struct change_stream *changes = &member->shared->changes;
    const struct queued_event queued = {*event, changes->begin, changes->end};

    if (!event_queue_put(&member->queue, &queued))
        end_membership(member, SHARED_FULL);
}

static bool is_fed(const struct shared_member *member)
{
    return atomic_load(&member->state) == SHARED_FED;
}

/* Calls put for each member that is fed. It may end the membership, which moves the last one to its
 * place. */
static void for_each_fed(struct shared_stream *shared, const struct binlog_event *event,
                         void (*put)(struct shared_member *, const struct binlog_event *))
{
    for (size_t i = shared->member_count; i > 0; i--)
        if (is_fed(shared->members[i - 1]))
            put(shared->members[i - 1], event);
}

static void publish(struct shared_member *member, enum shared_wait news)
{
    event_queue_publish(&member->queue);
    if (member->news == WAITS_NOT || (int)news < member->news)
        member->news = (int)news;
    member->shared->has_news = true;
}

static void publish_event(struct shared_member *member, const struct binlog_event *event)
{
    (void)event;
    publish(member, WAITS_FOR_EVENT);
}

/* After it is known whether this was the end of the log, which the lanes look at. */
static void wake_members(struct shared_stream *shared)
{
    for (size_t i = 0; i < shared->member_count; i++) {
        struct shared_member *member = shared->members[i];

        if (member->news != WAITS_NOT)
            wake_member(member, (enum shared_wait)member->news);
        member->news = WAITS_NOT;
    }
    shared->has_news = false;
}

static void put_gtid(struct shared_member *member, const struct binlog_event *event)
{
    member->concerned = false;
    put_event(member, event);
    member->behind_gtid = event_queue_mark(&member->queue);
}

static void put_last(struct shared_member *member, const struct binlog_event *event)
{
    put_event(member, event);
    member->has_last = true;
}

static void put_concerning(struct shared_member *member, const struct binlog_event *event)
{
    member->concerned = true;
    put_last(member, event);
}

/* Ids of tables begin again with the file of a start of the server. */
static void put_format(struct shared_member *member, const struct binlog_event *event)
{
    member->has_map = false;
    put_event(member, event);
}

static bool is_text(const char *text, const char *bytes, size_t len)
{
    return strlen(text) == len && memcmp(text, bytes, len) == 0;
}

static void put_map(struct shared_member *member, const struct binlog_event *event)
{
    struct binlog_table table;
    bool is_ours;

    /* The stream fails with the reason. */
    if (binlog_table_parse_name(&table, event, NULL) != RC_OK)
        return;
    is_ours = is_text(member->schema, table.schema, table.schema_len) &&
              is_text(member->table, table.name, table.name_len);
    if (is_ours) {
        member->has_map = true;
        member->map_id = table.id;
        put_concerning(member, event);
    } else if (member->has_map && member->map_id == table.id) {
        member->has_map = false;
    }
}

static void put_rows(struct shared_member *member, const struct binlog_event *event)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);

    if (member->has_map && cursor_le(&cursor, BINLOG_TABLE_ID_SIZE) == member->map_id)
        put_concerning(member, event);
}

/* Updates are counted only: the rows, which may be many, are left out. */
static void put_update(struct shared_member *member, const struct binlog_event *event)
{
    struct binlog_event id = *event;

    if (id.body_len > BINLOG_TABLE_ID_SIZE)
        id.body_len = BINLOG_TABLE_ID_SIZE;
    put_rows(member, &id);
}

/* A statement that is only counted: its text, which may be long, is left out. It may be a
 * transaction by itself, whose end this event is not. */
static void put_statement(struct shared_member *member, const struct binlog_event *event)
{
    struct binlog_event empty = *event;

    empty.type = BINLOG_EXECUTE_LOAD_QUERY;
    empty.body_len = 0;
    member->concerned = true;
    put_event(member, &empty);
}

/* To the members whose tables the text names, and to the others that there was one. */
static void share_data(struct shared_stream *shared, const struct binlog_event *event,
                       const struct binlog_query *query)
{
    bool counts = !statement_changes_system_table(query);

    for (size_t i = shared->member_count; i > 0; i--) {
        struct shared_member *member = shared->members[i - 1];

        if (is_fed(member) && statement_may_change(query, member->schema, member->table))
            put_concerning(member, event);
        else if (is_fed(member) && counts)
            put_statement(member, event);
    }
}

/* To the members whose tables the text names. */
static void share_definition(struct shared_stream *shared, const struct binlog_event *event,
                             const struct binlog_query *query)
{
    for (size_t i = shared->member_count; i > 0; i--) {
        struct shared_member *member = shared->members[i - 1];

        if (is_fed(member) && statement_names(query, member->table))
            put_concerning(member, event);
    }
}

static void share_query(struct shared_stream *shared, const struct binlog_event *event)
{
    struct binlog_query query;
    struct statement statement;

    if (binlog_query_parse(&query, event, &shared->expanded, NULL) != RC_OK)
        return;
    statement_parse(&statement, &query);
    if (statement.kind == STATEMENT_OTHER)
        share_definition(shared, event, &query);
    else if (statement.kind == STATEMENT_DATA)
        share_data(shared, event, &query);
    else
        for_each_fed(shared, event, put_last);
}

static void share_load(struct shared_stream *shared, const struct binlog_event *event)
{
    const struct binlog_query query = {.text = (const char *)event->body,
                                       .text_len = event->body_len};

    share_data(shared, event, &query);
}

/* Between two transactions an event goes to the members at once. Inside of one it may cut it off,
 * and then a member needs the begin of it, too. */
static void share_between(struct shared_stream *shared, const struct binlog_event *event,
                          void (*put)(struct shared_member *, const struct binlog_event *))
{
    for_each_fed(shared, event, put);
    if (shared->changes.state == CHANGE_OUTSIDE)
        for_each_fed(shared, event, publish_event);
    else
        for (size_t i = 0; i < shared->member_count; i++)
            shared->members[i]->concerned = true;
}

/* Puts the event where it is needed, before the stream handles it. What is unknown makes the stream
 * fail, and so does a GTID at a wrong place. */
static void share_event(void *ctx, const struct binlog_event *event)
{
    struct shared_stream *shared = ctx;

    for (size_t i = 0; i < shared->member_count; i++)
        shared->members[i]->has_last = false;
    switch (event->type) {
    case BINLOG_HEARTBEAT:
    case BINLOG_HEARTBEAT_2:
        if (shared->changes.state == CHANGE_OUTSIDE)
            share_between(shared, event, put_event);
        break;
    case BINLOG_ROTATE:
        share_between(shared, event, put_event);
        break;
    case BINLOG_FORMAT:
        share_between(shared, event, put_format);
        break;
    case BINLOG_GTID:
    case BINLOG_GTID_TAGGED:
    case BINLOG_ANONYMOUS_GTID:
    case BINLOG_MARIADB_GTID:
        for_each_fed(shared, event, put_gtid);
        break;
    case BINLOG_QUERY:
    case BINLOG_QUERY_COMPRESSED:
        share_query(shared, event);
        break;
    case BINLOG_EXECUTE_LOAD_QUERY:
        share_load(shared, event);
        break;
    case BINLOG_XID:
    case BINLOG_XA_PREPARE:
        for_each_fed(shared, event, put_last);
        break;
    case BINLOG_TABLE_MAP:
        for_each_fed(shared, event, put_map);
        break;
    case BINLOG_WRITE_ROWS_1:
    case BINLOG_WRITE_ROWS:
    case BINLOG_WRITE_ROWS_COMPRESSED_1:
    case BINLOG_WRITE_ROWS_COMPRESSED:
        for_each_fed(shared, event, put_rows);
        break;
    case BINLOG_UPDATE_ROWS_1:
    case BINLOG_UPDATE_ROWS:
    case BINLOG_UPDATE_ROWS_COMPRESSED_1:
    case BINLOG_UPDATE_ROWS_COMPRESSED:
    case BINLOG_PARTIAL_UPDATE_ROWS:
        for_each_fed(shared, event, put_update);
        break;
    default:
        break;
    }
}

/* Of a transaction that does not concern a member the GTID and an end are left, whatever its end
 * was: it has no row of the member. */
static void end_transaction(struct shared_member *member, const struct binlog_event *event)
{
    if (!member->concerned)
        event_queue_cut(&member->queue, member->behind_gtid);
    if (!member->concerned || !member->has_last)
        put_event(member, event);
    if (is_fed(member))
        publish(member, member->concerned ? WAITS_FOR_ROWS : WAITS_FOR_EVENT);
}

static void take_commit(struct shared_stream *shared, uint32_t time_s)
{
    const struct binlog_event end = {.time_s = time_s, .type = BINLOG_XID};

    for_each_fed(shared, &end, end_transaction);
    shared_place_set(&shared->place, &shared->changes);
    for (size_t i = 0; i < shared->member_count; i++) {
        struct shared_member *member = shared->members[i];

        if (is_fed(member))
            continue;
        member->begin = shared->place;
        atomic_store(&member->state, SHARED_FED);
    }
}

/* With the lock. */
static enum rc take_event(struct shared_stream *shared, const void *bytes, size_t len,
                          struct err *err)
{
    struct change_stream *changes = &shared->changes;
    struct change change = {0};
    enum rc rc = change_stream_give(changes, bytes, len, err);

    if (rc == RC_OK && !silence_is_before_search(&changes->event))
        silence_note_found(&shared->silence);
    if (rc == RC_OK)
        log_end_note_event(&shared->end, &changes->event,
                           os_now_ms() + atomic_load(&shared->ahead_ms));
    while (rc == RC_OK) {
        rc = change_stream_next(changes, &change, err);
        if (rc != RC_OK || change.kind == CHANGE_WANTS_EVENT)
            return rc;
        /* Only this says that the server has nothing more: in the middle of its log it may send
         * more slowly than the stream reads. */
        if (change.kind == CHANGE_IDLE && shared->end.found)
            shared->caught_up = true;
        if (change.kind == CHANGE_COMMIT)
            take_commit(shared, change.time_s);
        else if (change.kind == CHANGE_CUT)
            for_each_fed(shared, &changes->event, publish_event);
    }
    return rc;
}

/* *ready: there is another one. */
static enum rc read_event(struct shared_stream *shared, bool *ready, struct err *err)
{
    const void *event = NULL;
    size_t len = 0;
    enum rc rc = shared->link.next(shared->link.ctx, &event, &len, err);

    if (rc != RC_OK)
        return rc;
    pthread_mutex_lock(&shared->lock);
    rc = take_event(shared, event, len, err);
    if (shared->changes.state == CHANGE_OUTSIDE)
        shared_place_set(&shared->place, &shared->changes);
    pthread_mutex_unlock(&shared->lock);
    if (rc != RC_OK)
        return rc;
    *ready = shared->link.ready(shared->link.ctx);
    if (shared->changes.state == CHANGE_OUTSIDE)
        atomic_store(&shared->is_at_end,
                     log_end_is_reached(&shared->end, &shared->changes, *ready));
    if (!shared->has_news)
        return RC_OK;
    pthread_mutex_lock(&shared->lock);
    wake_members(shared);
    pthread_mutex_unlock(&shared->lock);
    return RC_OK;
}

/* Closes the link, and tells the members why. Those that will open a stream of their own meanwhile
 * need not wait for it. */
static void end_stream(struct shared_stream *shared, int64_t now_ms, enum rc rc, bool was_silent,
                       const struct err *err)
{
    struct err why = *err;
    struct shared_link link;

    pthread_mutex_lock(&shared->lock);
    link = shared->link;
    if (shared->gone)
        err_set(&why, "shared stream: the server has begun its binary log anew");
    shared->reads = false;
    shared->retry_ms = now_ms + RETRY_MS;
    silence_note_failure(&shared->silence, was_silent);
    while (shared->member_count > 0) {
        struct shared_member *member = shared->members[shared->member_count - 1];

        member->rc = rc;
        member->err = why;
        end_membership(member, SHARED_FAILED);
    }
    pthread_mutex_unlock(&shared->lock);
    link.close(link.ctx);
}

/* *unused: it has had no member for long, or its log is gone. */
static bool is_reading(struct shared_stream *shared, int64_t now_ms, bool *stopping, bool *unused)
{
    bool reads;

    pthread_mutex_lock(&shared->lock);
    reads = shared->reads;
    *stopping = shared->stopping;
    if (!shared->end.found)
        shared->found_ms = 0;
    else if (shared->found_ms == 0)
        shared->found_ms = now_ms;
    else if (now_ms - shared->found_ms > CATCH_UP_MS)
        shared->caught_up = true;
    /* No lane can join before. */
    if (shared->member_count > 0 || !shared->caught_up)
        shared->lonely_ms = 0;
    else if (shared->lonely_ms == 0)
        shared->lonely_ms = now_ms;
    *unused = shared->gone || (shared->lonely_ms > 0 && now_ms - shared->lonely_ms > LONELY_MS);
    pthread_mutex_unlock(&shared->lock);
    return reads;
}

int64_t shared_stream_step(void *arg, int64_t now_ms)
{
    struct shared_stream *shared = arg;
    struct err err = {0};
    bool stopping;
    bool unused;
    bool ready = true;
    enum rc rc = RC_OK;

    if (!is_reading(shared, now_ms, &stopping, &unused))
        return stopping ? LOOP_END : LOOP_WAKEUP;
    if (stopping || unused) {
        err_set(&err, "the shared stream of the binary log has ended");
        end_stream(shared, now_ms, RC_RETRY, false, &err);
        return stopping ? LOOP_END : LOOP_WAKEUP;
    }
    for (size_t i = 0; rc == RC_OK && ready && i < EVENTS_PER_STEP; i++)
        rc = read_event(shared, &ready, &err);
    if (rc == RC_OK)
        return 0;
    err_wrap(&err, "shared stream");
    end_stream(shared, now_ms, rc, shared->link.was_silent(shared->link.ctx), &err);
    return 0;
}

enum rc shared_stream_init(struct shared_stream *shared, struct stop *stop, struct err *err)
{
    memset(shared, 0, sizeof(*shared));
    shared->stop = stop;
    pthread_mutex_init(&shared->lock, NULL);
    /* It has no table, so it finds no rows. */
    if (change_stream_init(&shared->changes, "", "", EVENT_BYTES_MAX, err) == RC_OK) {
        shared->changes.on_event = share_event;
        shared->changes.on_event_ctx = shared;
        return RC_OK;
    }
    pthread_mutex_destroy(&shared->lock);
    shared->stop = NULL;
    return RC_FATAL;
}

void shared_stream_done(struct shared_stream *shared)
{
    if (!shared->stop)
        return;
    assert(shared->member_count == 0);
    if (shared->reads)
        shared->link.close(shared->link.ctx);
    change_stream_done(&shared->changes);
    buf_done(&shared->expanded);
    pthread_mutex_destroy(&shared->lock);
    shared->stop = NULL;
}

void shared_stream_stop(struct shared_stream *shared)
{
    pthread_mutex_lock(&shared->lock);
    shared->stopping = true;
    if (shared->reads)
        shared->link.interrupt(shared->link.ctx);
    pthread_mutex_unlock(&shared->lock);
    if (shared->wake)
        shared->wake(shared->wake_ctx);
}

enum rc shared_member_init(struct shared_member *member, struct shared_stream *shared,
                           const char *schema, const char *table, size_t bytes, struct err *err)
{
    enum rc rc;

    memset(member, 0, sizeof(*member));
    rc = wakeup_init(&member->wakeup, err);
    if (rc != RC_OK)
        return rc;
    rc = event_queue_init(&member->queue, bytes, err);
    if (rc != RC_OK) {
        wakeup_done(&member->wakeup);
        return rc;
    }
    member->schema = schema;
    member->table = table;
    member->shared = shared;
    return RC_OK;
}

void shared_member_done(struct shared_member *member)
{
    if (!member->shared)
        return;
    shared_member_leave(member);
    shared_member_set_reader(member, false);
    event_queue_done(&member->queue);
    wakeup_done(&member->wakeup);
    member->shared = NULL;
}

void shared_member_set_reader(struct shared_member *member, bool is_reader)
{
    struct shared_stream *shared = member->shared;

    if (member->is_reader == is_reader)
        return;
    member->is_reader = is_reader;
    pthread_mutex_lock(&shared->lock);
    shared->readers = is_reader ? shared->readers + 1 : shared->readers - 1;
    pthread_mutex_unlock(&shared->lock);
}

bool shared_stream_claim(struct shared_stream *shared, int64_t now_ms, int64_t base_ms,
                         int64_t *silence_ms)
{
    bool claimed;

    pthread_mutex_lock(&shared->lock);
    claimed = !shared->claimed && !shared->reads && !shared->stopping && shared->readers > 1 &&
              now_ms >= shared->retry_ms;
    if (claimed) {
        *silence_ms = silence_choose_ms(&shared->silence, base_ms);
        shared->claimed = true;
    }
    pthread_mutex_unlock(&shared->lock);
    return claimed;
}

void shared_stream_set_clock(struct shared_stream *shared, int64_t ahead_ms)
{
    atomic_store(&shared->ahead_ms, ahead_ms);
}

void shared_stream_give_up(struct shared_stream *shared, int64_t now_ms)
{
    pthread_mutex_lock(&shared->lock);
    shared->claimed = false;
    shared->retry_ms = now_ms + RETRY_MS;
    pthread_mutex_unlock(&shared->lock);
}

enum rc shared_stream_begin(struct shared_stream *shared, const struct shared_link *link,
                            uint64_t server, bool mariadb, const char *before,
                            const struct shared_place *place, struct err *err)
{
    bool reads;
    enum rc rc;

    pthread_mutex_lock(&shared->lock);
    if (shared->reads)
        rc = err_fail(err, RC_RETRY, 0, "the stream is open");
    else if (server == 0)
        rc = err_fail(err, RC_RETRY, 0, "the server of the stream is not known");
    else
        rc = change_stream_begin(&shared->changes, mariadb, before, place->file, place->offset, 0,
                                 "", err);
    reads = rc == RC_OK && !shared->stopping;
    if (reads) {
        shared->link = *link;
        shared->place = *place;
        shared->server = server;
        shared->caught_up = shared->gone = false;
        atomic_store(&shared->is_at_end, false);
        shared->found_ms = 0;
        log_end_begin(&shared->end, place->file, place->offset, INT64_MAX);
        shared->lonely_ms = 0;
        shared->reads = true;
    }
    /* Another lane must not open it before the caller has given up. */
    if (rc == RC_OK)
        shared->claimed = false;
    pthread_mutex_unlock(&shared->lock);
    if (!reads)
        link->close(link->ctx);
    else if (shared->wake)
        shared->wake(shared->wake_ctx);
    return rc;
}

void shared_place_set(struct shared_place *place, const struct change_stream *changes)
{
    if (changes->has_last) {
        place->gtid = changes->last_gtid;
        place->group_begin = changes->last_group_begin;
        memcpy(place->group_file, changes->last_group_file, sizeof(place->group_file));
    }
    place->offset = changes->offset;
    memcpy(place->file, changes->file, sizeof(place->file));
}

/* Both are of one server, which gives each GTID once. It gives them again in a log that was begun
 * anew, and then hardly at the same place. A stream that begins by GTID in a file above 4 GiB may
 * not know the high bits of an offset. */
static bool is_same_place(const struct shared_place *one, const struct shared_place *other)
{
    const struct binlog_gtid *a = &one->gtid;
    const struct binlog_gtid *b = &other->gtid;

    if ((uint32_t)one->group_begin != (uint32_t)other->group_begin ||
        strcmp(one->group_file, other->group_file) != 0)
        return false;
    if (a->anonymous || b->anonymous)
        return a->anonymous == b->anonymous && one->group_begin == other->group_begin;
    return a->mariadb == b->mariadb && a->domain == b->domain && a->server_id == b->server_id &&
           a->sequence == b->sequence && memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
           strcmp(a->tag, b->tag) == 0;
}

/* Whether the stream has read the transaction before the place. */
static bool has_reached(const struct shared_stream *shared, const struct shared_place *place)
{
    int order;

    if (!place->gtid.anonymous)
        return gtid_set_has(&shared->changes.before, &place->gtid);
    order = log_end_compare_files(place->group_file, shared->place.group_file);
    return order < 0 || (order == 0 && place->group_begin <= shared->place.group_begin);
}

/* The part of the log between the lane and the stream is small against the queue of the lane. */
static bool is_near(const struct shared_member *member, const struct shared_place *own)
{
    const struct change_stream *changes = &member->shared->changes;
    uint64_t distance =
        changes->end >= own->offset ? changes->end - own->offset : own->offset - changes->end;

    if (is_same_place(&member->shared->place, own))
        return true;
    return strcmp(own->file, changes->file) == 0 && distance <= member->queue.size / 2;
}

static void become_member(struct shared_member *member)
{
    struct shared_stream *shared = member->shared;

    event_queue_reset(&member->queue);
    member->has_map = member->concerned = member->has_last = false;
    member->behind_gtid = 0;
    member->is_quiet = false;
    member->news = WAITS_NOT;
    shared->members[shared->member_count++] = member;
    shared->caught_up = true;
    if (shared->changes.state == CHANGE_OUTSIDE) {
        member->begin = shared->place;
        atomic_store(&member->state, SHARED_FED);
    } else {
        atomic_store(&member->state, SHARED_PENDING);
    }
}

static enum shared_answer ask_to_be_fed(struct shared_member *member, uint64_t server,
                                        const struct shared_place *own)
{
    const struct shared_stream *shared = member->shared;

    if (!shared->reads || !shared->end.found || shared->server != server ||
        shared->member_count == SHARED_MEMBERS_MAX)
        return SHARED_REFUSED;
    if (!is_near(member, own))
        return SHARED_REFUSED;
    if (!has_reached(shared, own))
        return SHARED_WAIT;
    become_member(member);
    return SHARED_READ_ON;
}

/* Both are between the same two transactions, which may be in two files. A stream that began by
 * GTID does not know its offset before its first transaction. */
static void move_place(struct shared_place *own, const struct shared_place *begin)
{
    if (strcmp(own->file, begin->file) != 0) {
        memcpy(own->file, begin->file, sizeof(own->file));
        own->offset = begin->offset;
    } else if (own->offset < begin->offset) {
        own->offset = begin->offset;
    }
}

enum shared_answer shared_member_join(struct shared_member *member, uint64_t server,
                                      struct shared_place *own)
{
    struct shared_stream *shared = member->shared;
    enum shared_answer answer = SHARED_READ_ON;
    enum shared_state state;

    pthread_mutex_lock(&shared->lock);
    if (atomic_load(&member->state) == SHARED_APART)
        answer = ask_to_be_fed(member, server, own);
    state = (enum shared_state)atomic_load(&member->state);
    if (state == SHARED_FULL || state == SHARED_FAILED) {
        atomic_store(&member->state, SHARED_APART);
        answer = SHARED_REFUSED;
    } else if (state == SHARED_FED && is_same_place(&member->begin, own)) {
        move_place(own, &member->begin);
        answer = SHARED_JOINED;
    } else if (state == SHARED_PENDING && is_same_place(&shared->place, own)) {
        /* The lane must not pass the place behind which it will be fed. */
        answer = SHARED_WAIT;
    }
    pthread_mutex_unlock(&shared->lock);
    return answer;
}

bool shared_member_take(struct shared_member *member, struct queued_event *queued)
{
    if (!event_queue_take(&member->queue, queued))
        return false;
    member->is_quiet = false;
    return true;
}

/* The state is read before the queue: what was put before the end is taken first. */
bool shared_member_has_ended(struct shared_member *member, enum shared_state *state, enum rc *rc,
                             struct err *err)
{
    enum shared_state now = (enum shared_state)atomic_load(&member->state);

    if ((now != SHARED_FULL && now != SHARED_FAILED) || event_queue_has(&member->queue))
        return false;
    *state = now;
    if (now == SHARED_FAILED) {
        *rc = member->rc;
        *err = member->err;
    }
    return true;
}

static bool has_work(struct shared_member *member)
{
    int state = atomic_load(&member->state);

    return event_queue_has(&member->queue) || atomic_load(&member->interrupted) ||
           (state != SHARED_FED && state != SHARED_PENDING);
}

bool shared_member_wait(struct shared_member *member)
{
    bool is_long = member->is_quiet;

    atomic_store(&member->waits, is_long ? WAITS_FOR_EVENT : WAITS_FOR_ROWS);
    if (!has_work(member))
        wakeup_wait(&member->wakeup, member->shared->stop, is_long ? LONG_WAIT_MS : SHORT_WAIT_MS);
    atomic_store(&member->waits, WAITS_NOT);
    member->is_quiet = true;
    return !atomic_load(&member->interrupted);
}

void shared_member_pause(struct shared_member *member)
{
    wakeup_wait(&member->wakeup, member->shared->stop, PAUSE_MS);
}

bool shared_member_is_at_end(const struct shared_member *member)
{
    return atomic_load(&member->shared->is_at_end);
}

void shared_member_report_gone(struct shared_member *member)
{
    struct shared_stream *shared = member->shared;
    int state;

    pthread_mutex_lock(&shared->lock);
    state = atomic_load(&member->state);
    if (shared->reads && (state == SHARED_FED || state == SHARED_PENDING)) {
        shared->gone = true;
        shared->link.interrupt(shared->link.ctx);
    }
    pthread_mutex_unlock(&shared->lock);
}

void shared_member_leave(struct shared_member *member)
{
    struct shared_stream *shared = member->shared;

    pthread_mutex_lock(&shared->lock);
    end_membership(member, SHARED_APART);
    atomic_store(&member->state, SHARED_APART);
    event_queue_reset(&member->queue);
    pthread_mutex_unlock(&shared->lock);
}

void shared_member_interrupt(struct shared_member *member)
{
    atomic_store(&member->interrupted, true);
    wakeup_signal(&member->wakeup);
}

void shared_member_resume(struct shared_member *member)
{
    atomic_store(&member->interrupted, false);
}
