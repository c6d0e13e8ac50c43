/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/offset_topic_kafka.h"

#include "common/kafka/kafka.h"
#include "common/os.h"
#include "outbox/adopt/connect_offset.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MS 10000
#define READ_MS 60000 /* for all of the topic */
#define POLL_MS 200
#define CLOSE_MS 2000

struct reading {
    rd_kafka_t *kafka;
    const char *topic;
    const char *connector;
    const char *prefix;
    rd_kafka_topic_partition_list_t *partitions;
    int count;
    int ended; /* partitions that are read */
    struct buf *value;
    bool found;
};

static enum rc open_consumer(struct reading *reading, const struct settings *settings,
                             struct err *err)
{
    static const struct kafka_default defaults[] = {
        {"group.id", "tallybox-adopt", NULL},
        {"enable.auto.commit", "false", "no offset of a group may be written"},
        {"enable.partition.eof", "true", "the end of the topic has to be found"},
        {"auto.offset.reset", "error", "no record may be left out"},
        {"isolation.level", "read_committed", NULL},
    };
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc = kafka_conf_make(&conf, settings, KAFKA_CONSUMER, defaults,
                                 sizeof(defaults) / sizeof(defaults[0]), err);

    if (rc != RC_OK)
        return rc;
    reading->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (reading->kafka) {
        rd_kafka_poll_set_consumer(reading->kafka);
        return RC_OK;
    }
    rd_kafka_conf_destroy(conf);
    return err_fail(err, RC_FATAL, 0, "no Kafka consumer: %s", text);
}

static enum rc assign_partitions(struct reading *reading, const rd_kafka_metadata_t *metadata,
                                 struct err *err)
{
    const rd_kafka_metadata_topic_t *topic = &metadata->topics[0];
    rd_kafka_resp_err_t code = topic->err;

    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail(err, code, "topic %.100s", reading->topic);
    reading->count = topic->partition_cnt;
    reading->partitions = rd_kafka_topic_partition_list_new(topic->partition_cnt);
    for (int i = 0; i < topic->partition_cnt; i++)
        rd_kafka_topic_partition_list_add(reading->partitions, reading->topic,
                                          topic->partitions[i].id)
            ->offset = RD_KAFKA_OFFSET_BEGINNING;
    code = rd_kafka_assign(reading->kafka, reading->partitions);
    return code ? kafka_fail(err, code, "reading topic %.100s", reading->topic) : RC_OK;
}

static enum rc find_partitions(struct reading *reading, struct err *err)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(reading->kafka, reading->topic, NULL);
    const rd_kafka_metadata_t *metadata = NULL;
    rd_kafka_resp_err_t code;
    enum rc rc;

    if (!topic)
        return err_fail(err, RC_REJECT, 0, "\"%.100s\" is no name of a topic", reading->topic);
    code = rd_kafka_metadata(reading->kafka, 0, topic, &metadata, ANSWER_MS);
    rd_kafka_topic_destroy(topic);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail_no_answer(err, reading->kafka, code, ANSWER_MS);
    rc = metadata->topic_cnt == 1
             ? assign_partitions(reading, metadata, err)
             : err_fail(err, RC_REJECT, 0, "there is no topic %.100s", reading->topic);
    rd_kafka_metadata_destroy(metadata);
    return rc;
}

/* A record without a value says that the offset was removed. */
static void take_record(struct reading *reading, const rd_kafka_message_t *message)
{
    if (!connect_offset_is_key(message->key, message->key_len, reading->connector, reading->prefix))
        return;
    buf_reset(reading->value);
    reading->found = message->payload != NULL;
    if (message->payload)
        buf_put(reading->value, message->payload, message->len);
}

static enum rc read_records(struct reading *reading, struct err *err)
{
    int64_t until_ms = os_now_ms() + READ_MS;

    while (reading->ended < reading->count) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(reading->kafka, POLL_MS);
        rd_kafka_resp_err_t code = message ? message->err : RD_KAFKA_RESP_ERR_NO_ERROR;

        if (message && code == RD_KAFKA_RESP_ERR_NO_ERROR)
            take_record(reading, message);
        if (message)
            rd_kafka_message_destroy(message);
        if (code == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            reading->ended++;
        else if (code != RD_KAFKA_RESP_ERR_NO_ERROR && kafka_classify(code) != RC_RETRY)
            return kafka_fail(err, code, "reading topic %.100s", reading->topic);
        if (os_now_ms() >= until_ms)
            return err_fail(err, RC_RETRY, 0, "topic %.100s was not read within %d s",
                            reading->topic, READ_MS / 1000);
    }
    return RC_OK;
}

enum rc offset_topic_read(const struct settings *settings, const char *topic, const char *connector,
                          const char *prefix, struct buf *value, struct err *err)
{
    struct reading reading = {
        .topic = topic, .connector = connector, .prefix = prefix, .value = value};
    enum rc rc = open_consumer(&reading, settings, err);

    if (rc == RC_OK)
        rc = find_partitions(&reading, err);
    if (rc == RC_OK)
        rc = read_records(&reading, err);
    if (rc == RC_OK && !reading.found)
        rc = err_fail(err, RC_REJECT, 0,
                      "topic %.100s has no offset of the connector %.80s with the server %.80s "
                      "(topic.prefix)",
                      topic, connector, prefix);
    if (rc == RC_OK && value->failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for an offset");
    if (reading.partitions)
        rd_kafka_topic_partition_list_destroy(reading.partitions);
    if (reading.kafka) {
        rd_kafka_assign(reading.kafka, NULL);
        kafka_destroy(reading.kafka, 0, os_now_ms() + CLOSE_MS);
    }
    return rc;
}
