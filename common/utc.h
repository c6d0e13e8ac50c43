/* SPDX-License-Identifier: MIT */
/* Times in UTC as the databases write them (2026-03-04 05:06:07) and as a record carries them (RFC
 * 3339). Pure; any thread. */
#ifndef COMMON_UTC_H
#define COMMON_UTC_H

#include <stddef.h>
#include <stdint.h>

#define UTC_UNKNOWN_MS INT64_MIN
#define UTC_TEXT_SIZE 32

/* "2026-03-04 05:06:07" with up to six digits of a second behind it, in ms since 1970;
 * UTC_UNKNOWN_MS for NULL, zero dates and anything else. */
int64_t utc_parse_ms(const char *text, size_t len);

/* "2026-03-04T05:06:07.089Z" (RFC 3339); returns its length. */
size_t utc_format(int64_t ms, char text[UTC_TEXT_SIZE]);

#endif
