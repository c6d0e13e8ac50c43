/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/takeover.h"

#include "common/log.h"
#include "outbox/relay/fallback/lost_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void takeover_init(struct takeover *takeover)
{
    memset(takeover, 0, sizeof(*takeover));
    takeover->saved_row = -1;
    takeover->is_open = true;
    pthread_mutex_init(&takeover->lock, NULL);
}

void takeover_done(struct takeover *takeover)
{
    if (!takeover->is_open)
        return;
    position_record_done(&takeover->record);
    buf_done(&takeover->saved.before);
    pthread_mutex_destroy(&takeover->lock);
    takeover->is_open = false;
}

void takeover_ask_read(struct takeover *takeover)
{
    pthread_mutex_lock(&takeover->lock);
    takeover->asked++;
    takeover->order = TAKEOVER_READ;
    takeover->saved_row = -1;
    pthread_mutex_unlock(&takeover->lock);
}

enum rc takeover_ask_write(struct takeover *takeover, const struct position_record *record,
                           int64_t row, struct err *err)
{
    bool copied;

    pthread_mutex_lock(&takeover->lock);
    copied = position_record_copy(&takeover->record, record);
    if (copied) {
        takeover->asked++;
        takeover->order = TAKEOVER_WRITE;
        takeover->row = row;
    }
    pthread_mutex_unlock(&takeover->lock);
    return copied ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory for a position");
}

bool takeover_take_answer(struct takeover *takeover, struct position_record *record, bool *found,
                          enum rc *rc, struct err *err)
{
    bool answered;

    pthread_mutex_lock(&takeover->lock);
    answered = takeover->answered == takeover->asked;
    if (answered) {
        *rc = takeover->rc;
        *err = takeover->err;
        *found = takeover->found;
    }
    if (answered && *rc == RC_OK && !position_record_copy(record, &takeover->record))
        *rc = err_fail(err, RC_FATAL, 0, "no memory for a position");
    pthread_mutex_unlock(&takeover->lock);
    return answered;
}

/* Rows are counted in the order of one log. In that of another server they may have another order,
 * or be missing: then they are published again. */
static enum rc check_server(struct position_record *record, const char *server, const char *lane,
                            struct err *err)
{
    struct stream_position *position = &record->position;

    if (strcmp(position->server, server) == 0)
        return RC_OK;
    if (!position->by_gtid)
        return err_fail(err, RC_FATAL, 0,
                        "the position of lane %s in Kafka is file %.80s and offset %" PRIu64
                        " in the binary log of server %.64s, but this is server %.64s: connect to "
                        "that server again, or say that all rows are published with `tallybox "
                        "lanes begin %s --replace-position`",
                        lane, position->file, position->offset, position->server,
                        server[0] ? server : "(unknown)", lane);
    if (record->rows > 0)
        log_event(LOG_WARN, "rows_repeated",
                  "lane=%s rows=%" PRIu64 " text=\"the binary log is of another server\"", lane,
                  record->rows);
    record->rows = 0;
    snprintf(position->server, sizeof(position->server), "%s", server);
    return RC_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static uint64_t read_digits(const char **at, const char *end)
{
    uint64_t number = 0;

    for (; *at < end && is_digit(**at); (*at)++)
        number = number * 10 + (uint64_t)(**at - '0');
    return number;
}

/* MySQL, UUID:TAG:1-5:7: how many transactions there are. MariaDB, DOMAIN-SERVER-SEQUENCE: the
 * sequence. */
static uint64_t count_source(const char *at, const char *end)
{
    bool is_mysql = memchr(at, ':', (size_t)(end - at)) != NULL;
    uint64_t count = 0;

    for (; at < end; at++) {
        uint64_t from;

        if (*at != (is_mysql ? ':' : '-') || at + 1 == end || !is_digit(at[1]))
            continue;
        at++;
        from = read_digits(&at, end);
        if (!is_mysql)
            count = from;
        else if (at < end && *at == '-' && at++)
            count += read_digits(&at, end) - from + 1;
        else
            count++;
        at--;
    }
    return count;
}

/* A number that grows with each transaction of the log, as long as the server is the same or has
 * all of its transactions. */
static uint64_t measure_reach(const struct stream_position *position)
{
    const char *at = position->before.data;
    const char *end = at + position->before.len;
    const char *dot = strrchr(position->file, '.');
    uint64_t reach = 0;

    if (!position->by_gtid) {
        at = dot ? dot + 1 : "";
        return (read_digits(&at, at + strlen(at)) << 32) + position->offset;
    }
    while (position->before.len > 0 && at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *source_end = comma ? comma : end;

        reach += count_source(at, source_end);
        at = source_end + (comma ? 1 : 0);
    }
    return reach;
}

/* Whether relay_position is the copy that the process of the record had saved, or a later one of
 * its lease: the first of them is the position of the lease's first record, which may be behind the
 * copy that was found. A copy of an earlier lease is the one that was found. */
static bool is_copy(const struct position_record *record, const struct stream_position *saved)
{
    const struct stream_position *position = &record->position;
    uint64_t reach = measure_reach(saved);

    if (record->saved == 0 || record->saved_by_gtid != saved->by_gtid)
        return true;
    if (saved->epoch < record->epoch)
        return reach == record->saved;
    return reach >= record->saved ||
           (position->by_gtid == saved->by_gtid && reach >= measure_reach(position));
}

static enum rc check_epoch(const struct position_record *record, const struct takeover_facts *facts,
                           struct err *err)
{
    if (record->epoch < facts->epoch ||
        (record->epoch == facts->epoch && record->maker == facts->maker))
        return RC_OK;
    return err_fail(err, RC_FATAL, 0,
                    "the position of lane %s in Kafka was written under epoch %" PRId64
                    " of its lease, but this is epoch %" PRId64 ": another installation uses "
                    "the same transactional id, or the database was restored; set "
                    "lane.%s.transactional_id to a new name, and the lane begins at the "
                    "position in relay_position",
                    facts->lane, record->epoch, facts->epoch, facts->lane);
}

/* Whether the record goes on with the position that this lane and this database have. */
static enum rc check_copy(const struct position_record *record, const struct takeover_facts *facts,
                          struct err *err)
{
    const char *lane = facts->lane;
    char text[LOST_LOG_TEXT_SIZE] = "";

    if (!facts->saved_found) {
        lost_log_put_first_ways(text, lane, facts->obstacle);
        return err_fail(err, RC_FATAL, 0,
                        "lane %s has a position in Kafka, but none in relay_position, so it may "
                        "have been read otherwise since: %s",
                        lane, text);
    }
    if (is_copy(record, facts->saved))
        return RC_OK;
    if (!facts->obstacle)
        snprintf(text, sizeof(text), "run `tallybox relay source %s binlog --from-table`, or ",
                 lane);
    return err_fail(err, RC_FATAL, 0,
                    "relay_position of lane %s is not what its relay had saved: the database "
                    "was restored, or a fail-over lost transactions. Stop its relays, and %sset a "
                    "new lane.%s.transactional_id: then the rows behind relay_position are "
                    "published again",
                    lane, text, lane);
}

static enum rc refuse_empty(const struct takeover_facts *facts, struct err *err)
{
    char ways[LOST_LOG_TEXT_SIZE];

    lost_log_put_ways(ways, facts->lane, facts->obstacle);
    return err_fail(err, RC_FATAL, 0, "the position of lane %s is empty: stop its relays, and %s",
                    facts->lane, ways);
}

/* Keeps the terms: rows that were moved in one of them may have tasks. */
static void begin_anew(struct position_record *record)
{
    struct position_record kept = {.term_count = record->term_count};

    memcpy(kept.terms, record->terms, sizeof(kept.terms));
    position_record_reset(record);
    memcpy(record->terms, kept.terms, sizeof(kept.terms));
    record->term_count = kept.term_count;
}

enum rc takeover_choose(struct position_record *record, const struct takeover_facts *facts,
                        enum takeover_choice *choice, struct err *err)
{
    const struct stream_position *saved = facts->saved;
    enum rc rc = facts->found ? check_epoch(record, facts, err) : RC_OK;

    *choice = TAKEOVER_USE_RECORD;
    if (facts->saved_found && (!facts->found || saved->epoch > record->epoch))
        *choice = TAKEOVER_USE_SAVED;
    else if (!facts->found || (record->begun && !facts->saved_found))
        *choice = TAKEOVER_BEGIN;
    if (rc == RC_OK && *choice == TAKEOVER_USE_RECORD)
        rc = check_copy(record, facts, err);
    if (rc == RC_OK && *choice == TAKEOVER_USE_RECORD)
        rc = check_server(record, saved->server, facts->lane, err);
    if (rc != RC_OK)
        return rc;
    if (facts->found)
        position_record_end_term(record);
    if (*choice != TAKEOVER_USE_RECORD)
        begin_anew(record);
    if (*choice == TAKEOVER_USE_SAVED && !stream_position_copy(&record->position, saved))
        return err_fail(err, RC_FATAL, 0, "no memory for a position");
    if (*choice != TAKEOVER_BEGIN && !record->position.by_gtid && !record->position.file[0])
        return refuse_empty(facts, err);
    record->epoch = facts->epoch;
    record->maker = facts->maker;
    record->begun = *choice == TAKEOVER_BEGIN;
    record->saved = facts->saved_found ? measure_reach(saved) : 0;
    record->saved_by_gtid = facts->saved_found && saved->by_gtid;
    return RC_OK;
}

enum takeover_order takeover_peek(struct takeover *takeover, struct position_record *record,
                                  int64_t *row, uint64_t *number)
{
    enum takeover_order order = TAKEOVER_NOTHING;

    pthread_mutex_lock(&takeover->lock);
    if (takeover->answered != takeover->asked &&
        (takeover->order == TAKEOVER_READ || position_record_copy(record, &takeover->record)))
        order = takeover->order;
    *row = takeover->row;
    *number = takeover->asked;
    pthread_mutex_unlock(&takeover->lock);
    return order;
}

void takeover_answer(struct takeover *takeover, uint64_t number,
                     const struct position_record *record, bool found, enum rc rc,
                     const struct err *err)
{
    pthread_mutex_lock(&takeover->lock);
    if (number == takeover->asked) {
        takeover->answered = number;
        takeover->rc = rc;
        takeover->err = *err;
        takeover->found = found;
        if (rc == RC_OK && !position_record_copy(&takeover->record, record))
            takeover->rc = err_fail(&takeover->err, RC_FATAL, 0, "no memory for a position");
    }
    pthread_mutex_unlock(&takeover->lock);
}

void takeover_note_saved(struct takeover *takeover, const struct stream_position *position,
                         int64_t row)
{
    const uint64_t reach = measure_reach(position);

    pthread_mutex_lock(&takeover->lock);
    /* Without memory a later one is noted. */
    takeover->saved_row = stream_position_copy(&takeover->saved, position) ? row : -1;
    takeover->saved_reach = reach;
    takeover->saved_by_gtid = position->by_gtid;
    pthread_mutex_unlock(&takeover->lock);
}

int64_t takeover_saved_row(struct takeover *takeover)
{
    int64_t row;

    pthread_mutex_lock(&takeover->lock);
    row = takeover->saved_row;
    pthread_mutex_unlock(&takeover->lock);
    return row;
}

void takeover_begin_saved(struct position_record *record)
{
    record->saved = measure_reach(&record->position);
    record->saved_by_gtid = record->position.by_gtid;
}

void takeover_put_saved(struct takeover *takeover, struct position_record *record, int64_t row)
{
    pthread_mutex_lock(&takeover->lock);
    if (takeover->saved_row > row) {
        record->saved = takeover->saved_reach;
        record->saved_by_gtid = takeover->saved_by_gtid;
    }
    pthread_mutex_unlock(&takeover->lock);
}

bool takeover_copy_saved(struct takeover *takeover, struct stream_position *position, int64_t *row)
{
    bool copied;

    pthread_mutex_lock(&takeover->lock);
    *row = takeover->saved_row;
    copied = *row >= 0 && stream_position_copy(position, &takeover->saved);
    pthread_mutex_unlock(&takeover->lock);
    return copied;
}
