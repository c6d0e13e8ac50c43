/* SPDX-License-Identifier: MIT */
#include "common/trace.h"

#include "common/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TRACE_LEN (TRACE_SIZE - 1)

/* Whether there are so many lower-case hexadecimal digits; an id of zeros alone is invalid. */
static bool is_hex(const char *text, size_t len, bool is_id)
{
    size_t digits = strspn(text, "0123456789abcdef");
    size_t zeros = strspn(text, "0");

    return digits >= len && !(is_id && zeros >= len);
}

bool trace_read(const char *text, char parent[TRACE_SIZE])
{
    parent[0] = '\0';
    if (!text || strnlen(text, TRACE_LEN) < TRACE_LEN)
        return false;
    if (!is_hex(text, 2, false) || text[2] != '-' || !is_hex(text + 3, 32, true) ||
        text[35] != '-' || !is_hex(text + 36, 16, true) || text[52] != '-' ||
        !is_hex(text + 53, 2, false))
        return false;
    if (strncmp(text, "ff", 2) == 0)
        return false;
    /* A later version may append fields; version 00 has none. */
    if (text[TRACE_LEN] != '\0' && (strncmp(text, "00", 2) == 0 || text[TRACE_LEN] != '-'))
        return false;
    memcpy(parent, text, TRACE_LEN);
    parent[TRACE_LEN] = '\0';
    memcpy(parent, "00", 2);
    return true;
}

void trace_make(char parent[TRACE_SIZE], uint64_t trace, uint64_t span)
{
    uint64_t state = trace;
    uint64_t high = rng_next(&state);
    uint64_t low = rng_next(&state);
    uint64_t own = rng_next(&state) ^ span;

    /* Ids of zeros alone are invalid. */
    own = rng_next(&own);
    snprintf(parent, TRACE_SIZE, "00-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "-01", high, low | 1,
             own | 1);
}
