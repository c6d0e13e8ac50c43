/* SPDX-License-Identifier: MIT */
/* Which partitions know a producer. A partition that has taken nothing of a producer yet takes any
 * request of it as the first one: the second, when the first was refused and both were on their way
 * (KAFKA-15591 is one case of that, a topic's max.message.bytes another). So a partition gets one
 * record of a new producer, and the next ones when that one is acknowledged; from then on the
 * gapless guarantee holds. One thread. */
#ifndef OUTBOX_RELAY_PRIMED_KAFKA_H
#define OUTBOX_RELAY_PRIMED_KAFKA_H

#include "common/err.h"
#include "outbox/relay/relay_row.h"

#include <stdbool.h>
#include <stddef.h>

struct rd_kafka_s;
struct rd_kafka_topic_s;
struct rd_kafka_message_s;
struct primed_topic;

/* The topics of one producer; zeroed: none. */
struct primed {
    struct primed_topic *first;
    size_t under_way; /* records without a report */
};

/* Before the producer's first use of a topic. RC_RETRY: no memory. */
enum rc primed_open(struct primed *primed, struct rd_kafka_s *kafka, const char *topic,
                    struct err *err);

/* How many partitions it has; 0: not known, nothing waits then. RC_RETRY: no memory. */
enum rc primed_count(struct primed *primed, const char *topic, int count, struct err *err);

/* May a record with this key go out now? A record without a key has no order to keep. */
bool primed_may_send(const struct primed *primed, const struct rd_kafka_topic_s *topic,
                     struct bytes key);

/* It went out. */
void primed_sent(struct primed *primed, const struct rd_kafka_topic_s *topic, struct bytes key);

/* It was reported; acknowledged or not. */
void primed_reported(struct primed *primed, const struct rd_kafka_message_s *message, bool acked);

/* Before the producer ends. */
void primed_close(struct primed *primed);

#endif
