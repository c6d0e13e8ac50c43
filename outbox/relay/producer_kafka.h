/* SPDX-License-Identifier: MIT */
/* What the producers of the relay and of the retry queue share: the properties that a record must
 * not be lost by, how one is sent, and what its report means. Any thread. */
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

/* What a record has beside its payload and headers of others: names, our own headers, framing. */
#define PRODUCER_RECORD_EXTRA 16384

#define PRODUCER_DEFAULTS_MAX 16 /* of the caller's own */
#define PRODUCER_ANY_PARTITION (-1)

/* As kafka_conf_make() for an idempotent producer with acks=all; own ones come on top. */
enum rc producer_conf_make(struct rd_kafka_conf_s **conf, const struct settings *settings,
                           const struct kafka_default *own, size_t own_count, struct err *err);

/* Everything is copied but headers, which belong to librdkafka once it is sent. */
struct producer_record {
    struct bytes key;
    struct bytes value;
    int64_t timestamp_ms; /* 0: now */
    int32_t partition;    /* or PRODUCER_ANY_PARTITION */
    struct rd_kafka_headers_s *headers;
    uintptr_t ticket; /* comes back in the report */
};

/* Frees the headers when it fails; as kafka_fail() then. */
enum rc producer_send(struct rd_kafka_s *kafka, struct rd_kafka_topic_s *topic,
                      const struct producer_record *record, struct err *err);

/* What a delivery report says. RC_OK: the record is in the log. */
enum rc producer_report(const struct rd_kafka_message_s *message, struct err *err);

#endif
