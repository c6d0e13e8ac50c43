/* SPDX-License-Identifier: MIT */
#include "common/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_FIRST 256

void buf_init(struct buf *buf, size_t size_max)
{
    memset(buf, 0, sizeof(*buf));
    buf->size_max = size_max;
}

void buf_done(struct buf *buf)
{
    free(buf->data);
    memset(buf, 0, sizeof(*buf));
}

void buf_reset(struct buf *buf)
{
    buf->len = 0;
    buf->failed = false;
}

void buf_cut(struct buf *buf, size_t len)
{
    if (len < buf->len)
        buf->len = len;
}

void buf_trim(struct buf *buf)
{
    /* A copy: what realloc() cuts off stays a hole behind each buffer, too small for the next. */
    char *data = buf->len < buf->size ? malloc(buf->len + 1) : NULL;

    if (!data)
        return;
    memcpy(data, buf->data, buf->len + 1);
    free(buf->data);
    buf->data = data;
    buf->size = buf->len;
}

char *buf_reserve(struct buf *buf, size_t more)
{
    size_t limit = buf->size_max ? buf->size_max : BUF_SIZE_MAX;
    size_t size = buf->size ? buf->size : SIZE_FIRST;
    char *data;

    if (buf->failed)
        return NULL;
    if (buf->data && more <= buf->size - buf->len)
        return buf->data + buf->len;
    if (more > limit || buf->len > limit - more) {
        buf->failed = true;
        return NULL;
    }
    while (size < buf->len + more)
        size *= 2;
    if (size > limit)
        size = limit;
    data = realloc(buf->data, size + 1);
    if (!data) {
        buf->failed = true;
        return NULL;
    }
    buf->data = data;
    buf->size = size;
    return data + buf->len;
}

void buf_put(struct buf *buf, const void *bytes, size_t len)
{
    char *at = buf_reserve(buf, len);

    if (!at || len == 0)
        return;
    memcpy(at, bytes, len);
    buf->len += len;
}

void buf_text_put(struct buf *buf, const char *text)
{
    buf_put(buf, text, strlen(text));
}

void buf_char(struct buf *buf, char c)
{
    buf_put(buf, &c, 1);
}

void buf_u64(struct buf *buf, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buf_put(buf, digits + at, sizeof(digits) - at);
}

void buf_i64(struct buf *buf, int64_t value)
{
    if (value < 0) {
        buf_char(buf, '-');
        buf_u64(buf, (uint64_t)0 - (uint64_t)value);
        return;
    }
    buf_u64(buf, (uint64_t)value);
}

void buf_hex(struct buf *buf, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *in = bytes;
    char *at;

    if (len > BUF_SIZE_MAX) {
        buf->failed = true;
        return;
    }
    at = buf_reserve(buf, 2 * len);
    if (!at)
        return;
    for (size_t i = 0; i < len; i++) {
        at[2 * i] = digits[in[i] >> 4];
        at[2 * i + 1] = digits[in[i] & 15];
    }
    buf->len += 2 * len;
}

void buf_le(struct buf *buf, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        buf_char(buf, (char)(value >> 8 * i));
}

void buf_print(struct buf *buf, const char *format, ...)
{
    va_list args;
    int need;

    va_start(args, format);
    need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (need < 0 || !buf_reserve(buf, (size_t)need)) {
        buf->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(buf->data + buf->len, (size_t)need + 1, format, args);
    va_end(args);
    buf->len += (size_t)need;
}

const char *buf_text(struct buf *buf)
{
    if (buf->failed || !buf->data)
        return "";
    buf->data[buf->len] = '\0';
    return buf->data;
}
