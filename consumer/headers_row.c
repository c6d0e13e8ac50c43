/* SPDX-License-Identifier: MIT */
#include "consumer/headers_row.h"

#include <stdint.h>
#include <string.h>

void headers_begin(struct buf *out)
{
    buf_char(out, '[');
}

void headers_end(struct buf *out)
{
    buf_char(out, ']');
}

static void put_name(struct buf *out, const char *name)
{
    buf_char(out, '"');
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c >= 0x7f) {
            buf_print(out, "\\u%04x", (unsigned)*c);
            continue;
        }
        if (*c == '"' || *c == '\\')
            buf_char(out, '\\');
        buf_char(out, (char)*c);
    }
    buf_char(out, '"');
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void headers_put_base64(struct buf *out, const void *data, size_t len)
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

bool headers_take_base64(struct buf *out, const char *text, size_t len)
{
    uint32_t group = 0;
    size_t bits = 0;

    while (len > 0 && text[len - 1] == '=')
        len--;
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

void headers_add(struct buf *out, size_t index, const char *name, const void *value, size_t len)
{
    buf_text_put(out, index == 0 ? "[" : ",[");
    put_name(out, name);
    buf_char(out, ',');
    if (value) {
        buf_char(out, '"');
        headers_put_base64(out, value, len);
        buf_char(out, '"');
    } else {
        buf_text_put(out, "null");
    }
    buf_char(out, ']');
}
