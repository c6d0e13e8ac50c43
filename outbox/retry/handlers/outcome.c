/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/outcome.h"

#include <stdarg.h>
#include <stdio.h>

void outcome_fail(struct retry_outcome *outcome, enum fault_source source, int code,
                  enum fault_class fault, const char *format, ...)
{
    char text[sizeof(outcome->err.text)];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    outcome->end = ATTEMPT_FAILED;
    outcome->source = source;
    outcome->code = code;
    outcome->fault = fault;
    err_set(&outcome->err, "%s", text);
}

void outcome_refuse(struct retry_outcome *outcome, const struct err *err)
{
    outcome_fail(outcome, FAULT_PLAIN, 0, FAULT_REFUSED, "%s", err->text);
}

void outcome_cut(struct retry_outcome *outcome)
{
    outcome->end = ATTEMPT_CUT;
    err_set(&outcome->err, "the process stops");
}

void outcome_lose(struct retry_outcome *outcome)
{
    outcome->end = ATTEMPT_CUT;
    err_set(&outcome->err, "the lease of the task could not be renewed");
}
