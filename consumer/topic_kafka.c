/* SPDX-License-Identifier: MIT */
#include "consumer/topic_kafka.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPICS_MAX 64
#define ASK_AGAIN_MS 15000
#define ANSWER_MS 3000

/* The call has come with 2.3. */
#define CAN_ASK (RD_KAFKA_VERSION >= 0x020300ff)

struct topic_ids {
    rd_kafka_t *kafka;
    rd_kafka_queue_t *queue;
    char names[TOPICS_MAX][TOPIC_SIZE];
    char ids[TOPICS_MAX][TOPIC_ID_SIZE];
    size_t count;
    bool known; /* answered, or given up */
    bool asked;
    int64_t ask_ms; /* not before */
};

enum rc topic_ids_open(struct topic_ids **out, struct rd_kafka_s *kafka, const char *topics,
                       struct err *err)
{
    struct topic_ids *ids = calloc(1, sizeof(*ids));

    if (!ids)
        return err_fail(err, RC_FATAL, 0, "no memory for the topics' ids");
    ids->kafka = kafka;
    ids->queue = rd_kafka_queue_new(kafka);
    ids->known = !CAN_ASK;
    while (*topics && ids->count < TOPICS_MAX) {
        size_t len = strcspn(topics, ",");

        snprintf(ids->names[ids->count++], TOPIC_SIZE, "%.*s", (int)len, topics);
        topics += len;
        topics += *topics == ',';
    }
    *out = ids;
    return RC_OK;
}

void topic_ids_close(struct topic_ids *ids)
{
    if (!ids)
        return;
    rd_kafka_queue_destroy(ids->queue);
    free(ids);
}

void topic_ids_doubt(struct topic_ids *ids)
{
    ids->ask_ms = 0;
}

enum rc topic_ids_get(const struct topic_ids *ids, const char *topic, char id[TOPIC_ID_SIZE])
{
    id[0] = '\0';
    if (!ids->known)
        return RC_RETRY;
    for (size_t i = 0; i < ids->count; i++)
        if (strcmp(ids->names[i], topic) == 0)
            memcpy(id, ids->ids[i], TOPIC_ID_SIZE);
    return RC_OK;
}

#if CAN_ASK

static void ask(struct topic_ids *ids)
{
    const char *names[TOPICS_MAX];
    rd_kafka_TopicCollection_t *topics;
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(ids->kafka, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
    char text[128];

    for (size_t i = 0; i < ids->count; i++)
        names[i] = ids->names[i];
    topics = rd_kafka_TopicCollection_of_topic_names(names, ids->count);
    rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, text, sizeof(text));
    rd_kafka_DescribeTopics(ids->kafka, topics, options, ids->queue);
    rd_kafka_TopicCollection_destroy(topics);
    rd_kafka_AdminOptions_destroy(options);
    ids->asked = true;
}

static void take_topic(struct topic_ids *ids, const rd_kafka_TopicDescription_t *topic)
{
    const char *name = rd_kafka_TopicDescription_name(topic);
    const rd_kafka_Uuid_t *id = rd_kafka_TopicDescription_topic_id(topic);

    if (rd_kafka_error_code(rd_kafka_TopicDescription_error(topic)) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    if (!id || (rd_kafka_Uuid_most_significant_bits(id) == 0 &&
                rd_kafka_Uuid_least_significant_bits(id) == 0))
        return;
    for (size_t i = 0; i < ids->count; i++)
        if (strcmp(ids->names[i], name) == 0)
            snprintf(ids->ids[i], TOPIC_ID_SIZE, "%s", rd_kafka_Uuid_base64str(id));
}

/* An answer that failed leaves what was heard before. */
static void take_answer(struct topic_ids *ids, rd_kafka_event_t *event)
{
    const rd_kafka_DescribeTopics_result_t *result = rd_kafka_event_DescribeTopics_result(event);
    size_t count = 0;

    if (result && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const rd_kafka_TopicDescription_t **topics =
            rd_kafka_DescribeTopics_result_topics(result, &count);

        for (size_t i = 0; i < count; i++)
            take_topic(ids, topics[i]);
    }
    ids->known = true;
    ids->asked = false;
}

void topic_ids_poll(struct topic_ids *ids, int64_t now_ms)
{
    rd_kafka_event_t *event = ids->asked ? rd_kafka_queue_poll(ids->queue, 0) : NULL;

    if (event) {
        take_answer(ids, event);
        rd_kafka_event_destroy(event);
    }
    if (ids->asked || now_ms < ids->ask_ms)
        return;
    ids->ask_ms = now_ms + ASK_AGAIN_MS;
    ask(ids);
}

#else

void topic_ids_poll(struct topic_ids *ids, int64_t now_ms)
{
    (void)ids;
    (void)now_ms;
}

#endif
