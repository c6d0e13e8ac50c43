/* SPDX-License-Identifier: MIT */
#include "common/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define BEGINNING_LETTERS 3 /* fewer are the beginning of too many words */

static size_t find_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Computes the optimal string alignment distance with the usual table of distances between
 * prefixes. Three of its rows are enough: the third one is for two neighbours that changed places.
 */
size_t nearest_distance(const char *one, const char *other)
{
    size_t rows[3][NEAREST_WORD_MAX + 1];
    size_t rows_len = strlen(one);
    size_t cols_len = strlen(other);

    if (rows_len > NEAREST_WORD_MAX || cols_len > NEAREST_WORD_MAX)
        return NEAREST_WORD_MAX + 1;
    for (size_t col = 0; col <= cols_len; col++)
        rows[0][col] = col;
    for (size_t row = 1; row <= rows_len; row++) {
        size_t *now = rows[row % 3];
        const size_t *before = rows[(row + 2) % 3];
        const size_t *swapped = rows[(row + 1) % 3];

        now[0] = row;
        for (size_t col = 1; col <= cols_len; col++) {
            size_t change =
                before[col - 1] + (is_same_letter(one[row - 1], other[col - 1]) ? 0 : 1);

            now[col] = find_least(change, find_least(before[col], now[col - 1]) + 1);
            if (row > 1 && col > 1 && is_same_letter(one[row - 1], other[col - 2]) &&
                is_same_letter(one[row - 2], other[col - 1]))
                now[col] = find_least(now[col], swapped[col - 2] + 1);
        }
    }
    return rows[rows_len % 3][cols_len];
}

void nearest_offer(struct nearest *nearest, const char *word)
{
    size_t distance = nearest_distance(nearest->typed, word);
    size_t len = strlen(nearest->typed);
    size_t limit = len / 3;

    if (len >= BEGINNING_LETTERS && distance <= NEAREST_WORD_MAX &&
        strncmp(word, nearest->typed, len) == 0)
        distance = find_least(distance, 1);
    /* A third of the letters may be wrong; short words are allowed one. */
    if (distance > (limit > 0 ? limit : 1) || distance >= strlen(word))
        return;
    if (nearest->word && distance >= nearest->distance)
        return;
    nearest->word = word;
    nearest->distance = distance;
}
