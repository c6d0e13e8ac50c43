/* SPDX-License-Identifier: MIT */
/* The handler `kafka`: publishes the task's params to a topic and waits for the broker's
 * acknowledgement. The options of a task describe the record:
 *
 *     {"topic": NAME, "key": TEXT or "keyHex": HEX, "headers": HEADERS, "timestampMs": NUMBER,
 *      "partition": NUMBER, "transaction": MOVE}
 *
 * Only topic is required. Without key and keyHex the record has no key. HEADERS is a list of
 * [NAME, VALUE] or an object {NAME: VALUE}; a VALUE is a text, {"hex": HEX} or null. HEADER_ATTEMPT
 * and HEADER_NO_RETRY follow the task's own headers. Only the relay may give MOVE, for a row of a
 * lane that publishes exactly once: exact_publisher_kafka.h publishes it. The functions on options
 * are pure; any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_KAFKA_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_KAFKA_HANDLER_H

#include "common/err.h"
#include "outbox/relay/relay_row.h"
#include "outbox/relay/row_record.h"
#include "outbox/retry/handler.h"

#include <stddef.h>
#include <stdint.h>

#define KAFKA_HEADERS_MAX 1000

struct json_t;

struct kafka_header {
    const char *name;
    struct bytes value; /* data NULL: null */
};

struct kafka_options {
    const char *topic;
    struct bytes key;     /* data NULL: none */
    int64_t timestamp_ms; /* 0: when it is sent */
    int32_t partition;    /* -1: by the key */
    struct kafka_header *headers;
    size_t header_count;
    struct row_move move; /* lane_key NULL: the task is not of a lane that publishes exactly once */

    struct json_t *json; /* the texts point into it */
    char *bytes;         /* the bytes of hexadecimal values */
    size_t bytes_used;
};

/* RC_REJECT: err names the fault in the text. After a failure kafka_options_done() is not
 * needed. */
enum rc kafka_options_read(struct kafka_options *options, const char *text, struct err *err);
void kafka_options_done(struct kafka_options *options);

extern const struct retry_handler retry_kafka_handler;

#endif
