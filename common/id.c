/* SPDX-License-Identifier: MIT */
#include "common/id.h"

#include "common/os.h"

#include <string.h>

void id_make(struct id *id, int64_t wall_ms, const uint8_t random_bytes[10])
{
    for (int i = 0; i < 6; i++)
        id->bytes[i] = (uint8_t)((uint64_t)wall_ms >> (40 - 8 * i));
    memcpy(id->bytes + 6, random_bytes, 10);
    id->bytes[6] = (uint8_t)(0x70 | (id->bytes[6] & 0x0f));
    id->bytes[8] = (uint8_t)(0x80 | (id->bytes[8] & 0x3f));
}

void id_new(struct id *id)
{
    uint8_t random_bytes[10];

    os_random(random_bytes, sizeof(random_bytes));
    id_make(id, os_wall_ms(), random_bytes);
}

static bool needs_dash(size_t place)
{
    return place == 8 || place == 13 || place == 18 || place == 23;
}

void id_format(const struct id *id, char text[ID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;

    for (size_t i = 0; i < ID_BYTES; i++) {
        if (needs_dash(at))
            text[at++] = '-';
        text[at++] = digits[id->bytes[i] >> 4];
        text[at++] = digits[id->bytes[i] & 15];
    }
    text[at] = '\0';
}

static int read_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool id_parse(struct id *id, const char *text, size_t len)
{
    struct id parsed = {{0}};
    size_t digit = 0;

    if (len != ID_TEXT_SIZE - 1)
        return false;
    for (size_t at = 0; at < len; at++) {
        int value = read_hex_digit(text[at]);

        if (needs_dash(at)) {
            if (text[at] != '-')
                return false;
            continue;
        }
        if (value < 0)
            return false;
        parsed.bytes[digit / 2] = (uint8_t)(parsed.bytes[digit / 2] << 4 | value);
        digit++;
    }
    *id = parsed;
    return true;
}

bool id_parse_number(const char *text, size_t len, int64_t *number)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(text[i] - '0');

        if (digit > 9 || value > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = (int64_t)value;
    return value > 0;
}
