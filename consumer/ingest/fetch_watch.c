/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/fetch_inside.h"

#include "common/log.h"
#include "consumer/consume_metrics.h"

#include <inttypes.h>

#define RECOVERED_MS 5000 /* running for so long, a partition is well again */
#define PROBE_MS 2000
#define QUIET_MS 5000 /* a broker that was not heard of for so long is asked */

/* The broker has more and hands nothing out. Before a transaction that is not ended that is so, and
 * before the marks of others, but a fetcher that hangs looks the same: seek, now and then. */
static void seek_quiet(struct fetch *fetch, struct part *part, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    int64_t position = part->position > 0 ? part->position : 0;

    if (!part_is_quiet(part, now_ms) ||
        stream->high_watermark(stream->ctx, part->handle) <= position)
        return;
    log_event(LOG_DEBUG, "partition_quiet", "topic=%s partition=%" PRId32 " offset=%" PRId64,
              part->topic, part->holding.place.partition, part->position);
    part_seek_quiet(part, now_ms);
}

void fetch_watch_parts(struct fetch *fetch, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;

    for (size_t i = 0; i < fetch->part_count; i++) {
        struct part *part = fetch->parts[i];
        char topic_id[TOPIC_ID_SIZE] = "";
        struct err err = {0};

        if (part->state != PART_RUNNING)
            continue;
        if (stream->topic_id(stream->ctx, part->topic, topic_id) == RC_OK &&
            part_check_topic(part, topic_id, &err) != RC_OK)
            fetch_stop_part(fetch, part, &err, now_ms);
        else if (part->stopped && now_ms - part->since_ms >= RECOVERED_MS)
            fetch_say_recovered(part);
        else
            seek_quiet(fetch, part, now_ms);
    }
}

void fetch_watch_topics(struct fetch *fetch, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    struct err err = {0};
    int64_t after_ms;

    if (stream->check_topics(stream->ctx, &err) == RC_REJECT) {
        if (trouble_set(&fetch->topics, now_ms, &err))
            log_error(LOG_WARN, "topic_config_unsafe", &err, "role=consume");
    } else if (trouble_clear(&fetch->topics, now_ms, &after_ms)) {
        log_event(LOG_INFO, "topic_config_safe", "role=consume after_ms=%" PRId64, after_ms);
    }
}

static int64_t part_lag(const struct fetch *fetch, const struct part *part)
{
    const struct stream *stream = fetch->config.stream;
    int64_t next = part->row.next_offset > 0 ? part->row.next_offset : 0;
    int64_t high = part->handle ? stream->high_watermark(stream->ctx, part->handle) : -1;

    return high > next ? high - next : 0;
}

void fetch_count_up(struct fetch *fetch, int64_t now_ms)
{
    int64_t wall_ms = fetch->config.wall_ms();
    int64_t oldest_ms = 0;
    int64_t after_ms;
    int64_t lag = 0;
    int64_t held = 0;
    int64_t stopped = 0;
    struct err err = {0};

    for (size_t i = 0; i < fetch->part_count; i++) {
        struct part *part = fetch->parts[i];
        int64_t behind;
        int64_t age_ms;

        if (part->state == PART_IDLE)
            continue;
        held++;
        behind = part_lag(fetch, part);
        lag += behind;
        age_ms = part_age_ms(part, behind, wall_ms, now_ms);
        if (age_ms > oldest_ms)
            oldest_ms = age_ms;
        if (part->stopped && stopped++ == 0)
            err_set(&err, "%s/%" PRId32 ": %s", part->topic, part->holding.place.partition,
                    part->reason.text);
    }
    metric_set(&consume_partitions, held);
    metric_set(&consume_stopped, stopped);
    metric_set(&consume_lag, lag);
    metric_set(&consume_oldest_age, oldest_ms);
    if (stopped > 0)
        trouble_set(&fetch->partitions, now_ms, &err);
    else
        trouble_clear(&fetch->partitions, now_ms, &after_ms);
}

/* Nobody tells when a broker is back: it must be asked. Nor is it always told that it went: one that
 * is believed well is missed when two questions in a row get no answer. */
void fetch_watch_broker(struct fetch *fetch, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    bool is_away = trouble_read(&fetch->broker, NULL);
    struct err err = {0};

    if (now_ms < fetch->probe_ms || (!is_away && now_ms - fetch->heard_ms < QUIET_MS))
        return;
    if (stream->probe(stream->ctx, &err) == RC_OK)
        fetch_broker_good(fetch, now_ms);
    else if (is_away || ++fetch->unanswered > 1)
        fetch_broker_bad(fetch, now_ms, &err);
    fetch->probe_ms = now_ms + PROBE_MS;
}
