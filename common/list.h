/* SPDX-License-Identifier: MIT */
/* Lists in settings and on the command line: words with one separator between them. The empty text
 * is one empty word, and a separator at the end is followed by one. Pure; any thread. */
#ifndef COMMON_LIST_H
#define COMMON_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The next word and its length, borrowed from the list; NULL after the last one. *rest: the list
 * before the first call, the rest of it afterwards; NULL is a list without words. */
const char *list_next(const char **rest, char separator, size_t *len);

/* For a list with commas. No list has the empty word. */
bool list_has(const char *list, const char *word);
size_t list_count(const char *list);

#endif
