/* SPDX-License-Identifier: MIT */
#include "consumer/status/status_kafka.h"

#include "common/kafka/kafka.h"
#include "common/os.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

#define REACH_MS 2000 /* for the first answer */
#define TOTAL_MS 6000 /* for all answers */

/* Drops the log lines of librdkafka: the page shows each fault once. */
static void ignore_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
    (void)kafka;
    (void)level;
    (void)facility;
    (void)text;
}

static enum rc open_kafka(rd_kafka_t **kafka, const struct settings *settings, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256];
    enum rc rc = kafka_conf_make(&conf, settings, KAFKA_TOOL, NULL, 0, err);

    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_log_cb(conf, ignore_log);
    *kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (*kafka)
        return RC_OK;
    rd_kafka_conf_destroy(conf);
    return err_fail(err, RC_FATAL, 0, "kafka: %s", text);
}

static bool is_wanted(const char *topics, const char *topic)
{
    char names[SETTING_LIST_SIZE];
    char *rest = NULL;

    snprintf(names, sizeof(names), "%s", topics);
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest))
        if (strcmp(name, topic) == 0)
            return true;
    return false;
}

/* Requests the metadata of all topics, because a request for one topic may create it. */
static enum rc list_partitions(struct status *status, rd_kafka_t *kafka, const char *topics,
                               struct err *err)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka, 1, NULL, &metadata, REACH_MS);

    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_fail_no_answer(err, kafka, code, REACH_MS);
    for (int i = 0; i < metadata->topic_cnt; i++) {
        const struct rd_kafka_metadata_topic *topic = &metadata->topics[i];

        if (!is_wanted(topics, topic->topic))
            continue;
        for (int j = 0; j < topic->partition_cnt; j++)
            status_partition_at(status, topic->topic, topic->partitions[j].id);
    }
    rd_kafka_metadata_destroy(metadata);
    return RC_OK;
}

/* A partition without a leader is skipped; the first one is the fault. */
static void read_watermarks(struct status *status, rd_kafka_t *kafka)
{
    int64_t until_ms = os_now_ms() + TOTAL_MS;

    for (size_t i = 0; i < status->partition_count; i++) {
        struct status_partition *one = &status->partitions[i];
        int64_t left_ms = until_ms - os_now_ms();
        int64_t low = 0;
        int64_t high = 0;
        struct err err = {0};
        rd_kafka_resp_err_t code;
        enum rc rc;

        if (left_ms <= 0) {
            rc = err_fail(&err, RC_RETRY, 0, "kafka: no answer for every partition within %d s",
                          TOTAL_MS / 1000);
            status_fail(&status->kafka_fault, rc, &err);
            return;
        }
        code = rd_kafka_query_watermark_offsets(kafka, one->topic, one->partition, &low, &high,
                                                left_ms < REACH_MS ? (int)left_ms : REACH_MS);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
            one->low = low;
            one->high = high;
            continue;
        }
        rc = kafka_fail(&err, code, "kafka: %s/%d", one->topic, (int)one->partition);
        status_fail(&status->kafka_fault, rc, &err);
    }
}

/* code: of the whole call. librdkafka 2.14 fails the call for the error of one partition, but does
 * not document it, so that the partition's own error counts as well. */
static void set_late(struct status *status, rd_kafka_resp_err_t code,
                     const rd_kafka_topic_partition_t *answer)
{
    struct status_partition *one = status_partition_at(status, answer->topic, answer->partition);
    int64_t young = answer->offset >= 0 ? answer->offset : one->high;
    struct err err = {0};
    enum rc rc = RC_OK;

    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        rc = kafka_fail(&err, code, "kafka: no answer about the age of records");
    else if (answer->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        rc = kafka_fail(&err, answer->err, "kafka: %s/%d: no answer about the age of records",
                        one->topic, (int)one->partition);
    one->late = rc == RC_OK ? status_lag(status, one) - (one->high - young) : STATUS_UNKNOWN;
    if (rc != RC_OK)
        status_fail(&status->kafka_fault, rc, &err);
}

/* Fills `late`. Asks each partition with a lag for its first record that is younger than stale_ms;
 * records before that one and not applied yet are late. */
static void read_late(struct status *status, rd_kafka_t *kafka)
{
    int64_t from_ms = status->now_ms - status->stale_ms;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

    for (size_t i = 0; i < status->partition_count; i++)
        if (status_lag(status, &status->partitions[i]) > 0)
            rd_kafka_topic_partition_list_add(list, status->partitions[i].topic,
                                              status->partitions[i].partition)
                ->offset = from_ms > 0 ? from_ms : 0;
    if (list->cnt > 0)
        code = rd_kafka_offsets_for_times(kafka, list, TOTAL_MS);
    for (int i = 0; i < list->cnt; i++)
        set_late(status, code, &list->elems[i]);
    rd_kafka_topic_partition_list_destroy(list);
}

void status_kafka_fill(struct status *status, const struct settings *settings)
{
    rd_kafka_t *kafka = NULL;
    struct err err = {0};
    enum rc rc = open_kafka(&kafka, settings, &err);

    if (rc == RC_OK)
        rc = list_partitions(status, kafka, settings->consumer.topics, &err);
    if (rc != RC_OK)
        status_fail(&status->kafka_fault, rc, &err);
    else
        read_watermarks(status, kafka);
    if (status->kafka_fault.rc == RC_OK)
        read_late(status, kafka);
    if (kafka)
        rd_kafka_destroy(kafka);
}
