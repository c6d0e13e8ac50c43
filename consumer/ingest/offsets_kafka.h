/* SPDX-License-Identifier: MIT */
/* Asks a broker, from outside of any group, which records a partition holds. One thread. */
#ifndef CONSUMER_INGEST_OFFSETS_KAFKA_H
#define CONSUMER_INGEST_OFFSETS_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdint.h>

struct offsets_kafka;

/* RC_FATAL: err says which setting is wrong. */
enum rc offsets_kafka_open(struct offsets_kafka **offsets, const struct settings *settings,
                           struct err *err);
void offsets_kafka_close(struct offsets_kafka *offsets);

/* Records low..high-1 are there. RC_RETRY: nobody answered within timeout_ms. RC_REJECT: there is
 * no such partition, or we may not see it. */
enum rc offsets_kafka_ask(struct offsets_kafka *offsets, const struct place *place, int64_t *low,
                          int64_t *high, int timeout_ms, struct err *err);

#endif
