/* SPDX-License-Identifier: MIT */
/* The binary log that a server writes, of random transactions of several tables, and links that
 * send it to a reader as a server does. One log at a time. One thread writes it, others may read it
 * meanwhile, each with a link of its own. */
#ifndef TESTS_FLOW_LOG_FIXTURE_H
#define TESTS_FLOW_LOG_FIXTURE_H

#include "outbox/relay/binlog/change_stream.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_TABLES 5 /* outbox_0 and so on, of the schema shop */
#define LOG_EVENTS_MAX 60000
#define LOG_ROWS_MAX 60000
#define LOG_EVENT_SIZE 400
#define LOG_FILE_SIZE 16
#define LOG_TIME_S 1790000000 /* of all events */

enum log_mode { MODE_MARIADB, MODE_MYSQL, MODE_ANONYMOUS, MODES };

struct logged {
    char file[LOG_FILE_SIZE];
    uint64_t begin;
    uint32_t len;
    uint64_t before; /* transactions before it */
    bool is_between; /* reading may begin here */
    uint8_t bytes[LOG_EVENT_SIZE];
};

struct log_fixture {
    enum log_mode mode;
    struct logged *events;
    atomic_size_t count;
    char file[LOG_FILE_SIZE];
    unsigned file_number;
    uint64_t end;
    uint64_t transactions;
    bool is_open;
    uint64_t next_map_id;
    int64_t next_row;
    int64_t rows[LOG_TABLES][LOG_ROWS_MAX]; /* that are committed */
    size_t row_count[LOG_TABLES];
    size_t row_start[LOG_TABLES]; /* of the open transaction */
    size_t savepoint[LOG_TABLES];
};

/* A link of a lane, or of the shared stream. */
struct log_link {
    size_t at;        /* of the next event */
    unsigned opening; /* events that a server sends before */
    char file[LOG_FILE_SIZE];
    uint64_t offset;
    size_t lent;
    uint8_t bytes[LOG_EVENT_SIZE];
};
extern struct log_fixture *the_log;

/* Begins the log of a server, with its first file, behind one transaction that the log does not
 * have. The seed decides what log_fixture_choose() returns. */
void log_fixture_init(enum log_mode mode, uint64_t seed);
void log_fixture_done(void);

/* GTIDs of the transactions before the first one of the log. */
const char *log_fixture_first_gtids(void);

/* A random number below count. For the thread that writes. */
unsigned log_fixture_choose(unsigned count);

/* Writes something: a part of a transaction, a statement, another file. */
void log_fixture_write_on(void);

void log_fixture_begin_transaction(bool standalone);
void log_fixture_end_transaction(void);
/* The same, always by XID. */
void log_fixture_commit(void);

/* A crash of the server cuts the open transaction off. */
void log_fixture_crash(void);

/* Writes a statement, or rows of a table, into the open transaction. */
void log_fixture_add_query(const char *text);
void log_fixture_insert(size_t table, size_t rows);

/* Writes an event as it is given. */
void log_fixture_add_event(uint8_t type, const void *body, size_t len);

/* Begins to send behind the position of a reader, as a server looks for it. */
void log_link_open(struct log_link *link, const struct change_stream *changes);

/* Sends the next event. False: there is none, at the end of the log. */
bool log_link_read(struct log_link *link, const void **event, size_t *len);

/* Sends a heartbeat with the place of the link. */
void log_link_beat(struct log_link *link, const void **event, size_t *len);

#endif
