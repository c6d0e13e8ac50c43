/* SPDX-License-Identifier: MIT */
#include "outbox/relay/broker_kafka.h"

#include "common/kafka/kafka.h"
#include "common/log.h"
#include "common/os.h"
#include "outbox/relay/producer_kafka.h"
#include "outbox/relay/row_record.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bound of librdkafka's send queue, unless a single row needs more. */
#define QUEUE_KIB 16384

#define TOPIC_WAIT_MS 5000

/* Topic configurations are read when a topic is opened, and again every CONFIG_EVERY_MS. */
#define CONFIG_WAIT_MS 1000
#define CONFIG_EVERY_MS 300000

#define BATCH_SIZE "batch.size"

#define HEADERS_EXPECTED 12

/* New: no record sent; first: the first record is in flight; known: it was acknowledged. */
enum { PRIMED_NEW, PRIMED_FIRST, PRIMED_KNOWN };

/* The opaque of its topic handle. */
struct primed_topic {
    rd_kafka_topic_t *handle;
    struct primed_topic *next;
    int32_t (*partitioner)(const rd_kafka_topic_t *, const void *, size_t, int32_t, void *, void *);
    int32_t count;
    int32_t known;   /* partitions in the state PRIMED_KNOWN */
    uint8_t *states; /* of each partition */
};

/* librdkafka's partitioners that map equal keys to equal partitions. */
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

/* Numbers that depend on settings, formatted for librdkafka. */
struct limits {
    char message_bytes[24];
    char queue_kib[24];
};

/* The position of a lane may have more bytes than its rows. */
static void make_limits(struct limits *limits, const struct settings *settings, bool is_exact)
{
    int64_t bytes = settings->relay.row_bytes_max + PRODUCER_RECORD_EXTRA;
    int64_t position_bytes = is_exact ? strtoll(KAFKA_COMPACTED_BYTES_MAX, NULL, 10) : 0;
    int64_t kib;

    if (bytes < position_bytes)
        bytes = position_bytes;
    kib = bytes / 1024 + 1024;
    snprintf(limits->message_bytes, sizeof(limits->message_bytes), "%" PRId64, bytes);
    snprintf(limits->queue_kib, sizeof(limits->queue_kib), "%" PRId64,
             kib > QUEUE_KIB ? kib : QUEUE_KIB);
}

/* enable.gapless.guarantee: a refused request stops all requests sent after it, so that a key's
 * later rows cannot overtake a refused one, provided the partition knows the producer (struct
 * primed). The sender then resets the producer. The guarantee does not cover time-outs: librdkafka
 * drops the late record and sends the later ones. Therefore records have no time-out, and the
 * sender gives up all records in flight together.
 *
 * linger.ms = 0: the rows of one read are queued faster than one request is made, and more rows
 * gather while requests are in flight. */
static enum rc make_conf(rd_kafka_conf_t **conf, const struct settings *settings,
                         const struct transaction_kafka *transaction, struct err *err)
{
    struct limits limits;

    make_limits(&limits, settings, transaction != NULL);
    const struct kafka_default defaults[] = {
        {"enable.gapless.guarantee", "true", "a refused record must not be overtaken by its key"},
        {"message.timeout.ms", "0",
         "a record that times out alone is overtaken by its key; relay.send_timeout_ms counts"},
        {"linger.ms", "0", NULL},
        {"message.max.bytes", limits.message_bytes, NULL},
        {"queue.buffering.max.kbytes", limits.queue_kib, NULL},
        {"queue.buffering.max.messages", "100000", NULL},
        {"transactional.id", transaction ? transaction->id : "",
         "the lane has lane.NAME.transactional_id"},
        {"transaction.timeout.ms", transaction ? transaction->timeout_ms : "", NULL},
    };
    size_t count = sizeof(defaults) / sizeof(defaults[0]);

    return producer_conf_make(conf, settings, defaults, transaction ? count : count - 2, err);
}

/* Returns the largest batch, in bytes, that every topic opened so far accepts. */
static int64_t find_batch_limit(const struct broker_kafka *broker)
{
    int64_t limit = INT64_MAX;

    for (size_t i = 0; i < BROKER_TOPICS_MAX; i++) {
        if (broker->names[i] && broker->configs[i].batch_bytes_max < limit)
            limit = broker->configs[i].batch_bytes_max;
    }
    return limit > 0 ? limit : 1;
}

/* Limits batch.size to the smallest max.message.bytes of the topics, because a topic refuses a
 * larger batch with all its records. librdkafka has one limit for the whole producer, measures
 * batches before compression, and lets a single record exceed it: the broker decides whether that
 * fits compressed. */
static enum rc limit_batch_size(struct broker_kafka *broker, rd_kafka_conf_t *conf, struct err *err)
{
    int64_t limit = find_batch_limit(broker);
    char text[128] = "";
    size_t size = sizeof(text);

    rd_kafka_conf_get(conf, BATCH_SIZE, text, &size);
    broker->batch_bytes_set = strtoll(text, NULL, 10);
    broker->batch_bytes_max = broker->batch_bytes_set;
    if (broker->batch_bytes_set <= limit)
        return RC_OK;
    broker->batch_bytes_max = limit;
    snprintf(text, sizeof(text), "%" PRId64, limit);
    if (rd_kafka_conf_set(conf, BATCH_SIZE, text, NULL, 0) != RD_KAFKA_CONF_OK)
        return err_fail(err, RC_FATAL, 0, "kafka." BATCH_SIZE " = %s: librdkafka refuses the value",
                        text);
    if (broker->batch_bytes_logged != limit)
        log_event(LOG_INFO, "batch_size_limited",
                  "lane=%s batch_bytes_max=%s text=\"the smallest max.message.bytes of the lane's "
                  "topics\"",
                  broker->lane->name, text);
    broker->batch_bytes_logged = limit;
    return RC_OK;
}

static void find_partitioner(struct primed_topic *topic, const rd_kafka_topic_conf_t *conf)
{
    char name[64] = "";
    size_t size = sizeof(name);

    if (rd_kafka_topic_conf_get(conf, "partitioner", name, &size) != RD_KAFKA_CONF_OK)
        return;
    for (size_t i = 0; i < sizeof(partitioners) / sizeof(partitioners[0]); i++)
        if (strcmp(name, partitioners[i].name) == 0)
            topic->partitioner = partitioners[i].partitioner;
}

static struct primed_topic *find_primed_topic(const struct primed *primed, const char *name)
{
    struct primed_topic *topic = primed->first;

    while (topic && strcmp(rd_kafka_topic_name(topic->handle), name) != 0)
        topic = topic->next;
    return topic;
}

/* Has to be called before the producer's first use of a topic. RC_RETRY: no memory. */
static enum rc open_primed_topic(struct primed *primed, rd_kafka_t *kafka, const char *name,
                                 struct err *err)
{
    rd_kafka_topic_conf_t *conf;
    struct primed_topic *topic;

    if (find_primed_topic(primed, name))
        return RC_OK;
    topic = calloc(1, sizeof(*topic));
    if (!topic)
        return err_fail(err, RC_RETRY, 0, "out of memory for topic %s", name);
    conf = rd_kafka_default_topic_conf_dup(kafka);
    find_partitioner(topic, conf);
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

/* Sets the number of partitions; while it is 0 (unknown), no record waits. RC_RETRY: no memory. */
static enum rc set_partition_count(struct primed *primed, const char *name, int count,
                                   struct err *err)
{
    struct primed_topic *topic = find_primed_topic(primed, name);
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

/* Returns the state of the key's partition; NULL: the record need not wait. */
static uint8_t *partition_state_of(const rd_kafka_topic_t *handle, struct bytes key)
{
    const struct primed_topic *topic = rd_kafka_topic_opaque(handle);
    int32_t partition;

    if (!topic || !topic->partitioner || topic->known == topic->count || !key.data)
        return NULL;
    partition = topic->partitioner(handle, key.data, key.len, topic->count, NULL, NULL);
    return partition >= 0 && partition < topic->count ? &topic->states[partition] : NULL;
}

/* Returns whether a record with this key may be sent now. A record without a key has no order.
 *
 * When a topic gets more partitions, a record may go to another partition than computed here, and
 * its report does not reach the state that waits for it. Therefore no record waits while none is in
 * flight. */
static bool may_send(const struct primed *primed, const rd_kafka_topic_t *handle, struct bytes key)
{
    const uint8_t *state = partition_state_of(handle, key);

    return !state || *state != PRIMED_FIRST || primed->under_way == 0;
}

static void note_sent(struct primed *primed, const rd_kafka_topic_t *handle, struct bytes key)
{
    uint8_t *state = partition_state_of(handle, key);

    primed->under_way++;
    if (state && *state == PRIMED_NEW)
        *state = PRIMED_FIRST;
}

static void note_report(struct primed *primed, const rd_kafka_message_t *message, bool acked)
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

/* Has to be called before the producer is destroyed. */
static void close_primed_topics(struct primed *primed)
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

/* Names the limits of the record's topic in the error of a record that is too large. */
static void add_limits(const struct broker_kafka *broker, const char *topic, struct err *err)
{
    int64_t topic_bytes_max = 0;

    for (size_t i = 0; i < BROKER_TOPICS_MAX && topic_bytes_max == 0; i++)
        if (broker->names[i] && strcmp(broker->names[i], topic) == 0 && broker->configs[i].known)
            topic_bytes_max = broker->configs[i].batch_bytes_max;
    producer_add_limits(err, topic_bytes_max, broker->settings->relay.row_bytes_max);
}

static void on_delivery(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque)
{
    struct broker_kafka *broker = opaque;
    struct err err;
    enum rc rc;

    (void)kafka;
    rc = producer_report(message, &err);
    if ((uintptr_t)message->_private == TRANSACTION_TICKET) {
        transaction_kafka_report(&broker->transaction, message);
        return;
    }
    if (rc == RC_REJECT)
        add_limits(broker, rd_kafka_topic_name(message->rkt), &err);
    note_report(&broker->primed, message, rc == RC_OK);
    if (!broker->on_report)
        return;
    broker->on_report(broker->on_report_ctx, (uint64_t)(uintptr_t)message->_private, rc,
                      rc == RC_OK ? NULL : &err);
}

static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
    struct broker_kafka *broker = opaque;

    (void)kafka;
    err_fail(&broker->trouble, RC_RETRY, code, "kafka: %s", reason);
}

static void wake_on_reports(struct broker_kafka *broker)
{
    static const uint64_t one = 1;

    broker->queue = rd_kafka_queue_get_main(broker->kafka);
    if (broker->wake_fd >= 0)
        rd_kafka_queue_io_event_enable(broker->queue, broker->wake_fd, &one, sizeof(one));
}

static void broker_reset(void *ctx)
{
    struct broker_kafka *broker = ctx;

    for (size_t i = 0; i < BROKER_TOPICS_MAX; i++) {
        if (broker->topics[i])
            rd_kafka_topic_destroy(broker->topics[i]);
        broker->topics[i] = NULL;
    }
    close_primed_topics(&broker->primed);
    transaction_kafka_reset(&broker->transaction);
    kafka_config_drop(&broker->query);
    if (broker->queue)
        rd_kafka_queue_destroy(broker->queue);
    if (broker->kafka)
        rd_kafka_destroy(broker->kafka);
    broker->queue = NULL;
    broker->kafka = NULL;
}

/* A new producer is unknown to all partitions of the topics opened for the previous one. */
static enum rc prime_topics(struct broker_kafka *broker, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < BROKER_TOPICS_MAX && rc == RC_OK; i++) {
        if (!broker->names[i])
            continue;
        rc = open_primed_topic(&broker->primed, broker->kafka, broker->names[i], err);
        if (rc == RC_OK)
            rc = set_partition_count(&broker->primed, broker->names[i], broker->counts[i], err);
    }
    return rc;
}

static enum rc make_producer(struct broker_kafka *broker, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc;

    rc = make_conf(&conf, broker->settings, broker->is_exact ? &broker->transaction : NULL, err);
    if (rc == RC_OK)
        rc = limit_batch_size(broker, conf, err);
    if (rc != RC_OK) {
        if (conf)
            rd_kafka_conf_destroy(conf);
        return rc;
    }
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_opaque(conf, broker);
    broker->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (!broker->kafka) {
        rd_kafka_conf_destroy(conf);
        return err_fail(err, RC_FATAL, 0, "kafka: the producer cannot be created: %s", text);
    }
    wake_on_reports(broker);
    rc = prime_topics(broker, err);
    if (rc != RC_OK)
        broker_reset(broker);
    return rc;
}

/* That of a lane that publishes exactly once is made by broker_claim() only. */
static enum rc ensure_producer(struct broker_kafka *broker, struct err *err)
{
    if (broker->kafka)
        return RC_OK;
    if (broker->is_exact)
        return err_fail(err, RC_FATAL, 0, "kafka: the producer was not claimed");
    return make_producer(broker, err);
}

/* Resets the producer when its batch limit has changed, but only while no record is in flight,
 * since records in flight would be lost with it. */
static void reset_for_limit(struct broker_kafka *broker)
{
    int64_t limit = find_batch_limit(broker);

    if (limit > broker->batch_bytes_set)
        limit = broker->batch_bytes_set;
    if (broker->kafka && broker->batch_bytes_max != limit && !broker->transaction.is_open &&
        rd_kafka_outq_len(broker->kafka) == 0)
        broker_reset(broker);
}

/* Values that the broker does not return keep their last value, or Kafka's default. */
static void read_config(struct broker_kafka *broker, const char *topic, size_t index, int count)
{
    struct kafka_topic_config config;
    struct err err = {0};
    enum rc rc = kafka_config_read(broker->kafka, topic, CONFIG_WAIT_MS, &config, &err);

    if (rc == RC_OK || !broker->names[index])
        broker->configs[index] = config;
    broker->names[index] = topic;
    broker->counts[index] = count;
    reset_for_limit(broker);
}

static enum rc broker_topic_open(void *ctx, const char *topic, size_t topic_index, struct err *err)
{
    struct broker_kafka *broker = ctx;
    const struct settings *settings = broker->settings;
    int64_t wait_ms = settings->relay.lease_ms / 4;
    int count = 0;
    enum rc rc = ensure_producer(broker, err);

    if (rc != RC_OK)
        return RC_RETRY;
    if (wait_ms > TOPIC_WAIT_MS)
        wait_ms = TOPIC_WAIT_MS;
    rc = open_primed_topic(&broker->primed, broker->kafka, topic, err);
    if (rc == RC_OK)
        rc = kafka_ensure_topic(broker->kafka, topic, (int)settings->relay.topic_partitions,
                                (int)settings->relay.topic_replication, (int)wait_ms, &count, err);
    if (rc == RC_OK)
        rc = set_partition_count(&broker->primed, topic, count, err);
    if (rc == RC_OK)
        read_config(broker, topic, topic_index, count);
    return rc;
}

static void on_config(void *ctx, const char *topic, const struct kafka_topic_config *config,
                      const struct err *err)
{
    struct broker_kafka *broker = ctx;

    for (size_t i = 0; i < BROKER_TOPICS_MAX && !err; i++) {
        if (broker->names[i] && strcmp(broker->names[i], topic) == 0)
            broker->configs[i] = *config;
    }
}

/* Lists each topic once: two aggregate types may share a topic. */
static size_t list_topics(const struct broker_kafka *broker, const char **topics)
{
    size_t count = 0;

    for (size_t i = 0; i < BROKER_TOPICS_MAX; i++) {
        size_t known = 0;

        while (broker->names[i] && known < count && strcmp(topics[known], broker->names[i]) != 0)
            known++;
        if (broker->names[i] && known == count)
            topics[count++] = broker->names[i];
    }
    return count;
}

static void refresh_configs(struct broker_kafka *broker, int64_t now_ms)
{
    const char *topics[BROKER_TOPICS_MAX];
    struct err err = {0};

    if (broker->query.queue) {
        if (kafka_config_poll(&broker->query, 0, on_config, broker, &err))
            reset_for_limit(broker);
        return;
    }
    if (now_ms < broker->query_at_ms)
        return;
    broker->query_at_ms = now_ms + CONFIG_EVERY_MS;
    kafka_config_ask(&broker->query, broker->kafka, topics, list_topics(broker, topics),
                     CONFIG_WAIT_MS, &err);
}

static void add_header(void *ctx, const char *name, struct bytes value)
{
    rd_kafka_headers_t *headers = ctx;

    /* Fails only when memory runs out, and librdkafka then aborts the process by itself. */
    rd_kafka_header_add(headers, name, -1, value.data, (ssize_t)value.len);
}

static void put_extra_header(const struct broker_kafka *broker, rd_kafka_headers_t *headers)
{
    if (!broker->extra_name)
        return;
    rd_kafka_header_remove(headers, broker->extra_name);
    rd_kafka_header_add(headers, broker->extra_name, -1, broker->extra_value, -1);
}

static enum rc open_topic_handle(struct broker_kafka *broker, const char *topic, size_t index,
                                 struct err *err)
{
    rd_kafka_topic_t **handle = &broker->topics[index];

    if (!*handle)
        *handle = rd_kafka_topic_new(broker->kafka, topic, NULL);
    if (!*handle)
        return kafka_fail(err, rd_kafka_last_error(), "kafka: topic %s", topic);
    return RC_OK;
}

static enum rc broker_send(void *ctx, const char *topic, size_t topic_index,
                           const struct relay_row *row, uint64_t ticket, struct err *err)
{
    struct broker_kafka *broker = ctx;
    int64_t timestamp_ms =
        row_record_timestamp(row, kafka_topic_older_ms_max(&broker->configs[topic_index]));
    rd_kafka_headers_t *headers = NULL;
    enum rc rc = ensure_producer(broker, err);

    if (rc == RC_OK)
        rc = open_topic_handle(broker, topic, topic_index, err);
    if (rc == RC_OK && broker->is_exact)
        rc = transaction_kafka_begin(&broker->transaction, broker->kafka, err);
    if (rc == RC_OK && !may_send(&broker->primed, broker->topics[topic_index], row->aggregate_id))
        return RC_RETRY;
    if (rc == RC_OK)
        rc = broker_kafka_make_headers(&headers, row, timestamp_ms, broker->lane->table,
                                       broker->settings->relay.ce_source, err);
    if (rc != RC_OK)
        return rc;
    put_extra_header(broker, headers);
    const struct producer_record record = {
        .key = row->aggregate_id,
        .value = row->payload,
        .timestamp_ms = timestamp_ms,
        .partition = PRODUCER_ANY_PARTITION,
        .headers = headers,
        .ticket = (uintptr_t)ticket,
    };

    rc = producer_send(broker->kafka, broker->topics[topic_index], &record, err);
    if (rc == RC_OK)
        note_sent(&broker->primed, broker->topics[topic_index], row->aggregate_id);
    else if (broker->is_exact && err->code == RD_KAFKA_RESP_ERR__STATE)
        rc = RC_FATAL; /* the transaction has failed */
    else if (rc == RC_REJECT)
        add_limits(broker, topic, err);
    return rc;
}

static enum rc broker_poll(void *ctx, broker_on_report on_report, void *on_report_ctx,
                           struct err *err)
{
    struct broker_kafka *broker = ctx;
    char text[256] = "";
    rd_kafka_resp_err_t code;

    if (!broker->kafka)
        return RC_OK;
    broker->trouble.text[0] = '\0';
    broker->on_report = on_report;
    broker->on_report_ctx = on_report_ctx;
    rd_kafka_poll(broker->kafka, 0);
    broker->on_report = NULL;
    refresh_configs(broker, os_now_ms());
    if (!broker->kafka)
        return RC_OK;
    code = rd_kafka_fatal_error(broker->kafka, text, sizeof(text));
    if (broker->is_exact)
        transaction_kafka_note_error(&broker->transaction, code);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_fail(err, RC_FATAL, code, "kafka: the producer is finished: %s%s", text,
                        kafka_acl_hint(code));
    if (broker->trouble.text[0] == '\0')
        return RC_OK;
    *err = broker->trouble;
    return RC_RETRY;
}

static void broker_purge(void *ctx)
{
    struct broker_kafka *broker = ctx;

    if (broker->kafka)
        rd_kafka_purge(broker->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                          RD_KAFKA_PURGE_F_NON_BLOCKING);
}

static enum rc broker_claim(void *ctx, int64_t epoch, struct position_record *last, bool *found,
                            struct err *err)
{
    struct broker_kafka *broker = ctx;
    enum rc rc;

    broker_reset(broker);
    rc = make_producer(broker, err);
    if (rc == RC_OK)
        rc = transaction_kafka_claim(&broker->transaction, broker->kafka, epoch, last, found, err);
    if (broker->transaction.state != BROKER_CLAIMED)
        broker_reset(broker);
    return rc;
}

static enum broker_claim broker_claimed(void *ctx)
{
    const struct broker_kafka *broker = ctx;

    return broker->transaction.state;
}

static enum rc broker_commit(void *ctx, const struct position_record *record, struct err *err)
{
    struct broker_kafka *broker = ctx;

    if (broker->transaction.state == BROKER_UNCLAIMED)
        return err_fail(err, RC_RETRY, 0, "kafka: the producer was replaced");
    return transaction_kafka_commit(&broker->transaction, broker->kafka, record, err);
}

enum rc broker_kafka_check(const struct settings *settings, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    enum rc rc = make_conf(&conf, settings, NULL, err);

    if (rc == RC_OK)
        rd_kafka_conf_destroy(conf);
    for (size_t i = 0; i < settings->lane_count && rc == RC_OK; i++) {
        struct transaction_kafka transaction;

        if (!transaction_kafka_wanted(&settings->lanes[i]))
            continue;
        transaction_kafka_open(&transaction, &settings->lanes[i], settings);
        rc = make_conf(&conf, settings, &transaction, err);
        if (rc == RC_OK)
            rd_kafka_conf_destroy(conf);
    }
    return rc;
}

enum rc broker_kafka_make_headers(rd_kafka_headers_t **out, const struct relay_row *row,
                                  int64_t timestamp_ms, const char *lane, const char *source,
                                  struct err *err)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(HEADERS_EXPECTED);
    enum rc rc = row_record_headers(row, timestamp_ms, lane, source, add_header, headers, err);

    if (rc == RC_OK)
        *out = headers;
    else
        rd_kafka_headers_destroy(headers);
    return rc;
}

void broker_kafka_open(struct broker_kafka *broker, const struct lane_settings *lane,
                       const struct settings *settings, int wake_fd)
{
    memset(broker, 0, sizeof(*broker));
    broker->lane = lane;
    broker->settings = settings;
    broker->wake_fd = wake_fd;
    broker->query_at_ms = os_now_ms() + CONFIG_EVERY_MS;
    for (size_t i = 0; i < BROKER_TOPICS_MAX; i++)
        kafka_topic_config_default(&broker->configs[i]);
}

void broker_kafka_add_header(struct broker_kafka *broker, const char *name, const char *value)
{
    broker->extra_name = name;
    broker->extra_value = value;
}

void broker_kafka_use_transactions(struct broker_kafka *broker)
{
    broker->is_exact = true;
    transaction_kafka_open(&broker->transaction, broker->lane, broker->settings);
}

void broker_kafka_close(struct broker_kafka *broker)
{
    broker_reset(broker);
    transaction_kafka_close(&broker->transaction);
}

struct broker broker_kafka_ops(struct broker_kafka *broker)
{
    struct broker ops = {
        .ctx = broker,
        .topic_open = broker_topic_open,
        .send = broker_send,
        .poll = broker_poll,
        .purge = broker_purge,
        .reset = broker_reset,
    };

    if (broker->is_exact) {
        ops.claim = broker_claim;
        ops.claimed = broker_claimed;
        ops.commit = broker_commit;
    }
    return ops;
}
