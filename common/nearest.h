/* SPDX-License-Identifier: MIT */
/* "Did you mean ...?": finds the known word a mistyped one was probably meant to be. Pure. */
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

/* How many letters to add, leave out, change or swap to get from one word to the other, case
 * aside; NEAREST_WORD_MAX + 1 when one of them is too long to compare. */
size_t nearest_distance(const char *one, const char *other);

#endif
