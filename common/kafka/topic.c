/* SPDX-License-Identifier: MIT */
#include "common/kafka/kafka.h"

#include "common/os.h"
#include "common/stop.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

/* One effort to see a topic made. */
struct topic_wish {
    rd_kafka_t *kafka;
    const char *topic;
    int partitions;
    int replication;
    int64_t until_ms;
};

static int compute_left_ms(const struct topic_wish *wish)
{
    int64_t left_ms = wish->until_ms - os_now_ms();

    return left_ms > 1 ? (int)left_ms : 1;
}

/* *partitions: 0 if the topic does not exist. Requests the names of all topics, because requesting
 * a single one creates it if the broker has auto.create.topics.enable. */
static enum rc find_topic(const struct topic_wish *wish, int *partitions, struct err *err)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code =
        rd_kafka_metadata(wish->kafka, 1, NULL, &metadata, compute_left_ms(wish));

    *partitions = 0;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_fail(err, code, "kafka: cannot list the topics");
        kafka_name_brokers(wish->kafka);
        return RC_RETRY;
    }
    for (int i = 0; i < metadata->topic_cnt; i++)
        if (strcmp(metadata->topics[i].topic, wish->topic) == 0)
            *partitions = metadata->topics[i].partition_cnt;
    rd_kafka_metadata_destroy(metadata);
    return RC_OK;
}

static void put_replication(const struct topic_wish *wish, char text[48])
{
    text[0] = '\0';
    if (wish->replication > 0)
        snprintf(text, 48, " --replication-factor %d", wish->replication);
}

/* Classifies the broker's refusal to create a topic that is needed. */
static enum rc fail_create(const struct topic_wish *wish, rd_kafka_resp_err_t code,
                           const char *text, struct err *err)
{
    char replication[48];

    switch ((int)code) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
    case RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS:
        return RC_OK;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        put_replication(wish, replication);
        return err_fail(err, RC_FATAL, code,
                        "kafka: topic %s is missing (or hidden from this account), and this "
                        "account may not make it; ask for: kafka-topics.sh --bootstrap-server "
                        "HOST:PORT --create --topic %s --partitions %d%s "
                        "(relay.topic_partitions, relay.topic_replication)",
                        wish->topic, wish->topic, wish->partitions, replication);
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
        return err_fail(err, RC_REJECT, code, "kafka: \"%s\" cannot be a topic: %s", wish->topic,
                        text);
    case RD_KAFKA_RESP_ERR_INVALID_PARTITIONS:
    case RD_KAFKA_RESP_ERR_INVALID_CONFIG:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
        return err_fail(err, RC_FATAL, code,
                        "kafka: topic %s does not exist and the broker refuses to make it with "
                        "relay.topic_partitions = %d, relay.topic_replication = %d: %s",
                        wish->topic, wish->partitions, wish->replication, text);
    default:
        /* INVALID_REPLICATION_FACTOR is one of them: it passes when more brokers are up. */
        return err_fail(err, RC_RETRY, code,
                        "kafka: cannot make topic %s (relay.topic_partitions = %d, "
                        "relay.topic_replication = %d): %s",
                        wish->topic, wish->partitions, wish->replication, text);
    }
}

static enum rc read_create_result(const struct topic_wish *wish, rd_kafka_event_t *event,
                                  rd_kafka_resp_err_t *code, struct err *err)
{
    const rd_kafka_CreateTopics_result_t *result;
    const rd_kafka_topic_result_t **topics;
    const char *text;
    size_t count = 0;

    *code = rd_kafka_event_error(event);
    text = rd_kafka_event_error_string(event);
    result = rd_kafka_event_CreateTopics_result(event);
    topics = result ? rd_kafka_CreateTopics_result_topics(result, &count) : NULL;
    if (*code == RD_KAFKA_RESP_ERR_NO_ERROR && count == 1) {
        *code = rd_kafka_topic_result_error(topics[0]);
        text = rd_kafka_topic_result_error_string(topics[0]);
    }
    return fail_create(wish, *code, text ? text : rd_kafka_err2str(*code), err);
}

/* Sends the request and waits for its result. *code is the broker's word on it. */
static enum rc send_create(const struct topic_wish *wish, rd_kafka_NewTopic_t *wanted,
                           rd_kafka_resp_err_t *code, struct err *err)
{
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(wish->kafka, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(wish->kafka);
    rd_kafka_event_t *event;
    int left_ms = compute_left_ms(wish);
    char text[128] = "";
    enum rc rc;

    rd_kafka_AdminOptions_set_request_timeout(options, left_ms, text, sizeof(text));
    /* The broker answers when the topic is there, not when it is noted down. */
    rd_kafka_AdminOptions_set_operation_timeout(options, left_ms, text, sizeof(text));
    rd_kafka_CreateTopics(wish->kafka, &wanted, 1, options, queue);
    event = rd_kafka_queue_poll(queue, left_ms + 1000);
    if (event) {
        rc = read_create_result(wish, event, code, err);
        rd_kafka_event_destroy(event);
    } else {
        *code = RD_KAFKA_RESP_ERR__TIMED_OUT;
        rc = fail_create(wish, *code, "no answer in time", err);
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    return rc;
}

static enum rc create_topic(const struct topic_wish *wish, rd_kafka_resp_err_t *code,
                            struct err *err)
{
    char text[256] = "";
    rd_kafka_NewTopic_t *wanted =
        rd_kafka_NewTopic_new(wish->topic, wish->partitions,
                              wish->replication > 0 ? wish->replication : -1, text, sizeof(text));
    enum rc rc;

    *code = RD_KAFKA_RESP_ERR__INVALID_ARG;
    if (!wanted)
        return err_fail(err, RC_FATAL, *code, "kafka: topic \"%s\" cannot be made: %s", wish->topic,
                        text);
    rc = send_create(wish, wanted, code, err);
    rd_kafka_NewTopic_destroy(wanted);
    return rc;
}

#define LEADERS_WAIT_MS 2000
#define LEADERS_POLL_MS 20

/* Whether every partition has a leader that has accepted its role. */
static bool read_leaders(const struct topic_wish *wish, int partitions)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    bool all;

    for (int32_t i = 0; i < partitions; i++)
        rd_kafka_topic_partition_list_add(list, wish->topic, i)->offset = RD_KAFKA_OFFSET_END;
    all = rd_kafka_offsets_for_times(wish->kafka, list, compute_left_ms(wish)) ==
          RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int i = 0; i < list->cnt && all; i++)
        all = list->elems[i].err == RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_topic_partition_list_destroy(list);
    return all;
}

/* Producers learn of a new partition before its leader does, and a leader that refuses a producer's
 * first request may accept the second one: see KAFKA-15591. Therefore nothing is sent before every
 * leader has answered once or a time has passed. The time limit keeps one failed leader from
 * stopping the others. */
static void await_leaders(struct topic_wish *wish, int partitions)
{
    int64_t until_ms = os_now_ms() + LEADERS_WAIT_MS;
    struct stop stop = {0};

    if (until_ms < wish->until_ms)
        wish->until_ms = until_ms;
    if (stop_init(&stop, NULL) != RC_OK)
        return;
    while (!read_leaders(wish, partitions) && os_now_ms() < wish->until_ms)
        stop_wait(&stop, LEADERS_POLL_MS);
    stop_done(&stop);
}

/* A broker without an admin API creates a topic when its metadata are requested. */
static enum rc touch_topic(const struct topic_wish *wish, struct err *err)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(wish->kafka, wish->topic, NULL);
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code;

    if (!handle)
        return err_fail(err, RC_FATAL, rd_kafka_last_error(), "kafka: topic \"%s\": %s",
                        wish->topic, rd_kafka_err2str(rd_kafka_last_error()));
    code = rd_kafka_metadata(wish->kafka, 0, handle, &metadata, compute_left_ms(wish));
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1)
        code = metadata->topics[0].err;
    if (metadata)
        rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(handle);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    kafka_fail(err, code, "kafka: topic %s is not there yet", wish->topic);
    return RC_RETRY;
}

bool kafka_is_in_process(rd_kafka_t *kafka, int timeout_ms)
{
    static const char prefix[] = "mockCluster";
    char *name = rd_kafka_clusterid(kafka, timeout_ms);
    bool in_process = name && strncmp(name, prefix, sizeof(prefix) - 1) == 0;

    if (name)
        rd_kafka_mem_free(kafka, name);
    return in_process;
}

enum rc kafka_ensure_topic(rd_kafka_t *kafka, const char *topic, int partitions, int replication,
                           int timeout_ms, int *count, struct err *err)
{
    struct topic_wish wish = {kafka, topic, partitions, replication, os_now_ms() + timeout_ms};
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    int there = 0;
    enum rc rc = find_topic(&wish, &there, err);

    if (count)
        *count = there;
    if (rc == RC_OK && there > 0)
        await_leaders(&wish, there);
    if (rc != RC_OK || there > 0)
        return rc;
    if (kafka_is_in_process(kafka, compute_left_ms(&wish)))
        return touch_topic(&wish, err);
    rc = create_topic(&wish, &code, err);
    /* Brokers before 0.10.1. */
    if (code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE)
        rc = touch_topic(&wish, err);
    else if (rc == RC_OK)
        await_leaders(&wish, partitions);
    if (rc == RC_OK && count)
        rc = find_topic(&wish, count, err);
    return rc;
}
