/* SPDX-License-Identifier: MIT */
/* The result of a call: what the caller may do (enum rc) and the text for the log (struct err). Any
 * thread may use these on its own err. */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#include <stddef.h>

enum rc {
    RC_OK,     /* it worked */
    RC_RETRY,  /* it failed, or the outcome is unknown; a second try is harmless */
    RC_REJECT, /* this item cannot be handled: record it and continue */
    RC_FATAL,  /* no further work is possible: stop, and let the operator or supervisor restart */
};

/* code is the foreign code (MySQL's errno, librdkafka's rd_kafka_resp_err_t, errno) or 0. */
struct err {
    int code;
    char text[384];
};

/* Writes the text, cut to its size; code becomes 0. The text is one line of UTF-8 (common/text.h),
 * whatever it quotes. A NULL err is allowed everywhere. */
void err_set(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As err_set(), then returns rc: `return err_fail(err, RC_REJECT, 0, "...")`. */
enum rc err_fail(struct err *err, enum rc rc, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "<words>: " in front of the text of err and keeps its code. */
void err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "ok", "retry", "reject" or "fatal"; static. */
const char *rc_name(enum rc rc);

#endif
