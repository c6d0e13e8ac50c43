/* SPDX-License-Identifier: MIT */
/* Ids of voters and contents as text. Pure; any thread. */
#ifndef PRODUCER_VOTE_VOTE_ID_H
#define PRODUCER_VOTE_VOTE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The range of an id, for error texts. */
#define VOTE_ID_RANGE "1 to 2^63-1"

/* Reads decimal digits in that range, without sign or blanks; leading zeros are allowed. False: the
 * text is no such id, and *id is undefined. */
bool vote_id_parse(const char *text, size_t len, int64_t *id);

#endif
