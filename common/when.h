/* SPDX-License-Identifier: MIT */
/* Times and ages in the notation of the command line. Pure; any thread. */
#ifndef COMMON_WHEN_H
#define COMMON_WHEN_H

#include <stdbool.h>
#include <stdint.h>

/* "30s", "15m", "2h" and "7d" are so long before now_ms; "2026-11-21", "2026-11-21 17:05" and
 * "2026-11-21T17:05:59Z" are UTC. */
bool when_read(const char *text, int64_t now_ms, int64_t *ms);

/* "2026-11-21 17:05:59.123 UTC". */
#define WHEN_TEXT_SIZE 40
void when_text(char text[WHEN_TEXT_SIZE], int64_t ms);

/* "850 ms", "1.2 s", "45 s", "3 min", "5 h", "12 days". */
#define WHEN_AGE_SIZE 24
void when_age(char text[WHEN_AGE_SIZE], int64_t age_ms);

#endif
