/* SPDX-License-Identifier: MIT */
#include "tests/flow/consume_stream.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

void topic_world_init(struct topic_world *world)
{
    memset(world, 0, sizeof(*world));
    snprintf(world->id, sizeof(world->id), "first");
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        world->partitions[i].owner = TOPIC_NOBODY;
}

int32_t topic_partition_of(int content)
{
    return content % TOPIC_PARTITIONS;
}

static struct topic_record *append(struct topic_world *world, int32_t partition)
{
    struct topic_partition *to = &world->partitions[partition];

    assert_true(to->end < TOPIC_RECORDS_MAX);
    return &to->records[to->end++];
}

void topic_put(struct topic_world *world, int32_t partition, const char *key, const char *value)
{
    struct topic_record *record = append(world, partition);

    snprintf(record->key, sizeof(record->key), "%s", key);
    snprintf(record->value, sizeof(record->value), "%s", value);
}

void topic_put_hole(struct topic_world *world, int32_t partition)
{
    append(world, partition)->hole = true;
}

void topic_put_vote(struct topic_world *world, int event, int content, int voting)
{
    char value[256];
    char key[24];

    snprintf(key, sizeof(key), "%d", content);
    snprintf(value, sizeof(value),
             "{\"eventId\":\"00000000-0000-7000-8000-%012d\",\"voterId\":1,\"contentId\":%d,"
             "\"voting\":%d,\"occurredAt\":1790000000000}",
             event, content, voting);
    topic_put(world, topic_partition_of(content), key, value);
}

static void place_add(struct stream_model *model, struct stream_event *event,
                      struct topic_hold *hold)
{
    model->places[event->count++] = (struct stream_place){{TOPIC_NAME, hold->number}, hold};
    event->places = model->places;
}

/* News of either kind: what went away first. */
static void model_poll(void *ctx, struct stream_event *event)
{
    struct stream_model *model = ctx;

    *event = (struct stream_event){.kind = STREAM_NOTHING};
    if (model->deaf)
        return;
    if (model->denied) {
        model->denied = false;
        event->kind = STREAM_TROUBLE;
        event->denied = true;
        event->rc = err_fail(&event->err, RC_REJECT, 29, "no right");
        return;
    }
    for (int i = 0; i < TOPIC_PARTITIONS; i++) {
        struct topic_hold *hold = &model->holds[i];

        if (!hold->held || model->world->partitions[i].owner == model->member)
            continue;
        hold->held = false;
        event->kind = STREAM_REVOKED;
        event->lost = model->world->partitions[i].owner != TOPIC_NOBODY;
        place_add(model, event, hold);
    }
    if (event->kind != STREAM_NOTHING)
        return;
    for (int i = 0; i < TOPIC_PARTITIONS; i++) {
        struct topic_hold *hold = &model->holds[i];

        if (hold->held || model->world->partitions[i].owner != model->member)
            continue;
        *hold = (struct topic_hold){.number = i, .held = true};
        event->kind = STREAM_ASSIGNED;
        place_add(model, event, hold);
    }
}

static enum rc model_seek(void *ctx, void *handle, int64_t offset, int32_t leader_epoch,
                          struct err *err)
{
    struct stream_model *model = ctx;
    struct topic_hold *hold = handle;
    const struct topic_partition *from = &model->world->partitions[hold->number];

    (void)leader_epoch;
    assert_true(hold->held);
    if (model->seeks_refused > 0) {
        model->seeks_refused--;
        return err_fail(err, RC_RETRY, 0, "not yet");
    }
    hold->gone = false;
    hold->end = -1;
    if (model->seeks_lost > 0) {
        model->seeks_lost--;
        hold->position = model->seek_lost_ends ? from->end : from->begin;
        return RC_OK;
    }
    hold->position = offset == OFFSET_BEGINNING ? from->begin : offset;
    return RC_OK;
}

static enum rc model_read(void *ctx, void *handle, struct record *records, size_t records_max,
                          size_t *count, struct err *err)
{
    struct stream_model *model = ctx;
    struct topic_hold *hold = handle;
    struct topic_partition *from = &model->world->partitions[hold->number];

    *count = 0;
    assert_true(hold->held);
    if (model->failed)
        return err_fail(err, RC_FATAL, 0, "the stream is finished");
    if (model->away)
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

static void model_headers(void *ctx, const struct record *record, struct buf *out)
{
    (void)ctx;
    (void)record;
    buf_text_put(out, "[]");
}

static void model_store_offset(void *ctx, void *handle, int64_t next_offset)
{
    struct stream_model *model = ctx;
    const struct topic_hold *hold = handle;

    model->stored[hold->number] = next_offset;
}

static int64_t model_high_watermark(void *ctx, void *handle)
{
    struct stream_model *model = ctx;
    const struct topic_hold *hold = handle;

    return model->world->partitions[hold->number].end;
}

static int64_t model_end(void *ctx, void *handle)
{
    const struct topic_hold *hold = handle;

    (void)ctx;
    return hold->end;
}

static enum rc model_topic_id(void *ctx, const char *topic, char id[TOPIC_ID_SIZE])
{
    struct stream_model *model = ctx;

    assert_string_equal(topic, TOPIC_NAME);
    memcpy(id, model->world->id, TOPIC_ID_SIZE);
    return model->id_unknown ? RC_RETRY : RC_OK;
}

static enum rc model_check_topics(void *ctx, struct err *err)
{
    struct stream_model *model = ctx;

    return model->compacted ? err_fail(err, RC_REJECT, 0, "the topic is compacted") : RC_OK;
}

static enum rc model_probe(void *ctx, struct err *err)
{
    struct stream_model *model = ctx;

    model->probes++;
    return model->away ? err_fail(err, RC_RETRY, 0, "nobody answers") : RC_OK;
}

void stream_model_init(struct stream_model *model, struct topic_world *world, int member)
{
    memset(model, 0, sizeof(*model));
    model->world = world;
    model->member = member;
    model->ops = (struct stream){
        .ctx = model,
        .poll = model_poll,
        .seek = model_seek,
        .read = model_read,
        .headers = model_headers,
        .store_offset = model_store_offset,
        .high_watermark = model_high_watermark,
        .end = model_end,
        .topic_id = model_topic_id,
        .check_topics = model_check_topics,
        .probe = model_probe,
    };
}

void stream_model_leave(struct stream_model *model)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        if (model->world->partitions[i].owner == model->member)
            model->world->partitions[i].owner = TOPIC_NOBODY;
}
