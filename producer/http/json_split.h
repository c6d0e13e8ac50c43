/* SPDX-License-Identifier: MIT */
/* Splits a JSON array into its elements, so that only one of them at a time is in memory as a tree.
 * It recognizes strings, brackets and commas only: each element is parsed afterwards, which finds
 * the errors inside it. Pure; any thread. */
#ifndef PRODUCER_HTTP_JSON_SPLIT_H
#define PRODUCER_HTTP_JSON_SPLIT_H

#include "common/err.h"
#include "producer/http/request_fault.h"

#include <stdbool.h>
#include <stddef.h>

struct json_split {
    const char *body;
    size_t len;
    size_t at;
};

struct json_piece {
    size_t at;
    size_t len;
};

/* Skips blanks. */
void json_split_blanks(struct json_split *split);

/* Takes the next element and returns the ',' or ']' after it. 0: the body ends before it. */
char json_split_next(struct json_split *split, struct json_piece *piece);

/* Counts the elements of an array; split.at is the position after its '['. noun: what it holds, for
 * messages. RC_REJECT: the array is bad for the reason in *fault. */
enum rc json_split_count(struct json_split split, size_t items_max, const char *noun, size_t *count,
                         struct request_fault *fault);

/* The position of a member's value in the text of a well-formed object. False: no member has this
 * name, spelled without escapes. */
bool json_split_member(const char *object, size_t len, const char *name, struct json_piece *value);

#endif
