/* SPDX-License-Identifier: MIT */
#include "consumer/stream_conf_kafka.h"

#include "common/kafka.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
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

/* What every partition holds ready for us. A record waits in a queue of its partition and costs a
 * kilobyte there whatever its size; small answers, because a record keeps the whole answer that it
 * came with in memory. Older libraries wait for a second when a queue is full: theirs is longer.
 *
 * A broker is asked once at a time, and not for partitions whose queue is full: while it waits for
 * something new in all others, a partition with a backlog gets nothing. So it waits for a short
 * time. With the library's 500 ms the last and hottest partition came in at 15 k records/s. */
static size_t queue_defaults(struct kafka_default *defaults)
{
    static const char backoff[] = "fetch.queue.backoff.ms";
    size_t count = 0;

    defaults[count++] = (struct kafka_default){"queued.max.messages.kbytes", "512", NULL};
    defaults[count++] = (struct kafka_default){"fetch.message.max.bytes", "131072", NULL};
    defaults[count++] = (struct kafka_default){"fetch.max.bytes", "1048576", NULL};
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
    size_t count = 7;

    count += queue_defaults(defaults + count);
    if (!broker_assigns(settings))
        defaults[count++] = (struct kafka_default){"partition.assignment.strategy", assignor, NULL};
    return kafka_conf_make(conf, settings, KAFKA_CONSUMER, defaults, count, err);
}
