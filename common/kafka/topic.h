/* SPDX-License-Identifier: MIT */
/* Topics: makes those that are missing, and reads the configuration that matters for records (how
 * large a batch may be, how long a record is kept, whether a topic is compacted). Configurations
 * are queried without waiting, so that a sending thread may repeat the query. This needs the ACL
 * DescribeConfigs on the topics; without it Kafka's defaults are assumed, and one warning per
 * process is logged. One thread at a time for each handle. */
#ifndef COMMON_KAFKA_TOPIC_H
#define COMMON_KAFKA_TOPIC_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_kafka_s;
struct rd_kafka_queue_s;

/* Sees that a topic exists, making it with partitions (> 0) and replication (-1: broker's default)
 * where it does not. A topic that is there is left alone whatever its partitions. A broker without
 * an admin API (the in-process one) makes topics by itself. RC_RETRY: cannot tell now. RC_REJECT:
 * no topic can have that name. RC_FATAL: it is missing and may not be made; err says by whom and
 * how to. *count, where it is not NULL, is how many partitions it has; 0: not known. Blocks up to
 * timeout_ms. */
enum rc kafka_ensure_topic(struct rd_kafka_s *kafka, const char *topic, int partitions,
                           int replication, int timeout_ms, int *count, struct err *err);

#define KAFKA_COMPACTED_BYTES_MAX "4194304"

/* The same for a topic with one partition and cleanup.policy=compact that gets many records for few
 * keys: its segments are small, so that compaction keeps up, and a record may have
 * KAFKA_COMPACTED_BYTES_MAX. One that is there is left alone. */
enum rc kafka_ensure_compacted_topic(struct rd_kafka_s *kafka, const char *topic, int replication,
                                     int timeout_ms, struct err *err);

struct kafka_topic_config {
    bool known;              /* false: the broker did not tell; all below are Kafka's defaults */
    bool compacted;          /* cleanup.policy names compact */
    bool deletes;            /* it names delete: old records go, also the last one of a key */
    int64_t retention_ms;    /* retention.ms; -1: no limit */
    int64_t batch_bytes_max; /* max.message.bytes, which is of a batch as the broker stores it */
    int64_t older_ms_max;    /* message.timestamp.before.max.ms: older records are refused */
    int64_t newer_ms_max;    /* message.timestamp.after.max.ms */
};

void kafka_topic_config_default(struct kafka_topic_config *config);

/* Stores one entry of a topic's configuration, in the broker's notation. Other entries and values
 * that are no number are ignored. Pure. */
void kafka_topic_config_set(struct kafka_topic_config *config, const char *name, const char *value);

/* How far in the past the time of a record may lie, in ms: half of what the topic keeps, or else
 * Kafka may delete it before it was read. INT64_MAX: as far as it likes. Pure. */
int64_t kafka_topic_older_ms_max(const struct kafka_topic_config *config);

/* One question under way. Zeroed: none. */
struct kafka_config_query {
    struct rd_kafka_queue_s *queue;
};

/* One topic's answer. err is NULL unless the broker did not tell. */
typedef void (*kafka_on_topic_config)(void *ctx, const char *topic,
                                      const struct kafka_topic_config *config,
                                      const struct err *err);

/* Queries topics; ignored while an earlier query is pending. The broker has timeout_ms to answer.
 * RC_RETRY: the query cannot be sent (also to the in-process broker). */
enum rc kafka_config_ask(struct kafka_config_query *query, struct rd_kafka_s *kafka,
                         const char *const *topics, size_t count, int timeout_ms, struct err *err);

/* Calls on_config with the answer if it arrives within wait_ms (0: if it has arrived). False while
 * the query is pending. A query that failed as a whole ends without a call of on_config; err then
 * has the reason, and is empty otherwise. */
bool kafka_config_poll(struct kafka_config_query *query, int wait_ms,
                       kafka_on_topic_config on_config, void *ctx, struct err *err);

/* Gives the question up. Before the handle is destroyed. */
void kafka_config_drop(struct kafka_config_query *query);

/* Asks about one topic and waits. *config is always filled. RC_RETRY: the broker did not answer.
 * RC_REJECT: it does not tell this account. */
enum rc kafka_config_read(struct rd_kafka_s *kafka, const char *topic, int timeout_ms,
                          struct kafka_topic_config *config, struct err *err);

#endif
