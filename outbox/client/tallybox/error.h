/* SPDX-License-Identifier: MIT */
/* libtallybox: what each call returns. C11 or C++11 and later.
 *
 * The library has no state that a connection or a thread must set up first. A function that takes a
 * MYSQL * follows the rule of the client library: one thread at a time per connection. The others
 * say which threads may call them. */
#ifndef TALLYBOX_ERROR_H
#define TALLYBOX_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* What the caller may do. */
enum tallybox_result {
    TALLYBOX_OK,     /* it worked */
    TALLYBOX_RETRY,  /* it failed, or the outcome is unknown; a second try is harmless */
    TALLYBOX_REJECT, /* this event or task can never be taken as it is */
    TALLYBOX_FATAL   /* a setting, an account or a table is wrong: an operator must act */
};

#define TALLYBOX_ERROR_SIZE 384

/* Why a call failed: one line of UTF-8 that names the event or task by its number in the call,
 * from 0, without secrets and payloads. code: the number of the database server or the status of
 * HTTP; 0: none. Written only when the result is not TALLYBOX_OK. NULL is allowed everywhere. */
struct tallybox_error {
    int code;
    char text[TALLYBOX_ERROR_SIZE];
};

/* The version of the library: "0.4". Static; any thread. */
const char *tallybox_version(void);

#ifdef __cplusplus
}
#endif

#endif
