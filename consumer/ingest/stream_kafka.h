/* SPDX-License-Identifier: MIT */
/* The Kafka adapter of the fetching engine: a member of the consumer group, with a separate queue
 * for each assigned partition. One thread, except for stream_kafka_open() and _close(). */
#ifndef CONSUMER_INGEST_STREAM_KAFKA_H
#define CONSUMER_INGEST_STREAM_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/ingest/fetch.h"

struct stream_kafka;

/* Checks the Kafka settings. RC_FATAL: err names the property. */
enum rc stream_kafka_check(const struct settings *settings, const char *instance, struct err *err);

/* Joins the group as soon as a broker is reachable. Whenever an event can be polled or a record can
 * be read, eight bytes are written to wakeup_fd. settings are borrowed until the close. RC_FATAL:
 * err tells what to change. */
enum rc stream_kafka_open(struct stream_kafka **stream, const struct settings *settings,
                          const char *instance, int wakeup_fd, struct err *err);

/* Leaves the group and closes, and waits for that until until_ms (os_now_ms()) at most. False: no
 * broker answered, and resources are left that end with the process; see kafka_destroy(). */
bool stream_kafka_close(struct stream_kafka *stream, int64_t until_ms);

/* Valid until the close. */
const struct stream *stream_kafka_ops(struct stream_kafka *stream);

#endif
