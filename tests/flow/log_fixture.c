/* SPDX-License-Identifier: MIT */
#include "tests/flow/log_fixture.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPES_IN_FORMAT 42

struct log_fixture *the_log;
static uint64_t seed_state;

unsigned log_fixture_choose(unsigned count)
{
    return (unsigned)(rng_next(&seed_state) % count);
}

static uint8_t *put_number(uint8_t *at, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (uint8_t)(value >> 8 * i);
    return at + count;
}

static size_t make_event(uint8_t *bytes, uint8_t type, const void *body, size_t len, uint64_t end,
                         uint16_t flags)
{
    size_t all = BINLOG_HEADER_SIZE + len;

    memset(bytes, 0, BINLOG_HEADER_SIZE);
    put_number(bytes, LOG_TIME_S, 4);
    bytes[4] = type;
    bytes[5] = 1;
    put_number(bytes + 9, all, 4);
    put_number(bytes + 13, end, 4);
    put_number(bytes + 17, flags, 2);
    memcpy(bytes + BINLOG_HEADER_SIZE, body, len);
    return all;
}

void log_fixture_add_event(uint8_t type, const void *body, size_t len)
{
    size_t count = atomic_load(&the_log->count);
    struct logged *logged = &the_log->events[count];

    assert_true(count < LOG_EVENTS_MAX && len + BINLOG_HEADER_SIZE <= LOG_EVENT_SIZE);
    memcpy(logged->file, the_log->file, LOG_FILE_SIZE);
    logged->begin = the_log->end;
    logged->before = the_log->transactions;
    logged->is_between = !the_log->is_open;
    the_log->end += BINLOG_HEADER_SIZE + len;
    logged->len = (uint32_t)make_event(logged->bytes, type, body, len, the_log->end, 0);
    atomic_store(&the_log->count, count + 1);
}

static size_t make_format(uint8_t *body, bool server_start)
{
    uint8_t *at = put_number(body, 4, 2);

    memset(at, 0, 50);
    at = put_number(at + 50, server_start ? 1790000000 : 0, 4);
    *at++ = BINLOG_HEADER_SIZE;
    memset(at, 8, TYPES_IN_FORMAT);
    at = put_number(at + TYPES_IN_FORMAT, 0, 1);
    return (size_t)(put_number(at, 0, 4) - body);
}

static void begin_file(bool server_start)
{
    uint8_t body[LOG_EVENT_SIZE];

    snprintf(the_log->file, LOG_FILE_SIZE, "b.%06u", ++the_log->file_number);
    the_log->end = 4;
    log_fixture_add_event(BINLOG_FORMAT, body, make_format(body, server_start));
    /* Ids of tables begin again. */
    if (server_start)
        the_log->next_map_id = 1;
}

static size_t make_rotate(uint8_t *body, const char *file, uint64_t offset)
{
    size_t len = strlen(file);

    memcpy(put_number(body, offset, 8), file, len);
    return 8 + len;
}

static void rotate(void)
{
    uint8_t body[LOG_EVENT_SIZE];
    char next[LOG_FILE_SIZE];

    snprintf(next, sizeof(next), "b.%06u", the_log->file_number + 1);
    log_fixture_add_event(BINLOG_ROTATE, body, make_rotate(body, next, 4));
    begin_file(false);
}

void log_fixture_add_query(const char *text)
{
    uint8_t body[LOG_EVENT_SIZE];
    size_t len = strlen(text);
    uint8_t *at = put_number(body, 1, 4);

    at = put_number(at, 0, 4);
    at = put_number(at, 4, 1);
    at = put_number(at, 0, 4);
    memcpy(at, "shop", 5);
    memcpy(at + 5, text, len);
    log_fixture_add_event(BINLOG_QUERY, body, (size_t)(at + 5 - body) + len);
}

void log_fixture_begin_transaction(bool standalone)
{
    uint8_t body[64] = {0};

    if (the_log->mode == MODE_MARIADB) {
        put_number(body, the_log->transactions + 1, 8);
        body[12] = standalone ? 1 : 0;
        log_fixture_add_event(BINLOG_MARIADB_GTID, body, 19);
    } else {
        memset(body + 1, 7, 16);
        put_number(body + 17, the_log->transactions + 1, 8);
        log_fixture_add_event(the_log->mode == MODE_MYSQL ? BINLOG_GTID : BINLOG_ANONYMOUS_GTID,
                              body, 42);
    }
    the_log->is_open = true;
    for (size_t i = 0; i < LOG_TABLES; i++)
        the_log->row_start[i] = the_log->savepoint[i] = the_log->row_count[i];
    if (the_log->mode != MODE_MARIADB && !standalone)
        log_fixture_add_query("BEGIN");
}

void log_fixture_end_transaction(void)
{
    uint8_t body[8] = {0};

    if (log_fixture_choose(10) == 0) {
        log_fixture_add_query("COMMIT");
    } else if (log_fixture_choose(12) == 0) {
        memcpy(the_log->row_count, the_log->row_start, sizeof(the_log->row_count));
        log_fixture_add_query("ROLLBACK");
    } else {
        log_fixture_add_event(BINLOG_XID, body, sizeof(body));
    }
    the_log->is_open = false;
    the_log->transactions++;
}

void log_fixture_commit(void)
{
    const uint8_t body[8] = {0};

    log_fixture_add_event(BINLOG_XID, body, sizeof(body));
    the_log->is_open = false;
    the_log->transactions++;
}

static void write_map(size_t table, uint64_t id)
{
    uint8_t body[64];
    char name[16];
    uint8_t *at = put_number(body, id, 6);

    snprintf(name, sizeof(name), "outbox_%zu", table);
    at = put_number(at, 1, 2);
    *at++ = 4;
    memcpy(at, "shop", 5);
    at += 5;
    *at++ = (uint8_t)strlen(name);
    memcpy(at, name, strlen(name) + 1);
    at += strlen(name) + 1;
    at = put_number(at, 1, 1);
    at = put_number(at, COLUMN_LONG, 1);
    at = put_number(at, 0, 2);
    log_fixture_add_event(BINLOG_TABLE_MAP, body, (size_t)(at - body));
}

void log_fixture_insert(size_t table, size_t rows)
{
    uint8_t body[LOG_EVENT_SIZE];
    /* Sometimes the id of another table of before. */
    uint64_t id = log_fixture_choose(3) ? the_log->next_map_id++ : 1 + log_fixture_choose(5);
    uint8_t *at = put_number(body, id, 6);

    write_map(table, id);
    at = put_number(at, 1, 2);
    at = put_number(at, 1, 1);
    at = put_number(at, 0xff, 1);
    for (size_t i = 0; i < rows; i++) {
        at = put_number(at, 0, 1);
        at = put_number(at, (uint64_t)the_log->next_row, 4);
        the_log->rows[table][the_log->row_count[table]++] = the_log->next_row++;
    }
    log_fixture_add_event(BINLOG_WRITE_ROWS_1, body, (size_t)(at - body));
}

void log_fixture_crash(void)
{
    memcpy(the_log->row_count, the_log->row_start, sizeof(the_log->row_count));
    begin_file(true);
    the_log->is_open = false;
    the_log->events[atomic_load(&the_log->count) - 1].is_between = false;
}

static void write_statement(void)
{
    char text[64];

    log_fixture_begin_transaction(true);
    if (log_fixture_choose(2))
        snprintf(text, sizeof(text), "ALTER TABLE outbox_%u ADD x INT",
                 log_fixture_choose(LOG_TABLES));
    else
        snprintf(text, sizeof(text), "INSERT INTO other VALUES (1)");
    log_fixture_add_query(text);
    the_log->is_open = false;
    the_log->transactions++;
}

void log_fixture_write_on(void)
{
    if (!the_log->is_open && log_fixture_choose(20) == 0)
        rotate();
    if (!the_log->is_open && log_fixture_choose(12) == 0) {
        write_statement();
        return;
    }
    if (!the_log->is_open) {
        log_fixture_begin_transaction(false);
        return;
    }
    switch (log_fixture_choose(12)) {
    case 0:
        log_fixture_add_query("SAVEPOINT a");
        memcpy(the_log->savepoint, the_log->row_count, sizeof(the_log->savepoint));
        log_fixture_add_query("INSERT INTO other VALUES (1)");
        if (log_fixture_choose(2)) {
            log_fixture_insert(log_fixture_choose(LOG_TABLES), 2);
            log_fixture_add_query("ROLLBACK TO a");
            memcpy(the_log->row_count, the_log->savepoint, sizeof(the_log->savepoint));
        }
        break;
    case 1:
        if (the_log->mode == MODE_MARIADB && log_fixture_choose(8) == 0)
            log_fixture_crash();
        break;
    case 2:
    case 3:
    case 4:
        log_fixture_end_transaction();
        break;
    default:
        log_fixture_insert(log_fixture_choose(3) ? LOG_TABLES - 1 : log_fixture_choose(LOG_TABLES),
                           1 + log_fixture_choose(20));
    }
}

static void open_link(struct log_link *link, const char *file, uint64_t offset, size_t at)
{
    memset(link, 0, sizeof(*link));
    snprintf(link->file, sizeof(link->file), "%s", file);
    link->offset = offset;
    link->at = at;
}

/* The position of a lane, as a server looks for it. */
void log_link_open(struct log_link *link, const struct change_stream *changes)
{
    uint64_t done = changes->before.domain_count ? changes->before.domains[0].sequence : 0;
    size_t count = atomic_load(&the_log->count);
    size_t at = 0;

    if (changes->before.source_count)
        done = changes->before.sources[0].intervals[0].to;
    if (the_log->mode == MODE_ANONYMOUS) {
        while (at < count && (strcmp(the_log->events[at].file, changes->file) != 0 ||
                              the_log->events[at].begin < changes->offset))
            at++;
        if (at < count)
            assert_true(the_log->events[at].is_between || the_log->events[at].begin == 4);
    } else {
        while (at < count && the_log->events[at].before < done)
            at++;
    }
    if (at == count)
        open_link(link, the_log->file, the_log->mode == MODE_ANONYMOUS ? the_log->end : 4, at);
    else
        open_link(link, the_log->events[at].file,
                  the_log->mode == MODE_ANONYMOUS ? the_log->events[at].begin : 4, at);
}

/* Returns false at the end of the log. */
bool log_link_read(struct log_link *link, const void **event, size_t *len)
{
    uint8_t body[LOG_EVENT_SIZE];
    const struct logged *logged = &the_log->events[link->at];

    *event = link->bytes;
    if (link->opening == 0) {
        *len = make_event(link->bytes, BINLOG_ROTATE, body,
                          make_rotate(body, link->file, link->offset), 0, BINLOG_FLAG_ARTIFICIAL);
    } else if (link->opening == 1) {
        *len = make_event(link->bytes, BINLOG_FORMAT, body, make_format(body, false), 0, 0);
    } else if (link->at == atomic_load(&the_log->count)) {
        return false;
    } else if (strcmp(link->file, logged->file) != 0) {
        /* Each file begins with its name. */
        memcpy(link->file, logged->file, LOG_FILE_SIZE);
        *len = make_event(link->bytes, BINLOG_ROTATE, body, make_rotate(body, link->file, 4), 0,
                          BINLOG_FLAG_ARTIFICIAL);
    } else {
        memcpy(link->bytes, logged->bytes, logged->len);
        *len = logged->len;
        link->at++;
    }
    if (link->opening < 2)
        link->opening++;
    return true;
}
void log_link_beat(struct log_link *link, const void **event, size_t *len)
{
    const struct logged *last = link->at > 0 ? &the_log->events[link->at - 1] : NULL;
    uint64_t end = last ? last->begin + last->len : 4;

    *event = link->bytes;
    *len = make_event(link->bytes, BINLOG_HEARTBEAT, link->file, strlen(link->file), end, 0);
}

void log_fixture_init(enum log_mode mode, uint64_t seed)
{
    seed_state = seed;
    the_log = calloc(1, sizeof(*the_log));
    assert_non_null(the_log);
    the_log->events = calloc(LOG_EVENTS_MAX, sizeof(*the_log->events));
    assert_non_null(the_log->events);
    the_log->mode = mode;
    the_log->next_map_id = 1;
    the_log->transactions = 1;
    begin_file(true);
}

void log_fixture_done(void)
{
    free(the_log->events);
    free(the_log);
    the_log = NULL;
}

const char *log_fixture_first_gtids(void)
{
    return the_log->mode == MODE_ANONYMOUS ? ""
           : the_log->mode == MODE_MARIADB ? "0-1-1"
                                           : "07070707-0707-0707-0707-070707070707:1";
}
