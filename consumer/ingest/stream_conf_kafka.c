/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/stream_conf_kafka.h"

#include "common/kafka/kafka.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* With group.protocol=consumer the broker assigns, and naming an assignor is an error. */
static bool broker_assigns(const struct settings *settings)
{
    for (size_t i = 0; i < settings->kafka.count; i++) {
        const struct kafka_property *property = &settings->kafka.properties[i];

        if (strstr(property->name, "group.protocol") && strcmp(property->value, "consumer") == 0)
            return true;
    }
    return false;
}

/* Is there a property of this name in the library that runs? */
static bool library_knows(const char *name, const char *value)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[128];
    bool known = rd_kafka_conf_set(conf, name, value, text, sizeof(text)) == RD_KAFKA_CONF_OK;

    rd_kafka_conf_destroy(conf);
    return known;
}

struct fetch_limits {
    char partition_bytes[16];
    char response_bytes[16];
    char queue_kbytes[16];
};

/* Limits count what travels, which is compressed. What becomes of it in memory is a hundred times
 * as much in the worst case that we plan for: with 12 partitions that hold a slice each, a third of
 * consumer.memory_max. Measured with records of 900 kB that zstd packs 100:1, on 12 partitions: 292
 * MiB with slices of 128 KiB, 46 to 51 MiB with these. */
static void fetch_limits_set(struct fetch_limits *limits, int64_t memory_max)
{
    snprintf(limits->partition_bytes, sizeof(limits->partition_bytes), "%" PRId64,
             memory_max / 4096);
    snprintf(limits->response_bytes, sizeof(limits->response_bytes), "%" PRId64, memory_max / 64);
    snprintf(limits->queue_kbytes, sizeof(limits->queue_kbytes), "%" PRId64,
             memory_max / 128 / 1024);
}

/* What every partition holds ready for us. A record waits in a queue of its partition and costs a
 * kilobyte there whatever its size; small answers, because a record keeps the whole answer that it
 * came with in memory. Older libraries wait for a second when a queue is full: theirs is longer.
 *
 * A broker is asked once at a time, and not for partitions whose queue is full: while it waits for
 * something new in all others, a partition with a backlog gets nothing. So it waits for a short
 * time. With the library's 500 ms the last and hottest partition came in at 15 k records/s. */
static size_t queue_defaults(const struct fetch_limits *limits, struct kafka_default *defaults)
{
    static const char backoff[] = "fetch.queue.backoff.ms";
    size_t count = 0;

    defaults[count++] =
        (struct kafka_default){"queued.max.messages.kbytes", limits->queue_kbytes, NULL};
    defaults[count++] =
        (struct kafka_default){"fetch.message.max.bytes", limits->partition_bytes, NULL};
    defaults[count++] = (struct kafka_default){"fetch.max.bytes", limits->response_bytes, NULL};
    defaults[count++] = (struct kafka_default){"fetch.wait.max.ms", "50", NULL};
    if (!library_knows(backoff, "20"))
        return count;
    defaults[count++] = (struct kafka_default){backoff, "20", NULL};
    defaults[count++] = (struct kafka_default){"queued.min.messages", "500", NULL};
    return count;
}

enum rc stream_conf_make(struct rd_kafka_conf_s **conf, const struct settings *settings,
                         const char *instance, struct err *err)
{
    const char *assignor = kafka_cooperative() ? "cooperative-sticky" : "range";
    struct kafka_default defaults[16] = {
        {"group.id", settings->consumer.group, "it is set by consumer.group"},
        {"client.id", instance, NULL},
        {"enable.auto.offset.store", "false",
         "offsets are stored after the database has committed"},
        {"auto.offset.reset", "error", "the database says where to go on; nothing may be skipped"},
        {"enable.partition.eof", "true", "it tells when a partition may be sought"},
        {"allow.auto.create.topics", "false", "the relay makes topics, with the right partitions"},
        {"topic.metadata.refresh.interval.ms", "5000", NULL},
    };
    struct fetch_limits limits;
    size_t count = 7;

    fetch_limits_set(&limits, settings->consumer.memory_max);
    count += queue_defaults(&limits, defaults + count);
    if (!broker_assigns(settings))
        defaults[count++] = (struct kafka_default){"partition.assignment.strategy", assignor, NULL};
    return kafka_conf_make(conf, settings, KAFKA_CONSUMER, defaults, count, err);
}
