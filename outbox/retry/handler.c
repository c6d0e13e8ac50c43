/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handler.h"

#include <stdarg.h>
#include <stdio.h>

void attempt_fail(struct attempt_result *attempt, enum fault_source source, int code,
                  enum fault_class fault, const char *format, ...)
{
    char text[sizeof(attempt->err.text)];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    attempt->end = ATTEMPT_FAILED;
    attempt->source = source;
    attempt->code = code;
    attempt->fault = fault;
    err_set(&attempt->err, "%s", text);
}

void attempt_refuse(struct attempt_result *attempt, const struct err *err)
{
    attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_REFUSED, "%s", err->text);
}

void attempt_reset(struct attempt_result *attempt)
{
    struct buf *result = attempt->result;

    *attempt = (struct attempt_result){.delay_ms = ATTEMPT_NO_DELAY, .result = result};
    buf_reset(result);
}

void attempt_cut(struct attempt_result *attempt)
{
    attempt->end = ATTEMPT_CUT;
    err_set(&attempt->err, "the process stops");
}

void attempt_lose_lease(struct attempt_result *attempt)
{
    attempt->end = ATTEMPT_CUT;
    err_set(&attempt->err, "the lease of the task could not be renewed");
}
