/* SPDX-License-Identifier: MIT */
#include "common/utf8.h"

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
