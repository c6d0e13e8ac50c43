/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/fetch_inside.h"

#include "common/log.h"
#include "consumer/consume_metrics.h"

#include <inttypes.h>

#define FENCED_WAIT_MS 1000

void fetch_fail(struct fetch *fetch, const struct err *err)
{
    fetch->failed = true;
    fetch->err = *err;
}

void fetch_broker_good(struct fetch *fetch, int64_t now_ms)
{
    int64_t after_ms;

    fetch->heard_ms = now_ms;
    fetch->unanswered = 0;
    if (trouble_clear(&fetch->broker, now_ms, &after_ms))
        log_event(LOG_INFO, "consumer_broker_back", "role=consume after_ms=%" PRId64, after_ms);
}

void fetch_broker_bad(struct fetch *fetch, int64_t now_ms, const struct err *err)
{
    if (trouble_set(&fetch->broker, now_ms, err))
        log_error(LOG_WARN, "consumer_broker_trouble", err, "rc=retry");
}

void fetch_release_job(struct fetch *fetch, struct job *job)
{
    job->next = fetch->pool;
    fetch->pool = job;
}

void fetch_drop_filling(struct fetch *fetch, struct part *part)
{
    if (part->filling)
        fetch_release_job(fetch, part->filling);
    part->filling = NULL;
}

void fetch_stop_part(struct fetch *fetch, struct part *part, const struct err *err, int64_t now_ms)
{
    fetch_drop_filling(fetch, part);
    if (part_stop(part, err, now_ms))
        log_error(LOG_ERROR, "partition_stopped", err, "topic=%s partition=%" PRId32, part->topic,
                  part->holding.place.partition);
}

void fetch_say_recovered(struct part *part)
{
    if (part_recovered(part))
        log_event(LOG_INFO, "partition_recovered", "topic=%s partition=%" PRId32, part->topic,
                  part->holding.place.partition);
}

/* A claim that finds less applied than we know of. */
static void say_went_back(const struct part *part, const struct progress_row *found)
{
    if (part->row.epoch == 0 || found->next_offset >= part->row.next_offset)
        return;
    metric_add(&consume_went_back, 1);
    log_event(LOG_WARN, "progress_went_back",
              "topic=%s partition=%" PRId32 " was=%" PRId64 " is=%" PRId64
              " text=\"the database has lost what was applied, or somebody set the partition back; "
              "it is applied again from there\"",
              part->topic, part->holding.place.partition, part->row.next_offset,
              found->next_offset);
}

static void claim_returned(struct fetch *fetch, struct part *part, struct job *job, int64_t now_ms)
{
    struct err err = {0};

    part->claim_out = false;
    if (job->generation != atomic_load(&part->holding.generation))
        return;
    if (job->end == JOB_DONE)
        say_went_back(part, &job->progress);
    if (job->end == JOB_STOPPED)
        fetch_stop_part(fetch, part, &job->err, now_ms);
    else if (part_claimed(part, &job->progress, now_ms, &err) != RC_OK)
        fetch_stop_part(fetch, part, &err, now_ms);
}

static void batch_returned(struct fetch *fetch, struct part *part, struct job *job, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;

    part_returned(part);
    if (job->generation != atomic_load(&part->holding.generation))
        return;
    switch (job->end) {
    case JOB_DONE:
        part->row.next_offset = job->batch.next_offset;
        part->well_ms = now_ms;
        stream->store_offset(stream->ctx, part->handle, part->row.next_offset);
        fetch_say_recovered(part);
        if (job->clear && part_is_past(part)) {
            fetch_drop_filling(fetch, part);
            part_restart(part, now_ms, 0);
        }
        break;
    case JOB_AGAIN:
        log_event(LOG_WARN, "votes_refused", "topic=%s partition=%" PRId32, part->topic,
                  part->holding.place.partition);
        fetch_drop_filling(fetch, part);
        part_read_whole(part, job->batch.next_offset, now_ms);
        break;
    case JOB_FENCED:
        /* If another process really has it, the group will tell us meanwhile. */
        log_event(LOG_WARN, "partition_fenced", "topic=%s partition=%" PRId32, part->topic,
                  part->holding.place.partition);
        fetch_drop_filling(fetch, part);
        part_restart(part, now_ms,
                     FENCED_WAIT_MS + (int64_t)(fetch->config.dice() % FENCED_WAIT_MS));
        break;
    case JOB_STOPPED:
        fetch_stop_part(fetch, part, &job->err, now_ms);
        break;
    case JOB_DROPPED:
        break;
    }
}

/* What was claimed through a connection that is gone is claimed again: records that the database
 * does not know any more are found even when no new ones come. */
void fetch_watch_links(struct fetch *fetch, int64_t now_ms)
{
    for (size_t i = 0; i < fetch->config.link_count; i++) {
        const atomic_uint *reconnects = fetch->config.links[i].reconnects;
        unsigned now = reconnects ? atomic_load(reconnects) : 0;

        if (now == fetch->reconnects[i])
            continue;
        fetch->reconnects[i] = now;
        for (size_t k = 0; k < fetch->part_count; k++) {
            struct part *part = fetch->parts[k];

            if (part->link != i || (part->state != PART_RUNNING && part->state != PART_CLAIMED))
                continue;
            fetch_drop_filling(fetch, part);
            part_restart(part, now_ms, 0);
        }
    }
}

void fetch_take_back(struct fetch *fetch, int64_t now_ms)
{
    for (size_t i = 0; i < fetch->config.link_count; i++) {
        struct job *job = ring_take(fetch->config.links[i].done);

        for (; job; job = ring_take(fetch->config.links[i].done)) {
            struct part *part = part_of(job->holding);

            if (job->kind == JOB_CLAIM) {
                claim_returned(fetch, part, job, now_ms);
            } else {
                batch_returned(fetch, part, job, now_ms);
                fetch_release_job(fetch, job);
            }
        }
    }
}
