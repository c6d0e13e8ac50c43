/* SPDX-License-Identifier: MIT */
/* Queries topics asynchronously: their ids, which change when a topic is deleted
 * and created again, and whether they are compacted. Brokers or libraries without topic ids give
 * empty ones. topic_query_offsets() alone blocks. One thread, except topic_query_offsets(). */
#ifndef CONSUMER_INGEST_TOPIC_QUERY_KAFKA_H
#define CONSUMER_INGEST_TOPIC_QUERY_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stddef.h>
#include <stdint.h>

struct rd_kafka_s;
struct topic_ids;

/* topics is a comma-separated list. RC_FATAL: no memory. */
enum rc topic_ids_open(struct topic_ids **ids, struct rd_kafka_s *kafka, const char *topics,
                       struct err *err);
/* Call before the handle is destroyed. */
void topic_ids_close(struct topic_ids *ids);

/* Takes in answers, and asks again if the last answer is old. */
void topic_ids_poll(struct topic_ids *ids, int64_t now_ms);

/* Asks again soon, because a topic may have changed. */
void topic_ids_doubt(struct topic_ids *ids);

/* RC_REJECT: a topic is compacted according to the last answer; err names the first. RC_OK: none
 * is, or it is not known. */
enum rc topic_ids_check(const struct topic_ids *ids, struct err *err);

/* Returns the id of the last answer; "" if it cannot be known. RC_RETRY: not answered yet. */
enum rc topic_ids_get(const struct topic_ids *ids, const char *topic, char id[TOPIC_ID_SIZE]);

/* Reads, with a client of its own and outside of any group, which records a partition holds:
 * low..high-1. RC_RETRY: no broker answered within timeout_ms. RC_REJECT: the partition does not
 * exist, or the ACLs hide it. RC_FATAL: err names the setting that is wrong. Any thread. */
enum rc topic_query_offsets(const struct settings *settings, const struct place *place,
                            int64_t *low, int64_t *high, int timeout_ms, struct err *err);

#endif
