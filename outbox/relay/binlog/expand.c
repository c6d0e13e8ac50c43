/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/expand.h"

#include <zlib.h>

/* The first byte of compressed bytes: a mark, the algorithm, and how many bytes hold the length. */
#define MARK 0x80
#define ALGORITHM_BITS 0x70 /* 0: zlib */
#define LENGTH_BITS 0x07

static enum rc fail_expand(struct err *err, const char *what)
{
    return err_fail(err, RC_FATAL, 0, "binlog: the compressed bytes of an event %s", what);
}

enum rc binlog_expand(struct buf *out, struct cursor compressed, struct err *err)
{
    uint8_t first = cursor_u8(&compressed);
    uint64_t claimed = cursor_be(&compressed, first & LENGTH_BITS);
    uLongf len = (uLongf)claimed;
    char *room;

    if (compressed.bad || !(first & MARK) || (first & LENGTH_BITS) == 0)
        return fail_expand(err, "have an unknown form");
    if (first & ALGORITHM_BITS)
        return fail_expand(err, "have an unknown algorithm");
    buf_reset(out);
    room = buf_reserve(out, (size_t)claimed);
    if (!room)
        return fail_expand(err, "expand to more than the limit of an event");
    if (uncompress((Bytef *)room, &len, compressed.at, (uLong)cursor_left(&compressed)) != Z_OK ||
        len != claimed)
        return fail_expand(err, "cannot be expanded: they are damaged");
    out->len = len;
    return RC_OK;
}
