/* SPDX-License-Identifier: MIT */
/* Events of the binary log as a server sends them to a replica: header, checksum, and the bodies of
 * all events but those with rows (rows.h). Formats 4 of MySQL 5.7 to 9.x and MariaDB 10.4 to 12.x.
 *
 * Pure: nothing is allocated, what is parsed borrows the bytes of the event. Any thread. All
 * functions return RC_FATAL with the reason for bytes that are no such event: the caller must not
 * skip them. Sources: the comments of libbinlogevents and mysql::binlog::event in MySQL's
 * repository, sql/log_event.h of MariaDB. */
#ifndef OUTBOX_RELAY_BINLOG_EVENT_H
#define OUTBOX_RELAY_BINLOG_EVENT_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BINLOG_HEADER_SIZE 19
#define BINLOG_CHECKSUM_SIZE 4
#define BINLOG_TYPES_MAX 256
#define BINLOG_FILE_SIZE 512 /* of the name of a file */
#define BINLOG_GTID_SIZE 96  /* of the text of one GTID */

enum binlog_type {
    BINLOG_QUERY = 2,
    BINLOG_STOP = 3,
    BINLOG_ROTATE = 4,
    BINLOG_INTVAR = 5,
    BINLOG_APPEND_BLOCK = 9,
    BINLOG_DELETE_FILE = 11,
    BINLOG_RAND = 13,
    BINLOG_USER_VAR = 14,
    BINLOG_FORMAT = 15,
    BINLOG_XID = 16,
    BINLOG_BEGIN_LOAD_QUERY = 17,
    BINLOG_EXECUTE_LOAD_QUERY = 18,
    BINLOG_TABLE_MAP = 19,
    BINLOG_WRITE_ROWS_1 = 23,
    BINLOG_UPDATE_ROWS_1 = 24,
    BINLOG_DELETE_ROWS_1 = 25,
    BINLOG_INCIDENT = 26,
    BINLOG_HEARTBEAT = 27,
    BINLOG_IGNORABLE = 28,
    BINLOG_ROWS_QUERY = 29,
    BINLOG_WRITE_ROWS = 30,
    BINLOG_UPDATE_ROWS = 31,
    BINLOG_DELETE_ROWS = 32,
    BINLOG_GTID = 33,
    BINLOG_ANONYMOUS_GTID = 34,
    BINLOG_PREVIOUS_GTIDS = 35,
    BINLOG_TRANSACTION_CONTEXT = 36,
    BINLOG_VIEW_CHANGE = 37,
    BINLOG_XA_PREPARE = 38,
    BINLOG_PARTIAL_UPDATE_ROWS = 39,
    BINLOG_TRANSACTION_PAYLOAD = 40,
    BINLOG_HEARTBEAT_2 = 41,
    BINLOG_GTID_TAGGED = 42,
    /* MariaDB's own */
    BINLOG_ANNOTATE_ROWS = 160,
    BINLOG_CHECKPOINT = 161,
    BINLOG_MARIADB_GTID = 162,
    BINLOG_MARIADB_GTID_LIST = 163,
    BINLOG_START_ENCRYPTION = 164,
    BINLOG_QUERY_COMPRESSED = 165,
    BINLOG_WRITE_ROWS_COMPRESSED_1 = 166,
    BINLOG_UPDATE_ROWS_COMPRESSED_1 = 167,
    BINLOG_DELETE_ROWS_COMPRESSED_1 = 168,
    BINLOG_WRITE_ROWS_COMPRESSED = 169,
    BINLOG_UPDATE_ROWS_COMPRESSED = 170,
    BINLOG_DELETE_ROWS_COMPRESSED = 171,
    BINLOG_PARTIAL_ROW_DATA = 172,
};

/* Flags of the header. */
#define BINLOG_FLAG_ARTIFICIAL 0x20 /* it is in no file: the server made it for this reader */
#define BINLOG_FLAG_IGNORABLE 0x80  /* a reader that does not know the type may skip it */

/* What the format description event of a file says. Before the first one it is zeroed. */
struct binlog_format {
    bool checksum;     /* CRC32 behind each event */
    bool server_start; /* the file is the first one since the server was started */
    char server[51];   /* its version, as "10.11.19-MariaDB-log" */
};

/* body: behind the header, without the checksum. */
struct binlog_event {
    uint32_t time_s; /* since 1970; 0 in artificial events */
    uint8_t type;    /* enum binlog_type, or a type that this program does not know */
    uint32_t server_id;
    uint32_t next_pos; /* end in its file; wraps above 4 GiB, 0 where there is none */
    uint16_t flags;
    const uint8_t *body;
    size_t body_len;
};

/* The name of a type, as servers print it; "unknown" for others. Static. */
const char *binlog_type_name(unsigned type);

/* Parses one whole event. format: that of its file; NULL for an event inside a transaction payload,
 * which has no checksum of its own. */
enum rc binlog_event_parse(struct binlog_event *event, const void *bytes, size_t len,
                           const struct binlog_format *format, struct err *err);

bool binlog_event_is_heartbeat(const struct binlog_event *event);

/* Whether time_s is that of a transaction. Events at the head of a file have the time of the file,
 * and those that the server makes for the reader have none. */
bool binlog_event_has_own_time(const struct binlog_event *event);

/* From a format description event, whose own checksum is verified if it has one. */
enum rc binlog_format_parse(struct binlog_format *format, const struct binlog_event *event,
                            struct err *err);

/* The file that the following events are from, and where. name is borrowed and not terminated. */
struct binlog_rotate {
    uint64_t pos;
    const char *name;
    size_t name_len;
};

enum rc binlog_rotate_parse(struct binlog_rotate *rotate, const struct binlog_event *event,
                            struct err *err);

/* A statement, or BEGIN, COMMIT and the like. Borrowed, not terminated. */
struct binlog_query {
    const char *schema;
    size_t schema_len;
    const char *text;
    size_t text_len;
    uint16_t error; /* the statement failed with it on the server */
};

/* Also for MariaDB's compressed statements, whose text is then borrowed from `expanded`. */
enum rc binlog_query_parse(struct binlog_query *query, const struct binlog_event *event,
                           struct buf *expanded, struct err *err);

/* Whether the text of a query is this word, whatever its case. */
bool binlog_query_is(const struct binlog_query *query, const char *word);

/* A tag of a GTID has up to 32 letters, digits and underscores. */
#define BINLOG_TAG_SIZE 33

/* The GTID in front of a transaction. */
struct binlog_gtid {
    bool anonymous;   /* MySQL without GTIDs */
    bool mariadb;     /* domain, server_id and sequence; otherwise uuid and sequence */
    bool standalone;  /* one event without BEGIN and COMMIT follows: the group ends with it */
    bool ddl;         /* MariaDB tells */
    bool prepared_xa; /* XA PREPARE, or the end of what was prepared before */
    bool completed_xa;
    uint8_t uuid[16];
    char tag[BINLOG_TAG_SIZE]; /* "" without one */
    uint32_t domain;
    uint32_t server_id;
    uint64_t sequence;
};

enum rc binlog_gtid_parse(struct binlog_gtid *gtid, const struct binlog_event *event,
                          struct err *err);

#endif
