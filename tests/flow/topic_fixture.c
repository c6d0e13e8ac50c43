/* SPDX-License-Identifier: MIT */
#include "tests/flow/topic_fixture.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

void topic_init(struct topic *topic)
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

static struct topic_record *append(struct topic *topic, int32_t partition)
{
    struct topic_partition *to = &topic->partitions[partition];

    assert_true(to->end < TOPIC_RECORDS_MAX);
    return &to->records[to->end++];
}

void topic_put(struct topic *topic, int32_t partition, const char *key, const char *value)
{
    struct topic_record *record = append(topic, partition);

    snprintf(record->key, sizeof(record->key), "%s", key);
    snprintf(record->value, sizeof(record->value), "%s", value);
}

void topic_put_hole(struct topic *topic, int32_t partition)
{
    append(topic, partition)->hole = true;
}

void topic_put_vote(struct topic *topic, int event, int content, int voting)
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

/* Hooks of a member */

static bool hear(void *ctx, struct stream_event *event)
{
    struct topic_member *member = ctx;

    if (member->deaf || !member->denied)
        return !member->deaf;
    member->denied = false;
    event->kind = STREAM_FAILURE;
    event->denied = true;
    event->rc = err_fail(&event->err, RC_REJECT, 29, "no right");
    return false;
}

static int64_t assignment(void *ctx, int32_t number, bool *owned)
{
    const struct topic_member *member = ctx;
    int owner = member->topic->partitions[number].owner;

    *owned = owner != TOPIC_NOBODY;
    return owner == member->number ? 0 : -1;
}

static enum rc seek(void *ctx, int32_t number, int64_t *position, struct err *err)
{
    struct topic_member *member = ctx;
    const struct topic_partition *from = &member->topic->partitions[number];

    if (member->seeks_refused > 0) {
        member->seeks_refused--;
        return err_fail(err, RC_RETRY, 0, "not yet");
    }
    if (member->seeks_lost > 0) {
        member->seeks_lost--;
        *position = member->seek_lost_ends ? from->end : from->begin;
    }
    return RC_OK;
}

static enum rc fetch_records(void *ctx, int32_t number, bool *answers, struct err *err)
{
    const struct topic_member *member = ctx;

    (void)number;
    *answers = !member->away;
    return member->failed ? err_fail(err, RC_FATAL, 0, "the stream is finished") : RC_OK;
}

static int64_t read_begin(void *ctx, int32_t number)
{
    const struct topic_member *member = ctx;

    return member->topic->partitions[number].begin;
}

static int64_t read_end(void *ctx, int32_t number)
{
    const struct topic_member *member = ctx;

    return member->topic->partitions[number].end;
}

static bool show(void *ctx, int32_t number, int64_t offset, size_t n, struct record *out)
{
    const struct topic_member *member = ctx;
    const struct topic_record *record = &member->topic->partitions[number].records[offset];

    (void)n;
    *out = (struct record){
        .time_ms = 1000 + offset,
        .leader_epoch = record->leader_epoch,
        .key = record->key,
        .key_len = strlen(record->key),
        .value = record->value,
        .value_len = strlen(record->value),
    };
    return !record->hole;
}

static struct topic_member *member_of(void *ctx)
{
    return ((struct fake_stream *)ctx)->ctx;
}

static void store_offset(void *ctx, void *handle, int64_t next_offset)
{
    const struct fake_hold *hold = handle;

    member_of(ctx)->stored[hold->number] = next_offset;
}

static enum rc read_topic_id(void *ctx, const char *topic, char id[TOPIC_ID_SIZE])
{
    const struct topic_member *member = member_of(ctx);

    assert_string_equal(topic, TOPIC_NAME);
    memcpy(id, member->topic->id, TOPIC_ID_SIZE);
    return member->id_unknown ? RC_RETRY : RC_OK;
}

static enum rc check_topics(void *ctx, struct err *err)
{
    return member_of(ctx)->compacted ? err_fail(err, RC_REJECT, 0, "the topic is compacted")
                                     : RC_OK;
}

static enum rc probe(void *ctx, struct err *err)
{
    struct topic_member *member = member_of(ctx);

    member->probes++;
    return member->away ? err_fail(err, RC_RETRY, 0, "no broker answers") : RC_OK;
}

void topic_member_init(struct topic_member *member, struct topic *topic, int number)
{
    static const int32_t partitions = TOPIC_PARTITIONS;

    *member = (struct topic_member){.topic = topic, .number = number};
    member->fake = (struct fake_stream){
        .topic = TOPIC_NAME,
        .partition_count = &partitions,
        .ctx = member,
        .hear = hear,
        .assignment = assignment,
        .seek = seek,
        .fetch = fetch_records,
        .begin = read_begin,
        .end = read_end,
        .show = show,
    };
    member->ops = fake_stream_ops(&member->fake);
    member->ops.store_offset = store_offset;
    member->ops.topic_id = read_topic_id;
    member->ops.check_topics = check_topics;
    member->ops.probe = probe;
}

void topic_member_leave(struct topic_member *member)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        if (member->topic->partitions[i].owner == member->number)
            member->topic->partitions[i].owner = TOPIC_NOBODY;
}
