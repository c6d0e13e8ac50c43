/* SPDX-License-Identifier: MIT */
/* Lists as people write them in settings and on the command line: words with one separator between
 * them. The empty text is one empty word, and a separator at the end has one behind it. Pure; any
 * thread. */
#ifndef COMMON_LIST_H
#define COMMON_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The next word and its length, borrowed from the list; NULL after the last one. *rest: the list at
 * first, what is left of it afterwards; NULL is a list of no words. */
const char *list_next(const char **rest, char separator, size_t *len);

/* Of a list with commas. An empty word is in none. */
bool list_has(const char *list, const char *word);
size_t list_count(const char *list);

#endif
