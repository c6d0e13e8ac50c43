/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/topic_query_kafka.h"

#include "common/kafka/kafka.h"
#include "common/kafka/topic.h"
#include "common/text.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPICS_MAX 64
#define ASK_AGAIN_MS 5000
#define ASK_SOON_MS 200 /* while a question has no answer */
#define ANSWER_MS 3000
#define CONFIG_AGAIN_MS 60000
#define CONFIG_RETRY_MS 5000

/* rd_kafka_DescribeTopics() exists since 2.3. */
#define CAN_ASK (RD_KAFKA_VERSION >= 0x020300ff)

struct topic {
    char name[TOPIC_SIZE];
    char id[TOPIC_ID_SIZE];
    bool known; /* queried since the last topic_ids_doubt(), or cannot be known */
    bool compacted;
};

struct topic_ids {
    rd_kafka_t *kafka;
    rd_kafka_queue_t *queue;
    struct topic topics[TOPICS_MAX];
    size_t count;
    bool pending;   /* a question has no answer yet */
    bool outdated;  /* the pending question is older than the last topic_ids_doubt() */
    int64_t ask_ms; /* earliest time of the next question */
    struct kafka_config_query config;
    bool config_pending;
    int64_t config_ms; /* earliest time of the next question */
};

enum rc topic_ids_open(struct topic_ids **out, struct rd_kafka_s *kafka, const char *topics,
                       struct err *err)
{
    struct topic_ids *ids = calloc(1, sizeof(*ids));
    size_t len;

    if (!ids)
        return err_fail(err, RC_FATAL, 0, "no memory for the topics' ids");
    ids->kafka = kafka;
    ids->queue = rd_kafka_queue_new(kafka);
    /* Do not ask before the first assignment: the call blocks until the cluster has answered
     * once. */
    ids->config_ms = INT64_MAX;
    for (const char *topic; ids->count < TOPICS_MAX && (topic = list_next(&topics, ',', &len));) {
        ids->topics[ids->count].known = !CAN_ASK;
        snprintf(ids->topics[ids->count++].name, TOPIC_SIZE, "%.*s", (int)len, topic);
    }
    *out = ids;
    return RC_OK;
}

void topic_ids_close(struct topic_ids *ids)
{
    if (!ids)
        return;
    kafka_config_drop(&ids->config);
    rd_kafka_queue_destroy(ids->queue);
    free(ids);
}

void topic_ids_doubt(struct topic_ids *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        ids->topics[i].known = !CAN_ASK;
    ids->outdated = ids->pending;
    ids->ask_ms = 0;
    ids->config_ms = 0;
}

static const struct topic *find_topic(const struct topic_ids *ids, const char *name)
{
    for (size_t i = 0; i < ids->count; i++)
        if (strcmp(ids->topics[i].name, name) == 0)
            return &ids->topics[i];
    return NULL;
}

enum rc topic_ids_get(const struct topic_ids *ids, const char *name, char id[TOPIC_ID_SIZE])
{
    const struct topic *topic = find_topic(ids, name);

    id[0] = '\0';
    if (!topic)
        return RC_OK;
    if (!topic->known)
        return RC_RETRY;
    memcpy(id, topic->id, TOPIC_ID_SIZE);
    return RC_OK;
}

static void take_config(void *ctx, const char *name, const struct kafka_topic_config *config,
                        const struct err *err)
{
    struct topic_ids *ids = ctx;

    (void)err; /* a topic without an answer counts as not compacted */
    for (size_t i = 0; i < ids->count; i++)
        if (strcmp(ids->topics[i].name, name) == 0)
            ids->topics[i].compacted = config->compacted;
}

static void poll_config(struct topic_ids *ids, int64_t now_ms)
{
    const char *names[TOPICS_MAX];
    struct err err = {0};

    if (ids->config_pending && kafka_config_poll(&ids->config, 0, take_config, ids, &err)) {
        ids->config_pending = false;
        ids->config_ms = now_ms + (err.text[0] ? CONFIG_RETRY_MS : CONFIG_AGAIN_MS);
    }
    if (ids->config_pending || now_ms < ids->config_ms)
        return;
    for (size_t i = 0; i < ids->count; i++)
        names[i] = ids->topics[i].name;
    ids->config_pending =
        kafka_config_ask(&ids->config, ids->kafka, names, ids->count, ANSWER_MS, &err) == RC_OK;
    ids->config_ms = now_ms + CONFIG_RETRY_MS;
}

enum rc topic_ids_check(const struct topic_ids *ids, struct err *err)
{
    for (size_t i = 0; i < ids->count; i++)
        if (ids->topics[i].compacted)
            return err_fail(err, RC_REJECT, 0,
                            "topic %s is compacted (cleanup.policy): Kafka removes votes of a "
                            "content that the consumer has not read yet; set cleanup.policy=delete",
                            ids->topics[i].name);
    return RC_OK;
}

#if CAN_ASK

static void ask_topics(struct topic_ids *ids)
{
    const char *names[TOPICS_MAX];
    rd_kafka_TopicCollection_t *topics;
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(ids->kafka, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
    char text[128];

    for (size_t i = 0; i < ids->count; i++)
        names[i] = ids->topics[i].name;
    topics = rd_kafka_TopicCollection_of_topic_names(names, ids->count);
    rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, text, sizeof(text));
    rd_kafka_DescribeTopics(ids->kafka, topics, options, ids->queue);
    rd_kafka_TopicCollection_destroy(topics);
    rd_kafka_AdminOptions_destroy(options);
    ids->pending = true;
}

/* A topic that does not exist has no id yet. The id of a topic that the ACLs hide cannot be
 * known. */
static void take_topic(struct topic *topic, const rd_kafka_TopicDescription_t *answer)
{
    rd_kafka_resp_err_t code = rd_kafka_error_code(rd_kafka_TopicDescription_error(answer));
    const rd_kafka_Uuid_t *id = rd_kafka_TopicDescription_topic_id(answer);

    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        return;
    topic->known = true;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && id &&
        (rd_kafka_Uuid_most_significant_bits(id) != 0 ||
         rd_kafka_Uuid_least_significant_bits(id) != 0))
        snprintf(topic->id, sizeof(topic->id), "%s", rd_kafka_Uuid_base64str(id));
}

/* After a failed query each topic keeps its last id and counts as known. */
static void take_answer(struct topic_ids *ids, rd_kafka_event_t *event)
{
    const rd_kafka_DescribeTopics_result_t *result = rd_kafka_event_DescribeTopics_result(event);
    const rd_kafka_TopicDescription_t **answers = NULL;
    bool failed = !result || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR;
    size_t count = 0;

    if (!failed)
        answers = rd_kafka_DescribeTopics_result_topics(result, &count);
    for (size_t i = 0; i < ids->count; i++) {
        struct topic *topic = &ids->topics[i];

        if (failed)
            topic->known = true;
        for (size_t j = 0; j < count; j++)
            if (strcmp(rd_kafka_TopicDescription_name(answers[j]), topic->name) == 0)
                take_topic(topic, answers[j]);
    }
}

static bool all_known(const struct topic_ids *ids)
{
    bool known = true;

    for (size_t i = 0; i < ids->count; i++)
        known = known && ids->topics[i].known;
    return known;
}

void topic_ids_poll(struct topic_ids *ids, int64_t now_ms)
{
    rd_kafka_event_t *event = ids->pending ? rd_kafka_queue_poll(ids->queue, 0) : NULL;

    poll_config(ids, now_ms);
    if (event) {
        if (!ids->outdated)
            take_answer(ids, event);
        rd_kafka_event_destroy(event);
        ids->pending = false;
        ids->ask_ms = ids->outdated ? 0 : now_ms + (all_known(ids) ? ASK_AGAIN_MS : ASK_SOON_MS);
        ids->outdated = false;
    }
    if (!ids->pending && now_ms >= ids->ask_ms)
        ask_topics(ids);
}

#else

void topic_ids_poll(struct topic_ids *ids, int64_t now_ms)
{
    poll_config(ids, now_ms);
}

#endif

enum rc topic_query_offsets(const struct settings *settings, const struct place *place,
                            int64_t *low, int64_t *high, int timeout_ms, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    rd_kafka_resp_err_t code;
    rd_kafka_t *kafka;
    char text[256] = "";
    enum rc rc = kafka_conf_make(&conf, settings, KAFKA_TOOL, NULL, 0, err);

    if (rc != RC_OK)
        return rc;
    kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (!kafka) {
        rd_kafka_conf_destroy(conf);
        return err_fail(err, RC_FATAL, 0, "cannot make a Kafka client: %s", text);
    }
    code = rd_kafka_query_watermark_offsets(kafka, place->topic, place->partition, low, high,
                                            timeout_ms);
    rd_kafka_destroy(kafka);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    return kafka_fail(err, (int)code, "cannot read the offsets of %s/%d", place->topic,
                      (int)place->partition);
}
