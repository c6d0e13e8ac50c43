/* SPDX-License-Identifier: MIT */
/* What is wrong with a request, as clients read it:
 *
 *     {"error":{"code":"out_of_range","message":"...","at":"/0/contentId"}}
 *
 * `code` is for programs and never changes its meaning, `message` is for people. `at` is the place:
 * a JSON pointer (RFC 6901) into the body, or the name of a query argument; it is left out where
 * the whole request is meant. Pure; any thread. */
#ifndef PRODUCER_HTTP_FAULT_H
#define PRODUCER_HTTP_FAULT_H

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* fault.c has the name, the status and the meaning of each. */
enum fault_code {
    FAULT_NOT_JSON,
    FAULT_WRONG_TYPE,
    FAULT_MISSING,
    FAULT_UNKNOWN,
    FAULT_OUT_OF_RANGE,
    FAULT_DUPLICATE,
    FAULT_REFUSED,
    FAULT_NOT_FOUND,
    FAULT_METHOD,
    FAULT_MEDIA_TYPE,
    FAULT_TOO_LARGE,
    FAULT_NO_TOKEN,
    FAULT_NO_SCOPE,
    FAULT_OTHER_HOST,
    FAULT_BAD_REQUEST,
    FAULT_FULL,
    FAULT_AWAY,
    FAULT_TIMEOUT,
    FAULT_CODES,
};

struct fault {
    enum fault_code code;
    char message[200];
    bool has_at;
    char at[96];
};

/* The code as clients see it, the HTTP status of a request that failed with it, and its meaning for
 * the reference page; static. */
const char *fault_name(enum fault_code code);
int fault_status(enum fault_code code);
const char *fault_about(enum fault_code code);

/* Sets code and message, without a place. The message becomes one line of UTF-8; it is cut where it
 * is too long. */
void fault_set(struct fault *fault, enum fault_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds the place; it is cut where it is too long. */
void fault_at(struct fault *fault, const char *at);

/* Appends the JSON above. */
void fault_put(struct buf *out, const struct fault *fault);

/* Appends text as a JSON string; bytes that are not UTF-8 become '?'. */
void fault_put_text(struct buf *out, const char *text);

/* Adds the place in a body: "/<index>" in an array, then "/<field>" unless field is NULL. The field
 * may come from a client: it is escaped by the rules of RFC 6901. */
void fault_place(struct fault *fault, bool array, size_t index, const char *field);

#endif
