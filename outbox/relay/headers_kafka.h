/* SPDX-License-Identifier: MIT */
/* The headers of a record (record_row.h) as librdkafka takes them. Any thread. */
#ifndef OUTBOX_RELAY_HEADERS_KAFKA_H
#define OUTBOX_RELAY_HEADERS_KAFKA_H

#include "common/err.h"
#include "outbox/relay/relay_row.h"

struct rd_kafka_headers_s;

/* *out is the caller's. RC_REJECT: the headers column is not a JSON object of texts, or names a
 * header that is the relay's own. */
enum rc headers_make(struct rd_kafka_headers_s **out, const struct relay_row *row,
                     int64_t timestamp_ms, const char *lane, const char *source, struct err *err);

#endif
