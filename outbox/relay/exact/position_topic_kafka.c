/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/position_topic_kafka.h"

#include "common/kafka/kafka.h"
#include "common/os.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <string.h>

/* The record of a lane that publishes is near the end, so the search begins there, and goes this
 * many times further back each time. */
#define NEAR_RECORDS 1000
#define FURTHER 20

struct search {
    const struct settings *settings;
    const char *topic;
    const char *key;
    enum position_topic_end end;
    int64_t until_ms;
    int64_t read; /* records */
    int64_t low;  /* the first offset of the partition, and the one behind the last */
    int64_t high;
    struct buf *value; /* of the last record with the key */
    int64_t offset;    /* and its place */
    bool found;
};

static int compute_left_ms(const struct search *search)
{
    int64_t left_ms = search->until_ms - os_now_ms();

    return left_ms > 1 ? (int)left_ms : 1;
}

static enum rc open_consumer(const struct search *search, const char *isolation, rd_kafka_t **kafka,
                             struct err *err)
{
    const struct kafka_default defaults[] = {
        {"isolation.level", isolation, "an aborted transaction does not count"},
        {"enable.partition.eof", "true", "the end of the topic has to be found"},
        {"enable.auto.commit", "false", NULL},
        {"fetch.wait.max.ms", "100", NULL},
    };
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc = kafka_conf_make(&conf, search->settings, KAFKA_TOOL, defaults,
                                 sizeof(defaults) / sizeof(defaults[0]), err);

    if (rc != RC_OK)
        return RC_FATAL;
    *kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (*kafka)
        return RC_OK;
    rd_kafka_conf_destroy(conf);
    return err_fail(err, RC_RETRY, 0, "kafka: a consumer cannot be created: %s", text);
}

/* For a reader of all records the end counts those of open transactions, too: a transaction of
 * another lane that is open hides all records behind its first one. */
static enum rc read_ends(struct search *search, struct err *err)
{
    rd_kafka_t *kafka = NULL;
    rd_kafka_resp_err_t code;
    enum rc rc = open_consumer(
        search, search->end == POSITION_TOPIC_END ? "read_uncommitted" : "read_committed", &kafka,
        err);

    if (rc != RC_OK)
        return rc;
    code = rd_kafka_query_watermark_offsets(kafka, search->topic, 0, &search->low, &search->high,
                                            compute_left_ms(search));
    rd_kafka_destroy(kafka);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    rc = kafka_fail(err, code, "kafka: cannot find the end of topic %s", search->topic);
    return rc == RC_OK ? RC_OK : RC_RETRY;
}

static void take_message(struct search *search, const rd_kafka_message_t *message)
{
    if (message->key_len != strlen(search->key) ||
        memcmp(message->key, search->key, message->key_len) != 0)
        return;
    search->found = message->payload != NULL;
    search->offset = message->offset;
    buf_reset(search->value);
    buf_put(search->value, message->payload, message->len);
}

static enum rc fail_late(const struct search *search, struct err *err)
{
    const char *why = "a broker does not answer, or a transaction of another lane is open there";

    if (search->read >= NEAR_RECORDS)
        why = "it is too long; look whether Kafka compacts it (cleanup.policy, segment.ms)";
    return err_fail(err, RC_RETRY, 0,
                    "kafka: topic %s cannot be read to its end in time, after %" PRId64
                    " records: %s",
                    search->topic, search->read, why);
}

/* Reads from an offset to the end. */
static enum rc read_messages(struct search *search, rd_kafka_queue_t *queue, struct err *err)
{
    enum rc rc = RC_OK;
    bool at_end = false;

    while (rc == RC_OK && !at_end) {
        rd_kafka_message_t *message = NULL;

        if (os_now_ms() < search->until_ms)
            message = rd_kafka_consume_queue(queue, compute_left_ms(search));
        if (!message)
            return fail_late(search, err);
        search->read++;
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            at_end = message->offset >= search->high;
        else if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            rc = kafka_classify(message->err) == RC_RETRY
                     ? RC_OK
                     : kafka_fail(err, message->err, "kafka: topic %s", search->topic);
        else
            take_message(search, message);
        rd_kafka_message_destroy(message);
    }
    return rc == RC_REJECT ? RC_FATAL : rc;
}

static enum rc read_from(struct search *search, rd_kafka_t *kafka, int64_t offset, struct err *err)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(kafka, search->topic, NULL);
    rd_kafka_queue_t *queue;
    enum rc rc;

    if (!topic)
        return err_fail(err, RC_RETRY, 0, "kafka: topic %s: %s", search->topic,
                        rd_kafka_err2str(rd_kafka_last_error()));
    queue = rd_kafka_queue_new(kafka);
    if (rd_kafka_consume_start_queue(topic, 0, offset, queue) != 0) {
        rc = kafka_fail(err, rd_kafka_last_error(), "kafka: topic %s", search->topic);
    } else {
        rc = read_messages(search, queue, err);
        rd_kafka_consume_stop(topic, 0);
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(topic);
    return rc;
}

static enum rc find_record(struct search *search, struct err *err)
{
    rd_kafka_t *kafka = NULL;
    int64_t records = NEAR_RECORDS;
    int64_t from;
    enum rc rc = open_consumer(search, "read_committed", &kafka, err);

    if (rc != RC_OK)
        return rc;
    do {
        from = search->high - search->low > records ? search->high - records : search->low;
        rc = read_from(search, kafka, from, err);
        records *= FURTHER;
    } while (rc == RC_OK && !search->found && from > search->low);
    rd_kafka_destroy(kafka);
    return rc;
}

static enum rc read_last_value(struct search *search, struct err *err)
{
    enum rc rc = read_ends(search, err);

    if (rc == RC_OK && search->high > search->low)
        rc = find_record(search, err);
    search->found = rc == RC_OK && search->found;
    return rc;
}

enum rc position_topic_read_value(const struct settings *settings, const char *topic,
                                  const char *key, enum position_topic_end end, int64_t until_ms,
                                  struct buf *value, bool *found, struct err *err)
{
    struct search search = {
        .settings = settings,
        .topic = topic,
        .key = key,
        .end = end,
        .until_ms = until_ms,
        .value = value,
    };
    enum rc rc = read_last_value(&search, err);

    *found = search.found;
    return rc;
}

enum rc position_topic_read_last(const struct settings *settings, const char *topic,
                                 const char *key, enum position_topic_end end, int64_t until_ms,
                                 struct position_record *last, bool *found, struct err *err)
{
    struct buf value = {0};
    struct search search = {
        .settings = settings,
        .topic = topic,
        .key = key,
        .end = end,
        .until_ms = until_ms,
        .value = &value,
    };
    enum rc rc = read_last_value(&search, err);

    *found = search.found;
    if (search.found && value.failed)
        rc = err_fail(err, RC_RETRY, 0, "no memory for the position of %s", key);
    else if (search.found)
        rc = position_record_read(last, (struct bytes){value.data, value.len}, err);
    if (search.found && rc == RC_FATAL)
        err_wrap(err, "kafka: topic %s: the position at offset %" PRId64, topic, search.offset);
    buf_done(&value);
    return rc;
}
