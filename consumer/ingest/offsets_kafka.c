/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/offsets_kafka.h"

#include "common/kafka/kafka.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>

struct offsets_kafka {
    rd_kafka_t *kafka;
};

enum rc offsets_kafka_open(struct offsets_kafka **out, const struct settings *settings,
                           struct err *err)
{
    struct offsets_kafka *offsets = calloc(1, sizeof(*offsets));
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    enum rc rc;

    if (!offsets)
        return err_fail(err, RC_FATAL, 0, "no memory for a Kafka client");
    rc = kafka_conf_make(&conf, settings, KAFKA_TOOL, NULL, 0, err);
    if (rc != RC_OK) {
        free(offsets);
        return rc;
    }
    offsets->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (!offsets->kafka) {
        rd_kafka_conf_destroy(conf);
        free(offsets);
        return err_fail(err, RC_FATAL, 0, "cannot make a Kafka client: %s", text);
    }
    *out = offsets;
    return RC_OK;
}

void offsets_kafka_close(struct offsets_kafka *offsets)
{
    if (!offsets)
        return;
    rd_kafka_destroy(offsets->kafka);
    free(offsets);
}

enum rc offsets_kafka_ask(struct offsets_kafka *offsets, const struct place *place, int64_t *low,
                          int64_t *high, int timeout_ms, struct err *err)
{
    rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(
        offsets->kafka, place->topic, place->partition, low, high, timeout_ms);

    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return RC_OK;
    return kafka_fail(err, (int)code, "cannot ask for the offsets of %s/%d", place->topic,
                      (int)place->partition);
}
