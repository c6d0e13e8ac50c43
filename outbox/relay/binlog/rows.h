/* SPDX-License-Identifier: MIT */
/* The rows of an event that inserts into a table. Pure: it borrows the bytes of the event, and
 * nothing is allocated. One thread at a time uses a struct of rows. */
#ifndef OUTBOX_RELAY_BINLOG_ROWS_H
#define OUTBOX_RELAY_BINLOG_ROWS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/cursor.h"
#include "outbox/relay/binlog/event.h"
#include "outbox/relay/binlog/table_map.h"
#include "outbox/relay/binlog/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct binlog_rows {
    const struct binlog_table *table;
    const struct binlog_column *columns;
    const bool *is_unsigned; /* for each column, or NULL: as the table map says */
    struct cursor left;      /* the rows that were not taken yet */
    const uint8_t *present;  /* a bit for each column */
    size_t present_count;
    uint64_t number; /* of the row that was taken last, from 1 */
};

/* Begins with an event that inserts rows, of either version, compressed or not. The rows borrow
 * from the event or, if it is compressed, from `expanded`. table and columns, which are borrowed,
 * come from the table map with the same id. */
enum rc binlog_rows_begin(struct binlog_rows *rows, const struct binlog_table *table,
                          const struct binlog_column *columns, const bool *is_unsigned,
                          const struct binlog_event *event, struct buf *expanded, struct err *err);

/* Takes the next row into values, one for each column of the table; *found is false behind the last
 * one. Bytes of the values are valid as long as those that the rows borrow. */
enum rc binlog_rows_next(struct binlog_rows *rows, struct binlog_value *values, bool *found,
                         struct err *err);

#endif
