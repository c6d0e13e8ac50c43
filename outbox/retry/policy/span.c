/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/span.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longest first: a text in the largest unit is the shortest. */
static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

#define UNITS (sizeof(units) / sizeof(units[0]))

bool span_parse(const char *text, size_t len, int64_t *ms)
{
    int64_t number = 0;
    size_t at = 0;

    while (at < len && text[at] >= '0' && text[at] <= '9') {
        number = number * 10 + (text[at++] - '0');
        if (number > SPAN_MS_MAX)
            return false;
    }
    if (at == 0)
        return false;
    for (size_t i = 0; i < UNITS; i++) {
        if (strlen(units[i].name) != len - at || memcmp(units[i].name, text + at, len - at) != 0)
            continue;
        if (number > SPAN_MS_MAX / units[i].ms)
            return false;
        *ms = number * units[i].ms;
        return true;
    }
    return false;
}

void span_text(int64_t ms, char text[SPAN_TEXT_SIZE])
{
    size_t i = ms == 0 ? UNITS - 2 : 0;

    while (ms % units[i].ms != 0)
        i++;
    snprintf(text, SPAN_TEXT_SIZE, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}
