/* SPDX-License-Identifier: MIT */
/* One lane's Kafka producer: idempotent, acks=all, made when it is first needed. The sender's
 * thread. */
#ifndef OUTBOX_RELAY_BROKER_KAFKA_H
#define OUTBOX_RELAY_BROKER_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/kafka/config.h"
#include "outbox/relay/relay_ops.h"

struct rd_kafka_s;
struct rd_kafka_topic_s;
struct rd_kafka_headers_s;
struct rd_kafka_queue_s;
struct primed_topic;

/* Which partitions know the producer. A partition that has taken nothing of a producer yet takes
 * any request of it as the first one: the second, when the first was refused and both were on their
 * way (KAFKA-15591 is one case of that, a topic's max.message.bytes another). So a partition gets
 * one record of a new producer, and the next ones when that one is acknowledged; from then on the
 * gapless guarantee holds. */
struct primed {
    struct primed_topic *first; /* of the topics of one producer */
    size_t under_way;           /* records without a report */
};

struct broker_kafka {
    const struct settings *settings;
    const struct lane_settings *lane;
    int wake_fd; /* an eventfd that is written when reports wait, or -1 */
    struct rd_kafka_s *kafka;
    struct rd_kafka_queue_s *queue;
    struct rd_kafka_topic_s *topics[BROKER_TOPICS_MAX];
    struct primed primed;
    const char *names[BROKER_TOPICS_MAX]; /* of the topics that were opened, or NULL */
    int counts[BROKER_TOPICS_MAX];        /* of their partitions */
    struct kafka_topic_config configs[BROKER_TOPICS_MAX];
    struct kafka_config_query query;
    int64_t query_at_ms;      /* when to ask for configs again */
    int64_t batch_bytes_set;  /* batch.size as librdkafka is set */
    int64_t batch_bytes_max;  /* and as the producer has it */
    int64_t batch_bytes_said; /* what the log told last */
    broker_on_report on_report;
    void *on_report_ctx;
    struct err trouble; /* what librdkafka told last */
};

/* Would the settings make a producer? RC_FATAL: err names the bad one. */
enum rc broker_kafka_check(const struct settings *settings, struct err *err);

/* Borrows everything. */
void broker_kafka_open(struct broker_kafka *broker, const struct lane_settings *lane,
                       const struct settings *settings, int wake_fd);
void broker_kafka_close(struct broker_kafka *broker);

/* The headers of row's record (record.h), as the producer sends them; for tests. *out is the
 * caller's. RC_REJECT: the headers column is not a JSON object of texts, or names a header that is
 * the relay's own. Any thread. */
enum rc broker_kafka_make_headers(struct rd_kafka_headers_s **out, const struct relay_row *row,
                                  int64_t timestamp_ms, const char *lane, const char *source,
                                  struct err *err);

struct broker broker_kafka_ops(struct broker_kafka *broker);

#endif
