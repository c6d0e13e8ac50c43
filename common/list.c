/* SPDX-License-Identifier: MIT */
#include "common/list.h"

#include <string.h>

const char *list_next(const char **rest, char separator, size_t *len)
{
    const char *word = *rest;
    const char *end;

    if (!word)
        return NULL;
    end = strchr(word, separator);
    *len = end ? (size_t)(end - word) : strlen(word);
    *rest = end ? end + 1 : NULL;
    return word;
}

bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    size_t other_len;

    for (const char *other; (other = list_next(&list, ',', &other_len));)
        if (len > 0 && other_len == len && memcmp(other, word, len) == 0)
            return true;
    return false;
}

size_t list_count(const char *list)
{
    size_t count = 0;
    size_t len;

    while (list_next(&list, ',', &len))
        count++;
    return count;
}
