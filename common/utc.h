/* SPDX-License-Identifier: MIT */
/* Times as text. utc_*: as databases write them (2026-03-04 05:06:07) and records carry them (RFC
 * 3339). when_*: times and ages as operators type and read them. All in UTC. Pure; any thread. */
#ifndef COMMON_UTC_H
#define COMMON_UTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTC_UNKNOWN_MS INT64_MIN
#define UTC_TEXT_SIZE 32

/* "2026-03-04 05:06:07" with up to six digits of a second behind it, in ms since 1970;
 * UTC_UNKNOWN_MS for NULL, zero dates and anything else. */
int64_t utc_parse_ms(const char *text, size_t len);

/* "2026-03-04T05:06:07.089Z" (RFC 3339); returns its length. */
size_t utc_format(int64_t ms, char text[UTC_TEXT_SIZE]);

/* "30s", "15m", "2h" and "7d" are so long before now_ms; "2026-11-21", "2026-11-21 17:05" and
 * "2026-11-21T17:05:59Z" are UTC; seconds may have a fraction, as utc_format() writes it. */
bool when_read(const char *text, int64_t now_ms, int64_t *ms);

/* "2026-11-21 17:05:59.123 UTC". */
#define WHEN_TEXT_SIZE 40
void when_text(char text[WHEN_TEXT_SIZE], int64_t ms);

/* "850 ms", "1.2 s", "45 s", "3 min", "5 h", "12 days". */
#define WHEN_AGE_SIZE 24
void when_age(char text[WHEN_AGE_SIZE], int64_t age_ms);

#endif
