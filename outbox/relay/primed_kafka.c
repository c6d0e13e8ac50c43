/* SPDX-License-Identifier: MIT */
#include "outbox/relay/primed_kafka.h"

#include <librdkafka/rdkafka.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A partition: */
enum { PRIMED_NEW, PRIMED_FIRST, PRIMED_KNOWN };

/* Its handle carries it as the topic's opaque. */
struct primed_topic {
    rd_kafka_topic_t *handle;
    struct primed_topic *next;
    int32_t (*partitioner)(const rd_kafka_topic_t *, const void *, size_t, int32_t, void *, void *);
    int32_t count;
    int32_t known;   /* of count */
    uint8_t *states; /* of each partition */
};

/* Those of librdkafka that put a key where it always is. */
static const struct {
    const char *name;
    int32_t (*partitioner)(const rd_kafka_topic_t *, const void *, size_t, int32_t, void *, void *);
} partitioners[] = {
    {"murmur2_random", rd_kafka_msg_partitioner_murmur2_random},
    {"murmur2", rd_kafka_msg_partitioner_murmur2},
    {"consistent_random", rd_kafka_msg_partitioner_consistent_random},
    {"consistent", rd_kafka_msg_partitioner_consistent},
    {"fnv1a_random", rd_kafka_msg_partitioner_fnv1a_random},
    {"fnv1a", rd_kafka_msg_partitioner_fnv1a},
};

static void partitioner_find(struct primed_topic *topic, const rd_kafka_topic_conf_t *conf)
{
    char name[64] = "";
    size_t size = sizeof(name);

    if (rd_kafka_topic_conf_get(conf, "partitioner", name, &size) != RD_KAFKA_CONF_OK)
        return;
    for (size_t i = 0; i < sizeof(partitioners) / sizeof(partitioners[0]); i++)
        if (strcmp(name, partitioners[i].name) == 0)
            topic->partitioner = partitioners[i].partitioner;
}

static struct primed_topic *topic_find(const struct primed *primed, const char *name)
{
    struct primed_topic *topic = primed->first;

    while (topic && strcmp(rd_kafka_topic_name(topic->handle), name) != 0)
        topic = topic->next;
    return topic;
}

enum rc primed_open(struct primed *primed, rd_kafka_t *kafka, const char *name, struct err *err)
{
    rd_kafka_topic_conf_t *conf;
    struct primed_topic *topic;

    if (topic_find(primed, name))
        return RC_OK;
    topic = calloc(1, sizeof(*topic));
    if (!topic)
        return err_fail(err, RC_RETRY, 0, "out of memory for topic %s", name);
    conf = rd_kafka_default_topic_conf_dup(kafka);
    partitioner_find(topic, conf);
    rd_kafka_topic_conf_set_opaque(conf, topic);
    topic->handle = rd_kafka_topic_new(kafka, name, conf);
    if (!topic->handle) {
        rd_kafka_topic_conf_destroy(conf);
        free(topic);
        return err_fail(err, RC_RETRY, 0, "kafka: topic %s: %s", name,
                        rd_kafka_err2str(rd_kafka_last_error()));
    }
    topic->next = primed->first;
    primed->first = topic;
    return RC_OK;
}

enum rc primed_count(struct primed *primed, const char *name, int count, struct err *err)
{
    struct primed_topic *topic = topic_find(primed, name);
    uint8_t *states;

    if (!topic || count <= topic->count)
        return RC_OK;
    states = realloc(topic->states, (size_t)count);
    if (!states)
        return err_fail(err, RC_RETRY, 0, "out of memory for %d partitions of topic %s", count,
                        name);
    memset(states + topic->count, PRIMED_NEW, (size_t)(count - topic->count));
    topic->states = states;
    topic->count = count;
    return RC_OK;
}

/* The state of the key's partition; NULL: it does not matter. */
static uint8_t *state_of(const rd_kafka_topic_t *handle, struct bytes key)
{
    const struct primed_topic *topic = rd_kafka_topic_opaque(handle);
    int32_t partition;

    if (!topic || !topic->partitioner || topic->known == topic->count || !key.data)
        return NULL;
    partition = topic->partitioner(handle, key.data, key.len, topic->count, NULL, NULL);
    return partition >= 0 && partition < topic->count ? &topic->states[partition] : NULL;
}

/* A topic that has got more partitions puts a key elsewhere than was thought, and the report does
 * not reach the one that waits for it: while nothing is under way, nothing waits. */
bool primed_may_send(const struct primed *primed, const rd_kafka_topic_t *handle, struct bytes key)
{
    const uint8_t *state = state_of(handle, key);

    return !state || *state != PRIMED_FIRST || primed->under_way == 0;
}

void primed_sent(struct primed *primed, const rd_kafka_topic_t *handle, struct bytes key)
{
    uint8_t *state = state_of(handle, key);

    primed->under_way++;
    if (state && *state == PRIMED_NEW)
        *state = PRIMED_FIRST;
}

void primed_reported(struct primed *primed, const rd_kafka_message_t *message, bool acked)
{
    struct primed_topic *topic = rd_kafka_topic_opaque(message->rkt);
    uint8_t *state;

    if (primed->under_way > 0)
        primed->under_way--;
    if (!topic || message->partition < 0 || message->partition >= topic->count)
        return;
    state = &topic->states[message->partition];
    if (acked && *state != PRIMED_KNOWN) {
        *state = PRIMED_KNOWN;
        topic->known++;
    } else if (*state == PRIMED_FIRST) {
        *state = PRIMED_NEW;
    }
}

void primed_close(struct primed *primed)
{
    while (primed->first) {
        struct primed_topic *topic = primed->first;

        primed->first = topic->next;
        rd_kafka_topic_destroy(topic->handle);
        free(topic->states);
        free(topic);
    }
    primed->under_way = 0;
}
