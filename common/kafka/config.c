/* SPDX-License-Identifier: MIT */
#include "common/kafka/config.h"

#include "common/kafka/kafka.h"
#include "common/log.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Kafka's own defaults. */
#define RETENTION_MS INT64_C(604800000)
#define BATCH_BYTES_MAX INT64_C(1048588)
#define NEWER_MS_MAX INT64_C(3600000)

/* One answer is waited for a little longer than librdkafka does. */
#define EXTRA_WAIT_MS 500

void kafka_topic_config_default(struct kafka_topic_config *config)
{
    *config = (struct kafka_topic_config){
        .retention_ms = RETENTION_MS,
        .batch_bytes_max = BATCH_BYTES_MAX,
        .older_ms_max = INT64_MAX,
        .newer_ms_max = NEWER_MS_MAX,
    };
}

static void take_number(int64_t *number, const char *value, int64_t least)
{
    char *end;
    long long got;

    errno = 0;
    got = strtoll(value, &end, 10);
    if (errno == 0 && end != value && *end == '\0' && got >= least)
        *number = got;
}

void kafka_topic_config_set(struct kafka_topic_config *config, const char *name, const char *value)
{
    if (strcmp(name, "cleanup.policy") == 0)
        config->compacted = strstr(value, "compact") != NULL;
    else if (strcmp(name, "retention.ms") == 0)
        take_number(&config->retention_ms, value, -1);
    else if (strcmp(name, "max.message.bytes") == 0)
        take_number(&config->batch_bytes_max, value, 0);
    else if (strcmp(name, "message.timestamp.before.max.ms") == 0)
        take_number(&config->older_ms_max, value, 0);
    else if (strcmp(name, "message.timestamp.after.max.ms") == 0)
        take_number(&config->newer_ms_max, value, 0);
}

int64_t kafka_topic_older_ms_max(const struct kafka_topic_config *config)
{
    int64_t max_ms = config->older_ms_max;

    if (config->retention_ms >= 0 && config->retention_ms < max_ms)
        max_ms = config->retention_ms;
    return max_ms == INT64_MAX ? max_ms : max_ms / 2;
}

enum rc kafka_config_ask(struct kafka_config_query *query, rd_kafka_t *kafka,
                         const char *const *topics, size_t count, int timeout_ms, struct err *err)
{
    rd_kafka_ConfigResource_t **resources;
    rd_kafka_AdminOptions_t *options;
    char text[128] = "";

    if (query->queue || count == 0)
        return RC_OK;
    if (kafka_is_in_process(kafka, timeout_ms))
        return err_fail(err, RC_RETRY, 0,
                        "kafka: the in-process broker has no topic configuration");
    resources = calloc(count, sizeof(rd_kafka_ConfigResource_t *));
    if (!resources)
        return err_fail(err, RC_RETRY, 0, "out of memory for %zu topics", count);
    for (size_t i = 0; i < count; i++)
        resources[i] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topics[i]);
    options = rd_kafka_AdminOptions_new(kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, text, sizeof(text));
    query->queue = rd_kafka_queue_new(kafka);
    rd_kafka_DescribeConfigs(kafka, resources, count, options, query->queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy_array(resources, count);
    free(resources);
    return RC_OK;
}

static void say_unreadable(const char *topic, const struct err *err)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&said))
        log_error(LOG_WARN, "topic_config_unreadable", err,
                  "topic=%s text=\"Kafka's defaults are assumed for this and other topics: "
                  "retention.ms 604800000, max.message.bytes 1048588; the ACL DescribeConfigs on "
                  "the topics ends that\"",
                  topic);
}

static void report_resource(const rd_kafka_ConfigResource_t *resource,
                            kafka_on_topic_config on_config, void *ctx)
{
    const char *topic = rd_kafka_ConfigResource_name(resource);
    rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resource);
    const rd_kafka_ConfigEntry_t **entries;
    struct kafka_topic_config config;
    struct err err = {0};
    size_t count = 0;

    kafka_topic_config_default(&config);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_fail(&err, code, "kafka: cannot read the configuration of topic %s", topic);
        if (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
            code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED)
            say_unreadable(topic, &err);
        on_config(ctx, topic, &config, &err);
        return;
    }
    entries = rd_kafka_ConfigResource_configs(resource, &count);
    for (size_t i = 0; i < count; i++) {
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);

        if (value)
            kafka_topic_config_set(&config, rd_kafka_ConfigEntry_name(entries[i]), value);
    }
    config.known = true;
    on_config(ctx, topic, &config, NULL);
}

bool kafka_config_poll(struct kafka_config_query *query, int wait_ms,
                       kafka_on_topic_config on_config, void *ctx, struct err *err)
{
    const rd_kafka_DescribeConfigs_result_t *result;
    const rd_kafka_ConfigResource_t **resources;
    rd_kafka_event_t *event;
    size_t count = 0;

    err->text[0] = '\0';
    if (!query->queue)
        return true;
    event = rd_kafka_queue_poll(query->queue, wait_ms);
    if (!event)
        return false;
    result = rd_kafka_event_DescribeConfigs_result(event);
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        kafka_fail(err, rd_kafka_event_error(event),
                   "kafka: cannot read the topics' configuration");
    else if (result) {
        resources = rd_kafka_DescribeConfigs_result_resources(result, &count);
        for (size_t i = 0; i < count; i++)
            report_resource(resources[i], on_config, ctx);
    }
    rd_kafka_event_destroy(event);
    kafka_config_drop(query);
    return true;
}

void kafka_config_drop(struct kafka_config_query *query)
{
    if (query->queue)
        rd_kafka_queue_destroy(query->queue);
    query->queue = NULL;
}

struct one_topic {
    struct kafka_topic_config *config;
    struct err *err;
};

static void on_one_topic(void *ctx, const char *topic, const struct kafka_topic_config *config,
                         const struct err *err)
{
    const struct one_topic *one = ctx;

    (void)topic;
    *one->config = *config;
    if (err)
        *one->err = *err;
}

enum rc kafka_config_read(rd_kafka_t *kafka, const char *topic, int timeout_ms,
                          struct kafka_topic_config *config, struct err *err)
{
    struct kafka_config_query query = {0};
    struct err refused = {0};
    struct one_topic one = {config, &refused};
    enum rc rc;

    kafka_topic_config_default(config);
    rc = kafka_config_ask(&query, kafka, &topic, 1, timeout_ms, err);
    if (rc != RC_OK)
        return rc;
    if (!kafka_config_poll(&query, timeout_ms + EXTRA_WAIT_MS, on_one_topic, &one, err)) {
        kafka_config_drop(&query);
        return err_fail(err, RC_RETRY, 0, "kafka: no answer about the configuration of topic %s",
                        topic);
    }
    if (config->known)
        return RC_OK;
    if (!refused.text[0])
        return RC_RETRY;
    *err = refused;
    return RC_REJECT;
}
