/* SPDX-License-Identifier: MIT */
#include "common/kafka/kafka.h"

#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdio.h>

struct meaning {
    int code; /* a rd_kafka_resp_err_t */
    enum rc rc;
};

/* Codes that are not listed are RC_RETRY: faults that end by themselves or through an operator's
 * work at the broker while the handle stays good (no connection, no leader, too few replicas,
 * time-outs, full queues, purged messages, throttling, full disks, rebalances), and every code yet
 * unknown: trying again is harmless, because what is refused stays in its table. Three are worth a
 * word:
 * - failed logins and TLS: librdkafka keeps trying by itself and recovers when the account is
 *   corrected; a new handle or process would only try faster.
 * - REQUEST_TIMED_OUT and MSG_TIMED_OUT leave open whether the broker has the message.
 * - UNSUPPORTED_COMPRESSION_TYPE, INVALID_REQUIRED_ACKS: settings, the same for every message;
 *   setting one message aside would not help the next. */
static const struct meaning meanings[] = {
    {RD_KAFKA_RESP_ERR_NO_ERROR, RC_OK},
    {RD_KAFKA_RESP_ERR__PARTITION_EOF, RC_OK}, /* no error */

    /* This message, its topic, or (consuming) this partition. */
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, RC_REJECT},
    /* A bad checksum. Older brokers also return it if a compacted topic gets a record without key,
     * and then every repetition would fail. */
    {RD_KAFKA_RESP_ERR_INVALID_MSG, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, RC_REJECT},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, RC_REJECT},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, RC_REJECT}, /* not a topic's name */
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RC_REJECT},
    /* librdkafka returns it after it has requested the topic for
     * topic.metadata.propagation.max.ms. */
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RC_REJECT},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, RC_REJECT},
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RC_REJECT},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, RC_REJECT},
    {RD_KAFKA_RESP_ERR__KEY_SERIALIZATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR__VALUE_SERIALIZATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR__KEY_DESERIALIZATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR__VALUE_DESERIALIZATION, RC_REJECT},
    /* The needed records have been deleted. */
    {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, RC_REJECT},
    {RD_KAFKA_RESP_ERR__NO_OFFSET, RC_REJECT},
    {-139, RC_REJECT}, /* _LOG_TRUNCATION, which 2.0 has no name for */

    /* The handle: its producer id, epoch or sequence is not what the broker expects any more, it
     * may not have one, or it is being destroyed. */
    {RD_KAFKA_RESP_ERR__FATAL, RC_FATAL},
    {RD_KAFKA_RESP_ERR__FENCED, RC_FATAL},
    {RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, RC_FATAL},
    {RD_KAFKA_RESP_ERR__INCONSISTENT, RC_FATAL},
    {RD_KAFKA_RESP_ERR__DESTROY, RC_FATAL},
    {RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, RC_FATAL},
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, RC_FATAL},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, RC_FATAL},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING, RC_FATAL},
    {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, RC_FATAL},
    {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, RC_FATAL},
    {RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, RC_FATAL},
    {RD_KAFKA_RESP_ERR_INVALID_TXN_STATE, RC_FATAL},
    {RD_KAFKA_RESP_ERR_TRANSACTION_COORDINATOR_FENCED, RC_FATAL},
    /* Without the right to an idempotent producer's id librdkafka gives the handle up. */
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, RC_FATAL},
    {RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, RC_FATAL},
};

enum rc kafka_classify(int code)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (meanings[i].code == code)
            return meanings[i].rc;
    }
    return RC_RETRY;
}

/* What to do for a user that lacks an ACL; "" for every other code. */
const char *kafka_acl_hint(int code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return "; the user of [kafka] lacks an ACL on the topic: Describe, and Write to publish or "
               "Read to consume";
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
        return "; the user of [kafka] lacks the ACL Read on the consumer group";
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        return "; the user of [kafka] lacks the ACL Write on its topics";
    default:
        return "";
    }
}

enum rc kafka_fail(struct err *err, int code, const char *format, ...)
{
    char what[256];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return err_fail(err, kafka_classify(code), code, "%s: %s (%s)%s", what,
                    rd_kafka_err2str((rd_kafka_resp_err_t)code),
                    rd_kafka_err2name((rd_kafka_resp_err_t)code), kafka_acl_hint(code));
}
