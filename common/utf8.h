/* SPDX-License-Identifier: MIT */
/* Which bytes are text. Pure; any thread. */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the UTF-8 sequence that text (ended by a zero byte) begins with; 0: there is none.
 */
size_t utf8_len(const char *text);

/* Converts the text to one line of UTF-8: line ends and tabs become blanks; control characters and
 * bytes that are no UTF-8 become '?'. Used for error texts that quote bytes from outside and are
 * cut at the end of their room. */
void utf8_clean(char *text);

/* Are all of the bytes UTF-8? utf8_prints(): and none of them steers a terminal, but for the ends
 * of lines and tabs. */
bool utf8_fits(const void *bytes, size_t len);
bool utf8_prints(const void *bytes, size_t len);

#endif
