/* SPDX-License-Identifier: MIT */
#include "consumer/doctor/doctor_kafka.h"

#include "common/kafka/kafka.h"
#include "tallybox_version.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

#define REACH_MS 5000
#define CONFIG_MS 5000

/* Drops the log lines of librdkafka: the finding names the error once. */
static void ignore_log(const rd_kafka_t *handle, int level, const char *facility, const char *text)
{
    (void)handle;
    (void)level;
    (void)facility;
    (void)text;
}

static enum rc open_handle(rd_kafka_t **handle, const struct settings *settings, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256];
    enum rc rc = kafka_conf_make(&conf, settings, KAFKA_TOOL, NULL, 0, err);

    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_log_cb(conf, ignore_log);
    *handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (*handle)
        return RC_OK;
    rd_kafka_conf_destroy(conf);
    return err_fail(err, RC_FATAL, 0, "kafka: %s", text);
}

static struct doctor_topic *find_topic(struct doctor_kafka *kafka, const char *name)
{
    for (size_t i = 0; i < kafka->topic_count; i++)
        if (strcmp(kafka->topics[i].name, name) == 0)
            return &kafka->topics[i];
    return NULL;
}

/* Requests the metadata of all topics, because a request for one topic may create it. */
static enum rc read_topics(struct doctor_kafka *kafka, const struct settings *settings,
                           rd_kafka_t *handle, struct err *err)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(handle, 1, NULL, &metadata, REACH_MS);

    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail_no_answer(err, handle, code, REACH_MS);
    kafka->brokers = metadata->broker_cnt;
    for (int i = 0; i < metadata->topic_cnt; i++) {
        const struct rd_kafka_metadata_topic *from = &metadata->topics[i];
        struct doctor_topic *topic;

        doctor_add_existing(kafka, settings, from->topic);
        topic = find_topic(kafka, from->topic);
        if (!topic || from->partition_cnt == 0)
            continue;
        topic->partitions = from->partition_cnt;
        topic->replicas = from->partitions[0].replica_cnt;
        for (int j = 1; j < from->partition_cnt; j++)
            if (from->partitions[j].replica_cnt < topic->replicas)
                topic->replicas = from->partitions[j].replica_cnt;
    }
    rd_kafka_metadata_destroy(metadata);
    return RC_OK;
}

static void take_entry(struct doctor_topic *topic, const char *name, const char *value)
{
    if (strcmp(name, "cleanup.policy") == 0)
        topic->is_compacted = strstr(value, "compact") != NULL;
    else if (strcmp(name, "unclean.leader.election.enable") == 0)
        topic->elects_unclean = strcmp(value, "true") == 0;
    else if (strcmp(name, "retention.ms") == 0)
        topic->retention_ms = strtoll(value, NULL, 10);
    else if (strcmp(name, "max.message.bytes") == 0)
        topic->batch_bytes_max = strtoll(value, NULL, 10);
    else if (strcmp(name, "min.insync.replicas") == 0)
        topic->insync_min = strtoll(value, NULL, 10);
}

static void take_result(struct doctor_kafka *kafka, const rd_kafka_ConfigResource_t *resource)
{
    struct doctor_topic *topic = find_topic(kafka, rd_kafka_ConfigResource_name(resource));
    size_t count = 0;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &count);

    if (!topic || rd_kafka_ConfigResource_error(resource) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    topic->has_config = true;
    for (size_t i = 0; i < count; i++) {
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);

        if (value)
            take_entry(topic, rd_kafka_ConfigEntry_name(entries[i]), value);
    }
}

static size_t list_resources(const struct doctor_kafka *kafka,
                             rd_kafka_ConfigResource_t *resources[DOCTOR_TOPICS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < kafka->topic_count; i++)
        if (kafka->topics[i].partitions > 0)
            resources[count++] =
                rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, kafka->topics[i].name);
    return count;
}

/* A topic whose configuration the broker does not tell keeps has_config false. */
static void read_configs(struct doctor_kafka *kafka, rd_kafka_t *handle)
{
    rd_kafka_ConfigResource_t *resources[DOCTOR_TOPICS_MAX];
    size_t count = list_resources(kafka, resources);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);
    rd_kafka_event_t *event = NULL;
    char text[128];

    rd_kafka_AdminOptions_set_request_timeout(options, CONFIG_MS, text, sizeof(text));
    if (count > 0) {
        rd_kafka_DescribeConfigs(handle, resources, count, options, queue);
        event = rd_kafka_queue_poll(queue, CONFIG_MS + 500);
    }
    if (event && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const rd_kafka_DescribeConfigs_result_t *result =
            rd_kafka_event_DescribeConfigs_result(event);
        size_t results = 0;
        const rd_kafka_ConfigResource_t **answers =
            rd_kafka_DescribeConfigs_result_resources(result, &results);

        for (size_t i = 0; i < results; i++)
            take_result(kafka, answers[i]);
    }
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy_array(resources, count);
}

void doctor_kafka_fill(struct doctor_kafka *kafka, const struct settings *settings)
{
    rd_kafka_t *handle = NULL;

    kafka->rc = open_handle(&handle, settings, &kafka->err);
    if (kafka->rc == RC_OK)
        kafka->rc = read_topics(kafka, settings, handle, &kafka->err);
    if (kafka->rc == RC_OK)
        read_configs(kafka, handle);
    if (handle)
        rd_kafka_destroy(handle);
}

void doctor_kafka_judge_versions(struct doctor *doctor)
{
    char flaws[512];

    kafka_version_flaws(rd_kafka_version(), flaws, sizeof(flaws));
    if (flaws[0])
        doctor_add(doctor, DOCTOR_WARNING, "versions", "use librdkafka 2.13 or newer",
                   "tallybox %s with librdkafka %s: %s", TALLYBOX_VERSION, rd_kafka_version_str(),
                   flaws);
    else
        doctor_add(doctor, DOCTOR_OK, "versions", NULL, "tallybox %s, librdkafka %s",
                   TALLYBOX_VERSION, rd_kafka_version_str());
}
