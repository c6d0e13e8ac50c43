/* SPDX-License-Identifier: MIT */
/* Remembers what was said, for logs that others fill: whoever tries something again and again says
 * the same each time, but for some numbers. Pure; one thread at a time. */
#ifndef COMMON_SAID_H
#define COMMON_SAID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAID_MAX 32

struct said {
    struct {
        uint64_t hash;
        int64_t at_ms;
    } list[SAID_MAX];
    size_t count; /* of all; the last ones are kept */
};

/* False when text, whatever its numbers, was said less than again_ms ago; else it is said now. */
bool said_now(struct said *said, const char *text, int64_t now_ms, int64_t again_ms);

#endif
