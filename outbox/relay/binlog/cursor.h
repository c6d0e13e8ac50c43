/* SPDX-License-Identifier: MIT */
/* A place in bytes from outside. A read past the end returns zeros (or NULL) and marks the cursor
 * as bad, and so does each later one; the caller checks once behind a group of reads. Numbers of
 * binlog events are little-endian unless a name says otherwise. Pure; one thread at a time uses a
 * cursor. */
#ifndef OUTBOX_RELAY_BINLOG_CURSOR_H
#define OUTBOX_RELAY_BINLOG_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
};

static inline struct cursor cursor_of(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    return (struct cursor){.at = at, .end = at + len};
}

static inline size_t cursor_left(const struct cursor *cursor)
{
    return cursor->bad ? 0 : (size_t)(cursor->end - cursor->at);
}

/* The next bytes, borrowed; NULL if there are not so many. */
static inline const uint8_t *cursor_take(struct cursor *cursor, size_t len)
{
    const uint8_t *taken = cursor->at;

    if (cursor->bad || len > cursor_left(cursor)) {
        cursor->bad = true;
        return NULL;
    }
    cursor->at += len;
    return taken;
}

/* An unsigned number of 1 to 8 bytes. */
static inline uint64_t cursor_le(struct cursor *cursor, size_t len)
{
    const uint8_t *bytes = cursor_take(cursor, len);
    uint64_t value = 0;

    for (size_t i = len; bytes && i > 0; i--)
        value = value << 8 | bytes[i - 1];
    return value;
}

/* The same, with the highest byte first. */
static inline uint64_t cursor_be(struct cursor *cursor, size_t len)
{
    const uint8_t *bytes = cursor_take(cursor, len);
    uint64_t value = 0;

    for (size_t i = 0; bytes && i < len; i++)
        value = value << 8 | bytes[i];
    return value;
}

static inline uint8_t cursor_u8(struct cursor *cursor)
{
    return (uint8_t)cursor_le(cursor, 1);
}

static inline uint16_t cursor_u16(struct cursor *cursor)
{
    return (uint16_t)cursor_le(cursor, 2);
}

static inline uint32_t cursor_u32(struct cursor *cursor)
{
    return (uint32_t)cursor_le(cursor, 4);
}

static inline uint64_t cursor_u64(struct cursor *cursor)
{
    return cursor_le(cursor, 8);
}

/* A number of the client protocol's length-encoded form: one byte up to 250, else a byte that tells
 * the length, then 2, 3 or 8 bytes. 251 and 255 are no lengths. */
static inline uint64_t cursor_packed(struct cursor *cursor)
{
    uint8_t first = cursor_u8(cursor);

    switch (first) {
    case 252:
        return cursor_le(cursor, 2);
    case 253:
        return cursor_le(cursor, 3);
    case 254:
        return cursor_le(cursor, 8);
    case 251:
    case 255:
        cursor->bad = true;
        return 0;
    default:
        return first;
    }
}

/* A number as mysql::serialization writes it: as many more bytes as the first one has ones at its
 * low end, and the bits above them; a first byte of ones alone has eight more, which are the
 * number. */
static inline uint64_t cursor_serialized(struct cursor *cursor)
{
    uint8_t first = cursor_u8(cursor);
    unsigned more = 0;

    while (more < 8 && first >> more & 1)
        more++;
    if (more == 8)
        return cursor_le(cursor, 8);
    /* Its own bits lie below those of the others. */
    return (uint64_t)first >> (more + 1) | cursor_le(cursor, more) << (8 - more - 1);
}

/* A text behind its packed length, borrowed; NULL if the cursor is bad. */
static inline const char *cursor_text(struct cursor *cursor, size_t *len)
{
    uint64_t claimed = cursor_packed(cursor);

    if (cursor->bad || claimed > cursor_left(cursor)) {
        cursor->bad = true;
        *len = 0;
        return NULL;
    }
    *len = (size_t)claimed;
    return (const char *)cursor_take(cursor, *len);
}

/* A cursor over the next bytes, behind which this one goes on. */
static inline struct cursor cursor_part(struct cursor *cursor, uint64_t len)
{
    struct cursor part = {0};

    if (cursor->bad || len > cursor_left(cursor)) {
        cursor->bad = part.bad = true;
        return part;
    }
    part.at = cursor_take(cursor, (size_t)len);
    part.end = part.at + len;
    return part;
}

#endif
