/* SPDX-License-Identifier: MIT */
/* What a producer of the retry queue knows of its topics, and what a record needs because of them:
 * its timestamp and headers. The caller serialises the calls for each struct. */
#ifndef OUTBOX_RETRY_HANDLERS_RECORD_TOPICS_KAFKA_H
#define OUTBOX_RETRY_HANDLERS_RECORD_TOPICS_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/kafka/topic.h"
#include "outbox/relay/topics.h"
#include "outbox/retry/handlers/publisher_kafka.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_kafka_s;
struct rd_kafka_headers_s;

#define RECORD_TOPICS_MAX 64

/* A zeroed one knows no topic. */
struct record_topics {
    char names[RECORD_TOPICS_MAX][TOPIC_NAME_SIZE];
    int64_t older_ms_max[RECORD_TOPICS_MAX]; /* of a record in each of them */
    int64_t bytes_max[RECORD_TOPICS_MAX];    /* max.message.bytes of each of them; 0: unknown */
    size_t count;                            /* of all that were ever known */
};

bool record_topics_knows(const struct record_topics *topics, const char *topic);

/* A topic beyond the limit replaces the oldest one. */
void record_topics_learn(struct record_topics *topics, const char *topic,
                         const struct kafka_topic_config *config);
void record_topics_forget(struct record_topics *topics, const char *topic);

/* Sees that the topic exists, as the relay does: nothing is sent to a topic before each of its
 * leaders has answered. *config is filled with RC_OK. Blocks up to wait_ms, and again as long for
 * the configuration. Errors as kafka_ensure_topic(). */
enum rc record_topic_check(struct rd_kafka_s *kafka, const struct settings *settings,
                           const char *topic, int64_t wait_ms, struct kafka_topic_config *config,
                           struct err *err);

/* The timestamp of a record: a task may have waited for so long that Kafka would delete its record
 * before it was read. By the database's clock, as in the relay: this host's may be hours ahead, and
 * a broker refuses a record of the future. */
int64_t record_topics_timestamp(const struct record_topics *topics,
                                const struct publisher_record *record);

/* The record's headers, and one with its own timestamp if that differs; producer_send() takes them
 * over. */
struct rd_kafka_headers_s *record_headers_make(const struct publisher_record *record,
                                               int64_t timestamp_ms);

/* Names the limits in the error of a record that is too large. */
void record_topics_add_limits(const struct record_topics *topics, const struct settings *settings,
                              const char *topic, struct err *err);

/* How the attempt with a record ended whose delivery ended with rc and librdkafka's code: separates
 * local faults, which an operator must fix, from records that the broker refuses. */
enum publisher_end record_classify_end(enum rc rc, int code);

#endif
