/* SPDX-License-Identifier: MIT */
/* Reads the Kafka part of a status: the partitions and their watermarks. One thread. */
#ifndef CONSUMER_STATUS_STATUS_KAFKA_H
#define CONSUMER_STATUS_STATUS_KAFKA_H

#include "common/config/settings.h"
#include "consumer/status/status.h"

/* Adds the partitions of consumer.topics and fills the watermarks within a few seconds. What could
 * not be read is in status->kafka_fault. Creates no topic. */
void status_kafka_fill(struct status *status, const struct settings *settings);

#endif
