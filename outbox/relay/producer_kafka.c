/* SPDX-License-Identifier: MIT */
#include "outbox/relay/producer_kafka.h"

#include <assert.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <string.h>

/* murmur2_random is the partitioner of Java's producers: other producers may write to the same
 * topic. */
static const struct kafka_default common_defaults[] = {
    {"enable.idempotence", "true", "a retry must not double or reorder records"},
    {"acks", "all", "a row is deleted when its record is acknowledged"},
    {"partitioner", "murmur2_random", NULL},
    {"compression.codec", "lz4", NULL},
    {"reconnect.backoff.max.ms", "1000", NULL},
    {"socket.keepalive.enable", "true", NULL},
};

#define COMMON_COUNT (sizeof(common_defaults) / sizeof(common_defaults[0]))

enum rc producer_conf_make(rd_kafka_conf_t **conf, const struct settings *settings,
                           const struct kafka_default *own, size_t own_count, struct err *err)
{
    struct kafka_default all[COMMON_COUNT + PRODUCER_DEFAULTS_MAX];

    assert(own_count <= PRODUCER_DEFAULTS_MAX);
    memcpy(all, common_defaults, sizeof(common_defaults));
    memcpy(all + COMMON_COUNT, own, own_count * sizeof(*own));
    return kafka_conf_make(conf, settings, KAFKA_PRODUCER, all, COMMON_COUNT + own_count, err);
}

static rd_kafka_vu_t make_memory_part(rd_kafka_vtype_t type, struct bytes bytes)
{
    rd_kafka_vu_t part = {.vtype = type};

    /* librdkafka copies the memory and does not write to it. */
    part.u.mem.ptr = (void *)(uintptr_t)bytes.data;
    part.u.mem.size = bytes.len;
    return part;
}

enum rc producer_send(rd_kafka_t *kafka, rd_kafka_topic_t *topic,
                      const struct producer_record *record, struct err *err)
{
    const rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = record->partition},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        make_memory_part(RD_KAFKA_VTYPE_KEY, record->key),
        make_memory_part(RD_KAFKA_VTYPE_VALUE, record->value),
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = record->timestamp_ms},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = record->headers},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = (void *)record->ticket},
    };
    rd_kafka_error_t *error = rd_kafka_produceva(kafka, parts, sizeof(parts) / sizeof(parts[0]));
    rd_kafka_resp_err_t code;

    if (!error)
        return RC_OK;
    /* librdkafka takes the headers over only on success. */
    rd_kafka_headers_destroy(record->headers);
    code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    return kafka_fail(err, code, "kafka: topic %s", rd_kafka_topic_name(topic));
}

/* Returns whether librdkafka infers the delivery from that of a later record: the report then has
 * no offset. Usually only the response was lost, but a partition with a new leader may have refused
 * the record and accepted the later one (KAFKA-15591), and then it is lost. Sending it again is
 * harmless. */
static bool is_only_inferred(const rd_kafka_message_t *message)
{
    return message->err == RD_KAFKA_RESP_ERR_NO_ERROR && message->offset < 0;
}

enum rc producer_report(const rd_kafka_message_t *message, struct err *err)
{
    const char *topic = rd_kafka_topic_name(message->rkt);

    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail(err, message->err, "kafka: topic %s", topic);
    if (is_only_inferred(message))
        return err_fail(err, RC_RETRY, 0,
                        "kafka: topic %s [%" PRId32 "]: a record was acknowledged only through "
                        "a later one; it is sent again",
                        topic, message->partition);
    return RC_OK;
}

void producer_add_limits(struct err *err, int64_t topic_bytes_max, int64_t row_bytes_max)
{
    const struct err refused = *err;

    if (err->code != RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE &&
        err->code != RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE)
        return;
    if (topic_bytes_max > 0)
        err_set(err,
                "%.200s; max.message.bytes of the topic is %" PRId64
                ", relay.row_bytes_max is %" PRId64,
                refused.text, topic_bytes_max, row_bytes_max);
    else
        err_set(
            err,
            "%.200s; max.message.bytes of the topic is unknown, relay.row_bytes_max is %" PRId64,
            refused.text, row_bytes_max);
    err->code = refused.code;
}
