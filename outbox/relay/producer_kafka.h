/* SPDX-License-Identifier: MIT */
/* Shared by the producers of the relay and of the retry queue: the properties that prevent the loss
 * of records, sending, and the evaluation of delivery reports. Any thread. */
#ifndef OUTBOX_RELAY_PRODUCER_KAFKA_H
#define OUTBOX_RELAY_PRODUCER_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/kafka/kafka.h"
#include "outbox/relay/relay_row.h"

#include <stddef.h>
#include <stdint.h>

struct rd_kafka_conf_s;
struct rd_kafka_headers_s;
struct rd_kafka_message_s;
struct rd_kafka_s;
struct rd_kafka_topic_s;

/* Bound of the bytes of a record besides its key and value: headers and framing. */
#define PRODUCER_RECORD_EXTRA (ROW_EXTRA_BYTES_MAX + 16384)

#define PRODUCER_DEFAULTS_MAX 16 /* properties that a caller may add */
#define PRODUCER_ANY_PARTITION (-1)

/* Makes the configuration of an idempotent producer with acks=all, plus the caller's own defaults,
 * at most PRODUCER_DEFAULTS_MAX. Ownership and errors as kafka_conf_make(). */
enum rc producer_conf_make(struct rd_kafka_conf_s **conf, const struct settings *settings,
                           const struct kafka_default *own, size_t own_count, struct err *err);

/* producer_send() copies all fields except headers, which it takes over. */
struct producer_record {
    struct bytes key;
    struct bytes value;
    int64_t timestamp_ms; /* 0: now */
    int32_t partition;    /* or PRODUCER_ANY_PARTITION */
    struct rd_kafka_headers_s *headers;
    uintptr_t ticket; /* _private of the delivery report */
};

/* Queues a record. Takes over record->headers, also when it fails. Errors as kafka_fail(). */
enum rc producer_send(struct rd_kafka_s *kafka, struct rd_kafka_topic_s *topic,
                      const struct producer_record *record, struct err *err);

/* Evaluates a delivery report. RC_OK: the record is in the topic. RC_RETRY also when librdkafka
 * only inferred the delivery: send the record again. Other errors as kafka_fail(). */
enum rc producer_report(const struct rd_kafka_message_s *message, struct err *err);

/* Adds the limits to the error of a record that was refused because of its size, so that an
 * operator sees which one to change; leaves any other error. topic_bytes_max: max.message.bytes of
 * the topic; 0: unknown. */
void producer_add_limits(struct err *err, int64_t topic_bytes_max, int64_t row_bytes_max);

#endif
