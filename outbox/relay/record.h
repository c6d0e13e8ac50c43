/* SPDX-License-Identifier: MIT */
/* The headers of the record that an outbox row becomes: Debezium's id, CloudEvents in binary mode
 * unless they are not wanted, where the row came from, and what the row's own headers column says.
 * The relay and the retry queue, which both send the record, take them from here. A refused row
 * becomes a task of the retry queue: the same record as options of the handler `kafka`. Pure; any
 * thread. */
#ifndef OUTBOX_RELAY_RECORD_H
#define OUTBOX_RELAY_RECORD_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/relay_row.h"

/* value.data is never NULL. */
typedef void (*record_on_header)(void *ctx, const char *name, struct bytes value);

/* The time of row's record in ms since 1970, 0: when it is sent. It is created_ms, but not after
 * read_ms, because a broker refuses what lies too far ahead; and not more than older_ms_max before
 * it, because a record older than its topic keeps any may be deleted before it was read. */
int64_t record_timestamp(const struct relay_row *row, int64_t older_ms_max);

/* Says when the row was written where its record has another time. */
#define RECORD_ORIGINAL_TIMESTAMP "original_timestamp"

/* In their order; borrowed for the call. source "": no CloudEvents, which are nothing without one;
 * at full speed they are a quarter of the relay's work. timestamp_ms: of the record. RC_REJECT: the
 * headers column is not a JSON object of texts, or names a header that is the relay's own; some
 * were given before that was seen. */
enum rc record_headers(const struct relay_row *row, int64_t timestamp_ms, const char *lane,
                       const char *source, record_on_header on_header, void *ctx, struct err *err);

/* Appends the record as options of the handler `kafka`, a JSON text. The row's payload is not
 * looked at. topic "": it has none. A headers column that makes no record stands there as a text,
 * which no handler takes: a person has to decide. RC_FATAL: no memory. */
enum rc record_put_options(struct buf *out, const struct relay_row *row, const char *topic,
                           const char *lane, const char *source, struct err *err);

#endif
