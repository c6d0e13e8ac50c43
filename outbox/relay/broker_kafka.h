/* SPDX-License-Identifier: MIT */
/* The adapter that sends one lane's rows to Kafka by an idempotent producer with acks=all, which is
 * created on first use. Only the sender's thread uses it, except where a function says otherwise.
 */
#ifndef OUTBOX_RELAY_BROKER_KAFKA_H
#define OUTBOX_RELAY_BROKER_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/kafka/topic.h"
#include "outbox/relay/exact/transaction_kafka.h"
#include "outbox/relay/relay_ops.h"

struct rd_kafka_s;
struct rd_kafka_topic_s;
struct rd_kafka_headers_s;
struct rd_kafka_queue_s;
struct primed_topic;

/* The partitions that know the producer. A partition that has accepted no record of a producer
 * accepts any request of it as the first one, even the second request when the first one was
 * refused while both were in flight (KAFKA-15591 is one such case, a topic's max.message.bytes
 * another).
 *
 * Invariant: a partition gets one record of a new producer, and the next ones only after that one
 * was acknowledged; from then on the gapless guarantee holds. */
struct primed {
    struct primed_topic *first; /* list of the producer's topics */
    size_t under_way;           /* records without a delivery report */
};

struct broker_kafka {
    const struct settings *settings;
    const struct lane_settings *lane;
    int wake_fd; /* an eventfd, written when delivery reports wait; -1: none */
    struct rd_kafka_s *kafka;
    struct rd_kafka_queue_s *queue;
    struct rd_kafka_topic_s *topics[BROKER_TOPICS_MAX];
    struct primed primed;
    const char *names[BROKER_TOPICS_MAX]; /* of the opened topics, else NULL */
    int counts[BROKER_TOPICS_MAX];        /* of partitions, by topic */
    struct kafka_topic_config configs[BROKER_TOPICS_MAX];
    struct kafka_config_query query;
    int64_t query_at_ms;        /* time of the next query of topic configurations */
    int64_t batch_bytes_set;    /* batch.size of the settings */
    int64_t batch_bytes_max;    /* batch.size of the producer */
    int64_t batch_bytes_logged; /* the last limit that was logged */
    const char *extra_name;     /* see broker_kafka_add_header(); NULL: none */
    const char *extra_value;
    broker_on_report on_report;
    void *on_report_ctx;
    bool is_exact; /* the lane publishes in transactions */
    struct transaction_kafka transaction;
    struct err trouble; /* the last error that librdkafka reported */
};

/* Checks that librdkafka accepts the settings. RC_FATAL: err names the invalid one. */
enum rc broker_kafka_check(const struct settings *settings, struct err *err);

/* Borrows lane and settings until broker_kafka_close(). Creates no producer yet; cannot fail. */
void broker_kafka_open(struct broker_kafka *broker, const struct lane_settings *lane,
                       const struct settings *settings, int wake_fd);

/* Adds a header to each record, behind its other ones and in place of one of this name. Borrows
 * both texts until broker_kafka_close(). Before the first send. */
void broker_kafka_add_header(struct broker_kafka *broker, const char *name, const char *value);

/* Before broker_kafka_ops(): the broker publishes in transactions, so its ops have claim, claimed
 * and commit. For the relay that holds the lane only: it fences all other producers of the lane. */
void broker_kafka_use_transactions(struct broker_kafka *broker);

/* Destroys the producer; records in flight get no report. Accepts a zeroed broker. */
void broker_kafka_close(struct broker_kafka *broker);

/* Makes the headers of the row's record (record.h). The caller owns *out, which is set only with
 * RC_OK. Public for tests. RC_REJECT: the headers column is not a JSON object of strings, or
 * contains a reserved name. Any thread. */
enum rc broker_kafka_make_headers(struct rd_kafka_headers_s **out, const struct relay_row *row,
                                  int64_t timestamp_ms, const char *lane, const char *source,
                                  struct err *err);

/* The ops (relay_ops.h) are valid while broker is open. */
struct broker broker_kafka_ops(struct broker_kafka *broker);

#endif
