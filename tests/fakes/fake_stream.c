/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_stream.h"

#include <assert.h>

static void add_place(struct fake_stream *fake, struct stream_event *event, struct fake_hold *hold)
{
    fake->places[event->count++] = (struct stream_place){{fake->topic, hold->number}, hold};
    event->places = fake->places;
}

/* The partitions that the member has lost since. */
static void revoke(struct fake_stream *fake, struct stream_event *event)
{
    for (int32_t i = 0; i < *fake->partition_count; i++) {
        struct fake_hold *hold = &fake->holds[i];
        bool owned = false;

        if (!hold->held || fake->assignment(fake->ctx, i, &owned) == hold->assignment)
            continue;
        hold->held = false;
        event->kind = STREAM_REVOKED;
        event->lost = owned;
        add_place(fake, event, hold);
    }
}

static void assign(struct fake_stream *fake, struct stream_event *event)
{
    for (int32_t i = 0; i < *fake->partition_count; i++) {
        struct fake_hold *hold = &fake->holds[i];
        bool owned = false;
        int64_t assignment = fake->assignment(fake->ctx, i, &owned);

        if (hold->held || assignment < 0)
            continue;
        *hold = (struct fake_hold){.number = i, .held = true, .assignment = assignment};
        event->kind = STREAM_ASSIGNED;
        add_place(fake, event, hold);
    }
}

/* Reports changes of the assignment, revoked partitions first. */
static void fake_poll(void *ctx, struct stream_event *event)
{
    struct fake_stream *fake = ctx;

    assert(*fake->partition_count <= FAKE_STREAM_PARTITIONS_MAX);
    *event = (struct stream_event){.kind = STREAM_NOTHING};
    if (!fake->hear(fake->ctx, event))
        return;
    revoke(fake, event);
    if (event->kind == STREAM_NOTHING)
        assign(fake, event);
}

static enum rc fake_seek(void *ctx, void *handle, int64_t offset, int32_t leader_epoch,
                         struct err *err)
{
    struct fake_stream *fake = ctx;
    struct fake_hold *hold = handle;
    int64_t position = offset == OFFSET_BEGINNING ? fake->begin(fake->ctx, hold->number) : offset;
    enum rc rc;

    (void)leader_epoch;
    assert(hold->held);
    rc = fake->seek(fake->ctx, hold->number, &position, err);
    if (rc != RC_OK)
        return rc;
    hold->end = -1;
    hold->position = position;
    return RC_OK;
}

static enum rc fake_read(void *ctx, void *handle, struct record *records, size_t records_max,
                         size_t *count, struct err *err)
{
    struct fake_stream *fake = ctx;
    struct fake_hold *hold = handle;
    bool answers = true;
    int64_t end;
    enum rc rc = fake->fetch(fake->ctx, hold->number, &answers, err);

    *count = 0;
    assert(hold->held);
    if (rc != RC_OK || !answers)
        return rc;
    end = fake->end(fake->ctx, hold->number);
    if (hold->position < fake->begin(fake->ctx, hold->number) || hold->position > end)
        return err_fail(err, RC_REJECT, 0, "offset %lld is not there", (long long)hold->position);
    for (; *count < records_max && hold->position < end; hold->position++) {
        struct record record;

        if (!fake->show(fake->ctx, hold->number, hold->position, *count, &record))
            continue;
        record.offset = hold->position;
        records[(*count)++] = record;
    }
    hold->end = hold->position == end ? end : -1;
    return RC_OK;
}

static void fake_headers(void *ctx, const struct record *record, struct buf *out)
{
    (void)ctx;
    (void)record;
    buf_text_put(out, "[]");
}

static int64_t fake_high_watermark(void *ctx, void *handle)
{
    const struct fake_stream *fake = ctx;
    const struct fake_hold *hold = handle;

    return fake->end(fake->ctx, hold->number);
}

static int64_t fake_end(void *ctx, void *handle)
{
    const struct fake_hold *hold = handle;

    (void)ctx;
    return hold->end;
}

struct stream fake_stream_ops(struct fake_stream *fake)
{
    return (struct stream){
        .ctx = fake,
        .poll = fake_poll,
        .seek = fake_seek,
        .read = fake_read,
        .headers = fake_headers,
        .high_watermark = fake_high_watermark,
        .end = fake_end,
    };
}
