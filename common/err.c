/* SPDX-License-Identifier: MIT */
#include "common/err.h"

#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* By way of a copy, because args may point into the old text. */
__attribute__((format(printf, 2, 0))) static void set_text(struct err *err, const char *format,
                                                           va_list args)
{
    char text[sizeof(err->text)];

    vsnprintf(text, sizeof(text), format, args);
    utf8_clean(text);
    memcpy(err->text, text, sizeof(text));
}

void err_set(struct err *err, const char *format, ...)
{
    va_list args;

    if (!err)
        return;
    err->code = 0;
    va_start(args, format);
    set_text(err, format, args);
    va_end(args);
}

enum rc err_fail(struct err *err, enum rc rc, int code, const char *format, ...)
{
    va_list args;

    if (!err)
        return rc;
    err->code = code;
    va_start(args, format);
    set_text(err, format, args);
    va_end(args);
    return rc;
}

void err_wrap(struct err *err, const char *format, ...)
{
    char was[sizeof(err->text)];
    va_list args;
    size_t len;

    if (!err)
        return;
    memcpy(was, err->text, sizeof(was));
    va_start(args, format);
    set_text(err, format, args);
    va_end(args);
    len = strlen(err->text);
    snprintf(err->text + len, sizeof(err->text) - len, ": %s", was);
    utf8_clean(err->text);
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
