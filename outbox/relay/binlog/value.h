/* SPDX-License-Identifier: MIT */
/* Values of columns as rows of the binary log have them. Pure; nothing is allocated. Any thread. */
#ifndef OUTBOX_RELAY_BINLOG_VALUE_H
#define OUTBOX_RELAY_BINLOG_VALUE_H

#include "outbox/relay/binlog/cursor.h"
#include "outbox/relay/binlog/table_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A DECIMAL has up to 65 digits, a sign and a point. */
#define BINLOG_VALUE_TEXT_SIZE 80

enum binlog_value_kind {
    VALUE_NULL,
    VALUE_ABSENT,    /* the row has no such column: binlog_row_image is not FULL */
    VALUE_SIGNED,    /* number */
    VALUE_UNSIGNED,  /* number, as bits of an int64_t */
    VALUE_FLOAT,     /* real, of four bytes: seven digits are exact */
    VALUE_DOUBLE,    /* real */
    VALUE_BYTES,     /* bytes, borrowed from the event: text, BLOB, JSON, SET, BIT */
    VALUE_INDEX,     /* number: the place of an ENUM's text, from 1; 0 is the empty error value */
    VALUE_DECIMAL,   /* text */
    VALUE_DATE,      /* text YYYY-MM-DD, also of dates that are no day, as 0000-00-00 */
    VALUE_DATETIME,  /* the same with " HH:MM:SS" and the fraction that the column has */
    VALUE_TIMESTAMP, /* number: microseconds since 1970, 0 for "0000-00-00 00:00:00" */
    VALUE_TIME,      /* text [-]HHH:MM:SS with the fraction */
};

struct binlog_value {
    enum binlog_value_kind kind;
    int64_t number;
    double real;
    const char *bytes;
    size_t len; /* of bytes, or of text */
    char text[BINLOG_VALUE_TEXT_SIZE];
};

/* Takes the value of a column that is not NULL. is_unsigned: as information_schema says, where the
 * table map does not. False: the cursor is bad, or the type is one that rows of outbox tables must
 * not have (compressed columns). */
bool binlog_value_take(struct binlog_value *value, struct cursor *cursor,
                       const struct binlog_column *column, bool is_unsigned);

#endif
