/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_stream.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

void fake_topic_init(struct fake_topic *topic)
{
    memset(topic, 0, sizeof(*topic));
    snprintf(topic->id, sizeof(topic->id), "first");
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        topic->partitions[i].owner = TOPIC_NOBODY;
}

int32_t topic_partition_of(int content)
{
    return content % TOPIC_PARTITIONS;
}

static struct topic_record *append(struct fake_topic *topic, int32_t partition)
{
    struct topic_partition *to = &topic->partitions[partition];

    assert_true(to->end < TOPIC_RECORDS_MAX);
    return &to->records[to->end++];
}

void topic_put(struct fake_topic *topic, int32_t partition, const char *key, const char *value)
{
    struct topic_record *record = append(topic, partition);

    snprintf(record->key, sizeof(record->key), "%s", key);
    snprintf(record->value, sizeof(record->value), "%s", value);
}

void topic_put_hole(struct fake_topic *topic, int32_t partition)
{
    append(topic, partition)->hole = true;
}

void topic_put_vote(struct fake_topic *topic, int event, int content, int voting)
{
    char value[256];
    char key[24];

    snprintf(key, sizeof(key), "%d", content);
    snprintf(value, sizeof(value),
             "{\"eventId\":\"00000000-0000-7000-8000-%012d\",\"voterId\":1,\"contentId\":%d,"
             "\"voting\":%d,\"occurredAt\":1790000000000}",
             event, content, voting);
    topic_put(topic, topic_partition_of(content), key, value);
}

static void place_add(struct fake_stream *fake, struct stream_event *event, struct topic_hold *hold)
{
    fake->places[event->count++] = (struct stream_place){{TOPIC_NAME, hold->number}, hold};
    event->places = fake->places;
}

/* Reports changes of the assignment, revoked partitions first. */
static void fake_poll(void *ctx, struct stream_event *event)
{
    struct fake_stream *fake = ctx;

    *event = (struct stream_event){.kind = STREAM_NOTHING};
    if (fake->deaf)
        return;
    if (fake->denied) {
        fake->denied = false;
        event->kind = STREAM_FAILURE;
        event->denied = true;
        event->rc = err_fail(&event->err, RC_REJECT, 29, "no right");
        return;
    }
    for (int i = 0; i < TOPIC_PARTITIONS; i++) {
        struct topic_hold *hold = &fake->holds[i];

        if (!hold->held || fake->topic->partitions[i].owner == fake->member)
            continue;
        hold->held = false;
        event->kind = STREAM_REVOKED;
        event->lost = fake->topic->partitions[i].owner != TOPIC_NOBODY;
        place_add(fake, event, hold);
    }
    if (event->kind != STREAM_NOTHING)
        return;
    for (int i = 0; i < TOPIC_PARTITIONS; i++) {
        struct topic_hold *hold = &fake->holds[i];

        if (hold->held || fake->topic->partitions[i].owner != fake->member)
            continue;
        *hold = (struct topic_hold){.number = i, .held = true};
        event->kind = STREAM_ASSIGNED;
        place_add(fake, event, hold);
    }
}

static enum rc fake_seek(void *ctx, void *handle, int64_t offset, int32_t leader_epoch,
                         struct err *err)
{
    struct fake_stream *fake = ctx;
    struct topic_hold *hold = handle;
    const struct topic_partition *from = &fake->topic->partitions[hold->number];

    (void)leader_epoch;
    assert_true(hold->held);
    if (fake->seeks_refused > 0) {
        fake->seeks_refused--;
        return err_fail(err, RC_RETRY, 0, "not yet");
    }
    hold->gone = false;
    hold->end = -1;
    if (fake->seeks_lost > 0) {
        fake->seeks_lost--;
        hold->position = fake->seek_lost_ends ? from->end : from->begin;
        return RC_OK;
    }
    hold->position = offset == OFFSET_BEGINNING ? from->begin : offset;
    return RC_OK;
}

static enum rc fake_read(void *ctx, void *handle, struct record *records, size_t records_max,
                         size_t *count, struct err *err)
{
    struct fake_stream *fake = ctx;
    struct topic_hold *hold = handle;
    struct topic_partition *from = &fake->topic->partitions[hold->number];

    *count = 0;
    assert_true(hold->held);
    if (fake->failed)
        return err_fail(err, RC_FATAL, 0, "the stream is finished");
    if (fake->away)
        return RC_OK;
    if (hold->position < from->begin || hold->position > from->end)
        return err_fail(err, RC_REJECT, 0, "offset %d is not there", (int)hold->position);
    for (; *count < records_max && hold->position < from->end; hold->position++) {
        const struct topic_record *record = &from->records[hold->position];

        if (record->hole)
            continue;
        records[(*count)++] = (struct record){
            .offset = hold->position,
            .time_ms = 1000 + hold->position,
            .leader_epoch = record->leader_epoch,
            .key = record->key,
            .key_len = strlen(record->key),
            .value = record->value,
            .value_len = strlen(record->value),
        };
    }
    hold->end = hold->position == from->end ? from->end : -1;
    return RC_OK;
}

static void fake_headers(void *ctx, const struct record *record, struct buf *out)
{
    (void)ctx;
    (void)record;
    buf_text_put(out, "[]");
}

static void fake_store_offset(void *ctx, void *handle, int64_t next_offset)
{
    struct fake_stream *fake = ctx;
    const struct topic_hold *hold = handle;

    fake->stored[hold->number] = next_offset;
}

static int64_t fake_high_watermark(void *ctx, void *handle)
{
    struct fake_stream *fake = ctx;
    const struct topic_hold *hold = handle;

    return fake->topic->partitions[hold->number].end;
}

static int64_t fake_end(void *ctx, void *handle)
{
    const struct topic_hold *hold = handle;

    (void)ctx;
    return hold->end;
}

static enum rc fake_topic_id(void *ctx, const char *topic, char id[TOPIC_ID_SIZE])
{
    struct fake_stream *fake = ctx;

    assert_string_equal(topic, TOPIC_NAME);
    memcpy(id, fake->topic->id, TOPIC_ID_SIZE);
    return fake->id_unknown ? RC_RETRY : RC_OK;
}

static enum rc fake_check_topics(void *ctx, struct err *err)
{
    struct fake_stream *fake = ctx;

    return fake->compacted ? err_fail(err, RC_REJECT, 0, "the topic is compacted") : RC_OK;
}

static enum rc fake_probe(void *ctx, struct err *err)
{
    struct fake_stream *fake = ctx;

    fake->probes++;
    return fake->away ? err_fail(err, RC_RETRY, 0, "no broker answers") : RC_OK;
}

void fake_stream_init(struct fake_stream *fake, struct fake_topic *topic, int member)
{
    memset(fake, 0, sizeof(*fake));
    fake->topic = topic;
    fake->member = member;
    fake->ops = (struct stream){
        .ctx = fake,
        .poll = fake_poll,
        .seek = fake_seek,
        .read = fake_read,
        .headers = fake_headers,
        .store_offset = fake_store_offset,
        .high_watermark = fake_high_watermark,
        .end = fake_end,
        .topic_id = fake_topic_id,
        .check_topics = fake_check_topics,
        .probe = fake_probe,
    };
}

void fake_stream_leave(struct fake_stream *fake)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        if (fake->topic->partitions[i].owner == fake->member)
            fake->topic->partitions[i].owner = TOPIC_NOBODY;
}
