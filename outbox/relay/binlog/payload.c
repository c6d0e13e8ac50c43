/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/payload.h"

#include <inttypes.h>
#include <string.h>
#include <zstd.h>

#define SIZE_AT 9 /* in the header of an event */

enum field {
    FIELD_END = 0,
    FIELD_SIZE = 1,
    FIELD_COMPRESSION = 2,
};

enum compression {
    COMPRESSION_ZSTD = 0,
    COMPRESSION_NONE = 255,
};

void binlog_payload_init(struct binlog_payload *payload, size_t event_bytes_max)
{
    *payload = (struct binlog_payload){0};
    buf_init(&payload->event, event_bytes_max);
}

void binlog_payload_done(struct binlog_payload *payload)
{
    ZSTD_freeDCtx(payload->zstd);
    buf_done(&payload->event);
    *payload = (struct binlog_payload){0};
}

static enum rc fail_payload(struct err *err, const char *what)
{
    return err_fail(err, RC_FATAL, 0, "binlog: a compressed transaction %s", what);
}

/* Type, length and value of each field up to the one that ends them. */
static void take_fields(struct cursor *cursor, uint64_t *size, uint64_t *compression)
{
    for (;;) {
        uint64_t type = cursor_packed(cursor);
        struct cursor value;

        if (cursor->bad || type == FIELD_END)
            return;
        value = cursor_part(cursor, cursor_packed(cursor));
        if (type == FIELD_SIZE)
            *size = cursor_packed(&value);
        else if (type == FIELD_COMPRESSION)
            *compression = cursor_packed(&value);
        if (value.bad)
            cursor->bad = true;
    }
}

static enum rc begin_zstd(struct binlog_payload *payload, struct err *err)
{
    if (!payload->zstd)
        payload->zstd = ZSTD_createDCtx();
    if (!payload->zstd)
        return fail_payload(err, "finds no memory for zstd");
    ZSTD_DCtx_reset(payload->zstd, ZSTD_reset_session_only);
    return RC_OK;
}

enum rc binlog_payload_begin(struct binlog_payload *payload, const struct binlog_event *outer,
                             struct err *err)
{
    struct cursor cursor = cursor_of(outer->body, outer->body_len);
    uint64_t size = UINT64_MAX;
    uint64_t compression = COMPRESSION_NONE;

    take_fields(&cursor, &size, &compression);
    if (cursor.bad || size > cursor_left(&cursor))
        return fail_payload(err, "is cut off");
    if (compression != COMPRESSION_ZSTD && compression != COMPRESSION_NONE)
        return err_fail(err, RC_FATAL, 0,
                        "binlog: a transaction is compressed by the method %" PRIu64
                        ", which is not known",
                        compression);
    payload->left = cursor_part(&cursor, size);
    payload->compressed = compression == COMPRESSION_ZSTD;
    payload->ended = false;
    return payload->compressed ? begin_zstd(payload, err) : RC_OK;
}

/* Expands up to len bytes into room; *got is less only at the end. */
static enum rc expand_bytes(struct binlog_payload *payload, char *room, size_t len, size_t *got,
                            struct err *err)
{
    ZSTD_outBuffer out = {.dst = room, .size = len};
    ZSTD_inBuffer in = {.src = payload->left.at, .size = cursor_left(&payload->left)};
    size_t rest = 1;

    while (out.pos < out.size && !payload->ended) {
        size_t before = out.pos + in.pos;

        rest = ZSTD_decompressStream(payload->zstd, &out, &in);
        if (ZSTD_isError(rest))
            return fail_payload(err, "cannot be expanded: its bytes are damaged");
        /* Everything was read and the frame goes on. */
        if (rest != 0 && out.pos + in.pos == before)
            return fail_payload(err, "is cut off");
        payload->ended = rest == 0 && in.pos == in.size;
    }
    cursor_take(&payload->left, in.pos);
    *got = out.pos;
    return RC_OK;
}

static enum rc copy_bytes(struct binlog_payload *payload, char *room, size_t len, size_t *got)
{
    size_t left = cursor_left(&payload->left);

    *got = len < left ? len : left;
    if (*got > 0)
        memcpy(room, cursor_take(&payload->left, *got), *got);
    return RC_OK;
}

/* Appends len bytes to the event; *got is less only at the end. */
static enum rc take_bytes(struct binlog_payload *payload, size_t len, size_t *got, struct err *err)
{
    char *room = buf_reserve(&payload->event, len);
    enum rc rc;

    if (!room)
        return fail_payload(err, "has an event that is larger than events may be");
    rc = payload->compressed ? expand_bytes(payload, room, len, got, err)
                             : copy_bytes(payload, room, len, got);
    if (rc == RC_OK)
        payload->event.len += *got;
    return rc;
}

enum rc binlog_payload_next(struct binlog_payload *payload, struct binlog_event *event, bool *found,
                            struct err *err)
{
    struct cursor header;
    uint32_t size;
    size_t got = 0;
    enum rc rc;

    *found = false;
    buf_reset(&payload->event);
    rc = take_bytes(payload, BINLOG_HEADER_SIZE, &got, err);
    if (rc != RC_OK || got == 0)
        return rc;
    if (got < BINLOG_HEADER_SIZE)
        return fail_payload(err, "ends within an event");
    header = cursor_of(payload->event.data + SIZE_AT, 4);
    size = cursor_u32(&header);
    if (size < BINLOG_HEADER_SIZE)
        return fail_payload(err, "has an event that is shorter than its header");
    rc = take_bytes(payload, size - BINLOG_HEADER_SIZE, &got, err);
    if (rc != RC_OK)
        return rc;
    if (payload->event.len < size)
        return fail_payload(err, "ends within an event");
    rc = binlog_event_parse(event, payload->event.data, payload->event.len, NULL, err);
    *found = rc == RC_OK;
    return rc;
}
