/* SPDX-License-Identifier: MIT */
/* "Did you mean ...?": finds the known word that is nearest to a mistyped one. Pure. */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

#define NEAREST_WORD_MAX 64 /* longer words are never near */

/* Starts empty: {.typed = "leese_ms"}; every known word is offered once. */
struct nearest {
    const char *typed;
    const char *word; /* the nearest one so far, or NULL when none is near enough; borrowed */
    size_t distance;
};

void nearest_offer(struct nearest *nearest, const char *word);

/* The number of letters to add, remove, change or swap to turn one word into the other, ignoring
 * case; NEAREST_WORD_MAX + 1 if one of them is too long to compare. */
size_t nearest_distance(const char *one, const char *other);

#endif
