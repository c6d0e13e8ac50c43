/* SPDX-License-Identifier: MIT */
/* Builds the headers of the Kafka record of an outbox row: Debezium's id, CloudEvents attributes in
 * binary mode if they are enabled, the seq and the lane of the row, the columns that the lane's
 * header_columns names, and the members of the row's headers column. A member of that column
 * replaces a column of the same name. The relay uses the headers for the records that it sends. The
 * diverter uses them for the options of the handler `kafka` in the task of a refused row, so that
 * both paths send the same record. Pure; any thread. */
#ifndef OUTBOX_RELAY_ROW_RECORD_H
#define OUTBOX_RELAY_ROW_RECORD_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/relay_row.h"

/* Bound of the bytes of a record besides its key, its value and the members of the headers column:
 * the relay's own headers and the framing. Those members have at most ROW_HEADERS_BYTES_MAX. */
#define ROW_RECORD_OWN_BYTES_MAX 4096

/* Receives one header. name and value are borrowed for the call; value.data is NULL for a header
 * without a value. */
typedef void (*row_record_on_header)(void *ctx, const char *name, struct bytes value);

/* Returns the timestamp of row's record in ms since 1970, or 0 for the time of sending. The
 * timestamp is created_ms, limited to read_ms, because a broker refuses a timestamp too far in the
 * future, and to at least read_ms - older_ms_max, because a broker may delete a record that is
 * older than the retention of its topic before any consumer reads it. */
int64_t row_record_timestamp(const struct relay_row *row, int64_t older_ms_max);

/* Name of the header with created_ms, added when the record has a different timestamp. */
#define ROW_RECORD_ORIGINAL_TIMESTAMP "original_timestamp"

/* Passes the headers of row's record to on_header, in the order of the record. timestamp_ms is the
 * timestamp of the record. An empty source disables CloudEvents attributes, which require a source;
 * at full load the attributes cost a quarter of the CPU time of the relay. Returns RC_REJECT when
 * the headers column is not a JSON object with string values, or contains a name that
 * outbox_check_header() refuses (outbox_mysql.c has the reserved ones); on_header may have received
 * some headers before. */
enum rc row_record_headers(const struct relay_row *row, int64_t timestamp_ms, const char *lane,
                           const char *source, row_record_on_header on_header, void *ctx,
                           struct err *err);

/* The move of a row of a lane that publishes exactly once; exact/position_record.h says when the
 * lane's position has passed it. */
struct row_move {
    const char *lane_key; /* of the lane's record in the topic of positions */
    int64_t epoch;        /* of the lease */
    uint64_t term;        /* number of the first record of its term */
    uint64_t row;         /* its number in that term */
};

/* Appends the options of the handler `kafka` for row's record, a JSON text, to out. The payload is
 * not part of the options. move is NULL, or becomes the option "transaction". An empty topic means
 * that the row has none. If row_record_headers() rejects the headers column, the column is written
 * as the string rowHeaders; if relay_row_check() rejects the row, its id is written as the string
 * rowId. The relay's own headers stand beside them. The handler refuses such options, and an
 * operator has to decide about the task. Returns RC_FATAL when memory is exhausted. */
enum rc row_record_put_options(struct buf *out, const struct relay_row *row, const char *topic,
                               const char *lane, const char *source, const struct row_move *move,
                               struct err *err);

#endif
