/* SPDX-License-Identifier: MIT */
#include "common/kafka/topic.h"

#include "common/kafka/kafka.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/os.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether it is librdkafka's in-process broker, by the name it gives its cluster. An admin request
 * to it would wait for a controller until the time is up. Waits up to timeout_ms for the broker's
 * first answer. */
static bool is_in_process(rd_kafka_t *kafka, int timeout_ms)
{
    static const char prefix[] = "mockCluster";
    char *name = rd_kafka_clusterid(kafka, timeout_ms);
    bool in_process = name && strncmp(name, prefix, sizeof(prefix) - 1) == 0;

    if (name)
        rd_kafka_mem_free(kafka, name);
    return in_process;
}

/* One effort to see a topic made. */
struct topic_wish {
    rd_kafka_t *kafka;
    const char *topic;
    int partitions;
    int replication;
    int64_t until_ms;
    bool compacted;
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

/* Kafka never compacts the segment that is written. */
static const struct {
    const char *name;
    const char *value;
} compaction[] = {
    {"cleanup.policy", "compact"},
    {"segment.bytes", "16777216"},
    {"segment.ms", "3600000"},
    {"min.cleanable.dirty.ratio", "0.1"},
    {"max.message.bytes", KAFKA_COMPACTED_BYTES_MAX},
};

/* The command is long, and has to be whole. */
static enum rc fail_compacted(const struct topic_wish *wish, rd_kafka_resp_err_t code,
                              struct err *err)
{
    char configs[256] = "";
    char replication[48];
    size_t len = 0;

    for (size_t i = 0; i < sizeof(compaction) / sizeof(compaction[0]); i++)
        len += (size_t)snprintf(configs + len, sizeof(configs) - len, " --config %s=%s",
                                compaction[i].name, compaction[i].value);
    put_replication(wish, replication);
    return err_fail(err, RC_FATAL, code,
                    "kafka: topic %s is missing or hidden, and this account may not make it; ask "
                    "for: kafka-topics.sh --create --topic %s --partitions %d%s%s",
                    wish->topic, wish->topic, wish->partitions, replication, configs);
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
        if (wish->compacted)
            return fail_compacted(wish, code, err);
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

static void set_compaction(rd_kafka_NewTopic_t *wanted)
{
    for (size_t i = 0; i < sizeof(compaction) / sizeof(compaction[0]); i++)
        rd_kafka_NewTopic_set_config(wanted, compaction[i].name, compaction[i].value);
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
    if (wish->compacted)
        set_compaction(wanted);
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

static enum rc ensure_topic(struct topic_wish *wish, int *count, struct err *err)
{
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    int there = 0;
    enum rc rc = find_topic(wish, &there, err);

    if (count)
        *count = there;
    if (rc == RC_OK && there > 0)
        await_leaders(wish, there);
    if (rc != RC_OK || there > 0)
        return rc;
    if (is_in_process(wish->kafka, compute_left_ms(wish)))
        return touch_topic(wish, err);
    rc = create_topic(wish, &code, err);
    /* Brokers before 0.10.1. */
    if (code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE)
        rc = touch_topic(wish, err);
    else if (rc == RC_OK)
        await_leaders(wish, wish->partitions);
    if (rc == RC_OK && count)
        rc = find_topic(wish, count, err);
    return rc;
}

enum rc kafka_ensure_topic(rd_kafka_t *kafka, const char *topic, int partitions, int replication,
                           int timeout_ms, int *count, struct err *err)
{
    struct topic_wish wish = {
        .kafka = kafka,
        .topic = topic,
        .partitions = partitions,
        .replication = replication,
        .until_ms = os_now_ms() + timeout_ms,
    };

    return ensure_topic(&wish, count, err);
}

enum rc kafka_ensure_compacted_topic(rd_kafka_t *kafka, const char *topic, int replication,
                                     int timeout_ms, struct err *err)
{
    struct topic_wish wish = {
        .kafka = kafka,
        .topic = topic,
        .partitions = 1,
        .replication = replication,
        .until_ms = os_now_ms() + timeout_ms,
        .compacted = true,
    };

    return ensure_topic(&wish, NULL, err);
}

/* Kafka's own defaults. */
#define RETENTION_MS INT64_C(604800000)
#define BATCH_BYTES_MAX INT64_C(1048588)
#define NEWER_MS_MAX INT64_C(3600000)

/* One answer is waited for a little longer than librdkafka does. */
#define EXTRA_WAIT_MS 500

void kafka_topic_config_default(struct kafka_topic_config *config)
{
    *config = (struct kafka_topic_config){
        .deletes = true,
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

static void read_policy(struct kafka_topic_config *config, const char *value)
{
    config->compacted = strstr(value, "compact") != NULL;
    config->deletes = strstr(value, "delete") != NULL;
}

void kafka_topic_config_set(struct kafka_topic_config *config, const char *name, const char *value)
{
    if (strcmp(name, "cleanup.policy") == 0)
        read_policy(config, value);
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
    if (is_in_process(kafka, timeout_ms))
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
