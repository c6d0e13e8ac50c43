/* SPDX-License-Identifier: MIT */
#include "outbox/relay/headers_kafka.h"

#include "outbox/relay/record_row.h"

#include <librdkafka/rdkafka.h>

#define HEADERS_EXPECTED 12

static void add(void *ctx, const char *name, struct bytes value)
{
    rd_kafka_headers_t *headers = ctx;

    /* Fails only for want of memory, which librdkafka ends the process for by itself. */
    rd_kafka_header_add(headers, name, -1, value.data, (ssize_t)value.len);
}

enum rc headers_make(rd_kafka_headers_t **out, const struct relay_row *row, int64_t timestamp_ms,
                     const char *lane, const char *source, struct err *err)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(HEADERS_EXPECTED);
    enum rc rc = record_headers(row, timestamp_ms, lane, source, add, headers, err);

    if (rc == RC_OK)
        *out = headers;
    else
        rd_kafka_headers_destroy(headers);
    return rc;
}
