/* SPDX-License-Identifier: MIT */
#include "outbox/broker_kafka.h"

#include "common/kafka.h"
#include "outbox/headers_kafka.h"
#include "outbox/producer_kafka.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

/* Rows waiting for the broker use this much memory at most, unless a single one needs more. */
#define QUEUE_KIB 16384

#define TOPIC_WAIT_MS 5000

/* Numbers that depend on settings, as texts. */
struct limits {
    char message_bytes[24];
    char queue_kib[24];
};

static void limits_make(struct limits *limits, const struct settings *settings)
{
    int64_t bytes = settings->relay.row_bytes_max + PRODUCER_RECORD_EXTRA;
    int64_t kib = bytes / 1024 + 1024;

    snprintf(limits->message_bytes, sizeof(limits->message_bytes), "%" PRId64, bytes);
    snprintf(limits->queue_kib, sizeof(limits->queue_kib), "%" PRId64,
             kib > QUEUE_KIB ? kib : QUEUE_KIB);
}

/* The gapless guarantee makes a request that is refused stop all that were sent after it, which is
 * what keeps a key's later rows from passing a refused one, where the partition knows the producer
 * (primed_kafka.h); the sender resets the producer then. It
 * does not cover time-outs: librdkafka drops the late record and sends the younger ones. So there
 * are none, and the sender gives up all together.
 *
 * No linger: what the reader brings in one look is queued faster than one request is made, and more
 * gathers while requests are under way. */
static enum rc conf_make(rd_kafka_conf_t **conf, const struct settings *settings, struct err *err)
{
    struct limits limits;

    limits_make(&limits, settings);
    const struct kafka_default defaults[] = {
        {"enable.gapless.guarantee", "true", "a refused record must not be overtaken by its key"},
        {"message.timeout.ms", "0",
         "a record that times out alone is overtaken by its key; relay.send_timeout_ms counts"},
        {"linger.ms", "0", NULL},
        {"message.max.bytes", limits.message_bytes, NULL},
        {"queue.buffering.max.kbytes", limits.queue_kib, NULL},
        {"queue.buffering.max.messages", "100000", NULL},
    };

    return producer_conf_make(conf, settings, defaults, sizeof(defaults) / sizeof(defaults[0]),
                              err);
}

enum rc broker_kafka_check(const struct settings *settings, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    enum rc rc = conf_make(&conf, settings, err);

    if (rc == RC_OK)
        rd_kafka_conf_destroy(conf);
    return rc;
}

static void on_delivery(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque)
{
    struct broker_kafka *broker = opaque;
    struct err err;
    enum rc rc;

    (void)kafka;
    rc = producer_report(message, &err);
    primed_reported(&broker->primed, message, rc == RC_OK);
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

static enum rc ready(struct broker_kafka *broker, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc;

    if (broker->kafka)
        return RC_OK;
    rc = conf_make(&conf, broker->settings, err);
    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_opaque(conf, broker);
    broker->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (!broker->kafka) {
        rd_kafka_conf_destroy(conf);
        return err_fail(err, RC_FATAL, 0, "kafka: no producer: %s", text);
    }
    wake_on_reports(broker);
    return RC_OK;
}

static enum rc broker_topic_open(void *ctx, const char *topic, struct err *err)
{
    struct broker_kafka *broker = ctx;
    const struct settings *settings = broker->settings;
    int64_t wait_ms = settings->relay.lease_ms / 4;
    int count = 0;
    enum rc rc = ready(broker, err);

    if (rc != RC_OK)
        return RC_RETRY;
    if (wait_ms > TOPIC_WAIT_MS)
        wait_ms = TOPIC_WAIT_MS;
    rc = primed_open(&broker->primed, broker->kafka, topic, err);
    if (rc == RC_OK)
        rc = kafka_ensure_topic(broker->kafka, topic, (int)settings->relay.topic_partitions,
                                (int)settings->relay.topic_replication, (int)wait_ms, &count, err);
    return rc == RC_OK ? primed_count(&broker->primed, topic, count, err) : rc;
}

static enum rc topic_handle(struct broker_kafka *broker, const char *topic, size_t index,
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
    rd_kafka_headers_t *headers = NULL;
    enum rc rc = ready(broker, err);

    if (rc == RC_OK)
        rc = topic_handle(broker, topic, topic_index, err);
    if (rc == RC_OK &&
        !primed_may_send(&broker->primed, broker->topics[topic_index], row->aggregate_id))
        return RC_RETRY;
    if (rc == RC_OK)
        rc = headers_make(&headers, row, broker->lane, broker->settings->relay.source, err);
    if (rc != RC_OK)
        return rc;
    const struct producer_record record = {
        .key = row->aggregate_id,
        .value = row->payload,
        .timestamp_ms = row->created_ms > 0 ? row->created_ms : 0,
        .partition = PRODUCER_ANY_PARTITION,
        .headers = headers,
        .ticket = (uintptr_t)ticket,
    };

    rc = producer_send(broker->kafka, broker->topics[topic_index], &record, err);
    if (rc == RC_OK)
        primed_sent(&broker->primed, broker->topics[topic_index], row->aggregate_id);
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
    code = rd_kafka_fatal_error(broker->kafka, text, sizeof(text));
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

static void broker_reset(void *ctx)
{
    struct broker_kafka *broker = ctx;

    for (size_t i = 0; i < BROKER_TOPICS_MAX; i++) {
        if (broker->topics[i])
            rd_kafka_topic_destroy(broker->topics[i]);
        broker->topics[i] = NULL;
    }
    primed_close(&broker->primed);
    if (broker->queue)
        rd_kafka_queue_destroy(broker->queue);
    if (broker->kafka)
        rd_kafka_destroy(broker->kafka);
    broker->queue = NULL;
    broker->kafka = NULL;
}

void broker_kafka_open(struct broker_kafka *broker, const char *lane,
                       const struct settings *settings, int wake_fd)
{
    memset(broker, 0, sizeof(*broker));
    broker->lane = lane;
    broker->settings = settings;
    broker->wake_fd = wake_fd;
}

void broker_kafka_close(struct broker_kafka *broker)
{
    broker_reset(broker);
}

struct broker broker_kafka_seam(struct broker_kafka *broker)
{
    return (struct broker){
        .ctx = broker,
        .topic_open = broker_topic_open,
        .send = broker_send,
        .poll = broker_poll,
        .purge = broker_purge,
        .reset = broker_reset,
    };
}
