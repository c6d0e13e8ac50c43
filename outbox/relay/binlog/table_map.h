/* SPDX-License-Identifier: MIT */
/* The event that describes a table in front of its rows: types of the columns, and with
 * binlog_row_metadata = FULL also their names, signs, character sets and the texts of ENUM. Pure:
 * it borrows the bytes of the event. Any thread. */
#ifndef OUTBOX_RELAY_BINLOG_TABLE_MAP_H
#define OUTBOX_RELAY_BINLOG_TABLE_MAP_H

#include "common/err.h"
#include "outbox/relay/binlog/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BINLOG_TABLE_ID_SIZE 6

/* A table of a server has at most so many, hidden ones included. */
#define BINLOG_COLUMNS_MAX 4096

enum binlog_column_type {
    COLUMN_DECIMAL_OLD = 0,
    COLUMN_TINY = 1,
    COLUMN_SHORT = 2,
    COLUMN_LONG = 3,
    COLUMN_FLOAT = 4,
    COLUMN_DOUBLE = 5,
    COLUMN_NULL = 6,
    COLUMN_TIMESTAMP = 7,
    COLUMN_LONGLONG = 8,
    COLUMN_INT24 = 9,
    COLUMN_DATE = 10,
    COLUMN_TIME = 11,
    COLUMN_DATETIME = 12,
    COLUMN_YEAR = 13,
    COLUMN_NEWDATE = 14,
    COLUMN_VARCHAR = 15,
    COLUMN_BIT = 16,
    COLUMN_TIMESTAMP2 = 17,
    COLUMN_DATETIME2 = 18,
    COLUMN_TIME2 = 19,
    COLUMN_BLOB_COMPRESSED = 140,
    COLUMN_VARCHAR_COMPRESSED = 141,
    COLUMN_VECTOR = 242,
    COLUMN_JSON = 245,
    COLUMN_DECIMAL = 246,
    COLUMN_ENUM = 247,
    COLUMN_SET = 248,
    COLUMN_TINY_BLOB = 249,
    COLUMN_MEDIUM_BLOB = 250,
    COLUMN_LONG_BLOB = 251,
    COLUMN_BLOB = 252,
    COLUMN_VAR_STRING = 253,
    COLUMN_STRING = 254,
    COLUMN_GEOMETRY = 255,
};

struct binlog_column {
    uint8_t type; /* enum binlog_column_type; ENUM and SET are told apart from STRING */
    bool nullable;
    bool is_unsigned; /* known only with `signs` of the table */
    /* By type: bytes of the length (BLOB, JSON), longest length in bytes (VARCHAR, STRING), digits
     * of the fraction of a second, bytes of an ENUM or SET, bits of a BIT, or precision << 8 |
     * scale (DECIMAL). */
    uint16_t meta;
    const char *name; /* borrowed, not terminated; NULL without FULL metadata */
    size_t name_len;
};

struct binlog_table {
    uint64_t id;
    const char *schema; /* both borrowed and not terminated */
    const char *name;
    size_t schema_len;
    size_t name_len;
    size_t column_count;
    bool signs; /* is_unsigned is known */
    bool names; /* so are the names of the columns */
};

/* Parses the begin of the event alone: id, schema and name. */
enum rc binlog_table_parse_name(struct binlog_table *table, const struct binlog_event *event,
                                struct err *err);

/* Parses the event; columns has room for columns_max entries. */
enum rc binlog_table_parse(struct binlog_table *table, struct binlog_column *columns,
                           size_t columns_max, const struct binlog_event *event, struct err *err);

#endif
