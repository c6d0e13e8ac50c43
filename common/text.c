/* SPDX-License-Identifier: MIT */
#include "common/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define UTF8_BYTES_MAX 4 /* of one code point */

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

size_t utf8_len(const char *text)
{
    uint32_t point;
    size_t len = strnlen(text, UTF8_BYTES_MAX);

    return len > 0 ? read_point((const unsigned char *)text, len, &point) : 0;
}

/* U+0000..U+001F, U+007F..U+009F. */
static bool is_control(const char *text, size_t len)
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

bool text_is_ascii(const char *text)
{
    while (*text && (unsigned char)*text < 0x80)
        text++;
    return *text == '\0';
}

bool utf8_fits(const void *bytes, size_t len)
{
    return check_bytes(bytes, len, false);
}

bool utf8_prints(const void *bytes, size_t len)
{
    return check_bytes(bytes, len, true);
}

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

#define HEX_BYTES_MAX 4096
#define HEX_ROW 16

static void put_hex(struct buf *out, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    size_t shown = len < HEX_BYTES_MAX ? len : HEX_BYTES_MAX;

    for (size_t row = 0; row < shown; row += HEX_ROW) {
        buf_print(out, "  %08zx ", row);
        for (size_t i = row; i < row + HEX_ROW; i++)
            if (i < shown)
                buf_print(out, " %02x", at[i]);
            else
                buf_text_put(out, "   ");
        buf_text_put(out, "  ");
        for (size_t i = row; i < row + HEX_ROW && i < shown; i++)
            buf_char(out, at[i] >= 0x20 && at[i] < 0x7f ? (char)at[i] : '.');
        buf_char(out, '\n');
    }
    if (shown < len)
        buf_print(out, "  and %zu bytes more\n", len - shown);
}

void bytes_show(struct buf *out, int width, const char *name, const void *bytes, size_t len)
{
    if (!bytes) {
        buf_print(out, "%-*s(none)\n", width, name);
        return;
    }
    buf_print(out, "%-*s%zu bytes\n", width, name, len);
    if (len == 0)
        return;
    if (!utf8_prints(bytes, len)) {
        put_hex(out, bytes, len);
        return;
    }
    buf_text_put(out, "  ");
    buf_put(out, bytes, len);
    buf_char(out, '\n');
}

const char *list_next(const char **rest, char separator, size_t *len)
{
    const char *word = *rest;
    const char *end;

    if (!word)
        return NULL;
    end = strchr(word, separator);
    *len = end ? (size_t)(end - word) : strlen(word);
    *rest = end ? end + 1 : NULL;
    return word;
}

bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    size_t other_len;

    for (const char *other; (other = list_next(&list, ',', &other_len));)
        if (len > 0 && other_len == len && memcmp(other, word, len) == 0)
            return true;
    return false;
}

#define MORE "..."

void text_list_add(char *list, size_t size, const char *word)
{
    size_t len = strlen(list);
    const char *comma = len > 0 ? ", " : "";

    if (len >= strlen(MORE) && strcmp(list + len - strlen(MORE), MORE) == 0)
        return;
    if (len + strlen(comma) + strlen(word) + sizeof(", " MORE) <= size)
        snprintf(list + len, size - len, "%s%s", comma, word);
    else
        snprintf(list + len, size - len, "%s%s", comma, MORE);
}

void text_cut(char *text, size_t size, size_t len)
{
    size_t at;

    if (len < size || size <= sizeof(" " MORE))
        return;
    for (at = size - sizeof(" " MORE); at > 0 && text[at] != ' ';)
        at--;
    if (at > 0)
        snprintf(text + at, size - at, " " MORE);
    else /* one long word */
        snprintf(text + size - sizeof(MORE), sizeof(MORE), MORE);
}

size_t list_count(const char *list)
{
    size_t count = 0;
    size_t len;

    while (list_next(&list, ',', &len))
        count++;
    return count;
}

/* How many bytes from here on stand for themselves in JSON and are ASCII. */
static size_t plain_run(const char *text)
{
    const char *at = text;

    while (*at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\')
        at++;
    return (size_t)(at - text);
}

void json_text_put(struct buf *out, const char *text)
{
    buf_char(out, '"');
    while (*text) {
        size_t len = plain_run(text);

        if (len > 0) {
            buf_put(out, text, len);
            text += len;
            continue;
        }
        len = utf8_len(text);
        if (len == 0)
            buf_char(out, '?');
        else if (*text == '"' || *text == '\\')
            buf_print(out, "\\%c", *text);
        else if (len == 1)
            buf_print(out, "\\u%04x", (unsigned)*text);
        else
            buf_put(out, text, len);
        text += len > 0 ? len : 1;
    }
    buf_char(out, '"');
}
