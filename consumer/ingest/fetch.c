/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/fetch.h"

#include "common/log.h"
#include "common/loop.h"
#include "consumer/consumer_metrics.h"
#include "consumer/ingest/batch.h"
#include "consumer/ingest/part.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define READ_MAX 512
#define EVENTS_MAX 64     /* in one step */
#define IDLE_WAIT_MS 200  /* every event wakes the loop */
#define FULL_WAIT_MS 2    /* until a ring has room */
#define ANSWER_WAIT_MS 20 /* until the broker has answered for a topic */
#define SEEK_RETRY_MS 50
#define SEEK_SAY_MS 10000 /* a seek that takes longer counts as a failure of the broker */
#define TICK_MS 1000
#define FENCED_WAIT_MS 1000
#define RECOVERED_MS 5000 /* after running this long a partition counts as recovered */
#define PROBE_MS 2000
#define QUIET_MS 5000 /* a silent broker is probed after this time */

/* Ends the step after this call. */
static void fail_step(struct fetch *fetch, const struct err *err)
{
    fetch->failed = true;
    fetch->err = *err;
}

static void mark_broker_good(struct fetch *fetch, int64_t now_ms)
{
    fetch->heard_ms = now_ms;
    fetch->unanswered = 0;
    condition_ok(&fetch->broker, now_ms);
}

static void mark_broker_bad(struct fetch *fetch, int64_t now_ms, const struct err *err)
{
    condition_fail(&fetch->broker, now_ms, err);
}

/* Returns an empty job. NULL: all jobs are in use (returning one wakes this loop) or memory ran
 * out. */
static struct job *take_job(struct fetch *fetch)
{
    struct job *job = fetch->pool;

    if (job) {
        fetch->pool = job->next;
        return job;
    }
    if (fetch->job_count == fetch->config.batches_max)
        return NULL;
    job = calloc(1, sizeof(*job));
    if (!job)
        return NULL;
    job->kind = JOB_APPLY;
    batch_init(&job->batch, fetch->config.batch_rows_max, fetch->config.batch_bytes_max);
    fetch->jobs[fetch->job_count++] = job;
    return job;
}

static void release_job(struct fetch *fetch, struct job *job)
{
    job->next = fetch->pool;
    fetch->pool = job;
}

static void drop_filling(struct fetch *fetch, struct part *part)
{
    if (part->filling)
        release_job(fetch, part->filling);
    part->filling = NULL;
}

static void stop_part(struct fetch *fetch, struct part *part, const struct err *err, int64_t now_ms)
{
    drop_filling(fetch, part);
    if (part_stop(part, err, now_ms))
        log_error(LOG_ERROR, "work_paused", err,
                  "what=partition role=consume topic=%s partition=%" PRId32, part->topic,
                  part->holding.place.partition);
}

static void log_recovered(struct part *part)
{
    if (part_recovered(part))
        log_event(LOG_INFO, "work_resumed",
                  "what=partition role=consume topic=%s partition=%" PRId32, part->topic,
                  part->holding.place.partition);
}

/* Reports a claim that found less progress than the last known one. */
static void log_went_back(const struct part *part, const struct progress_row *found)
{
    if (part->row.epoch == 0 || found->next_offset >= part->row.next_offset)
        return;
    metric_add(&consume_went_back, 1);
    log_event(LOG_WARN, "progress_went_back",
              "topic=%s partition=%" PRId32 " was=%" PRId64 " is=%" PRId64
              " text=\"the database lost commits, or an operator set the partition back; its "
              "records are applied again from there\"",
              part->topic, part->holding.place.partition, part->row.next_offset,
              found->next_offset);
}

static void take_back_claim(struct fetch *fetch, struct part *part, struct job *job, int64_t now_ms)
{
    struct err err = {0};

    part->claim_out = false;
    if (job->generation != atomic_load(&part->holding.generation))
        return;
    if (job->end == JOB_DONE)
        log_went_back(part, &job->progress);
    if (job->end == JOB_STOPPED)
        stop_part(fetch, part, &job->err, now_ms);
    else if (part_claimed(part, &job->progress, now_ms, &err) != RC_OK)
        stop_part(fetch, part, &err, now_ms);
}

static void take_back_batch(struct fetch *fetch, struct part *part, struct job *job, int64_t now_ms)
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
        log_recovered(part);
        if (job->clear && part_is_past(part)) {
            drop_filling(fetch, part);
            part_restart(part, now_ms, 0);
        }
        break;
    case JOB_AGAIN:
        log_event(LOG_WARN, "votes_refused", "topic=%s partition=%" PRId32, part->topic,
                  part->holding.place.partition);
        drop_filling(fetch, part);
        part_read_whole(part, job->batch.next_offset, now_ms);
        break;
    case JOB_FENCED:
        /* If another process owns the partition, the group revokes it during this wait. */
        log_event(LOG_WARN, "partition_fenced", "topic=%s partition=%" PRId32, part->topic,
                  part->holding.place.partition);
        drop_filling(fetch, part);
        part_restart(part, now_ms,
                     FENCED_WAIT_MS + (int64_t)(fetch->config.rng() % FENCED_WAIT_MS));
        break;
    case JOB_STOPPED:
        stop_part(fetch, part, &job->err, now_ms);
        break;
    case JOB_DROPPED:
        break;
    }
}

/* Takes back all jobs that the appliers have done. */
static void take_back_jobs(struct fetch *fetch, int64_t now_ms)
{
    for (size_t i = 0; i < fetch->config.link_count; i++) {
        struct job *job = ring_take(fetch->config.links[i].done);

        for (; job; job = ring_take(fetch->config.links[i].done)) {
            struct part *part = part_of(job->holding);

            if (job->kind == JOB_CLAIM) {
                take_back_claim(fetch, part, job, now_ms);
            } else {
                fetch->small_rows[i] -= job->small_rows;
                take_back_batch(fetch, part, job, now_ms);
                release_job(fetch, job);
            }
        }
    }
}

/* Claims a partition again if the connection of its claim is gone: after a fail-over the database
 * may have lost progress, and this finds it even if no new records arrive. */
static void watch_links(struct fetch *fetch, int64_t now_ms)
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
            drop_filling(fetch, part);
            part_restart(part, now_ms, 0);
        }
    }
}

static struct part *find_part(struct fetch *fetch, const struct place *place)
{
    for (size_t i = 0; i < fetch->part_count; i++)
        if (fetch->parts[i]->holding.place.partition == place->partition &&
            strcmp(fetch->parts[i]->topic, place->topic) == 0)
            return fetch->parts[i];
    return NULL;
}

static struct part *add_part(struct fetch *fetch, const struct place *place)
{
    if (fetch->part_count == fetch->part_size) {
        size_t size = fetch->part_size > 0 ? fetch->part_size * 2 : 16;
        struct part **parts = realloc(fetch->parts, size * sizeof(struct part *));

        if (!parts)
            return NULL;
        fetch->parts = parts;
        fetch->part_size = size;
    }
    fetch->parts[fetch->part_count] =
        part_make(place, fetch->part_count % fetch->config.link_count);
    return fetch->parts[fetch->part_count] ? fetch->parts[fetch->part_count++] : NULL;
}

static void assign_places(struct fetch *fetch, const struct stream_event *event, int64_t now_ms)
{
    log_event(LOG_INFO, "partitions_assigned", "count=%zu", event->count);
    metric_add(&consume_assigned, 1);
    mark_broker_good(fetch, now_ms);
    if (event->count > 0)
        condition_ok(&fetch->access, now_ms);
    for (size_t i = 0; i < event->count; i++) {
        struct part *part = find_part(fetch, &event->places[i].place);
        struct err err = {0};

        if (!part)
            part = add_part(fetch, &event->places[i].place);
        if (!part) {
            err_set(&err, "no memory for one more partition");
            fail_step(fetch, &err);
            return;
        }
        drop_filling(fetch, part);
        part_assign(part, event->places[i].handle, now_ms);
    }
    for (size_t i = 0; i < fetch->part_count; i++)
        part_forget_pause(fetch->parts[i]);
}

/* Revokes the partitions without waiting for their batches, which the applier commits or the fence
 * rejects. */
static void revoke_places(struct fetch *fetch, const struct stream_event *event, int64_t now_ms)
{
    log_event(event->lost ? LOG_WARN : LOG_INFO,
              event->lost ? "partitions_lost" : "partitions_revoked", "count=%zu", event->count);
    metric_add(event->lost ? &consume_lost : &consume_revoked, 1);
    for (size_t i = 0; i < event->count; i++) {
        struct part *part = find_part(fetch, &event->places[i].place);

        if (!part)
            continue;
        drop_filling(fetch, part);
        part_revoke(part, now_ms);
    }
}

static void handle_failure(struct fetch *fetch, const struct stream_event *event, int64_t now_ms)
{
    if (event->denied) {
        condition_fail(&fetch->access, now_ms, &event->err);
        return;
    }
    switch (event->rc) {
    case RC_OK:
        break;
    case RC_RETRY:
        mark_broker_bad(fetch, now_ms, &event->err);
        break;
    case RC_REJECT:
        /* The relay creates the topics. Before its first event a missing topic is not a failure of
         * the consumer. */
        log_error(LOG_WARN, "topic_missing", &event->err, "role=consume");
        break;
    case RC_FATAL:
        fail_step(fetch, &event->err);
        break;
    }
}

static void follow_group(struct fetch *fetch, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    struct stream_event event;

    for (int i = 0; i < EVENTS_MAX && !fetch->failed; i++) {
        stream->poll(stream->ctx, &event);
        switch (event.kind) {
        case STREAM_NOTHING:
            return;
        case STREAM_ASSIGNED:
            assign_places(fetch, &event, now_ms);
            break;
        case STREAM_REVOKED:
            revoke_places(fetch, &event, now_ms);
            break;
        case STREAM_FAILURE:
            handle_failure(fetch, &event, now_ms);
            break;
        }
    }
}

/* No event tells when a broker is back, so it is probed. A failure is not always reported either: a
 * broker that was reachable counts as failed after two probes without an answer. */
static void watch_broker(struct fetch *fetch, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    bool is_away = condition_read(&fetch->broker, NULL);
    struct err err = {0};

    if (now_ms < fetch->probe_ms || (!is_away && now_ms - fetch->heard_ms < QUIET_MS))
        return;
    if (stream->probe(stream->ctx, &err) == RC_OK)
        mark_broker_good(fetch, now_ms);
    else if (is_away || ++fetch->unanswered > 1)
        mark_broker_bad(fetch, now_ms, &err);
    fetch->probe_ms = now_ms + PROBE_MS;
}

static int64_t step_claim(struct fetch *fetch, struct part *part, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    const struct fetch_link *link = &fetch->config.links[part->link];

    if (now_ms < part->retry_ms)
        return part->retry_ms - now_ms;
    if (part->claim_out)
        return IDLE_WAIT_MS;
    if (stream->topic_id(stream->ctx, part->topic, part->topic_id) != RC_OK)
        return ANSWER_WAIT_MS;
    part->claim.generation = atomic_load(&part->holding.generation);
    part->claim.progress = (struct progress_row){0};
    memcpy(part->claim.progress.topic_id, part->topic_id, sizeof(part->topic_id));
    if (!ring_give(link->given, &part->claim))
        return FULL_WAIT_MS;
    part->claim_out = true;
    part_enter(part, PART_CLAIMING, now_ms);
    link->wake(link->wake_ctx);
    return IDLE_WAIT_MS;
}

static void begin_reading(struct part *part, int64_t now_ms)
{
    int64_t pause_ms = part_end_pause(part, now_ms);

    part_enter(part, PART_RUNNING, now_ms);
    if (pause_ms >= 0)
        metric_observe_us(&consume_rebalance_pause, pause_ms * 1000);
}

static int64_t step_seek(struct fetch *fetch, struct part *part, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    struct err err = {0};

    if (now_ms < part->retry_ms)
        return part->retry_ms - now_ms;
    switch (stream->seek(stream->ctx, part->handle, part->position, part->last_epoch, &err)) {
    case RC_OK:
        begin_reading(part, now_ms);
        return 0;
    case RC_RETRY:
        part->retry_ms = now_ms + SEEK_RETRY_MS;
        if (now_ms - part->since_ms > SEEK_SAY_MS)
            mark_broker_bad(fetch, now_ms, &err);
        return SEEK_RETRY_MS;
    case RC_REJECT:
        stop_part(fetch, part, &err, now_ms);
        return IDLE_WAIT_MS;
    case RC_FATAL:
        break;
    }
    fail_step(fetch, &err);
    return 0;
}

static enum rc take_record(struct fetch *fetch, struct part *part, struct record *record,
                           int64_t now_ms, struct err *err)
{
    const struct stream *stream = fetch->config.stream;
    enum rc rc;

    if (part->state != PART_RUNNING || record->offset < part->position ||
        !part_arrive(part, record->offset, now_ms))
        return RC_OK;
    rc = part_check_epoch(part, record->leader_epoch, err);
    if (rc != RC_OK)
        return rc;
    if (record->time_ms < 0 && batch_count(&part->filling->batch) == 0)
        record->time_ms = fetch->config.wall_ms();
    rc = batch_add(&part->filling->batch, record, stream->headers, stream->ctx, err);
    if (rc != RC_OK)
        return rc;
    part->position = record->offset + 1;
    if (record->leader_epoch >= 0)
        part->last_epoch = record->leader_epoch;
    return RC_OK;
}

static bool begin_filling(struct fetch *fetch, struct part *part)
{
    if (part->filling)
        return true;
    part->filling = take_job(fetch);
    if (!part->filling)
        return false;
    batch_reset(&part->filling->batch, part->position, part->last_epoch);
    part->filling->batch.begin_day = part->row.begin_day;
    part->filling->batch.whole = part->whole;
    return true;
}

/* Moves the position over offsets without records at the end of the partition, so that they do not
 * count as lag. The database stores that position, too, for tools that compare it with the broker's
 * offsets. */
static void pass_to_end(struct fetch *fetch, struct part *part)
{
    const struct stream *stream = fetch->config.stream;

    if (part->state == PART_RUNNING && part_reach_end(part, stream->end(stream->ctx, part->handle)))
        batch_pass(&part->filling->batch, part->position);
}

/* Reads once. *more: the read returned as many records as were requested. */
static enum rc read_records(struct fetch *fetch, struct part *part, bool *more, int64_t now_ms,
                            struct err *err)
{
    const struct stream *stream = fetch->config.stream;
    size_t room = batch_room(&part->filling->batch);
    bool empty = !batch_moves(&part->filling->batch);
    size_t wanted = room < READ_MAX ? room : READ_MAX;
    size_t count = 0;
    enum rc taken = RC_OK;
    enum rc rc;

    if (wanted == 0)
        return RC_OK;
    rc = stream->read(stream->ctx, part->handle, fetch->records, wanted, &count, err);
    for (size_t i = 0; taken == RC_OK && i < count; i++)
        taken = take_record(fetch, part, &fetch->records[i], now_ms, err);
    *more = count == wanted;
    part_hear(part, count > 0, now_ms);
    if (count > 0)
        mark_broker_good(fetch, now_ms);
    if (taken == RC_OK && rc == RC_OK)
        pass_to_end(fetch, part);
    if (empty && batch_moves(&part->filling->batch))
        part->filling_ms = now_ms;
    return taken != RC_OK ? taken : rc;
}

/* Gives the filled batch to the applier, which the caller wakes. Returns false if the ring is
 * full. */
static bool give_batch(struct fetch *fetch, struct part *part)
{
    struct job *job = part->filling;

    job->holding = &part->holding;
    job->generation = atomic_load(&part->holding.generation);
    job->progress = part->row;
    job->small_rows = batch_room(&job->batch) > 0 ? batch_count(&job->batch) : 0;
    if (!ring_give(fetch->config.links[part->link].given, job))
        return false;
    fetch->small_rows[part->link] += job->small_rows;
    part_sent(part, job->batch.oldest_ms);
    part->filling = NULL;
    return true;
}

static int64_t send_full_batch(struct fetch *fetch, struct part *part)
{
    const struct fetch_link *link = &fetch->config.links[part->link];

    if (!batch_moves(&part->filling->batch)) {
        drop_filling(fetch, part);
        return IDLE_WAIT_MS;
    }
    if (batch_room(&part->filling->batch) > 0 || part->sent == PART_SENT_MAX)
        return IDLE_WAIT_MS;
    if (!give_batch(fetch, part))
        return FULL_WAIT_MS;
    link->wake(link->wake_ctx);
    return 0;
}

/* Whether it has a batch that is not full and may be sent: the applier has none of it. */
static bool has_small_batch(const struct part *part, size_t link)
{
    return part->link == link && part->state == PART_RUNNING && part->filling && part->sent == 0 &&
           batch_moves(&part->filling->batch) && batch_room(&part->filling->batch) > 0;
}

/* Sends the batches that are not full and whose wait is over, and those of the other partitions
 * with them. The applier is woken when all are there: woken by the first one, it would commit that
 * alone, and the others in another transaction. While it has small batches, further ones that fit
 * into one transaction with them wait for their end, or half of the partitions would always wait
 * for a transaction of the other half. Larger ones would not share a transaction anyway. */
static int64_t send_small_batches(struct fetch *fetch, size_t index, int64_t now_ms)
{
    const struct fetch_link *link = &fetch->config.links[index];
    size_t pending = fetch->small_rows[index];
    size_t rows = 0;
    bool gave = false;
    int64_t due_ms = INT64_MAX;

    for (size_t i = 0; i < fetch->part_count; i++) {
        const struct part *part = fetch->parts[i];

        if (!has_small_batch(part, index))
            continue;
        rows += batch_count(&part->filling->batch);
        if (part->filling_ms + fetch->config.batch_wait_ms < due_ms)
            due_ms = part->filling_ms + fetch->config.batch_wait_ms;
    }
    if (due_ms == INT64_MAX || (pending > 0 && pending + rows <= fetch->config.batch_rows_max))
        return IDLE_WAIT_MS;
    if (now_ms < due_ms)
        return due_ms - now_ms;
    for (size_t i = 0; i < fetch->part_count; i++) {
        struct part *part = fetch->parts[(fetch->first_part + i) % fetch->part_count];

        if (!has_small_batch(part, index))
            continue;
        if (!give_batch(fetch, part))
            break;
        gave = true;
    }
    if (gave)
        link->wake(link->wake_ctx);
    return gave ? 0 : FULL_WAIT_MS;
}

static int64_t step_run(struct fetch *fetch, struct part *part, int64_t now_ms)
{
    struct err err = {0};
    bool more = false;
    int64_t wait_ms;

    if (!begin_filling(fetch, part)) {
        fetch->starved = true;
        return IDLE_WAIT_MS;
    }
    switch (read_records(fetch, part, &more, now_ms, &err)) {
    case RC_OK:
        break;
    case RC_RETRY:
        mark_broker_bad(fetch, now_ms, &err);
        break;
    case RC_REJECT:
        stop_part(fetch, part, &err, now_ms);
        return IDLE_WAIT_MS;
    case RC_FATAL:
        fail_step(fetch, &err);
        return 0;
    }
    wait_ms = send_full_batch(fetch, part);
    return more ? 0 : wait_ms;
}

static int64_t step_part(struct fetch *fetch, struct part *part, int64_t now_ms)
{
    switch (part->state) {
    case PART_WAITING:
        return step_claim(fetch, part, now_ms);
    case PART_CLAIMED:
        return step_seek(fetch, part, now_ms);
    case PART_RUNNING:
        return step_run(fetch, part, now_ms);
    case PART_IDLE:
    case PART_CLAIMING:
        break;
    }
    return IDLE_WAIT_MS;
}

/* Steps each partition, then sends the small batches of all. The first one that got no batch is the
 * first next time, so that no partition starves if there are more partitions than batches. */
static int64_t step_parts(struct fetch *fetch, int64_t now_ms)
{
    int64_t wait_ms = IDLE_WAIT_MS;
    size_t first = fetch->first_part;
    bool starved = false;

    for (size_t i = 0; i < fetch->part_count && !fetch->failed; i++) {
        size_t index = (first + i) % fetch->part_count;
        int64_t part_wait_ms;

        fetch->starved = false;
        part_wait_ms = step_part(fetch, fetch->parts[index], now_ms);
        if (part_wait_ms < wait_ms)
            wait_ms = part_wait_ms;
        if (fetch->starved && !starved) {
            starved = true;
            fetch->first_part = index;
        }
    }
    if (!starved)
        fetch->first_part = first + 1;
    for (size_t i = 0; i < fetch->config.link_count && !fetch->failed; i++) {
        int64_t link_wait_ms = send_small_batches(fetch, i, now_ms);

        if (link_wait_ms < wait_ms)
            wait_ms = link_wait_ms;
    }
    return wait_ms;
}

/* The broker has more records than reads return. That is normal before the end of a transaction and
 * before transaction markers, but a fetcher that hangs looks the same, so seek from time to
 * time. */
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

/* Stops partitions whose topic was created again, and finds partitions that recovered or are
 * quiet. */
static void watch_parts(struct fetch *fetch, int64_t now_ms)
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
            stop_part(fetch, part, &err, now_ms);
        else if (part->stopped && now_ms - part->since_ms >= RECOVERED_MS)
            log_recovered(part);
        else
            seek_quiet(fetch, part, now_ms);
    }
}

/* Warns while a topic's configuration lets Kafka remove records before they are read. */
static void watch_topics(struct fetch *fetch, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    struct err err = {0};

    if (stream->check_topics(stream->ctx, &err) == RC_REJECT)
        condition_fail(&fetch->topics, now_ms, &err);
    else
        condition_ok(&fetch->topics, now_ms);
}

static void watch_group(struct fetch *fetch, int64_t now_ms)
{
    const struct stream *stream = fetch->config.stream;
    struct err err = {0};

    if (stream->check_group && stream->check_group(stream->ctx, &err) == RC_REJECT)
        condition_fail(&fetch->group, now_ms, &err);
    else
        condition_ok(&fetch->group, now_ms);
}

static int64_t compute_lag(const struct fetch *fetch, const struct part *part)
{
    const struct stream *stream = fetch->config.stream;
    int64_t next = part->row.next_offset > 0 ? part->row.next_offset : 0;
    int64_t high = part->handle ? stream->high_watermark(stream->ctx, part->handle) : -1;

    return high > next ? high - next : 0;
}

/* Sets the gauges, and fetch->partitions. */
static void count_parts(struct fetch *fetch, int64_t now_ms)
{
    int64_t wall_ms = fetch->config.wall_ms();
    int64_t oldest_ms = 0;
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
        behind = compute_lag(fetch, part);
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
        condition_fail(&fetch->partitions, now_ms, &err);
    else
        condition_ok(&fetch->partitions, now_ms);
}

static void conditions_init(struct fetch *fetch)
{
    condition_init(&fetch->broker, CONDITION_DEPENDENCY, "dep=kafka role=consume reason=no_answer");
    condition_assume_failing(&fetch->broker, "no broker has answered yet");
    condition_init(&fetch->partitions, CONDITION_REMINDER, "what=partition role=consume");
    condition_init(&fetch->group, CONDITION_WORK, "what=consumer_group role=consume");
    condition_init(&fetch->access, CONDITION_DEPENDENCY,
                   "dep=kafka role=consume reason=access_denied");
    condition_init(&fetch->topics, CONDITION_CHECK, "check=topic_config role=consume");
}

enum rc fetch_init(struct fetch *fetch, const struct fetch_config *config, struct err *err)
{
    memset(fetch, 0, sizeof(*fetch));
    fetch->config = *config;
    conditions_init(fetch);
    fetch->records = calloc(READ_MAX, sizeof(*fetch->records));
    fetch->jobs = calloc(config->batches_max, sizeof(struct job *));
    fetch->reconnects = calloc(config->link_count, sizeof(*fetch->reconnects));
    fetch->small_rows = calloc(config->link_count, sizeof(*fetch->small_rows));
    if (fetch->records && fetch->jobs && fetch->reconnects && fetch->small_rows)
        return RC_OK;
    fetch_done(fetch);
    return err_fail(err, RC_FATAL, 0, "no memory to fetch records");
}

void fetch_done(struct fetch *fetch)
{
    for (size_t i = 0; fetch->jobs && i < fetch->job_count; i++) {
        batch_done(&fetch->jobs[i]->batch);
        free(fetch->jobs[i]);
    }
    for (size_t i = 0; i < fetch->part_count; i++)
        part_free(fetch->parts[i]);
    free(fetch->jobs);
    free(fetch->parts);
    free(fetch->records);
    free(fetch->reconnects);
    free(fetch->small_rows);
    condition_done(&fetch->broker);
    condition_done(&fetch->partitions);
    condition_done(&fetch->group);
    condition_done(&fetch->access);
    condition_done(&fetch->topics);
    memset(fetch, 0, sizeof(*fetch));
}

int64_t fetch_step(void *ctx, int64_t now_ms)
{
    struct fetch *fetch = ctx;
    int64_t wait_ms;

    take_back_jobs(fetch, now_ms);
    watch_links(fetch, now_ms);
    follow_group(fetch, now_ms);
    watch_broker(fetch, now_ms);
    wait_ms = step_parts(fetch, now_ms);
    if (now_ms >= fetch->tick_ms) {
        watch_parts(fetch, now_ms);
        watch_topics(fetch, now_ms);
        watch_group(fetch, now_ms);
        count_parts(fetch, now_ms);
        fetch->tick_ms = now_ms + TICK_MS;
    }
    if (!fetch->failed)
        return wait_ms;
    log_error(LOG_ERROR, "role_failed", &fetch->err, "role=consume");
    return LOOP_END;
}

void fetch_finish(struct fetch *fetch, int64_t now_ms)
{
    take_back_jobs(fetch, now_ms);
}
