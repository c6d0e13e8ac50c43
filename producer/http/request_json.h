/* SPDX-License-Identifier: MIT */
/* What all JSON requests have in common: their errors, and arrays that are taken element by
 * element. A client reads an error as
 *
 *     {"error":{"code":"out_of_range","message":"...","at":"/0/contentId"}}
 *
 * `code` is for programs and never changes its meaning, `message` is for people. `at` is the place:
 * a JSON pointer (RFC 6901) into the body, or the name of a query argument; it is left out where
 * the whole request is meant. Pure; any thread. */
#ifndef PRODUCER_HTTP_REQUEST_JSON_H
#define PRODUCER_HTTP_REQUEST_JSON_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

/* request_json.c has the name, the status and the meaning of each. */
enum request_fault_code {
    REQUEST_FAULT_NOT_JSON,
    REQUEST_FAULT_WRONG_TYPE,
    REQUEST_FAULT_MISSING,
    REQUEST_FAULT_UNKNOWN,
    REQUEST_FAULT_OUT_OF_RANGE,
    REQUEST_FAULT_DUPLICATE,
    REQUEST_FAULT_REFUSED,
    REQUEST_FAULT_NOT_FOUND,
    REQUEST_FAULT_DELETED,
    REQUEST_FAULT_EXPIRED,
    REQUEST_FAULT_METHOD,
    REQUEST_FAULT_MEDIA_TYPE,
    REQUEST_FAULT_TOO_LARGE,
    REQUEST_FAULT_NO_TOKEN,
    REQUEST_FAULT_NO_SCOPE,
    REQUEST_FAULT_OTHER_HOST,
    REQUEST_FAULT_BAD_REQUEST,
    REQUEST_FAULT_RETRY_TRAFFIC,
    REQUEST_FAULT_CONFLICT,
    REQUEST_FAULT_FULL,
    REQUEST_FAULT_UNAVAILABLE,
    REQUEST_FAULT_TIMEOUT,
    REQUEST_FAULT_CODES,
};

struct request_fault {
    enum request_fault_code code;
    int status; /* 0: that of the code */
    char message[200];
    bool has_at;
    char at[96];
};

/* The code as clients see it, the HTTP status of a request that failed with it, and its meaning for
 * the reference page; static. */
const char *request_fault_name(enum request_fault_code code);
int request_fault_status(enum request_fault_code code);
const char *request_fault_about(enum request_fault_code code);

/* Sets code and message, without a place. The message becomes one line of UTF-8; if it is too long
 * it is cut behind a word and ends with "...". */
void request_fault_set(struct request_fault *fault, enum request_fault_code code,
                       const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds the place; it is cut where it is too long. */
void request_fault_at(struct request_fault *fault, const char *at);

/* Appends the JSON above. */
void request_fault_put(struct buf *out, const struct request_fault *fault);

struct json_t;
struct json_error_t;

/* Parses JSON with flags as json_loadb(), but a zero byte, which jansson skips behind a number, is
 * an error: a text that a parser keeps as it was sent would end there. error may be NULL. */
struct json_t *request_json_load(const char *text, size_t len, size_t flags,
                                 struct json_error_t *error);

/* Parses a body that must be one JSON object without duplicate names. *tree: what was parsed, which
 * the caller frees after any result; NULL: nothing. RC_REJECT: *fault has the reason. RC_FATAL: no
 * memory. */
enum rc request_json_load_object(const char *body, size_t len, struct json_t **tree,
                                 struct request_fault *fault);

/* Appends the text of a member of the body's object as it was sent, so that a number keeps its
 * digits. value: the same as a tree. */
void request_json_copy_member(const char *body, size_t len, const char *name,
                              const struct json_t *value, struct buf *out);

/* Adds the place in a body: "/<index>" in an array, then "/<field>" unless field is NULL. The field
 * may come from a client: it is escaped by the rules of RFC 6901. */
void request_fault_place(struct request_fault *fault, bool array, size_t index, const char *field);

/* Sets code, message and place of a field of a body that is one object: "FIELD WORDS". Returns
 * false, for the reader of the field to return. */
bool request_fault_field(struct request_fault *fault, const char *field,
                         enum request_fault_code code, const char *words);

/* Reads true or false; else sets the fault of the field and returns false. */
bool request_json_take_flag(const struct json_t *value, const char *field, bool *flag,
                            struct request_fault *fault);

/* Splits a JSON array into its elements, so that only one of them at a time is in memory as a tree.
 * It recognizes strings, brackets and commas only: each element is parsed afterwards, which finds
 * the errors inside it. */
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
