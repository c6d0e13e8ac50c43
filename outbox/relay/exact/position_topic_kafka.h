/* SPDX-License-Identifier: MIT */
/* Reads the topic of positions, which also has what the retry role has published of each lane
 * (published_tasks.h). Any thread; has its own connections for the time of the call. */
#ifndef OUTBOX_RELAY_EXACT_POSITION_TOPIC_KAFKA_H
#define OUTBOX_RELAY_EXACT_POSITION_TOPIC_KAFKA_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/relay/exact/position_record.h"

#include <stdbool.h>

/* What is read: the records before the first transaction that is open, or all up to the present end
 * of the topic, which has to wait until no transaction is open before it. */
enum position_topic_end { POSITION_TOPIC_DECIDED, POSITION_TOPIC_END };

/* Reads the value of the last committed record with this key into an empty buffer; value->failed
 * when memory is exhausted. *found is false if there is none, or if it is a tombstone. RC_RETRY as
 * below. */
enum rc position_topic_read_value(const struct settings *settings, const char *topic,
                                  const char *key, enum position_topic_end end, int64_t until_ms,
                                  struct buf *value, bool *found, struct err *err);

/* Reads the last committed record with this key into an empty record. *found is false if there is
 * none. RC_RETRY: that takes until after until_ms (os_now_ms()): the brokers do not answer, a
 * transaction of another lane is open, or the topic is too long. RC_FATAL: the record is not valid;
 * err has its offset. */
enum rc position_topic_read_last(const struct settings *settings, const char *topic,
                                 const char *key, enum position_topic_end end, int64_t until_ms,
                                 struct position_record *last, bool *found, struct err *err);

#endif
