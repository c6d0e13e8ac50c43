/* SPDX-License-Identifier: MIT */
/* How librdkafka is set up for a consumer of ours: what may not be changed, and what is a default
 * that [kafka] may change. Any thread. */
#ifndef CONSUMER_INGEST_STREAM_CONF_KAFKA_H
#define CONSUMER_INGEST_STREAM_CONF_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"

struct rd_kafka_conf_s;

/* *conf is the caller's. RC_FATAL: err names the property. */
enum rc stream_conf_make(struct rd_kafka_conf_s **conf, const struct settings *settings,
                         const char *instance, struct err *err);

#endif
