/* SPDX-License-Identifier: MIT */
/* The consumer's side of Kafka as the fetching engine sees it: a member of the group, with a queue
 * of its own for each partition it holds. One thread, but stream_kafka_open() and _close(). */
#ifndef CONSUMER_INGEST_STREAM_KAFKA_H
#define CONSUMER_INGEST_STREAM_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/ingest/fetch.h"

struct stream_kafka;

/* Are the settings good for a consumer? RC_FATAL: err names the property. */
enum rc stream_kafka_check(const struct settings *settings, const char *instance, struct err *err);

/* Joins the group, as soon as a broker is there. Whenever there is something to poll or to read,
 * eight bytes are written to wakeup_fd. settings are borrowed until the close. RC_FATAL: err says
 * what a person must change. */
enum rc stream_kafka_open(struct stream_kafka **stream, const struct settings *settings,
                          const char *instance, int wakeup_fd, struct err *err);

/* Leaves the group and closes; waits for it, but no longer than until_ms (os_now_ms()). False: no
 * broker answered, and something was left that ends only with the process: see kafka_destroy(). */
bool stream_kafka_close(struct stream_kafka *stream, int64_t until_ms);

/* Lives as long as the stream. */
const struct stream *stream_kafka_ops(struct stream_kafka *stream);

#endif
