/* SPDX-License-Identifier: MIT */
/* Finds the known word that is nearest to a mistyped one, for error texts that suggest it. Pure;
 * any thread. */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

#define NEAREST_WORD_MAX 64 /* longer words are never near */

/* Begins as {.typed = "leese_ms"}. The caller then offers every known word once. */
struct nearest {
    const char *typed;
    const char *word; /* the nearest offered word, borrowed; NULL: none is near enough */
    size_t distance;
};

/* Keeps word if it is nearer than the words that were offered before, and near enough: at most a
 * third of the typed letters differ, or one letter of a short word, or it begins with the three or
 * more letters that were typed. */
void nearest_offer(struct nearest *nearest, const char *word);

/* The number of letters to add, remove, change or swap to turn one word into the other, ignoring
 * case; NEAREST_WORD_MAX + 1 if one of them is too long to compare. */
size_t nearest_distance(const char *one, const char *other);

#endif
