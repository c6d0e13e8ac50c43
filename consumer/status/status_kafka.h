/* SPDX-License-Identifier: MIT */
/* What Kafka knows of a status: the partitions and where they end. One thread. */
#ifndef CONSUMER_STATUS_STATUS_KAFKA_H
#define CONSUMER_STATUS_STATUS_KAFKA_H

#include "common/config/settings.h"
#include "consumer/status/status.h"

/* Adds the partitions of consumer.topics and fills the watermarks, within a few seconds; what could
 * not be had is in status->kafka_fault. Makes no topic. */
void status_kafka_fill(struct status *status, const struct settings *settings);

#endif
