/* SPDX-License-Identifier: MIT */
#include "common/utf8.h"

#include <stdint.h>

size_t utf8_len(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t len = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

    if (len == 1)
        return at[0] != '\0';
    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Longer than need be, halves of pairs, and past U+10FFFF. */
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return len;
}

/* U+0000..U+001F, U+007F..U+009F. */
static int is_control(const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text;

    return at[0] < 0x20 || at[0] == 0x7f || (len == 2 && at[0] == 0xc2 && at[1] < 0xa0);
}

void utf8_clean(char *text)
{
    while (*text) {
        size_t len = utf8_len(text);

        if (*text >= '\t' && *text <= '\r')
            *text = ' ';
        if (len > 0 && !is_control(text, len)) {
            text += len;
            continue;
        }
        for (size_t i = 0; i < (len > 0 ? len : 1); i++)
            *text++ = '?';
    }
}

/* The code point at the beginning of bytes and its length, 0 when it is no UTF-8. */
static size_t read_point(const unsigned char *bytes, size_t len, uint32_t *point)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;

    if (size == 1) {
        *point = bytes[0];
        return 1;
    }
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4 || size > len)
        return 0;
    *point = bytes[0] & (0x7fU >> size);
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        *point = *point << 6 | (bytes[i] & 0x3f);
    }
    if (*point < lowest[size] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
        return 0;
    return size;
}

static bool check_bytes(const void *bytes, size_t len, bool printable)
{
    const unsigned char *at = bytes;
    uint32_t point;

    for (size_t i = 0; i < len;) {
        size_t size = read_point(at + i, len - i, &point);

        if (size == 0)
            return false;
        if (printable && (point < 0x20 ? point != '\n' && point != '\t' && point != '\r'
                                       : point >= 0x7f && point < 0xa0))
            return false;
        i += size;
    }
    return true;
}

bool utf8_fits(const void *bytes, size_t len)
{
    return check_bytes(bytes, len, false);
}

bool utf8_prints(const void *bytes, size_t len)
{
    return check_bytes(bytes, len, true);
}
