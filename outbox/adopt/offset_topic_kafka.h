/* SPDX-License-Identifier: MIT */
/* Reads the offset of a connector from the topic in which Kafka Connect keeps offsets
 * (offset.storage.topic of its workers). Main thread of a command. */
#ifndef OUTBOX_ADOPT_OFFSET_TOPIC_KAFKA_H
#define OUTBOX_ADOPT_OFFSET_TOPIC_KAFKA_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"

/* Appends the last value of the connector with this name and topic.prefix. Reads the whole topic,
 * which is compacted. RC_REJECT: there is none. RC_RETRY: Kafka does not answer. */
enum rc offset_topic_read(const struct settings *settings, const char *topic, const char *connector,
                          const char *prefix, struct buf *value, struct err *err);

#endif
