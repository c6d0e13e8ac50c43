/* SPDX-License-Identifier: MIT */
/* Bytes as text: which bytes are UTF-8, bytes as base64, as JSON or for a terminal, and lists of
 * words. Pure; any thread. */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* The length of the UTF-8 sequence that text (ended by a zero byte) begins with; 0: there is none.
 */
size_t utf8_len(const char *text);

/* Converts the text to one line of UTF-8: line ends and tabs become blanks; control characters and
 * bytes that are no UTF-8 become '?'. Used for error texts that quote bytes from outside and are
 * cut at the end of their room. */
void utf8_clean(char *text);

/* Returns whether the text, ended by a zero byte, has ASCII characters only. */
bool text_is_ascii(const char *text);

/* Are all of the bytes UTF-8? utf8_prints(): and none of them steers a terminal, but for the ends
 * of lines and tabs. */
bool utf8_fits(const void *bytes, size_t len);
bool utf8_prints(const void *bytes, size_t len);

/* Appends bytes as base64, with the '=' at the end. */
void base64_put(struct buf *out, const void *bytes, size_t len);

/* Appends the decoded bytes, with or without the '=' at the end. False if the text is not base64;
 * then out may have a part of it. */
bool base64_take(struct buf *out, const char *text, size_t len);

/* Appends the name in `width` columns, the length, and the bytes: unchanged if they are printable
 * UTF-8, else as a hex dump of the first 4096. NULL is "(none)". */
void bytes_show(struct buf *out, int width, const char *name, const void *bytes, size_t len);

/* The next word and its length, borrowed from the list; NULL after the last one. *rest: the list
 * before the first call, the rest of it afterwards; NULL is a list without words. */
const char *list_next(const char **rest, char separator, size_t *len);

/* For a list with commas. No list has the empty word. */
bool list_has(const char *list, const char *word);
size_t list_count(const char *list);

/* Appends a word to a list for people, as "a, b", in a room of size bytes, which holds the list so
 * far or "". Words for which there is no room become ", ..." at the end. */
void text_list_add(char *list, size_t size, const char *word);

/* Cuts a text of more than size - 1 bytes, of which the room has the first size - 1, behind a word
 * and ends it with "...". len: the length of the whole text. */
void text_cut(char *text, size_t size, size_t len);

/* Appends text as a JSON string; bytes that are not UTF-8 become '?'. */
void json_text_put(struct buf *out, const char *text);

#endif
