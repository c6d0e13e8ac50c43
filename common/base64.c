/* SPDX-License-Identifier: MIT */
#include "common/base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct buf *out, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t group = (uint32_t)bytes[i] << 16;
        char text[4] = {'=', '=', '=', '='};

        if (left > 1)
            group |= (uint32_t)bytes[i + 1] << 8;
        if (left > 2)
            group |= bytes[i + 2];
        for (size_t j = 0; j < 4 && j <= left; j++)
            text[j] = letters[group >> (18 - 6 * j) & 63];
        buf_put(out, text, sizeof(text));
    }
}

bool base64_take(struct buf *out, const char *text, size_t len)
{
    uint32_t group = 0;
    size_t bits = 0;

    for (size_t i = 0; i < 2 && len > 0 && text[len - 1] == '='; i++)
        len--;
    if (len % 4 == 1)
        return false;
    for (size_t i = 0; i < len; i++) {
        const char *letter = text[i] ? strchr(letters, text[i]) : NULL;

        if (!letter)
            return false;
        group = group << 6 | (uint32_t)(letter - letters);
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        buf_char(out, (char)(group >> bits & 0xff));
    }
    return true;
}
