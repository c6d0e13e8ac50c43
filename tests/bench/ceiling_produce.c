/* SPDX-License-Identifier: MIT */
/* The ceiling of the relay: librdkafka alone sends as many records, as large and as compressible,
 * with the same headers, idempotent and compressed as the relay does
 * (outbox/relay/producer_kafka.c), but with more room in its queue. No database.
 *
 *     ceiling_produce --bootstrap H:P --topic T --rows N --bytes B --source S
 *
 * S is as relay.ce_source: empty for no CloudEvents headers. */
#include "tests/bench/bench.h"

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Rows that are sent in turns; more of them than librdkafka compresses at a time, so that none is
 * in the same block twice. */
#define SAMPLES 8192
#define SAMPLE_BYTES_MAX 4096

static struct sample {
    char id[37];
    char payload[SAMPLE_BYTES_MAX];
    size_t bytes;
} samples[SAMPLES];

static atomic_llong reported;
static atomic_llong failed;

static void on_report(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque)
{
    (void)kafka;
    (void)opaque;
    atomic_fetch_add(&reported, 1);
    if (message->err)
        atomic_fetch_add(&failed, 1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK)
        bench_fail("%s = %s: %s", name, value, text);
}

static rd_kafka_t *producer_open(const char *bootstrap)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *kafka;
    char text[256];

    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "enable.idempotence", "true");
    set(conf, "enable.gapless.guarantee", "true");
    set(conf, "acks", "all");
    set(conf, "compression.codec", "lz4");
    set(conf, "partitioner", "murmur2_random");
    set(conf, "message.timeout.ms", "0");
    set(conf, "linger.ms", "5");
    set(conf, "queue.buffering.max.messages", "200000");
    set(conf, "log_level", "2");
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (!kafka)
        bench_fail("no producer: %s", text);
    return kafka;
}

/* The samples look like the rows of fill_outbox() in tests/bench/cases.py. */
static void samples_make(size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t state = 1;

    for (size_t i = 0; i < SAMPLES; i++) {
        struct sample *sample = &samples[i];

        snprintf(sample->id, sizeof(sample->id), "%08x-7c00-11f0-8000-0242ac110002",
                 (unsigned)bench_rng_next(&state));
        sample->bytes = (size_t)snprintf(sample->payload, sizeof(sample->payload),
                                         "{\"orderId\":%zu,\"text\":\"", i);
        while (sample->bytes + 2 < bytes)
            sample->payload[sample->bytes++] = digits[bench_rng_next(&state) % 16];
        memcpy(sample->payload + sample->bytes, "\"}", 2);
        sample->bytes += 2;
    }
}

/* Those of the relay: see outbox/relay/row_record.c. */
static rd_kafka_headers_t *headers_make(const char *id, const char *seq, const char *source)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(12);

    rd_kafka_header_add(headers, "id", -1, id, -1);
    if (source[0]) {
        rd_kafka_header_add(headers, "ce_specversion", -1, "1.0", -1);
        rd_kafka_header_add(headers, "ce_id", -1, id, -1);
        rd_kafka_header_add(headers, "ce_type", -1, "OrderPlaced", -1);
        rd_kafka_header_add(headers, "ce_source", -1, source, -1);
        rd_kafka_header_add(headers, "ce_time", -1, "2026-01-01T00:00:00.000Z", -1);
    }
    rd_kafka_header_add(headers, "seq", -1, seq, -1);
    rd_kafka_header_add(headers, "lane", -1, "outbox", -1);
    return headers;
}

static void row_send(rd_kafka_t *kafka, rd_kafka_topic_t *topic, const char *source, long long row)
{
    struct sample *sample = &samples[row % SAMPLES];
    char key[32];
    char seq[32];

    snprintf(key, sizeof(key), "%lld", row % 100000);
    snprintf(seq, sizeof(seq), "%lld", row);
    for (;;) {
        rd_kafka_headers_t *headers = headers_make(sample->id, seq, source);
        rd_kafka_resp_err_t code = rd_kafka_producev(
            kafka, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_KEY(key, strlen(key)),
            RD_KAFKA_V_VALUE(sample->payload, sample->bytes),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);

        if (!code)
            return;
        rd_kafka_headers_destroy(headers);
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            bench_fail("produce: %s", rd_kafka_err2str(code));
        rd_kafka_poll(kafka, 10);
    }
}

int main(int argc, char **argv)
{
    long long rows = bench_number(argc, argv, "rows", 1000000);
    size_t bytes = (size_t)bench_number(argc, argv, "bytes", 200);
    const char *source = bench_text(argc, argv, "source", "");
    rd_kafka_t *kafka = producer_open(bench_text(argc, argv, "bootstrap", NULL));
    rd_kafka_topic_t *topic =
        rd_kafka_topic_new(kafka, bench_text(argc, argv, "topic", NULL), NULL);

    if (!topic || bytes < 64 || bytes > SAMPLE_BYTES_MAX)
        bench_fail("no topic, or not 64 to %d bytes", SAMPLE_BYTES_MAX);
    samples_make(bytes);
    bench_start();
    for (long long row = 0; row < rows; row++) {
        row_send(kafka, topic, source, row);
        if (row % 1000 == 0)
            rd_kafka_poll(kafka, 0);
    }
    rd_kafka_flush(kafka, 60000);
    if (atomic_load(&reported) != rows || atomic_load(&failed) != 0)
        bench_fail("%lld of %lld records were reported, %lld failed",
                   (long long)atomic_load(&reported), rows, (long long)atomic_load(&failed));
    bench_print(rows);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(kafka);
    return 0;
}
