/* SPDX-License-Identifier: MIT */
#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void err_set(struct err *err, const char *format, ...)
{
    va_list args;

    if (!err)
        return;
    err->code = 0;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
}

enum rc err_fail(struct err *err, enum rc rc, int code, const char *format, ...)
{
    va_list args;

    if (!err)
        return rc;
    err->code = code;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    return rc;
}

void err_wrap(struct err *err, const char *format, ...)
{
    char was[sizeof(err->text)];
    va_list args;
    int n;

    if (!err)
        return;
    memcpy(was, err->text, sizeof(was));
    va_start(args, format);
    n = vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", was);
}

const char *rc_name(enum rc rc)
{
    switch (rc) {
    case RC_OK:
        return "ok";
    case RC_RETRY:
        return "retry";
    case RC_REJECT:
        return "reject";
    case RC_FATAL:
        return "fatal";
    }
    return "unknown";
}
