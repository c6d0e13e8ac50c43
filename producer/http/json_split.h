/* SPDX-License-Identifier: MIT */
/* The elements of a JSON array one after the other, so that only one at a time is in memory as a
 * tree. It looks no closer than at strings, brackets and commas: each element is parsed afterwards,
 * and what is wrong inside it is found there. Pure; any thread. */
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

void json_split_blanks(struct json_split *split);

/* The next element and the ',' or ']' behind it, which is taken. 0: the body ended before. */
char json_split_next(struct json_split *split, struct json_piece *piece);

/* Counts the elements; the split stands behind the '['. RC_REJECT: *fault says what is wrong with
 * the array; noun: what it holds. */
enum rc json_split_count(struct json_split split, size_t items_max, const char *noun, size_t *count,
                         struct request_fault *fault);

/* Where the value of a member stands in the text of an object, which is well-formed. False: there
 * is none of that name, written plainly. */
bool json_split_member(const char *object, size_t len, const char *name, struct json_piece *value);

#endif
