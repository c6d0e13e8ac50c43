/* SPDX-License-Identifier: MIT */
/* What a caller may do after a call (enum rc) and what a person should read (struct err).
 * Any thread may use these on an err of its own. */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#include <stddef.h>

enum rc {
    RC_OK,     /* it worked */
    RC_RETRY,  /* it did not, or nobody knows; a second try is harmless */
    RC_REJECT, /* this one item cannot be handled: set it aside and go on */
    RC_FATAL,  /* no further work makes sense: stop, and be restarted by hand or supervisor */
};

/* code is the foreign code (MySQL's errno, librdkafka's rd_kafka_resp_err_t, errno) or 0. */
struct err {
    int code;
    char text[384];
};

/* Writes the sentence, cut at the end of text; code becomes 0. Whatever it quotes, it is one line
 * of UTF-8 (common/utf8.h). A NULL err is allowed everywhere. */
void err_set(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As err_set(), then returns rc: `return err_fail(err, RC_REJECT, 0, "...")`. */
enum rc err_fail(struct err *err, enum rc rc, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "<words>: " in front of what err already says and keeps its code. */
void err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "ok", "retry", "reject" or "fatal"; static. */
const char *rc_name(enum rc rc);

#endif
