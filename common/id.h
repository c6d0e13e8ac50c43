/* SPDX-License-Identifier: MIT */
/* Event ids: UUID version 7 (RFC 9562): 48 bits of milliseconds, then random bits, so that later
 * ids sort later and indexes grow at their end. And ids that are numbers: of voters, contents and
 * rows. Pure; any thread. */
#ifndef COMMON_ID_H
#define COMMON_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ID_BYTES 16
#define ID_TEXT_SIZE 37 /* 36 characters and the end */

struct id {
    uint8_t bytes[ID_BYTES];
};

/* Makes an id from the time and ten random bytes. Ids of one millisecond have no order. */
void id_make(struct id *id, int64_t wall_ms, const uint8_t random_bytes[10]);

/* As id_make() with the machine's clock and generator. */
void id_new(struct id *id);

/* Lower case, 8-4-4-4-12. */
void id_format(const struct id *id, char text[ID_TEXT_SIZE]);

/* Parses any UUID of 36 characters in either case. False leaves id unchanged. */
bool id_parse(struct id *id, const char *text, size_t len);

/* The range of an id that is a number, for error texts. */
#define ID_NUMBER_RANGE "1 to 2^63-1"

/* Parses decimal digits in that range, without sign or blanks; leading zeros are allowed. False:
 * the text is no such id, and *number is undefined. */
bool id_parse_number(const char *text, size_t len, int64_t *number);

#endif
