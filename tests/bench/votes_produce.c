/* SPDX-License-Identifier: MIT */
/* Fills a topic with vote events as fast as possible; the consumer's case reads them. votes_produce
 * --bootstrap H:P --topic T --rows N [--contents 20000] [--kind uniform|zipf] [--rate 0] so many
 * a second [--repeat 0] every so many-th record is sent twice [--form vote] connect: the row of
 * vote_document that an event becomes, behind its schema, in the form that sinks of Kafka Connect
 * need */
#include "common/text.h"
#include "schema/vote_event.h"
#include "tests/bench/bench.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

/* 2026-11-01, and on by a millisecond each. */
#define BEGINS_MS INT64_C(1793491200000)

#define DAY_MS INT64_C(86400000)

static const struct field {
    const char *type;
    const char *name;
    const char *logical; /* "": none */
} fields[] = {
    {"int64", "gmt_create", "org.apache.kafka.connect.data.Timestamp"},
    {"int64", "voter_id", ""},
    {"int64", "content_id", ""},
    {"int16", "voting", ""},
    {"int64", "votes", ""},
    {"int32", "create_date", "org.apache.kafka.connect.data.Date"},
    {"bytes", "event_id", ""},
    {"int64", "content_seq", ""},
};

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];

    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK)
        bench_fail("%s = %s: %s", name, value, text);
}

static void value_send(rd_kafka_t *kafka, rd_kafka_topic_t *topic, const struct buf *value,
                       long long content)
{
    char key[32];
    int len = snprintf(key, sizeof(key), "%lld", content);
    rd_kafka_resp_err_t code;

    do {
        code = rd_kafka_producev(kafka, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_KEY(key, (size_t)len),
                                 RD_KAFKA_V_VALUE(value->data, value->len),
                                 RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
        rd_kafka_poll(kafka, code ? 10 : 0);
    } while (code == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    if (code)
        bench_fail("produce: %s", rd_kafka_err2str(code));
}

static void connect_schema(struct buf *out)
{
    buf_text_put(out, "{\"schema\":{\"type\":\"struct\",\"optional\":false,\"fields\":[");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        buf_print(out, "%s{\"type\":\"%s\",\"optional\":false,\"field\":\"%s\"", i ? "," : "",
                  fields[i].type, fields[i].name);
        if (fields[i].logical[0])
            buf_print(out, ",\"name\":\"%s\",\"version\":1", fields[i].logical);
        buf_char(out, '}');
    }
    buf_text_put(out, "]},\"payload\":");
}

/* Its totals are none: a sink does not count. */
static void connect_encode(const struct vote_event *event, struct buf *out)
{
    connect_schema(out);
    buf_print(out,
              "{\"gmt_create\":%" PRId64 ",\"voter_id\":%" PRId64 ",\"content_id\":%" PRId64
              ",\"voting\":%d,\"votes\":1,\"create_date\":%" PRId64 ",\"event_id\":\"",
              event->occurred_ms, event->voter_id, event->content_id, event->voting,
              event->occurred_ms / DAY_MS);
    base64_put(out, event->event_id.bytes, sizeof(event->event_id.bytes));
    buf_print(out, "\",\"content_seq\":%" PRId64 "}}", event->voter_id);
}

static void event_make(struct vote_event *event, long long row, long long content, uint64_t *state)
{
    uint64_t random_bits[2] = {bench_rng_next(state), bench_rng_next(state)};

    memcpy(event->event_id.bytes, random_bits, sizeof(random_bits));
    event->voter_id = 1 + row;
    event->content_id = content;
    event->voting = 1;
    event->votes = VOTE_EVENT_VOTES_UNKNOWN;
    event->occurred_ms = BEGINS_MS + row;
}

int main(int argc, char **argv)
{
    long long rows = bench_number(argc, argv, "rows", 1000000);
    bool connect = strcmp(bench_text(argc, argv, "form", "vote"), "connect") == 0;
    long long repeat = bench_number(argc, argv, "repeat", 0);
    long long rate = bench_number(argc, argv, "rate", 0);
    struct bench_contents *contents = bench_contents_open(
        bench_text(argc, argv, "kind", "uniform"), bench_number(argc, argv, "contents", 20000));
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_t *topic;
    rd_kafka_t *kafka;
    struct buf value = {0};
    uint64_t state = 7;
    int64_t start_us;
    char text[256];

    set(conf, "bootstrap.servers", bench_text(argc, argv, "bootstrap", NULL));
    set(conf, "enable.idempotence", "true");
    set(conf, "compression.type", "lz4");
    set(conf, "partitioner", "murmur2_random");
    kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (!kafka)
        bench_fail("no producer: %s", text);
    topic = rd_kafka_topic_new(kafka, bench_text(argc, argv, "topic", NULL), NULL);
    bench_start();
    start_us = bench_now_us();
    for (long long row = 0; row < rows; row++) {
        struct vote_event event;

        if (rate > 0)
            bench_sleep_until(start_us + row * 1000000 / rate);
        event_make(&event, row, bench_content(contents, bench_rng_next(&state)), &state);
        buf_reset(&value);
        (connect ? connect_encode : vote_event_encode)(&event, &value);
        value_send(kafka, topic, &value, event.content_id);
        if (repeat > 0 && row % repeat == 0)
            value_send(kafka, topic, &value, event.content_id);
    }
    if (rd_kafka_flush(kafka, 120000))
        bench_fail("not all records were sent");
    bench_print(rows);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(kafka);
    bench_contents_close(contents);
    buf_done(&value);
    return 0;
}
