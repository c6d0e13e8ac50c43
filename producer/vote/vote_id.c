/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_id.h"

bool vote_id_parse(const char *text, size_t len, int64_t *id)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(text[i] - '0');

        if (digit > 9 || value > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *id = (int64_t)value;
    return value > 0;
}
