/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/jsonb.h"

#include "common/text.h"
#include "outbox/relay/binlog/cursor.h"
#include "outbox/relay/binlog/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum jsonb_type {
    JSONB_SMALL_OBJECT = 0x00,
    JSONB_LARGE_OBJECT = 0x01,
    JSONB_SMALL_ARRAY = 0x02,
    JSONB_LARGE_ARRAY = 0x03,
    JSONB_LITERAL = 0x04,
    JSONB_INT16 = 0x05,
    JSONB_UINT16 = 0x06,
    JSONB_INT32 = 0x07,
    JSONB_UINT32 = 0x08,
    JSONB_INT64 = 0x09,
    JSONB_UINT64 = 0x0a,
    JSONB_DOUBLE = 0x0b,
    JSONB_STRING = 0x0c,
    JSONB_OPAQUE = 0x0f,
};

#define BASE64_LINE_BYTES 57
#define DOUBLE_DIGITS_MAX 17
#define PLAIN_PLACES_MAX \
    15 /* numbers with more places before or behind the point get an exponent */

/* One object or array. Offsets count from its first byte. */
struct container {
    const uint8_t *start;
    size_t len;
    size_t width; /* bytes of a count or an offset: 2, or 4 in large ones */
    size_t count;
    bool is_object;
};

static void put_string(struct buf *out, const char *text, size_t len)
{
    static const char escaped[] = "\b\f\n\r\t\"\\";
    static const char letters[] = "bfnrt\"\\";

    buf_char(out, '"');
    for (size_t i = 0; i < len; i++) {
        const char *found = text[i] ? strchr(escaped, text[i]) : NULL;

        if (found) {
            buf_char(out, '\\');
            buf_char(out, letters[found - escaped]);
        } else if ((unsigned char)text[i] < 0x20) {
            buf_print(out, "\\u%04x", (unsigned)text[i]);
        } else {
            buf_char(out, text[i]);
        }
    }
    buf_char(out, '"');
}

/* Seven bits in a byte, the lowest first, while the eighth bit is set. */
static size_t take_length(struct cursor *cursor)
{
    uint64_t len = 0;

    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t byte = cursor_u8(cursor);

        len |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return (size_t)len;
    }
    cursor->bad = true;
    return 0;
}

/* The fewest digits that are this number again, and where its point is: 12.5 is 125 and 2. */
static int find_digits(double number, char digits[DOUBLE_DIGITS_MAX + 1], int *point)
{
    char text[40];
    int count = 0;

    for (int precision = 0; precision < DOUBLE_DIGITS_MAX; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision, number);
        /* Not less and not greater. */
        if (strtod(text, NULL) >= number && strtod(text, NULL) <= number)
            break;
    }
    for (const char *at = text; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            digits[count++] = *at;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    digits[count] = '\0';
    *point = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1;
    return count;
}

static void put_zeros(struct buf *out, int count)
{
    for (int i = 0; i < count; i++)
        buf_char(out, '0');
}

static void put_double(struct buf *out, double number)
{
    char digits[DOUBLE_DIGITS_MAX + 1];
    int point;
    int count = find_digits(fabs(number), digits, &point);

    if (signbit(number))
        buf_char(out, '-');
    if (fpclassify(number) == FP_ZERO) {
        buf_text_put(out, "0.0");
    } else if (point < 1 - PLAIN_PLACES_MAX || (point > PLAIN_PLACES_MAX && count <= point)) {
        buf_print(out, "%c%s%se%d", digits[0], count > 1 ? "." : "", digits + 1, point - 1);
    } else if (point <= 0) {
        buf_text_put(out, "0.");
        put_zeros(out, -point);
        buf_text_put(out, digits);
    } else if (point >= count) {
        buf_text_put(out, digits);
        put_zeros(out, point - count);
        buf_text_put(out, ".0");
    } else {
        buf_print(out, "%.*s.%s", point, digits, digits + point);
    }
}

static bool put_decimal(struct buf *out, struct cursor *bytes)
{
    struct binlog_column column = {.type = COLUMN_DECIMAL};
    struct binlog_value value;

    column.meta = (uint16_t)cursor_be(bytes, 2);
    if (!binlog_value_take(&value, bytes, &column, false))
        return false;
    buf_put(out, value.text, value.len);
    return true;
}

/* 24 bits of microseconds below the parts of a date and a time. */
static bool put_time(struct buf *out, uint8_t type, struct cursor *bytes)
{
    int64_t packed = (int64_t)cursor_u64(bytes);
    bool negative = packed < 0;
    uint64_t size = negative ? 0 - (uint64_t)packed : (uint64_t)packed;
    unsigned us = (unsigned)(size & 0xffffff);
    unsigned clock = (unsigned)(size >> 24 & 0x1ffff);
    uint64_t date = size >> 41;
    unsigned month = (unsigned)(date >> 5);
    unsigned day = (unsigned)(date & 31);

    if (bytes->bad)
        return false;
    if (type == COLUMN_TIME)
        buf_print(out, "\"%s%02u:%02u:%02u.%06u\"", negative ? "-" : "",
                  (unsigned)(size >> 36 & 1023), clock >> 6 & 63, clock & 63, us);
    else if (type == COLUMN_DATE)
        buf_print(out, "\"%04u-%02u-%02u\"", month / 13, month % 13, day);
    else
        buf_print(out, "\"%04u-%02u-%02u %02u:%02u:%02u.%06u\"", month / 13, month % 13, day,
                  clock >> 12, clock >> 6 & 63, clock & 63, us);
    return true;
}

/* The server breaks the line behind so many bytes, which are 76 characters, unless they are the
 * last. */
static void put_base64(struct buf *out, struct cursor *bytes)
{
    while (cursor_left(bytes) > BASE64_LINE_BYTES) {
        base64_put(out, cursor_take(bytes, BASE64_LINE_BYTES), BASE64_LINE_BYTES);
        buf_text_put(out, "\\n");
    }
    base64_put(out, bytes->at, cursor_left(bytes));
}

/* A value of a type of SQL that JSON does not have. */
static bool put_opaque(struct buf *out, struct cursor *value)
{
    uint8_t type = cursor_u8(value);
    struct cursor bytes = cursor_part(value, take_length(value));

    if (bytes.bad || value->bad)
        return false;
    switch (type) {
    case COLUMN_DECIMAL:
        return put_decimal(out, &bytes);
    case COLUMN_DATE:
    case COLUMN_TIME:
    case COLUMN_DATETIME:
    case COLUMN_TIMESTAMP:
        return put_time(out, type, &bytes);
    default:
        buf_print(out, "\"base64:type%u:", type);
        put_base64(out, &bytes);
        buf_char(out, '"');
        return true;
    }
}

static bool put_literal(struct buf *out, uint64_t literal)
{
    static const char *const names[] = {"null", "true", "false"};

    if (literal >= sizeof(names) / sizeof(names[0]))
        return false;
    buf_text_put(out, names[literal]);
    return true;
}

/* Numbers, texts and literals. */
static bool put_scalar(struct buf *out, uint8_t type, struct cursor *value)
{
    uint64_t bits;
    double number;
    size_t len;
    const char *text;

    switch (type) {
    case JSONB_LITERAL:
        return put_literal(out, cursor_u8(value)) && !value->bad;
    case JSONB_INT16:
        buf_i64(out, (int16_t)cursor_u16(value));
        return !value->bad;
    case JSONB_INT32:
        buf_i64(out, (int32_t)cursor_u32(value));
        return !value->bad;
    case JSONB_INT64:
        buf_i64(out, (int64_t)cursor_u64(value));
        return !value->bad;
    case JSONB_UINT16:
    case JSONB_UINT32:
    case JSONB_UINT64:
        buf_u64(out, cursor_le(value, type == JSONB_UINT16 ? 2 : type == JSONB_UINT32 ? 4 : 8));
        return !value->bad;
    case JSONB_DOUBLE:
        bits = cursor_u64(value);
        memcpy(&number, &bits, sizeof(number));
        if (value->bad || !isfinite(number))
            return false;
        put_double(out, number);
        return true;
    case JSONB_STRING:
        len = take_length(value);
        text = (const char *)cursor_take(value, len);
        if (!text)
            return false;
        put_string(out, text, len);
        return true;
    case JSONB_OPAQUE:
        return put_opaque(out, value);
    default:
        return false;
    }
}

/* Whether the entry of a value has the value itself in the place of its offset. */
static bool is_inlined(const struct container *in, uint8_t type)
{
    return type == JSONB_LITERAL || type == JSONB_INT16 || type == JSONB_UINT16 ||
           (in->width == 4 && (type == JSONB_INT32 || type == JSONB_UINT32));
}

/* From this place to the end of the container. */
static struct cursor cursor_within(const struct container *in, uint64_t offset)
{
    struct cursor cursor = cursor_of(in->start, in->len);

    if (offset > in->len)
        cursor.bad = true;
    else
        cursor_take(&cursor, (size_t)offset);
    return cursor;
}

static bool put_key(struct buf *out, const struct container *in, struct cursor *keys)
{
    uint64_t offset = cursor_le(keys, in->width);
    size_t len = cursor_u16(keys);
    struct cursor key = cursor_within(in, offset);
    const char *text = (const char *)cursor_take(&key, len);

    if (keys->bad || !text)
        return false;
    put_string(out, text, len);
    buf_text_put(out, ": ");
    return true;
}

/* Takes the type of the next value and where its bytes are. */
static bool take_entry(const struct container *in, struct cursor *entries, uint8_t *type,
                       struct cursor *value)
{
    struct cursor offset;

    *type = cursor_u8(entries);
    *value = offset = cursor_part(entries, in->width);
    if (!is_inlined(in, *type))
        *value = cursor_within(in, cursor_le(&offset, in->width));
    return !entries->bad && !value->bad;
}

static bool open_container(struct container *in, uint8_t type, struct cursor *value)
{
    uint64_t len;
    size_t entry;

    in->is_object = type == JSONB_SMALL_OBJECT || type == JSONB_LARGE_OBJECT;
    in->width = type == JSONB_LARGE_OBJECT || type == JSONB_LARGE_ARRAY ? 4 : 2;
    in->start = value->at;
    in->len = cursor_left(value);
    in->count = (size_t)cursor_le(value, in->width);
    len = cursor_le(value, in->width);
    if (value->bad || len > in->len)
        return false;
    in->len = (size_t)len;
    entry = 1 + in->width + (in->is_object ? in->width + 2 : 0);
    return in->count <= in->len / entry && 2 * in->width + in->count * entry <= in->len;
}

static bool is_container(uint8_t type)
{
    return type <= JSONB_LARGE_ARRAY;
}

static bool put_container(struct buf *out, uint8_t type, struct cursor *value, int depth)
{
    struct container in = {0};
    struct cursor keys;
    struct cursor entries;

    if (depth > JSONB_DEPTH_MAX || !open_container(&in, type, value))
        return false;
    keys = cursor_within(&in, 2 * in.width);
    entries = cursor_within(&in, 2 * in.width + (in.is_object ? in.count * (in.width + 2) : 0));
    buf_char(out, in.is_object ? '{' : '[');
    for (size_t i = 0; i < in.count && !out->failed; i++) {
        struct cursor element;
        uint8_t kind;

        if (i > 0)
            buf_text_put(out, ", ");
        if ((in.is_object && !put_key(out, &in, &keys)) ||
            !take_entry(&in, &entries, &kind, &element))
            return false;
        if (!(is_container(kind) ? put_container(out, kind, &element, depth + 1)
                                 : put_scalar(out, kind, &element)))
            return false;
    }
    buf_char(out, in.is_object ? '}' : ']');
    return !out->failed;
}

bool jsonb_put(struct buf *out, const void *bytes, size_t len)
{
    struct cursor cursor = cursor_of(bytes, len);
    uint8_t type;

    if (len == 0) {
        buf_text_put(out, "null");
        return !out->failed;
    }
    type = cursor_u8(&cursor);
    return (is_container(type) ? put_container(out, type, &cursor, 1)
                               : put_scalar(out, type, &cursor)) &&
           !out->failed;
}
