/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/expand.h"

#include "outbox/relay/binlog/cursor.h"

#include <inttypes.h>
#include <zlib.h>

/* The first byte of compressed bytes: a mark, the algorithm, and how many bytes tell the length. */
#define MARK 0x80
#define ALGORITHM_BITS 0x70 /* 0: zlib */
#define LENGTH_BITS 0x07

static const struct pair {
    uint8_t compressed;
    uint8_t plain;
    bool rows;
    bool extra; /* of version 2 */
    bool twice; /* two bitmaps of columns, of the row before and after */
} pairs[] = {
    {BINLOG_QUERY_COMPRESSED, BINLOG_QUERY, false, false, false},
    {BINLOG_WRITE_ROWS_COMPRESSED_1, BINLOG_WRITE_ROWS_1, true, false, false},
    {BINLOG_UPDATE_ROWS_COMPRESSED_1, BINLOG_UPDATE_ROWS_1, true, false, true},
    {BINLOG_DELETE_ROWS_COMPRESSED_1, BINLOG_DELETE_ROWS_1, true, false, false},
    {BINLOG_WRITE_ROWS_COMPRESSED, BINLOG_WRITE_ROWS, true, true, false},
    {BINLOG_UPDATE_ROWS_COMPRESSED, BINLOG_UPDATE_ROWS, true, true, true},
    {BINLOG_DELETE_ROWS_COMPRESSED, BINLOG_DELETE_ROWS, true, true, false},
};

static const struct pair *find_pair(uint8_t type)
{
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (pairs[i].compressed == type)
            return &pairs[i];
    return NULL;
}

static enum rc fail(struct err *err, const struct binlog_event *event, const char *what)
{
    return err_fail(err, RC_FATAL, 0, "binlog: a %s event (%u) ending at %" PRIu32 " %s",
                    binlog_type_name(event->type), event->type, event->next_pos, what);
}

/* Moves over what is not compressed. */
static void skip_query(struct cursor *cursor)
{
    size_t schema_len;
    size_t variables_len;

    cursor_take(cursor, 8); /* connection, seconds */
    schema_len = cursor_u8(cursor);
    cursor_take(cursor, 2); /* error */
    variables_len = cursor_u16(cursor);
    cursor_take(cursor, variables_len + schema_len + 1);
}

static void skip_rows(struct cursor *cursor, const struct pair *pair, bool old_ids)
{
    uint64_t width;

    cursor_take(cursor, old_ids ? 6 : 8);
    if (pair->extra) {
        uint16_t extra = cursor_u16(cursor);

        cursor_take(cursor, extra >= 2 ? (size_t)extra - 2 : 0);
    }
    width = cursor_packed(cursor);
    if (width > UINT16_MAX)
        cursor->bad = true;
    else
        cursor_take(cursor, ((size_t)width + 7) / 8 * (pair->twice ? 2 : 1));
}

/* Appends what the compressed bytes expand to. */
static enum rc put_expanded(struct buf *out, struct cursor *cursor,
                            const struct binlog_event *event, struct err *err)
{
    uint8_t first = cursor_u8(cursor);
    uint64_t claimed = cursor_be(cursor, first & LENGTH_BITS);
    size_t left = cursor_left(cursor);
    uLongf len = (uLongf)claimed;
    char *room;

    if (cursor->bad || !(first & MARK) || (first & LENGTH_BITS) == 0)
        return fail(err, event, "is compressed in a way that is not known");
    if (first & ALGORITHM_BITS)
        return fail(err, event, "is compressed with an algorithm that is not known");
    room = buf_reserve(out, (size_t)claimed);
    if (!room)
        return fail(err, event, "expands to more bytes than may be");
    if (uncompress((Bytef *)room, &len, cursor->at, (uLong)left) != Z_OK || len != claimed)
        return fail(err, event, "cannot be expanded: its bytes are damaged");
    out->len += len;
    return RC_OK;
}

enum rc binlog_expand(struct binlog_event *event, struct buf *out,
                      const struct binlog_format *format, struct err *err)
{
    const struct pair *pair = find_pair(event->type);
    struct cursor cursor = cursor_of(event->body, event->body_len);
    enum rc rc;

    if (!pair)
        return RC_OK;
    if (pair->rows)
        skip_rows(&cursor, pair, format->post_header[event->type] == 6);
    else
        skip_query(&cursor);
    if (cursor.bad)
        return fail(err, event, "is cut off");
    buf_reset(out);
    buf_put(out, event->body, (size_t)(cursor.at - event->body));
    rc = put_expanded(out, &cursor, event, err);
    if (rc != RC_OK)
        return rc;
    if (out->failed)
        return fail(err, event, "expands to more bytes than may be");
    event->type = pair->plain;
    event->body = (const uint8_t *)out->data;
    event->body_len = out->len;
    return RC_OK;
}
