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

enum fault_code {
    FAULT_NOT_JSON,     /* not JSON, something behind it, or a field given twice */
    FAULT_WRONG_TYPE,   /* not an object, not an integer */
    FAULT_MISSING,      /* a field or argument that must be there */
    FAULT_UNKNOWN,      /* a field or argument nobody knows */
    FAULT_OUT_OF_RANGE, /* a value that may not be */
    FAULT_DUPLICATE,    /* an argument given twice */
    FAULT_REFUSED,      /* by the database, this one vote */
    FAULT_NOT_FOUND,
    FAULT_METHOD,
    FAULT_MEDIA_TYPE,
    FAULT_TOO_LARGE,
    FAULT_NO_TOKEN,    /* no bearer token, or none of the right ones */
    FAULT_NO_SCOPE,    /* the token does not allow it, or nobody may here */
    FAULT_OTHER_HOST,  /* not a host that this server answers for */
    FAULT_BAD_REQUEST, /* not HTTP as it should be */
    FAULT_FULL,        /* too many wait already */
    FAULT_AWAY,        /* no database, or the process stops */
    FAULT_TIMEOUT,     /* not done in time, or nobody knows whether it was */
};

struct fault {
    enum fault_code code;
    char message[200];
    bool has_at;
    char at[96];
};

/* The code as clients see it, and the HTTP status of a request that failed with it; static. */
const char *fault_name(enum fault_code code);
int fault_status(enum fault_code code);

/* Sets code and message, without a place. Whatever the message quotes, it is one line of UTF-8. */
void fault_set(struct fault *fault, enum fault_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds the place; names of clients are cut rather than trusted. */
void fault_at(struct fault *fault, const char *at);

/* Appends the JSON above; and text as a JSON string, with whatever is not UTF-8 replaced. */
void fault_put(struct buf *out, const struct fault *fault);
void fault_put_text(struct buf *out, const char *text);

/* Where in a body it is: "/<index>/<field>", the parts that there are. The field may be one that a
 * client invented: it is escaped as RFC 6901 says. NULL: no field. */
void fault_place(struct fault *fault, bool array, size_t index, const char *field);

#endif
