/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/record_topics_kafka.h"

#include "common/utc.h"
#include "outbox/relay/producer_kafka.h"
#include "outbox/relay/row_record.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

#define TOPIC_WAIT_MS_MAX 3000

/* RECORD_TOPICS_MAX: not known. */
static size_t find_topic(const struct record_topics *topics, const char *topic)
{
    for (size_t i = 0; i < topics->count && i < RECORD_TOPICS_MAX; i++)
        if (strcmp(topics->names[i], topic) == 0)
            return i;
    return RECORD_TOPICS_MAX;
}

bool record_topics_knows(const struct record_topics *topics, const char *topic)
{
    return find_topic(topics, topic) < RECORD_TOPICS_MAX;
}

void record_topics_learn(struct record_topics *topics, const char *topic,
                         const struct kafka_topic_config *config)
{
    size_t place = topics->count % RECORD_TOPICS_MAX;

    if (record_topics_knows(topics, topic))
        return;
    snprintf(topics->names[place], TOPIC_NAME_SIZE, "%s", topic);
    topics->older_ms_max[place] = config->known ? kafka_topic_older_ms_max(config) : INT64_MAX;
    topics->bytes_max[place] = config->known ? config->batch_bytes_max : 0;
    topics->count++;
}

void record_topics_forget(struct record_topics *topics, const char *topic)
{
    size_t place = find_topic(topics, topic);

    if (place < RECORD_TOPICS_MAX)
        topics->names[place][0] = '\0';
}

enum rc record_topic_check(rd_kafka_t *kafka, const struct settings *settings, const char *topic,
                           int64_t wait_ms, struct kafka_topic_config *config, struct err *err)
{
    struct err unread;
    enum rc rc;

    if (wait_ms > TOPIC_WAIT_MS_MAX)
        wait_ms = TOPIC_WAIT_MS_MAX;
    if (wait_ms < 1)
        wait_ms = 1;
    rc = kafka_ensure_topic(kafka, topic, (int)settings->relay.topic_partitions,
                            (int)settings->relay.topic_replication, (int)wait_ms, NULL, err);
    kafka_topic_config_default(config);
    if (rc == RC_OK)
        kafka_config_read(kafka, topic, (int)wait_ms, config, &unread);
    return rc;
}

int64_t record_topics_timestamp(const struct record_topics *topics,
                                const struct publisher_record *record)
{
    size_t place = find_topic(topics, record->topic);
    int64_t least_ms = 0;

    if (record->timestamp_ms <= 0)
        return record->timestamp_ms;
    if (place < RECORD_TOPICS_MAX && topics->older_ms_max[place] < INT64_MAX)
        least_ms = record->now_ms - topics->older_ms_max[place];
    return record->timestamp_ms < least_ms ? least_ms : record->timestamp_ms;
}

rd_kafka_headers_t *record_headers_make(const struct publisher_record *record, int64_t timestamp_ms)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(record->header_count + 1);
    bool original = timestamp_ms == record->timestamp_ms;
    char time[UTC_TEXT_SIZE];
    size_t len;

    for (size_t i = 0; i < record->header_count; i++) {
        const struct publisher_header *header = &record->headers[i];

        /* Fails only without memory, and then librdkafka ends the process itself. */
        rd_kafka_header_add(headers, header->name, -1, header->value.data,
                            (ssize_t)header->value.len);
        original = original || strcmp(header->name, ROW_RECORD_ORIGINAL_TIMESTAMP) == 0;
    }
    if (!original) {
        len = utc_format(record->timestamp_ms, time);
        rd_kafka_header_add(headers, ROW_RECORD_ORIGINAL_TIMESTAMP, -1, time, (ssize_t)len);
    }
    return headers;
}

void record_topics_add_limits(const struct record_topics *topics, const struct settings *settings,
                              const char *topic, struct err *err)
{
    size_t place = find_topic(topics, topic);

    producer_add_limits(err, place < RECORD_TOPICS_MAX ? topics->bytes_max[place] : 0,
                        settings->relay.row_bytes_max);
}

enum publisher_end record_classify_end(enum rc rc, int code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        return PUBLISH_BARRED;
    default:
        break;
    }
    if (rc == RC_OK)
        return PUBLISHED;
    return rc == RC_REJECT ? PUBLISH_REFUSED : PUBLISH_FAILED;
}
