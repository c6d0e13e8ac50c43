/* SPDX-License-Identifier: MIT */
/* Ids of voters and contents as people and programs write them. Pure; any thread. */
#ifndef PRODUCER_VOTE_VOTE_ID_H
#define PRODUCER_VOTE_VOTE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an id must be, for error sentences. */
#define VOTE_ID_RANGE "1 to 2^63-1"

/* Takes plain digits in that range, without sign or blanks; zeros in front are fine. */
bool vote_id_parse(const char *text, size_t len, int64_t *id);

#endif
