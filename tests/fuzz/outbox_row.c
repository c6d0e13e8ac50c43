/* SPDX-License-Identifier: MIT */
/* The fields that the relay parses in an outbox row, which any application may have written: the
 * headers column, the aggregate type that names a topic, and the time; and outbox_append() accepts
 * nothing that the relay would refuse. relay.topics \n type \n created_at \n headers */
#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/utc.h"
#include "outbox/outbox.h"
#include "outbox/relay/broker_kafka.h"
#include "outbox/relay/topics.h"
#include "tests/fuzz/fuzz.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static struct settings settings;

/* A fake of common/db/db.c that accepts everything. */
enum rc db_exec(struct db *db, const char *sql, size_t len, uint64_t *affected, struct err *err)
{
    (void)db;
    (void)sql;
    (void)len;
    (void)affected;
    (void)err;
    return RC_OK;
}

uint64_t db_packet_bytes_max(const struct db *db)
{
    (void)db;
    return 0;
}

void db_put_text(struct db *db, struct buf *sql, const char *text, size_t len)
{
    (void)db;
    buf_put(sql, text, len);
}

void db_put_bytes(struct db *db, struct buf *sql, const void *bytes, size_t len)
{
    (void)db;
    buf_put(sql, bytes, len);
}

void db_put_name(struct buf *sql, const char *name)
{
    buf_text_put(sql, name);
}

static void check_topic(struct topics *topics, const char *type, size_t len, const char *expected)
{
    struct topic *topic = NULL;
    struct err err = {0};
    enum rc rc = topics_find(topics, (struct bytes){type, len}, &topic, &err);

    fuzz_must(rc == RC_OK || rc == RC_REJECT, "a type has a topic or is refused");
    if (rc == RC_REJECT) {
        fuzz_must(expected == NULL, "a mapped type has its topic");
        fuzz_must_be_sentence(err.text);
        return;
    }
    fuzz_must(topic->name[0] != '\0' && strlen(topic->name) < TOPIC_NAME_SIZE &&
                  topic->name[strspn(topic->name, TOPIC_LETTERS)] == '\0',
              "a topic's name is one that Kafka takes");
    if (expected)
        fuzz_must(strlen(topic->name) == strcspn(expected, ",") &&
                      memcmp(topic->name, expected, strlen(topic->name)) == 0,
                  "a mapped type has its topic");
}

static void check_topics(const char *map, const char *type)
{
    const struct setting *setting = setting_find("relay", "topics");
    struct topics topics;
    struct err err = {0};

    settings.relay.topics[0] = '\0';
    if (setting_store(setting, &settings, map, &err) != RC_OK)
        fuzz_must_be_sentence(err.text);
    topics_init(&topics, settings.relay.topics, "outbox.event.");
    for (const char *at = settings.relay.topics; *at; at += strspn(at, ",")) {
        size_t len = strcspn(at, "=");

        check_topic(&topics, at, len, at + len + 1);
        at += strcspn(at, ",");
    }
    check_topic(&topics, type, strlen(type), NULL);
    topics_done(&topics);
}

static void check_time(const char *text)
{
    char written[UTC_TEXT_SIZE];
    int64_t ms = utc_parse_ms(text, strlen(text));
    size_t len;

    if (ms == UTC_UNKNOWN_MS)
        return;
    len = utc_format(ms, written);
    fuzz_must(len == 24 && strlen(written) == len, "a time is written in 24 characters");
    written[10] = ' ';
    fuzz_must(utc_parse_ms(written, len - 1) == ms, "a time is read again as it was written");
}

/* How often a header is there. */
static size_t headers_count(const rd_kafka_headers_t *headers, const char *name)
{
    size_t count = 0;
    const char *one;
    const void *value;
    size_t len;

    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &one, &value, &len) == 0; i++)
        count += strcmp(one, name) == 0;
    return count;
}

static void check_headers(const rd_kafka_headers_t *headers, bool cloud_events)
{
    static const char *const always[] = {"id", "seq", "lane"};
    static const char *const events[] = {"ce_specversion", "ce_id", "ce_type", "ce_source",
                                         "ce_time"};

    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        fuzz_must(headers_count(headers, always[i]) == 1, "a header of ours is there once");
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        fuzz_must(headers_count(headers, events[i]) == 1 || !cloud_events,
                  "a header of CloudEvents is there once");
    if (!cloud_events)
        fuzz_must(headers_count(headers, "ce_id") == 0, "no CloudEvents without a source");
}

static enum rc relay_reads(struct bytes column, const char *source)
{
    const struct relay_row row = {
        .table_seq = INT64_MAX,
        .created_ms = 0,
        .id = {"i", 1},
        .type = {NULL, 0},
        .headers = column,
    };
    rd_kafka_headers_t *headers = NULL;
    struct err err = {0};
    enum rc rc = broker_kafka_make_headers(&headers, &row, 1, "outbox", source, &err);

    fuzz_must(rc == RC_OK || rc == RC_REJECT, "headers are taken or refused");
    if (rc == RC_OK) {
        check_headers(headers, source[0]);
        rd_kafka_headers_destroy(headers);
    } else {
        fuzz_must_be_sentence(err.text);
    }
    return rc;
}

static enum rc append_takes(const char *text)
{
    const struct outbox_event event = {
        .aggregate_type = "t", .aggregate_id = "k", .type = "T", .headers = text};
    struct err err = {0};
    enum rc rc = outbox_append(NULL, "outbox", &event, 1, &err);

    if (rc != RC_OK)
        fuzz_must_be_sentence(err.text);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *map = fuzz_text(&input, '\n');
    char *type = fuzz_text(&input, '\n');
    char *time = fuzz_text(&input, '\n');
    const char *column = input.size > 0 ? (const char *)input.data : "";
    enum rc rc = relay_reads((struct bytes){column, input.size}, "fuzz");

    fuzz_must(relay_reads((struct bytes){column, input.size}, "") == rc,
              "a source changes nothing in what is taken");

    check_topics(map, type);
    check_time(time);
    if (!memchr(column, '\0', input.size)) {
        char *text = fuzz_text(&input, '\0');

        fuzz_must(append_takes(text) != RC_OK || rc == RC_OK,
                  "what outbox_append() takes the relay can publish");
        free(text);
    }
    free(map);
    free(type);
    free(time);
    return 0;
}
